#!/usr/bin/env python3
"""How fast data comes to a training, and what of it a training waits for, as Markdown tables.

bench_data.py [--convoy FILE] [--reading FILE] [--gib G] [--rounds 5] [--only SECTION] [--folder DIR]

reading: a made-up data set of 224x224x3 images, in the page cache, read once in every way:
  raw        its chunks by pread, and nothing else
  pieces     as a training reads it that holds only a part: pread, checksums, copies (SplitPieces)
  hdf5       by H5Dread, on the one thread that HDF5 serves (SplitReader)
  checksums  the sums alone, of one chunk that stays in the cache
training: a ResNet-18 on made-up images of 96x96x3 in the page cache, on one rank and on two. Images
  are in memory (replicate), or read block by block while steps run (stream, four blocks an epoch).
exchange: the same on two emulated hosts, a rank on each, over a cable as fast as memory: images are
  on both (replicate), or half of them on each (partition), so that half of a batch travels while
  steps run.
conversion: photograph-like JPEGs of 500x375, of about as many bytes as ImageNet's, to images with a
  short side of 256 (convert imagefolder) on one rank and on two, and by Pillow on one thread, which
  decodes and resizes them and writes nothing.

The ways take turns, in an order that turns around every round. Rates are medians over the rounds,
"of raw" and "of replicate" medians of the rounds' ratios, to raw on as many threads and to
replicate on as many ranks. Of a training the first epoch is left out. "data" is what a step waits
for its batch and needs to crop, mirror and normalise it (data_seconds of rank 0): the median of the
steps' shares of step_seconds, and the sum's share of all steps. What stream and partition have more
of it than replicate is what reading and exchange do not hide; it is to be at most 1 % and 2 % of a
step. The first set takes G GiB of --folder and of the page cache: 2, or a quarter of the memory
that is free if that is less.
"""

import argparse, collections, json, os, statistics, sys, tempfile, time

from bench_peers import Failed, convoy_versions, machine, run

DAY, LIMIT = 86400, 600
IMAGES, SIDE, BATCH, EPOCHS = 384, 96, 32, 3
STREAM_BLOCK_MIB = 3  # the images take 10 MiB
Trained = collections.namedtuple("Trained", "step_seconds median_share share images_per_second")


def available_gib():
    memory = dict(line.split(":") for line in open("/proc/meminfo"))
    return int(memory["MemAvailable"].split()[0]) / 2**20


def cores():
    return len(os.sched_getaffinity(0))


def read_rates(said):
    """Returns {(way, threads): GB/s by round}, and the bytes of an image."""
    rates, image_bytes = collections.defaultdict(list), 0
    for way, threads, seconds, size, images in (line.split() for line in said):
        rates[way, int(threads)].append(int(size) / 1e9 / float(seconds))
        image_bytes = int(size) / int(images)
    return rates, image_bytes


def reading_rows(rates, image_bytes):
    order = ["raw", "pieces", "hdf5", "checksums"]
    for (way, threads), rate in sorted(rates.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        ratios = [mine / raw for mine, raw in zip(rate, rates["raw", threads])]
        median = statistics.median(rate)
        images = f"{median * 1e9 / image_bytes:,.0f}" if way in ("pieces", "hdf5") else "-"
        yield f"| {way} | {threads} | {median:.2f} | {images} | {statistics.median(ratios):.2f} |"


def reading(a, folder):
    gib = a.gib or min(2, available_gib() / 4)
    said = run([a.reading, folder, f"{gib:.3f}", str(a.rounds)], DAY).splitlines()
    rates, image_bytes = read_rates(said[1:])
    print(f"## Reading\n\n{said[0]}; {gib:.2f} GiB of 224x224x3 images in the page cache\n")
    print("| way | threads | GB/s | images/s | of raw |\n|---|---:|---:|---:|---:|")
    print("\n".join(reading_rows(rates, image_bytes)))


def make_images(a, folder):
    """Makes `folder`/images, which both sections train on."""
    images = f"--images {IMAGES} --test-images 1 --size {SIDE}x{SIDE}x3 --shards 4"
    run([a.convoy, "convert", "synthetic", *images.split(), "--to", f"{folder}/images"], LIMIT)


def train_command(a, placement, threads, folder):
    """Returns the command of a training of `folder`/images into `folder`/run."""
    model = f"--model resnet18 --stem imagenet --batch-size {BATCH} --epochs {EPOCHS} --no-eval"
    files = f"--data {folder}/images --output {folder}/run --overwrite --checkpoint-every none --metrics-every 1"
    where = f"--device cpu --threads {threads} --data-placement {placement}"
    blocks = f"--stream-block-mib {STREAM_BLOCK_MIB}" if placement == "stream" else ""
    return [a.convoy, "train", *f"{model} {files} {where} {blocks}".split()]


def read_run(folder):
    """Reads a run's metrics of all epochs except the first."""
    with open(f"{folder}/run/metrics.jsonl") as lines:
        rows = [row for row in map(json.loads, lines) if row.get("epoch", 0) > 1]
    steps = [(row["step_seconds"], row["data_seconds"]) for row in rows if row["kind"] == "train"]
    epochs = [(row["images"], row["seconds"]) for row in rows if row["kind"] == "epoch"]
    if not steps or not epochs:
        raise Failed(f"{folder}/run/metrics.jsonl has no epoch after the first")
    return Trained(
        statistics.median(step for step, _ in steps),
        statistics.median(data / step for step, data in steps),
        sum(data for _, data in steps) / sum(step for step, _ in steps),
        sum(images for images, _ in epochs) / sum(seconds for _, seconds in epochs),
    )


def in_turns(ways, rounds, measure):
    """Returns {way: [measure(*way) by round]}; the ways alternate."""
    measured = {way: [] for way in ways}
    for i in range(rounds):
        for way in ways[:: -1 if i % 2 else 1]:
            measured[way].append(measure(*way))
    return measured


def training_rows(measured):
    """Yields the table. `measured`: {(ranks, threads, placement): [Trained by round]}, replicate among them."""
    yield "| ranks × threads | images | step, ms | data, median | data, of all time | images/s | of replicate |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for (ranks, threads, placement), rounds in measured.items():
        median = Trained(*map(statistics.median, zip(*rounds)))
        ratios = [
            mine.images_per_second / other.images_per_second
            for mine, other in zip(rounds, measured[ranks, threads, "replicate"])
        ]
        yield (
            f"| {ranks} × {threads} | {placement} | {1e3 * median.step_seconds:.1f} | {100 * median.median_share:.2f} % "
            f"| {100 * median.share:.2f} % | {median.images_per_second:,.1f} | {statistics.median(ratios):.3f} |"
        )


def print_trainings(a, title, measured):
    images = f"{BATCH} of {IMAGES} images of {SIDE}x{SIDE}x3 a step, {EPOCHS} epochs"
    print(f"## {title}\n\n{convoy_versions(a.convoy)}; ResNet-18, f32, {images}\n")
    print("\n".join(training_rows(measured)))


def training(a, folder):
    make_images(a, folder)

    def measure(ranks, threads, placement):
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        run([*launcher, *train_command(a, placement, threads, folder)], LIMIT)
        return read_run(folder)

    ways = [(ranks, max(1, cores() // ranks), how) for ranks in (1, 2) for how in ("replicate", "stream")]
    print_trainings(a, "Training", in_turns(ways, a.rounds, measure))


def on_two_hosts(a, command, log):
    """Runs a command as a rank on each of two emulated hosts. Prints the end of `log` if it fails."""
    code = run([a.hosts, f"{' '.join(command)} >{log} 2>&1", "1", ""], LIMIT).split()[0]
    if code != "0":
        with open(log) as lines:
            said = lines.read().strip().splitlines() or ["nothing was printed"]
        raise Failed(f"exit code {code} on two hosts: {said[-1]}")


def exchange(a, folder):
    try:
        on_two_hosts(a, ["true"], f"{folder}/log")
    except Failed as why:
        print(f"## Exchange\n\nleft out: two hosts cannot be emulated here ({why})")
        return
    make_images(a, folder)

    def measure(_, threads, placement):
        on_two_hosts(a, train_command(a, placement, threads, folder), f"{folder}/log")
        return read_run(folder)

    ways = [(2, max(1, cores() // 2), how) for how in ("replicate", "partition")]
    print_trainings(a, "Exchange", in_turns(ways, a.rounds, measure))


def make_photographs(folder, count):
    """Writes `count` JPEGs in two folders: blurred noise with some grain. Returns their mean size in bytes."""
    import numpy, PIL.Image

    draw = numpy.random.default_rng(1)
    for i in range(count):
        coarse = PIL.Image.fromarray(draw.integers(0, 256, (24, 32, 3), dtype=numpy.uint8))
        smooth = numpy.asarray(coarse.resize((500, 375), PIL.Image.BICUBIC), dtype=numpy.float32)
        grained = numpy.clip(smooth + draw.normal(0, 14, smooth.shape), 0, 255).astype(numpy.uint8)
        os.makedirs(f"{folder}/class{i % 2}", exist_ok=True)
        PIL.Image.fromarray(grained).save(f"{folder}/class{i % 2}/{i}.jpeg", quality=90)
    return sum(f.stat().st_size for c in os.scandir(folder) for f in os.scandir(c)) / count


DECODE = """
import glob, sys, PIL.Image
for name in glob.glob(sys.argv[1] + "/*/*.jpeg"):
    image = PIL.Image.open(name).convert("RGB")
    image.resize((round(256 * image.width / image.height), 256), PIL.Image.BILINEAR).tobytes()
"""


def conversion(a, folder):
    size = make_photographs(f"{folder}/photographs", a.photographs)

    def seconds(way, ranks):
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        convert = f"convert imagefolder --short-side 256 --from {folder}/photographs --to {folder}/set --shards {ranks} --force"
        pillow = [sys.executable, "-c", DECODE, f"{folder}/photographs"]
        start = time.monotonic()
        run(pillow if way == "Pillow" else [*launcher, a.convoy, *convert.split()], LIMIT)
        return time.monotonic() - start

    ways = [("Pillow", 1)] + [("convoy", ranks) for ranks in (1, 2) if ranks <= cores()]
    measured = in_turns(ways, a.rounds, seconds)
    print(f"## Conversion\n\n{a.photographs} JPEGs of 500x375, {size / 1e3:.0f} kB each, to a short side of 256\n")
    print("| by | ranks or threads | images/s | of Pillow |\n|---|---:|---:|---:|")
    for (way, count), times in measured.items():
        ratio = statistics.median(theirs / mine for mine, theirs in zip(times, measured["Pillow", 1]))
        print(f"| {way} | {count} | {a.photographs / statistics.median(times):,.0f} | {ratio:.2f} |")


SECTIONS = {"reading": reading, "training": training, "exchange": exchange, "conversion": conversion}


def options():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--convoy", default="build/convoy")
    p.add_argument("--reading", default="build/convoy_reading", help="the program that reads")
    p.add_argument("--hosts", default=f"{here}/../support/two_hosts.sh", help="what emulates two hosts")
    p.add_argument("--gib", type=float, default=0, help="of the data set that is read; 0: as above")
    p.add_argument("--photographs", type=int, default=2000, help="that are converted")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", choices=["", *SECTIONS], help="one section; all by default")
    p.add_argument("--folder", help="where the data sets are made for a while")
    a = p.parse_args()
    if min(a.rounds, a.photographs) < 1 or a.gib < 0:
        sys.exit("bench_data: --rounds and --photographs are at least 1, --gib not negative")
    return a


def main():
    a = options()
    print(f"{machine()}; {cores()} cores; median of {a.rounds} round{'s' if a.rounds > 1 else ''}", flush=True)
    try:
        for section in [a.only] if a.only else SECTIONS:
            with tempfile.TemporaryDirectory(prefix="convoy-bench-", dir=a.folder) as folder:
                print()
                SECTIONS[section](a, folder)
                sys.stdout.flush()
    except (Failed, OSError) as wrong:
        sys.exit(f"bench_data: {wrong}")


if __name__ == "__main__":
    main()
