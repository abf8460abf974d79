"""jobs/slurm/accept.sbatch, unchanged, on a real Slurm of four emulated nodes: sound nodes, one with a fault that is planted
from outside, and a job that is killed. pbs_test and adhoc_test have the same on PBS and without a scheduler."""

import os
import re
import unittest

from checkout import Checkout, acceptance
from cluster import NAMES, Cluster
from hosts import sh, wait_for
from slurm import Job

cluster = checkout = None


def setUpModule():
    global cluster, checkout
    if os.geteuid() != 0:
        raise unittest.SkipTest("a Slurm of one's own needs root")
    cluster = Cluster()
    unittest.addModuleCleanup(cluster.stop)
    try:
        cluster.start()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{cluster.logs()}") from None
    Job.checkout = checkout = Checkout()
    unittest.addModuleCleanup(checkout.remove)


def nodes_of(job):
    return sh(f"scontrol show hostnames {job.fields()['NodeList']}").split()


class Accept(unittest.TestCase):
    def tearDown(self):
        sh("scancel -u root")
        wait_for("an empty cluster", lambda: not sh("squeue -h -t all -t pending,running,completing"), 40)

    def submit(self, options, accept):
        """Submits the script with a rank per node, on CPUs because the emulated nodes have no GPUs."""
        return Job(f"{options} --gpus-per-node=1 jobs/slurm/accept.sbatch {accept} --device cpu")

    def check_lines(self, job, *lines):
        for line in lines:
            self.assertRegex(job.log(), re.compile(f"^{line}$", re.M))

    def test_four_sound_nodes_pass(self):
        job = self.submit("--nodes=4", "--only inventory,bits --level quick").ended()
        self.assertEqual(nodes_of(job), NAMES)
        self.check_lines(job, "PASS  inventory  4 nodes alike; .*", "PASS  bits       4 of 4 devices .*", "verdict: PASS")
        folder = f"output/convoy-accept-{job.id}"
        self.check_lines(job, f"report: {folder}/report.html; .*")
        self.check_lines(job, f"results: {folder}; an acceptance that was stopped continues with --output {folder} --resume")
        self.assertEqual(acceptance(job.run)["verdict"], "PASS")
        self.assertNotIn("drain", job.log())

    def test_all_levels_end_with_a_verdict(self):
        job = self.submit("--nodes=2", "--level quick").ended()
        outcomes = {level["level"]: level["outcome"] for level in acceptance(job.run)["levels"]}
        self.assertEqual(list(outcomes), ["inventory", "sums", "bits", "speed"])
        self.assertEqual((outcomes["sums"], outcomes["bits"]), ("PASS", "PASS"), job.log())
        self.check_lines(job, "verdict: (PASS|WARN)")  # on shared cores, one of two ranks may be slow: a warning

    def test_a_node_with_another_kernel_fails_and_the_advice_leads_to_a_pass(self):
        cluster.hosts.change_kernel("n3")
        self.addCleanup(cluster.hosts.restore_kernel, "n3")
        job = self.submit("--nodes=4", "--only inventory,bits --level quick").ended("FAILED")
        self.check_lines(job, "next: bits, which may take long .*; if you stop here, inventory is in the results")
        self.assertEqual((job.fields()["ExitCode"], job.fields()["Restarts"]), ("8:0", "0"), job.log())
        self.check_lines(job, "verdict: FAIL", r"drain: n3 \(inventory\)", "Slurm: --exclude=n3", "PBS:   pbsnodes -o n3")
        found = acceptance(job.run)
        self.assertEqual((found["verdict"], found["drain"]), ("FAIL", ["n3"]))
        advice = re.search("^Slurm: (.*)$", job.log(), re.M).group(1)
        job = self.submit(f"{advice} --nodes=3", "--only inventory").ended()
        self.assertEqual(nodes_of(job), ["n1", "n2", "n4"])
        self.check_lines(job, "verdict: PASS")

    def test_srun_starts_it_on_nodes_without_gpus(self):
        """The command of jobs/ACCEPT.md, on fewer nodes and with one level."""
        command = "srun --mpi=pmix --nodes=3 --ntasks-per-node=2 --cpus-per-task=32 --exclusive"
        said = checkout.sh(f"{command} build/convoy accept --device cpu --only inventory --output output/direct")
        self.assertIn("6 ranks on 3 nodes", said)
        self.assertEqual(acceptance(checkout.path("output/direct"))["verdict"], "PASS", said)

    def test_a_killed_job_is_continued_by_another(self):
        options, accept = "--nodelist=n1,n2", "--only inventory,bits --level quick"
        job = self.submit(options, accept)
        wait_for("the first level", lambda: "PASS  inventory" in job.log(), 60)
        sh(f"scancel --batch --signal=USR1 {job.id}")  # as shortly before the end of its time
        job.ended("FAILED")
        found = acceptance(job.run)
        self.assertEqual((found["verdict"], found["not_run"]), ("UNFINISHED", ["bits"]), job.log())
        advice = re.search(r"^convoy job: exit \d+, not finished; .* with (--output .*)$", job.log(), re.M)
        self.assertEqual(advice.group(1), f"--output output/convoy-accept-{job.id} --resume")
        other = self.submit(options, f"{accept} {advice.group(1)}").ended()
        self.check_lines(other, f"continues output/convoy-accept-{job.id}/accept.json: 1 of 2 levels have ended")
        self.check_lines(other, "verdict: PASS")
        ended = acceptance(job.run)
        self.assertEqual((ended["verdict"], ended["began"]), ("PASS", found["began"]))

    def test_a_node_that_does_not_answer_is_named(self):
        cluster.hosts.cut_off("n3")
        self.addCleanup(cluster.bring_back, "n3")
        job = self.submit("--nodes=4", "--only inventory")
        wait_for("the job's end", lambda: "no answer from" in job.log(), 90)
        self.check_lines(job, r"convoy job: exit \d+, no answer from n3; .* \(Slurm: --exclude=n3\)")
        self.assertNotIn("--resume", job.log())
        sh("scontrol update nodename=n3 state=down reason=test")  # Slurm does so after its SlurmdTimeout


if __name__ == "__main__":
    unittest.main(verbosity=2)
