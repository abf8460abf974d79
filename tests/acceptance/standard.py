"""What the rows of acceptance.py have in common: programs, data sets, runs."""

import datetime
import os
import re
import subprocess
import sys

import h5py

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from shared_data import shared_data  # noqa: E402


class Failed(Exception):
    """Why there is no result, in one line."""


class Skipped(Exception):
    """What is not here."""


class Context:
    """--convoy, the data sets, and the folder that runs are left in."""

    def __init__(self, a):
        self.convoy, self.output = os.path.abspath(a.convoy), os.path.abspath(a.output)
        self._given = {"mnist": a.mnist, "cifar10": a.cifar10}
        self._data = {}
        os.makedirs(self.output, exist_ok=True)

    def data(self, kind):
        """The folder of the data set "mnist" or "cifar10"; made from what is there."""
        if kind not in self._data:
            self._data[kind] = self._find(kind)
        return self._data[kind]

    def made_up(self, options):
        """A synthetic data set."""
        folder = os.path.join(self.output, re.sub(r"\W+", "-", "data" + options))
        if not os.path.exists(folder):
            self.run(1, f"convert synthetic {options} --to {folder}")
        return folder

    def run(self, ranks, arguments, limit=7200):
        """What `convoy ARGUMENTS` on so many ranks printed on stdout."""
        command = [self.convoy, *arguments.split()]
        if ranks > 1:
            command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
        return self.command(command, limit)

    def command(self, command, limit=7200, **environment):
        settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        settings |= {"OMPI_MCA_mpi_yield_when_idle": "1"} | environment
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=os.environ | settings
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {limit} s") from None
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith("convoy:")]
            raise Failed(said[0] if said else f"exit {done.returncode}: {' '.join(command)}")
        return done.stdout

    def train(self, name, ranks, recipe, data, more=""):
        """Runs a recipe of input/recipes/tests; its run folder and what it printed."""
        folder = os.path.join(self.output, name)
        recipe = os.path.join("input", "recipes", "tests", recipe + ".cfg")
        said = self.run(ranks, f"train --config {recipe} --data {data} --output {folder} --overwrite --device cpu {more}")
        return folder, said

    def _find(self, kind):
        given, shipped = self._given[kind], os.path.join(ROOT, "input", kind)
        source = given or (shipped if is_data_set(shipped) else self._shared(kind))
        if not source:
            raise Skipped(f"no {kind} here: make data, or --{kind} PATH")
        if is_data_set(source):
            return source
        folder = os.path.join(self.output, "data-" + kind)
        if not is_data_set(folder):
            self.run(1, f"convert {kind} --from {source} --to {folder}")
        return folder

    def _shared(self, kind):
        if kind == "mnist":
            return shared_data(kind)
        unpack = shared_data(kind, "unpack.py")
        if not unpack:
            return ""
        raw = os.path.join(self.output, "raw-" + kind)
        try:
            self.command([sys.executable, unpack, raw])
        except Failed:
            raise Skipped(f"{os.path.dirname(unpack)} cannot be unpacked (python3-pil?)") from None
        return os.path.join(raw, "cifar-10-batches-bin")


def is_data_set(path):
    return os.path.exists(os.path.join(path, "manifest.json"))


def column(folder, name):
    """A column of a run's metrics, as in "train/loss"."""
    with h5py.File(os.path.join(folder, "metrics.h5"), "r") as metrics:
        return metrics[name][:]


def model(folder):
    """The tensors of a trained model: bytes by name."""
    with h5py.File(os.path.join(folder, "model.h5"), "r") as trained:
        return {name: tensor[:].tobytes() for name, tensor in trained["tensors"].items()}


def machine(convoy):
    """Where and of what the rows were measured."""
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    said = subprocess.run([convoy, "--version"], capture_output=True, text=True).stdout.strip()
    name = model[1] if model else "unknown processor"
    return f"{said}; {name}, {os.cpu_count()} cores; {datetime.date.today()}."
