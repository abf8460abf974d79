"""Reads metrics.h5, which may come from a stranger.

HDF5 follows links into other files, takes values out of any file (external storage, virtual data sets), loads
libraries (filters), and reads beyond its buffers (a chunk that is shorter than its rows). So a column is read only if
it is stored as Convoy stores it. All columns together take no more memory than the file has bytes.
"""
import os

from convoy_plot_files import (BAD_INPUT, OPENED, at_once, fail, fail_for_packages, outside_of_current_folder,
                               refuse_special)

with outside_of_current_folder():
    try:
        from h5py import h5a, h5d, h5f, h5fd, h5g, h5l, h5o, h5p, h5s, h5t, h5z, version
        import numpy as np

        if not hasattr(h5d.DatasetID, "get_chunk_info_by_coord"):
            raise ImportError(f"h5py {version.version} with HDF5 {version.hdf5_version} is too old; "
                              "3.0 with 1.10.5 is wanted")
    except ImportError as missing:
        fail_for_packages(missing)

SUPERBLOCK = b"\x89HDF\r\n\x1a\n\x03"  # the signature, and the version that Convoy writes
TEXTS = ("ranks/host", "events/kind")  # columns of texts; all others have numbers
LONGEST_TEXT = 1000  # bytes; Convoy shortens longer texts
LONGEST_NAME = 100  # of a column; the names that Convoy gives have up to 25 letters
CHUNK_ROWS = 4096  # as src/run/metrics_file.h has it
MOST_COLUMNS = 100  # of a table, because a file may name the same values any number of times
# h5py raises RuntimeError for some failures of HDF5.
PROBLEMS = (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, MemoryError)


class Unsound(ValueError):
    """The file is not stored as Convoy stores it."""


ADVICE = "give the folder of a run, or its metrics.h5"


def place_of(argument, path):
    """Returns where to open the metrics at `path`: at convoy plot's descriptor for `argument`, if it started this."""
    if OPENED is None:
        return path
    if argument in OPENED:
        return f"/proc/self/fd/{OPENED[argument][1]}"
    refuse_special(path, ADVICE)
    fail(BAD_INPUT, f"{path}: was exchanged while the command began; draw it again")


class MetricsFile:
    """A metrics.h5, open for reading; a context manager. A file that cannot be used ends the script with one line."""

    def __init__(self, path, place=None):
        """`place`: where it is opened, if that is not `path`, which messages name."""
        self.path, self.place = path, place or path
        refuse_special(path, ADVICE, self.place)
        self.bytes = self.left = 0  # bytes of the file; `left`: those that further columns may take
        self.source = self.file = None

    def __enter__(self):
        try:
            self.source = open(self.place, "rb", opener=at_once)
            begin = self.source.read(len(SUPERBLOCK))
            self.bytes = self.left = os.fstat(self.source.fileno()).st_size
            if begin != SUPERBLOCK:
                raise Unsound("its HDF5 format is not the one that Convoy writes")
            # HDF5 looks at a path more than once. It reads by this object instead, because the
            # file at the path may be gone by then.
            access = h5p.create(h5p.FILE_ACCESS)
            access.set_fileobj_driver(h5fd.fileobj_driver, self.source)
            self.file = h5f.open(os.fsencode(self.path), h5f.ACC_RDONLY, fapl=access)
            kind = self.attribute("", "format", "")  # None: of variable length, as Convoy writes it
        except PROBLEMS as error:
            self.refuse(error)
        if kind not in (None, "convoy-metrics"):
            fail(BAD_INPUT, f"{self.path}: not a metric file of Convoy (format is '{kind[:100]}')")
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and issubclass(kind, PROBLEMS):
            self.refuse(error)

    def refuse(self, error):
        reason = str(error).replace(self.place, self.path)
        fail(BAD_INPUT, f"{self.path}: cannot be read as a metric file: {reason}")

    def opened(self, name, kind):
        """Returns the object at /name; "" is the root. Refuses an object of another kind, or in another file."""
        parts = name.split("/") if name else []
        for i in range(len(parts)):
            above = "/".join(parts[:i + 1]).encode()
            if not self.file.links.exists(above):
                raise Unsound(f"/{name} is missing")
            if self.file.links.get_info(above).type != h5l.TYPE_HARD:
                raise Unsound(f"/{name} is a link")
        found = h5o.open(self.file, b"/" + name.encode())
        if not isinstance(found, kind) or h5o.get_info(found).hdr.version != 2:
            raise Unsound(f"/{name} is not stored as Convoy stores it")
        return found

    def attribute(self, group, name, default):
        """Returns a text or an integer; `default` if it is missing, and None for a text of variable length.

        HDF5 1.10 trusts the lengths of such texts, and may read beyond them.
        """
        of = self.opened(group, h5g.GroupID)
        if not h5a.exists(of, name.encode()):
            return default
        attribute = h5a.open(of, name.encode())
        stored, text = attribute.get_type(), isinstance(default, str)
        if text and stored.get_class() == h5t.STRING and stored.is_variable_str():
            return None
        fits = stored.get_class() == h5t.STRING if text else stored.equal(h5t.STD_I64LE)
        if attribute.shape != () or not fits or stored.get_size() > LONGEST_TEXT:
            raise Unsound(f"its attribute {name} is not stored as Convoy stores it")
        value = np.empty((), dtype=attribute.dtype)
        attribute.read(value)
        return value[()].decode("utf-8", "replace") if text else int(value[()])

    def column(self, name):
        """Returns all values of a column: integers, doubles, or texts as bytes."""
        data = self.opened(name, h5d.DatasetID)
        stored = data.get_type()
        if name in TEXTS:
            fits = stored.get_class() == h5t.STRING and not stored.is_variable_str() and stored.get_size() <= LONGEST_TEXT
        else:
            fits = stored.equal(h5t.STD_I64LE) or stored.equal(h5t.IEEE_F64LE)
        layout = data.get_create_plist()
        if (not fits or len(data.shape) != 1 or layout.get_layout() != h5d.CHUNKED
                or layout.get_nfilters() != 1 or layout.get_filter(0)[0] != h5z.FILTER_FLETCHER32):
            raise Unsound(f"/{name} is not stored as Convoy stores it")
        rows, width, chunk_rows = data.shape[0], stored.get_size(), layout.get_chunk()[0]
        if rows > chunk_rows and chunk_rows < CHUNK_ROWS:  # HDF5 searches all chunks to find each
            raise Unsound(f"/{name} has chunks of {chunk_rows} rows, and Convoy's have {CHUNK_ROWS}")
        if rows * width > self.left:
            raise Unsound(f"/{name} has more rows than the file has room for")
        self.left -= rows * width
        for first in range(0, rows, chunk_rows):
            chunk = data.get_chunk_info_by_coord((first,))
            # The checksum has four bytes.
            if chunk.byte_offset is None or chunk.filter_mask != 0 or chunk.size != chunk_rows * width + 4:
                raise Unsound(f"/{name} is damaged: its chunk of row {first} has {chunk.size} bytes")
            if chunk.byte_offset + chunk.size > self.bytes:
                raise Unsound(f"/{name} is damaged: the file ends before its chunk of row {first}")
        values = np.empty(rows, dtype=data.dtype)
        if rows:
            data.read(h5s.ALL, h5s.ALL, values)
        return values

    def table(self, name, columns=None):
        """Returns {column: values} of a table: these columns, or all. They have the same number of rows."""
        group = self.opened(name, h5g.GroupID)
        if columns is None:
            if group.get_num_objs() > MOST_COLUMNS:
                raise Unsound(f"/{name} has more than {MOST_COLUMNS} columns")
            columns = [column.decode() for column in group]
            if any(len(column) > LONGEST_NAME for column in columns):  # to_tensorboard.py writes it for each row
                raise Unsound(f"/{name} has a column whose name has more than {LONGEST_NAME} letters")
        values = {column: self.column(f"{name}/{column}") for column in columns}
        if len({len(column) for column in values.values()}) > 1:
            raise Unsound(f"the columns of /{name} differ in length")
        return values
