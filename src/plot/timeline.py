#!/usr/bin/env python3
"""Draws a training step of every rank, from the trace that `convoy bench --timeline FILE` wrote.

timeline.py TRACE.json [--out FILE.png]

A rank has two rows. The upper one shows its operations by class. The lower one shows the all-reduces in flight, each
from its start until its completion was noticed. Red is the time that all-reduces cost the step: waiting for them and,
paler, starting and progressing them between operations. With MPI, the computing thread has to progress them. The
all-reduces of --sync-bn count as batch norm. The title has the shares of the rank where they are largest.
If there are more than 64 ranks, the first 64 are drawn.
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
import collections
import json
import signal

from convoy_plot_files import BAD_INPUT, USAGE, Output, at_once, fail, refuse_special, say
from convoy_plot_base import plain, plt, save
from matplotlib.patches import Patch

# Okabe and Ito's colours, which stay apart for colour-blind readers; red is kept for communication.
COLORS = {"forward convolution": "#0072B2", "data gradient": "#56B4E9", "weight gradient": "#009E73",
          "batch norm": "#E69F00", "optimizer": "#CC79A7", "other": "#999999", "all-reduce in flight": "#F0C9A8",
          "starting and moving all-reduces": "#FF9896", "waiting for all-reduces": "#D62728"}
LONGEST = 256 << 20  # letters of a trace that are read
MOST_RANKS = 64  # that are drawn, as each takes two megabytes of memory
WAIT, MOVE = "waiting for all-reduces", "starting and moving all-reduces"
# spans: (kind, begin, milliseconds); sums: (begin, milliseconds)
Rank = collections.namedtuple("Rank", "name spans sums")


def kind_of(event):
    name, group = event["name"], event["cat"]
    if group.startswith("all-reduce"):
        return WAIT if name == "wait for all-reduce" else MOVE
    if group == "conv forward":
        return "forward convolution"
    if group.startswith("conv "):
        return group.removeprefix("conv ") if "data" in group else "weight gradient"
    return next((kind for kind in ("batch norm", "optimizer") if group.startswith(kind)), "other")


def read(path):
    """Returns the ranks of a trace, in order, and the benchmark's result."""
    refuse_special(path, "give what convoy bench --timeline FILE wrote")
    with open(path, encoding="utf-8", opener=at_once) as file:
        text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST >> 20} MiB")
        trace = json.loads(text)
    ranks = {}
    began = {}
    for e in trace["traceEvents"]:
        rank = ranks.setdefault(e["pid"], Rank([], [], []))
        if e["ph"] == "M" and e["name"] == "process_name":
            rank.name.append(e["args"]["name"])
        elif e["ph"] == "X":
            rank.spans.append((kind_of(e), e["ts"] / 1e3, e["dur"] / 1e3))
        elif e["ph"] == "b":
            began[e["id"]] = e["ts"]
        elif e["ph"] == "e":
            rank.sums.append((began[e["id"]] / 1e3, (e["ts"] - began[e["id"]]) / 1e3))
    return [ranks[pid] for pid in sorted(ranks)], trace["otherData"]


def cost(rank):
    """Returns two shares of the step: waiting and moving together, and waiting alone."""
    step = max(at + long for _, at, long in rank.spans) - rank.spans[0][1]
    wait, move = (sum(long for kind, _, long in rank.spans if kind == wanted) / step for wanted in (WAIT, MOVE))
    return wait + move, wait


def kind_of_picture(out):
    """Returns the picture's format, which is the ending of its name; png if it has none."""
    kind = os.path.splitext(out)[1][1:].lower() or "png"
    if kind not in plt.gcf().canvas.get_supported_filetypes():
        fail(USAGE, f"{out}: '{kind}' is no kind of picture; name it FILE.png")
    return kind


def draw(all_ranks, about, out):
    ranks = all_ranks[:MOST_RANKS]
    figure, axes = plt.subplots(figsize=(14, 1.6 + 1.5 * len(ranks)), layout="constrained")
    labels = []
    for r, rank in enumerate(ranks):
        for kind in COLORS:  # red last, on top
            mine = [(at, long) for k, at, long in rank.spans if k == kind]
            edge = 0.4 if kind in (WAIT, MOVE) else 0
            axes.broken_barh(mine, (-2.5 * r - 0.45, 0.9), color=COLORS[kind], linewidth=edge)
        for line in range(4):  # those that overlap get separate lines
            place = (-2.5 * r - 1.45 + 0.225 * line, 0.19)
            axes.broken_barh(rank.sums[line::4], place, color=COLORS["all-reduce in flight"], edgecolor="#B07030",
                             linewidth=0.4)
        labels += [(-2.5 * r, f"{plain(rank.name[0])}\ncompute"), (-2.5 * r - 1, "all-reduces")]
    axes.set_yticks([at for at, _ in labels], [text for _, text in labels])
    axes.set_xlabel("ms since the step began")
    axes.set_xlim(0, max(at + long for rank in ranks for _, at, long in rank.spans))
    exposed, wait = max(map(cost, all_ranks))
    step = max(at + long for rank in all_ranks for _, at, long in rank.spans)
    said = (f"all-reduces take {100 * exposed:.1f} % of a step of {step:,.0f} ms: {100 * wait:.1f} % waiting, "
            "the rest starting and moving them")
    threads = f"{about['threads']} thread{'s' if about['threads'] > 1 else ''}"
    what = f"{about['bench']} {about['precision']}, {about['image_size']}, batch {about['batch_per_rank']} per rank"
    drawn = f", of which the first {len(ranks)} are drawn" if len(ranks) < len(all_ranks) else ""
    axes.set_title(f"{plain(what)}, {len(all_ranks)} ranks × {threads}{drawn}\n{said}")
    patches = [Patch(color=color, label=kind) for kind, color in COLORS.items()]
    below = -0.25 / len(ranks) - 0.12
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, below), ncol=5, frameon=False)
    save(figure, out, dpi=150, kind=kind_of_picture(out.path))
    say(f"{out.path}: {said}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(USAGE, f"{message}; usage: timeline.py TRACE.json [--out FILE.png]")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when its reader is gone
    p = Parser(usage=__doc__.split("\n\n")[1])
    p.add_argument("trace")
    p.add_argument("--out", default="")
    a = p.parse_args()
    try:
        out = Output(a.out or os.path.splitext(a.trace)[0] + ".png")  # before the trace is read
        draw(*read(a.trace), out)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, RuntimeError,
            TypeError, ValueError) as error:
        fail(BAD_INPUT, f"{a.trace}: is no trace that can be drawn: {error!r}")


if __name__ == "__main__":
    main()
