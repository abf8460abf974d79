"""A real Slurm of four emulated nodes with 8 simulated GPUs, on this machine: needs root, slurm-wlm and munge."""

import os
import shutil
import socket
import subprocess
import tempfile

from hosts import Hosts, sh, wait_for

NODES, GPUS = 4, 8
NAMES = [f"n{i}" for i in range(1, NODES + 1)]


class Cluster:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="convoy-slurm-")
        os.chmod(self.dir, 0o755)
        os.environ["SLURM_CONF"] = self.path("slurm.conf")
        self.daemons = []
        self.hosts = Hosts(NAMES)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self):
        self._write_configuration()
        self._start_munge()
        self._daemon("slurmctld", "slurmctld -D -i")
        wait_for("slurmctld", lambda: "UP" in sh("scontrol ping", check=False), 30)
        for name in NAMES:
            self._start_host(name)
        wait_for("four idle nodes", lambda: sh("sinfo -h -p main -t idle -o %D", check=False) == str(NODES), 30)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        self.hosts.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def bring_back(self, name):
        """Restores the host after hosts.cut_off()."""
        self.hosts.bring_back(name)
        self._start_host(name)
        sh(f"scontrol update nodename={name} state=resume", check=False)  # a healthy slurmd resumes the node by itself
        wait_for(f"{name} idle", lambda: sh(f"sinfo -h -n {name} -p main -t idle -o %D", check=False) == "1", 60)

    def _start_host(self, name):
        self._daemon(name, self.hosts.on(name, f"slurmd -D -N {name}"))

    def logs(self):
        return sh(f"tail -n 40 {self.path('log')}/*", check=False)

    def _daemon(self, name, command):
        with open(self.path("log", name + ".out"), "w") as log:
            self.daemons.append(
                subprocess.Popen(command.split(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            )

    def _start_munge(self):
        with open(self.path("munge", "key"), "wb") as f:
            f.write(os.urandom(128))
        os.chmod(self.path("munge", "key"), 0o400)
        m = self.path("munge")
        self._daemon(
            "munged",
            f"munged -F -f --key-file {m}/key --socket {m}/socket --pid-file {m}/pid --log-file {m}/log --seed-file {m}/seed",
        )
        wait_for("munge", lambda: "Success" in sh(f"munge -n -S {m}/socket | unmunge -S {m}/socket", check=False), 20)

    def _write_configuration(self):
        here = socket.gethostname().split(".")[0]
        for name in NAMES:
            os.makedirs(self.path("tmp", name))
            os.makedirs(self.path("spool", name))
        for name in ("state", "log", "munge"):
            os.makedirs(self.path(name), mode=0o755)
        # Eight devices that every machine has stand in for GPUs.
        with open(self.path("gres.conf"), "w") as f:
            f.write(
                f"NodeName=n[1-{NODES}] Name=gpu File=/dev/tty[1-{GPUS}]\n"
                if os.path.exists("/dev/tty8")
                else f"NodeName=n[1-{NODES}] Name=gpu Count={GPUS}\n"
            )
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr={self.hosts.address[name]} CPUs=64 RealMemory=64000 Gres=gpu:{GPUS}"
            for name in NAMES
        )
        with open(self.path("slurm.conf"), "w") as f:
            f.write(f"""ClusterName=convoy
SlurmctldHost={here}({Hosts.HERE})
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
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_interval=2
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=30 MaxTime=INFINITE
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE
{nodes}
""")
