"""Makes metric files that Convoy would not write: `hostile_metrics.py METRICS.H5 FOLDER` writes FOLDER/KIND/metrics.h5
of each kind, changed copies of a sound file, and prints the kinds. SECRET.txt beside the folder is what no reader may
see."""

import os
import shutil
import sys

import h5py
import numpy as np

SOUND, FOLDER = sys.argv[1:]
SECRET = os.path.join(os.path.dirname(FOLDER), "SECRET.txt")
ROWS = 3  # rows of /train in the sound file


def made(file, values, name="train/loss", **layout):
    """Replaces a column by one with other properties."""
    del file[name]
    values = np.asarray(values)
    return file.create_dataset(name, data=values, **{"chunks": values.shape, "fletcher32": True, **layout})


def external_storage(file):
    del file["train/loss"]
    file.create_dataset("train/loss", shape=(ROWS,), dtype="<f8", external=[(SECRET, 0, 8 * ROWS)])


def virtual(file):
    del file["train/loss"]
    layout = h5py.VirtualLayout(shape=(ROWS,), dtype="<f8")
    layout[:] = h5py.VirtualSource(SOUND, "train/accuracy", shape=(ROWS,))
    file.create_virtual_dataset("train/loss", layout)


def external_link(file):
    del file["train/loss"]
    file["train/loss"] = h5py.ExternalLink(SOUND, "/train/accuracy")


def link_of_a_group(file):
    del file["eval"]
    file["eval"] = h5py.ExternalLink(SOUND, "/eval")


def pipe(file):
    os.mkfifo(os.path.join(os.path.dirname(file.filename), "pipe"))
    del file["train/loss"]
    file["train/loss"] = h5py.ExternalLink("pipe", "/x")


def soft_link(file):
    del file["train/loss"]
    file["train/loss"] = h5py.SoftLink("/train/accuracy")


def gzip(file):
    made(file, np.zeros(ROWS), compression="gzip")


def bomb(file):
    """Claims half a billion rows in a few kilobytes."""
    for name in ("step", "loss", "accuracy"):
        del file[f"train/{name}"]
        kind = "<i8" if name == "step" else "<f8"
        rows = file.create_dataset(
            f"train/{name}", (500_000_000,), kind, chunks=(1 << 20,), compression="gzip", fletcher32=True
        )
        rows[0] = 1


def rows_without_chunks(file):
    del file["train/loss"]
    file.create_dataset("train/loss", (1 << 40,), "<f8", chunks=(4096,), fletcher32=True)


def short_chunk(file):
    set = made(file, np.zeros(ROWS))
    set.id.write_direct_chunk((0,), bytes(8))


def unchecked_chunk(file):
    """Leaves out the chunk's filter."""
    set = made(file, np.zeros(ROWS))
    set.id.write_direct_chunk((0,), bytes(8 * ROWS + 4), 1)


def damaged_chunk(file):
    set = made(file, np.zeros(ROWS))
    set.id.write_direct_chunk((0,), b"x" * (8 * ROWS + 4))


def short_chunks(file):
    made(file, np.zeros(ROWS), chunks=(1,))


def without_checksum(file):
    made(file, np.zeros(ROWS), fletcher32=False)


def not_in_chunks(file):
    del file["train/loss"]
    file["train/loss"] = np.zeros(ROWS)


def integer_with_an_offset(file):
    kind = h5py.h5t.STD_I64LE.copy()
    kind.set_precision(8)
    kind.set_offset(56)
    low_level(file, "train/step", kind)


def gzip_after_the_checksum(file):
    low_level(file, "train/step", h5py.h5t.STD_I64LE, gzip=True)


def same_values(file):
    """Makes all columns of a table one, so that they take more memory than the file has bytes."""
    made(file, np.arange(100_000.0))
    for name in file["train"]:
        if name != "loss":
            del file[f"train/{name}"]
            file[f"train/{name}"] = file["train/loss"]


def low_level(file, name, kind, gzip=False):
    del file[name]
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((ROWS,))
    layout.set_fletcher32()
    if gzip:
        layout.set_deflate(1)
    h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((ROWS,)), layout)


def other_float(file):
    made(file, np.zeros(ROWS, "<f4"))


def text_for_numbers(file):
    made(file, np.array([b"x"] * ROWS))


def structure(file):
    made(file, np.zeros(ROWS, [("a", "<f8")]))


def texts_of_any_length(file):
    del file["events/kind"]
    texts = np.array(["restart"] * len(file["events/step"]), object)
    file.create_dataset("events/kind", data=texts, dtype=h5py.string_dtype(), chunks=(len(texts),))


def two_dimensions(file):
    made(file, np.zeros((ROWS, 2)))


def group_for_a_column(file):
    del file["train/loss"]
    file.create_group("train/loss")


def type_for_a_column(file):
    del file["train/loss"]
    file["train/loss"] = np.dtype("<f8")


def missing_column(file):
    del file["train/step"]


def missing_table(file):
    del file["eval"]


def unequal_columns(file):
    made(file, np.zeros(ROWS + 1))


def many_names(file):
    """Gives one column many names: each would be read again."""
    for i in range(300):
        file[f"train/{i}"] = file["train/loss"]
    del file["train/step"]


def long_format(file):
    file.attrs["format"] = np.bytes_(b"convoy-metrics" * 1_000)


def format_of_integers(file):
    file.attrs["format"] = np.arange(3)


def format_with_escapes(file):
    file.attrs["format"] = np.bytes_("\x1b[2J\n\u202e".encode())


KINDS = [short_chunks, external_storage, virtual, external_link, link_of_a_group, pipe, soft_link, gzip,
         gzip_after_the_checksum, bomb, same_values, rows_without_chunks, short_chunk, unchecked_chunk,
         damaged_chunk, without_checksum, not_in_chunks, integer_with_an_offset, other_float, text_for_numbers,
         structure, texts_of_any_length, two_dimensions, group_for_a_column, type_for_a_column, missing_column,
         missing_table, unequal_columns, many_names, long_format, format_of_integers, format_with_escapes]


def old_format(path):
    """Writes the same metrics in the format of HDF5 1.6."""
    with h5py.File(SOUND, "r") as source, h5py.File(path, "w", libver="earliest") as file:
        for table in ("train", "eval", "epochs", "ranks", "rank_epochs", "events"):
            for name, column in source[table].items():
                file.create_dataset(f"{table}/{name}", data=column[()], chunks=True, maxshape=(None,), fletcher32=True)
        file.create_group("run")
        file.attrs["format"] = "convoy-metrics"


def main():
    with open(SECRET, "w") as file:
        file.write("secret " * 100)
    for kind in [*KINDS, old_format]:
        path = os.path.join(FOLDER, kind.__name__, "metrics.h5")
        os.makedirs(os.path.dirname(path))
        if kind is old_format:
            old_format(path)
        else:
            shutil.copy(SOUND, path)
            with h5py.File(path, "r+", libver="v110") as file:
                kind(file)
        print(kind.__name__)


main()
