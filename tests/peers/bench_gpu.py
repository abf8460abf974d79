#!/usr/bin/env python3
"""images/s of Convoy on one GPU beside PyTorch, as a table, and where a step's time goes. Both
train on made-up images; warm-up, plan timing, capture and compilation are left out. Images/s are
the images of the measured steps over their wall time, on both sides. PyTorch
(tests/peers/torch_step.py) is compiled with max-autotune, as far as the time allows; a line without
it says why. 'Of the roofline': the time that the step's classes of operations would take at the
rates that `convoy bench` saw the device multiply and copy at, as a part of the step's. 'Gap': the
mean time of a step with what lies between steps, less the median time of a step by itself.

bench_gpu.py [--build DIR] [--budget SECONDS] [--peer compile|eager|none] [--only MODEL] [options of convoy bench]
bench_gpu.py --line "[NAME=VALUE ...] MODEL PRECISION BATCH [options of convoy bench]" [--line ...] ...

A line may set variables for Convoy; BUILD=DIR is another build of it. --rounds N takes the lines in
turns, N times; of two lines, the ratio of their medians comes last. --jsonl FILE appends each
result as soon as it is there, and shows what Convoy says.
"""

import argparse, collections, json, os, re, shlex, statistics, subprocess, sys, time

# name: model of Convoy, image size, classes, options; PyTorch's are in torch_step.py
MODELS = {
    "resnet50": ("resnet50", "224x224x3", 1000, ["--stem", "imagenet"]),
    "resnet50-cifar": ("resnet50", "32x32x3", 10, ["--stem", "cifar"]),
    "pyramidnet": ("pyramidnet", "32x32x3", 10, []),
    "airbench94": ("airbench94", "32x32x3", 10, []),
}
LINES = [
    "resnet50 bf16 128",
    "resnet50 bf16 256",
    "resnet50 f16 256",
    "resnet50-cifar bf16 512",
    "pyramidnet bf16 64",
    "pyramidnet bf16 768",
    "airbench94 bf16 1024",
]
Line = collections.namedtuple("Line", "text variables name precision batch options")


def parse_line(text):
    words = shlex.split(text)
    variables = {}
    while words and re.match(r"\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if len(words) < 3 or words[0] not in MODELS or not words[2].isdigit():
        sys.exit(f"bench_gpu: '{text}' is no line; as in 'resnet50 f16 256 --norm-by kernels', of {', '.join(MODELS)}")
    return Line(text, variables, words[0], words[1], int(words[2]), words[3:])


def append(a, result):
    if a.jsonl:
        with open(a.jsonl, "a") as file:
            file.write(json.dumps(result) + "\n")


def convoy_result(a, line, more):
    """Returns the result of convoy bench, or the reason why there is none."""
    model, size, classes, options = MODELS[line.name]
    command = [os.path.join(line.variables.get("BUILD", a.build), "convoy"), "bench", "--device", a.device]
    command += ["--model", model, "--image-size", size, "--classes", str(classes)]
    command += ["--batch-per-rank", str(line.batch), "--precision", line.precision, "--lr", "0.001"]
    command += ["--warmup", str(a.warmup), "--steps", str(a.steps), "--log-interval", str(a.warmup)]
    command += ["--profile-steps", str(a.profile_steps), *options, *line.options, *more]
    environment = {**os.environ, **line.variables}
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    )
    said = []
    for text in running.stderr:  # its output, of some kilobytes, comes at the end
        if a.jsonl:
            print(text, end="", file=sys.stderr, flush=True)
        if text.strip():
            said = [text.strip()]
    text = running.stdout.read()
    if running.wait() != 0:
        return None, (said or [f"exit code {running.returncode}"])[0][:100]
    result = json.loads(text.splitlines()[-1])
    append(a, {"line": line.text, **result})
    if a.jsonl:
        print(text.rpartition("\n{")[0], flush=True)
    return result, ""


def peer_rate(a, line, limit):
    if a.peer == "none":
        return None, "left out"
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_step.py")]
    command += ["--model", line.name, "--batch", str(line.batch), "--dtype", line.precision]
    command += ["--device", "cuda", "--warmup", "5", "--steps", "20"]
    # The bundle's libraries must not be used by other programs.
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
    if not found:
        return None, (done.stderr.strip().splitlines() or ["no output"])[-1][:60]
    append(a, {"line": line.text, "peer": a.peer, "images_per_second": {"wall": float(found.group(1))}})
    return float(found.group(1)), ""


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
    p.add_argument("--no-convoy", action="store_true")
    p.add_argument("--only", default="")
    p.add_argument("--line", action="append", default=[])
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--jsonl", default="")
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--profile-steps", type=int, default=5)
    return p.parse_known_args()


def row_of(line, result, rate, problem):
    row = [line.name.partition("-")[0], MODELS[line.name][1], str(line.batch), line.precision, "-", "-", "-"]
    row += [f"{rate:.0f}" if rate else "-", "-", "; ".join(filter(None, [" ".join(line.options), problem]))]
    if result:
        median, wall = (result["images_per_second"][k] for k in ("median", "wall"))
        row[4] = f"{wall:.0f}"
        if result["ceilings"]["roofline_seconds"] > 0:
            row[5] = f"{100 * result['ceilings']['roofline_seconds'] / result['step_seconds']:.0f} %"
        row[6] = f"{1e6 * line.batch * (1 / wall - 1 / median):.0f}"
        if rate:
            row[8] = f"{wall / rate:.2f}"
    return row


def print_shares(results):
    """Prints shares of the step for each line's last result: (line, result) pairs."""
    titles = [f"{line.name} {line.batch} {line.precision}" for line, _ in results]
    shares = collections.defaultdict(dict)  # class of operations -> by line, its share of the step
    for i, (_, result) in enumerate(results):
        whole = sum(o["seconds"] for o in result["operations"])
        for o in result["operations"]:
            shares[o["class"]][i] = o["seconds"] / whole
    order = sorted((c for c in shares if max(shares[c].values()) >= 0.001), key=lambda c: -max(shares[c].values()))
    rows = [[c, *(f"{100 * shares[c][i]:.1f} %" if i in shares[c] else "-" for i in range(len(titles)))] for c in order]
    print("\nshare of each class of operations, run by itself:")
    print(table([["", *titles], *rows], set(range(1, len(titles) + 1))))


def main():
    a, more = options()
    start = time.time()
    lines = [parse_line(text) for text in a.line or LINES if a.line or a.only in text.split()[0]]
    rows = [["model", "image", "batch", "type", "Convoy images/s", "of the roofline", "gap us", "PyTorch", "ratio", ""]]
    results, rates = {}, collections.defaultdict(list)  # by line number
    turns = [i for _ in range(a.rounds) for i in range(len(lines))]
    wanted = 7 if a.no_convoy else 4  # column of the table
    for turn, i in enumerate(turns):
        result, problem = (None, "") if a.no_convoy else convoy_result(a, lines[i], more)
        rate, reason = peer_rate(a, lines[i], (a.budget - (time.time() - start)) / (len(turns) - turn))
        rows.append(row_of(lines[i], result, rate, problem or reason))
        if result:
            results[i] = result
            rates[i].append(result["images_per_second"]["wall"])
        print(f"{lines[i].text}: Convoy {rows[-1][4]}, PyTorch {rows[-1][7]} {rows[-1][9]}", file=sys.stderr, flush=True)
    print(next((r["device"] for r in results.values()), ""))
    print(table(rows, {2, 4, 5, 6, 7, 8}))
    if results:
        print_shares([(lines[i], results[i]) for i in sorted(results)])
    if len(lines) == 2 and len(results) == 2:
        before, after = (statistics.median(rates[i]) for i in (0, 1))
        print(f"\nafter / before, medians of {a.rounds}: {after:.1f} / {before:.1f} = {after / before:.4f}")
    print(f"\n{time.time() - start:.0f} s")
    return 0 if all(row[wanted] != "-" for row in rows[1:]) else 1


sys.exit(main())
