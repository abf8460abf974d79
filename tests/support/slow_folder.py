"""slow_folder.py FOLDER RATE: mounts a file system over FOLDER that reads its files at RATE bytes a second.

A read-only FUSE file system of one folder without subfolders, which speaks the kernel's protocol itself because
libfuse may be absent. Prints "up" when it is mounted. Ends when it is unmounted.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
ROOT, DIRECT_IO = 1, 1  # number of the root; flag of an open file that the kernel shall not cache
VALID = 3600  # seconds for which the kernel may keep names and attributes
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4


class Folder:
    def __init__(self, path, rate):
        self.rate, self.files = rate, {}
        here = os.open(path, os.O_RDONLY | os.O_DIRECTORY)  # the folder below the mount
        self.root = os.fstat(here)
        for name in sorted(os.listdir(here)):
            self.files[name] = os.open(name, os.O_RDONLY, dir_fd=here)
        self.numbers = {name: ROOT + 1 + i for i, name in enumerate(self.files)}
        self.opened = dict(zip(self.numbers.values(), self.files.values()))

    def attributes(self, number):
        s = self.root if number == ROOT else os.fstat(self.opened[number])
        return struct.pack(
            "<QQQQQQIIIIIIIIII", number, s.st_size, s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime),
            0, 0, 0, s.st_mode, s.st_nlink, s.st_uid, s.st_gid, 0, 4096, 0)  # fmt: skip

    def entries(self, offset, most):
        answer = b""
        for i, (name, number) in list(enumerate(self.numbers.items(), 1))[offset:]:
            encoded = name.encode()
            entry = struct.pack("<QQII", number, i, len(encoded), stat.S_IFREG >> 12) + encoded
            entry += bytes(-len(entry) % 8)
            if len(answer) + len(entry) > most:
                break
            answer += entry
        return answer

    def read(self, number, offset, size):
        data = os.pread(self.opened[number], size, offset)
        time.sleep(len(data) / self.rate)
        return data

    def answer(self, code, number, body):
        """Returns the answer to a request: bytes, or the number of an error."""
        if code == INIT:
            major, minor, ahead, _ = struct.unpack_from("<IIII", body)
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, ahead, 0, 12, 9, 1 << 16, 1, 0, 0, 0)
        if code == LOOKUP:
            found = self.numbers.get(body.rstrip(b"\0").decode())
            if found is None:
                return errno.ENOENT
            return struct.pack("<QQQQII", found, 0, VALID, VALID, 0, 0) + self.attributes(found)
        if code == GETATTR:
            return struct.pack("<QII", VALID, 0, 0) + self.attributes(number)
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", number, DIRECT_IO if code == OPEN else 0, 0)
        if code in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            return (self.read if code == READ else lambda _, *where: self.entries(*where))(number, offset, size)
        if code == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 0, 0, len(self.files), 0, 4096, 255, 4096, 0)
        return b"" if code in (RELEASE, RELEASEDIR, FLUSH) else errno.ENOSYS


def main():
    path, rate = sys.argv[1], float(sys.argv[2])
    folder = Folder(path, rate)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode={folder.root.st_mode:o},user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slow", path.encode(), b"fuse.slow", MS_RDONLY | MS_NOSUID | MS_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    print("up", flush=True)
    while True:
        try:
            request = os.read(fuse, 1 << 17)
        except OSError as error:
            if error.errno == errno.ENODEV:  # it was unmounted
                return
            continue
        size, code, unique, number = struct.unpack_from("<IIQQ", request)
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        answer = folder.answer(code, number, request[40:size])
        error, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
        os.write(fuse, struct.pack("<IiQ", 16 + len(data), error, unique) + data)


main()
