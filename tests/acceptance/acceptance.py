#!/usr/bin/env python3
"""The standard tests that Convoy replaces, one row each: what theirs gives, what Convoy gives.

acceptance.py [--short] [--only REGEX] [--convoy FILE] [--mnist PATH] [--cifar10 PATH] [--output DIR] [--page FILE]

--short leaves out what takes minutes. --mnist and --cifar10 are data sets of Convoy's or what
`convoy convert` takes; without them: input/mnist and input/cifar10, else ../shared/data beside the
checkout. A row whose data is not here is skipped, and says so. Runs stay in --output, if it is given.
--page writes the rows as a page of
Markdown. The exit code is 1 if a row is not as expected.
"""

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time

from rows import ROWS
from standard import Context, Failed, Skipped, ROOT, machine


def main():
    a = arguments()
    os.chdir(ROOT)
    with contextlib.ExitStack() as stack:
        a.output = a.output or stack.enter_context(tempfile.TemporaryDirectory(prefix="convoy-acceptance-"))
        sys.exit(1 if failed_rows(a) else 0)


def failed_rows(a):
    """How many; each row is printed as it ends."""
    rows = [row for row in ROWS if (row.short or not a.short) and re.search(a.only, row.name)]
    if not rows:
        sys.exit(f"acceptance: no row is called {a.only!r}; there are: " + ", ".join(row.name for row in ROWS))
    context = Context(a)
    results = []
    for row in rows:
        start = time.time()
        result = outcome(row, context)
        results.append((row, *result, time.time() - start))
        print(" | ".join([row.name, row.expected, *result, row.source]), flush=True)
    if a.page:
        with open(a.page, "w") as page:
            page.write(page_of(results, a))
    counted = {said: sum(ok == said for _, _, ok, _ in results) for said in ("ok", "NOT ok", "skipped")}
    print(f"{counted['ok']} passed, {counted['NOT ok']} failed, {counted['skipped']} skipped")
    return counted["NOT ok"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--convoy", default=os.path.join(ROOT, "build", "convoy"))
    parser.add_argument("--mnist", default="")
    parser.add_argument("--cifar10", default="")
    parser.add_argument("--output", default="")
    parser.add_argument("--page", default="")
    return parser.parse_args()


def outcome(row, context):
    """What was got, and "ok", "NOT ok" or "skipped"."""
    try:
        got, ok = row.check(context)
        return got, "ok" if ok else "NOT ok"
    except Skipped as why:
        return str(why), "skipped"
    except Failed as why:
        return str(why), "NOT ok"


def page_of(results, a):
    lines = [
        "# The standard tests",
        "",
        f"Written by `make acceptance {'SHORT=yes ' if a.short else ''}PAGE=tests/acceptance/RESULTS.md`;",
        "[what each test is](../../input/recipes/tests/README.md).",
        "",
        machine(a.convoy).replace("; ", ";\n", 1) + (" Without the rows that take minutes." if a.short else ""),
        "",
        "| test | expected | got | | seconds | source of what is expected |",
        "|---|---|---|---|---|---|",
    ]
    for row, got, ok, seconds in results:
        cells = [row.name, row.expected, got, ok, f"{seconds:.0f}", row.source]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
