#!/usr/bin/env python3
"""How far `convoy predict` is for CPU ranks of this machine, as a Markdown table.

predict_cpu.py [--convoy FILE] [--rounds 3] [--model resnet18] [--batch 16]

Sums over two ranks are measured first (comm-test --json). In each round one rank and then two run a
benchmark, a core each; the step of the one and the sums predict the two. The null model scales
linearly. Where a rank has no core of its own the model does not apply, so there are no more ranks
than cores.
"""

import argparse, json, os, statistics, sys, tempfile

from bench_peers import Failed, convoy_versions, machine, run

LIMIT = 600


def on_ranks(a, ranks, command):
    return run(["mpirun", "--bind-to", "none", "-n", str(ranks), a.convoy, *command.split()], LIMIT)


def cluster_of(a, folder):
    """Writes a cluster file of one node of two ranks, with their all-reduce times."""
    on_ranks(a, 2, f"comm-test --device cpu --bytes 64K..64M --json {folder}/sums.json")
    with open(f"{folder}/machine.cluster", "w") as file:
        # the table gives the bandwidth
        file.write("nodes = 1\ngpus-per-node = 2\nlink = pcie\nnode-bandwidth = 1\nall-reduce-table = sums.json\n")
    return file.name


def bench(a, ranks):
    where = "--device cpu --threads 1 --warmup 2 --steps 8 --profile-steps 0"
    return on_ranks(a, ranks, f"bench --model {a.model} --batch-per-rank {a.batch} {where}").splitlines()[-1]


def predicted(a, cluster, one, folder):
    with open(f"{folder}/one.json", "w") as file:
        file.write(one + "\n")
    size = json.loads(one)
    said = run(
        [a.convoy, "predict", "--model", a.model, "--batch-per-rank", str(a.batch), "--cluster", cluster]
        + ["--image-size", size["image_size"], "--classes", str(size["classes"])]
        + ["--from", file.name, "--ranks", "2", "--format", "json"],
        LIMIT,
    )
    return json.loads(said)[0]["samples_per_second"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--convoy", default="build/convoy")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--model", default="resnet18")
    p.add_argument("--batch", type=int, default=16)
    a = p.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("predict_cpu: two ranks take two cores, and here is one")
    rate = lambda line: json.loads(line)["images_per_second"]["median"]
    errors = {"predicted": [], "null": []}
    try:
        print(f"{machine()}; {convoy_versions(a.convoy)}; {a.model}, batch {a.batch} a rank\n")
        print("| one rank, images/s | two, measured | predicted | error | null |\n|---:|---:|---:|---:|---:|")
        with tempfile.TemporaryDirectory(prefix="convoy-predict-") as folder:
            cluster = cluster_of(a, folder)
            for _ in range(a.rounds):
                one, two = bench(a, 1), rate(bench(a, 2))
                wanted = predicted(a, cluster, one, folder)
                errors["predicted"].append(100 * (wanted / two - 1))
                errors["null"].append(100 * (2 * rate(one) / two - 1))
                print(f"| {rate(one):.1f} | {two:.1f} | {wanted:.1f} | " + " | ".join(f"{e[-1]:+.1f} %" for e in errors.values()) + " |")
    except (Failed, OSError) as wrong:
        sys.exit(f"predict_cpu: {wrong}")
    print("\nmedian: " + ", ".join(f"{name} {statistics.median(map(abs, e)):.1f} %" for name, e in errors.items()))


if __name__ == "__main__":
    main()
