"""Helpers of the scripts that draw: matplotlib, colours, text that is shown as it is, and saving a picture."""
import sys
import warnings

from convoy_plot_files import IO, fail, fail_for_packages, outside_of_current_folder, printable

with outside_of_current_folder():
    try:
        import matplotlib
        import numpy as np

        matplotlib.use("Agg")  # draws without a display
        import matplotlib.pyplot as plt
    except ImportError as missing:
        fail_for_packages(missing)
matplotlib.rcParams["text.usetex"] = False  # so that TeX does not run names from a file
if not sys.warnoptions:
    warnings.simplefilter("ignore")  # there is one for each letter that the font lacks

# Okabe and Ito's colours, which stay apart for colour-blind readers.
RUN_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]


def colors(runs):
    return [RUN_COLORS[i % len(RUN_COLORS)] for i in range(len(runs))]


LONGEST = 200  # letters of a text in a picture, as each costs time


def plain(text):
    """Returns a text for a picture: short, on one line, and with each $ escaped, which would begin mathematics."""
    text = str(text)
    return printable(text if len(text) <= LONGEST else text[:LONGEST - 1] + "…").replace("$", r"\$")


MOST_TICKS = 64  # ticks of an axis that have a text


def some(values):
    """Returns at most MOST_TICKS values of a list, at equal distances, beginning with the first."""
    return values[::-(-len(values) // MOST_TICKS) or 1]


def save(figure, out, dpi=110, kind="png"):
    """Writes the picture to `out`, an Output, which replaces an earlier picture as a whole."""
    try:
        out.replace(lambda file: figure.savefig(file, dpi=dpi, format=kind))
    except OSError as error:
        fail(IO, f"{out.path}: cannot be written: {error.strerror}")
