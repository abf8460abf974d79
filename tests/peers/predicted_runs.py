"""What convoy predict says of the published runs in output/published.

A `Row` is a run; a `Case` is a row that was predicted from others of its family.
"""

import csv, json, os, subprocess
from collections import namedtuple

BACKWARD = 2 / 3  # share of a step
# `rate` in images/s; for an all-reduce its time in microseconds.
Row = namedtuple("Row", "family nodes ranks batch rate round release gradient_bytes")
# `known`: what convoy predict reports as known of the machines; `printed`: the error, in percent,
# that it reports for such predictions.
Case = namedtuple("Case", "family given row predicted null known printed", defaults=["", None])


class Failed(Exception):
    """The reason why there is no figure, in one line."""


def run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"{command[0]}: exit code {done.returncode}"])[-1])
    return done.stdout


def records(path):
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def rows_by_family(path, ranks, batch, by_release=False):
    """Returns {family: [Row]}. `ranks` and `batch` name these columns. With `by_release`: {(family,
    release): [Row]}."""
    families = {}
    for r in records(path):
        row = Row(
            r["family"],
            int(r["nodes"]),
            int(r[ranks]),
            int(r[batch]),
            float(r["images_per_s"]),
            r.get("round", ""),
            r.get("release", ""),
            int(r.get("gradient_bytes", 2)),
        )
        same = families.setdefault((row.family, row.release) if by_release else row.family, {})
        before = same.get((row.ranks, row.batch))
        if before is None or before.round <= row.round:
            same[row.ranks, row.batch] = row
    return {family: sorted(rows.values(), key=lambda r: (r.ranks, -r.batch)) for family, rows in families.items()}


class Predictor:
    """Runs convoy predict on tables and cluster files that it writes into `folder`."""

    def __init__(self, convoy, folder):
        self.convoy, self.folder = convoy, folder

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    def write_cluster(self, keys):
        return self.write("machines.cluster", [f"{key} = {value}" for key, value in keys.items()])

    def cells(self, machines, given, row, ranks):
        """Returns what convoy predict prints for `ranks`, at the row's batch: {ranks: cell}."""
        table = ["nodes,ranks,batch_per_rank,images_per_s"]
        table += [f"{r.nodes},{r.ranks},{r.batch},{r.rate}" for r in given]
        said = run(
            [self.convoy, "predict", "--model", "resnet50", "--format", "json"]
            + ["--from", self.write("given.csv", table), "--cluster", self.write_cluster(machines)]
            + ["--batch-per-rank", str(row.batch), "--ranks", ",".join(map(str, ranks))]
            + ["--gradient-bytes", str(row.gradient_bytes)]
        )
        return {c["ranks"]: c for c in json.loads(said)}

    def case(self, machines, given, row):
        cell = self.cells(machines, given, row, [row.ranks])[row.ranks]
        smallest = min(given, key=lambda r: (r.ranks, -r.batch))
        null = smallest.rate / smallest.ranks * row.ranks
        printed = None if cell["error_p90"] is None else 100 * cell["error_p90"]
        return Case(row.family, given, row, row.batch * row.ranks / cell["step_seconds"], null, cell["known"], printed)
