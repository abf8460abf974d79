"""The shipped PBS scripts without a PBS server: what its mother superior does (variables, a node file, the script's path through the
shell's stdin) over emulated hosts, with stand-ins for qsub, qstat, qrerun and pbs_tmrsh. openpbs_test has a real server."""

import base64
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

from checkout import Checkout, acceptance, parameters, ranks_by_host
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
        os.makedirs(hosts.path("bin"), exist_ok=True)
        with open(checkout.path("jobs/site/stand-ins.env"), "w") as f:  # the login shell reads /etc/profile, which sets PATH
            f.write(f"PATH={shlex.quote(hosts.path('bin'))}:$PATH\n")
        self.stand_in("pbs_tmrsh", self.tmrsh())
        self.stand_in("qstat", 'echo "    Resource_List.walltime = 12:00:00"')
        self.stand_in("qrerun", 'echo "qrerun: Unauthorized Request" >&2; exit 159')
        self.stand_in(
            "qsub", f'printf "%s\\n" "$*" "$CONVOY_ARGS" "$CONVOY_OUTPUT" >{shlex.quote(checkout.path("qsub"))}; echo 99.server'
        )
        if os.path.exists(checkout.path("qsub")):
            os.remove(checkout.path("qsub"))

    def stand_in(self, name, body):
        with open(hosts.path("bin", name), "w") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(hosts.path("bin", name), 0o755)

    def tmrsh(self, silent=" "):
        """Executes its words without a shell, like PBS's. Does not answer `true` on the hosts of these names."""
        return f'[[ "{silent}" != *$1* || $* != *true ]] || exit 1\nexec {hosts.path("agent")} "$1" "$(printf "%q " "${{@:2}}")"'

    def start(self, script, arguments, whole=False, select="", **environment):
        """Starts jobs/pbs/SCRIPT.pbs on the hosts of its select, or of qsub's `select`, like PBS: in
        the home folder, its path read from stdin."""
        Pbs.jobs += 1
        path = checkout.path("jobs/pbs", script + ".pbs")
        text = checkout.read(path)
        name = re.search(r"#PBS -N (.+)", text).group(1)
        nodes, ranks = map(int, re.search(r"select=(\d+):.*mpiprocs=(\d+)", select or text).groups())
        with open(checkout.path("nodefile"), "w") as f:
            f.writelines(f"{name}\n" for name in NAMES[:nodes] for _ in range(ranks))
        self.run_folder = checkout.path("output", f"{name}-{Pbs.jobs}")
        element = f"[{environment['PBS_ARRAY_INDEX']}]" if "PBS_ARRAY_INDEX" in environment else ""
        variables = dict(os.environ, PBS_JOBID=f"{Pbs.jobs}{element}.server", PBS_JOBNAME=name,
                         PBS_NODEFILE=checkout.path("nodefile"), PBS_O_WORKDIR=checkout.dir, OMP_NUM_THREADS="8", CONVOY_ARGS=arguments, **environment)  # fmt: skip
        self.log = checkout.path("output", "pbs.log")
        return self.shell(text if whole else self.command(variables["PBS_JOBID"], path), variables)

    def command(self, id, path):
        """Returns what PBS passes for a job's script: the path of a copy, in shell code."""
        copy = hosts.path(id + ".SC")
        shutil.copy(path, copy)
        os.chmod(copy, 0o700)
        return re.sub(r"([][])", r"\\\1", copy) + "\n"

    def shell(self, stdin, variables):
        with tempfile.TemporaryFile("w+") as given, open(self.log, "w") as log:
            given.write(stdin)
            given.seek(0)
            command = hosts.on("p1", "").split() + [checkout.path("jobs/pbs/shell.sh")]
            job = subprocess.Popen(
                command,
                cwd="/",
                env=variables,
                stdin=given,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.addCleanup(job.kill)
        return job

    def ended(self, job, code=0):
        self.assertEqual(job.wait(90), code, checkout.read(self.log))
        return checkout.read(self.log)

    def training(self, job, steps=10):
        wait_for(
            "training",
            lambda: (
                checkout.read(self.run_folder, "metrics.jsonl").count('"kind":"train"') >= steps
                or job.poll() is not None
            ),
            60,
        )
        self.assertIsNone(job.poll(), checkout.read(self.log))
        return job

    def ask_to_stop(self, job, asked):
        """Stops a job like qsig and qdel: sends a signal to every process of the job's session on the first host."""
        subprocess.run(["pkill", f"-{asked}", "-s", str(job.pid)], check=True)

    def test_every_script_starts_what_it_asks_for(self):
        for script, nodes, ranks in (("1gpu", 1, 1), ("1node", 1, 8), ("2node", 2, 8), ("4node", 4, 8), ("cpu", 1, 4)):
            with self.subTest(script):
                log = self.ended(self.start(script, TRAIN + " --epochs 1"))
                self.assertEqual(ranks_by_host(self.run_folder + "/metrics.h5"), {n: ranks for n in NAMES[:nodes]})
                self.assertIn("--time-limit 43080s", log)
                self.assertEqual(
                    set(threads(self.run_folder + "/metrics.h5")), {max(1, len(os.sched_getaffinity(0)) // ranks)}
                )

    def test_an_acceptance_passes_or_names_the_host_with_another_kernel(self):
        accept = {"select": "select=4:ncpus=1:mpiprocs=1:ompthreads=1"}
        log = self.ended(self.start("accept", "--only inventory,bits --level quick --device cpu", **accept))
        self.assertRegex(log, "\nPASS  inventory  4 nodes alike")
        self.assertIn("\nverdict: PASS\n", log)
        found = acceptance(self.run_folder)
        self.assertEqual((found["verdict"], found["hosts"]), ("PASS", NAMES))
        hosts.change_kernel("p2")
        self.addCleanup(hosts.restore_kernel, "p2")
        log = self.ended(self.start("accept", "--only inventory --device cpu", **accept), 8)
        for line in ("verdict: FAIL", "drain: p2 (inventory)", "PBS:   pbsnodes -o p2"):
            self.assertIn(f"\n{line}\n", log)
        self.assertEqual(acceptance(self.run_folder)["drain"], ["p2"])
        self.assertFalse(os.path.exists(checkout.path("qsub")), "a failed acceptance is not submitted again")

    def test_remote_ranks_have_the_settings_of_the_site_and_a_copy_may_be_refused(self):
        self.stand_in("qsub", 'echo "qsub: not from this host" >&2; exit 1')
        job = self.training(self.start("2node", LONG, NCCL_SOCKET_IFNAME="ib0"))
        pids = subprocess.run(["pgrep", "-f", "^build/convoy train"], capture_output=True, text=True).stdout.split()
        ranks = [e for e in (checkout.read(f"/proc/{pid}/environ") for pid in pids) if "OMPI_COMM_WORLD_RANK=" in e]
        self.assertEqual(len(ranks), 16)
        self.assertTrue(all("NCCL_SOCKET_IFNAME=ib0" in e for e in ranks))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        log = self.ended(job, 85)
        self.assertNotIn("continues as", log)
        self.assertIn(
            f"could not be submitted from here. To resume: CONVOY_OUTPUT={os.path.relpath(self.run_folder, checkout.dir)} jobs/submit.sh",
            log,
        )

    def test_time_is_up_and_a_copy_goes_on(self):
        job = self.start("4node", LONG)
        self.ended(job)
        whole = parameters(self.run_folder + "/model.h5")
        self.stand_in("qstat", 'echo "    Resource_List.walltime = 00:00:09"')  # a quarter is kept for the end
        job = self.start("4node", LONG.replace("--epochs 40", "--epochs 4000"))
        log = self.ended(job, 85)
        self.assertIn("continues as job 99.server", log)
        self.stand_in("qstat", "exit 1")  # without a qstat there is no limit

        job = self.training(self.start("4node", LONG, CONVOY_SUBMIT="-l walltime=2:00:00"))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        self.ended(job, 85)
        submitted, arguments, output = checkout.read("qsub").splitlines()
        self.assertEqual(submitted.split(), ["-S", checkout.path("jobs/pbs/shell.sh"), "-l", "walltime=2:00:00", "-W", f"depend=afterany:{Pbs.jobs}.server",
                                             "-v", "CONVOY_ARGS,CONVOY_SUBMIT,CONVOY_OUTPUT,CONVOY_FIRST_JOB", "jobs/pbs/4node.pbs"])  # fmt: skip
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

    def test_a_requeue_is_not_ended_by_its_own_signal(self):
        """PBS's qrerun signals every process of the job, including itself."""
        self.stand_in("qrerun", "kill -TERM $$; exec true")
        job = self.training(self.start("1node", LONG))
        self.ask_to_stop(job, signal.SIGUSR1.value)
        self.assertIn("back into the queue", self.ended(job, 85))
        self.assertFalse(os.path.exists(checkout.path("qsub")))

    def test_a_folder_with_blanks_and_quotes(self):
        global checkout
        usual, checkout = checkout, Checkout(name="it's a $folder: é ")
        try:
            self.setUp()
            self.assertIn("--output output/convoy-2node-", self.ended(self.start("2node", TRAIN + " --epochs 1")))
            self.assertEqual(ranks_by_host(self.run_folder + "/metrics.h5"), {n: 8 for n in NAMES[:2]})
            log = self.ended(self.failing("2node", 6, CONVOY_OUTPUT="output/it's mine"), 6)
            self.assertIn("continues as job 99", log)
            submitted, _, output = checkout.read("qsub").splitlines()
            self.assertIn(",CONVOY_OUTPUT,", submitted)
            self.assertEqual(base64.b64decode(output.removeprefix("base64:")), b"output/it's mine\n")
            self.assertIn("in output/it", self.ended(self.failing("2node", 6, CONVOY_OUTPUT=output), 6))
            self.stand_in("qsub", "exit 1")
            log = self.ended(self.failing("2node", 6, CONVOY_OUTPUT="output/it's mine"), 6)
            pasted = shlex.split(re.search("To resume: (.*)", log).group(1))
            self.assertEqual(pasted[:3], ["CONVOY_OUTPUT=output/it's mine", "jobs/submit.sh", "jobs/pbs/2node.pbs"])
        finally:
            checkout.remove()
            checkout = usual

    def test_in_a_private_sandbox(self):
        """In a sandbox PBS passes two commands."""
        command = self.command
        self.command = lambda *words: "cd /;" + command(*words)
        self.ended(self.start("1gpu", TRAIN + " --epochs 1"))

    def test_scripts_through_stdin(self):
        """A PBS configured without its shell pipe does this."""
        self.ended(self.start("1gpu", TRAIN + " --epochs 1", whole=True))

    def failing(self, script, code, **environment):
        """Starts a job whose ranks end with this exit code."""
        with open(checkout.path("fails.sh"), "w") as f:
            f.write(f"exit {code}\n")
        return self.start(script, TRAIN, CONVOY_COMMAND="sh fails.sh", **environment)

    def test_failed_communication_is_tried_again_so_often(self):
        run = {"CONVOY_RETRIES": "2", "CONVOY_OUTPUT": "output/failing"}
        for tries in range(3):
            log = self.ended(self.failing("2node", 6, CONVOY_FIRST_JOB="7", **run), 6)
            self.assertIn(
                "exit 6, no host lost now; " + ("continues as job 99" if tries < 2 else "was put back 2 times"), log
            )
        self.assertIn(
            "continues as job 99", self.ended(self.failing("2node", 6, **run), 6), "a new job has all its tries"
        )

    def test_lost_hosts_are_named_and_other_failures_are_final(self):
        for code, silent, said in ((9, "p2", "exit 9, no answer from p2; continues as job 99"), (205, "", "exit 205, no host lost now; continues as job 99"),
                                   (9, "", None), (9, "p1 p2", None), (5, "p2", None)):  # fmt: skip
            with self.subTest(code=code, silent=silent):
                self.stand_in("pbs_tmrsh", self.tmrsh(silent))
                log = self.ended(self.failing("2node", code), code)
                self.assertIn(said, log) if said else self.assertNotIn("continues as", log)

    def test_deleted_stays_deleted(self):
        job = self.training(self.start("1node", LONG))
        self.ask_to_stop(job, signal.SIGTERM.value)
        job.wait(60)  # mpirun got the signal too, and gives its ranks two seconds
        self.assertTrue(os.listdir(self.run_folder + "/checkpoints"))
        self.assertFalse(os.path.exists(checkout.path("qsub")))

    def test_array(self):
        for index, said in (("1", "lr-0.002"), ("7", "nothing for element 7")):
            job = self.start("array-sweep", f"lr=0.001,0.002 {TRAIN} --epochs 1", PBS_ARRAY_INDEX=index)
            self.assertIn(said, self.ended(job))
        self.assertTrue(os.path.exists(checkout.path("output", f"convoy-sweep-{Pbs.jobs - 1}", "lr-0.002", "model.h5")))

    def test_mistakes_are_said_in_one_line(self):
        self.assertIn("convoy job: there is no recipe none.cfg", self.ended(self.start("1gpu", "none.cfg"), 2))
        self.assertIn(
            "convoy: --device cuda",
            self.ended(self.start("1gpu", "--data input/mnist --model mnist-linear --batch-size 8"), 2),
        )
        job = self.start("1gpu", TRAIN, CONVOY_SITE="elsewhere")
        self.assertIn("convoy job: jobs/site/elsewhere.env is not there", self.ended(job, 2))


def threads(metrics_file):
    import h5py

    with h5py.File(metrics_file, "r") as f:
        return [int(n) for n in f["ranks/threads"][:]]


if __name__ == "__main__":
    unittest.main(verbosity=2)
