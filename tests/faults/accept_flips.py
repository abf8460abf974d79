"""accept_flips.py FLIPS STEPS CONVOY: does `CONVOY accept --only endurance` name a rank whose weights change by one bit?

Each of FLIPS runs trains on four emulated hosts. At a random step, another program stops a random rank, flips a random
bit of a random weight, and lets the rank go on. A flip succeeds if that rank is blamed, for that step or the next, and
no other rank is. Then a run repeats at least STEPS clean steps, in which nobody may be blamed; 0: none. Prints a line
per run, and ends with 1 if one failed, with 77 where the right to emulate hosts is missing. Run it as
accept_faults.py.

The test finds the weights by what they are: those of fc2 are saved before training by another run of the same seed,
and are then watched over a whole training. So it knows of any moment after which step the rank is.
"""

import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../support"]
from accept_faults import PROCESSORS, Machines, check_rights  # noqa: E402
from rank_memory import Memory, ranks  # noqa: E402

STEPS = 50  # of the training that --level long repeats
WATCHED = 16  # bytes of the weights that tell the step
# The highest bit of the exponent, early: no later loss is finite, and that training ends.
NO_LOSS_FINITE = (30, range(STEPS // 2))
CACHE_LINE = 64  # bytes
TENSORS = ("conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight")  # of mnist-conv
ENDURANCE = "--only endurance --level long --minutes"


def first_weights(convoy):
    """Returns {name: bytes} of the weights before the first step."""
    with tempfile.TemporaryDirectory() as folder:
        data, run = f"{folder}/data", f"{folder}/run"
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        size = "--images 8 --test-images 2 --size 28x28x1 --classes 10 --shards 1".split()
        subprocess.run([convoy, "convert", "synthetic", *size, "--to", data], **quiet)
        train = "train --device cpu --model mnist-conv --seed 1 --optimizer sgd --lr 0 --weight-decay 0 --max-steps 1"
        options = ["--batch-size", "8", "--no-eval", "--data", data, "--output", run]
        subprocess.run([convoy, *train.split(), *options], **quiet)
        weights = {}
        for name in TENSORS:
            dump = ["h5dump", "-d", f"/tensors/{name}", "-b", "LE", "-o", f"{folder}/{name}", f"{run}/model.h5"]
            subprocess.run(dump, **quiet)
            with open(f"{folder}/{name}", "rb") as file:
                weights[name] = file.read()
        return weights


def values_at(memory, address, seconds):
    """Returns the different contents of a place, in their order."""
    values, until = [b""], time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(100):
            value = memory.read(address, WATCHED)
            if value != values[-1]:
                values.append(value)
    return values


def trainings_in(values, first):
    """Yields the contents after 0, 1, … STEPS steps, for each training that was seen from its start to its end."""
    starts = [i for i, value in enumerate(values) if value == first]
    for start in starts:
        part = values[start : start + STEPS + 1]
        if len(set(part)) == STEPS + 1:
            yield tuple(part)


def offset_in(place, addresses):
    """Returns how far the only one of these addresses that is near `place` lies from it. Weights begin at a cache line,
    copies of them seldom do. Returns None if there is none, or if it is not clear which one are the weights."""
    near = [at - place for at in addresses if abs(at - place) < 1 << 18]
    aligned = [offset for offset in near if offset % CACHE_LINE == 0] or near
    return aligned[0] if len(aligned) == 1 else None


class Course:
    """What fc2's first weights are after each step, and where the other weights lie beside them."""

    def __init__(self, convoy):
        weights = first_weights(convoy)
        first = weights["fc2.weight"][:WATCHED]
        with tempfile.TemporaryDirectory() as folder:
            run = f"{folder}/accept"
            command = [convoy, "accept", "--device", "cpu", *ENDURANCE.split(), "2", "--output", run]
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                while not (found := ranks(run)):
                    time.sleep(0.05)
                memory = Memory(found[0])
                self.steps, self.offsets = self._watch(memory, first, weights)
                memory.close()
            finally:
                job.kill()
                job.wait()
        self.sizes = {name: len(content) for name, content in weights.items()}

    @staticmethod
    def _watch(memory, first, weights):
        """Stops the rank until its weights are the first ones; then watches that place until two trainings agree."""
        seen, until = set(), time.monotonic() + 240
        while time.monotonic() < until:
            time.sleep(random.uniform(0, 0.05))
            memory.stop()
            places = [address for address, _ in memory.places_of([first]) if address % CACHE_LINE == 0]
            others = {name: [at for at, _ in memory.places_of([content])] for name, content in weights.items()}
            memory.resume()
            for place in places:
                offsets = {name: offset for name, all in others.items() if (offset := offset_in(place, all)) is not None}
                for training in trainings_in(values_at(memory, place, 0.5), first):
                    if training in seen and len(offsets) == len(weights):
                        return list(training), offsets
                    seen.add(training)
        raise AssertionError("the weights were not found")

    def place_of_weights(self, memory):
        """Returns (address of fc2's weights, step after which the stopped rank is), or None where that is not clear.
        Weights begin at a cache line; the copy of them that is hashed after each step seldom does."""
        found = [(place, step) for place, step in memory.places_of(self.steps) if place % CACHE_LINE == 0]
        return found[0] if len(found) == 1 and found[0][1] < STEPS else None


def flip(course, memory, bit, steps):
    """Flips a bit of a random weight after one of `steps`, at random. Returns (step, description)."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(random.uniform(0, 0.2))
        memory.stop()
        try:
            found = course.place_of_weights(memory)
            if found and found[1] in steps:
                place, step = found
                name = random.choices(TENSORS, [course.sizes[n] for n in TENSORS])[0]
                weight = random.randrange(course.sizes[name] // 4)
                memory.flip(place + course.offsets[name] + 4 * weight, bit)
                return step, f"bit {bit} of {name}[{weight}] after step {step}"
        finally:
            memory.resume()
    raise AssertionError("no moment to flip a bit")


def flip_in_run(course, machines, rank, which, convoy):
    """Runs accept, and makes the flip `which` in the rank meanwhile. Returns (accept.json, step, description), or None
    if the rank had ended before there was a moment for the flip."""
    done = []
    job = threading.Thread(target=lambda: done.append(machines.accept(convoy, f"{ENDURANCE} 0.15")))
    job.start()
    try:
        while rank not in (found := ranks(f"{machines.folder}/out") if machines.folder else {}):
            time.sleep(0.1)
            if not job.is_alive():
                raise AssertionError(f"no such rank: {done}")
        time.sleep(random.uniform(1, 3))
        memory = Memory(found[rank])
        step, text = flip(course, memory, *which)
        memory.close()
    except ProcessLookupError:
        return None
    finally:
        job.join()
    return done[0][0], step, text


def problem(result, rank, step):
    if result is None:
        return "no result"
    blamed = result["levels"][0]["blamed"]
    if [(b["host"], b["device"]) for b in blamed] != [(f"node{rank + 1:02d}", f"rank {rank}")]:
        return f"blamed: {blamed}"
    named = re.search(r"step (\d+)", blamed[0]["reason"])
    if not named or int(named[1]) not in (step, step + 1):
        return blamed[0]["reason"]
    return ""


def main():
    flips, steps, convoy = int(sys.argv[1]), int(sys.argv[2]), os.path.realpath(sys.argv[3])
    check_rights()
    named, alarms, machines = 0, 0, Machines(4, PROCESSORS)
    try:
        course = Course(convoy) if flips else None
        for number in range(1, flips + 1):
            rank = random.randrange(4)
            which = NO_LOSS_FINITE if number == 1 else (random.randrange(32), range(STEPS))
            while not (flipped := flip_in_run(course, machines, rank, which, convoy)):
                pass
            result, step, text = flipped
            wrong = problem(result, rank, step)
            named += not wrong
            print(f"flip {number}: rank {rank}, {text}: {wrong or 'named'}", flush=True)
        clean = 0
        while clean < steps:
            result, text = machines.accept(convoy, f"{ENDURANCE} 0.5")
            level = result["levels"][0]
            alarms += level["outcome"] != "PASS"
            clean += int(level["figure"].split()[0]) * 4
            print(f"clean steps so far, of all ranks: {clean}; {level['outcome']}: {level['blamed']}", flush=True)
    finally:
        machines.stop()
    print(f"named {named} of {flips}; {alarms} alarms in {clean} clean steps")
    sys.exit(named < flips or alarms > 0)


if __name__ == "__main__":
    main()
