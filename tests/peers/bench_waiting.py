#!/usr/bin/env python3
"""Images/s with OpenMP's threads spinning briefly (Convoy's default) and as GNU OpenMP does by
itself, taking turns: alone, and beside one busy process a core. Prints a table, whose
rows are in tests/results/waiting.csv; a ratio is the median of the rounds' ratios."""

import argparse
import json
import os
import statistics
import subprocess
import time

OWN = "300000"  # GNU OpenMP's default number of spins if there are no more threads than cores
LINES = [("mnist-conv", 1024, 60), ("resnet18", 8, 8), ("airbench94", 64, 12)]  # model, batch of all ranks, steps


def images_per_second(a, turns, model, batch, steps, ranks, threads):
    command = f"{a.convoy} bench --model {model} --batch-size {batch} --threads {threads} --warmup 3 --steps {steps} --profile-steps 0"
    if ranks > 1:
        command = f"mpirun --oversubscribe --bind-to none -np {ranks} {command}"
    env = dict(os.environ, GOMP_SPINCOUNT=turns)
    out = subprocess.run(command.split(), env=env, capture_output=True, text=True, check=True).stdout
    return json.loads(out.strip().splitlines()[-1])["images_per_second"]["wall"]


def measure(a, busy, *line):
    """Returns rates for each number of spins, [round]; the order changes from round to round."""
    rates = {turns: [] for turns in (OWN, a.turns)}
    neighbours = [subprocess.Popen(["yes"], stdout=subprocess.DEVNULL) for _ in range(os.cpu_count() if busy else 0)]
    try:
        for i in range(a.rounds):
            for turns in sorted(rates, reverse=i % 2 == 0):
                rates[turns].append(images_per_second(a, turns, *line))
                time.sleep(a.pause)
    finally:
        for n in neighbours:
            n.kill()
            n.wait()
    return rates[OWN], rates[a.turns]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--convoy", default="build/convoy")
    p.add_argument("--turns", default="10000")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--models", default="", help="some of them, with commas between")
    p.add_argument("--pause", type=float, default=0, help="seconds between two runs")
    a = p.parse_args()
    print(
        "| model | batch | ranks × threads | beside | OpenMP's own images/s | brief images/s | ratio | least to most |"
    )
    print("|---|---:|---|---|---:|---:|---:|---|", flush=True)
    for model, batch, steps in LINES:
        if a.models and model not in a.models.split(","):
            continue
        for ranks, threads in ((1, 2), (2, 1)):
            for busy in (False, True):
                own, brief = measure(a, busy, model, batch, steps, ranks, threads)
                ratios = sorted(b / o for o, b in zip(own, brief))
                print(
                    f"| {model} | {batch} | {ranks} × {threads} | {'one busy process a core' if busy else 'nothing'} | {statistics.median(own):,.1f} | "
                    f"{statistics.median(brief):,.1f} | {statistics.median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
