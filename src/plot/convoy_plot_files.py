"""Helpers of this folder's scripts that need no package: refusals, and files that are replaced as a whole."""
import contextlib
import importlib.util
import os
import shlex
import stat
import subprocess
import sys

USAGE, BAD_INPUT, IO = 2, 3, 5  # exit codes, as Convoy's own
# HDF5 reads these settings when h5py is imported. It takes no lock, because a run may be on a file
# system that has none.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
# A metric file needs no plug-in, so none is loaded.
os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
for plugin in ("HDF5_VOL_CONNECTOR", "HDF5_DRIVER"):
    os.environ.pop(plugin, None)
PACKAGES = ("h5py", "matplotlib", "numpy")


def printable(text):
    """Returns a text with the characters escaped that could control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def say(line):
    """Prints a line with names of files: escaped on a terminal, unchanged for a program that reads it."""
    sys.stdout.reconfigure(errors="surrogateescape")  # a path need not be UTF-8
    print(printable(line) if sys.stdout.isatty() else line)


def fail(code, message):
    """Ends the script with one line of at most 1,000 characters."""
    text = printable(" ".join(str(message).split()))
    name = os.path.basename(sys.argv[0])
    sys.stderr.write(f"{name}: {text if len(text) <= 1000 else text[:999] + '…'}\n")
    sys.exit(code)


@contextlib.contextmanager
def outside_of_current_folder():
    """For imports of packages. They, or libraries that they load, may read a file of the current folder because of its
    name: a matplotlibrc, or UCX's ucx.conf. A stranger may have put it there."""
    here = os.open(".", os.O_PATH | os.O_CLOEXEC)
    os.chdir("/")
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def fail_for_packages(error):
    """Says which packages this Python lacks, and how to get one that has them."""
    lacks = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    line = f"{sys.executable}: {' '.join(str(error).split())[:200]}"
    if lacks:
        line = f"{sys.executable} has no {', '.join(lacks)}"
    deps = "/usr/bin/python3"  # where make deps installs packages on Debian and Ubuntu
    # From /, because the current folder may have modules of these names.
    has_them = [deps, "-c", f"import {', '.join(PACKAGES)}"]
    there = sys.executable != deps and os.path.exists(deps)
    if there and subprocess.run(has_them, capture_output=True, cwd="/").returncode == 0:
        line += f"; use {deps}, which has these packages, or"
    else:
        line += "; install them: apt install python3-h5py python3-matplotlib (Debian, Ubuntu), or"
    requirements = os.path.join(os.path.dirname(os.path.realpath(__file__)), "requirements.txt")
    fail(USAGE, f"{line} {shlex.quote(sys.executable)} -m pip install -r {shlex.quote(requirements)}")


def opened_by_convoy():
    """Returns {argument: (folder, metric file)}, descriptors that convoy plot opened; None if it did not start this.

    Paths are not opened again, because other users may have exchanged what they lead to.
    """
    told = os.environ.pop("CONVOY_PLOT_OPENED", None)
    if told is None:
        return None
    entries = [map(int, entry.split(":")) for entry in told.split()]
    return {sys.argv[word]: (folder, file) for word, folder, file in entries}


OPENED = opened_by_convoy()


def folder_of(argument):
    """Returns the descriptor of the folder of a run's metrics, if convoy plot opened it; else None."""
    return OPENED[argument][0] if OPENED and argument in OPENED else None


class Output:
    """A file that will be written. Its folder is opened at once, so that exchanging the folder later has no effect."""

    def __init__(self, path, folder=None):
        """`folder`: a descriptor of the file's folder, if it is open already."""
        self.path, self.name = path, os.path.basename(path)
        self.folder, self.problem = folder, None
        if folder is None:
            try:
                self.folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                self.problem = error  # raised by replace(), because input files are checked first

    def is_stream(self):
        """Returns True for a device or an open file, such as /dev/stdout, which cannot be replaced."""
        folder = os.readlink(f"/proc/self/fd/{self.folder}")
        return folder == "/dev" or (folder + "/").startswith("/proc/")

    def open(self, name, flags):
        return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o666, dir_fd=self.folder), "wb")

    def is_folder(self):
        try:
            return not self.name or stat.S_ISDIR(os.lstat(self.name, dir_fd=self.folder).st_mode)
        except FileNotFoundError:
            return False

    def replace(self, write):
        """Calls `write` with an open file, and puts what it wrote in place. A link there is replaced, not followed.

        On failure what was there stays. Raises OSError.
        """
        if self.problem:
            raise self.problem
        if self.is_folder():
            raise IsADirectoryError(0, "is a folder", self.path)
        if self.is_stream():
            with self.open(self.name, os.O_TRUNC) as file:
                write(file)
            return
        part = f".plot-{os.urandom(6).hex()}.partial"
        try:
            with self.open(part, os.O_EXCL | os.O_NOFOLLOW) as file:
                write(file)
            os.replace(part, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(part, dir_fd=self.folder)
            raise


def at_once(path, flags):
    """Opens a file for open(). Does not wait for a pipe, which may have replaced the file since it was checked."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def input_of(path):
    """Opens the file at `path`, or stdin for -, to read. Refuses a pipe unless it is this user's or root's."""
    if path == "-":
        return open(os.dup(0), "rb")
    file = open(path, "rb", opener=at_once)
    about = os.fstat(file.fileno())
    if not stat.S_ISFIFO(about.st_mode):
        return file
    if about.st_uid not in (0, os.geteuid()):
        fail(BAD_INPUT, f"{path}: is a pipe of another user, which may never end")
    with file:
        return open(f"/proc/self/fd/{file.fileno()}", "rb")  # the same pipe; this waits for a process that writes


def refuse_special(path, advice, place=None):
    """Ends the script if `path` is no regular file: a pipe may never begin, and a device never end.

    `place`: where the file is opened, if that is not `path`.
    """
    try:
        kind = os.stat(place or path).st_mode
    except FileNotFoundError:
        fail(BAD_INPUT, f"{path}: no such file; {advice}")
    except (OSError, ValueError) as error:
        fail(BAD_INPUT, f"{path}: cannot be read: {getattr(error, 'strerror', error)}")
    if not stat.S_ISREG(kind):
        fail(BAD_INPUT, f"{path}: is not a regular file; {advice}")
