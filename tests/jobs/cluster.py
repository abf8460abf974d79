"""A real Slurm of four emulated nodes with 8 GPUs that are not there, on this machine: needs root, slurm-wlm and munge.

Each slurmd has a host name, an /etc/hosts and a /dev/shm of its own: with a shared one, MPI's shared memory of two "nodes" clashes.
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

NODES, GPUS = 4, 8
NAMES = [f"n{i}" for i in range(1, NODES + 1)]


def sh(command, timeout=60, check=True, **options):
    """The output of a bash command, both streams together; AssertionError if it fails."""
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {command}\n{done.stdout}")
    return done.stdout.strip()


def wait_for(what, condition, timeout=60):
    """Polls until condition() is true and returns its value; AssertionError, with what was awaited, after `timeout` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {timeout} s")


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="convoy-slurm-")
        self.daemons = []
        os.chmod(self.dir, 0o755)
        os.environ["SLURM_CONF"] = self.path("slurm.conf")

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self):
        self._start_munge()
        self._write_configuration()
        self._daemon("slurmctld", ["slurmctld", "-D", "-i"])
        wait_for("slurmctld", lambda: "UP" in sh("scontrol ping", check=False), 30)
        for name in NAMES:
            script = (
                f"hostname {name} && mount --make-rprivate / && mount -t tmpfs none /dev/shm && "
                f"mount --bind {self.path('hosts')} /etc/hosts && exec slurmd -D -N {name}"
            )
            self._daemon(name, ["unshare", "-u", "-m", "bash", "-c", script])
        wait_for("four idle nodes", lambda: sh("sinfo -h -t idle -o %D", check=False) == str(NODES), 30)

    def stop(self):
        if self.daemons:
            subprocess.run(["scancel", "--full", "-u", "root"], timeout=20, stderr=subprocess.DEVNULL)
            try:
                wait_for("no job left", lambda: not sh("squeue -h -t running,completing", check=False), 20)
            except AssertionError:
                pass
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        # Steps outlive their slurmd; what is left of them has this cluster's configuration in its environment.
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    ours = f"SLURM_CONF={self.path('slurm.conf')}".encode() in f.read().split(b"\0")
                if ours and int(pid) != os.getpid():
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def logs(self):
        return sh(f"tail -n 40 {self.path('log')}/*", check=False)

    def _daemon(self, name, command):
        log = open(self.path("log", name + ".out"), "w")
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))

    def _start_munge(self):
        os.makedirs(self.path("log"))
        os.makedirs(self.path("munge"), mode=0o755)
        key = self.path("munge", "key")
        with open(key, "wb") as f:
            f.write(os.urandom(128))
        os.chmod(key, 0o400)
        self._daemon(
            "munged",
            ["munged", "-F", "-f", "--key-file", key, "--socket", self.path("munge", "socket"), "--pid-file", self.path("munge", "pid"),
             "--log-file", self.path("munge", "log"), "--seed-file", self.path("munge", "seed")],
        )  # fmt: skip
        wait_for("munge", lambda: sh(f"munge -n -S {self.path('munge', 'socket')} | unmunge -S {self.path('munge', 'socket')}", check=False).count("Success"), 20)

    def _write_configuration(self):
        ports = free_ports(NODES + 1)
        here = socket.gethostname().split(".")[0]
        for name in NAMES:
            os.makedirs(self.path("tmp", name))
            os.makedirs(self.path("spool", name))
        os.makedirs(self.path("state"))
        with open(self.path("hosts"), "w") as f:
            f.write("127.0.0.1 localhost " + " ".join([here] + NAMES) + "\n")
        # Eight devices that every machine has stand for GPUs.
        with open(self.path("gres.conf"), "w") as f:
            f.write(f"NodeName=n[1-{NODES}] Name=gpu File=/dev/tty[1-{GPUS}]\n" if os.path.exists("/dev/tty8") else f"NodeName=n[1-{NODES}] Name=gpu Count={GPUS}\n")
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=64 RealMemory=64000 Gres=gpu:{GPUS}" for name, port in zip(NAMES, ports)
        )
        with open(self.path("slurm.conf"), "w") as f:
            f.write(f"""ClusterName=convoy
SlurmctldHost={here}(127.0.0.1)
SlurmctldPort={ports[-1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={self.path("munge", "socket")},cred_expire=5
StateSaveLocation={self.path("state")}
SlurmdSpoolDir={self.path("spool")}/%n
SlurmctldPidFile={self.path("slurmctld.pid")}
SlurmdPidFile={self.path("%n.pid")}
SlurmctldLogFile={self.path("log", "slurmctld")}
SlurmdLogFile={self.path("log")}/%n
TmpFS={self.path("tmp")}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
KillWait=10
MinJobAge=900
SlurmdTimeout=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_interval=2
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=30 MaxTime=INFINITE
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE
{nodes}
""")
