"""The structure tests' parser of C++ and CUDA sources, without a compiler: includes, and the types
and functions with their scopes and lines. It relies on the form that clang-format gives."""

import re
from dataclasses import dataclass

# Comments, literals and preprocessor lines: they contain no braces and no names.
BLANKED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.S | re.M | re.X,
)
TYPE = re.compile(
    r"""(?:^|[\s>])(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\([^)]*\)\s*)?
    ([\w:]+(?:<[^{;]*?>)?)\s*(?:final\s*)?(?::(?!:).*)?$""",
    re.S | re.X,
)
FUNCTION_TAIL = re.compile(r"\)\s*(?:(?:const|override|final|noexcept|mutable|try|&&?)\s*|->[\w:<>*&,\s]+)*$")
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


@dataclass
class Scope:
    """A pair of braces. `kind`: namespace, type, function or other; `name` is empty for an
    anonymous namespace; lines count from 1, the first is that of the header."""

    kind: str
    name: str
    first_line: int
    last_line: int
    parents: tuple


def without_text(source):
    """Returns the source with comments, literals and preprocessor lines blanked; lines keep their places."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)


def kind_of(header, inside_function):
    """Returns (kind, name) of the braces that follow `header`."""
    namespace = re.search(r"\bnamespace(\s+[\w:]+)?$", header)
    if namespace:
        return "namespace", (namespace[1] or "").strip()
    if re.search(r"\bextern\s*$", header):
        return "namespace", "extern"
    if inside_function:
        return "other", ""
    if "(" not in re.sub(r"alignas\([^)]*\)", "", header) and (found := TYPE.search(header)):
        return "type", found[1]
    initialised = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", header) and header.endswith(("{}", ")"))
    if FUNCTION_TAIL.search(header) or initialised:
        return "function", re.sub(r"\s+", " ", header)
    return "other", ""


def scopes(source):
    """Returns every pair of braces outside functions, and each function as a whole."""
    text = without_text(source)
    found, open_, header, line, header_line = [], [], "", 1, 1
    for c in text:
        if c == "{":
            inside = any(scope.kind in ("function", "other") for scope in open_)
            kind, name = kind_of(ACCESS.sub(" ", header).strip(), inside)
            open_.append(Scope(kind, name, header_line, 0, tuple((s.kind, s.name) for s in open_)))
            open_[-1].header = header
            header = ""
        elif c == "}" and open_:
            scope = open_.pop()
            scope.last_line = line
            found.append(scope)
            # Initialiser of a member or variable: its declaration continues.
            header = scope.header + "{}" if scope.kind == "other" else ""
            header_line = scope.first_line if scope.kind == "other" else line
        elif c == ";":
            header = ""
        else:
            if not header.strip() and not c.isspace():
                header, header_line = "", line
            header += c
        line += c == "\n"
    return found


def functions(source):
    """Returns (name, lines from the first of the header to the closing brace, first line)."""
    for scope in scopes(source):
        if scope.kind == "function":
            parts = [name for kind, name in scope.parents if name]
            yield "::".join(parts + [name_of(scope.name)]), scope.last_line - scope.first_line + 1, scope.first_line


def name_of(header):
    """Returns the name in a function's header; for a test its macro's arguments, as in Resume.ContinuesBitForBit."""
    test = re.search(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", header)
    if test:
        return f"{test[1]}.{test[2]}"
    head = header.split("(", 1)[0] if "operator()" not in header else header.split("operator()")[0] + "operator()"
    return head.split()[-1].lstrip("*&") if head.split() else header


def types(source):
    """Returns (qualified name, line) of each type that other files could name."""
    for scope in scopes(source):
        hidden = any(
            kind in ("function", "other") or (kind == "namespace" and not name) for kind, name in scope.parents
        )
        if scope.kind == "type" and not hidden:
            yield "::".join([name for _, name in scope.parents] + [scope.name]), scope.first_line


def includes(source):
    """Returns (path, line) of each #include in quotes."""
    for number, text in enumerate(source.split("\n"), 1):
        if found := re.match(r'\s*#\s*include\s+"([^"]+)"', text):
            yield found[1], number
