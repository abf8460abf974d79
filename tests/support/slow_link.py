"""slow_link.py BRIDGE PID ADDRESS MILLISECONDS LOSS: the cable of an emulated host, with a delay and losses.

Joins the network namespace of the process PID, where the cable gets the name eth0 and ADDRESS, and BRIDGE. Each frame
arrives after MILLISECONDS; a share LOSS of them, as 0.05, is lost. `tc netem` does the same, but many kernels of
virtual machines lack it. Prints "up" when the cable is up.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
CLONE_NEWNET = 0x40000000
MOST_WAITING = 2000  # frames on their way, as in the queue of a switch


def tap(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def run(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def enter_network_of(pid):
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def read_frames(fd, waiting, delay, loss):
    """Puts the frames that can be read into the queue, with the time at which each arrives."""
    try:
        while True:
            frame = os.read(fd, 65536)
            if random.random() >= loss and len(waiting) < MOST_WAITING:
                waiting.append((time.monotonic() + delay, frame))
    except BlockingIOError:
        return


def write_frames(fd, waiting):
    while waiting and waiting[0][0] <= time.monotonic():
        try:
            os.write(fd, waiting.popleft()[1])
        except OSError:  # the other end is down
            continue


def main():
    bridge, pid, address = sys.argv[1:4]
    delay, loss = float(sys.argv[4]) / 1000, float(sys.argv[5])
    port = f"slow{pid}"[:15]
    ends = [tap(port)]
    run(f"link set {port} master {bridge} up")
    enter_network_of(pid)
    ends.append(tap("eth0"))
    run(f"addr add {address}/24 dev eth0", "link set eth0 up")
    print("up", flush=True)
    towards = {ends[0]: (ends[1], collections.deque()), ends[1]: (ends[0], collections.deque())}
    while True:
        due = min((waiting[0][0] for _, waiting in towards.values() if waiting), default=time.monotonic() + 1)
        readable, _, _ = select.select(ends, [], [], max(0, due - time.monotonic()))
        for fd in readable:
            read_frames(fd, towards[fd][1], delay, loss)
        for fd, waiting in towards.values():
            write_frames(fd, waiting)


main()
