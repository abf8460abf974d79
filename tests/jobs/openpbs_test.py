"""The shipped PBS scripts, unchanged, on a real PBS (`make test-pbs`; variables: pbs.py): launch,
and every way in which a job is interrupted."""

import math
import os
import re
import unittest

import pbs
from checkout import ranks_by_host
from hosts import wait_for
from pbs import Job, SharedCheckout, manager, on

TRAIN = "input/recipes/mnist-linear.cfg --data input/mnist --device cpu"
# Has checkpoints for interruptions without a request. A lost host is noticed soon.
INTERRUPTED = f"{TRAIN} --batch-per-rank 8 --eval-every 200 --log-interval 1 --checkpoint-every 40 --watchdog 15s"
# Duration of such a training without interruption: long enough to be interrupted, and longer than
# the time limit at a walltime of 40 s (30 s).
SECONDS = 45
checkout = None

# Simulates a host without power in its network namespace: first no packet leaves it, then no
# process is left. If a host only crashes, its closed connections reveal that.
CUT_OFF = "ip link set eth0 down"
KILL = """here=$(readlink /proc/self/ns/net)
for p in /proc/[0-9]*; do
  [ "$(readlink $p/ns/net)" != "$here" ] || [ ${p#/proc/} = $$ ] || kill -9 ${p#/proc/}
done"""
COME_BACK = f"ip link set eth0 up; {pbs.PREFIX}/libexec/pbs_init.d start"


def setUpModule():
    global checkout
    if not pbs.PREFIX:
        raise unittest.SkipTest("no PBS: set PBS_PREFIX to the folder that has bin/qsub")
    if os.geteuid() == 0 and not pbs.USER:
        raise unittest.SkipTest("PBS takes no jobs from root: set PBS_USER to who submits them")
    checkout = SharedCheckout()
    unittest.addModuleCleanup(checkout.remove)
    if pbs.MINE:
        set_up_pbs()


def set_up_pbs():
    """Makes PBS copy outputs through the shared folder, not by scp, and give up a lost first host soon."""
    unittest.addModuleCleanup(manager, "qmgr -c 'set server node_fail_requeue = 310'")
    manager("qmgr -c 'set server node_fail_requeue = 15'; qmgr -c 'set server job_history_enable = true'")
    for host in re.findall(r"^(\S+)", manager("pbsnodes -a"), re.M):
        on(
            host,
            """. /etc/pbs.conf
grep -q '^$usecp \\*:/ /' "$PBS_HOME/mom_priv/config" || echo '$usecp *:/ /' >>"$PBS_HOME/mom_priv/config"
kill -HUP "$(cat "$PBS_HOME/mom_priv/mom.lock")" """,
        )


def needs_pbs_of_ones_own(test):
    why = "changes settings or cuts hosts off: only where PBS_MINE says that this PBS is there for tests"
    return unittest.skipUnless(pbs.MINE, why)(test)


class OpenPbs(unittest.TestCase):
    maxDiff = None
    epochs = {}
    undisturbed = {}
    lost = set()

    def submit(self, command):
        job = Job.submitted(checkout, command)
        self.addCleanup(checkout.user, f"qdel -W force {job.id}", check=False)
        return job

    def copy_of(self, job):
        copy = job.copy()
        self.addCleanup(checkout.user, f"qdel -W force {copy.id}", check=False)
        return copy

    def long(self, script):
        """Returns the arguments of a training that takes SECONDS with this script on this machine."""
        if script not in OpenPbs.epochs:
            tried = 200
            job = self.submit(f"jobs/pbs/{script}.pbs {INTERRUPTED} --epochs {tried}").ended()
            times = re.findall(r'"time":([0-9.]+)', checkout.read(job.run(), "metrics.jsonl"))
            OpenPbs.epochs[script] = math.ceil(tried * SECONDS / (float(times[-1]) - float(times[0])))
        return f"{INTERRUPTED} --epochs {OpenPbs.epochs[script]}"

    def reference(self, script):
        """Returns the model of such a training without interruption."""
        if script not in OpenPbs.undisturbed:
            OpenPbs.undisturbed[script] = self.submit(f"jobs/pbs/{script}.pbs {self.long(script)}").ended().model()
        return OpenPbs.undisturbed[script]

    def check_resumed(self, job, script):
        """Checks that `job`, or its last copy, resumed, and that the model equals the undisturbed run's bit for bit."""
        self.assertIn("resume    at step", job.ended().log())
        mine = job.model()
        self.assertTrue(mine and mine == self.reference(script), "the model differs from that of an undisturbed run")

    def test_every_script_starts_what_it_asks_for(self):
        for script, nodes, ranks in (("1gpu", 1, 1), ("1node", 1, 8), ("2node", 2, 8), ("4node", 4, 8), ("cpu", 1, 4)):
            with self.subTest(script):
                job = self.submit(f"jobs/pbs/{script}.pbs {TRAIN} --epochs 1").ended()
                self.assertEqual(len(set(job.hosts())), nodes)
                self.assertEqual(sorted(ranks_by_host(job.run() + "/metrics.h5").values()), [ranks] * nodes)

    def test_array_sweep(self):
        job = self.submit(f"jobs/pbs/array-sweep.pbs lr=0.001,0.002 {TRAIN} --epochs 1")
        job.ended()
        folder = checkout.path("output", f"convoy-sweep-{job.id.split('[')[0]}")
        self.assertEqual(sorted(os.listdir(folder)), ["lr-0.001", "lr-0.002"])
        for value in os.listdir(folder):
            self.assertTrue(os.path.exists(f"{folder}/{value}/model.h5"))

    def test_scaling_matrix(self):
        cells = "CELLS='1n1g 2n4g' BATCHES='4 8' REPEATS=1"
        command = f"{cells} jobs/pbs/scaling.sh mnist-linear output/scaling --steps 5 --device cpu"
        self.assertIn("build/convoy report --scaling output/scaling/*", checkout.user(command))
        cells = ["1n1g-b4-r1", "1n1g-b8-r1", "2n4g-b4-r1", "2n4g-b8-r1"]
        files = [checkout.path("output/scaling", cell, "metrics.h5") for cell in cells]
        wait_for("the matrix", lambda: all(map(os.path.exists, files)), 120)
        self.assertIn("2n4g: done", checkout.user(command))

    # ---- interruptions: the model always equals that of an undisturbed run, bit for bit ----
    def test_qsig_checkpoints_and_a_copy_with_the_same_options_goes_on(self):
        job = self.submit(f"-l walltime=1:00:00 -l place=scatter jobs/pbs/4node.pbs {self.long('4node')}").training()
        checkout.user(f"qsig -s USR1 {job.id}")
        copy = self.copy_of(job.ended(85))
        fields = copy.fields()
        self.assertEqual((fields["Resource_List.walltime"], fields["Resource_List.place"]), ("01:00:00", "scatter"))
        self.check_resumed(copy, "4node")

    def test_plain_qsub_with_the_shell_takes_signals_too(self):
        shell = '-S "$PWD/jobs/pbs/shell.sh"'
        long = self.long("2node")
        job = Job(checkout, checkout.user(f'qsub {shell} -v CONVOY_ARGS="{long}" jobs/pbs/2node.pbs')).training()
        checkout.user(f"qsig -s USR1 {job.id}")
        self.check_resumed(self.copy_of(job.ended(85)), "2node")

    def test_plain_qsub_without_the_shell_dies_of_signals(self):
        """jobs/README.md warns of this: the login shell between PBS and the script has no trap."""
        long = self.long("1node")
        job = Job(checkout, checkout.user(f'qsub -v CONVOY_ARGS="{long}" jobs/pbs/1node.pbs')).training()
        checkout.user(f"qsig -s USR1 {job.id}")
        job.ended(256 + 10)

    def test_plain_qsub_has_a_time_limit_and_a_copy_with_the_scripts_resources(self):
        arguments = INTERRUPTED.replace("--log-interval 1 ", "") + " --epochs 100000"
        job = Job(checkout, checkout.user(f'qsub -l walltime=0:00:40 -v CONVOY_ARGS="{arguments}" jobs/pbs/1node.pbs'))
        copy = self.copy_of(job.ended(85))
        self.assertEqual(copy.fields()["Resource_List.walltime"], "12:00:00")
        self.assertEqual(copy.fields()["Shell_Path_List"], checkout.path("jobs/pbs/shell.sh"))

    def test_walltime_checkpoints_and_a_copy_goes_on(self):
        job = self.submit(f"-l walltime=0:00:40 jobs/pbs/2node.pbs {self.long('2node')}")
        job.ended(85)
        self.assertIn("--time-limit 30s", job.log())
        copies = [self.copy_of(job)]
        while len(copies) < 9 and copies[-1].ended(None).fields()["Exit_status"] == "85":
            copies.append(self.copy_of(copies[-1]))
        self.assertEqual(copies[-1].fields()["Resource_List.walltime"], "00:00:40")
        self.check_resumed(copies[-1], "2node")

    def test_qrerun_by_a_manager(self):
        job = self.submit(f"jobs/pbs/4node.pbs {self.long('4node')}").training()
        said = manager(f"qrerun {job.id}", check=False)
        if "Unauthorized" in said:
            self.skipTest("only operators of this PBS call qrerun")
        self.check_resumed(job.started(2), "4node")
        self.assertNotIn("continues as job", job.log())

    @needs_pbs_of_ones_own
    def test_an_operators_job_is_requeued_and_not_copied(self):
        manager(f"qmgr -c 'set server operators += {pbs.USER}@*'")
        self.addCleanup(manager, f"qmgr -c 'set server operators -= {pbs.USER}@*'")
        job = self.submit(f"jobs/pbs/2node.pbs {self.long('2node')}").training()
        checkout.user(f"qsig -s USR1 {job.id}")
        self.check_resumed(job.started(2), "2node")
        self.assertNotIn("continues as job", job.log())

    @needs_pbs_of_ones_own
    def test_elastic_job_goes_on_with_the_nodes_that_qalter_says_bit_for_bit(self):
        job = self.submit(f"jobs/pbs/elastic.pbs {self.long('elastic')}").training()
        self.addCleanup(manager, "qmgr -c 'set server scheduling = true'")
        # after a checkpoint a copy continues
        manager("qmgr -c 'set server scheduling = false'")
        checkout.user(f"qsig -s USR1 {job.id}")
        copy = self.copy_of(job.ended(85))
        self.check_altered(copy, 2, runs=1)
        # put back in the queue, the same job continues
        steps = copy.training(copy.steps() + 42).steps()
        manager("qmgr -c 'set server scheduling = false'")
        manager(f"qrerun {copy.id}")
        wait_for("the job in the queue", lambda: copy.fields()["job_state"] == "Q", 60)
        self.check_altered(copy, 1, runs=2)
        self.check_resumed(copy, "elastic")
        self.assertGreater(copy.steps(), steps)

    def check_altered(self, job, nodes, runs):
        """Checks that a queued job changes to another number of nodes, and starts on it."""
        checkout.user(f"qalter -l select={nodes}:ncpus=8:mpiprocs=8:ngpus=8:ompthreads=1 {job.id}")
        manager("qmgr -c 'set server scheduling = true'")
        job.started(runs)
        wait_for("its hosts", lambda: job.hosts(), 60)
        self.assertEqual(len(set(job.hosts())), nodes)

    def test_deleted_stays_deleted(self):
        job = self.submit(f"jobs/pbs/1node.pbs {self.long('1node')}").training()
        checkout.user(f"qdel {job.id}")
        job.ended(None)
        self.assertNotIn("continues as job", job.log())
        self.assertNotIn(checkout.dir, checkout.user("qstat -f").replace("\n\t", ""), "a copy is in the queue")

    # ---- lost hosts ----
    def lose(self, host, command):
        self.lost.add(host)
        on(host, command, check=False)
        self.addCleanup(self.bring_back, host)

    def bring_back(self, host):
        if host not in self.lost:
            return
        self.lost.remove(host)
        on(host, COME_BACK)
        up = lambda: "state = free" in manager(f"pbsnodes {host}", check=False)
        wait_for(f"{host} free", up, 120)
        manager("qmgr -c 'set server scheduling = true'")  # at once, not after scheduler_iteration (600 s)

    @needs_pbs_of_ones_own
    def test_another_host_without_power_goes_on_without_it(self):
        self.check_another_host_lost(f"{CUT_OFF}\n{KILL}")

    @needs_pbs_of_ones_own
    def test_another_host_crashed_goes_on_without_it(self):
        self.check_another_host_lost(KILL)

    def check_another_host_lost(self, command):
        job = self.submit(f"jobs/pbs/2node.pbs {self.long('2node')}").training()
        lost = [host for host in job.hosts() if host != job.hosts()[0]][0]
        self.lose(lost, command)
        copy = self.copy_of(job.ended(None))
        self.assertIn(f"no answer from {lost}; continues as", job.log())
        self.check_resumed(copy, "2node")
        self.assertNotIn(lost, copy.hosts())

    @needs_pbs_of_ones_own
    def test_first_host_lost_goes_on_without_it(self):
        job = self.submit(f"jobs/pbs/2node.pbs {self.long('2node')}").training()
        lost = job.hosts()[0]
        self.lose(lost, f"{CUT_OFF}\n{KILL}")
        self.check_resumed(job.started(2, timeout=400), "2node")  # the server notices after a minute or two
        self.assertNotIn(lost, job.hosts())

    @needs_pbs_of_ones_own
    def test_four_of_four_hosts_wait_for_the_lost_one(self):
        for which in (-1, 0):  # another host is lost: a copy continues; the first host: PBS runs the job again
            with self.subTest(which):
                job = self.submit(f"jobs/pbs/4node.pbs {self.long('4node')}").training()
                lost = list(dict.fromkeys(job.hosts()))[which]
                self.lose(lost, f"{CUT_OFF}\n{KILL}")
                if which:
                    job = self.copy_of(job.ended(None))
                wait_for("the job in the queue", lambda: job.fields()["job_state"] == "Q", 400)
                self.bring_back(lost)
                self.check_resumed(job, "4node")

    def test_a_job_that_always_fails_is_put_back_so_many_times(self):
        with open(checkout.path("fails.sh"), "w") as f:
            f.write("exit 6\n")
        checkout.site("CONVOY_COMMAND='sh fails.sh' CONVOY_RETRIES=2")
        self.addCleanup(checkout.site, "")
        jobs = [self.submit(f"jobs/pbs/1gpu.pbs {TRAIN}").ended(6)]
        while len(jobs) < 9 and "continues as job" in jobs[-1].log():
            jobs.append(self.copy_of(jobs[-1]).ended(6))
        self.assertEqual(len(jobs), 3)
        said = "exit 6, no host lost now; was put back 2 times and is not again (CONVOY_RETRIES=2)"
        self.assertIn(said, jobs[-1].log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
