"""Runs tests and ends with "N passed, N failed, N skipped": `run.py [check|short|rest|all|bare|PATTERN]`.

selection.py says which tests these are. With $SINCE=COMMIT, only tests run that files changed since
that commit can break. Several processes take turns at chunks of the tests, $JOBS or one more than
cores up to four, because most tests wait more than they compute. The tests that took longest the
last time start first."""

import json
import math
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

from selection import BUILD, EMULATED, PROGRAM, WHOLE_TIERS, choose

# Settings for tests, many of which share few cores. Waiting threads sleep at once, and OpenMPI does
# not search for network cards at each start, which takes 0.2 s. Values that are already set stay.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OMPI_MCA_pml": "ob1"}
# Total seconds of the tests of one start: few enough that no process runs the last ones alone for
# long. TIMES holds each test's time in its last run.
CHUNK = 8
TIMES = f"{BUILD}/test-times.json"


def read_times():
    """Returns {PROGRAM NAME: seconds} of each test's last run."""
    try:
        with open(TIMES) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def write_times(cases):
    ran = [case for case in cases if case["result"] != "skipped"]
    times = read_times() | {f'{case["program"]} {case["name"]}': case["seconds"] for case in ran}
    with open(f"{TIMES}.partial", "w") as file:
        json.dump(times, file, indent=1)
    os.replace(f"{TIMES}.partial", TIMES)


class Runner:
    """Takes chunks (program, tests) from `chunks` until there are none. Keeps the cases of GoogleTest's reports.
    Chunks that hold only tests of `nightly` are left out when the clock passes `until`."""

    def __init__(self, nightly=(), until=math.inf):
        self.nightly, self.until = {(test.program, test.name) for test in nightly}, until
        self.chunks, self.lock = queue.SimpleQueue(), threading.Lock()
        self.cases, self.total, self.done = [], 0, 0

    def add(self, tests, times, are_long):
        """Cuts the tests into chunks of one program each, and starts with those that take longest."""
        # There are many tests with parameters, and most are short.
        def seconds(test):
            unknown = CHUNK if are_long else CHUNK / 24 if "/" in test.name else CHUNK / 8
            return times.get(f"{test.program} {test.name}", unknown)

        chunks = []
        for program in (EMULATED, PROGRAM):
            length = math.inf  # the first one begins a chunk
            for test in sorted((test for test in tests if test.program == program), key=seconds, reverse=True):
                if length + seconds(test) > CHUNK:
                    chunks.append((program, []))
                    length = 0
                chunks[-1][1].append(test)
                length += seconds(test)
        for program, chunk in sorted(chunks, key=lambda chunk: -sum(map(seconds, chunk[1]))):
            self.put(program, [test.name for test in chunk])

    def put(self, program, names):
        self.chunks.put((program, names))
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
            if time.time() < self.until or not {(program, test) for test in tests} <= self.nightly:
                self.run_chunk(number, program, tests)
            else:
                self.leave_out(program, tests)

    def leave_out(self, program, tests):
        with self.lock:
            self.done += 1
            self.cases += [{"name": test, "result": "skipped", "seconds": 0, "program": program} for test in tests]
            print(f"[{self.done}/{self.total}] left out, because it is late: {' '.join(tests)}", flush=True)

    def run_chunk(self, number, program, tests):
        report = f"{program}-{number}.json"
        environment = ENVIRONMENT | dict(os.environ) | {"XDG_CACHE_HOME": os.path.abspath(f"{BUILD}/cache")}
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
        if ended.returncode and not any(case["result"] == "failed" for case in cases):
            # A sanitizer found a leak, or a library crashed when it was closed.
            said = f"ended with {ended.returncode}, though each test passed: {' '.join(tests)}"
            failed = {"name": "Program.EndsWell", "result": "failed", "seconds": 0}
            cases.append(failed | {"program": program, "said": said})
        with self.lock:
            self.cases += cases
            self.done += 1
            self.say(cases, ended.stdout, time.monotonic() - start)

    def crashed(self, program, tests, ended):
        """Handles a program that ended early: the test that ran failed, and those after it get another start."""
        begun = [line.split("] ")[1].strip() for line in ended.stdout.split("\n") if line.startswith("[ RUN      ] ")]
        failed = [test for test in begun[-1:] if test in tests] or tests
        if rest := [test for test in tests if test not in failed]:
            self.put(program, rest)
        said = f"ended early with {ended.returncode}"
        return [{"name": test, "result": "failed", "seconds": 0, "program": program, "said": said} for test in failed]

    def say(self, cases, log, seconds):
        failed = [case for case in cases if case["result"] == "failed"]
        print(f"[{self.done}/{self.total}] {cases[0]['name']}: {len(cases)} tests, {seconds:.1f} s", flush=True)
        for case in failed:
            print(f"FAILED {case['name']} {case.get('said', '')}\n{log_of(case['name'], log)}", flush=True)


def log_of(test, log):
    """Returns a test's output, between the lines that say that it runs and that it is over."""
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
            "processor_seconds": float(test.get("processor_seconds", 0)),
            "program": program,
        }
        cases.append(case | {key: value for key, value in test.items() if key.startswith("fault")})
    return cases


def print_faults(cases):
    """Prints the table of faults of tests/faults/README.md, in the long form of the fault tests."""
    rows = [(case, key) for case in cases for key in case if key.startswith("fault")]
    if os.environ.get("CONVOY_LONG") and rows:
        print("\n| fault | promised | observed | runs |\n|---|---|---|---|")
        for case, key in rows:
            print(f'| {case[key]} |{" **FAILED**" if case["result"] == "failed" else ""}')
        print()


def main(what):
    tests, alone, nightly = choose(what, os.environ.get("SINCE", ""))
    if not tests:
        print("0 passed, 0 failed, 0 skipped")
        return 0 if os.environ.get("SINCE") and what in WHOLE_TIERS else 1
    runner, times = Runner(nightly, float(os.environ.get("NIGHTLY_UNTIL", "inf"))), read_times()
    shutil.rmtree(f"{BUILD}/emulated/cache", ignore_errors=True)
    start = time.monotonic()
    runner.add([test for test in tests if test not in alone], times, are_long=what == "rest")
    runner.run(int(os.environ.get("JOBS") or min(4, os.cpu_count() + 1)))
    for test in alone:
        runner.put(test.program, [test.name])
    runner.run(1)
    write_times(runner.cases)
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
