"""Draws how runs scale, from what convoy report --scaling, or predict, prints as JSON."""
import json

from convoy_plot_base import colors, plain, plt, save, some
from convoy_plot_files import BAD_INPUT, fail, input_of

LONGEST = 16 << 20  # bytes of JSON that are read
MOST_LINES = 100  # that are drawn
TEXTS = {"source", "model", "precision", "image_size", "stem", "device", "cluster", "limit", "expected_limit", "known"}
TEXT, FIGURE = str, (int, float, type(None))


def read_cells(path):
    """Returns the measured cells that convoy report --scaling --format json prints; `path` - is stdin."""
    try:
        with input_of(path) as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST >> 20} MiB")
        cells = json.loads(text)
        for cell in cells:  # draw_scaling() would repeat a list or a text 100 times
            for name, value in cell.items():
                if not isinstance(value, TEXT if name in TEXTS else FIGURE):
                    raise ValueError(f"'{name}' is not a {'text' if name in TEXTS else 'number'}")
        return [cell for cell in cells if not cell["out_of_memory"] and cell["samples_per_second"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        fail(BAD_INPUT, f"{path}: is not what 'convoy report --scaling --format json' prints: {error}")


def draw_scaling(cells, title, out):
    """Draws samples/s and efficiency by ranks: a line per source, model, precision, image size, device and batch.

    Published and predicted figures are dashed; a prediction's range is shaded.
    """
    lines = {}
    for cell in cells:
        key = (cell["source"], cell["model"], cell["precision"], cell["image_size"], cell["device"], cell["batch"])
        lines.setdefault(key, {})[cell["ranks"]] = cell
    if not lines:
        fail(BAD_INPUT, "no cell was measured, so there is nothing to draw")
    if len(lines) > MOST_LINES:
        fail(BAD_INPUT, f"{len(lines):,} lines are too many to draw, at most {MOST_LINES}; draw fewer models at once")
    figure, (rate, efficiency) = plt.subplots(1, 2, figsize=(12, 5), constrained_layout=True)
    for (key, by_ranks), color in zip(lines.items(), colors(lines)):
        source, model, precision, size, device, batch = key
        ranks = sorted(by_ranks)
        style = {"color": color, "marker": "o", "markersize": 4, "linestyle": "-" if source == "Convoy" else "--"}
        label = f"{source}: {model}, {precision}, {size}, batch {batch} per {'GPU' if device == 'gpu' else 'rank'}"
        label += f" on {by_ranks[ranks[0]]['cluster']}" if "cluster" in by_ranks[ranks[0]] else ""
        rate.plot(ranks, [by_ranks[n]["samples_per_second"] for n in ranks], label=plain(label), **style)
        efficiency.plot(ranks, [100 * by_ranks[n]["efficiency"] for n in ranks], **style)
        if all("samples_per_second_low" in by_ranks[n] for n in ranks):  # a prediction with its range
            bounds = [[by_ranks[n][f"samples_per_second_{end}"] for n in ranks] for end in ("low", "high")]
            alone = by_ranks[ranks[0]]["samples_per_second"] / by_ranks[ranks[0]]["speed_up"]
            rate.fill_between(ranks, *bounds, color=color, alpha=0.2)
            shares = [[min(100, 100 * v / n / alone) for v, n in zip(end, ranks)] for end in bounds]
            efficiency.fill_between(ranks, *shares, color=color, alpha=0.2)
    ticks = some(sorted({ranks for by_ranks in lines.values() for ranks in by_ranks}))
    unit = "GPU" if all(key[4] == "gpu" for key in lines) else "rank"
    for axes in (rate, efficiency):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks)
        axes.set_xticklabels(map(str, ticks))
        axes.set_xlabel(f"{unit}s")
        axes.grid(alpha=0.3)
    rate.set_yscale("log", base=2)
    rate.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    rate.set(title="Throughput", ylabel=f"samples/s, all {unit}s")
    rate.legend(fontsize=8)
    efficiency.set(title="Efficiency", ylabel=f"speed-up per {unit} (%)", ylim=(0, None))
    figure.suptitle(plain(title or "How it scales"), fontsize=13)
    save(figure, out)
