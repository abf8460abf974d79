"""flip_bit.py PATTERN CONVOY_ARGUMENT RANK SECONDS: flips one bit in the memory of a running rank, from outside.

Waits for a process of build/convoy whose arguments contain CONVOY_ARGUMENT and whose rank is RANK, and looks in its
writable memory for the bytes of the file PATTERN until it finds them. Then flips the highest bit of the middle byte,
and prints the address. Ends with 1 after SECONDS without a find. Needs the right to write /proc/PID/mem.
"""

import os
import re
import sys
import time


def ranks(argument, rank):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            if not arguments[0].endswith(b"/convoy") or argument.encode() not in arguments:
                continue
            environment = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
                yield int(pid)
        except OSError:
            continue


def flip(pid, pattern):
    """The address, or None. Copies that are found later are flipped too: which one is used is not known."""
    found = []
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in open(f"/proc/{pid}/maps"):
            begin, end, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if not access.startswith("rw") or "[v" in line:
                continue
            begin, end = int(begin, 16), int(end, 16)
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, OverflowError, ValueError):
                continue
            at = content.find(pattern)
            while at >= 0:
                where = begin + at + len(pattern) // 2
                memory.seek(where)
                memory.write(bytes([pattern[len(pattern) // 2] ^ 0x80]))
                found.append(where)
                at = content.find(pattern, at + 1)
    return found


def main():
    pattern, argument, rank, seconds = open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[3], float(sys.argv[4])
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for pid in ranks(argument, rank):
            try:
                if found := flip(pid, pattern):
                    print(" ".join(map(hex, found)))
                    return
            except (OSError, FileNotFoundError):
                continue
        time.sleep(0.02)
    sys.exit("no such memory")


main()
