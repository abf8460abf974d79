"""Runs tests and ends with "N passed, N failed, N skipped": `run.py [short|rest|all|bare|PATTERN]`.

`short` leaves out what tiers.txt calls long, `rest` is that, in the order of its lines; `bare` is
`short` without what tiers.txt calls alike. Without a pattern the emulated device's program runs
too, where it was built. Several processes take turns at chunks of the tests, $JOBS or one more than
cores up to four, because most tests wait more than they compute."""

import fnmatch
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

BUILD = os.environ.get("BUILD", "build")
PROGRAM, EMULATED = f"{BUILD}/convoy_tests", f"{BUILD}/emulated/convoy_tests"
# What needs a GPU and takes no more than some seconds on the emulated device: all but the largest
# models, and what only a real one can show.
ON_EMULATED = (
    "CudaAgreement.*:CudaBackends.*:CudaBranches.*:CudaChips.*:CudaDevice.*:CudaEnvironment.*:CudaGpuScript.*:CudaOrder.*"
    ":CudaRuns.*:CudaTuning.*:CudaVirtualRanks.*:PlacementOnGpus.*"
    ":CudaVersions.*:*CudaDeviceSteps*:*/cuda*"
    "-*ADeviceThatIs*:*pyramidnet*:*_cifar*:*CudaDeviceSteps*resnet*"
    ":*resnet50*kernels:*resnet50*plans"
)
TIERS = ("long", "alone", "alike")
# Tests of one start: few enough that no process has the last ones to itself for long.
CHUNK = 8


def tiers(path="tests/tiers.txt"):
    """{tier: patterns} of the lines "tier: PATTERN  # reason"."""
    with open(path) as file:
        lines = [line.split("#")[0].partition(": ") for line in file]
    return {tier: [pattern.strip() for name, _, pattern in lines if name == tier] for tier in TIERS}


def is_one_of(test, patterns):
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)


def with_instances(pattern):
    """The pattern, and the same for tests with parameters: "Ops*" is "All/Ops.Forward/…" too."""
    wanted, _, unwanted = pattern.partition("-")
    wider = ":".join(f"{part}:*/{part}" for part in wanted.split(":") if part)
    return wider + (f"-{unwanted}" if unwanted else "")


def list_tests(program, pattern):
    """The names of the tests that match a pattern of GoogleTest, in their order."""
    listed = subprocess.run(
        [program, "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True, text=True, check=True
    )
    tests, suite = [], ""
    for line in listed.stdout.split("\n"):
        name = line.split("  #")[0].rstrip()
        if line.startswith("  ") and suite:
            if ".DISABLED_" not in suite + name.strip() and not name.strip().startswith("DISABLED_"):
                tests.append(suite + name.strip())
        elif name.endswith(".") and " " not in name:
            suite = name
    return tests


class Runner:
    """Takes chunks (program, tests) from `chunks` until there are none; keeps the cases of GoogleTest's reports."""

    def __init__(self):
        self.chunks, self.lock = queue.SimpleQueue(), threading.Lock()
        self.cases, self.total, self.done = [], 0, 0

    def add(self, program, tests):
        # Tests with parameters are many, and most are short.
        with_value = [test for test in tests if "/" in test]
        for kind, most in (([t for t in tests if "/" not in t], CHUNK), (with_value, 3 * CHUNK)):
            for first in range(0, len(kind), most):
                self.chunks.put((program, kind[first : first + most]))
                self.total += 1

    def run(self, jobs):
        workers = [threading.Thread(target=self.work, args=(number,)) for number in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def work(self, number):
        while True:
            try:
                program, tests = self.chunks.get_nowait()
            except queue.Empty:
                return
            self.run_chunk(number, program, tests)

    def run_chunk(self, number, program, tests):
        report = f"{program}-{number}.json"
        environment = dict(os.environ) | {"XDG_CACHE_HOME": os.path.abspath(f"{BUILD}/cache")}
        if program == EMULATED:
            environment |= {"XDG_CACHE_HOME": os.path.abspath(f"{BUILD}/emulated/cache/{number}"), "EMULATED_GPUS": "2"}
        if os.path.exists(report):
            os.remove(report)
        start = time.monotonic()
        ended = subprocess.run(
            [
                program,
                "--gtest_filter=" + ":".join(tests),
                f"--gtest_output=json:{report}",
                "--gtest_brief=0",
                "--gtest_color=no",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        cases = read_cases(report, program) if os.path.exists(report) else self.crashed(program, tests, ended)
        with self.lock:
            self.cases += cases
            self.done += 1
            self.say(cases, ended.stdout, time.monotonic() - start)

    def crashed(self, program, tests, ended):
        """The program ended early: the test that it was in failed, those after it get another start."""
        begun = [line.split("] ")[1].strip() for line in ended.stdout.split("\n") if line.startswith("[ RUN      ] ")]
        failed = [test for test in begun[-1:] if test in tests] or tests
        self.add(program, [test for test in tests if test not in failed])
        said = f"ended early with {ended.returncode}"
        return [{"name": test, "result": "failed", "seconds": 0, "program": program, "said": said} for test in failed]

    def say(self, cases, log, seconds):
        failed = [case for case in cases if case["result"] == "failed"]
        print(f"[{self.done}/{self.total}] {cases[0]['name']}: {len(cases)} tests, {seconds:.1f} s", flush=True)
        for case in failed:
            print(f"FAILED {case['name']} {case.get('said', '')}\n{log_of(case['name'], log)}", flush=True)


def log_of(test, log):
    """What a test said, between the lines that say that it runs and that it is over."""
    start = log.find(f"[ RUN      ] {test}\n")
    end = log.find(f"] {test} (", start)
    return log[start : log.find("\n", end) + 1 if end >= 0 else None] if start >= 0 else log


def read_cases(report, program):
    with open(report) as file:
        suites = json.load(file)["testsuites"]
    cases = []
    for test in (test for suite in suites for test in suite["testsuite"]):
        result = "failed" if test.get("failures") else {"COMPLETED": "passed"}.get(test["result"], "skipped")
        if test["result"] == "SUPPRESSED":
            continue
        case = {
            "name": f'{test["classname"]}.{test["name"]}',
            "result": result,
            "seconds": float(test["time"].rstrip("s")),
            "program": program,
        }
        cases.append(case | {key: value for key, value in test.items() if key.startswith("fault")})
    return cases


def print_faults(cases):
    """The table of faults of tests/README.md, in the long form of the fault tests."""
    rows = [(case, key) for case in cases for key in case if key.startswith("fault")]
    if os.environ.get("CONVOY_LONG") and rows:
        print("\n| fault | promised | observed | runs |\n|---|---|---|---|")
        for case, key in rows:
            print(f'| {case[key]} |{" **FAILED**" if case["result"] == "failed" else ""}')
        print()


def choose(what, by_tier):
    """The tests as (program, test); those of `rest` in the order of their lines in tiers.txt."""
    pattern = "*" if what in ("short", "rest", "all", "bare") else with_instances(what)
    wanted = {
        "short": lambda test: not is_one_of(test, by_tier["long"]),
        "rest": lambda test: is_one_of(test, by_tier["long"]),
        "bare": lambda test: not is_one_of(test, by_tier["long"] + by_tier["alike"]),
    }
    programs = [(PROGRAM, pattern)]
    if pattern == "*" and os.path.exists(EMULATED):
        programs.append((EMULATED, ON_EMULATED))
    listed = [(program, test) for program, filtered in programs for test in list_tests(program, filtered)]
    tests = [chosen for chosen in listed if wanted.get(what, bool)(chosen[1])]
    if what == "rest":
        tests.sort(key=lambda chosen: [is_one_of(chosen[1], [line]) for line in by_tier["long"]].index(True))
    return tests


def main(what):
    by_tier = tiers()
    tests = choose(what, by_tier)
    alone = [(program, test) for program, test in tests if is_one_of(test, by_tier["alone"])]
    together = [chosen for chosen in tests if chosen not in alone]
    runner = Runner()
    shutil.rmtree(f"{BUILD}/emulated/cache", ignore_errors=True)
    if what == "rest":
        for program, test in together:
            runner.add(program, [test])
    else:
        for program in (EMULATED, PROGRAM):  # the chunks of the first take longest
            runner.add(program, [test for of, test in together if of == program])
    start = time.monotonic()
    runner.run(int(os.environ.get("JOBS") or min(4, os.cpu_count() + 1)))
    for program, test in alone:
        runner.add(program, [test])
    runner.run(1)
    with open(f"{BUILD}/tests.json", "w") as file:
        json.dump(runner.cases, file, indent=1)
    for case in sorted(runner.cases, key=lambda case: -case["seconds"])[:5]:
        print(f'{case["seconds"]:9.3f} s  {case["name"]}')
    print_faults(runner.cases)
    count = {
        result: sum(case["result"] == result for case in runner.cases) for result in ("passed", "failed", "skipped")
    }
    print(f"{time.monotonic() - start:.0f} s")
    print(f'{count["passed"]} passed, {count["failed"]} failed, {count["skipped"]} skipped')
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "short"))
