"""Plain words in comments and in what the program prints: openings that leave out what a comment is
about, and phrases for which the field has a word of its own."""

import os
import re

# A comment is a sentence about the thing it stands on; these leave that thing out.
OPENINGS = re.compile(r"(Of|By|With|As|What|Whoever|Whatever|Nothing|Those)\b")
# Better: continues or resumes, again or from the start, fixed, separate, N or this many, a user or
# another process, L2 or L3 cache, all-reduced, any number of times.
PHRASES = re.compile(
    r"\b(goes on|go on|going on|anew|mended|of its own|of their own|so many|so much|somebody|nobody|whoever"
    r"|second cache|third cache|sums over ranks|as often as)\b"
)
CODE = (".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".mk", ".sbatch", ".pbs", ".cfg", "Makefile")


def comments(text, mark):
    """(number of its first line, text) of each comment; lines that follow one another are one comment."""
    block, first, last = [], 0, -1
    for number, line in enumerate(text.split("\n"), 1):
        whole, after_code = re.match(rf"\s*{mark} ?(.*)", line), re.search(rf"\s{mark} ?(.*)", line)
        found = whole or after_code
        if block and not (whole and last == number - 1):
            yield first, " ".join(block)
            block = []
        if found:
            first = first if block else number
            block.append(found[1].strip())
            last = number if whole else -1
    if block:
        yield first, " ".join(block)


def literals(text):
    """(number of its line, text) of each string literal of C++."""
    for number, line in enumerate(text.split("\n"), 1):
        for found in re.finditer(r'"((?:[^"\\]|\\.)*)"', line.split("// ")[0]):
            yield number, found[1]


def of_file(path):
    """(line, words) of each comment that opens so, and of each phrase in comments and, in src/, in
    string literals."""
    mark = r"//[/!]?<?" if path.endswith((".cpp", ".h", ".cu", ".cuh")) else r"#(?!!)"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for line, comment in comments(text, mark):
        if opening := OPENINGS.match(comment):
            yield line, opening[0]
        for phrase in PHRASES.finditer(comment):
            yield line, phrase[0]
    for line, literal in literals(text) if path.startswith("src/") and path.endswith((".cpp", ".h")) else ():
        for phrase in PHRASES.finditer(literal):
            yield line, phrase[0]


def by_folder(paths):
    """{folder: ["path:line: words"]}"""
    found = {}
    for path in paths:
        if path.endswith(CODE):
            for line, words in of_file(path):
                found.setdefault(os.path.dirname(path) or ".", []).append(f"{path}:{line}: {words}")
    return found
