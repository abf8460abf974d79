#!/usr/bin/env python3
"""images/s of Convoy on one GPU beside PyTorch, as a table, and where a step's time goes. Both
train on made-up images; warm-up, plan timing, capture and compilation are left out. Images/s are
the images of the measured steps over their wall time, on both sides. PyTorch
(tests/peers/torch_step.py) is compiled with max-autotune, as far as the time allows; a line without
it says why. 'Of the roofline': the time that the step's classes of operations would take at the
rates that `convoy bench` saw the device multiply and copy at, as a part of the step's. 'Gap': the
mean time of a step with what lies between steps, less the median time of a step by itself.

bench_gpu.py [--build DIR] [--budget SECONDS] [--peer compile|eager|none] [--only MODEL] [options of convoy bench]
"""

import argparse, json, os, re, subprocess, sys, time

# model, peer's name, image size, classes, batch, precision, options
LINES = [
    ("resnet50", "resnet50", "224x224x3", 1000, 128, "bf16", ["--stem", "imagenet"]),
    ("resnet50", "resnet50", "224x224x3", 1000, 256, "bf16", ["--stem", "imagenet"]),
    ("resnet50", "resnet50", "224x224x3", 1000, 256, "f16", ["--stem", "imagenet"]),
    ("resnet50", "resnet50-cifar", "32x32x3", 10, 512, "bf16", ["--stem", "cifar"]),
    ("pyramidnet", "pyramidnet", "32x32x3", 10, 64, "bf16", []),
    ("pyramidnet", "pyramidnet", "32x32x3", 10, 768, "bf16", []),
    ("airbench94", "airbench94", "32x32x3", 10, 1024, "bf16", []),
]


def convoy_result(a, line, more):
    """What convoy bench measured, or why it did not."""
    model, _, size, classes, batch, precision, options = line
    command = [
        os.path.join(a.build, "convoy"),
        "bench",
        "--device",
        a.device,
        "--model",
        model,
        "--image-size",
        size,
        "--classes",
        str(classes),
        "--batch-per-rank",
        str(batch),
        "--precision",
        precision,
        "--lr",
        "0.001",
        "--warmup",
        str(a.warmup),
        "--steps",
        str(a.steps),
        "--log-interval",
        str(a.warmup),
        "--profile-steps",
        "5",
        *options,
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = [s for s in done.stderr.splitlines() if s.strip()]
        return None, (said or [f"exit code {done.returncode}"])[-1][:100]
    return json.loads(done.stdout.splitlines()[-1]), ""


def peer_rate(a, line, limit):
    _, name, _, _, batch, precision, _ = line
    if a.peer == "none":
        return None, "left out"
    command = [
        sys.executable,
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_step.py"),
        "--model",
        name,
        "--batch",
        str(batch),
        "--dtype",
        precision,
        "--device",
        "cuda",
        "--warmup",
        "5",
        "--steps",
        "20",
    ]
    # The bundle's libraries are not for others.
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.environ.get("CONVOY_HOST_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", "")),
    }
    try:
        done = subprocess.run(
            command + (["--compile"] if a.peer == "compile" else []),
            capture_output=True,
            text=True,
            env=environment,
            timeout=max(1, limit),
        )
    except subprocess.TimeoutExpired:
        return None, "no time left"
    found = re.search(r"([\d.]+) images/s over wall time", done.stdout)
    return (
        (float(found.group(1)), "") if found else (None, (done.stderr.strip().splitlines() or ["no output"])[-1][:60])
    )


def table(rows, right):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    )


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--budget", type=float, default=470)
    p.add_argument("--device", default="cuda")
    p.add_argument("--peer", default="compile", choices=["compile", "eager", "none"])
    p.add_argument("--only", default="")
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--steps", type=int, default=30)
    return p.parse_known_args()


def main():
    a, more = options()
    start = time.time()
    lines = [line for line in LINES if a.only in line[0]]
    rows = [["model", "image", "batch", "type", "Convoy images/s", "of the roofline", "gap us", "PyTorch", "ratio", ""]]
    shares = {}  # class of operations -> by line, its share of the step
    device = ""
    for i, line in enumerate(lines):
        result, problem = convoy_result(a, line, more)
        rate, reason = peer_rate(a, line, (a.budget - (time.time() - start)) / (len(lines) - i))
        peer = f"{rate:.0f}" if rate else "-"
        row = [line[0], line[2], str(line[4]), line[5], "-", "-", "-", peer, "-", problem or reason]
        if result:
            device = result["device"]
            median, wall = (result["images_per_second"][k] for k in ("median", "wall"))
            row[4] = f"{wall:.0f}"
            if result["ceilings"]["roofline_seconds"] > 0:
                row[5] = f"{100 * result['ceilings']['roofline_seconds'] / result['step_seconds']:.0f} %"
            row[6] = f"{1e6 * line[4] * (1 / wall - 1 / median):.0f}"
            if rate:
                row[8] = f"{wall / rate:.2f}"
            whole = sum(o["seconds"] for o in result["operations"])
            for o in result["operations"]:
                shares.setdefault(o["class"], {})[i] = o["seconds"] / whole
        rows.append(row)
        print(f"{line[0]} {line[4]} {line[5]}: Convoy {row[4]}, PyTorch {row[7]} {row[9]}", file=sys.stderr, flush=True)
    print(device)
    print(table(rows, {2, 4, 5, 6, 7, 8}))
    print("\nshare of each class of operations, run by itself:")
    order = sorted(shares, key=lambda c: -max(shares[c].values()))
    print(
        table(
            [["", *(f"{line[0]} {line[4]} {line[5]}" for line in lines)]]
            + [
                [c, *(f"{100 * shares[c][i]:.1f} %" if i in shares[c] else "-" for i in range(len(lines)))]
                for c in order
                if max(shares[c].values()) >= 0.001
            ],
            set(range(1, len(lines) + 1)),
        )
    )
    print(f"\n{time.time() - start:.0f} s")
    return 0 if all(row[4] != "-" for row in rows[1:]) else 1


sys.exit(main())
