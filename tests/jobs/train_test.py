"""jobs/train.sh, with stand-ins for mpirun and convoy, and the programs that a container starts. Needs no scheduler."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from words import ROOT, lines_of

ENTRY = f"{ROOT}/jobs/container/entry.sh"
HELP = (
    "usage: convoy COMMAND [options]\n  convert   make\n  train     train a model\n  info      print\n"
    "exit codes: 0 done\n"
)


class Stubs(unittest.TestCase):
    """A folder of stand-ins for programs, first in PATH."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="convoy-train-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.makedirs(f"{self.dir}/here")

    def stub(self, name, body):
        path = f"{self.dir}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(path, 0o755)

    def environment(self, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONVOY_") and k != "HWLOC_COMPONENTS"}
        return {**clean, "PATH": f"{self.dir}/bin:{clean['PATH']}", **more}

    def started(self, command, **environment):
        return subprocess.run(
            command,
            cwd=f"{self.dir}/here",
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )


class Train(Stubs):
    def setUp(self):
        super().setUp()
        os.makedirs(f"{self.dir}/root/jobs")
        shutil.copy(f"{ROOT}/jobs/train.sh", f"{self.dir}/root/jobs/train.sh")
        self.stub("bin/mpirun", 'echo "mpirun $*"; while [[ $1 != */convoy ]]; do shift; done; exec "$@"')
        self.stub(
            "root/build/convoy",
            f'echo "$*" >>{self.dir}/calls; echo "Epoch: [0][0/10]"; '
            '[[ $1 != convert ]] || { mkdir -p "${@: -1}"; touch "${@: -1}/manifest.json"; }',
        )

    def run_script(self, *arguments, **environment):
        return self.started([f"{self.dir}/root/jobs/train.sh", *arguments], **environment)

    def calls(self):
        with open(f"{self.dir}/calls") as f:
            return f.read().splitlines()

    def test_four_gpus(self):
        done = self.run_script("resnet50", "0,1,2,3", "32", CONVOY_DATA="/data")
        self.assertEqual(done.returncode, 0, done.stderr)
        log = "../logs/benchmark_log/cnns/resnet50_1node_bz32/1n4c_real.log"
        self.assertEqual(done.stdout.splitlines()[:3], ["Use gpus: 0,1,2,3", "Batch size : 32", "Learning rate: 0.128"])
        self.assertEqual(done.stdout.splitlines()[-1], f"Writting log to {log}")
        self.assertRegex(done.stdout, r"mpirun .*-H localhost:4 -np 4 ")
        (call,) = self.calls()
        recipe = f"{self.dir}/root/input/recipes/tests/resnet50.cfg"
        for words in (f"train --config {recipe}", "--model resnet50", "--data /data", "--batch-size 128", "--lr 0.128",
                      "--log-format imagenet", "--device cuda --devices 0,1,2,3"):  # fmt: skip
            self.assertRegex(call, rf"(^| ){re.escape(words)}( |$)")
        with open(f"{self.dir}/here/{log}") as f:
            self.assertIn("Epoch: [0][0/10]\n", f.read())

    def test_a_link_to_an_earlier_run_is_not_followed(self):
        """Another user's link, where ../logs is in a folder of many people."""
        path = f"{self.dir}/logs/benchmark_log/cnns/resnet50_1node_bz32/1n1c_real"
        while path != self.dir:
            mine = f"{self.dir}/mine"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.makedirs(mine)
            os.symlink(mine, path)
            done = self.run_script("resnet50", "0", "32", CONVOY_DATA="/data")
            self.assertEqual(
                (done.returncode, os.path.exists(f"{self.dir}/calls"), os.listdir(mine)), (2, False, []), path
            )
            self.assertRegex(done.stderr, "is a link; name the folder itself: CONVOY_LOGS=FOLDER")
            os.remove(path)
            os.rmdir(mine)
            path = os.path.dirname(path)
            os.rmdir(path) if path != self.dir else None

    def test_a_link_that_appears_at_the_last_moment_is_not_followed(self):
        mine = f"{self.dir}/mine"
        os.makedirs(mine)
        os.makedirs(f"{self.dir}/logs")
        self.stub("bin/mkdir", f'ln -s {mine} {self.dir}/logs/benchmark_log; exec /bin/mkdir "$@"')
        done = self.run_script("resnet50", "0", "32", CONVOY_DATA="/data", CONVOY_LOGS=f"{self.dir}/logs")
        self.assertEqual((done.returncode, os.path.exists(f"{self.dir}/calls")), (2, False), done.stderr)
        self.assertRegex(done.stderr, "benchmark_log is a link; name the folder itself")

    @unittest.skipIf(os.geteuid() != 0, "only root can give a folder to another user")
    def test_the_folder_of_another_user_is_refused(self):
        """Its owner can put a link there at any time."""
        path = f"{self.dir}/logs/benchmark_log/cnns/resnet50_1node_bz32/1n1c_real"
        os.makedirs(path)
        for more in ({}, {"CONVOY_LOGS": f"{self.dir}/logs"}):
            theirs = path
            while theirs != self.dir:
                os.chown(theirs, 12345, 12345)
                done = self.run_script("resnet50", "0", "32", CONVOY_DATA="/data", **more)
                os.chown(theirs, 0, 0)
                named = "CONVOY_LOGS" in more and theirs == f"{self.dir}/logs"
                self.assertEqual(done.returncode, 0 if named else 2, (theirs, done.stderr))
                self.assertEqual(
                    "or belongs to another user; choose another folder: CONVOY_LOGS=FOLDER" in done.stderr, not named
                )
                theirs = os.path.dirname(theirs)

    def test_mpirun_asks_no_display(self):
        self.stub("bin/mpirun", 'echo "components: $HWLOC_COMPONENTS."')
        for value, told in ((None, "-gl"), ("x86", "x86"), ("", "")):
            more = {} if value is None else {"HWLOC_COMPONENTS": value}
            self.assertIn(
                f"components: {told}.\n", self.run_script("resnet50", "0", "32", CONVOY_DATA="/data", **more).stdout
            )

    def test_by_default_resnet50_on_gpu_0_with_128_made_up_images(self):
        done = self.run_script(CONVOY_LOGS=f"{self.dir}/logs", CONVOY_IMAGES="256")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[:3], ["Use gpus: 0", "Batch size : 128", "Learning rate: 0.128"])
        self.assertIn("Data: synthetic, 256 made-up images of 224x224x3", done.stderr)
        self.assertTrue(os.path.exists(f"{self.dir}/logs/benchmark_log/cnns/resnet50_1node_bz128/1n1c_real.log"))
        convert, train = self.calls()
        self.assertRegex(convert, r"^convert synthetic --images 256 .*--size 224x224x3 --classes 1000")
        self.assertIn(f"--data {self.dir}/root/input/synthetic-imagenet-256 ", train)
        self.run_script(CONVOY_LOGS=f"{self.dir}/logs", CONVOY_IMAGES="256")
        self.assertEqual(len(self.calls()), 3, "the images are made once")

    def test_folders_and_options_with_blanks_and_quotes(self):
        odd = f"{self.dir}/it's an odd $folder: é"
        os.rename(f"{self.dir}/root", odd)
        self.stub("bin/mpirun", 'while [[ $1 != */convoy ]]; do shift; done; exec "$@"')
        self.stub(f"{os.path.basename(odd)}/build/convoy", f'printf "%s\\n" "$@" >{self.dir}/words; echo done')
        done = self.started(
            [f"{odd}/jobs/train.sh"],
            CONVOY_DATA=f"{odd}/my data",
            CONVOY_LOGS=f"{odd}/lo gs",
            CONVOY_ARGS="--log-dir 'a b' --init-from * '$x'",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        given = lines_of(f"{self.dir}/words")
        self.assertEqual(given[:3], ["train", "--config", f"{odd}/input/recipes/tests/resnet50.cfg"])
        self.assertEqual(given[given.index("--data") + 1], f"{odd}/my data")
        self.assertEqual(
            given[given.index("--output") + 1], f"{odd}/lo gs/benchmark_log/cnns/resnet50_1node_bz128/1n1c_real"
        )
        self.assertEqual(given[-5:], ["--log-dir", "a b", "--init-from", "*", "$x"])
        self.assertEqual(lines_of(given[given.index("--output") + 1] + ".log"), ["done"])

    def test_a_command_of_several_words(self):
        self.stub("bin/in-a-container", 'echo "container: $*"')
        self.stub("bin/mpirun", 'while [[ $1 != in-* ]]; do shift; done; exec "$@"')
        done = self.run_script(CONVOY_DATA="/data", CONVOY_COMMAND="in-a-container exec convoy.sif convoy")
        self.assertIn("container: exec convoy.sif convoy train --config", done.stdout)

    def test_numbers_of_two_digits_count_as_one_gpu(self):
        done = self.run_script("resnet18", "8,10,11", "64", CONVOY_DATA="/data")
        self.assertIn("1n3c_real.log", done.stdout)
        self.assertIn("--batch-size 192 ", self.calls()[0])

    def test_the_exit_code_is_the_trainings(self):
        self.stub("root/build/convoy", "exit 7")
        self.assertEqual(self.run_script("resnet50", "0", "160", CONVOY_DATA="/data").returncode, 7)

    def test_mistakes_are_one_line(self):
        for arguments, word in (
            (("resnet50", "0;1"), "GPUS '0;1'"),
            (("resnet50", ""), "Use gpus"),
            (("resnet50", "0", "many"), "BATCH 'many'"),
            (("resnet50", "0", "1", "quote"), "has a quote that does not end"),
        ):
            done = self.run_script(
                *arguments[:3], CONVOY_DATA="/data", CONVOY_ARGS="--log-dir 'a" if "quote" in arguments else ""
            )
            if word == "Use gpus":  # an empty word is skipped, as in the original script
                self.assertEqual(done.returncode, 0)
                continue
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(word, done.stderr)


class Container(Stubs):
    def setUp(self):
        super().setUp()
        self.stub("bin/convoy", f'[[ $1 != help ]] || {{ printf %s "{HELP}"; exit; }}; echo "convoy: $*"; exit 3')
        self.stub("bin/convert", 'echo "the other convert"')
        self.stub("bin/other", 'echo "other: $*"')

    def test_the_image_starts_it(self):
        with open(f"{ROOT}/jobs/container/Dockerfile") as f:
            text = f.read()
        (copy,) = re.findall(r"^COPY \. (\S+)$", text, re.M)
        (entry,) = re.findall(r'^ENTRYPOINT \["(\S+)"\]$', text, re.M)
        self.assertEqual(entry.replace(copy, ROOT), ENTRY)
        self.assertTrue(os.access(ENTRY, os.X_OK))

    def test_apptainers_image_has_nothing_of_the_user(self):
        """Runs the lines of convoy.def that remove files, in a folder with files of a user."""
        own = [
            ".git/config",
            "jobs/site/mine.env",
            "jobs/adhoc/hostfile",
            "output/run/metrics.h5",
            "output/convoy-7.log",
            "output/a.json",
            "output/a.csv",
            "input/private/manifest.json",
            "input/list.txt",
            "input/private.partial/x",
            "output/sweep/lr-1/model.h5",
            "tests/jobs/__pycache__/x.pyc",
        ]
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("git does not list the files of this checkout")
        tracked = listed.stdout.split()
        self.assertGreater(len(tracked), 500)
        for name in tracked + own:
            self.stub(f"here/{name}", "")
        removing = [
            line.strip() for line in lines_of(f"{ROOT}/jobs/container/convoy.def") if re.match(r" +(rm|find) ", line)
        ]
        self.assertEqual(self.started(["bash", "-ec", "\n".join(removing)]).returncode, 0)
        found = [
            os.path.relpath(f"{folder}/{name}", f"{self.dir}/here")
            for folder, _, names in os.walk(f"{self.dir}/here")
            for name in names
        ]
        self.assertEqual(sorted(found), sorted(tracked))

    def test_commands_and_programs(self):
        for words, printed in (
            ("train --epochs 1", "convoy: train --epochs 1"),
            ("convert mnist", "convoy: convert mnist"),
            ("--version", "convoy: --version"),
            ("version", "convoy: version"),
            ("zebra", "convoy: zebra"),
            ("other -np 2", "other: -np 2"),
        ):
            done = self.started([ENTRY, *words.split()])
            self.assertEqual(done.stdout, printed + "\n", done.stderr)
            self.assertEqual(done.returncode, 3 if printed.startswith("convoy") else 0)

    def stays_up(self, terminal):
        """Returns true if it still runs after a second, and ends soon after a TERM; at a terminal, after `exit`."""
        master, slave = os.openpty() if terminal else (None, subprocess.DEVNULL)
        container = subprocess.Popen(
            [ENTRY],
            env=self.environment(),
            stdin=slave,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(1)
        up = container.poll() is None
        if terminal:
            os.write(master, b"exit\n")
        else:
            container.send_signal(signal.SIGTERM)
        container.wait(timeout=10)
        for descriptor in (master, slave) if terminal else ():
            os.close(descriptor)
        try:
            os.killpg(container.pid, signal.SIGKILL)  # its sleep
        except ProcessLookupError:
            pass
        return up

    def test_without_a_command_it_stays_up(self):
        self.assertTrue(self.stays_up(terminal=False), "as docker run -d starts it")
        self.assertTrue(self.stays_up(terminal=True), "as docker run -itd starts it")


if __name__ == "__main__":
    unittest.main()
