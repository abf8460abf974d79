"""Shared by tests of the scripts' output: scripts in a separate folder, with stubs for the programs they call."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOBS = os.path.join(ROOT, "jobs")


def lines_of(path):
    with open(path) as f:
        return f.read().splitlines()


class Words(unittest.TestCase):
    """A folder with the job scripts, and stand-ins for other programs."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="convoy-words-")
        self.addCleanup(shutil.rmtree, self.dir)
        shutil.copytree(JOBS, f"{self.dir}/jobs", ignore=shutil.ignore_patterns("*.env", "hostfile"))
        os.makedirs(f"{self.dir}/data")
        open(f"{self.dir}/data/manifest.json", "w").close()
        self.stub("build/convoy", 'echo "$@"')

    def stub(self, name, body):
        path = f"{self.dir}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(f"#!/bin/bash\n{body}\n")
        os.chmod(path, 0o755)

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w") as f:
            f.write(text)

    def site(self, name, text):
        with open(f"{self.dir}/jobs/site/{name}.env", "w") as f:
            f.write(text + "\n")

    def bash(self, command, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PBS_", "CONVOY_", "SBATCH_"))}
        clean.update(environment, PATH=f"{self.dir}/bin:{clean['PATH']}")
        done = subprocess.run(["bash", "-c", command], cwd=self.dir, env=clean, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def refused(self, words, command, **environment):
        code, _, err = self.bash(command, **environment)
        self.assertEqual(code, 2, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn(words, err)

    def trained(self, arguments, before="", **environment):
        """Returns the words after `convoy train`, from a launch on this machine alone."""
        code, out, err = self.bash(f"source jobs/common.sh; launch=(env); {before} train_on auto {arguments}", **environment)
        self.assertEqual(code, 0, err)
        return out.splitlines()[-1]
