"""Columns: lines that are only a comment end by column 100, so do paragraphs of Markdown (tables,
code and headings may be longer); code in C++ ends by 120. Prints what is longer, and ends with 1.
`--fill` fills such comments and paragraphs instead, and ends with 1 if that would lose a word."""

import re
import sys
import textwrap

PROSE, CODE = 100, 120
CXX = (".cpp", ".h", ".cu", ".cuh")
CXX_COMMENT = re.compile(r"^(\s*)(///?<?)( .*|)$")
OTHER_COMMENT = re.compile(r"^(\s*)(#)( .*|)$")
RULER = re.compile(r"-{4}.*-{4}$")
LIST = re.compile(r"^(\s*)([-*]|\d+\.)\s+")


def wrap(text, first, rest):
    return textwrap.wrap(
        text, PROSE, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def fit_ruler(body, columns):
    """Returns a ruler with fewer dashes at its end, at least four. Its words stay, even if they are too long."""
    words = body.rstrip("-")
    return words + "-" * max(4, min(len(body), columns) - len(words))


def fill_comment(indent, marker, lines):
    """Returns the lines of one comment with its paragraphs filled. Lists, tables and indented lines stay."""
    filled, paragraph = [], []

    def end():
        if paragraph:
            filled.extend(wrap(" ".join(paragraph), f"{indent}{marker} ", f"{indent}{marker} "))
            paragraph.clear()

    for line in lines:
        body = line[1:].rstrip()
        if RULER.match(body):
            body = fit_ruler(body, PROSE - len(indent) - len(marker) - 1)
        if (
            not body
            or "  " in body
            or body[0] in " -*|#"
            or body.startswith("shellcheck ")
            or re.match(r"\d+[.)] ", body)
        ):
            end()
            filled.append(f"{indent}{marker} {body}".rstrip())
        else:
            paragraph.append(body)
    end()
    return filled


def comment_of(name):
    return CXX_COMMENT if name.endswith(CXX) else OTHER_COMMENT


def fill_code(comment, lines):
    filled, i = [], 0
    while i < len(lines):
        head, j = comment.match(lines[i]), i
        while head and j < len(lines) and (m := comment.match(lines[j])) and m.groups()[:2] == head.groups()[:2]:
            j += 1
        block = lines[i : max(j, i + 1)]
        long = head and any(len(line) > PROSE for line in block)
        filled += fill_comment(*head.groups()[:2], [comment.match(line)[3] for line in block]) if long else block
        i += len(block)
    return filled


def paragraphs(lines):
    """Returns (lines, true if they are prose) of a Markdown file: one paragraph, list item or other line at a time."""
    block, fenced, listed = [], False, False
    for line in lines:
        fence = line.startswith("```")
        other = fence or fenced or line.startswith(("|", "#", "!", "<")) or (line.startswith("    ") and not listed)
        fenced ^= fence
        item = LIST.match(line)
        if block and (other or item or not line.strip()):
            yield block, True
            block = []
        listed = bool(item) or (listed and bool(line.strip()))
        if other or not line.strip():
            yield [line], False
        else:
            block.append(line)
    if block:
        yield block, True


def fill_prose(lines):
    filled = []
    for block, is_prose in paragraphs(lines):
        if not is_prose or all(len(line) <= PROSE for line in block):
            filled += block
            continue
        item = LIST.match(block[0])
        first = item[0] if item else re.match(r"\s*", block[0])[0]
        text = " ".join(line.strip() for line in block)
        filled += wrap(LIST.sub("", text) if item else text, first, " " * len(first))
    return filled


def too_long(name, lines):
    """Returns (line number, limit) of each line that is too long."""
    if name.endswith(".md"):
        number = 0
        for block, is_prose in paragraphs(lines):
            for line in block:
                number += 1
                if is_prose and len(line) > PROSE and " " in line.strip()[:PROSE]:
                    yield number, PROSE
        return
    comment, limited = comment_of(name), name.endswith(CXX)
    for number, line in enumerate(lines, 1):
        found = comment.match(line)
        if found and "clang-format" not in line:
            if len(line) > PROSE and not (comment is OTHER_COMMENT and found[3].startswith("  ")):  # a command
                yield number, PROSE
        elif limited and len(line) > CODE and 'R"(' not in line:
            yield number, CODE


def main(arguments):
    fill, names = "--fill" in arguments, [name for name in arguments if name != "--fill"]
    wrong = 0
    for name in names:
        with open(name) as f:
            text = f.read()
        lines = text.split("\n")
        if fill:
            filled = "\n".join(fill_prose(lines) if name.endswith(".md") else fill_code(comment_of(name), lines))
            if re.findall(r"\w+", filled) != re.findall(r"\w+", text):
                print(f"{name}: filling it would lose words; it is left as it is", file=sys.stderr)
                wrong += 1
            elif filled != text:
                with open(name, "w") as f:
                    f.write(filled)
            continue
        for number, limit in too_long(name, lines):
            print(f"{name}:{number}: {len(lines[number - 1])} columns, at most {limit}", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
