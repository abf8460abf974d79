"""Tests jobs/adhoc/run.sh unchanged, and the toy all-reduce, on emulated hosts with a stand-in for ssh."""

import contextlib
import glob
import itertools
import os
import re
import shutil
import subprocess
import unittest

from checkout import Checkout, acceptance, parameters, ranks_by_host
from hosts import Hosts, wait_for

NAMES = ["m1", "m2", "m3"]
LONG = "input/recipes/mnist-linear.cfg --data input/mnist --device cpu --batch-per-rank 50 --epochs 20 --log-interval 1"
hosts = checkout = None


def setUpModule():
    global hosts, checkout
    if os.geteuid() != 0:
        raise unittest.SkipTest("network namespaces need root")
    hosts = Hosts(NAMES)
    unittest.addModuleCleanup(hosts.stop)
    checkout = Checkout()
    unittest.addModuleCleanup(checkout.remove)
    with open(checkout.path("jobs/adhoc/hostfile"), "w") as f:
        f.write("# ours\nm1 slots=2\n\n  m2 slots=1 # a small one\nm3 slots=2\n")


def session_folders():
    """Returns the folders of mpirun's files, as passed to each running rank; those of m1 come first."""
    found = []
    for process in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(process, "rb") as file:
            variables = dict(entry.split("=", 1) for entry in file.read().decode().split("\0") if "=" in entry)
            if "OMPI_COMM_WORLD_RANK" in variables:
                found.append((int(variables["OMPI_COMM_WORLD_RANK"]), variables["OMPI_MCA_orte_top_session_dir"]))
    return [folder for _, folder in sorted(found)]


class Adhoc(unittest.TestCase):
    def start(self, arguments, **environment):
        self.log = open(checkout.path("output/adhoc.log"), "w+")
        self.addCleanup(self.log.close)
        command = hosts.on("m1", "").split() + [checkout.path("jobs/adhoc/run.sh"), *arguments.split()]
        job = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                               env={**os.environ, "OMPI_MCA_plm_rsh_agent": hosts.path("agent"), **environment})  # fmt: skip
        self.addCleanup(job.kill)
        return job

    def run_to_end(self, arguments, code=0, **environment):
        job = self.start(arguments, **environment)
        result = job.wait(90)
        self.assertEqual(result, code, self.said())
        return self.said()

    def said(self):
        return checkout.read("output/adhoc.log")

    def test_ranks_on_all_hosts_and_resume(self):
        training = LONG.replace("--epochs 20", "--epochs 60")  # 20 end before a signal comes on fast processors
        said = self.run_to_end(training + " --output output/whole")
        self.assertEqual(checkout.read("output/whole.log"), said)
        self.assertIn("done: test accuracy", said)
        self.assertEqual(ranks_by_host(checkout.path("output/whole/metrics.h5")), {"m1": 2, "m2": 1, "m3": 2})
        job = self.start(training + " --output output/cut")
        wait_for("training", lambda: checkout.read("output/cut/metrics.jsonl").count('"kind":"train"') > 10, 60)
        folders = session_folders()
        self.assertEqual(len(folders), 5, "ranks")
        for folder in folders:
            base, session = os.path.split(folder)
            self.assertRegex(base, "/convoy-job-[^/]{6}$")
            self.assertTrue(session.startswith("ompi."), folder)
            self.assertEqual(os.stat(base).st_mode & 0o7777, 0o700, base)
        job.terminate()
        self.assertEqual(job.wait(60), 85, self.said())
        self.assertFalse(os.path.exists(os.path.dirname(folders[0])), "the folder on the host of the script")
        self.assertIn("the same command with --output output/cut resumes this run", self.said())
        cut = self.said()
        resumed = self.run_to_end(training + " --output output/cut")
        self.assertIn("resume    at step", resumed)
        self.assertEqual(checkout.read("output/cut.log"), cut + resumed)
        self.assertEqual(
            parameters(checkout.path("output/cut/model.h5")), parameters(checkout.path("output/whole/model.h5"))
        )

    def test_a_folder_with_blanks_and_quotes(self):
        global checkout
        usual, checkout = checkout, Checkout(name="it's a $folder: é ")
        try:
            shutil.copy(usual.path("jobs/adhoc/hostfile"), checkout.path("jobs/adhoc/hostfile"))
            said = self.run_to_end(LONG.replace("--epochs 20", "--epochs 1") + " --output output/odd")
            self.assertIn("done: test accuracy", said)
            self.assertEqual(ranks_by_host(checkout.path("output/odd/metrics.h5")), {"m1": 2, "m2": 1, "m3": 2})
        finally:
            checkout.remove()
            checkout = usual

    def test_mistakes_are_said_before_anything_starts(self):
        for text, words in (
            ("m1 slots=1\nm9 slots=1\n", "m9: .*: No route to host"),
            ("# none\n", "names no host"),
            (None, "there is no .*: copy jobs/adhoc/hostfile.example"),
        ):
            with self.subTest(words):
                if text is not None:
                    with open(checkout.path("hosts.txt"), "w") as f:
                        f.write(text)
                said = self.run_to_end(LONG, 2, HOSTFILE="hosts.txt" if text is not None else "nowhere.txt")
                self.assertRegex(said, "convoy job: .*" + words)
                self.assertEqual(said.count("\n"), 1, said)

    def test_a_host_without_the_folder(self):
        agent = checkout.path("agent-of-another")
        with open(agent, "w") as f:
            f.write(f'#!/bin/sh\n[ "$1" = m1 ] && exec {hosts.path("agent")} "$@"\necho none\n')
        os.chmod(agent, 0o755)
        self.assertIn("convoy job: m2 does not see", self.run_to_end(LONG, 2, OMPI_MCA_plm_rsh_agent=agent))


class ToyAllReduce(unittest.TestCase):
    STEPS = 100

    def run_on_two_hosts(self):
        """Returns the lines of two ranks, one per host: the host's name, then comm-test's output there."""
        toy = f"{checkout.path('build/convoy')} comm-test --device cpu --steps {self.STEPS} --log-format toy"
        return checkout.sh(
            hosts.on("m1", "mpirun --bind-to none -np 2 -H m1:1,m2:1")
            + f" sh -c 'echo host: $OMPI_COMM_WORLD_RANK $(uname -n); exec {toy}' </dev/null",
            env={**os.environ, "OMPI_MCA_plm_rsh_agent": hosts.path("agent")},
        ).splitlines()

    def test_sums_of_two_hosts_are_those_of_both_values(self):
        # OpenMPI loses this race on a busy machine, and says so; the child does it itself then.
        said = [line for line in self.run_on_two_hosts() if "plm:rsh: Warning: setpgid" not in line]
        where = [line for line in said if line.startswith("host: ")]
        self.assertEqual(sorted(where), ["host: 0 m1", "host: 1 m2"])
        value, total = {}, {}
        for line in said:
            if line in where:
                continue
            found = re.fullmatch(r"rank: (\d), step: (\d+), value: (\d+), reduced sum: (\d+)\.0\.", line)
            self.assertTrue(found, line)
            rank, step, number, reduced = map(int, found.groups())
            value[rank, step], total[rank, step] = number, reduced
        self.assertEqual(len(said), 2 + 2 * self.STEPS)
        self.assertEqual(set(value), set(itertools.product((0, 1), range(self.STEPS))))
        self.assertLessEqual(set(value.values()), set(range(11)))
        for rank, step in total:
            self.assertEqual(total[rank, step], value[0, step] + value[1, step], f"rank {rank}, step {step}")


class Accept(unittest.TestCase):
    """The commands of jobs/ACCEPT.md for machines without a scheduler."""

    def accept(self, hostfile, ranks, output, code):
        with open(checkout.path("hosts.txt"), "w") as f:
            f.write(hostfile)
        command = f"mpirun --bind-to none -np {ranks} --hostfile {checkout.path('hosts.txt')}"
        command += f" build/convoy accept --device cpu --only inventory --output output/{output}"
        done = subprocess.run(
            hosts.on("m1", f"--wd={checkout.dir} {command}").split(), capture_output=True, text=True, timeout=90,
            stdin=subprocess.DEVNULL, env={**os.environ, "OMPI_MCA_plm_rsh_agent": hosts.path("agent")})  # fmt: skip
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, acceptance(checkout.path("output", output))

    def test_one_of_three_machines_has_another_kernel(self):
        hosts.change_kernel("m2")
        self.addCleanup(hosts.restore_kernel, "m2")
        said, found = self.accept("m1 slots=1\nm2 slots=1\nm3 slots=1\n", 3, "three", 8)
        self.assertIn("\nverdict: FAIL\ndrain: m2 (inventory)\n", said)
        self.assertEqual(found["drain"], ["m2"])
        said, found = self.accept("m1 slots=1\nm3 slots=1\n", 2, "two", 0)
        self.assertIn("\nverdict: PASS\n", said)
        self.assertEqual(found["hosts"], ["m1", "m3"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
