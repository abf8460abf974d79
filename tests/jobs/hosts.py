"""Several hosts on one machine: network namespaces joined by a bridge, each with a name, an address, an /etc/hosts and a /dev/shm of
its own. (With a shared /dev/shm, MPI's shared memory of two hosts clashes.) They belong to the namespaces that run.sh starts the tests in,
and vanish with these."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def sh(command, timeout=60, check=True, **options):
    """Returns the output of a bash command, both streams together. Raises AssertionError if it fails."""
    done = subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        **options,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {command}\n{done.stdout}")
    return done.stdout.strip()


def wait_for(what, condition, timeout=60):
    """Polls until condition() is true and returns its value. Raises AssertionError, which names
    `what`, after `timeout` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {timeout} s")


class Hosts:
    HERE = "10.98.0.254"  # this process, beside the hosts

    def __init__(self, names):
        self.dir = tempfile.mkdtemp(prefix="convoy-hosts-")
        os.chmod(self.dir, 0o755)
        self.address = {name: f"10.98.0.{i}" for i, name in enumerate(names, 1)}
        self.process = {}
        with open(self.path("hosts"), "w") as f:
            f.write(f"127.0.0.1 localhost\n{self.HERE} {socket.gethostname().split('.')[0]}\n")
            f.writelines(f"{address} {name}\n" for name, address in self.address.items())
        sh(
            f"ip link set lo up && ip link add convoy0 type bridge && ip addr add {self.HERE}/24 dev convoy0 && ip link set convoy0 up && mount --bind {self.path('hosts')} /etc/hosts"
        )
        for i, name in enumerate(names, 1):
            self.process[name] = subprocess.Popen(
                [
                    "unshare",
                    "-n",
                    "-u",
                    "-m",
                    "sh",
                    "-c",
                    f"hostname {name} && mount -t tmpfs none /dev/shm && touch {self.path(name)} && exec sleep infinity",
                ]
            )
            wait_for(f"host {name}", lambda: os.path.exists(self.path(name)), 10)
            sh(
                f"ip link add h{i} type veth peer name eth0 netns {self.process[name].pid} && ip link set h{i} master convoy0 up"
            )
            sh(
                self.on(
                    name,
                    f"sh -c 'ip link set lo up && ip addr add {self.address[name]}/24 dev eth0 && ip link set eth0 up'",
                )
            )
        # Stand-in for ssh: `agent HOST COMMAND...` passes no environment variables on.
        with open(self.path("agent"), "w") as f:
            f.write("#!/bin/bash\ncase $1 in\n")
            f.writelines(f"{name}|{self.address[name]}) host={p.pid} ;;\n" for name, p in self.process.items())
            f.write('*) echo "ssh: connect to host $1: No route to host" >&2; exit 255 ;;\nesac\nshift\ncd /\n'
                    'exec env -i PATH=/usr/bin:/bin HOME=/ nsenter -t $host -n -u -m sh -c "$*"\n')  # fmt: skip
        os.chmod(self.path("agent"), 0o755)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def on(self, name, command):
        """Returns the command line that runs `command` on a host."""
        return f"nsenter -t {self.process[name].pid} -n -u -m {command}"

    def cut_off(self, name):
        """Simulates a power failure: first no packet leaves the host, then no process is left."""
        sh(f"ip link set h{list(self.address).index(name) + 1} down")
        here, anchor = os.readlink(f"/proc/{self.process[name].pid}/ns/net"), self.process[name].pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if pid != anchor and os.readlink(f"/proc/{pid}/ns/net") == here:
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended meanwhile

    def bring_back(self, name):
        sh(f"ip link set h{list(self.address).index(name) + 1} up")

    def change_kernel(self, name):
        """Lets a host report another kernel than the others. Restored by restore_kernel()."""
        with open(self.path("osrelease"), "w") as f:
            f.write("5.0.0-other\n")
        sh(self.on(name, f"mount --bind {self.path('osrelease')} /proc/sys/kernel/osrelease"))

    def restore_kernel(self, name):
        sh(self.on(name, "umount /proc/sys/kernel/osrelease"))

    def stop(self):
        for process in self.process.values():
            process.kill()
            process.wait()
        # The kernel removes links some time after the namespace of their other end. The next hosts
        # need the same names at once.
        links = " ".join(["convoy0", *(f"h{i}" for i in range(1, len(self.address) + 1))])
        sh(f"umount /etc/hosts; for link in {links}; do ip link del $link; done", check=False)
        shutil.rmtree(self.dir, ignore_errors=True)
