"""What jobs/submit.sh passes to the scheduler, and what the job then does with it. Needs no scheduler."""

import base64
import os
import shlex
import shutil

import words


class Submit(words.Words):
    def setUp(self):
        super().setUp()
        self.stub("bin/sbatch", 'printf "%s\\n" "$@"; env | grep ^CONVOY_ASKED_GPUS; exit 0')
        self.stub("bin/qsub", 'printf "%s\\n" "$@"; env | grep ^CONVOY_ASKED_GPUS; exit 0')

    def submitted(self, arguments, **environment):
        code, out, err = self.bash(f"jobs/submit.sh {arguments}", **environment)
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def test_nodes_of_four_gpus_are_one_setting(self):
        self.site("a", "CONVOY_GPUS_PER_NODE=4")
        for script in ("1node", "2node", "4node"):
            gpus = ["--gpus-per-node=4", "--ntasks-per-node=4"]
            self.assertEqual(
                self.submitted(f"jobs/slurm/{script}.sbatch --epochs 3"),
                [*gpus, f"jobs/slurm/{script}.sbatch", "--epochs", "3", "CONVOY_ASKED_GPUS=4"],
            )
        self.assertEqual(
            self.submitted("jobs/slurm/elastic.sbatch"),
            ["--gpus-per-node=4", "--cpus-per-task=16", "jobs/slurm/elastic.sbatch", "CONVOY_ASKED_GPUS=4"],
        )
        for script in ("1gpu", "cpu", "array-sweep", "convert", "evaluate"):
            self.assertEqual(self.submitted(f"jobs/slurm/{script}.sbatch"), [f"jobs/slurm/{script}.sbatch"])
        pbs = self.submitted("jobs/pbs/4node.pbs")
        chunks = ["-l", "select=4:ncpus=4:mpiprocs=4:ngpus=4:ompthreads=1"]
        names = ["-v", "CONVOY_ARGS,CONVOY_SUBMIT,CONVOY_ASKED_GPUS"]
        self.assertEqual(pbs[2:], [*chunks, *names, "jobs/pbs/4node.pbs", "CONVOY_ASKED_GPUS=4"])
        self.assertEqual(
            self.submitted("jobs/pbs/1gpu.pbs")[2:], ["-v", "CONVOY_ARGS,CONVOY_SUBMIT", "jobs/pbs/1gpu.pbs"]
        )

    def test_an_option_wins_over_the_site_file(self):
        self.site("a", "CONVOY_GPUS_PER_NODE=a100:4")
        self.assertEqual(self.submitted("jobs/slurm/2node.sbatch")[0], "--gpus-per-node=a100:4")
        for option in ("--gpus-per-node=2", "--gpus-per-node 2"):
            gpus = ["--gpus-per-node=2", "--ntasks-per-node=2"]
            self.assertEqual(
                self.submitted(f"{option} --time=5 jobs/slurm/2node.sbatch"),
                [*gpus, "--time=5", "jobs/slurm/2node.sbatch", "CONVOY_ASKED_GPUS=2"],
            )
            self.assertIn(
                "select=2:ncpus=2:mpiprocs=2:ngpus=2:ompthreads=1", self.submitted(f"{option} jobs/pbs/2node.pbs")
            )
        mine = self.submitted("-l select=2:ncpus=6:mpiprocs=2:ngpus=2 jobs/pbs/2node.pbs")
        self.assertEqual([word for word in mine if "select" in word], ["select=2:ncpus=6:mpiprocs=2:ngpus=2"])

    def test_gres_takes_the_place_of_gpus_per_node(self):
        self.stub(
            "bin/sbatch",
            'printf "%s\\n" "$@"; for script in "$@"; do '
            '[[ ! -f $script ]] || grep "^#SBATCH --g\\|^#SBATCH --nodes" "$script"; done; exit 0',
        )
        for gres, gpus in (("gpu:4", 4), ("gpu:a100:4", 4), ("gpu", 1), ("gpu:a100", 1), ("nvme:1,gpu:v100-32g:2", 2)):
            with self.subTest(gres):
                said = self.submitted(f"--gres={gres} jobs/slurm/2node.sbatch --epochs 3")
                self.assertEqual(said[:2], [f"--ntasks-per-node={gpus}", f"--gres={gres}"])
                self.assertRegex(said[2], "/2node.sbatch$")
                self.assertEqual(said[3:], ["--epochs", "3", "#SBATCH --nodes=2"])
                self.assertFalse(os.path.exists(said[2]), "the copy is removed")
        self.site("a", 'SBATCH_OPTIONS="--gres=gpu:4 --mail-type=END"')
        self.assertEqual(
            self.submitted("jobs/slurm/1node.sbatch")[:3], ["--ntasks-per-node=4", "--gres=gpu:4", "--mail-type=END"]
        )

    def test_the_copy_of_a_script_is_in_no_folder_of_a_group(self):
        # TMPDIR may be one, where others give its name to another folder meanwhile.
        thesis = os.path.join(self.dir, "thesis")
        os.mkdir(thesis)
        open(os.path.join(thesis, "chapter1.tex"), "w").close()
        self.stub(
            "bin/sbatch",
            f'for copy in "$@"; do [[ ! -f $copy ]] || {{ echo "${{copy%/*}}"; mv "${{copy%/*}}" {self.dir}/was; '
            f'mv {thesis} "${{copy%/*}}"; }}; done; exit 0',
        )
        folder = self.submitted("--gres=gpu:4 jobs/slurm/2node.sbatch", TMPDIR=self.dir)[0]
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.assertTrue(folder.startswith("/tmp/convoy-job-"), folder)
        self.assertEqual(os.listdir(folder), ["chapter1.tex"])

    def test_mistakes_are_named(self):
        self.refused(
            "--gpus-per-node=many is not [TYPE:]N", "jobs/submit.sh --gpus-per-node=many jobs/slurm/2node.sbatch"
        )
        self.refused("--gpus-per-node=0 is not [TYPE:]N", "jobs/submit.sh --gpus-per-node=0 jobs/pbs/2node.pbs")
        self.site("a", "CONVOY_GPUS_PER_NODE=four")
        self.refused("CONVOY_GPUS_PER_NODE=four is not [TYPE:]N", "jobs/submit.sh jobs/slurm/2node.sbatch")

    def test_an_elastic_job_has_as_many_logical_ranks_as_four_nodes_have_gpus(self):
        launched = "source jobs/common.sh; launch=(env); elastic_nodes=4; train_on cpu --data data"
        for environment, ranks in (({}, 32), ({"CONVOY_ASKED_GPUS": "4"}, 16)):
            self.assertIn(f"--virtual-ranks {ranks}", self.bash(launched, **environment)[1])
        self.site("a", "CONVOY_GPUS_PER_NODE=2")
        self.assertIn("--virtual-ranks 8", self.bash(launched)[1])
        self.assertIn("--virtual-ranks 16", self.bash(launched, CONVOY_ASKED_GPUS="4")[1])

    def test_the_scaling_matrix_has_the_nodes_that_there_are(self):
        self.stub("bin/sbatch", 'echo "cell $CELL"')
        for gpus, cells in (
            ("8", "1n1g 1n2g 1n4g 1n8g 2n16g 4n32g"),
            ("4", "1n1g 1n2g 1n4g 2n8g 4n16g"),
            ("1", "1n1g 2n2g 4n4g"),
        ):
            said = self.bash("jobs/slurm/scaling.sh resnet50", CONVOY_GPUS_PER_NODE=gpus)[1].splitlines()
            self.assertEqual([line.split()[1] for line in said if line.startswith("cell ")], cells.split())

    def test_runs_and_logs_go_where_the_site_file_says(self):
        runs = f"{self.dir}/scratch/my runs"
        self.site("a", f'CONVOY_RUNS="{runs}"')
        self.assertEqual(
            self.submitted("jobs/slurm/1gpu.sbatch"), [f"--output={runs}/%x-%j.log", "jobs/slurm/1gpu.sbatch"]
        )
        self.assertTrue(os.path.isdir(runs))
        self.assertEqual(self.submitted("jobs/slurm/array-sweep.sbatch")[0], f"--output={runs}/%x-%A_%a.log")
        self.assertEqual(self.submitted("jobs/pbs/1gpu.pbs")[2:4], ["-o", f"{runs}/"])
        said = self.bash(
            "source jobs/common.sh; launch=(env); train_on cpu --data data", SLURM_JOB_ID="", SLURM_JOB_NAME="x"
        )[1]
        trained = shlex.split(said.splitlines()[0])
        self.assertRegex(trained[trained.index("--output") + 1], f"^{runs}/x-[0-9]+")

    def test_it_can_be_called_from_another_folder(self):
        mine = f"{self.dir}/mine/deep"
        os.makedirs(f"{mine}/pictures")
        for name in ("my.cfg", "note"):
            open(f"{mine}/{name}", "w").close()
        os.makedirs(f"{self.dir}/input/recipes")
        open(f"{self.dir}/input/recipes/shipped.cfg", "w").close()
        command = (
            "cd mine/deep; "
            "../../jobs/submit.sh {} my.cfg --data pictures --data=pictures --output pictures --model note; "
            "../../jobs/submit.sh {} input/recipes/shipped.cfg"
        )
        for script in ("jobs/slurm/1gpu.sbatch", "../../jobs/slurm/1gpu.sbatch", f"{self.dir}/jobs/slurm/1gpu.sbatch"):
            code, out, err = self.bash(command.format(script, script))
            self.assertEqual((code, err), (0, ""))
            data = ["--data", f"{mine}/pictures", f"--data={mine}/pictures"]
            self.assertEqual(
                out.splitlines()[1:-2], [f"{mine}/my.cfg", *data, "--output", "pictures", "--model", "note"]
            )
            self.assertTrue(out.splitlines()[0].endswith("jobs/slurm/1gpu.sbatch"))
            self.assertEqual(out.splitlines()[-1], "input/recipes/shipped.cfg")

    def test_a_job_that_submit_sh_did_not_submit_says_so(self):
        warning = "jobs/submit.sh did not submit this job"
        seen = "source jobs/common.sh"
        for site in ("export SBATCH_ACCOUNT=ours", "CONVOY_GPUS_PER_NODE=4", 'QSUB_OPTIONS="-q gpu"'):
            self.site("a", site)
            for job in ({"SLURM_JOB_ID": "7"}, {"PBS_JOBID": "7"}):
                self.assertEqual(self.bash(seen, **job)[2].count(warning), 1, site)
                self.assertEqual(self.bash(seen, CONVOY_SUBMIT="", **job)[2], "")
            self.assertEqual(self.bash(seen)[2], "", "no job")
        self.site("a", "export SBATCH_ACCOUNT=ours")
        self.assertEqual(self.bash(seen, SLURM_JOB_ID="7", SBATCH_ACCOUNT="ours")[2], "", "the shell had it")
        self.site("a", "CONVOY_DATA=data")
        self.assertEqual(self.bash(seen, SLURM_JOB_ID="7")[2], "", "Slurm needs nothing of it")

    def test_a_conversion_goes_back_into_the_queue_and_an_evaluation_does_not(self):
        self.stub("bin/squeue", "echo RUNNING")
        self.stub("bin/scontrol", 'echo "scontrol $*"')
        self.stub("build/convoy", 'echo "$@"; exit $CODE')
        job = "source jobs/common.sh; scheduler=slurm; find_launcher() { launch=(env) convoy=(build/convoy); }; "
        code, out, _ = self.bash(job + "convert_on synthetic --to x", CODE="0", SLURM_JOB_ID="7")
        self.assertEqual((code, out.splitlines()[1]), (0, "convert synthetic --to x"))
        code, out, _ = self.bash(job + "convert_on synthetic --to x", CODE="3", SLURM_JOB_ID="7")
        self.assertEqual((code, out.count("requeue")), (3, 0), "it was not interrupted")
        self.stub("build/convoy", "kill -USR1 $PPID; sleep 5")
        code, out, _ = self.bash(job + "convert_on synthetic --to x", SLURM_JOB_ID="7")
        self.assertEqual((code, out.count("scontrol requeue 7")), (85, 1), out)
        code, out, _ = self.bash(job + "evaluate_on cpu --model-file m", SLURM_JOB_ID="7")
        self.assertNotEqual(code, 0)
        self.assertEqual((out.count("requeue"), out.count("evaluate --device cpu --model-file m")), (0, 1), out)

    def test_a_conversion_ends_before_the_walltime(self):
        self.stub("bin/qstat", 'echo "    Resource_List.walltime = 00:00:04"')
        self.stub("bin/qrerun", 'echo "qrerun $*"')
        self.stub("build/convoy", "exec sleep 30")
        job = (
            "source jobs/common.sh; scheduler=pbs PBS_JOBID=7 PBS_JOBNAME=convoy-convert; "
            "find_launcher() { launch=(env) convoy=(build/convoy); }; convert_on synthetic"
        )
        code, out, _ = self.bash(job)
        self.assertEqual((code, out.count("qrerun 7")), (85, 1), out)

    def test_a_name_that_looks_packed_arrives_at_pbs_as_it_is(self):
        """Otherwise the job would unpack the name of a received recipe, and run what is in it."""
        self.stub("bin/qsub", 'printf "%s" "$CONVOY_ARGS"')
        name = f"base64:{base64.b64encode(b'$(touch ran)').decode()}.cfg"
        with open(f"{self.dir}/{name}", "w") as f:
            f.write("data = data\n")
        said = self.bash("jobs/submit.sh jobs/pbs/1gpu.pbs $NAME --epochs 1", NAME=name, CONVOY_DATA="d")[1]
        out = self.bash('source jobs/common.sh; eval "printf %s\\|  $CONVOY_ARGS"', CONVOY_ARGS=said)[1]
        self.assertEqual(out.split("|")[0], name)
        self.assertFalse(os.path.exists(f"{self.dir}/ran"))
