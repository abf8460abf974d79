"""The shipped Slurm scripts, unchanged, on a real Slurm of four emulated nodes: allocation, launch,
and every way in which a job is interrupted."""
import glob
import os
import re
import unittest

from checkout import Checkout, parameters, ranks_by_host
from cluster import NAMES, Cluster
from hosts import sh, wait_for
from slurm import Job

TRAIN = "input/recipes/mnist-linear.cfg --data input/mnist --device cpu"
# Long enough to be interrupted, with checkpoints for interruptions without a request.
LONG = TRAIN + " --batch-per-rank 8 --epochs 40 --eval-every 20 --log-interval 1 --checkpoint-every 40"
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


class Slurm(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        sh("scancel -u root")
        wait_for("an empty cluster", lambda: not sh("squeue -h -t all -t pending,running,completing"), 40)

    def check_allocation(self, job, nodes, tasks_a_node, gpus=True):
        f = job.fields()
        self.assertEqual(f["NumNodes"], str(nodes))
        self.assertEqual(f["NumTasks"], str(nodes * tasks_a_node))
        if gpus:
            self.assertIn(f["TresPerNode"], (f"gres:gpu:{tasks_a_node}", f"gpu:{tasks_a_node}"))
        self.assertEqual(ranks_by_host(job.run + "/metrics.h5"), {n: tasks_a_node for n in f_hosts(f)})

    def test_scheduler_accepts_every_script(self):
        scripts = sorted(glob.glob(checkout.path("jobs/slurm/*.sbatch")))
        self.assertEqual(len(scripts), 11)
        for script in scripts:
            with self.subTest(os.path.basename(script)):
                self.assertRegex(checkout.sh(f"sbatch --test-only {script}"), "to start at .* using .* processors")

    def test_32_ranks_on_4_nodes(self):
        job = Job(f"jobs/slurm/4node.sbatch {LONG}").training()
        # Ranks know when Slurm will end them.
        rank = sh("pgrep -f '^[^ ]*build/convoy train .*" + job.run.split("/")[-1] + "' | head -n 1")
        with open(f"/proc/{rank}/environ") as f:
            said = re.search(r"SLURM_JOB_END_TIME=(\d+)", f.read())
        self.assertTrue(said, "SLURM_JOB_END_TIME is not in a rank's environment")
        self.assertEqual(int(said.group(1)), int(sh(f"date -d {job.fields()['EndTime']} +%s")))
        job.ended()
        self.check_allocation(job, 4, 8)
        self.assertEqual(set(ranks_by_host(job.run + "/metrics.h5")), set(NAMES))
        self.assertIn("srun --mpi=pmix", job.log())

    def test_smaller_scripts(self):
        for script, nodes, tasks, gpus in (
            ("1gpu", 1, 1, True),
            ("1node", 1, 8, True),
            ("2node", 2, 8, True),
            ("cpu", 1, 4, False),
        ):
            with self.subTest(script):
                job = Job(f"jobs/slurm/{script}.sbatch {TRAIN} --epochs 1").ended()
                self.check_allocation(job, nodes, tasks, gpus)

    def test_nodes_of_four_gpus(self):
        for option in ("--gpus-per-node=4", "--gres=gpu:4"):
            with self.subTest(option):
                job = Job(f"{option} jobs/slurm/2node.sbatch {TRAIN} --epochs 1").ended()
                self.check_allocation(job, 2, 4)
        job = Job(f"--gpus-per-node=4 --nodes=2 jobs/slurm/elastic.sbatch {TRAIN} --epochs 1").ended()
        self.assertEqual(ranks_by_host(job.run + "/metrics.h5"), {n: 4 for n in f_hosts(job.fields())})
        self.assertIn("--virtual-ranks 16", job.log())

    def test_a_conversion_and_an_evaluation(self):
        job = Job(
            "jobs/slurm/convert.sbatch synthetic --images 500 --size 28x28x1 --classes 10 --to input/made"
        ).ended()
        self.assertIn("convert synthetic --images 500", job.log())
        trained = Job(f"jobs/slurm/1gpu.sbatch {TRAIN} --epochs 1").ended()
        job = Job(
            f"jobs/slurm/evaluate.sbatch --model-file {trained.run}/model.h5 --data input/made --device cpu"
        ).ended()
        self.assertRegex(job.log(), r"accuracy [0-9.]+ %")

    def test_array_sweep(self):
        job = Job(f"jobs/slurm/array-sweep.sbatch lr=0.001,0.002 {TRAIN} --epochs 1")
        wait_for("the array's end", lambda: not sh(f"squeue -h -j {job.id}", check=False), 90)
        states = re.findall(r"JobState=(\S+)", sh(f"scontrol show job -o {job.id}"))
        self.assertEqual(states, ["COMPLETED"] * 8)
        for value in ("0.001", "0.002"):
            self.assertTrue(parameters(f"{job.run}/lr-{value}/model.h5"))
        self.assertEqual(sorted(os.listdir(job.run)), ["lr-0.001", "lr-0.002"])

    def test_mpirun_where_srun_has_no_pmix(self):
        job = Job(f"--export=ALL,CONVOY_LAUNCHER=mpirun jobs/slurm/2node.sbatch {LONG}").training()
        self.assertIn("mpirun --bind-to none", job.log())
        sh(f"scancel --batch --signal=USR1 {job.id}")
        job.restarted().ended()
        self.check_allocation(job, 2, 8)

    # ---- interruptions: the model always equals that of an undisturbed run, bit for bit ----
    def reference(self):
        """Returns the model of 4node.sbatch LONG without interruption."""
        if not hasattr(Slurm, "undisturbed"):
            Slurm.undisturbed = parameters(Job(f"jobs/slurm/4node.sbatch {LONG}").ended().run + "/model.h5")
        return Slurm.undisturbed

    def check_resumed(self, job, restarts=1):
        job.ended()
        self.assertEqual(job.fields()["Restarts"], str(restarts))
        self.assertIn("resume    at step", job.log())
        mine = parameters(job.run + "/model.h5")
        self.assertTrue(mine and mine == self.reference(), "the model differs from that of an uninterrupted run")

    def test_signal_checkpoints_and_requeues(self):
        job = Job(f"jobs/slurm/4node.sbatch {LONG}").training()
        sh(f"scancel --batch --signal=USR1 {job.id}")
        job.restarted()
        self.assertIn("convoy job: checkpointed; back into the queue", job.log())
        self.check_resumed(job)

    def test_elastic_job_goes_on_with_fewer_nodes_bit_for_bit(self):
        whole = Job(f"jobs/slurm/elastic.sbatch {LONG}").ended()
        self.assertEqual(ranks_by_host(whole.run + "/metrics.h5"), {n: 8 for n in NAMES})
        job = Job(f"jobs/slurm/elastic.sbatch {LONG}").training()
        some = ",".join(NAMES[1:])
        sh(f"scontrol update nodename={some} state=drain reason=test")
        try:
            sh(f"scancel --batch --signal=USR1 {job.id}")
            job.restarted().ended()
            self.assertIn("resume    at step", job.log())
        finally:
            sh(f"scontrol update nodename={some} state=resume", check=False)
        wait_for("the nodes back", lambda: set(sh("sinfo -h -N -o %T").split()) <= {"idle", "mixed", "allocated"}, 60)
        self.assertEqual(ranks_by_host(job.run + "/metrics.h5"), {NAMES[0]: 8})
        self.assertEqual(parameters(job.run + "/model.h5"), parameters(whole.run + "/model.h5"))

    def test_end_of_time_checkpoints_and_requeues(self):
        # Slurm sends the first signal soon after the start, because it checks time limits every 30
        # s.
        job = Job(
            f"--time=3 --signal=B:USR1@170 jobs/slurm/1gpu.sbatch {TRAIN} "
            "--batch-per-rank 8 --epochs 100000 --log-interval 50"
        )
        job.training().restarted()
        self.assertIn("back into the queue", job.log())

    def test_preemption_requeues(self):
        job = Job(f"jobs/slurm/4node.sbatch {LONG}").training()
        urgent = Job("--partition=urgent --nodes=4 --exclusive --wrap 'sleep 3'")
        urgent.ended()
        self.assertIn("checkpointed", job.log())
        self.check_resumed(job)

    def test_lost_node_requeues(self):
        job = Job(f"jobs/slurm/4node.sbatch {LONG}").training(42)
        sh("scontrol update nodename=n3 state=down reason=test")
        try:
            wait_for("the job back in the queue", lambda: job.state() == "PENDING", 60)
        finally:
            sh("scontrol update nodename=n3 state=resume", check=False)  # a healthy slurmd resumes the node by itself
        self.check_resumed(job)

    def test_silent_host_goes_on_without_it(self):
        """Convoy's watchdog, not Slurm, ends this job. Slurm marks the host down after SlurmdTimeout, here by hand."""
        command = f"jobs/slurm/2node.sbatch {LONG} --watchdog 15s"
        whole = parameters(Job(command).ended().run + "/model.h5")
        job = Job(command).training(42)
        lost = f_hosts(job.fields())[-1]
        cluster.hosts.cut_off(lost)
        try:
            job._await("its requeue", lambda: f"no answer from {lost}; Slurm requeues the job" in job.log(), 150)
            sh(f"scontrol update nodename={lost} state=down reason=test")
            job.restarted().ended()
            self.assertIn("resume    at step", job.log())
        finally:
            cluster.bring_back(lost)
        self.assertIn("resume    at step", job.log())
        self.assertNotIn(lost, f_hosts(job.fields()))
        self.assertTrue(
            parameters(job.run + "/model.h5") == whole, "the model differs from that of an uninterrupted run"
        )

    def test_failed_communication_is_tried_again_so_often(self):
        with open(checkout.path("fails.sh"), "w") as f:
            f.write("exit 6\n")
        job = Job(f"'--export=ALL,CONVOY_COMMAND=sh fails.sh,CONVOY_RETRIES=2' jobs/slurm/2node.sbatch {TRAIN}").ended(
            "FAILED"
        )
        self.assertEqual((job.fields()["ExitCode"], job.fields()["Restarts"]), ("6:0", "2"), job.log())
        self.assertEqual(job.log().count("exit 6, no host lost now; back into the queue"), 2)
        self.assertIn("exit 6, no host lost now; was put back 2 times and is not again (CONVOY_RETRIES=2)", job.log())

    def test_cancelled_stays_cancelled(self):
        job = Job(f"jobs/slurm/1node.sbatch {LONG}").training()
        sh(f"scancel {job.id}")
        job.ended("CANCELLED")
        wait_for("the end of its processes", lambda: sh(f"squeue -h -j {job.id}", check=False) == "", 40)
        self.assertEqual(job.state(), "CANCELLED")
        self.assertIn("checkpointed; the job is", job.log())

    def test_killed_rank_ends_the_job(self):
        job = Job(f"jobs/slurm/2node.sbatch {LONG}").training()
        sh("kill -9 $(pgrep -f '^[^ ]*build/convoy train .*" + job.run.split("/")[-1] + "' | tail -n 1)")
        job.ended("FAILED", timeout=40)
        self.assertEqual(job.fields()["Restarts"], "0")

    # ---- mistakes ----
    def test_mistakes_are_said_in_one_line(self):
        for command, code, line in (
            (f"jobs/slurm/1gpu.sbatch {TRAIN} --epoch 3", "2:0", "convoy: .*--epoch"),
            (
                "jobs/slurm/1gpu.sbatch input/recipes/none.cfg",
                "2:0",
                "convoy job: there is no recipe input/recipes/none.cfg",
            ),
            (
                "jobs/slurm/1gpu.sbatch input/recipes/resnet50.cfg",
                "2:0",
                "convoy job: there is no data set in input/cifar10: 'make data'",
            ),
            ("jobs/slurm/1gpu.sbatch --data input/other", "2:0", "convoy job: there is no data set in input/other"),
            (
                "jobs/slurm/1gpu.sbatch input/recipes/mnist-linear.cfg --data input/mnist",
                "2:0",
                "convoy: --device cuda",
            ),
            (f"jobs/slurm/array-sweep.sbatch {TRAIN}", "2:0", "convoy job: the first argument is what to vary"),
            (
                f"--export=ALL,CONVOY_SITE=elsewhere jobs/slurm/1gpu.sbatch {TRAIN}",
                "2:0",
                "convoy job: jobs/site/elsewhere.env is not there",
            ),
        ):
            with self.subTest(command):
                job = Job(("--array=0 " if "array" in command else "") + command).ended("FAILED", timeout=40)
                log = job.log() or checkout.read("output", f"convoy-sweep-{job.id}_0.log")
                self.assertRegex(log, line)
                self.assertEqual((job.fields()["ExitCode"], job.fields()["Restarts"]), (code, "0"), log)

    def test_impossible_requests_are_refused_by_slurm(self):
        for options in ("--nodes=5", "--gpus-per-node=9", "--no-such-option"):
            with self.subTest(options), self.assertRaises(AssertionError):
                Job(f"{options} jobs/slurm/4node.sbatch {TRAIN}")

    def test_no_executable(self):
        os.rename(checkout.path("build"), checkout.path("build.away"))
        try:
            job = Job(f"jobs/slurm/1gpu.sbatch {TRAIN}").ended("FAILED", timeout=40)
        finally:
            os.rename(checkout.path("build.away"), checkout.path("build"))
        self.assertIn("convoy job: build/convoy is not there: run make first", job.log())

    def test_submit_takes_the_account_from_the_site_file(self):
        with open(checkout.path("jobs/site/here.env"), "w") as f:
            f.write("export SBATCH_PARTITION=urgent\nCONVOY_DATA=input/mnist\n")
        try:
            answer = checkout.sh(
                "jobs/submit.sh --time=7 jobs/slurm/1gpu.sbatch input/recipes/mnist-linear.cfg --device cpu --epochs 1"
            )
            job = Job.submitted(re.search(r"\d+", answer).group(), "convoy-1gpu").ended()
            self.assertEqual((job.fields()["Partition"], job.fields()["TimeLimit"]), ("urgent", "00:07:00"))
        finally:
            os.remove(checkout.path("jobs/site/here.env"))

    def test_what_pbs_scripts_ask_for(self):
        """Slurm reads PBS's directives too: its qsub passes them as options to sbatch, which itself
        reads those in the script."""
        for script, nodes, tasks, minutes in (
            ("1gpu", 1, 1, 720),
            ("1node", 1, 8, 720),
            ("2node", 2, 8, 360),
            ("4node", 4, 8, 360),
            ("cpu", 1, 4, 240),
        ):
            with self.subTest(script):
                words = " ".join(
                    re.findall(r"^#PBS (-l .*|-r .*|-N .*|-j .*)$", checkout.read(f"jobs/pbs/{script}.pbs"), re.M)
                )
                words = re.sub(r"-l (\S+) -l (\S+) -l (\S+)", r"-l \1,\2,\3", words)  # only the last -l counts
                answer = checkout.sh(f"qsub -h {words} jobs/pbs/{script}.pbs").splitlines()[-1]
                self.assertRegex(answer, r"^\d+$")
                f = Job.submitted(answer, script).fields()
                self.assertEqual(
                    (f["NumNodes"].split("-")[0], f["NtasksPerN:B:S:C"].split(":")[0]), (str(nodes), str(tasks))
                )
                self.assertEqual((f["JobName"], f["Requeue"]), (f"convoy-{script}", "1"))
                days, clock = f["TimeLimit"].split("-") if "-" in f["TimeLimit"] else ("0", f["TimeLimit"])
                self.assertEqual(int(days) * 1440 + int(clock[:2]) * 60 + int(clock[3:5]), minutes)

    def test_a_job_that_is_submitted_from_inside_another(self):
        """The outer step has a core mask, memory per core and one GPU: Slurm passes all of them on to the job."""
        with open(checkout.path("outer.sh"), "w") as f:
            f.write(f"env\nsbatch --mem=500 jobs/slurm/cpu.sbatch {TRAIN} --epochs 1\n")
        Job(
            "--mem-per-cpu=100 --gpus-per-node=1 --output=output/outer.log "
            "--wrap 'srun --cpu-bind=mask_cpu:0x1 bash outer.sh'"
        ).ended()
        said = checkout.read("output/outer.log")
        self.assertRegex(said, "\nSLURM_MEM_PER_CPU=100\n")
        self.assertRegex(said, "\nSLURM_CPU_BIND=.*mask_cpu:.*1\n")
        job = Job.submitted(re.search(r"Submitted batch job (\d+)", said).group(1), "convoy-cpu").ended()
        self.check_allocation(job, 1, 4, gpus=False)

    def test_a_job_that_an_arrays_element_submits(self):
        id = Job(f"--array=3 --output=output/element.log --wrap 'sbatch jobs/slurm/cpu.sbatch {TRAIN} --epochs 1'").id
        wait_for("its job", lambda: "Submitted" in checkout.read("output/element.log"), 60)
        inner = re.search(r"Submitted batch job (\d+)", checkout.read("output/element.log")).group(1)
        self.assertNotEqual(inner, id)
        job = Job.submitted(inner, "convoy-cpu").ended()
        self.assertIn(f"convoy job: convoy-cpu {inner} in output/convoy-cpu-{inner}:", job.log())
        self.check_allocation(job, 1, 4, gpus=False)

    def test_a_folder_with_blanks_and_quotes(self):
        Job.checkout = odd = Checkout(name="it's a $folder: é ")
        try:
            for options in ("", "--export=ALL,CONVOY_LAUNCHER=mpirun"):
                job = Job(f"{options} jobs/slurm/2node.sbatch {TRAIN} --epochs 1").ended()
                self.check_allocation(job, 2, 8)
        finally:
            Job.checkout = checkout
            odd.remove()

    def test_scaling_matrix(self):
        if "bench" not in checkout.sh("build/convoy --help"):
            self.skipTest("this executable has no convoy bench")
        command = (
            "CELLS='1n1g 2n4g' BATCHES='4 8' REPEATS=1 "
            "jobs/slurm/scaling.sh mnist-linear output/scaling --steps 5 --device cpu"
        )
        self.assertIn("build/convoy report --scaling output/scaling/*", checkout.sh(command))
        wait_for("the matrix", lambda: not sh("squeue -h"), 120)
        cells = ["1n1g-b4-r1", "1n1g-b8-r1", "2n4g-b4-r1", "2n4g-b8-r1"]
        self.assertEqual(sorted(c for c in os.listdir(checkout.path("output/scaling")) if c[0] != "."), cells)
        for cell in cells:
            self.assertTrue(os.path.exists(checkout.path("output/scaling", cell, "metrics.h5")), cell)
        self.assertIn("2n4g: done", checkout.sh(command))
        self.assertFalse(sh("squeue -h"), "a finished matrix was submitted again")


def f_hosts(fields):
    return sh(f"scontrol show hostnames {fields['NodeList']}").split()


if __name__ == "__main__":
    unittest.main(verbosity=2)
