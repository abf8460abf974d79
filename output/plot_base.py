"""What plot.py and its parts share: libraries, refusals and their exit codes, colours, saving a picture."""
import importlib.util
import os
import shlex
import subprocess
import sys


def what_is_missing(error):
    """One line: which packages this Python lacks, and how to get one that has them."""
    packages = ["h5py", "matplotlib", "numpy"]
    lacks = [name for name in packages if importlib.util.find_spec(name) is None]
    line = f"{sys.executable}: {' '.join(str(error).split())[:200]}"
    if lacks:
        line = f"{sys.executable} has no {', '.join(lacks)}"
    deps = "/usr/bin/python3"  # what make deps fills on Debian and Ubuntu
    has_them = [deps, "-c", f"import {', '.join(packages)}"]
    there = sys.executable != deps and os.path.exists(deps)
    if there and subprocess.run(has_them, capture_output=True).returncode == 0:
        line += f"; use {deps}, which has what it takes, or"
    else:
        line += "; install them: apt install python3-h5py python3-matplotlib (Debian, Ubuntu), or"
    requirements = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements.txt")
    return f"{line} {shlex.quote(sys.executable)} -m pip install -r {shlex.quote(requirements)}"


# HDF5 reads without a lock: a run may be on a file system that has none.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
try:
    import h5py  # noqa: F401  (whoever lacks it is told here)
    import matplotlib
    import numpy as np

    matplotlib.use("Agg")  # draws without a display
    import matplotlib.pyplot as plt
except ImportError as missing:
    sys.stderr.write(f"plot.py: {what_is_missing(missing)}\n")
    sys.exit(2)

USAGE, BAD_INPUT, IO = 2, 3, 5
# Okabe and Ito's colours, which stay apart for colour-blind readers.
RUN_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]


def printable(text):
    """What files say, without anything that could steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def fail(code, message):
    sys.stderr.write("plot.py: " + printable(" ".join(str(message).split())) + "\n")
    sys.exit(code)


def colors(runs):
    return [RUN_COLORS[i % len(RUN_COLORS)] for i in range(len(runs))]


def save(figure, out):
    try:
        figure.savefig(out, dpi=110, format="png")
    except OSError as error:
        fail(IO, f"{out}: cannot be written: {error.strerror}")
