"""Which tests a command of run.py runs: by tier (tiers.txt), by name, or by what changed (since.txt)."""

import fnmatch
import glob
import json
import os
import subprocess
import tempfile
from typing import NamedTuple

BUILD = os.environ.get("BUILD", "build")
PROGRAM, EMULATED = f"{BUILD}/convoy_tests", f"{BUILD}/emulated/convoy_tests"
# Tests that need a GPU and take at most some seconds on the emulated device: all except those of
# the largest models, and those that only a real GPU can pass.
ON_EMULATED = (
    "CudaAccept.*:CudaRankTuning.*:CudaBackends.*:CudaBranches.*:CudaChips.*:CudaDevice.*:CudaEnvironment.*"
    ":CudaGpuScript.*"
    ":CudaOldGpus.*:CudaOrder.*:CudaRuns.*:CudaTuning.*:CudaVirtualRanks.*:PlacementOnGpus.*"
    ":CudaVersions.*:*CudaDeviceSteps*:*/cuda*"
    "-*ADeviceThatIs*:*pyramidnet*:*_cifar*:*CudaDeviceSteps*resnet*"
    ":*resnet50*kernels:*resnet50*plans"
)
TIERS = ("check", "unchecked", "long", "nightly", "alone", "alike")
# Number of shares of the nightly tests; each commit runs one of them.
SHARES = 3


class Test(NamedTuple):
    program: str
    name: str  # All/SUITE.NAME/PARAMETER
    file: str  # tests/FOLDER/NAME_test.cpp


def tiers(path="tests/tiers.txt"):
    """Returns {tier: patterns} of the lines "tier: PATTERN  # reason"."""
    with open(path) as file:
        lines = [line.split("#")[0].partition(": ") for line in file]
    return {tier: [pattern.strip() for name, _, pattern in lines if name == tier] for tier in TIERS}


def is_one_of(test, patterns):
    """Returns true if a test has one of these names; a pattern that begins with "tests/" is of files."""
    return any(
        fnmatch.fnmatchcase(test.file if pattern.startswith("tests/") else test.name, pattern) for pattern in patterns
    )


def with_instances(pattern):
    """Returns the pattern, and the same for tests with parameters: "Ops*" is "All/Ops.Forward/…" too."""
    wanted, _, unwanted = pattern.partition("-")
    wider = ":".join(f"{part}:*/{part}" for part in wanted.split(":") if part)
    return wider + (f"-{unwanted}" if unwanted else "")


def list_tests(program, pattern="*"):
    """Returns the tests that match a GoogleTest pattern, in their order."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [program, "--gtest_list_tests", f"--gtest_filter={pattern}", f"--gtest_output=json:{report.name}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        suites = json.load(report)["testsuites"]
    listed = [(suite["name"], test) for suite in suites for test in suite["testsuite"]]
    tests = [Test(program, f'{suite}.{test["name"]}', test["file"]) for suite, test in listed]
    return [test for test in tests if "DISABLED_" not in test.name]


# ---- tests that changed files can break ----------------------------------------------------------
def changed_since(commit):
    """Returns paths that differ from a commit, and files that git does not know yet."""
    paths = []
    differs = ["diff", "--no-renames", "--name-only", "--end-of-options", commit, "--"]
    for command in (differs, ["ls-files", "--others", "--exclude-standard"]):
        said = subprocess.run(["git", *command], capture_output=True, text=True)
        if said.returncode:
            raise SystemExit(f"SINCE={commit}: {said.stderr.strip().splitlines()[0]}; name a commit or a branch")
        paths += said.stdout.splitlines()
    return sorted(set(paths))


def table(path="tests/since.txt"):
    """Returns [(pattern of paths, patterns of tests)] of the lines "PATHS: TESTS…"."""
    with open(path) as file:
        lines = [line.split("#")[0].partition(": ") for line in file]
    return [(paths, names.split()) for paths, _, names in lines if names and " " not in paths]


def headers_of(source):
    """Returns headers that declare what a source defines: those with its name, else those it
    includes from its folder."""
    header = os.path.splitext(source)[0] + ".h"
    if not source.endswith(".cpp") or os.path.exists(header):
        return {header}
    folder = os.path.dirname(source)
    try:
        with open(source) as file:
            included = [line.split('"')[1] for line in file if line.startswith('#include "')]
    except OSError:
        return set()  # deleted
    return {f"src/{name}" for name in included if os.path.dirname(f"src/{name}") == folder}


def included_by(source):
    """Returns the paths that a source includes, from the compiler; None if it was not compiled yet."""
    try:
        with open(f"{BUILD}/{os.path.splitext(source)[0]}.d") as file:
            return set(file.read().replace("\\\n", " ").split())
    except OSError:
        return None


def named_for(changed):
    """Returns the patterns of tests that since.txt names for each changed path, also of tests with
    parameters; "*" for a path without a line."""
    lines = table()
    found = [[names for paths, names in lines if fnmatch.fnmatchcase(path, paths)] or [["*"]] for path in changed]
    names = sorted({name for of_path in found for names in of_path for name in names})
    return names + [f"*/{name}" for name in names if name != "*"]


def users_of(headers):
    """Returns the sources in src/ that include one of these headers, according to the compiler."""
    found = glob.glob(f"{BUILD}/src/**/*.d", recursive=True)
    bodies = [f"{os.path.splitext(os.path.relpath(path, BUILD))[0]}.cpp" for path in found]
    return [body for body in bodies if included_by(body) & headers]


def breakable(tests, changed):
    """Returns those tests that the changed files can break: tests that include a changed header or
    the header of a source that uses it, and tests that since.txt names."""
    names = named_for(changed)
    if "*" in names:
        return list(tests)
    sources = set(changed).union(*(headers_of(path) for path in changed if path.startswith("src/")))
    sources = sources.union(*(headers_of(user) for user in users_of(sources)))
    reached = {}
    for file in {test.file for test in tests}:
        included = included_by(file)
        reached[file] = included is None or bool(included & sources)
    return [test for test in tests if reached[test.file] or is_one_of(test, names)]


def print_left_out(tests, chosen):
    """Prints one line that names the suites of which no test runs."""
    suites = [sorted({test.name.split(".")[0].split("/")[-1] for test in group}) for group in (tests, chosen)]
    left_out = [suite for suite in suites[0] if suite not in suites[1]]
    print(f"runs {len(chosen)} of {len(tests)} tests; left out: {' '.join(left_out) or 'no suite'}", flush=True)


# ---- shares of the nightly tests -----------------------------------------------------------------
def commit_number():
    """Returns the number of commits up to this one; None if git does not know it, as in a shallow clone."""
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    said = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    return int(said.stdout) if shallow.stdout.strip() == "false" and said.returncode == 0 else None


def yesterday():
    """Returns the last commit that is a day older than the newest one, or an empty string."""
    when = subprocess.run(["git", "log", "-1", "--format=%ct"], capture_output=True, text=True).stdout.strip()
    if not when:
        return ""
    command = ["git", "log", "-1", "--format=%H", f"--before={int(when) - 86400}"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def share(tests, patterns, number):
    """Returns the nightly tests that commit `number` runs: every third line of tiers.txt, or all without a number."""
    if number is None:
        return list(tests)
    return [test for test in tests if is_one_of(test, patterns[number % SHARES :: SHARES])]


# ---- all together --------------------------------------------------------------------------------
WHOLE_TIERS = ("check", "short", "rest", "all", "bare")


def is_in(tier, by_tier):
    """Returns true if a test belongs to one of WHOLE_TIERS; a pattern of names takes all that it matches."""
    slow = by_tier["long"] + by_tier["nightly"]
    return {
        "check": lambda test: is_one_of(test, by_tier["check"]) and not is_one_of(test, slow + by_tier["unchecked"]),
        "short": lambda test: not is_one_of(test, slow),
        "rest": lambda test: is_one_of(test, slow),
        "bare": lambda test: not is_one_of(test, slow + by_tier["alike"]),
    }.get(tier, lambda test: True)


def of_this_commit(tests, by_tier):
    """Returns the long tests in the order of tiers.txt, then the nightly ones that this commit runs.
    Each commit begins the nightly ones at another line, because CI may have no time for the last ones."""
    nightly = [test for test in tests if not is_one_of(test, by_tier["long"])]
    number = commit_number()
    chosen = share(nightly, by_tier["nightly"], number)
    if last := yesterday():
        names = [name for name in named_for(changed_since(last)) if name != "*"]
        chosen += [test for test in nightly if test not in chosen and is_one_of(test, names)]
    which = "all, without a number of commits" if number is None else f"share {number % SHARES + 1} of {SHARES}"
    print(f"nightly tests: {len(chosen)} ({which}; also of folders changed since {last[:12] or 'never'})", flush=True)
    first = (number or 0) % max(1, len(by_tier["nightly"]))
    lines = by_tier["long"] + by_tier["nightly"][first:] + by_tier["nightly"][:first]
    tests = [test for test in tests if test not in nightly or test in chosen]
    return sorted(tests, key=lambda test: [is_one_of(test, [line]) for line in lines].index(True))


def choose(what, since=""):
    """Returns (tests, those of them that run alone, those that may be left out for want of time) of
    a tier or a pattern; `since`: only those that changes can break."""
    by_tier = tiers()
    tests = list_tests(PROGRAM, "*" if what in WHOLE_TIERS else with_instances(what))
    if what in WHOLE_TIERS and what != "check" and os.path.exists(EMULATED):
        tests += list_tests(EMULATED, ON_EMULATED)
    tests = list(filter(is_in(what, by_tier), tests))
    if what == "rest":
        tests = of_this_commit(tests, by_tier)
    if since:
        chosen = breakable(tests, changed_since(since))
        print_left_out(tests, chosen)
        tests = chosen
    alone, nightly = ([test for test in tests if is_one_of(test, by_tier[tier])] for tier in ("alone", "nightly"))
    return tests, alone, nightly if what == "rest" else []
