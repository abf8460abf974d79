#!/usr/bin/env python3
"""Draws the curves of one or several Convoy runs from their metrics.h5: loss, accuracy, throughput, and where the
time went.

build/convoy plot RUN... [--out FILE.png] [--title TEXT]    RUN: a run folder, or a metrics.h5; may still be running.
build/convoy plot RUN RUN --difference    the losses of two runs, and how far the second is from the first
build/convoy report --scaling --format json RUN... | build/convoy plot --scaling - [--out scaling.png]
(python3 src/plot/plot.py does the same, if that python3 has what src/plot/requirements.txt names.)
Exit codes as Convoy's own: 0 drawn, 2 usage, 3 a file that cannot be used, 5 the picture cannot be written.
"""
import sys

# Imports Python's own modules, else installed ones, else those beside this script. Imports none
# from the current folder, where a stranger may have put them.
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # this script's folder
import posix

sys.path[:] = [place for place in sys.path if place.startswith("/") and place != posix.readlink("/proc/self/cwd")]
import os
from importlib.machinery import FileFinder, SourceFileLoader


class Source(SourceFileLoader):
    """A module beside this script. Its byte code is not used: others may be able to write into __pycache__."""

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path), self.path)


sys.path.append(os.path.dirname(os.path.realpath(__file__)))
sys.path_importer_cache[sys.path[-1]] = FileFinder(sys.path[-1], (Source, [".py"]))
sys.dont_write_bytecode = True  # no __pycache__ in a checkout
import argparse
import signal

from convoy_plot_files import BAD_INPUT, USAGE, Output, fail, folder_of, say
from convoy_plot_metrics import MetricsFile, place_of
from convoy_plot_base import RUN_COLORS, colors, np, plain, plt, save, some
from convoy_plot_difference import draw_difference
from convoy_plot_scaling import draw_scaling, read_cells
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

PART_COLORS = {"data wait": "#E69F00", "compute": "#0072B2", "exposed communication": "#D55E00",
               "collective wait": "#D55E00"}
BINS = 120  # points of a time split; each is the mean of several steps
MOST_POINTS = 100_000  # of a line that are drawn
MOST_RANKS = 4096  # that are drawn, each as three bars


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(USAGE, f"{message}; usage: plot.py RUN... [--out FILE.png] [--title TEXT]")


def path_of(argument):
    return os.path.join(argument, "metrics.h5") if os.path.isdir(argument) else argument


class Run:
    """The columns of one metrics.h5: run.train["loss"], run.eval["step"], ... as arrays; a table may be empty."""

    TABLES = {"train": ("step", "loss", "accuracy", "step_seconds", "data_seconds", "comm_exposed_seconds"),
              "eval": ("step", "loss", "accuracy"), "epochs": ("epoch", "images_per_second"), "ranks": ("rank", "host"),
              "rank_epochs": ("rank", "data_seconds", "compute_seconds", "collective_wait_seconds")}

    def __init__(self, argument):
        path = path_of(argument)
        with MetricsFile(path, place_of(argument, path)) as file:
            for table, columns in self.TABLES.items():
                setattr(self, table, file.table(table, columns))
            events = file.table("events", ("kind", "step"))
        self.name = os.path.basename(os.path.dirname(os.path.abspath(path)))
        self.restarts = [step for kind, step in zip(events["kind"], events["step"]) if kind == b"restart"]
        if not (len(self.train["step"]) or len(self.eval["step"]) or len(self.epochs["epoch"])):
            fail(BAD_INPUT, f"{path}: the run has no rows yet")


def load_runs(arguments):
    runs = [Run(argument) for argument in arguments]
    names = [run.name for run in runs]
    for run, argument in zip(runs, arguments):
        if names.count(run.name) > 1:  # same folder name in different places
            run.name = argument.rstrip("/")
    return runs


def curve(axes, x, y, color, label=None, **style):
    """Draws a line. Marks its points if they are few, so that one step or one epoch can be seen."""
    marker = {"marker": "o", "markersize": 4} if len(x) <= 40 else {}
    axes.plot(*thinned(x, y), color=color, label=label, **{**marker, **style})


def thinned(x, y):
    """Returns at most MOST_POINTS points of a line, at equal distances: a picture shows no more."""
    every = max(1, -(-len(x) // MOST_POINTS))
    return x[::every], y[::every]


def running_mean(value, window):
    """Returns the means of each `window` neighbours: NaN where one of them is not finite."""
    known = np.isfinite(value)
    sums, counts = (np.concatenate(([0], np.cumsum(v))) for v in (np.where(known, value, 0), known))
    means = (sums[window:] - sums[:-window]) / window
    return np.where(counts[window:] - counts[:-window] == window, means, np.nan)


def draw_training(axes, runs, column, scale, label):
    """Draws one column against the step: training (thin) and test (thick, dashed)."""
    for run, color in zip(runs, colors(runs)):
        step, value = run.train["step"], run.train[column] * scale
        window = len(step) // 60
        if window >= 3:  # the raw curve stays visible under its running mean
            axes.plot(*thinned(step, value), color=color, alpha=0.25, linewidth=0.8)
            step, value = step[window - 1:], running_mean(value, window)
        curve(axes, step, value, color, linewidth=1.4)
        test = color if len(runs) > 1 else RUN_COLORS[1]
        curve(axes, run.eval["step"], run.eval[column] * scale, test, linewidth=1.8, linestyle="--")
    axes.set(xlabel="optimizer step", ylabel=label)
    whole_numbers(axes)
    one = len(runs) == 1
    handles = []
    if any(len(run.train["step"]) for run in runs):
        handles.append(Line2D([], [], color=RUN_COLORS[0] if one else "0.3", label="train"))
    if any(len(run.eval["step"]) for run in runs):
        handles.append(Line2D([], [], color=RUN_COLORS[1] if one else "0.3", linestyle="--", label="test"))
    axes.legend(handles=handles)


def draw_loss(axes, runs):
    axes.set_title("Loss")
    draw_training(axes, runs, "loss", 1, "cross-entropy loss (nat)")
    values = np.concatenate([table["loss"] for run in runs for table in (run.train, run.eval)])
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() > 100 * values.min():
        axes.set_yscale("log")


def draw_accuracy(axes, runs):
    axes.set_title("Accuracy")
    draw_training(axes, runs, "accuracy", 100, "accuracy (%)")
    if axes.get_ylim()[1] > 97:
        axes.set_ylim(top=101)


def draw_throughput(axes, runs):
    axes.set_title("Throughput")
    for run, color in zip(runs, colors(runs)):
        curve(axes, run.epochs["epoch"], run.epochs["images_per_second"], color, linewidth=1.6)
    if not any(len(run.epochs["epoch"]) for run in runs):
        note(axes, "no epoch is complete yet")
    axes.set(xlabel="epoch", ylabel="images/s, all ranks")
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.08)
    whole_numbers(axes)


def split(train):
    """Returns ms per step in data wait, compute and exposed communication. Leaves out rows without a measurement."""
    known = np.isfinite(train["step_seconds"])
    columns = ("step_seconds", "data_seconds", "comm_exposed_seconds")
    whole, data, comm = (np.nan_to_num(train[c][known]) * 1e3 for c in columns)
    parts = {"data wait": data, "compute": np.maximum(whole - data - comm, 0), "exposed communication": comm}
    return train["step"][known], parts


def draw_time(axes, runs):
    """Draws the parts of a step: over the steps of one run, or for several runs as bars of their means."""
    axes.set_title("Where the time of a step goes")
    splits = [split(run.train) for run in runs]
    if not any(len(step) for step, _ in splits):
        return note(axes, "no step was timed")
    step, parts = splits[0]
    if len(runs) == 1 and len(step) > 1:
        groups = np.array_split(np.arange(len(step)), min(BINS, len(step)))
        means = [[values[group].mean() for group in groups] for values in parts.values()]
        axes.stackplot([step[group].mean() for group in groups], means, labels=parts,
                       colors=[PART_COLORS[p] for p in parts])
        axes.set(xlabel="optimizer step", xlim=(step[0], step[-1]))
        clip_peaks(axes, np.sum(means, axis=0))
    else:
        # Leaves out the first row, which includes warm-up, unless it is the only one.
        means = {part: [p[part][min(1, len(s) - 1):].mean() if len(s) else 0 for s, p in splits] for part in parts}
        names = [run.name for run in runs] if len(runs) > 1 else [f"step {step[0]}"]
        names = [name if len(name) <= 20 else name[:9] + "…" + name[-9:] for name in names]
        stacked_bars(axes, [plain(name) for name in names], means)
    axes.set_ylabel("time of a step (ms)")
    legend_above_data(axes)


def draw_ranks(axes, run):
    """Draws each rank's time, the mean over epochs: a straggler computes longer and waits less in collectives."""
    table = run.rank_epochs
    ranks, of_row, rows = np.unique(table["rank"], return_inverse=True, return_counts=True)
    if len(ranks) > MOST_RANKS:
        return note(axes, f"{len(ranks):,} ranks are too many to draw")
    columns = {"data wait": "data_seconds", "compute": "compute_seconds", "collective wait": "collective_wait_seconds"}
    means = {part: np.bincount(of_row, np.nan_to_num(table[c])) / rows for part, c in columns.items()}
    axes.set_title("Time of each rank: a straggler computes longer, and the others wait for it")
    hosts = {rank: plain(host.decode("utf-8", "replace")) for rank, host in zip(run.ranks["rank"], run.ranks["host"])}
    names = [f"{rank}\n{hosts[rank]}" if rank in hosts and len(ranks) <= 8 else str(rank) for rank in ranks]
    stacked_bars(axes, names, means)
    axes.set(xlabel="rank", ylabel="time in an epoch, mean (s)")
    legend_above_data(axes)


def stacked_bars(axes, names, parts):
    bottom = np.zeros(len(names))
    for part, values in parts.items():
        axes.bar(range(len(names)), values, bottom=bottom, width=0.6, label=part, color=PART_COLORS[part])
        bottom += values
    crowded = sum(map(len, names)) > 50 and len(names) <= 32 and max(map(len, names)) > 3
    axes.set_xticks(some(range(len(names))))
    axes.set_xticklabels(some(names), rotation=20 if crowded else 0, ha="right" if crowded else "center", fontsize=8)
    margin = 0.7 if len(names) > 1 else 1.2  # a single bar as wide as the panel looks like an area
    axes.set_xlim(-margin, len(names) - 1 + margin)


def clip_peaks(axes, total):
    """Keeps one slow step (the first, a checkpoint) from flattening the rest, and says so."""
    usual, peak = np.percentile(total, 95), total.max()
    if usual > 0 and peak > 2.5 * usual:
        axes.set_ylim(0, 1.5 * usual)
        axes.text(0.02, 0.03, f"highest: {peak:.3g} ms", transform=axes.transAxes, fontsize=8, color="white",
                  bbox={"facecolor": "0.2", "alpha": 0.6, "edgecolor": "none"})


def legend_above_data(axes):
    axes.set_ylim(0, axes.get_ylim()[1] * 1.22)
    axes.legend(loc="upper center", ncol=3)


def whole_numbers(axes):
    """Puts ticks at whole numbers only, also on an axis with a single value, because steps are counted."""
    left, right = axes.get_xlim()
    if right - left < 1:
        axes.set_xlim((left + right) / 2 - 1, (left + right) / 2 + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def note(axes, text):
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")


def summary(run):
    words = [plain(run.name)]
    if len(run.ranks["rank"]):
        words.append(f"{len(run.ranks['rank'])} rank" + "s" * (len(run.ranks["rank"]) > 1))
    if len(run.eval["accuracy"]):
        words.append(f"test accuracy {100 * run.eval['accuracy'][-1]:.2f} %")
    return ", ".join(words)


def draw(runs, title, out):
    plt.rcParams.update({"axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "axes.spines.top": False,
                         "axes.spines.right": False, "font.size": 10, "legend.fontsize": 8, "legend.framealpha": 0.9})
    stragglers = len(runs) == 1 and len(set(runs[0].rank_epochs["rank"])) > 1
    labels = [summary(run) for run in runs]
    columns = max(1, min(3, len(runs), 160 // (max(map(len, labels)) + 8)))
    legend_rows = -(-len(runs) // columns) if len(runs) > 1 else 0
    heights = ([0.07 * legend_rows] if legend_rows else []) + [1, 1] + [1] * stragglers
    figure = plt.figure(figsize=(12, 0.6 + 3.7 * sum(heights)), constrained_layout=True)
    figure.set_constrained_layout_pads(h_pad=0.08)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    top = 1 if legend_rows else 0
    places = (grid[top, 0], grid[top, 1], grid[top + 1, 0], grid[top + 1, 1])
    for place, panel in zip(places, (draw_loss, draw_accuracy, draw_throughput, draw_time)):
        panel(figure.add_subplot(place), runs)
    if stragglers:
        draw_ranks(figure.add_subplot(grid[2, :]), runs[0])
    if legend_rows:
        axes = figure.add_subplot(grid[0, :])
        axes.axis("off")
        handles = [Line2D([], [], color=color, linewidth=3, label=label) for label, color in zip(labels, colors(runs))]
        axes.legend(handles=handles, loc="center", ncol=columns, frameon=False, fontsize=9, borderaxespad=0)
    figure.suptitle(plain(title) if title else ("Convoy runs" if legend_rows else labels[0]), fontsize=13)
    save(figure, out)


def output_of(arguments):
    """Returns the picture's Output. Its folder is opened before any file is read."""
    if arguments.out or arguments.scaling:
        return Output(arguments.out or "scaling.png")
    first = arguments.runs[0]
    folder = os.path.dirname(os.path.abspath(path_of(first)))
    return Output(os.path.join(folder, "metrics.png"), folder_of(first))


def draw_as_asked(arguments):
    """Draws the picture that the arguments ask for. Returns its name."""
    out = output_of(arguments)
    if arguments.scaling:
        draw_scaling(read_cells(arguments.runs[0]), arguments.title, out)
        return out.path
    runs = load_runs(arguments.runs)
    if arguments.difference:
        print(draw_difference(*runs, arguments.title, out))
    else:
        draw(runs, arguments.title, out)
    return out.path


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when its reader is gone
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folder, or metrics.h5")
    parser.add_argument("--out", metavar="FILE.png",
                        help="the picture (default: metrics.png in the first run's folder)")
    parser.add_argument("--title", help="title of the picture")
    parser.add_argument("--scaling", action="store_true",
                        help="RUN is what convoy report --scaling --format json printed; - for stdin")
    parser.add_argument("--difference", action="store_true",
                        help="draw the difference of the training losses of two runs")
    arguments = parser.parse_args()
    if arguments.scaling and len(arguments.runs) != 1:
        fail(USAGE, "--scaling takes one file, or - for stdin: what convoy report --scaling --format json printed")
    if arguments.difference and len(arguments.runs) != 2:
        fail(USAGE, "--difference takes two runs")
    try:
        say(draw_as_asked(arguments))
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        fail(BAD_INPUT, f"{' '.join(arguments.runs)}: has values that cannot be drawn: {error}")


if __name__ == "__main__":
    main()
