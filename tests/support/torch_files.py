"""Writes files as torch.save() does, without PyTorch: a good one, and hostile ones.

    torch_files.py FOLDER    # prints a line for each file: NAME, a tab, words that its refusal must have
"""

import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

torch = types.ModuleType("torch")
torch._utils = types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": torch._utils})


def named(module, name, kind=type):
    made = kind(name, (), {}) if kind is type else (lambda *arguments: None)
    made.__module__, made.__qualname__, made.__name__ = module.__name__, name, name
    setattr(module, name, made)
    return made


FloatStorage, HalfStorage = named(torch, "FloatStorage"), named(torch, "HalfStorage")
rebuild = named(torch._utils, "_rebuild_tensor_v2", None)


class Storage:
    def __init__(self, key, count, kind=FloatStorage):
        self.key, self.count, self.kind = key, count, kind


class Tensor:
    def __init__(self, storage, shape, strides, first=0, *metadata):
        self.arguments = (storage, first, shape, strides, False, OrderedDict(), *metadata)

    def __reduce__(self):
        return rebuild, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return ("storage", value.kind, value.key, "cpu", value.count) if isinstance(value, Storage) else None


def pickled(value, protocol=2):
    file = io.BytesIO()
    Pickler(file, protocol).dump(value)
    return file.getvalue()


def archive(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()


FLOATS = struct.pack("<110f", *(i / 128 for i in range(110)))


def state(storage=Storage("0", 110), shape=(10, 10), strides=(10, 1), first=0, *metadata):
    return OrderedDict([("fc.weight", Tensor(storage, shape, strides, first, *metadata)),
                        ("fc.bias", Tensor(storage if storage.key == "0" else Storage("0", 110), (10,), (1,), 100))])  # fmt: skip


def with_two(storage):
    return OrderedDict([("a", Tensor(Storage("0", 110), (10,), (1,))), ("b", Tensor(storage, (10,), (1,)))])


def saved(content, floats=FLOATS, *more, **how):
    content = content if isinstance(content, bytes) else pickled(content)
    return archive([("a/data.pkl", content), ("a/byteorder", "little"), ("a/data/0", floats), *more], **how)


OLD_HEAD = pickled(0x1950A86A20F9469CFC6C) + pickled(1001)


def saved_before(content, keys, floats=FLOATS):
    """As torch.save() did before version 1.6."""
    head = OLD_HEAD + pickled({"little_endian": True})
    return b"".join([head, pickled(content), pickled(keys), struct.pack("<q", len(floats) // 4), floats])


def patched(file, at, value):
    return file[:at] + value + file[at + len(value) :]


class Ran:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        import os

        return os.system, (self.command,)


def old_files():
    yield "old-magic.pth", b"\x80\2K\1.", "no file of torch.save()"
    for last in [(None,), (None,) * 3, [None], {}]:
        yield f"old-{type(last).__name__}{len(last)}.pth", OLD_HEAD + pickled(last), "no file of torch.save()"
    yield "old-cut.pth", open("tests/golden/weights/linear-old.pth", "rb").read()[:-40], "end of storage"
    yield "old-head.pth", open("tests/golden/weights/linear-old.pth", "rb").read()[:200], "truncated"
    yield "old-good.pth", saved_before(state(), ["0"]), ""
    yield "old-long-key.pth", saved_before(state(), ["0" * 65]), "long-key.pth: is no file of torch.save()"
    yield "old-two-types.pth", saved_before(with_two(Storage("0", 110, HalfStorage)), ["0"]), "two types or sizes"
    yield "old-longer.pth", saved_before(state(), ["0"]) + b"x", "more bytes than its storages"


def files(folder):
    good = saved(state())
    central, end = good.index(b"PK\1\2"), good.index(b"PK\5\6")
    last = good.rindex(b"PK\1\2")
    yield "good.pth", good, ""
    yield "LETTERS.pth", good.replace(b"a/data/0", b"A/DATA/0"), ""
    yield "no-metadata.pth", saved(state(Storage("0", 110), (10, 10), (10, 1), 0, {})), ""
    yield "truncated.pth", good[: len(good) // 2], "no zip directory"
    yield "compressed.pth", saved(state(), compression=zipfile.ZIP_DEFLATED), "is compressed"
    yield "bomb.pth", saved(state(), bytes(1 << 26), compression=zipfile.ZIP_DEFLATED), "is compressed"
    yield "encrypted.pth", patched(good, central + 8, b"\1\0"), "is encrypted"
    yield "longer.pth", patched(good, last + 20, b"\0\0\0\x70\0\0\0\x70"), "is longer than the file"
    yield "far.pth", patched(good, last + 42, b"\0\0\0\x70"), "leads beyond the end"
    yield "shared.pth", patched(good, last + 42, good[central + 42 : central + 46]), "is not where it should be"
    yield "directory.pth", patched(good, end + 16, b"\0\0\0\x70"), "directory is not at its end"
    yield "prefix.pth", good[:40] + good, "directory is not at its end"
    yield "two-ends.pth", patched(good, end + 20, b"\x17\0") + good[end:] + b"\n", "no zip directory"
    yield "large-directory.pth", patched(good, end + 12, b"\0\0\0\x70"), "claims a zip directory"
    yield "members.pth", patched(good, end + 10, b"\x09\0"), "claims 9 members and has 3"
    yield "paths.pth", saved(state(), FLOATS, ("../../etc/x", "x")), "leads elsewhere"
    yield "rooted.pth", saved(state(), FLOATS, ("/etc/x", "x")), "leads elsewhere"
    yield "twice.pth", saved(state(), FLOATS, ("a/data/0", FLOATS)), "twice"
    # PyTorch finds members without regard to capital letters.
    yield "TWICE.pth", saved(state(), FLOATS, ("a/DATA/0", FLOATS)), "member a/DATA/0 twice, perhaps with other capital"
    yield "two-DATA.pth", saved(state(), FLOATS, ("a/DATA.PKL", b"")), "twice"
    yield "BYTEORDER.pth", archive([("a/data.pkl", pickled(state())), ("a/BYTEORDER", "big"), ("a/data/0", FLOATS)]), "another order of bytes"
    yield "zero-byte.pth", saved(state(), FLOATS, ("a/data/0\1x", FLOATS)).replace(b"0\1x", b"0\0x"), "zero byte in its name"
    yield "zero-key.pth", saved(state(Storage("0\0x", 110))), "other names of storages"
    yield "folder.pth", patched(good, last + 38, b"\x10"), "is marked as a folder"
    yield "negated.pth", saved(state(Storage("0", 110), (10, 10), (10, 1), 0, {"neg": True})), "tensor with metadata"
    yield "float-metadata.pth", saved(state(Storage("0", 110), (10, 10), (10, 1), 0, 1.5)), "tensor with metadata"
    yield "two-types.pth", saved(with_two(Storage("0", 110, HalfStorage))), "names storage 0 with two types or sizes"
    yield "two-sizes.pth", saved(with_two(Storage("0", 100))), "names storage 0 with two types or sizes"
    yield "two-pickles.pth", saved(state(), FLOATS, ("b/data.pkl", b"")), "two members data.pkl"
    yield "no-pickle.pth", archive([("a/data/0", FLOATS)]), "no member data.pkl"
    yield "large-pickle.pth", saved(b"\x80\2" + b"N" * (17 << 20)), "data.pkl has 17825794 bytes"
    yield "endless.pth", saved(b"\x80\2" + b"N" * (2 << 20)), "more operations"
    yield "big-endian.pth", saved(state()).replace(b"little", b"big   "), "another order of bytes"
    yield "short.pth", saved(state(), FLOATS[:-4]), "storage 0 has 436 bytes for 110 elements"
    yield "no-storage.pth", saved(state(Storage("../0", 110))), "has no storage ../0"
    yield "offset.pth", saved(state(first=11)), "in a storage of 110 elements"
    yield "far-offset.pth", saved(state(first=2**62)), "in a storage of 110 elements"
    yield "strides.pth", saved(state(strides=(13, 1))), "in a storage of 110 elements"
    yield "far-strides.pth", saved(state(strides=(2**62, 2**62))), "in a storage of 110 elements"
    yield "negative.pth", saved(state(strides=(-1, 1))), "other arguments of a tensor"
    yield "huge.pth", saved(state(Storage("0", 2**40), (2**20, 2**20), (2**20, 1))), "bytes for 1099511627776 elements"
    yield "endless-shape.pth", saved(state(shape=(2**40, 2**40), strides=(0, 0))), "in a storage of 110 elements"
    yield "claims.pth", saved(state(Storage("0", 2**62))), "other names of storages"
    yield "long-key.pth", saved(state(Storage("0" * 65, 110))), "other names of storages"
    yield "sides.pth", saved(state(shape=(1,) * 9, strides=(1,) * 9)), "other arguments of a tensor"
    yield "strideless.pth", saved(state(strides=(1,))), "shape and strides differ in length"
    yield "runs.pth", saved({"state_dict": state(), "x": Ran(f"touch {folder}/ran")}), "wants posix.system"
    yield "eval.pth", saved(b"\x80\2cbuiltins\neval\nX\1\0\0\0" + b"1\x85R."), "wants builtins.eval"
    yield "class.pth", saved(b"\x80\2ctorchvision.models.resnet\nResNet\n)\x81."), "wants torchvision.models.resnet.ResNet"
    yield "protocol4.pth", saved(pickled(state(), 4)), "no pickle of protocol 2"
    yield "operation.pth", saved(b"\x80\2i."), "holds operation 0x69"
    yield "list.pth", saved([1, 2]), "holds no dict"
    yield "numbers.pth", saved({"a": 1, "b": 2}), "name the key of one with --key: a, b"
    yield "empty.pth", saved({"state_dict": {"a": 1}}), "holds no tensors"
    yield from old_files()


if __name__ == "__main__":
    for name, content, words in files(sys.argv[1]):
        with open(f"{sys.argv[1]}/{name}", "wb") as out:
            out.write(content)
        print(f"{name}\t{words}")
