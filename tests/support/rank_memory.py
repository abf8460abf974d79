"""Reads and changes the memory of a running rank from outside, through /proc/PID/mem."""

import os
import re
import signal
import time


def ranks(argument):
    """Returns {rank: process} of the processes of convoy that have ARGUMENT on their command line."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if not words[0].endswith(b"convoy") or argument.encode() not in words:
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                rank = re.search(rb"\bOMPI_COMM_WORLD_RANK=(\d+)", file.read())
            found[int(rank[1]) if rank else 0] = int(pid)
        except OSError:  # it has ended
            continue
    return found


class Memory:
    def __init__(self, pid):
        self.pid, self.file = pid, os.open(f"/proc/{pid}/mem", os.O_RDWR)

    def close(self):
        os.close(self.file)

    def read(self, address, size):
        return os.pread(self.file, size, address)

    def stop(self):
        """Stops the rank, and returns when all its threads stand still."""
        os.kill(self.pid, signal.SIGSTOP)
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            while self.state(thread) not in "TtZX":
                time.sleep(0.0002)

    def state(self, thread):
        with open(f"/proc/{self.pid}/task/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def private(self):
        """Yields (address, content) of each region that the rank alone may write, and that no file backs."""
        with open(f"/proc/{self.pid}/maps") as maps:
            lines = maps.read().splitlines()
        for line in lines:
            begin, end, access, path = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
            if access == "rw-p" and path in ("", "[heap]"):
                try:
                    yield int(begin, 16), self.read(int(begin, 16), int(end, 16) - int(begin, 16))
                except OSError:
                    continue

    def places_of(self, contents):
        """Yields (address, i) of each place that holds contents[i]."""
        for begin, memory in self.private():
            for i, content in enumerate(contents):
                at = memory.find(content)
                while at >= 0:
                    yield begin + at, i
                    at = memory.find(content, at + 1)

    def flip(self, address, bit):
        byte = self.read(address + bit // 8, 1)[0] ^ 1 << bit % 8
        os.pwrite(self.file, bytes([byte]), address + bit // 8)
