"""flip_bit.py PATTERN ARGUMENT RANK FLIPS SECONDS: flips bits in the memory of a running rank, from outside.

Looks for a process of convoy that has ARGUMENT on its command line and the rank RANK. Whenever its private memory
holds the bytes of the file PATTERN, flips the highest bit of the byte in the middle. Does so until it has made FLIPS
flips, and prints how many; ends with 1 if SECONDS pass before. After a look that flipped something, it waits 0.3 s.
Needs the right to write /proc/PID/mem.
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
    """Flips a bit in each copy of the pattern; returns how many there were."""
    middle, flips = len(pattern) // 2, 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory, open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            begin, end, access, path = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
            if access != "rw-p" or path not in ("", "[heap]"):
                continue
            begin, end = int(begin, 16), int(end, 16)
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
                at = content.find(pattern)
                while at >= 0:
                    memory.seek(begin + at + middle)
                    memory.write(bytes([pattern[middle] ^ 0x80]))
                    flips += 1
                    at = content.find(pattern, at + 1)
            except (OSError, ValueError):  # the memory was given back meanwhile
                continue
    return flips


def main():
    pattern, argument, rank = open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[3]
    wanted, until, flips = int(sys.argv[4]), time.monotonic() + float(sys.argv[5]), 0
    while flips < wanted:
        if time.monotonic() > until:
            sys.exit(f"{flips} flips only")
        before = flips
        for pid in ranks(argument, rank):
            try:
                flips += flip(pid, pattern)
            except OSError:  # it ended
                continue
        if before < flips < wanted:
            time.sleep(0.3)
    print(flips)


main()
