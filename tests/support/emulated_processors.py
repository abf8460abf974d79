"""Gives emulated hosts a share of the machine's processors each: control groups with a quota, of version 1 or 2."""

import glob
import os

PERIOD = 10000  # microseconds; short beside a training step, so that a quota slows each step alike


class Quotas:
    def __init__(self, names):
        root = next((line.split()[1] for line in open("/proc/mounts") if " cgroup2 " in line), "")
        controllers = f"{root}/cgroup.controllers"
        self.unified = os.path.exists(controllers) and "cpu" in self._read(controllers)
        root = root if self.unified else "/sys/fs/cgroup/cpu"
        self.parent = f"{root}/convoy-{os.readlink('/proc/self/ns/pid')[5:-1]}"
        os.makedirs(self.parent, exist_ok=True)
        if self.unified:
            for folder in (root, self.parent):
                self._write(f"{folder}/cgroup.subtree_control", "+cpu")
        # Other programs on this machine wait, so that they disturb no host.
        most = ("cpu.weight", "10000") if self.unified else ("cpu.shares", "262144")
        self._write(f"{self.parent}/{most[0]}", most[1])
        for name in names:
            os.makedirs(f"{self.parent}/{name}", exist_ok=True)

    @staticmethod
    def _read(path):
        with open(path) as file:
            return file.read()

    @staticmethod
    def _write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def set(self, name, processors):
        """Gives a host so many processors' time."""
        time = int(processors * PERIOD)
        if self.unified:
            self._write(f"{self.parent}/{name}/cpu.max", f"{time} {PERIOD}")
            return
        self._write(f"{self.parent}/{name}/cpu.cfs_period_us", str(PERIOD))
        self._write(f"{self.parent}/{name}/cpu.cfs_quota_us", str(time))

    def join_command(self, name):
        """Returns the shell command that puts the shell, and what it starts, on a host's processors."""
        return f"echo 0 >{self.parent}/{name}/cgroup.procs"

    def remove(self):
        for folder in [*glob.glob(f"{self.parent}/*/"), self.parent]:
            try:
                os.rmdir(folder)
            except OSError:  # a process is about to end
                continue
