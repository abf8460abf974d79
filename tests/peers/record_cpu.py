#!/usr/bin/env python3
"""The airbench94 recipe on the full CIFAR-10: seconds from mpirun to test accuracy, by seed, as a
Markdown table.

record_cpu.py [--convoy FILE] [--data PATH] [--seeds "1 2 3"] [--ranks 1] [--precision bf16] [--epochs E] [--output DIR]

--data is a data set of Convoy's, or what `convoy convert cifar10` takes: the official archive, or
its unpacked folder. Without it: what `make data` left in input/cifar10, else what
../shared/data/cifar10/unpack.py writes, if there is such a file beside the checkout. The ranks
share all cores. Accuracy is that of the recipe, by six views of each image; the one by the image
alone is measured afterwards, off the clock. The runs stay in --output.
"""

import argparse, os, re, signal, statistics, sys, tempfile, time

try:
    import h5py
except ImportError as missing:
    sys.exit(
        f"record_cpu: {sys.executable} has no {missing.name}; use /usr/bin/python3, which make deps fills, or {sys.executable} -m pip install "
        "-r src/plot/requirements.txt"
    )

from bench_peers import Failed, convoy_versions, machine, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from shared_data import shared_data  # noqa: E402


def is_data_set(path):
    return os.path.exists(os.path.join(path, "manifest.json"))


def data_set(a, folder):
    """Returns the folder of the shards; makes them in `folder` if there are none yet."""
    shipped = os.path.join(ROOT, "input", "cifar10")
    source = a.data
    if source and not os.path.exists(source):
        raise Failed(f"{source}: no such file or folder")
    if not source and is_data_set(shipped):
        source = shipped
    unpack = shared_data("cifar10", "unpack.py")
    if not source and unpack:
        run([sys.executable, unpack, folder], 300)
        source = os.path.join(folder, "cifar-10-batches-bin")
    if not source:
        raise Failed(
            "there is no CIFAR-10 here; make data fetches it, or give its archive or folder: make record-cpu DATA=path"
        )
    if is_data_set(source):
        return source
    shards = os.path.join(folder, "shards")
    run([a.convoy, "convert", "cifar10", "--from", source, "--to", shards], 300)
    return shards


def train(a, data, seed):
    """Runs one training. Returns a dict of the values in its row."""
    out = os.path.join(a.output, f"seed-{seed}")
    print(f"seed {seed}: tail -f {out}/metrics.jsonl shows how far it is", file=sys.stderr)
    started, clock = time.time(), time.perf_counter()
    recipe = os.path.join(ROOT, "input/recipes/airbench94.cfg")
    launch = f"mpirun -n {a.ranks} --bind-to none".split()
    options = f"--device cpu --precision {a.precision} --seed {seed} --overwrite".split()
    epochs = ["--epochs", a.epochs] if a.epochs else []
    run([*launch, a.convoy, "train", "--config", recipe, "--data", data, "--output", out, *options, *epochs], None)
    seconds = time.perf_counter() - clock
    model = os.path.join(out, "model.h5")
    said = run([a.convoy, "evaluate", "--model-file", model, "--data", data, *"--device cpu --tta none".split()], 600)
    alone = re.search(r"accuracy ([\d.]+)", said)
    if not alone:
        raise Failed("convoy evaluate printed no accuracy")
    with h5py.File(os.path.join(out, "metrics.h5"), "r") as file:
        epochs = {name: sum(file["epochs"][name][()]) for name in ("seconds", "images")}
        return {
            "seconds": seconds,
            "first step": file["events/time"][0] - started,  # the event "start" is written right before it
            "steps": file["train/step"][-1],
            "training": epochs["seconds"],
            "evaluation": file["eval/seconds"][-1],
            "images/s": epochs["images"] / epochs["seconds"],
            "accuracy": 100 * file["eval/accuracy"][-1],
            "one view": float(alone.group(1)),
        }


# title, key of a training, digits
COLUMNS = [
    ("seconds from mpirun to accuracy", "seconds", 1),
    ("first step after (s)", "first step", 2),
    ("steps", "steps", 0),
    ("their seconds", "training", 1),
    ("evaluation (s)", "evaluation", 1),
    ("images/s", "images/s", 0),
    ("test accuracy (%)", "accuracy", 2),
    ("by one view (%)", "one view", 2),
]


def row(name, cells):
    print("|", " | ".join([name, *cells]), "|", flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    (
        p.add_argument("--convoy", default="build/convoy"),
        p.add_argument("--data", default=""),
        p.add_argument("--seeds", default="1 2 3"),
    )
    (
        p.add_argument("--ranks", type=int, default=1),
        p.add_argument("--precision", default="bf16"),
        p.add_argument("--epochs", default=""),
    )
    p.add_argument("--output", default=os.path.join("output", "record-cpu"))
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through the clean-up in run()
    with tempfile.TemporaryDirectory() as folder:
        data = data_set(a, folder)
        print(
            f"{machine()}; {convoy_versions(a.convoy)}\nairbench94 on {a.data or 'CIFAR-10'}{', ' + a.epochs + ' epochs' if a.epochs else ''}: "
            f"{a.ranks} rank{'s' if a.ranks > 1 else ''} on {len(os.sched_getaffinity(0))} cores, {a.precision}\n",
            flush=True,
        )
        row("seed", [title for title, _, _ in COLUMNS])
        print("|---" * (1 + len(COLUMNS)) + "|")
        runs = []
        for seed in a.seeds.split():
            runs.append(train(a, data, seed))
            row(seed, [f"{runs[-1][key]:,.{digits}f}" for _, key, digits in COLUMNS])
    if len(runs) > 1:
        values = [(digits, [r[key] for r in runs]) for _, key, digits in COLUMNS]
        row(
            "mean ± standard deviation",
            [f"{statistics.mean(v):,.{d}f} ± {statistics.stdev(v):,.{d}f}" for d, v in values],
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (Failed, OSError, KeyError) as error:
        sys.exit(f"record_cpu: {error}")
