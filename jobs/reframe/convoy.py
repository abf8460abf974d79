"""Convoy as tests of ReFrame. ConvoyAccept says whether the cluster is right. ConvoyBench and ConvoyCommTest
compare images/s and the bandwidth of all-reduces with what `convoy predict --as reframe` expects; $CONVOY_REFERENCES
names its files, separated by colons. README.md in this folder says how to run them."""

import json
import os
import re
import stat

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_after, sanity_function, variable

HERE = os.path.dirname(os.path.abspath(__file__))
CONVOY = os.path.abspath(os.environ.get("CONVOY", f"{HERE}/../../build/convoy"))
# ReFrame writes the words of a cell into a shell script as they are. People hand references to each
# other, so a word may only have these characters, and an option must be one that `convoy predict`
# writes. No such option names a file.
WORD = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9._-]*")
# ReFrame's names of a system and of its partitions; no space, no line end and no control character.
SYSTEM = re.compile(r"(\*|\w[-.\w]*)(:(\*|\w[-.\w]*))?")
OPTIONS = "--model --batch-per-rank --image-size --classes --precision --bf16-gradients --bucket-mib --bytes".split()


def check_cell(cell, path):
    """Raises ValueError for a cell that `convoy predict --as reframe` does not write."""

    def require(good, key):
        if not good:
            raise ValueError(f"{path}: '{key}' of a cell is not as convoy predict --as reframe writes it")

    require(cell.get("device") in ("cpu", "cuda"), "device")
    for key in ("ranks", "ranks_per_node"):
        require(type(cell.get(key)) is int and cell[key] > 0, key)
    require(SYSTEM.fullmatch(cell["system"]), "system")
    require(WORD.fullmatch(cell["model"]), "model")
    for command, unit in (("bench", "images/s"), ("comm-test", "GB/s")):
        if command not in cell:
            continue
        for word in cell[command]["options"]:
            require(WORD.fullmatch(word) and (word[0] != "-" or word in OPTIONS), command)
        numbers, last = cell[command]["reference"][:-1], cell[command]["reference"][-1:]
        require(len(numbers) == 3 and last == [unit] and type(numbers[0]) in (int, float), command)
        require(all(limit is None or type(limit) in (int, float) for limit in numbers[1:]), command)


def text_of(path):
    """Reads no pipe, which it would wait for, and no more than references of a large cluster have."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path}: is not a regular file")
        text = file.read((1 << 20) + 1)
    if len(text) > 1 << 20:
        raise ValueError(f"{path}: is longer than 1 MiB")
    return text.decode()


def read_cells():
    paths = os.environ.get("CONVOY_REFERENCES")
    if not paths:
        raise ValueError("CONVOY_REFERENCES names no file: write one with convoy predict --as reframe")
    cells = []
    for path in paths.split(":"):
        text = text_of(path)
        try:
            more = json.loads(text)
            for cell in more:
                check_cell(cell, path)
        except (AttributeError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path}: is not as convoy predict --as reframe writes it") from None
        cells += more
    return cells


CELLS = read_cells()
# The largest cell of each system:partition, which usually is all of it.
WHOLE = list({cell["system"]: cell for cell in sorted(CELLS, key=lambda cell: cell["ranks"])}.values())


def name_of(cell):
    return f"{cell['system']}_{cell['model']}_{cell['ranks']}"


class Convoy(rfm.RunOnlyRegressionTest):
    """What the tests share; each has a parameter `cell` of CELLS."""

    valid_prog_environs = ["*"]
    executable = CONVOY
    time_limit = "30m"

    @run_after("init")
    def place(self):
        self.valid_systems = [self.cell["system"]]
        self.num_tasks, self.num_tasks_per_node = self.cell["ranks"], self.cell["ranks_per_node"]

    def call(self, command, *options):
        self.executable_opts = [command, "--device", self.cell["device"], *options]

    def expect(self, command, name, *options):
        """Calls a command with the options of the cell, and takes its reference from there."""
        expected = self.cell[command]
        self.call(command, *expected["options"], *options)
        self.reference = {self.cell["system"]: {name: tuple(expected["reference"])}}


@rfm.simple_test
class ConvoyAccept(Convoy):
    """Fails if the verdict is FAIL. Its report is in the output folder of the test, as accept/accept.json."""

    cell = parameter(WHOLE, fmt=name_of)
    level = variable(str, value="standard")
    keep_files = ["accept"]

    @run_after("init")
    def choose_level(self):
        self.call("accept", "--level", self.level, "--output", "accept")

    @sanity_function
    def accepted(self):
        return sn.assert_found(r"^verdict: (PASS|WARN)$", self.stdout, "convoy accept has not accepted the cluster")


@rfm.simple_test
class ConvoyBench(Convoy):
    """Measures training steps of the model that the cell names, on made-up images."""

    cell = parameter(CELLS, fmt=name_of)
    steps = variable(int, value=100)

    @run_after("init")
    def choose_steps(self):
        self.expect("bench", "images_per_s", "--steps", str(self.steps), "--profile-steps", "0")

    @sanity_function
    def has_result(self):
        return sn.assert_found(r'^\{"bench":', self.stdout)

    @performance_function("images/s")
    def images_per_s(self):
        return sn.extractsingle(r'"images_per_second":\{"median":([^,]+)', self.stdout, 1, float)


@rfm.simple_test
class ConvoyCommTest(Convoy):
    """Checks and measures all-reduces of the size that the cell names."""

    cell = parameter([cell for cell in CELLS if "comm-test" in cell], fmt=name_of)

    @run_after("init")
    def choose_format(self):
        self.expect("comm-test", "bus_bandwidth", "--log-format", "nccl-tests")

    @sanity_function
    def sums_are_right(self):
        return sn.assert_found(r"^# Out of bounds values : 0 OK$", self.stdout)

    @performance_function("GB/s")
    def bus_bandwidth(self):
        return sn.extractsingle(r"^# Avg bus bandwidth +: (\S+)", self.stdout, 1, float)
