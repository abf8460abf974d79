"""A job that a test submits to Slurm: its output, progress and end."""
import json
import re

from hosts import sh, wait_for


class Job:
    checkout = None  # the checkout of Convoy from which jobs are submitted

    def __init__(self, command):
        """`command` omits jobs/submit.sh or sbatch, for example 'jobs/slurm/1gpu.sbatch RECIPE'."""
        self.command, self.tries = command, 0
        self._submit()

    @classmethod
    def submitted(cls, id, name):
        """Returns a job that was not submitted with sbatch."""
        job = cls.__new__(cls)
        job.id, job.tries, job.run = id, 3, cls.checkout.path("output", f"{name}-{id}")
        return job

    def _submit(self):
        answer = self.checkout.sh(("sbatch " if "--wrap" in self.command else "jobs/submit.sh ") + self.command)
        self.id = re.search(r"Submitted batch job (\d+)", answer).group(1)
        self.run = self.checkout.path("output", f"{self.fields()['JobName']}-{self.id}")

    def died_in_mpi_init(self):
        """Submits the job again if it died in MPI_Init. OpenMPI 4.1 under srun, with many ranks on
        few cores, sometimes does so before Convoy prints anything (see jobs/common.sh)."""
        if self.tries == 3 or self.fields()["ExitCode"] != "139:0" or "ranks\n" in self.log():
            return False
        self.tries += 1
        print("(MPI_Init failed; submitted again)", end=" ", flush=True)
        self._submit()
        return True

    def fields(self):
        """Returns the fields that scontrol prints of the job; of the first element, if it is an array."""
        text = sh(f"scontrol show job -o {self.id}").splitlines()[0]
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def state(self):
        return self.fields()["JobState"]

    def log(self):
        return self.checkout.read(self.run + ".log")

    def steps(self):
        """Returns the number of training steps in the metrics so far."""
        return sum('"kind":"train"' in line for line in self.checkout.read(self.run, "metrics.jsonl").splitlines())

    def events(self):
        lines = [
            json.loads(line)
            for line in self.checkout.read(self.run, "metrics.jsonl").splitlines()
            if line.endswith("}")
        ]
        return [line["event"] if "event" in line else line.get("type", "") for line in lines if line["kind"] == "event"]

    def training(self, steps=10, timeout=60):
        self._await(f"step {steps}", lambda: self.steps() >= steps or self.died_in_mpi_init() and False, timeout)
        return self

    def restarted(self, timeout=90):
        self._await(
            "a second start",
            lambda: self.fields()["Restarts"] != "0" and self.log().count("convoy job: convoy-") >= 2,
            timeout,
        )
        return self

    def ended(self, state="COMPLETED", timeout=120):
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY")
        self._await("the end", lambda: self.state() in over and not self.died_in_mpi_init(), timeout)
        if self.state() != state:
            raise AssertionError(
                f"job {self.id} is {self.state()} ({self.fields()['ExitCode']}), not {state}:\n{self.log()}"
            )
        return self

    def _await(self, what, condition, timeout):
        try:
            wait_for(f"job {self.id}: {what}", condition, timeout)
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n{sh(f'scontrol show job {self.id}', check=False)}\n{self.log()[-6000:]}"
            ) from None
