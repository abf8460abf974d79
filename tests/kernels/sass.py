#!/usr/bin/env python3
"""What the compiler made of CUDA kernels: one row a kernel, from the machine code in objects or in libconvoy_cuda.so.

sass.py [--arch sm_90] [--kernels REGEX] FILE... prints registers, spills and the loads of the row loop, which is the
loop with the most loads of its widest kind. Loads in flight are those of them that are issued before the first of
their registers is read. It needs cuobjdump and nvdisasm, in $CUDA/bin or in the path; without them it says so."""

import argparse
import os
import re
import shutil
import subprocess
import sys

REGISTERS_OF_SM, THREADS_OF_SM, WARP = 65536, 2048, 32
THREADS = {"finish_sums": 1024}  # threads of a block; all other kernels have:
DEFAULT_THREADS = 256
HEAD = ("kernel", "registers", "spills", "blocks an SM", "row loads", "in flight", "KiB in flight an SM")
SHORT = (("(anonymous namespace)::", ""), ("convoy::kernels::", ""), ("__nv_bfloat16", "bf16"), ("__half", "f16"))

FUNCTION = re.compile(r"^\s*Function\s*:?\s*(\S+?):?$")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
REGISTER = re.compile(r"\bR(\d+)\b")


def dumped(cuobjdump, what, arch, path):
    # cuobjdump starts the nvdisasm that it finds in the path.
    near = {**os.environ, "PATH": os.path.dirname(cuobjdump) + os.pathsep + os.environ.get("PATH", "")}
    command = [cuobjdump, "-arch", arch, what, path]
    done = subprocess.run(command, env=near, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.split("\n")


def registers_of(lines):
    """{function: registers a thread}"""
    found, name = {}, None
    for line in lines:
        name = m[1] if (m := FUNCTION.match(line)) else name
        if name and (m := re.search(r"\bREG:(\d+)", line)):
            found[name] = int(m[1])
    return found


def code_of(lines):
    """{function: [(address, opcode, operands)]}"""
    found, code = {}, []
    for line in lines:
        if m := FUNCTION.match(line):
            code = found[m[1]] = []
        elif m := INSTRUCTION.match(line):
            code.append((int(m[1], 16), m[2], m[3]))
    return found


def bytes_of_load(opcode):
    """Of LDG.E.128 16, of others as they say; 0 of what is no load from global memory."""
    if not opcode.startswith("LDG"):
        return 0
    bits = next((int(p) for p in opcode.split(".") if p in ("64", "128")), 32)
    return 2 if "U16" in opcode else 1 if "U8" in opcode else bits // 8


def row_loop(code):
    """The instructions of the loop with the most of the widest loads; of two such loops the shorter."""
    loops = []
    for end, (address, opcode, operands) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)", operands) if opcode.startswith("BRA") else None
        if target and int(target[1], 16) < address:
            start = next(i for i, c in enumerate(code) if c[0] >= int(target[1], 16))
            widths = [bytes_of_load(c[1]) for c in code[start : end + 1]]
            loops.append((max(widths), widths.count(max(widths)), start - end, start, end + 1))
    return code[max(loops)[3] : max(loops)[4]] if loops and max(loops)[0] else []


def reads(opcode, operands):
    """The registers that an instruction names as sources. Stores have no other."""
    sources = operands if opcode.startswith(("ST", "RED", "ATOM")) else operands.partition(",")[2]
    return {int(r) for r in REGISTER.findall(sources)}


def loads_of(loop):
    """(bytes of one, how many in the loop, how many before the first use)"""
    width = max((bytes_of_load(opcode) for _, opcode, _ in loop), default=0)
    count = sum(width > 0 and bytes_of_load(opcode) == width for _, opcode, _ in loop)
    loaded, flying = set(), 0
    for _, opcode, operands in loop:
        if loaded & reads(opcode, operands):
            break
        if width and bytes_of_load(opcode) == width:
            first = int(REGISTER.search(operands)[1])
            loaded |= set(range(first, first + max(1, width // 4)))
            flying += 1
    return width, count, flying


def blocks_of_sm(registers, threads):
    """By registers, which are given to a warp in units of 256, and by threads."""
    a_warp = -(-registers * WARP // 256) * 256
    return min(REGISTERS_OF_SM // (a_warp * -(-threads // WARP)), THREADS_OF_SM // threads)


def row(name, registers, code):
    threads = THREADS.get(name.partition("<")[0], DEFAULT_THREADS)
    blocks = blocks_of_sm(registers, threads)
    spills = sum(opcode.startswith(("STL", "LDL")) for _, opcode, _ in code)
    width, count, flying = loads_of(row_loop(code))
    loads = f"{count} of {width} bytes" if count else "none"
    return name, registers, spills, blocks, loads, flying, f"{blocks * threads * flying * width / 1024:.0f}"


def short(names):
    """As written in C++, without parameters, namespaces and long types."""
    plain = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    found = {}
    for name, text in zip(names, plain.stdout.split("\n")):
        for long, brief in SHORT:
            text = text.replace(long, brief)
        found[name] = re.sub(r"\bfloat\b", "f32", text).replace(" >", ">")
    return found


def table(cuobjdump, arch, pattern, files):
    rows = []
    for path in files:
        registers = registers_of(dumped(cuobjdump, "--dump-resource-usage", arch, path))
        code = code_of(dumped(cuobjdump, "--dump-sass", arch, path))
        names = short(list(code))
        rows += [row(names[f], registers[f], code[f]) for f in code if re.search(pattern, names[f])]
    return [HEAD, ("---",) + ("---:",) * (len(HEAD) - 1)] + sorted(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--kernels", default="", help="a regular expression")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    beside = os.path.join(os.environ.get("CUDA", "/usr/local/cuda"), "bin")
    cuobjdump = shutil.which("cuobjdump", path=beside + os.pathsep + os.environ.get("PATH", ""))
    if not cuobjdump:
        print(f"skipped: no cuobjdump in {beside} or the path (pip: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)")
        return
    for cells in table(cuobjdump, options.arch, options.kernels, options.files):
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
