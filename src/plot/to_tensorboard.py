#!/usr/bin/env python3
"""Writes the scalars of Convoy runs as event files that TensorBoard opens.

to_tensorboard.py RUN... [--out DIR]        RUN: a run folder; it may still be running

Every column of /train, /eval and /epochs becomes a scalar by optimizer step: train/loss, eval/accuracy,
epochs/images_per_second. They go into RUN/tensorboard, or into DIR/NAME for each run. Writing again replaces earlier
events. Then: tensorboard --logdir RUN/tensorboard, or DIR. Times are the run's start plus the time spent in steps.
Exit codes as Convoy's own: 0 written, 2 usage, 3 a file that cannot be used, 5 the events cannot be written.
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
import contextlib
import errno
import shlex
import signal
import stat

from convoy_plot_files import BAD_INPUT, IO, USAGE, fail, outside_of_current_folder, say

with outside_of_current_folder():
    try:
        import h5py  # noqa: F401  (imported so that a lack of it is reported here)
        import numpy as np
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as missing:
        package = (missing.name or "tensorboard").split(".")[0]
        fail(USAGE, f"{sys.executable} has no {package}; "
                    f"install it: {shlex.quote(sys.executable)} -m pip install {package}")
from convoy_plot_metrics import MetricsFile

SUFFIX = ".convoy"  # of the event files that are ours to replace


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(USAGE, f"{message}; usage: to_tensorboard.py RUN... [--out DIR]")


def read(run):
    """Returns {table: {column: values}} of a run's metrics.h5, its start time, and its steps per epoch."""
    with MetricsFile(os.path.join(run, "metrics.h5")) as file:
        tables = {table: file.table(table) for table in ("train", "eval", "epochs")}
        times = file.column("events/time")
        steps = file.attribute("run", "steps_per_epoch", 0)
    return tables, (times[0] if len(times) else 0.0), steps


def scalars(tables, started, steps_per_epoch):
    """Yields (wall time, step, tag, value) of every number that is finite."""
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


def write_events(rows, folder):
    """Writes the event file of one run into a new folder; returns how many scalars it has."""
    writer = EventFileWriter(folder, filename_suffix=SUFFIX)
    count = 0
    for wall, step, tag, value in rows:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=wall, step=step, summary=summary))
        count += 1
    writer.close()
    return count


def open_folder(name, folder=None, flags=0):
    """Opens a folder. Names are then looked up in its descriptor, because other users may exchange its path."""
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=folder)


def events_in(folder):
    """Returns the names of the event files in an open folder that are ours to replace."""
    return [name for name in os.listdir(folder) if name.startswith("events.out.tfevents.") and name.endswith(SUFFIX)]


def is_new(folder):
    """Returns True if an open folder is empty, this user's, and closed to others, as far as owner and mode tell."""
    if os.listdir(folder):
        return False
    trial = os.open("trial", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    about, made = os.fstat(folder), os.fstat(trial)
    os.close(trial)
    os.remove("trial", dir_fd=folder)
    others_write = stat.S_IWGRP | stat.S_IWOTH
    return about.st_uid == made.st_uid and not about.st_mode & others_write & ~made.st_mode


@contextlib.contextmanager
def working_folder(above):
    """Makes a new folder for event files in the open folder `above`. Removes these files and the folder at the end.

    Other users may put another folder at its path. The files are therefore removed through the folder's descriptor.
    What is at the path is removed only if it is an empty folder.
    """
    name = f".tensorboard-{os.urandom(6).hex()}"
    os.mkdir(name, 0o700, dir_fd=above)
    new = open_folder(name, above, os.O_NOFOLLOW)
    try:
        if not is_new(new):  # another folder
            raise OSError(errno.EBUSY, "its working folder was exchanged; write it again")
        try:
            yield new
        finally:
            with contextlib.suppress(OSError):
                for file in events_in(new):
                    os.remove(file, dir_fd=new)
                os.rmdir(name, dir_fd=above)
    finally:
        os.close(new)


def replace_events(new, name, above):
    """Moves the event files of the folder `new` to `name`, and removes those that were written there before."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
    there = open_folder(name, above, os.O_NOFOLLOW)
    for old in events_in(there):
        os.remove(old, dir_fd=there)
    for file in events_in(new):
        os.replace(file, file, src_dir_fd=new, dst_dir_fd=there)
    os.close(there)


def is_link(name, folder):
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return False


def write(run, folder):
    """Replaces the events of one run; returns how many scalars they have. Follows no link: a run may be a stranger's."""
    place, name = os.path.split(os.path.abspath(folder))
    try:
        above = open_folder(place) if os.path.isdir(place) else None  # before the run is read
        columns = read(run)
        if above is None:
            os.makedirs(place, exist_ok=True)
            above = open_folder(place)
        with working_folder(above) as new:
            count = write_events(scalars(*columns), f"/proc/self/fd/{new}")
            if is_link(name, above):
                fail(BAD_INPUT, f"{folder}: is a link, and events are not written through it; name another folder: --out DIR")
            replace_events(new, name, above)
        os.close(above)
    except OSError as error:
        fail(IO, f"{folder}: cannot be written: {error.strerror}")
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        fail(BAD_INPUT, f"{run}: has values that cannot be written: {error}")
    return count


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when its reader is gone
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--out", metavar="DIR")
    options = parser.parse_args()
    names = [os.path.basename(os.path.abspath(run)) for run in options.runs]
    if options.out and len(set(names)) < len(names):
        fail(USAGE, "two runs have the same name; write each with a separate --out")
    for run, name in zip(options.runs, names):
        folder = os.path.join(options.out, name) if options.out else os.path.join(run, "tensorboard")
        say(f"{folder}: {write(run, folder)} scalars")


if __name__ == "__main__":
    main()
