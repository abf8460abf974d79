#!/usr/bin/env python3
"""Writes the scalars of Convoy runs as event files that TensorBoard opens.

to_tensorboard.py RUN... [--out DIR]        RUN: a run folder; it may still be running

Of /train, /eval and /epochs every column becomes a scalar by optimizer step: train/loss, eval/accuracy,
epochs/images_per_second. They go into RUN/tensorboard, or DIR/NAME of each run; writing again replaces what was written
before. Then: tensorboard --logdir RUN/tensorboard, or DIR. Times are those of training alone, from the run's start.
Exit codes as Convoy's own: 0 written, 2 usage, 3 a file that cannot be used, 5 the events cannot be written.
"""
import argparse
import glob
import os
import shlex
import signal
import sys

USAGE, BAD_INPUT, IO = 2, 3, 5
SUFFIX = ".convoy"  # of the event files that are ours to replace


def fail(code, message):
    text = " ".join(str(message).split())
    sys.stderr.write("to_tensorboard.py: " + "".join(c if c.isprintable() else "?" for c in text) + "\n")
    sys.exit(code)


# HDF5 reads without a lock: a run may be on a file system that has none.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
try:
    import h5py
    import numpy as np
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as missing:
    package = (missing.name or "tensorboard").split(".")[0]
    fail(USAGE, f"{sys.executable} has no {package}; install it: {shlex.quote(sys.executable)} -m pip install {package}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(USAGE, f"{message}; usage: to_tensorboard.py RUN... [--out DIR]")


def read(run):
    """{table: {column: values}} of a run's metrics.h5, when it started, and its steps in an epoch."""
    path = os.path.join(run, "metrics.h5")
    if not os.path.isfile(path):
        fail(BAD_INPUT, f"{path}: no such file; give the folder of a run")
    try:
        with h5py.File(path, "r") as file:
            tables = {table: {name: column[()] for name, column in file[table].items()}
                      for table in ("train", "eval", "epochs")}
            times = file["events/time"][()]
            steps = int(file["run"].attrs.get("steps_per_epoch", 0))
    except (OSError, KeyError, ValueError) as error:
        fail(BAD_INPUT, f"{path}: cannot be read as a metric file: {error}")
    return tables, (times[0] if len(times) else 0.0), steps


def scalars(tables, started, steps_per_epoch):
    """(wall time, step, tag, value) of every number that is finite."""
    train = tables["train"]
    spent = np.cumsum(np.nan_to_num(train["step_seconds"]) * np.diff(train["step"], prepend=0))
    last = train["step"][-1] if len(train["step"]) else np.iinfo(np.int64).max
    tables["epochs"]["step"] = np.minimum(tables["epochs"]["epoch"] * steps_per_epoch, last)
    for table, columns in tables.items():
        steps = columns["step"]
        walls = started + (np.interp(steps, train["step"], spent) if len(spent) else np.zeros(len(steps)))
        for name, values in columns.items():
            if name == "step":
                continue
            for wall, step, value in zip(walls, steps, values):
                if np.isfinite(value):
                    yield float(wall), int(step), f"{table}/{name}", float(value)


def write(run, folder):
    """Replaces the events of one run; returns how many scalars they have."""
    tables, started, steps_per_epoch = read(run)
    try:
        os.makedirs(folder, exist_ok=True)
        for old in glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*" + SUFFIX)):
            os.remove(old)
        writer = EventFileWriter(folder, filename_suffix=SUFFIX)
        count = 0
        for wall, step, tag, value in scalars(tables, started, steps_per_epoch):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=wall, step=step, summary=summary))
            count += 1
        writer.close()
    except OSError as error:
        fail(IO, f"{folder}: cannot be written: {error.strerror}")
    return count


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when its reader is gone
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--out", metavar="DIR")
    options = parser.parse_args()
    names = [os.path.basename(os.path.abspath(run)) for run in options.runs]
    if options.out and len(set(names)) < len(names):
        fail(USAGE, "two runs have the same name; write them into folders of their own")
    for run, name in zip(options.runs, names):
        folder = os.path.join(options.out, name) if options.out else os.path.join(run, "tensorboard")
        print(f"{folder}: {write(run, folder)} scalars")


if __name__ == "__main__":
    main()
