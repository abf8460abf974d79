"""The scaling matrix as text: submitted jobs, each cell's command, and the printed expectations. Needs no scheduler."""
import os
import shutil
import unittest

import words
from words import ROOT, lines_of


class Scaling(words.Words):
    def test_scaling_submits_what_is_missing(self):
        self.stub("bin/sbatch", 'echo "$CELL: $*"')
        command = "CELLS='1n1g 2n16g' BATCHES='32 64' REPEATS=2 jobs/slurm/scaling.sh resnet18 out --precision bf16"
        code, out, err = self.bash(command)
        self.assertEqual(code, 0, err)
        bench = "jobs/slurm/bench.sbatch resnet18 out --precision bf16"
        self.assertEqual(out.splitlines()[0], f"1n1g: --gpus-per-node=1 --ntasks-per-node=1 --job-name=convoy-1n1g --nodes=1 {bench}")
        self.assertEqual(out.splitlines()[1], f"2n16g: --gpus-per-node=8 --ntasks-per-node=8 --job-name=convoy-2n16g --nodes=2 {bench}")
        for batch in (32, 64):
            for repeat in (1, 2):
                os.makedirs(f"{self.dir}/out/1n1g-b{batch}-r{repeat}")
        out = self.bash(command)[1].splitlines()
        self.assertEqual(out[0], "1n1g: done")
        self.assertEqual(out[-1], "when they have ended: build/convoy report --scaling out/*")
        self.assertEqual(self.bash("CELLS=1n1g jobs/slurm/scaling.sh resnet18 'my out'")[1].splitlines()[-1][-34:], "convoy report --scaling 'my out'/*")
        self.refused("not of the form", "CELLS=2x16 jobs/slurm/scaling.sh")

    def test_scaling_cells(self):
        # Batch 64 does not fit; batch 96 fails once; finished cells are not measured again.
        self.stub("build/convoy", 'echo "$@" >>calls; [[ $* != *"rank 64"* ]] || exit 7; [[ $* != *"rank 96"* || -e once ]] || { touch once; exit 6; }; '
                  'while [[ $1 != --output ]]; do shift; done; mkdir -p "$2"; touch "$2/metrics.h5"')  # fmt: skip
        command = "source jobs/common.sh; launch=(env); CELL=1n1g BATCHES='32 64 96' REPEATS=1; bench_on cpu linear out"
        self.assertEqual(self.bash(command)[0], 6)
        self.assertEqual(sorted(f"{d}/{f}" for d, _, files in os.walk(f"{self.dir}/out") for f in files if "/." not in d),
                         [f"{self.dir}/out/1n1g-b32-r1/metrics.h5", f"{self.dir}/out/1n1g-b64-r1/oom"])  # fmt: skip
        code, out, err = self.bash(command)
        self.assertEqual(code, 0, err)
        self.assertTrue(os.path.exists(f"{self.dir}/out/1n1g-b96-r1/metrics.h5"))
        calls = lines_of(f"{self.dir}/calls")
        self.assertEqual(len(calls), 4)
        self.assertRegex(calls[0], r"^bench --model linear --batch-per-rank 32 --output out/\.1n1g-b32-r1\.\w{6} --steps 100 --device cpu$")

    def benched(self, arguments):
        """Returns the words after `convoy bench` of one cell."""
        shutil.rmtree(f"{self.dir}/out", ignore_errors=True)
        self.stub("build/convoy", 'echo "$@" >calls; while [[ $1 != --output ]]; do shift; done; mkdir -p "$2"')
        code, _, err = self.bash(f"source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=128 REPEATS=1; bench_on cuda {arguments}")
        self.assertEqual(code, 0, err)
        return lines_of(f"{self.dir}/calls")[0].removeprefix("bench ")

    def test_the_matrix_measures_what_published_figures_are_of(self):
        with open(f"{ROOT}/output/published/resnet50-v100.csv") as f:
            header, *rows = [line.strip().split(",") for line in f if not line.startswith("#")]
        published = [dict(zip(header, row)) for row in rows]
        self.assertTrue(published)
        self.assertEqual({(p["image_size"], p["classes"]) for p in published}, {("224x224x3", "1000")})
        for model in ("resnet18", "resnet50"):
            words = self.benched(f"{model} out --precision bf16")
            self.assertTrue(words.endswith("--image-size 224x224x3 --classes 1000"), words)
            self.assertNotIn("--stem", words)  # the size decides: ImageNet's
        for model in ("pyramidnet", "airbench94", "mnist-conv"):
            self.assertNotRegex(self.benched(f"{model} out"), "--image-size|--classes")

    def test_the_matrix_measures_what_it_is_told_to(self):
        words = self.benched("resnet50 out --image-size=32x32x3 --classes 10")
        self.assertEqual((words.count("--image-size"), words.count("--classes")), (1, 1), words)
        with open(f"{self.dir}/mine.cfg", "w") as f:
            f.write("data = data\n")
        for options in ("--data data", "--data=data", "--config mine.cfg"):
            self.assertNotRegex(self.benched(f"resnet50 out {options}"), "--image-size|--classes")
        self.refused("there is no recipe none.cfg", "source jobs/common.sh; launch=(env); CELL=1n1g; bench_on cuda resnet50 out --config none.cfg")

    def test_a_prediction_comes_before_what_is_submitted(self):
        self.stub("bin/sbatch", 'echo "submitted $CELL"')
        self.stub("bin/qsub", 'echo "submitted $CELL"')
        self.stub("build/convoy", 'echo "$@"')
        for scheduler in ("slurm", "pbs"):
            command = f"CELLS='1n1g 1n8g 4n32g' BATCHES='32 64' REPEATS=1 jobs/{scheduler}/scaling.sh resnet18 out"
            code, out, err = self.bash(f"{command} --precision bf16 --classes=7", CLUSTER="jobs/site/dgx-a100.cluster")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(
                out.splitlines()[:2],
                ["predict --model resnet18 --batch-per-rank 64 --cluster jobs/site/dgx-a100.cluster --ranks 1,8,32 --precision bf16 --classes 7",
                 "submitted 1n1g"])  # fmt: skip
            self.assertEqual(out.count("submitted"), 3)
            for other in ({}, {"CLUSTER": "mycluster"}):  # some sites' shells have such a variable
                code, out, err = self.bash(command, **other)
                self.assertEqual((code, out.count("submitted"), out.count("predict")), (0, 3, 0))
                self.assertEqual(err.count("\n"), 1, err)
                self.assertIn("CLUSTER=FILE.cluster", err)
        self.site("a", "CLUSTER=mine.cluster")
        self.assertIn("--cluster mine.cluster --ranks 1,8,32 --precision f32\n", self.bash(command)[1])
        self.site("a", "CLUSTER=mine.cluster CONVOY_COMMAND='echo in a container: convoy'")
        self.assertIn("in a container: convoy predict --model resnet18", self.bash(command)[1])

    def test_no_prediction_stops_no_submission(self):
        self.stub("bin/sbatch", 'echo "submitted $CELL"')
        command = "CELLS='1n1g 1n2g' BATCHES=32 REPEATS=1 jobs/slurm/scaling.sh resnet18 out"
        self.stub("build/convoy", "echo convoy: no such file >&2; exit 3")
        code, out, err = self.bash(command, CLUSTER="none.cluster")
        self.assertEqual((code, out.count("submitted")), (0, 2))
        self.assertIn("there is no prediction", err)
        os.remove(f"{self.dir}/build/convoy")
        code, out, err = self.bash(command, CLUSTER="none.cluster")
        self.assertEqual((code, out.count("submitted")), (0, 2))
        self.assertIn("run make first", err)

    def test_the_real_program_takes_these_words(self):
        convoy = os.environ.get("CONVOY", f"{ROOT}/build/convoy")
        if not os.access(convoy, os.X_OK):
            self.skipTest("build/convoy is not there")
        self.stub("bin/sbatch", 'echo "submitted $CELL"')
        code, out, err = self.bash("jobs/slurm/scaling.sh resnet50 out --precision f32", CLUSTER=f"{ROOT}/jobs/site/dgx1-v100-edr.cluster", CONVOY_COMMAND=convoy)
        self.assertEqual((code, err), (0, ""))
        before = out[: out.index("submitted")].splitlines()
        rows = [line.split()[0] for line in before if line[:1].isdigit()]
        self.assertEqual(rows, ["1-1", "1-2", "1-4", "1-8", "2-16", "4-32"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
