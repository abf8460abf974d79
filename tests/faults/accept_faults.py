"""accept_faults.py FAULT TRIES CONVOY: does `CONVOY accept` name the emulated host that has a fault?

Each try emulates hosts on this machine, gives a random one of them the fault, and runs the levels that should notice.
A try succeeds if that host is blamed, for the right reason, and no other host is. The faults are those of FAULTS; of
"none-of-4" nobody may be blamed. Prints a line per try, and "named N of TRIES". Ends with 1 if a try failed, and with 77
where the right to emulate hosts is missing. As root: unshare --net --mount --pid --ipc --fork --mount-proc
--kill-child /usr/bin/python3 tests/faults/accept_faults.py slow-link 20 build/convoy
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/../jobs", f"{HERE}/../support"]
from emulated_processors import Quotas  # noqa: E402
from hosts import Hosts, sh  # noqa: E402

CABLE = "tbf rate 1gbit burst 256kb latency 100ms"  # slower than the processors, whose noise it hides
SUPPORT = os.path.realpath(f"{HERE}/../support")


class Machines(Hosts):
    """Emulated hosts that do not see one another's processes, each with a fixed share of the machine's processors."""

    def __init__(self, count, processors):
        self.inside = {}  # by host: the first process that it sees
        super().__init__([f"node{i:02d}" for i in range(1, count + 1)])
        self.quotas = Quotas(self.address)
        self.helpers, self.folder = [], ""
        for name in self.address:
            self.quotas.set(name, processors)
            sh(self.on(name, f"tc qdisc add dev eth0 root {CABLE}"))
            own = "unshare --pid --fork --kill-child --mount-proc sh -c 'echo up; exec sleep infinity'"
            self.start(shlex.split(self.on(name, own)))
            self.inside[name] = sh(f"pgrep -P {self.helpers[-1].pid}")
        with open(self.path("agent"), "w") as f:
            f.write("#!/bin/bash\ncase $1 in\n")
            for name in self.address:
                join = self.quotas.join_command(name)
                f.write(f"{name}|{self.address[name]}) pid={self.inside[name]}; {join} ;;\n")
            f.write('esac\nshift\ncd /\nexec nsenter -t $pid -n -u -m -p sh -c "$*"\n')

    def on(self, name, command):
        if name not in self.inside:
            return super().on(name, command)
        return f"nsenter -t {self.inside[name]} -n -u -m -p {command}"

    def start(self, command):
        """Starts a helper that prints "up" when its work is done, and goes on."""
        self.helpers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        if self.helpers[-1].stdout.readline() != "up\n":
            raise AssertionError(f"did not start: {shlex.join(command)}")

    def accept(self, convoy, options, before="true", ranks=1, seconds=300):
        """Runs `convoy accept` on all hosts, `before` in each rank's shell first. Returns accept.json, and the text."""
        folder = self.folder = tempfile.mkdtemp(dir=self.dir)
        with open(self.path("machines"), "w") as f:
            f.writelines(f"{address} slots={ranks}\n" for address in self.address.values())
        command = f"{before}; exec {os.path.realpath(convoy)} accept --device cpu --output {folder}/out {options}"
        job = (
            f"timeout -k 5 {seconds} mpirun --allow-run-as-root --hostfile {self.path('machines')} "
            f"-np {ranks * len(self.address)} --bind-to none --mca plm_rsh_agent {self.path('agent')} "
            "--mca plm_rsh_no_tree_spawn 1 --mca mpi_yield_when_idle 1 "
            "--mca btl_tcp_if_include 10.98.0.0/24 --mca oob_tcp_if_include 10.98.0.0/24 "
            f"sh -c {shlex.quote(command)}"
        )
        text = sh(job, timeout=seconds + 20, check=False)
        try:
            with open(f"{folder}/out/accept.json") as f:
                return json.load(f), text
        except OSError:
            return None, text

    def stop(self):
        for helper in self.helpers:
            helper.kill()
            helper.wait()
            helper.stdout.close()
        super().stop()
        self.quotas.remove()


# ---- faults: each plants itself on a host, and returns what the ranks' shells do first ---------
def on_host(name, command):
    return f'[ "$(hostname)" != {name} ] || {{ {command}; }}'


def slow_link(machines, name):
    number = list(machines.address).index(name) + 1
    for device in (machines.on(name, "tc qdisc change dev eth0"), f"tc qdisc add dev h{number}"):
        sh(f"{device} root tbf rate 10mbit burst 64kbit latency 400ms")
    return "true"


def other_cable(machines, name, milliseconds, loss):
    """Takes a host's cable away, and gives it one with a delay or losses."""
    sh(machines.on(name, "ip link set eth0 down name gone"))
    pid = str(machines.process[name].pid)
    link = [sys.executable, f"{SUPPORT}/slow_link.py", "convoy0", pid, machines.address[name]]
    machines.start([*link, str(milliseconds), str(loss)])
    return "true"


def late_link(machines, name):
    return other_cable(machines, name, milliseconds=10, loss=0)  # 20 ms there and back


def lossy_link(machines, name):
    return other_cable(machines, name, milliseconds=0, loss=0.05)


def quota(machines, name):
    machines.quotas.set(name, 0.5 * PROCESSORS)
    return "true"


def neighbour(machines, name):
    return on_host(name, "(while :; do :; done) & (while :; do :; done) & true")


def library(machines, name):
    """Lets libhdf5 say that it is another version, as if that were installed."""
    stand_in = machines.path("version.so")
    code = "int H5get_libversion(unsigned* a, unsigned* b, unsigned* c) { *a = 1, *b = 8, *c = 23; return 0; }"
    sh(f"echo {shlex.quote(code)} | cc -shared -fPIC -o {stand_in} -x c -")
    return on_host(name, f"export LD_PRELOAD={stand_in}")


def system(machines, name):
    with open(machines.path("os-release"), "w") as file:
        file.write('PRETTY_NAME="Other 1.0"\n')
    sh(machines.on(name, f"mount --bind {machines.path('os-release')} /etc/os-release"))
    return "true"


def full_memory(machines, name):
    for host in machines.address:
        sh(machines.on(host, "mount -o remount,size=128m /dev/shm"))
    sh(machines.on(name, "sh -c 'head -c 128M /dev/zero >/dev/shm/full || true'"))
    return "true"


DATA, DATA_FILES, DATA_BYTES = "data", 8, 32 << 20


def make_data(machines):
    os.makedirs(machines.path(DATA))
    for i in range(DATA_FILES):
        with open(machines.path(DATA, f"file{i}"), "wb") as file:
            file.write(os.urandom(DATA_BYTES))
    return f"--data {machines.path(DATA)}"


def slow_folder(machines, name):
    folder = [f"{SUPPORT}/slow_folder.py", machines.path(DATA), "20e6"]
    machines.start(shlex.split(machines.on(name, shlex.join([sys.executable, *folder]))))
    return "true"


PROCESSORS = 0.4  # of each of four hosts: less than two cores together, so that no host slows another


class Fault(NamedTuple):
    plant: object
    levels: str
    reasons: dict  # by level that must blame the host: words of its reason
    hosts: int = 4


FAULTS = {
    "none-of-3": Fault(lambda machines, name: "true", "inventory,sums,speed", {}, hosts=3),
    "none-of-4": Fault(lambda machines, name: "true", "inventory,sums,speed,input", {}),
    "none-of-5": Fault(lambda machines, name: "true", "inventory,sums,speed", {}, hosts=5),
    "slow-link": Fault(slow_link, "sums", {"sums": "slow with every other node"}),
    "late-link": Fault(late_link, "sums", {"sums": "slow with every other node"}),
    "lossy-link": Fault(lossy_link, "sums", {"sums": "slow with every other node"}),
    "quota": Fault(quota, "inventory,speed", {"inventory": "CPU quota", "speed": "alone"}),
    "neighbour": Fault(neighbour, "speed", {"speed": "images/s"}),
    "library": Fault(library, "inventory", {"inventory": "HDF5 1.8.23"}),
    "system": Fault(system, "inventory", {"inventory": "OS Other 1.0"}),
    "full-memory": Fault(full_memory, "inventory", {"inventory": "free in /dev/shm"}),
    "slow-folder": Fault(slow_folder, "input", {"input": "reads slowly"}),
}


def problem(result, fault, name):
    """Returns what is wrong with the verdict, and an empty string if it is right."""
    if result is None:
        return "no result"
    for level in result["levels"]:
        blamed = {b["host"]: b["reason"] for b in level["blamed"]}
        if others := sorted(host for host in blamed if host != name):
            return f"{level['level']} blames {', '.join(others)}: {blamed[others[0]]}"
        words = fault.reasons.get(level["level"])
        if words and words not in blamed.get(name, ""):
            return f"{level['level']} does not say '{words}' of {name}: {blamed.get(name, 'nothing')}"
    return ""


def one_try(fault, convoy, number, verbose):
    machines = Machines(fault.hosts, PROCESSORS * 4 / max(4, fault.hosts))
    try:
        name = random.choice(list(machines.address)) if fault.reasons else ""
        options = make_data(machines) if "input" in fault.levels else ""
        before = fault.plant(machines, name)
        quick = "" if fault.levels == "inventory" else "--level quick"
        result, text = machines.accept(convoy, f"{quick} --only {fault.levels} {options}", before)
        wrong = problem(result, fault, name)
        print(f"try {number}: {name or 'no host'}: {wrong or 'right'}", flush=True)
        if wrong or verbose:
            print(text, flush=True)
            print(json.dumps(result, indent=1), flush=True)
        return not wrong
    finally:
        machines.stop()


def check_rights():
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun") or not os.path.exists("/dev/fuse"):
        print("needs root, /dev/net/tun and /dev/fuse")
        sys.exit(77)


def main():
    fault, tries, convoy = FAULTS[sys.argv[1]], int(sys.argv[2]), sys.argv[3]
    check_rights()
    named = sum(one_try(fault, convoy, i, os.environ.get("VERBOSE")) for i in range(1, tries + 1))
    print(f"named {named} of {tries}")
    sys.exit(named != tries)


if __name__ == "__main__":
    main()
