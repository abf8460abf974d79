"""Small archives of CIFAR's four kinds, and what Python's own pickle and h5py say of them:

cifar_archives.py make FOLDER          writes FOLDER/FORM/ARCHIVE.tar.gz of each kind and FORM of pickles
cifar_archives.py same A B             whether two data sets are equal but for their sources
cifar_archives.py holds SET ARCHIVE LABELS NAMES   whether a data set is what a Python archive has under these keys
"""

import hashlib
import io
import os
import pickle
import struct
import sys
import tarfile

import h5py
import numpy

BATCHES = {"cifar-10": [(f"data_batch_{i}", 4) for i in range(1, 6)] + [("test_batch", 3)]}
BATCHES["cifar-100"] = [("train", 7), ("test", 3)]
FOLDERS = {"cifar-10": ("cifar-10-batches-bin", "cifar-10-batches-py")}
FOLDERS["cifar-100"] = ("cifar-100-binary", "cifar-100-python")


class Python2:
    """A dict as written by Python 2's cPickle and numpy in protocol 2: bytes are its strings."""

    def __init__(self, entries):
        self.out, self.places = b"\x80\x02}", {}
        self.put()
        self.out += b"("
        for key, value in entries.items():
            self.write(key)
            self.write(value)
        self.out += b"u."

    def put(self, value=None):
        place = self.places[value if value is not None else object()] = len(self.places) + 1
        self.out += b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<I", place)

    def write(self, value):
        if isinstance(value, bytes):
            self.text(value)
        elif isinstance(value, int):
            self.number(value)
        elif isinstance(value, list):
            self.out += b"]"
            self.put()
            self.out += b"("
            for item in value:
                self.write(item)
            self.out += b"e"
        else:
            self.array(value)

    def text(self, value):
        if value in self.places and len(value) < 100:
            place = self.places[value]
            self.out += b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place)
            return
        self.out += b"U" + bytes([len(value)]) if len(value) < 256 else b"T" + struct.pack("<I", len(value))
        self.out += value
        self.put(value)

    def number(self, value):
        self.out += b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    def array(self, value):
        columns_first = not value.flags.c_contiguous
        self.out += b"cnumpy.core.multiarray\n_reconstruct\n"
        self.put()
        self.out += b"cnumpy\nndarray\n"
        self.put()
        self.out += b"K\x00\x85"
        self.put()
        self.text(b"b")
        self.out += b"\x87"
        self.put()
        self.out += b"R"
        self.put()
        self.out += b"(K\x01"
        for extent in value.shape:
            self.number(extent)
        self.out += b"\x86"
        self.put()
        self.out += b"cnumpy\ndtype\n"
        self.put()
        self.text(b"u1")
        self.out += b"K\x00K\x01\x87"
        self.put()
        self.out += b"R"
        self.put()
        self.out += b"(K\x03"
        self.text(b"|")
        self.out += b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00t"
        self.put()
        self.out += b"b" + (b"\x88" if columns_first else b"\x89")
        self.text(value.tobytes("A"))
        self.out += b"t"
        self.put()
        self.out += b"b"


def as_text(value):
    """Returns what Python 3 has for Python 2's strings."""
    if isinstance(value, bytes):
        return value.decode()
    return [as_text(item) for item in value] if isinstance(value, list) else value


def as_bytes(value):
    if isinstance(value, str):
        return value.encode()
    return [as_bytes(item) for item in value] if isinstance(value, list) else value


FORMS = {
    "python2": lambda entries: Python2(entries).out,
    "fortran": lambda entries: Python2(
        {k: numpy.asfortranarray(v) if k == b"data" else v for k, v in entries.items()}
    ).out,
    "python3": lambda entries: pickle.dumps({as_text(k): as_text(v) for k, v in entries.items()}, protocol=2),
    "bytes": lambda entries: pickle.dumps(entries, protocol=2),
}
FORMS["numpy2"] = lambda entries: FORMS["python3"](entries).replace(b"numpy.core.multiarray", b"numpy._core.multiarray")


def entries_of(kind, name, images):
    draw = numpy.random.RandomState(len(name) + sum(name.encode()))
    entries = {b"batch_label": b"batch " + name.encode()}
    if kind == "cifar-10":
        entries[b"labels"] = [int(label) for label in draw.randint(0, 10, images)]
    else:
        entries[b"fine_labels"] = [int(label) for label in draw.randint(0, 100, images)]
        entries[b"coarse_labels"] = [int(label) for label in draw.randint(0, 20, images)]
    entries[b"data"] = draw.randint(0, 256, (images, 3072)).astype("uint8")
    entries[b"filenames"] = [b"a_%d.png" % (i % 3) for i in range(images)]
    return entries


def names_of(kind):
    if kind == "cifar-10":
        return {b"num_cases_per_batch": 4, b"label_names": [b"kind %d" % i for i in range(10)], b"num_vis": 3072}
    return {
        b"fine_label_names": [b"fine_%d" % i for i in range(100)],
        b"coarse_label_names": [b"coarse_%d" % i for i in range(20)],
    }


def records_of(entries):
    keys = [key for key in (b"labels", b"coarse_labels", b"fine_labels") if key in entries]
    rows = zip(*[entries[key] for key in keys], entries[b"data"])
    return b"".join(bytes(row[:-1]) + row[-1].tobytes() for row in rows)


def write_archive(path, folder, members):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def check_form():
    """Checks that the official batches.meta, written here, has its published MD5."""
    names = b"airplane automobile bird cat deer dog frog horse ship truck".split()
    meta = Python2({b"num_cases_per_batch": 10000, b"label_names": names, b"num_vis": 3072}).out
    assert hashlib.md5(meta).hexdigest() == "5ff9c542aee3614f3951f8cda6e48888"


def make(folder):
    check_form()
    for kind, batches in BATCHES.items():
        binary, python = FOLDERS[kind]
        all_entries = {name: entries_of(kind, name, images) for name, images in batches}
        members = {f"{name}.bin": records_of(entries) for name, entries in all_entries.items()}
        for key, names in names_of(kind).items():
            if isinstance(names, list):
                name = "batches.meta.txt" if kind == "cifar-10" else key.decode() + ".txt"
                members[name] = b"".join(n + b"\n" for n in names)
        write_archive(f"{folder}/binary/{kind}-binary.tar.gz", binary, members)
        for form, write in FORMS.items():
            meta = "batches.meta" if kind == "cifar-10" else "meta"
            members = {name: write(entries) for name, entries in all_entries.items()} | {meta: write(names_of(kind))}
            for name, entries in all_entries.items():
                check_pickle(members[name], entries)
            write_archive(f"{folder}/{form}/{kind}-python.tar.gz", python, members)


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        """Maps the module: each numpy version knows only its own name of its core."""
        return super().find_class(module.replace("numpy._core", "numpy.core"), name)


def read_pickle(content):
    entries = Reader(io.BytesIO(content), encoding="bytes").load()
    return {as_bytes(key): as_bytes(value) for key, value in entries.items()}


def check_pickle(content, entries):
    """Checks that Python itself reads the intended values."""
    read = read_pickle(content)
    assert (read[b"data"] == entries[b"data"]).all() and read[b"data"].dtype == "uint8"
    assert all(read[key] == value for key, value in entries.items() if key.endswith(b"labels"))


def same(a, b):
    assert sorted(os.listdir(a)) == sorted(os.listdir(b))
    for name in os.listdir(a):
        if not name.endswith(".h5"):
            continue
        with h5py.File(f"{a}/{name}") as left, h5py.File(f"{b}/{name}") as right:
            assert set(left) == set(right) and {"images", "labels"} <= set(left)
            for key in left:
                assert left[key].dtype == right[key].dtype and (left[key][:] == right[key][:]).all(), key
            assert set(left.attrs) == set(right.attrs)
            for key in left.attrs:
                assert key.startswith("source") or numpy.array_equal(left.attrs[key], right.attrs[key]), key


def holds(data, archive, labels_key, names_key):
    with tarfile.open(archive) as tar:
        members = {os.path.basename(m.name): read_pickle(tar.extractfile(m).read()) for m in tar.getmembers()}
    names = next(m[names_key.encode()] for m in members.values() if names_key.encode() in m)
    for split in ("train", "test"):
        of_split = [name for name in sorted(members) if name.startswith("test") == (split == "test")]
        batches = [members[name] for name in of_split if "meta" not in name]
        images = numpy.concatenate([m[b"data"] for m in batches]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        shards = [h5py.File(f"{data}/{name}") for name in sorted(os.listdir(data)) if name.startswith(split)]
        assert (numpy.concatenate([shard["images"][:] for shard in shards]) == images).all()
        labels = [label for m in batches for label in m[labels_key.encode()]]
        assert numpy.concatenate([shard["labels"][:] for shard in shards]).tolist() == labels
        assert list(shards[0].attrs["class_names"]) == names


if __name__ == "__main__":
    {"make": make, "same": same, "holds": holds}[sys.argv[1]](*sys.argv[2:])
