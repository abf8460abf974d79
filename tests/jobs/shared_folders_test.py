"""Files that job scripts write in folders that others may write, and lines that they read from a
host file. Needs neither root nor a scheduler."""

import os
import shutil
import subprocess
import unittest

import words
from words import lines_of


class SharedFolders(words.Words):
    """Other users may be able to write where a job writes: the job does not write through their links."""

    def setUp(self):
        super().setUp()
        self.stub("bin/ssh", 'printf "%s\\n" "$@" >>ssh.txt; echo found')
        self.stub("bin/mpirun", "echo said")
        self.write("jobs/adhoc/hostfile", "m1 slots=1\n")

    def test_retries_are_counted_in_no_file_that_a_link_leads_to(self):
        count = (
            "source jobs/common.sh; scheduler=slurm output=run output_place=$PWD/run retries=2 code=6 "
            "lost='no answer from a'; export CONVOY_FIRST_JOB=7; retry_left && echo back"
        )
        self.write("victim", "mine\n7 of another file\n7 of another file\n")
        os.makedirs(f"{self.dir}/run")
        os.symlink(f"{self.dir}/victim", f"{self.dir}/run/retries")
        for tries in (1, 2):
            self.assertEqual(self.bash(count)[1], "back\n")
            self.assertFalse(os.path.islink(f"{self.dir}/run/retries"))
            self.assertEqual([line.split()[0] for line in lines_of(f"{self.dir}/run/retries")], ["7"] * tries)
        self.assertIn("was put back 2 times and is not again", self.bash(count)[1])
        self.assertEqual(self.bash(count.replace("JOB=7", "JOB=8"))[1], "back\n")
        self.assertEqual([line.split()[0] for line in lines_of(f"{self.dir}/run/retries")], ["7", "7", "8"])
        self.assertEqual(os.listdir(f"{self.dir}/run"), ["retries"])
        self.assertEqual(lines_of(f"{self.dir}/victim"), ["mine", "7 of another file", "7 of another file"])
        self.bash(f"umask 027; {count.replace('JOB=7', 'JOB=9')}")
        self.assertEqual(os.stat(f"{self.dir}/run/retries").st_mode & 0o777, 0o640)
        os.remove(f"{self.dir}/run/retries")
        os.mkfifo(f"{self.dir}/run/retries")
        self.assertEqual(self.bash(count)[1], "back\n")

    def test_retries_are_not_counted_in_a_folder_that_a_link_leads_to(self):
        """Another user puts a link in the place of the run folder, or of the folder above, while the training runs."""
        for exchanged in ("runs", "runs/run"):
            shutil.rmtree(f"{self.dir}/runs", ignore_errors=True)
            for folder in ("runs/run", "victim/run"):
                os.makedirs(f"{self.dir}/{folder}", exist_ok=True)
            self.write("victim/run/retries", "mine\n")
            victim = f"{self.dir}/victim" + exchanged.removeprefix("runs")
            self.stub("build/convoy", f"mv {exchanged} away; ln -s {victim} {exchanged}; rm -rf away; exit 6")
            code, out, err = self.bash(
                "source jobs/common.sh; launch=(env); lost_a_host() { lost=lost; }; "
                "train_on auto --data data --output runs/run"
            )
            self.assertEqual((code, err), (6, ""))
            self.assertIn("exit 6, lost; not put back, because runs/run was exchanged", out)
            self.assertEqual(
                (os.listdir(f"{self.dir}/victim/run"), lines_of(f"{self.dir}/victim/run/retries")),
                (["retries"], ["mine"]),
            )
            os.remove(f"{self.dir}/{exchanged}")

    def test_a_cell_takes_no_place_of_a_link(self):
        os.makedirs(f"{self.dir}/victim")
        os.makedirs(f"{self.dir}/out")
        self.stub("build/convoy", "ln -sfn ../victim out/1n1g-b8-r1")  # while it runs
        code, _, err = self.bash(
            "source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=8 REPEATS=1; bench_on cpu resnet50 out"
        )
        self.assertNotEqual(code, 0)
        self.assertEqual(os.listdir(f"{self.dir}/victim"), [], err)

    def test_no_file_is_made_through_a_link_in_the_place_of_a_cell(self):
        for place in ("../victim", f"{self.dir}/victim", "nowhere"):
            for folder in ("victim", "out"):
                shutil.rmtree(f"{self.dir}/{folder}", ignore_errors=True)
                os.makedirs(f"{self.dir}/{folder}")
            # while it runs out of memory
            self.stub(
                "build/convoy",
                f'while [[ $1 != --output ]]; do shift; done; mv "$2" out/away; ln -s {place} "$2"; exit 7',
            )
            code, _, err = self.bash(
                "source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=8 REPEATS=1; bench_on cpu resnet50 out"
            )
            self.assertEqual(code, 2, err)
            self.assertIn("was exchanged while its cell was measured", err)
            self.assertEqual(os.listdir(f"{self.dir}/victim"), [])
            self.assertFalse(os.path.exists(f"{self.dir}/out/1n1g-b8-r1"))

    def test_no_file_is_made_through_a_link_in_a_cell(self):
        self.stub("build/convoy", 'while [[ $1 != --output ]]; do shift; done; ln -s ../../new "$2/oom"; exit 7')
        self.refused(
            "oom cannot be written",
            "source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=8 REPEATS=1; bench_on cpu resnet50 out",
        )
        self.assertFalse(os.path.exists(f"{self.dir}/new"))

    def test_a_cell_removes_nothing_that_was_there(self):
        for folder in ("out/.1n1g-b8-r1", "out/.1n1g-b8-r1.aaaaaa", "victim"):
            os.makedirs(f"{self.dir}/{folder}")
            self.write(f"{folder}/thesis", "mine\n")
        os.symlink("../victim", f"{self.dir}/out/.1n1g-b9-r1")
        self.stub(
            "build/convoy",
            'while [[ $1 != --output ]]; do shift; done; stat -c %a "$2" >mode; touch "$2/metrics.h5"; exit ${CODE:-0}',
        )
        command = (
            "source jobs/common.sh; launch=(env); CELL=1n1g BATCHES='8 9' REPEATS=1; "
            "umask 027; bench_on cpu resnet50 out"
        )
        self.assertEqual(self.bash(f"CODE=3; export CODE; {command}")[0], 3)
        code, _, err = self.bash(command)
        self.assertEqual(code, 0, err)
        for folder in ("out/.1n1g-b8-r1", "out/.1n1g-b8-r1.aaaaaa", "victim"):
            self.assertEqual(os.listdir(f"{self.dir}/{folder}"), ["thesis"])
        for cell in ("8", "9"):
            self.assertEqual(os.listdir(f"{self.dir}/out/1n1g-b{cell}-r1"), ["metrics.h5"])
        self.assertEqual(lines_of(f"{self.dir}/mode"), ["750"])

    def test_a_host_is_no_option_of_ssh(self):
        for host in ("-oProxyCommand=touch${IFS}pwned", "--", "-h"):
            with self.subTest(host):
                self.write("jobs/adhoc/hostfile", f"m1\n {host} slots=2\n")
                self.refused(f"jobs/adhoc/hostfile: {host} is no host name", "jobs/adhoc/run.sh --data data")
                self.assertFalse(os.path.exists(f"{self.dir}/ssh.txt"), "not even the first host is asked")

    def test_the_log_is_kept(self):
        for told in (1, 2):
            code, out, err = self.bash(
                "jobs/adhoc/run.sh --data data --dry-run --output my/run; jobs/adhoc/run.sh --data data --output my/run"
            )
            self.assertEqual(lines_of(f"{self.dir}/my/run.log").count("said"), told, (code, out, err))

    def test_the_log_is_no_link_and_no_pipe(self):
        self.write("victim", "mine\n")
        os.makedirs(f"{self.dir}/my")
        for make in (
            lambda path: os.symlink("../victim", path),
            lambda path: os.symlink("../new", path),
            os.mkfifo,
            os.mkdir,
        ):
            make(f"{self.dir}/my/run.log")
            self.refused(
                "my/run.log is a link, has several names, or is no plain file",
                "jobs/adhoc/run.sh --data data --output my/run/",
            )
            self.assertEqual(lines_of(f"{self.dir}/victim"), ["mine"])
            self.assertFalse(os.path.exists(f"{self.dir}/new"))
            subprocess.run(["rm", "-r", f"{self.dir}/my/run.log"], check=True)

    def test_the_log_of_a_benchmark_takes_the_place_of_a_link(self):
        folder = f"{self.dir}/logs/benchmark_log/cnns/resnet50_1node_bz128"
        os.makedirs(folder)
        self.write("victim", "mine\n")
        for make in (
            lambda path: os.symlink(f"{self.dir}/victim", path),
            lambda path: os.symlink(f"{self.dir}/new", path),
            os.mkfifo,
        ):
            make(f"{folder}/1n1c_real.log")
            code, _, err = self.bash("jobs/train.sh", CONVOY_LOGS=f"{self.dir}/logs", CONVOY_DATA="/data")
            self.assertEqual(code, 0, err)
            self.assertEqual(
                (lines_of(f"{folder}/1n1c_real.log"), lines_of(f"{self.dir}/victim")), (["said"], ["mine"])
            )
            self.assertFalse(os.path.islink(f"{folder}/1n1c_real.log") or os.path.exists(f"{self.dir}/new"))
            os.remove(f"{folder}/1n1c_real.log")

    def test_a_pipe_that_takes_the_place_of_the_log_is_not_waited_for(self):
        log = f"{self.dir}/logs/benchmark_log/cnns/resnet50_1node_bz128/1n1c_real.log"
        # another user makes it as soon as the old one is gone
        self.stub("bin/rm", f'/bin/rm "$@"; [[ ${{@: -1}} != {log} ]] || mkfifo "{log}"')
        code, _, err = self.bash("timeout 20 jobs/train.sh", CONVOY_LOGS=f"{self.dir}/logs", CONVOY_DATA="/data")
        self.assertEqual(code, 2, err)
        self.assertIn("1n1c_real.log was put there by another user", err)

    def test_no_pipe_in_the_place_of_a_recipe_is_waited_for(self):
        os.mkfifo(f"{self.dir}/pipe.cfg")
        commands = {
            "the recipe pipe.cfg": "source jobs/common.sh; launch=(env); train_on auto pipe.cfg --data data",
            "the recipe ./pipe.cfg": "source jobs/common.sh; launch=(env); sweep_on auto lr=1,2 ./pipe.cfg --data data",
            "the recipe data": "source jobs/common.sh; launch=(env); CELL=1n1g; "
            "bench_on cpu resnet50 out --config data",
        }
        for what, command in commands.items():
            with self.subTest(command):
                self.refused(f"{what} is not a regular file", f"timeout 20 bash -c '{command}'")

    def test_no_pipe_that_takes_the_place_of_a_recipe_is_waited_for(self):
        self.write("plain.cfg", "lr = 1\n")
        self.stub("bin/dd", 'rm plain.cfg; mkfifo plain.cfg; exec /bin/dd "$@"')
        code, out, err = self.bash(
            "source jobs/common.sh; launch=(env); read_arguments plain.cfg; given lr || echo none"
        )
        self.assertEqual((code, out), (0, "none\n"), err)

    def test_no_pipe_that_takes_the_place_of_the_records_is_waited_for(self):
        is_done = "source jobs/common.sh; output=run; is_done && echo done || echo other"
        os.makedirs(f"{self.dir}/run")
        done = '{"kind": "event", "event": "done"}\n'
        for lines, answer in (
            (done, "done"),
            ("x" * (3 << 20) + "\n" + done, "done"),
            (done + "x" * (3 << 20) + "\n", "other"),
        ):
            self.write("run/metrics.jsonl", lines)
            self.assertEqual(self.bash(is_done)[:2], (0, f"{answer}\n"))
        for program in ("dd", "tail"):  # whichever reads the file
            self.stub(
                f"bin/{program}", f'rm run/metrics.jsonl; mkfifo run/metrics.jsonl; exec {shutil.which(program)} "$@"'
            )
        self.assertEqual(self.bash(f"timeout 20 bash -c '{is_done}'")[:2], (0, "other\n"))

    def test_the_options_of_a_recipe_are_seen(self):
        self.write("plain.cfg", "# data = no\n  output\t= here\nlr=1\0\n")
        words = "for option in data output lr keep; do ! given $option || echo $option; done"
        code, out, err = self.bash(f"source jobs/common.sh; read_arguments plain.cfg --keep 2; {words}")
        self.assertEqual((code, out, err), (0, "output\nlr\nkeep\n", ""))

    def test_no_other_pipe_is_waited_for(self):
        os.mkfifo(f"{self.dir}/jobs/site/mine.env")
        self.refused(
            "the site file jobs/site/mine.env is not a regular file", "timeout 20 bash -c 'source jobs/common.sh'"
        )
        os.remove(f"{self.dir}/jobs/site/mine.env")
        os.remove(f"{self.dir}/jobs/adhoc/hostfile")
        os.mkfifo(f"{self.dir}/jobs/adhoc/hostfile")
        self.refused("the host file jobs/adhoc/hostfile is not", "timeout 20 jobs/adhoc/run.sh --data data")
        os.mkfifo(f"{self.dir}/my.sbatch")
        self.refused("the job script my.sbatch is not a regular file", "timeout 20 jobs/submit.sh my.sbatch")


if __name__ == "__main__":
    unittest.main(verbosity=2)
