"""A real PBS, a user's own or an emulated one. From the environment:
PBS_PREFIX the folder that has bin/qsub
PBS_ON     a command that runs another on a host: `$PBS_ON HOST bash -s` (ssh)
PBS_LOGIN  the host that jobs are submitted from (none: this one)
PBS_USER   who submits them, where the tests run as root, from whom PBS takes no jobs
PBS_FOLDER a folder that all hosts see under this path (output/ of this checkout)
PBS_MINE   not empty: server and hosts are there for these tests, which then change settings and
           cut hosts off, as root over PBS_ON"""

import os
import re
import shlex
import subprocess

from checkout import ROOT, Checkout, parameters
from hosts import wait_for

PREFIX = os.environ.get("PBS_PREFIX", "")
LOGIN, USER, MINE = (os.environ.get(name, "") for name in ("PBS_LOGIN", "PBS_USER", "PBS_MINE"))
ON = shlex.split(os.environ.get("PBS_ON") or "ssh")


def on(host, command, user="", check=True, timeout=60):
    """Returns the output of a bash command on a host ("": here), both streams. Raises AssertionError if it fails."""
    words = ([*ON, host] if host else []) + (["runuser", "-u", user, "--"] if user else []) + ["bash", "-s"]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(words, input=command, stdout=pipe, stderr=both, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode} on {host or 'this host'}: {command}\n{done.stdout}")
    return done.stdout.strip()


class SharedCheckout(Checkout):
    """A checkout of the submitting user that all hosts see; its site file finds PBS's commands."""

    def __init__(self):
        super().__init__(os.environ.get("PBS_FOLDER") or os.path.join(ROOT, "output"))
        self.site("")
        if USER:
            subprocess.run(["chown", "-R", USER, self.dir], check=True)

    def site(self, text):
        with open(self.path("jobs/site/test.env"), "w") as f:
            f.write(f"PATH={PREFIX}/bin:$PATH\nexport OMPI_MCA_mpi_yield_when_idle=1\n{text}\n")

    def user(self, command, **options):
        """Runs a command in the checkout as the user, where jobs are submitted."""
        return on(LOGIN, f"export PATH={PREFIX}/bin:$PATH\ncd {self.dir} || exit\n{command}", user=USER, **options)


def manager(command, **options):
    """Runs a command as PBS's manager."""
    return on(LOGIN, f"export PATH={PREFIX}/bin:$PATH\n{command}", **options)


class Job:
    def __init__(self, checkout, id):
        self.checkout, self.id = checkout, id

    @classmethod
    def submitted(cls, checkout, command):
        """`command` omits jobs/submit.sh, for example 'jobs/pbs/1gpu.pbs RECIPE'."""
        return cls(checkout, checkout.user(f"jobs/submit.sh {command}").splitlines()[-1])

    def fields(self):
        """Returns the fields that qstat prints of the job; {} if it has ended and PBS keeps no history."""
        text = self.checkout.user(f"qstat -x -f '{self.id}'", check=False).replace("\n\t", "")
        return dict(re.findall(r"^ +([\w.]+) = (.*)$", text, re.M))

    def hosts(self):
        return re.findall(r"([\w.-]+)/", self.fields().get("exec_host", ""))

    def run(self):
        """Returns the run folder; for a copy that of its first job."""
        fields = self.fields()
        said = re.search(r"CONVOY_OUTPUT=([^,]+)", fields["Variable_List"])
        own = f"output/{fields['Job_Name']}-{self.id.split('.')[0]}"
        return self.checkout.path(said.group(1) if said else own)

    def log(self):
        """Returns the whole log once the job has ended; until then it is on the first host."""
        return self.checkout.read("output", self.id + ".OU")

    def steps(self):
        return self.checkout.read(self.run(), "metrics.jsonl").count('"kind":"train"')

    def training(self, steps=42, timeout=300):
        self._await(f"step {steps}, or the end", lambda: self.steps() >= steps or self.over(), timeout)
        if self.over():
            raise AssertionError(f"job {self.id} ended before it was disturbed:\n{self.log()[-6000:]}")
        return self

    def started(self, times, timeout=120):
        self._await(f"start {times}", lambda: int(self.fields().get("run_count", 0)) >= times, timeout)
        return self

    def over(self):
        return self.fields().get("job_state", "F") == "F"

    def ended(self, code=0, timeout=900):
        """Waits for the job's end, with this exit code (None: any)."""
        self._await("the end", self.over, timeout)
        said = self.fields().get("Exit_status", str(code))
        if code is not None and said != str(code):
            raise AssertionError(f"job {self.id} ended with {said}, not {code}:\n{self.log()[-6000:]}")
        return self

    def copy(self):
        """Returns the job that continues this one, which has ended."""
        said = re.search(r"continues as job (\S+)", self.log())
        if not said:
            raise AssertionError(f"job {self.id} has no copy:\n{self.log()[-6000:]}")
        return Job(self.checkout, said.group(1))

    def model(self):
        return parameters(self.run() + "/model.h5")

    def _await(self, what, condition, timeout):
        try:
            wait_for(f"job {self.id}: {what}", condition, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.fields()}\n{self.log()[-6000:]}") from None
