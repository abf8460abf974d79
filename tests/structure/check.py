"""Rules about the sources themselves: `check.py RULE`, from the repository root, prints what breaks
the rule and ends with 1. allowed.txt, or $ALLOWED, names what is exempt; a line there that exempts nothing is an
error too, so that the list shrinks."""

import ast
import collections
import fnmatch
import os
import re
import subprocess
import sys

import cpp
import words

FILE_LINES, FUNCTION_LINES = 400, 60
# Maximum lines of READMEs that are read from start to end.
README_LINES = {"README.md": 120, "tests/README.md": 120}
ALGORITHM = re.compile(
    r"std::(?:ranges::(?!views|begin|end|size|data|range|view)\w+"
    r"|(?:stable_|partial_)?sort|(?:any|all|none)_of|(?:lower|upper)_bound|equal_range|binary_search|(?:min|max)_element"
    r"|(?:find|count|copy|remove|replace)(?:_if)?|(?:copy|fill|for_each|generate)_n|fill|transform|reverse|equal|rotate"
    r"|partition|unique|clamp|minmax|mismatch|is_sorted|shuffle|search|merge|nth_element)\b(?=\()"
)
HERE = os.path.dirname(os.path.abspath(__file__))


def tracked(*endings):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [f for f in listed.stdout.split("\n") if f.endswith(endings) and os.path.exists(f)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def cpp_files(*roots):
    return [f for f in tracked(".cpp", ".h", ".cu", ".cuh") if not roots or f.startswith(roots)]


def files():
    """No file of code is longer than 400 lines; the READMEs keep to theirs."""
    for path in tracked(".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".mk", "Makefile", ".sbatch", ".pbs"):
        if (lines := read(path).count("\n")) > FILE_LINES:
            yield path, f"{lines} lines, at most {FILE_LINES}"
    for path, most in README_LINES.items():
        if os.path.exists(path) and (lines := read(path).count("\n")) > most:
            yield path, f"{lines} lines, at most {most}"


def functions_of(path):
    source = read(path)
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, node.end_lineno - node.lineno + 1, node.lineno
    elif path.endswith(".sh"):
        for found in re.finditer(r"^([\w-]+)\(\)\s*\{.*?^\}", source, re.M | re.S):
            yield found[1], found[0].count("\n") + 1, source.count("\n", 0, found.start()) + 1
    else:
        yield from cpp.functions(source)


def functions():
    """No function is longer than 60 lines, from its header to its closing brace."""
    for path in tracked(".cpp", ".h", ".cu", ".cuh", ".py", ".sh"):
        for name, lines, first in functions_of(path):
            if lines > FUNCTION_LINES:
                yield f"{path} {name}", f"{lines} lines from line {first}, at most {FUNCTION_LINES}"


def types():
    """No type that other files could name is defined in two files, src and tests together."""
    places = collections.defaultdict(set)
    for path in cpp_files("src/", "kernels/", "tests/"):
        for name, _ in cpp.types(read(path)):
            places[name].add(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield name, "defined in " + " and in ".join(sorted(paths))


def symbols():
    """No function or variable is defined at two places in objects that are linked together: the
    linker takes one inline definition and does not report the others. $OBJECTS names files with the
    objects of one program each. Inline definitions are told apart by their line, because the
    compiler attributes members that it generates to the including file."""
    for program in os.environ["OBJECTS"].split():
        listed = subprocess.run(
            ["nm", "-A", "-l", "--defined-only", "--extern-only", *read(program).split()],
            capture_output=True,
            text=True,
            check=True,
        )
        places = collections.defaultdict(dict)
        for found in re.finditer(
            r"^(.*?):[0-9a-f]+ (\w) (_ZT?[A-Z]?N?[A-Z]?6convoy\w+)(?:\t(.*):(\d+))?$", listed.stdout, re.M
        ):
            inline = found[2] in "WVui"
            if not inline or found[5]:
                places[found[3]].setdefault(
                    found[5] if inline else found[1], f"{found[4] or ''}:{found[5] or ''} in {found[1]}"
                )
        for symbol, definitions in sorted(places.items()):
            if len(definitions) > 1:
                yield symbol, f"{program}: " + " and ".join(sorted(definitions.values()))


def folder_of(path):
    folder = os.path.dirname(path.removeprefix("src/"))
    return folder or "src"


def include_edges():
    """Returns {(folder, folder): an example} of the includes among src's folders and kernels."""
    edges = {}
    for path in cpp_files("src/", "kernels/"):
        for name, line in cpp.includes(read(path)):
            target = next(
                (t for t in (f"src/{name}", name, f"{os.path.dirname(path)}/{name}") if os.path.exists(t)), None
            )
            if target and folder_of(target) != folder_of(path):
                edges.setdefault((folder_of(path), folder_of(target)), f"{path}:{line} includes {name}")
    return edges


def cycles():
    """No two folders of src include one another, not even through others."""
    edges = include_edges()
    reached = {folder: {b for a, b in edges if a == folder} for folder in {f for edge in edges for f in edge}}
    grown = True
    while grown:
        grown = False
        for folder, far in reached.items():
            more = set().union(*(reached[f] for f in far)) - far if far else set()
            grown = grown or bool(more)
            far |= more
    for (a, b), example in sorted(edges.items()):
        if a in reached[b]:
            yield f"{a} -> {b}", example


def permitted():
    """Returns {folder: folders that it may include}, from the table of src/README.md."""
    table, above = {}, []
    rows = re.findall(r"^\| (`\w+/`(?:, `\w+/`)*) \| [^|]+ \| ([^|]*)\|$", read("src/README.md"), re.M)
    for names, allowed_names in rows:
        folders = re.findall(r"`(\w+)/`", names)
        every, _, but = allowed_names.strip().partition("all above")
        listed = set(above) - set(re.findall(r"\w+", but)) if "all above" in allowed_names else set()
        listed |= set(re.findall(r"\w+", every)) & set(above)
        table |= {folder: listed for folder in folders}
        above += folders
    return table


def rooms():
    """A folder includes only what its row in the table of src/README.md names."""
    table = permitted()
    for (a, b), example in sorted(include_edges().items()):
        a, b = a.split("/")[0], b.split("/")[0]
        if a != b and a != "src" and b not in table.get(a, set()):
            yield f"{a} -> {b}", example


def algorithms():
    """A file that uses an algorithm of the standard library includes <algorithm>. Other headers of GCC 12
    include it, those of GCC 14 do not."""
    for path in cpp_files():
        source = read(path)
        used = ALGORITHM.search(cpp.without_text(source))
        if used and not re.search(r"^#include <algorithm>", source, re.M):
            yield path, f"uses {used[0]}, and does not include <algorithm>"


def suites():
    """A test's suite is named after its file: runs/resume_test.cpp holds Resume, or ResumeOf…;
    those of cuda/ and kernels/ begin with Cuda and Kernel."""
    for path in cpp_files("tests/"):
        if not path.endswith("_test.cpp"):
            continue
        folder, file = path.split("/")[-2:]
        stem = file.removesuffix("_test.cpp").title().replace("_", "")
        wanted = {"cuda": "Cuda", "kernels": "Kernel"}.get(folder, "") + stem
        for suite in set(re.findall(r"^TEST(?:_F|_P)?\((\w+),", read(path), re.M)):
            if not suite.startswith((wanted, stem)):
                yield f"{path} {suite}", f"suites of this file start with {wanted}"


def test_names():
    """Returns {file: names} of tests without parameters, and the same of tests with them, which begin with */."""
    named = re.compile(r"^(?:TYPED_)?TEST(_F|_P)?\((\w+),\s*(\w+)\)", re.M)
    plain, with_parameters = {}, {}
    for path in cpp_files("tests/"):
        for kind, suite, name in named.findall(read(path)):
            (with_parameters if kind == "_P" else plain).setdefault(path, []).append(f"{suite}.{name}")
    return plain, with_parameters


def tiers():
    """Each line of tests/tiers.txt names a test that there is, or a file of tests, and a reason."""
    plain, with_parameters = test_names()
    tests = {"": sum(plain.values(), []), "*/": sum(with_parameters.values(), [])}
    tier = r"(?:check|unchecked|long|nightly|alone|alike)"
    for line in read("tests/tiers.txt").split("\n"):
        if found := re.match(tier + r": (tests/\S+)?((?:\*/)?)([^/\s]*)\S*(  # \S.*)?$", line):
            suite_and_name = found[3] if "." in found[3] else found[3] + ".*"
            names = [*plain, *with_parameters] if found[1] else tests[found[2]]
            if not fnmatch.filter(names, found[1] or suite_and_name):
                yield line, "no such test"
            if not found[4]:
                yield line, "no reason"


def since():
    """Each line of tests/since.txt names files and tests that there are; each folder of sources has one."""
    plain, with_parameters = test_names()
    tests = sum(plain.values(), []) + [f"All/{name}/cuda" for name in sum(with_parameters.values(), [])]
    paths = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    lines = [line.partition(": ") for line in read("tests/since.txt").split("\n")]
    lines = [(pattern, names.split()) for pattern, _, names in lines if names and " " not in pattern]
    for pattern, names in lines:
        if not fnmatch.filter(paths, pattern):
            yield pattern, "no such file"
        for name in names:
            if not fnmatch.filter(tests, name):
                yield f"{pattern}: {name}", "no such test"
    for path in paths:
        if path.startswith(("src/", "kernels/")) and not any(fnmatch.fnmatchcase(path, line[0]) for line in lines):
            yield path, "no line of tests/since.txt says which tests it can break"


def plain_words():
    """No comment opens as words.py lists, or has one of its phrases. allowed.txt has a number per folder,
    which may only fall."""
    for folder, found in sorted(words.by_folder(tracked(*words.CODE)).items()):
        yield f"{folder} {len(found)}", ", ".join(found[:20]) + ", …" * (len(found) > 20)


RULES = {
    rule.__name__: rule
    for rule in (files, functions, types, symbols, cycles, rooms, algorithms, suites, tiers, since, plain_words)
}


def allowed(rule):
    """Returns {what: reason} of the lines "rule: what  # reason"."""
    listed = read(os.environ.get("ALLOWED", f"{HERE}/allowed.txt")).split("\n")
    lines = [line for line in listed if line.startswith(f"{rule}: ")]
    return {line.split(": ", 1)[1].split("  # ")[0].strip(): line.partition("  # ")[2] for line in lines}


def main(rule):
    exempt, wrong, used = allowed(rule), [], set()
    for what, why in RULES[rule]():
        if what in exempt:
            used.add(what)
        else:
            wrong.append(f"{what}: {why}")
    wrong += [
        f"allowed.txt exempts {what} from '{rule}', which keeps to it now: remove the line"
        for what in exempt
        if what not in used
    ]
    wrong += [f"allowed.txt says no reason for {what}" for what, reason in exempt.items() if not reason]
    print("".join(line + "\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
