"""Plants the mistakes of mistakes.txt and says which tests notice each:
`run.py [--only N,N] [--fast-only]`.

All mistakes are in one build of a copy of the sources, in $BUILD/mistakes/tree; $CONVOY_MISTAKE
chooses one at run time. First the tests of `make check` run without any, and note the places that
they come to: only tests that come to a mistake's place can notice it. Then they run with each
mistake, and where all pass, the other unit tests and the suites that mistakes.txt names."""

import argparse
import collections
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, f"{ROOT}/tests")
import selection  # noqa: E402
from run import ENVIRONMENT  # noqa: E402

BUILD = os.path.abspath(os.environ.get("BUILD", f"{ROOT}/build"))
PLACE = f"{BUILD}/mistakes"
TREE = f"{PLACE}/tree"
# If make check misses a mistake, all tests of these folders run.
UNIT_FOLDERS = ("unit", "ops", "kernels", "golden")
MOST_WAITED = 900  # seconds for all tests that reach a mistake
JOBS = int(os.environ.get("JOBS") or min(4, os.cpu_count() + 1))
Mistake = collections.namedtuple("Mistake", "number file before right after wrong suites")


def read_list(path):
    """Returns the mistakes by their numbers."""
    mistakes, head, text = {}, None, None
    with open(path, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            if found := re.fullmatch(r"(\d+) (\S+) ?(\S*)", line):
                head = found
            elif line.startswith("- "):
                text = line[2:]
            elif line.startswith("+ "):
                before, right, after = re.fullmatch(r"(.*)«(.*)»(.*)", text).groups() if "«" in text else ("", text, "")
                number = int(head[1])
                if number in mistakes:
                    sys.exit(f"{path}: number {number} stands there twice")
                mistakes[number] = Mistake(number, head[2], before, right, after, line[2:], head[3])
            elif line and not line.startswith("#"):
                sys.exit(f"{path}: cannot be read: {line}")
    return mistakes


def planted(source, mistakes):
    """Returns the source with a switch at the place of each mistake."""
    places = []
    for m in mistakes:
        whole = m.before + m.right + m.after
        if source.count(whole) != 1:
            sys.exit(f"{m.file}: the text of mistake {m.number} stands there {source.count(whole)} times: {whole}")
        start = source.index(whole) + len(m.before)
        choose = "{{ if (convoy::mistakes::made({0})) {{ {1} }} else {{ {2} }} }}"
        if not m.right.endswith(";"):
            choose = "(convoy::mistakes::made({0}) ? ({1}) : ({2}))"
        places.append((start, start + len(m.right), choose.format(m.number, m.wrong, m.right)))
    for start, end, text in sorted(places, reverse=True):
        source = source[:start] + text + source[end:]
    return '#include "tests/mistakes/mistake.h"\n' + source


def write_if_other(path, content):
    """Writes a file. One that has this content already keeps its time, for make."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def make_tree(mistakes):
    """Updates the copy of the sources, with all mistakes in it."""
    by_file = collections.defaultdict(list)
    for m in mistakes.values():
        by_file[m.file].append(m)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = {f for f in listed.stdout.split("\0") if os.path.isfile(f"{ROOT}/{f}") and not f.startswith(".deps")}
    for folder, _, names in os.walk(TREE):
        if os.path.relpath(folder, TREE).split("/")[0] in ("build", ".deps"):
            continue
        for name in names:
            path = f"{folder}/{name}"
            if os.path.relpath(path, TREE) not in files and not os.path.islink(path):
                os.remove(path)
    for file in files:
        with open(f"{ROOT}/{file}", "rb") as source:
            content = source.read()
        if file in by_file:
            content = planted(content.decode(), by_file.pop(file)).encode()
        if file == "tests/main.cpp":
            listener = b"testing::UnitTest::GetInstance()->listeners().Append(new convoy::mistakes::NameOfTest);\n    "
            content = b'#include "tests/mistakes/begin_test.h"\n' + content.replace(
                b"return RUN_ALL_TESTS", listener + b"return RUN_ALL_TESTS"
            )
        write_if_other(f"{TREE}/{file}", content)
        shutil.copymode(f"{ROOT}/{file}", f"{TREE}/{file}")
    if by_file:
        sys.exit(f"mistakes.txt names files that are not there: {', '.join(by_file)}")
    if not os.path.islink(f"{TREE}/.deps"):
        os.symlink(f"{ROOT}/.deps", f"{TREE}/.deps")


def build():
    """Builds the programs without the CUDA backend. Kernels are compiled for the host if CUDA's headers are present."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "BUILD"}
    targets = ["build/convoy", "build/convoy_tests"]
    flags = ["CUDA_ON=", f"-j{os.cpu_count()}"]
    if subprocess.run(["make", "--no-print-directory", *flags, *targets], cwd=TREE, env=environment).returncode:
        sys.exit("the copy with the mistakes cannot be built")


def is_built(file):
    """Returns false for kernels if CUDA's headers are missing, and for winograd.cpp unless the compiler is GCC."""
    stem = os.path.splitext(file)[0]
    objects = (f"{stem}.o", f"tests/kernels/fibers/{os.path.basename(stem)}.o")
    return file.endswith((".h", ".cuh")) or any(os.path.exists(f"{TREE}/build/{path}") for path in objects)


class Program:
    """Runs tests of the copy, several processes at a time."""

    def __init__(self):
        self.numbers, self.lock = 0, threading.Lock()

    def run(self, tests, seconds, **variables):
        """Runs tests. Returns failures as {test: how}, and {test: seconds} of those that passed. A
        crash or the time limit ends the run."""
        with self.lock:
            self.numbers += 1
            place = f"{PLACE}/run-{self.numbers}"
        with open(f"{place}.flags", "w") as file:
            file.write("--gtest_filter=" + ":".join(tests) + "\n--gtest_color=no\n")
            if "CONVOY_MISTAKE" in variables:
                file.write("--gtest_fail_fast=1\n")
        cache = f"{PLACE}/cache"
        os.makedirs(cache, exist_ok=True)
        if "CONVOY_MISTAKE" in variables:  # files that it leaves do not affect another mistake
            cache = shutil.copytree(cache, f"{place}.cache")
        environment = ENVIRONMENT | dict(os.environ) | {"XDG_CACHE_HOME": cache} | variables
        if os.geteuid() == 0:  # mpirun refuses root without these variables
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        how = ""
        with open(f"{place}.log", "w") as log:
            process = subprocess.Popen(
                ["build/convoy_tests", f"--gtest_flagfile={place}.flags"],
                cwd=TREE,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                if process.wait(seconds):
                    how = f"ended with {process.returncode}"
            except subprocess.TimeoutExpired:
                how = "hangs"
                os.killpg(process.pid, 9)
                process.wait()
        with open(f"{place}.log", errors="replace") as log:
            text = log.read()
        shutil.rmtree(f"{place}.cache", ignore_errors=True)
        for file in (f"{place}.flags", f"{place}.log"):
            os.remove(file)
        return outcome_of(text, how)


def outcome_of(log, how):
    """Returns the outcome like Program.run(). A program that fails after its last test has passed
    did not fail a test."""
    wrong, passed = {}, {}
    for result, test, milliseconds in re.findall(r"^\[ +(OK|FAILED) +\] ([^\s,]+).* \((\d+) ms\)$", log, re.M):
        if result == "OK":
            passed[test] = int(milliseconds) / 1000
        else:
            wrong[test] = "fails"
    begun = re.findall(r"^\[ RUN      \] (\S+)$", log, re.M)
    skipped = set(re.findall(r"^\[  SKIPPED \] (\S+)", log, re.M))
    if how and not begun:
        wrong["start"] = how
    elif how and not wrong and begun[-1] not in passed and begun[-1] not in skipped:
        wrong[begun[-1]] = how
    return wrong, passed


def suites_of(folders):
    """Returns the suites in these folders of tests/, as a GoogleTest pattern."""
    suites = set()
    for folder in folders:
        for path in glob.glob(f"{ROOT}/tests/{folder}/*_test.cpp"):
            with open(path) as file:
                suites.update(re.findall(r"^TEST(?:_F|_P)?\((\w+),", file.read(), re.M))
    return ":".join(f"{suite}.*:*/{suite}.*" for suite in sorted(suites))


def list_tests(pattern="*"):
    """Returns the tests that match a pattern, without those of the sources themselves, because the
    copy is no checkout."""
    tests = selection.list_tests(f"{TREE}/build/convoy_tests", pattern)
    return [test for test in tests if not test.file.startswith("tests/structure/")]


def look(program, pool, tests):
    """Runs tests without a mistake. Returns ({number: the tests that reach it}, {test: seconds}).
    Failing tests are left out, and named."""
    file = f"{PLACE}/reached"
    if os.path.exists(file):
        os.remove(file)

    def run_all(chunk):
        times = {}
        while chunk:
            wrong, passed = program.run(chunk, MOST_WAITED, CONVOY_MISTAKES_REACHED=file)
            times |= passed
            for test, how in wrong.items():
                print(f"without a mistake, and left out: {test} {how}", flush=True)
            ended = [test for test, how in wrong.items() if how != "fails"]
            chunk = chunk[chunk.index(ended[0]) + 1 :] if ended and ended[0] in chunk else []
        return times

    count = (len(tests) + 19) // 20
    times = {}
    for passed in pool.map(run_all, [tests[first::count] for first in range(count)]):  # neighbours take equally long
        times |= passed
    reached = collections.defaultdict(set)
    if os.path.exists(file):
        with open(file) as lines:
            for line in lines:
                test, number = line.split()
                if test in times:
                    reached[int(number)].add(test)
    return reached, times


def notice(program, pool, mistakes, reached, times):
    """Returns {number: the test that noticed it, "" if none did}, by the tests of `times`."""

    def try_one(number):
        tests = [test for test in reached[number] if test in times]
        seconds = min(30 + 5 * sum(times[test] for test in tests), MOST_WAITED)
        wrong = program.run(tests, seconds, CONVOY_MISTAKE=str(number))[0] if tests else {}
        noticed = " ".join(f"{test} {how}" for test, how in list(wrong.items())[:1])
        print(f"{number}: {noticed or '-'} ({len(tests)} tests come to it)", flush=True)
        return number, noticed

    return dict(pool.map(try_one, mistakes))


def wider_pattern(mistakes):
    """Returns the suites that mistakes.txt names for these mistakes."""
    parts = {part for m in mistakes for part in m.suites.split(":") if part}
    return ":".join(f"{part}:*/{part}" for part in sorted(parts)) or "none"


def main(o):
    mistakes = read_list(f"{HERE}/mistakes.txt")
    os.makedirs(TREE, exist_ok=True)
    make_tree(mistakes)
    build()
    wanted = [int(n) for n in o.only.split(",")] if o.only else sorted(mistakes)
    absent = [number for number in wanted if not is_built(mistakes[number].file)]
    wanted = [number for number in wanted if number not in absent]
    if absent:
        print(f"left out, because their files are not compiled here: {absent}")
    start = time.monotonic()
    program, pool = Program(), concurrent.futures.ThreadPoolExecutor(JOBS)
    is_fast = selection.is_in("check", selection.tiers(f"{ROOT}/tests/tiers.txt"))
    reached, fast = look(program, pool, [test.name for test in list_tests() if is_fast(test)])
    print(f"{len(fast)} tests of make check, {sum(fast.values()):.0f} s one after the other", flush=True)
    by_fast = notice(program, pool, wanted, reached, fast)
    left = [number for number in wanted if not by_fast[number]]
    by_other = dict.fromkeys(wanted, "")
    if left and not o.fast_only:
        pattern = f"{suites_of(UNIT_FOLDERS)}:{wider_pattern([mistakes[number] for number in left])}"
        others = [test.name for test in list_tests(pattern) if test.name not in fast]
        by_other |= notice(program, pool, left, *look(program, pool, others))
    report(mistakes, wanted, by_fast, by_other)
    print(f"{time.monotonic() - start:.0f} s without the build")


def report(mistakes, wanted, by_fast, by_other):
    print("\n| mistake | place | noticed by |\n|---|---|---|")
    for number in wanted:
        who = by_fast[number] or (by_other[number] and f"{by_other[number]}, slow") or "**nothing**"
        print(f"| {number} | {mistakes[number].file} | {who} |")
    fast = sum(bool(by_fast[number]) for number in wanted)
    slow = sum(bool(by_other[number]) for number in wanted)
    none = len(wanted) - fast - slow
    print(f"\n{len(wanted)} mistakes: {fast} noticed by make check, {slow} by other tests, {none} by none")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="numbers of mistakes, as in 3,17")
    parser.add_argument("--fast-only", action="store_true", help="only the tests of make check")
    main(parser.parse_args())
