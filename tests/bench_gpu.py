#!/usr/bin/env python3
"""images/s of Convoy on one GPU beside PyTorch, as a table. Both train on made-up images; warm-up, plan timing and compilation are left
out. PyTorch (tests/peers/torch_step.py) is compiled with max-autotune, as far as the time allows; a line without it says why.

bench_gpu.py [--build DIR] [--budget SECONDS] [--peer compile|eager|none] [--only MODEL]
"""
import argparse, json, os, re, subprocess, sys, tempfile, time

# model, peer's name, image size, classes, batch, precision, options
LINES = [
    ("resnet50", "resnet50", "224x224x3", 1000, 128, "bf16", []),
    ("resnet50", "resnet50", "224x224x3", 1000, 256, "bf16", []),
    ("resnet50", "resnet50", "224x224x3", 1000, 256, "f16", []),
    ("resnet50", "resnet50-cifar", "32x32x3", 10, 512, "bf16", ["--stem", "cifar"]),
    ("pyramidnet", "pyramidnet", "32x32x3", 10, 64, "bf16", []),
    ("pyramidnet", "pyramidnet", "32x32x3", 10, 768, "bf16", []),
]
STEPS = 10


def data_set(convoy, folder, size, classes, batch):
    path = os.path.join(folder, f"{size}-{batch}")
    if not os.path.isdir(path):
        subprocess.run([convoy, "convert", "synthetic", "--images", str(batch * STEPS), "--size", size, "--classes", str(classes), "--to", path],
                       check=True, stdout=subprocess.DEVNULL)
    return path


def convoy_rate(convoy, folder, model, size, classes, batch, precision, options, extra):
    """Of the last of three epochs: the first has an eager step and the capture."""
    out = os.path.join(folder, "run")
    command = [convoy, "train", "--device", "cuda", "--data", data_set(convoy, folder, size, classes, batch), "--model", model, "--batch-per-rank",
               str(batch), "--precision", precision, "--epochs", "3", "--eval-every", "0", "--checkpoint-every", "none", "--drop-last",
               "--log-interval", str(STEPS), "--lr", "0.001", "--output", out, "--overwrite", *options, *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, None, done.stderr.strip().splitlines()[-1][:100] if done.stderr.strip() else "failed"
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    rate = [r["images_per_second"] for r in rows if r["kind"] == "epoch"][-1]
    steps = [r["step_seconds"] for r in rows if r["kind"] == "train" and r["epoch"] == 3]
    gap = batch / rate - sorted(steps)[len(steps) // 2]  # between the end of a step and the start of the next
    return rate, gap, ""


def peer_rate(name, batch, precision, mode, limit):
    if mode == "none":
        return None, "left out"
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "torch_step.py"), "--model", name, "--batch", str(batch),
               "--dtype", precision, "--device", "cuda", "--warmup", "5", "--steps", "20"] + (["--compile"] if mode == "compile" else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, limit))
    except subprocess.TimeoutExpired:
        return None, "no time left"
    found = re.search(r"([\d.]+) images/s", done.stdout)
    return (float(found.group(1)), "") if found else (None, (done.stderr.strip().splitlines() or ["no output"])[-1][:60])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build"), p.add_argument("--budget", type=float, default=470)
    p.add_argument("--peer", default="compile", choices=["compile", "eager", "none"]), p.add_argument("--only", default="")
    a, extra = p.parse_known_args()
    convoy, start = os.path.join(a.build, "convoy"), time.time()
    lines = [line for line in LINES if a.only in line[0]]
    print(f"{'model':<12}{'image':<11}{'batch':>6} {'type':<5}{'Convoy images/s':>16}{'gap a step':>12}{'PyTorch':>10}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for i, (model, peer, size, classes, batch, precision, options) in enumerate(lines):
            rate, gap, problem = convoy_rate(convoy, folder, model, size, classes, batch, precision, options, extra)
            share = (a.budget - (time.time() - start)) / (len(lines) - i)
            other, reason = peer_rate(peer, batch, precision, a.peer, share)
            ours = f"{rate:16.0f}{gap * 1e6:9.0f} us" if rate else f"{problem:>28}"
            ratio = f"{other:10.0f}{rate / other:7.2f}" if rate and other else f"{'-':>10}{'-':>7}  {reason}"
            print(f"{model:<12}{size:<11}{batch:>6} {precision:<5}{ours}{ratio}", flush=True)
    print(f"{time.time() - start:.0f} s")


main()
