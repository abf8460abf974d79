"""The shipped PBS scripts without a PBS server: what its mother superior does (variables, a node file, the script through a login shell's
stdin) over emulated hosts, with stand-ins for qsub, qstat, qrerun and pbs_tmrsh. What they ask for is in slurm_test."""
import os
import re
import shlex
import signal
import subprocess
import unittest

from checkout import Checkout, parameters, ranks_by_host
from hosts import Hosts, wait_for

NAMES = ["p1", "p2", "p3", "p4"]
TRAIN = "input/recipes/mnist-linear.cfg --data input/mnist --device cpu"
LONG = TRAIN + " --batch-per-rank 8 --epochs 40 --eval-every 20 --log-interval 1"
hosts = checkout = None


def setUpModule():
    global hosts, checkout
    if os.geteuid() != 0:
        raise unittest.SkipTest("network namespaces need root")
    hosts = Hosts(NAMES)
    unittest.addModuleCleanup(hosts.stop)
    checkout = Checkout()
    unittest.addModuleCleanup(checkout.remove)


class Pbs(unittest.TestCase):
    jobs = 0

    def setUp(self):
        os.makedirs(checkout.path("bin"), exist_ok=True)
        self.stand_in("pbs_tmrsh", f'exec {hosts.path("agent")} "$@"')
        self.stand_in("qstat", 'echo "    Resource_List.walltime = 12:00:00"')
        self.stand_in("qrerun", 'echo "qrerun: Unauthorized Request" >&2; exit 159')
        self.stand_in("qsub", f'printf "%s\\n" "$*" "$CONVOY_ARGS" "$CONVOY_OUTPUT" >{checkout.path("qsub")}; echo 99.server')
        if os.path.exists(checkout.path("qsub")):
            os.remove(checkout.path("qsub"))

    def stand_in(self, name, body):
        with open(checkout.path("bin", name), "w") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(checkout.path("bin", name), 0o755)

    def start(self, script, arguments, **environment):
        """Starts jobs/pbs/SCRIPT.pbs on the hosts that its select asks for, as PBS does: in the home folder, read from stdin."""
        Pbs.jobs += 1
        path = checkout.path("jobs/pbs", script + ".pbs")
        text = checkout.read(path)
        name = re.search(r"#PBS -N (.+)", text).group(1)
        nodes, ranks = map(int, re.search(r"select=(\d+):.*mpiprocs=(\d+)", text).groups())
        with open(checkout.path("nodefile"), "w") as f:
            f.writelines(f"{name}\n" for name in NAMES[:nodes] for _ in range(ranks))
        self.run_folder = checkout.path("output", f"{name}-{Pbs.jobs}")
        variables = dict(os.environ, PATH=f"{checkout.path('bin')}:{os.environ['PATH']}", PBS_JOBID=f"{Pbs.jobs}.server", PBS_JOBNAME=name,
                         PBS_NODEFILE=checkout.path("nodefile"), PBS_O_WORKDIR=checkout.dir, OMP_NUM_THREADS="8", CONVOY_ARGS=arguments, **environment)  # fmt: skip
        self.log = checkout.path("output", "pbs.log")
        with open(path) as stdin, open(self.log, "w") as log:
            job = subprocess.Popen(hosts.on("p1", "bash").split(), cwd="/", env=variables, stdin=stdin, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(job.kill)
        return job

    def ended(self, job, code=0):
        self.assertEqual(job.wait(90), code, checkout.read(self.log))
        return checkout.read(self.log)

    def training(self, job, steps=10):
        wait_for("training", lambda: checkout.read(self.run_folder, "metrics.jsonl").count('"kind":"train"') >= steps or job.poll() is not None, 60)
        self.assertIsNone(job.poll(), checkout.read(self.log))
        return job

    def ask_to_stop(self, job, asked):
        """As qsig and qdel do: a signal to every process of the job's session on the first host."""
        subprocess.run(["pkill", f"-{asked}", "-s", str(job.pid)], check=True)

    def test_every_script_starts_what_it_asks_for(self):
        for script, nodes, ranks in (("1gpu", 1, 1), ("1node", 1, 8), ("2node", 2, 8), ("4node", 4, 8), ("cpu", 1, 4)):
            with self.subTest(script):
                log = self.ended(self.start(script, TRAIN + " --epochs 1"))
                self.assertEqual(ranks_by_host(self.run_folder + "/metrics.h5"), {n: ranks for n in NAMES[:nodes]})
                self.assertIn("--time-limit 43080s", log)
                self.assertEqual(set(threads(self.run_folder + "/metrics.h5")), {max(1, len(os.sched_getaffinity(0)) // ranks)})

    def test_remote_ranks_have_the_settings_of_the_site_and_a_copy_may_be_refused(self):
        self.stand_in("qsub", 'echo "qsub: not from this host" >&2; exit 1')
        job = self.training(self.start("2node", LONG, NCCL_SOCKET_IFNAME="ib0"))
        pids = subprocess.run(["pgrep", "-f", "^build/convoy train"], capture_output=True, text=True).stdout.split()
        ranks = [e for e in (checkout.read(f"/proc/{pid}/environ") for pid in pids) if "OMPI_COMM_WORLD_RANK=" in e]
        self.assertEqual(len(ranks), 16)
        self.assertTrue(all("NCCL_SOCKET_IFNAME=ib0" in e for e in ranks))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        log = self.ended(job, 85)
        self.assertNotIn("goes on as", log)
        self.assertIn(f"could not be submitted from here. To go on: CONVOY_OUTPUT={os.path.relpath(self.run_folder, checkout.dir)} jobs/submit.sh", log)

    def test_time_is_up_and_a_copy_goes_on(self):
        job = self.start("4node", LONG)
        self.ended(job)
        whole = parameters(self.run_folder + "/model.h5")
        self.stand_in("qstat", 'echo "    Resource_List.walltime = 00:02:07"')  # two minutes are kept for the end
        job = self.start("4node", LONG.replace("--epochs 40", "--epochs 4000"))
        log = self.ended(job, 85)
        self.assertIn("goes on as job 99.server", log)
        self.stand_in("qstat", "exit 1")  # and without a qstat there is no limit

        job = self.training(self.start("4node", LONG, CONVOY_SUBMIT="-l walltime=2:00:00 "))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        self.ended(job, 85)
        submitted, arguments, output = checkout.read("qsub").splitlines()
        self.assertEqual(submitted.split(), ["-l", "walltime=2:00:00", "-W", f"depend=afterany:{Pbs.jobs}.server",
                                             "-v", "CONVOY_ARGS,CONVOY_SUBMIT,CONVOY_OUTPUT", "jobs/pbs/4node.pbs"])  # fmt: skip
        self.assertEqual(shlex.split(arguments), LONG.split())
        log = self.ended(self.start("4node", arguments, CONVOY_OUTPUT=output))
        self.assertIn("resume    at step", log)
        self.assertEqual(parameters(checkout.path(output, "model.h5")), whole)

    def test_operators_requeue_the_job_itself(self):
        self.stand_in("qrerun", "true")
        job = self.training(self.start("1node", LONG))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        self.assertIn("back into the queue", self.ended(job, 85))
        self.assertFalse(os.path.exists(checkout.path("qsub")))

    def test_deleted_stays_deleted(self):
        job = self.training(self.start("1node", LONG))
        self.ask_to_stop(job, signal.SIGTERM.value)
        job.wait(60)  # mpirun had the signal too, and gives its ranks two seconds
        self.assertTrue(os.listdir(self.run_folder + "/checkpoints"))
        self.assertFalse(os.path.exists(checkout.path("qsub")))

    def test_array(self):
        for index, said in (("1", "lr-0.002"), ("7", "nothing for element 7")):
            job = self.start("array-sweep", f"lr=0.001,0.002 {TRAIN} --epochs 1", PBS_ARRAY_INDEX=index)
            self.assertIn(said, self.ended(job))
        self.assertTrue(os.path.exists(checkout.path("output", f"convoy-sweep-{Pbs.jobs - 1}", "lr-0.002", "model.h5")))

    def test_mistakes_are_said_in_one_line(self):
        self.assertIn("convoy job: there is no recipe none.cfg", self.ended(self.start("1gpu", "none.cfg"), 2))
        self.assertIn("convoy: --device cuda", self.ended(self.start("1gpu", "--data input/mnist --model mnist-linear --batch-size 8"), 2))
        job = self.start("1gpu", TRAIN, CONVOY_SITE="elsewhere")
        self.assertIn("convoy job: jobs/site/elsewhere.env is not there", self.ended(job, 2))


def threads(metrics_file):
    import h5py

    with h5py.File(metrics_file, "r") as f:
        return [int(n) for n in f["ranks/threads"][:]]


if __name__ == "__main__":
    unittest.main(verbosity=2)
