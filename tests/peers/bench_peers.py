#!/usr/bin/env python3
"""Training steps of Convoy beside PyTorch on the same cores: images/s as a Markdown table.

bench_peers.py --python PYTHON [--convoy FILE] [--peer SCRIPT] [--cores 0,1] [--rounds 2] [--lines REGEX] [--compiled] [--limit SECONDS]

Both train on made-up images with SGD, momentum and weight decay, and take turns: each round
measures PyTorch, then Convoy. A rate is the images of the measured steps over their wall time, on
both sides. Where a --peer knows no wall time, both sides are taken by their median step, and the
line says so. The table has medians over the rounds, and the median of the rounds' ratios. The last
column is the time that what Convoy's step multiplies (Winograd's own products) and moves would take
at what the cores were measured to multiply and to copy in the same run, as a part of the step. One rank
has all cores; two ranks have half of them each, the batch of one rank each, and sum gradients by
MPI (Convoy) or DDP over gloo (PyTorch). Convoy draws another batch every step, PyTorch has one.
--compiled measures PyTorch under torch.compile as well, on one rank; the ratio is to the faster of both.
--lines takes the lines whose label, like 'resnet50-cifar 32 bf16 2x1', the expression is found in.
A line that fails says why, the others go on, and the exit code is 1; one during which other
programs had more than a twentieth of the cores says so.
"""

import argparse, collections, datetime, json, os, re, signal, socket, statistics, subprocess, sys, time

# peer's name, batch per rank, steps (after one of warm-up), Convoy's options, also on two ranks
MODELS = [
    ("airbench94", 256, 3, "--model airbench94", True),
    ("pyramidnet", 16, 2, "--model pyramidnet", True),
    ("pyramidnet", 64, 2, "--model pyramidnet", False),
    ("resnet50-cifar", 32, 3, "--model resnet50 --stem cifar --image-size 32x32x3", True),
    ("resnet50", 8, 3, "--model resnet50 --stem imagenet --image-size 224x224x3 --classes 1000", False),
    ("mnist-conv", 1024, 40, "--model mnist-conv", True),
]
Line = collections.namedtuple("Line", "model batch steps options precision ranks threads")


class Failed(Exception):
    """The reason why there is no figure, in one line."""


def run(command, limit, **more):
    """Returns a command's output if it succeeds within `limit` seconds. None of its processes is
    left, however this ends."""
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more
    )
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {limit:.0f} s") from None
    finally:
        stop(child)
    if child.returncode != 0:
        said = [line.strip() for line in err.splitlines() if re.search(r"\w", line)] or [
            f"exit code {child.returncode}"
        ]
        ours = [line for line in said if line.startswith("convoy: ")]  # mpirun may print lines before or after
        raise Failed((ours or [said[0 if command[0] == "mpirun" else -1]])[0].removeprefix("convoy: ")[:160])
    return out


def stop(child):
    """Sends SIGTERM first, because mpirun's ranks are in separate groups, and mpirun ends them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if number == signal.SIGTERM and child.poll() is not None:
            continue
        try:
            os.killpg(child.pid, number)
            child.wait(timeout=10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def torch_rates(line, a, *more):
    """Returns images/s by kind: "wall", and "median" for a peer that reports only that."""
    command = [
        a.python,
        a.peer,
        "--model",
        line.model,
        "--batch",
        str(line.batch),
        "--dtype",
        line.precision,
        "--warmup",
        "1",
        "--steps",
        str(line.steps),
        "--threads",
        str(line.ranks * line.threads),
        "--ddp",
        str(line.ranks),
        *more,
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    said = run(command, a.limit, env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
    found = re.search(r"([\d.]+) images/s( over wall time)?", said)
    if not found:
        raise Failed(f"{os.path.basename(a.peer)} printed no images/s")
    return {"wall" if found.group(2) else "median": float(found.group(1))}


def convoy_rates(line, a):
    """Returns images/s by kind, with "wall" and "median" among them."""
    launcher = ["mpirun", "-n", str(line.ranks), "--bind-to", "none"] if line.ranks > 1 else []
    command = [
        *launcher,
        a.convoy,
        "bench",
        "--device",
        "cpu",
        *line.options.split(),
        "--batch-per-rank",
        str(line.batch),
        "--threads",
        str(line.threads),
        "--precision",
        line.precision,
        "--lr",
        "0.01",
        "--weight-decay",
        "0.0001",
        "--warmup",
        "1",
        "--steps",
        str(line.steps),
        "--profile-steps",
        "1",
    ]
    said = run(command, a.limit)
    try:
        result = json.loads(said.splitlines()[-1])
        return {**result["images_per_second"], "ceiling": 100 * result["ceilings"]["roofline_seconds"] / result["step_seconds"]}
    except (ValueError, IndexError, KeyError):
        raise Failed("convoy bench printed no JSON") from None


def clocks(cores):
    """Returns seconds: of the day, that these cores were busy or taken by a hypervisor, and that
    this program and its children used."""
    times = {line.split()[0]: line.split()[1:9] for line in open("/proc/stat") if line.startswith("cpu")}
    busy = sum(
        int(n) for core in cores for i, n in enumerate(times[f"cpu{core}"]) if i not in (3, 4)
    )  # excludes idle time and waiting for a disk
    return time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def compiled_rates(line, a):
    return torch_rates(line, a, "--compile")


def sides_of(line, a):
    """Returns what is measured: PyTorch, compiled PyTorch if requested, Convoy."""
    compiled = [compiled_rates] if a.compiled and line.ranks == 1 else []
    return [torch_rates, *compiled, convoy_rates]


def measure(line, a):
    """Returns the table's cells for one line (all rates and the ratio), and whether all succeeded."""
    before = clocks(a.cores)
    sides = {side: [] for side in sides_of(line, a)}
    reasons = {}
    for _ in range(a.rounds):
        for side, rates in sides.items():
            if side in reasons:
                continue
            try:
                rates.append(side(line, a))
            except (Failed, OSError) as error:
                reasons[side] = f"failed: {error}".replace("|", "/")
    kind = "median" if any("median" in rates for rates in sides[torch_rates]) else "wall"
    ceilings = [rate["ceiling"] for rate in sides[convoy_rates]]
    sides = {side: [rate[kind] for rate in rates] for side, rates in sides.items()}
    cells = [reasons.get(side) or f"{statistics.median(rates):,.1f}" for side, rates in sides.items()]
    if a.compiled and line.ranks > 1:
        cells.insert(1, "")
    ratios = [ours / max(theirs) for *theirs, ours in zip(*sides.values())]
    wall, busy, own = (now - then for now, then in zip(clocks(a.cores), before))
    others = (busy - own) / (wall * len(a.cores))
    ratio = f"{statistics.median(ratios):.2f}" if not reasons else "-"
    ratio += " (by the median step)" if kind == "median" else ""
    ratio += f" (others had {100 * others:.0f} % of the cores)" if others > 0.05 else ""
    return [*cells, ratio, f"{statistics.median(ceilings):.0f} %" if ceilings else "-"], not reasons


def machine():
    """Returns the day and the processor, in one line."""
    cpu = dict(re.split(r"\s*:\s*", line.strip(), maxsplit=1) for line in open("/proc/cpuinfo") if ":" in line)
    flags = cpu.get("flags", "").split()
    has = ", ".join(
        f"{flag}: {'yes' if flag in flags else 'no'}" for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    )
    return f"{datetime.date.today()}, {cpu.get('model name', 'unknown CPU')}, {has}"


def convoy_versions(convoy):
    info = dict(
        line.split(None, 1)
        for line in run([convoy, "info"], 60).splitlines()
        if line.startswith(("convoy ", "onednn "))
    )
    return f"Convoy {info.get('convoy', '?')} with oneDNN {info.get('onednn', '?')}"


def head(a):
    torch = run(
        [a.python, "-W", "ignore", "-c", "import torch; print(torch.__version__); print(torch.__config__.show())"],
        a.limit,
    )
    dnn = re.search(r"MKL-DNN v([\d.]+)", torch)
    print(
        f"{machine()}; cores {','.join(map(str, a.cores))}\n"
        f"PyTorch {torch.splitlines()[0]} with oneDNN {dnn.group(1) if dnn else 'none'}; {convoy_versions(a.convoy)}\n"
        f"{a.rounds} round{'s' if a.rounds > 1 else ''}, in each PyTorch, then Convoy\n",
        flush=True,
    )


def expression(text):
    try:
        return re.compile(text)
    except re.error as wrong:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {wrong}") from None


def options():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    p.add_argument("--python", required=True), p.add_argument("--convoy", default="build/convoy")
    p.add_argument("--peer", default=os.path.join(here, "torch_step.py"))
    p.add_argument(
        "--cores",
        type=lambda text: [int(core) for core in text.split(",")],
        default=sorted(os.sched_getaffinity(0))[:2],
    )
    p.add_argument("--rounds", type=int, default=2), p.add_argument("--lines", type=expression, default="")
    p.add_argument("--compiled", action="store_true"), p.add_argument("--limit", type=float, default=300)
    a = p.parse_args()
    for path in (a.convoy, a.python, a.peer):
        if not os.path.exists(path):
            p.error(f"{path}: no such file")
    if a.rounds < 1 or len(a.cores) < 2:
        p.error("it takes two cores, and one round")
    return a


def main():
    a = options()
    lines = [
        Line(model, batch, steps, how, precision, ranks, len(a.cores) // ranks)
        for model, batch, steps, how, two in MODELS
        for ranks in ((1, 2) if two else (1,))
        for precision in ("f32", "bf16")
    ]
    labels = {f"{line.model} {line.batch} {line.precision} {line.ranks}x{line.threads}": line for line in lines}
    chosen = [line for label, line in labels.items() if re.search(a.lines, label)]
    if not chosen:
        sys.exit(f"bench_peers: no line matches; there are: {', '.join(labels)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through the clean-up in run()
    os.sched_setaffinity(0, a.cores)  # also for every process started here
    head(a)
    compiled = " compiled |" if a.compiled else ""
    print(
        f"| model | batch a rank | precision | ranks × threads | PyTorch images/s |{compiled} Convoy images/s | ratio | of its ceiling |\n"
        f"|---|---:|---|---|---:|{'---:|' if compiled else ''}---:|---:|---:|"
    )
    well = True
    for line in chosen:
        cells, fine = measure(line, a)
        well = well and fine
        print(
            "|",
            " | ".join([line.model, str(line.batch), line.precision, f"{line.ranks} × {line.threads}", *cells]),
            "|",
            flush=True,
        )
    return 0 if well else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (Failed, OSError) as error:
        sys.exit(f"bench_peers: {error}")
