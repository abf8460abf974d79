#!/usr/bin/env python3
"""How far `convoy predict` is from published measurements that it was not given, as Markdown tables.

validate_predict.py [--convoy FILE] [--sum-times FILE] [--published DIR] [--rows]

DLPerf: each family's 8 GPUs from 1 (one node); 16 and 32 from 1 and 8 (no run on several nodes is
  given); 32 from 1, 8 and 16 (one is given).
MLPerf: all of a family from two of its rows. Which two decides how far the line through them is
  drawn out, so there are three ways:
  extremes      the largest and the smallest batch: nothing is drawn out
  next batch    the fewest GPUs with their largest batch, and the next row with another batch; a half
                of the batch may stand for an eighth, and one release of the software for the next: no
                bound
  one release   as next batch, of rows that ran the same release
Sums: all-reduces of 8 MiB and more, from constants, and from the other sizes of the same table.

The null model scales linearly from the smallest row that was given. Errors are |predicted / measured
- 1|, of images/s and of a sum's time; p90 is interpolated, as numpy does. "all" are the errors that
`convoy predict` prints: over both precisions, extremes and next batch. With --rows every prediction
is printed. Ends with 1 if an error is above its bound (BOUNDS), or is not what is printed. Of rows
that differ in nothing but MLPerf's round the latest is taken.
"""

import argparse, json, os, subprocess, sys, tempfile
from collections import namedtuple

from predicted_runs import BACKWARD, Case, Failed, Predictor, Row, records, rows_by_family, run

MIB = 1 << 20
# GB/s: NCCL's constant for 100 Gb/s (topo.h), and twice that for 200.
EDR, HDR = 12, 24
# nccl-tests' bus bandwidth inside a node: 8 V100, 8 A100 (nccl-allreduce.csv). A DGX-2H counts as 8
# V100, A100 without a switch as those with one. Four GPUs on PCIe 4 have no public sweep.
V100, A100, PCIE = 135, 232, 20


def cluster(nodes, gpus, gpu, node_bandwidth, adapters, adapter_bandwidth, cpu, link="nvlink"):
    return {
        "nodes": nodes,
        "gpus-per-node": gpus,
        "gpu": gpu,
        "link": link,
        "node-bandwidth": node_bandwidth,
        "adapters": adapters,
        "adapter-bandwidth": adapter_bandwidth,
        "cpu": cpu,
    }


DLPERF = cluster(4, 8, "volta", V100, 1, EDR, "intel")
MLPERF = {
    "NVIDIA DGX A100 80GB": cluster(128, 8, "ampere", A100, 8, HDR, "amd"),
    "NVIDIA DGX-2H V100": cluster(96, 16, "volta", V100, 8, EDR, "intel"),
    "Dell R750xa A100-PCIe 80GB, NGC 21.09": cluster(4, 4, "ampere", PCIE, 1, EDR, "intel", "pcie"),
    "Dell R750xa A100-PCIe 80GB, NGC 22.09": cluster(8, 4, "ampere", PCIE, 1, EDR, "intel", "pcie"),
    "HPE XL675d A100-SXM 80GB": cluster(8, 8, "ampere", A100, 4, HDR, "amd"),
    "Dell XE8545 A100-SXM 80GB": cluster(4, 4, "ampere", A100, 2, HDR, "amd"),
    "Dell XE8545 A100-SXM 40GB": cluster(16, 4, "ampere", A100, 2, HDR, "amd"),
}
# Clusters by the machine's name in nccl-allreduce.csv. Those that are not on NVLink or InfiniBand
# are printed, and have no bound.
SUMS = {
    "OCI BM.GPU3.8": (cluster(1, 8, "volta", V100, 1, EDR, "intel"), True),
    "OCI BM.GPU4.8": (cluster(1, 8, "ampere", A100, 1, EDR, "amd"), True),
    "AKS RDMA tests x2": (cluster(2, 8, "ampere", A100, 8, HDR, "amd"), True),
    "OCI BM.GPU4.8 x2": (cluster(2, 8, "ampere", A100, 16, EDR, "amd"), False),
    "AWS p4d x2": (cluster(2, 8, "ampere", A100, 4, EDR, "intel"), False),
    "dstack GCP A4 x2": (dict(cluster(2, 8, "blackwell", 680, 8, 48, "intel"), **{"switch-bandwidth": 840}), False),
}
# Bounds in percent by regime; for all-reduces only the median. `of_null`: relative to the null
# model's median.
Bound = namedtuple("Bound", "median p90 max of_null", defaults=(None, None, None))
BOUNDS = {
    "MLPerf, extremes": Bound(5, 12, 20),
    "MLPerf, one release": Bound(5, 12, 20),
    "DLPerf f32, several nodes, one given": Bound(4),
    "DLPerf AMP, several nodes, one given": Bound(8, of_null=0.5),
    "sums, from constants": Bound(15),
    "sums, from the table's other sizes": Bound(10),
}


def dlperf_cases(predictor, path):
    regimes = {}
    for family, rows in rows_by_family(path, "gpus", "batch_per_gpu").items():
        by_ranks = {r.ranks: r for r in rows}
        for regime, known, wanted in (
            ("one node", (1,), (8,)),
            ("several nodes, none given", (1, 8), (16, 32)),
            ("several nodes, one given", (1, 8, 16), (32,)),
        ):
            for n in wanted:
                if n in by_ranks and all(k in by_ranks for k in known):
                    case = predictor.case(DLPERF, [by_ranks[k] for k in known], by_ranks[n])
                    regimes.setdefault(f"DLPerf {kind_of(family)}, {regime}", []).append(case)
    return regimes


def compute_seconds(cell):
    return cell["compute_seconds"] + cell["fixed_seconds"] + cell["node_loss_seconds"]


def kind_of(family):
    return "f32" if ", f32," in family else "AMP"


def dlperf_factors(predictor, path):
    """Returns {factor: [value by family]}: h from 8 GPUs, kappa from 16. At kappa 1 the network had
    less than its bandwidth."""
    factors = {"h, all": []}
    for family, rows in rows_by_family(path, "gpus", "batch_per_gpu").items():
        given = [r for r in rows if r.ranks <= 16]
        cells = predictor.cells(DLPERF, given, rows[0], [1, 8, 16])
        loss = compute_seconds(cells[8]) / compute_seconds(cells[1]) - 1
        factors["h, all"].append(loss)
        factors.setdefault(f"h, {kind_of(family)}", []).append(loss)
        if given[-1].ranks == 16:
            most = min(cells[16]["sums_seconds"], compute_seconds(cells[16]) * BACKWARD)
            kappa = cells[16]["interference_seconds"] / most
            factors.setdefault(f"kappa, {kind_of(family)}", []).append(kappa)
    return dict(sorted(factors.items()))


def first_pair(rows):
    return rows[0], next(r for r in rows if r.batch != rows[0].batch)


def widest_pair(rows):
    return max(rows, key=lambda r: (r.batch, -r.ranks)), min(rows, key=lambda r: (r.batch, -r.ranks))


def mlperf_cases(predictor, path):
    regimes = {}
    columns = ("accelerators", "batch_per_accelerator")
    families = list(rows_by_family(path, *columns).values())
    releases = [rows for rows in rows_by_family(path, *columns, by_release=True).values() if len(rows) > 2]
    for regime, groups, pair_of in (
        ("MLPerf, extremes", families, widest_pair),
        ("MLPerf, next batch", families, first_pair),
        ("MLPerf, one release", releases, first_pair),
    ):
        for rows in groups:
            if len({r.batch for r in rows}) < 2:
                continue
            pair = pair_of(rows)
            for row in rows:
                if row not in pair:
                    regimes.setdefault(regime, []).append(predictor.case(MLPERF[row.family], list(pair), row))
    return regimes


def table_of_others(records_of_where, left_out, ranks_per_node):
    """Returns a table like comm-test --json's, without one size."""
    nodes = int(left_out["nodes"])
    sizes = [
        {"bytes": int(r["bytes"]), "seconds": float(r["time_us"]) * 1e-6} for r in records_of_where if r is not left_out
    ]
    of_world = {"ranks": nodes * ranks_per_node, "hosts": nodes, "ranks_per_host": ranks_per_node}
    return json.dumps({"all_reduce": {**of_world, "sizes": sizes}})


def sum_cases(predictor, sum_times, path):
    regimes = {}
    measured = {}
    for r in records(path):
        measured.setdefault(r["where"], []).append(r)
    for where, (machines, bounded) in SUMS.items():
        other = "" if bounded else ", other networks"
        for r in measured[where]:
            nodes, per_node = int(r["nodes"]), int(r["gpus"]) // int(r["nodes"])
            if int(r["bytes"]) < 8 * MIB:
                continue
            for regime, table in (("from constants", False), ("from the table's other sizes", True)):
                keys = dict(machines)
                if table and len(measured[where]) < 3:
                    continue
                if table:
                    predictor.write("sums.json", [table_of_others(measured[where], r, per_node)])
                    keys["all-reduce-table"] = "sums.json"
                said = run([sum_times, predictor.write_cluster(keys)], f"{nodes} {per_node} {r['bytes']}\n").split()
                size = f"{where}, {int(r['bytes']) // MIB} MiB, by {' '.join(said[1:])}"
                row = Row(size, nodes, int(r["gpus"]), 0, float(r["time_us"]), "", "", 4)
                case = Case(where, [], row, 1e6 * float(said[0]), None)
                regimes.setdefault(f"sums, {regime}{other}", []).append(case)
    return regimes


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def error(predicted, measured):
    """Returns the error in percent."""
    return 100 * (predicted / measured - 1)


def summary(cases, predicted):
    errors = [abs(error(predicted(c), c.row.rate)) for c in cases]
    return [quantile(errors, 0.5), quantile(errors, 0.9), max(errors)]


def missed(regime, cases):
    """Returns the errors above their bounds."""
    bound = BOUNDS.get(regime)
    if bound is None:
        return []
    of_model = summary(cases, lambda c: c.predicted)
    lines = [
        f"{regime}: {name} {value:.1f} % is above {limit} %"
        for name, value, limit in zip(("median", "p90", "max"), of_model, bound[:3])
        if limit is not None and value > limit
    ]
    if bound.of_null is not None:
        null = summary(cases, lambda c: c.null)[0]
        if of_model[0] > bound.of_null * null:
            lines.append(f"{regime}: median {of_model[0]:.1f} % is above {bound.of_null} of the null model's {null:.1f} %")
    return lines


def print_rows(regimes):
    print("| regime | family | given | wanted | measured | predicted | error | null |")
    print("|---|---|---|---|---:|---:|---:|---:|")
    for regime, cases in regimes.items():
        for c in cases:
            given = ", ".join(f"{r.ranks}×{r.batch}" for r in c.given)
            null = f"{error(c.null, c.row.rate):+.1f} %" if c.null else ""
            what = f"{c.row.ranks}×{c.row.batch}" if c.null else c.row.family
            print(
                f"| {regime} | {c.family} | {given} | {what} | {c.row.rate:,.1f} | {c.predicted:,.1f} "
                f"| {error(c.predicted, c.row.rate):+.1f} % | {null} |"
            )
    print()


def bound_text(bound):
    parts = [f"{n} {v}" for n, v in zip(("median", "p90", "max"), bound[:3]) if v is not None]
    return ", ".join(parts + ([f"{bound.of_null} of null's"] if bound.of_null else []))


def together(regimes):
    """Groups cases by what `convoy predict` reports as known, whatever the precision. A case of one
    release is also a next batch."""
    all_of = {}
    for regime, cases in regimes.items():
        for case in cases:
            if case.printed is not None and not regime.endswith("one release"):
                all_of.setdefault(f"all: {case.known}", []).append(case)
    return dict(sorted(all_of.items()))


def misprinted(regime, cases):
    """Returns why the error that convoy predict prints differs from the one here."""
    p90 = summary(cases, lambda c: c.predicted)[1]
    printed = {c.printed for c in cases}
    return [f"{regime}: convoy predict prints {p:.0f} %, but p90 is {p90:.1f} %" for p in printed if abs(p - p90) > 1]


def print_summary(regimes):
    print("| regime | rows | median | p90 | max | null: median | p90 | max | bounds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for regime, cases in regimes.items():
        figures = [f"{e:.1f} %" for e in summary(cases, lambda c: c.predicted)]
        has_null = all(c.null for c in cases)
        figures += [f"{e:.1f} %" for e in summary(cases, lambda c: c.null)] if has_null else ["", "", ""]
        bound = bound_text(BOUNDS[regime]) if regime in BOUNDS else ""
        print(f"| {regime} | {len(cases)} | {' | '.join(figures)} | {bound} |")


def print_factors(factors):
    print("\n| factor, DLPerf | families | median | 10 % | 90 % |\n|---|---:|---:|---:|---:|")
    for name, values in factors.items():
        low, middle, high = (quantile(values, q) for q in (0.1, 0.5, 0.9))
        print(f"| {name} | {len(values)} | {middle:.3f} | {low:.3f} | {high:.3f} |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--convoy", default="build/convoy")
    p.add_argument("--sum-times", default="build/convoy_sum_times", help="the program that models sums")
    p.add_argument("--published", default=f"{here}/../../output/published", help="where the measurements are")
    p.add_argument("--rows", action="store_true", help="print every prediction")
    a = p.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="convoy-predict-") as folder:
            predictor = Predictor(a.convoy, folder)
            regimes = dlperf_cases(predictor, f"{a.published}/dlperf-resnet50-v100.csv")
            factors = dlperf_factors(predictor, f"{a.published}/dlperf-resnet50-v100.csv")
            regimes |= mlperf_cases(predictor, f"{a.published}/mlperf-resnet50.csv")
            regimes |= sum_cases(predictor, a.sum_times, f"{a.published}/nccl-allreduce.csv")
    except (Failed, OSError, subprocess.TimeoutExpired) as wrong:
        sys.exit(f"validate_predict: {wrong}")
    if a.rows:
        print_rows(regimes)
    print_summary(dict(sorted(regimes.items())) | together(regimes))
    print_factors(factors)
    lines = [line for regime, cases in regimes.items() for line in missed(regime, cases)]
    lines += [line for regime, cases in together(regimes).items() for line in misprinted(regime, cases)]
    lines += [f"{regime}: no row" for regime in BOUNDS if regime not in regimes]
    for line in lines:
        print(f"missed: {line}")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
