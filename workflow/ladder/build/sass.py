"""What a rung compiled to: its SASS by nvdisasm, its inner loops, and what the instructions of each are."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ladder.build.toolchain import Nvcc, tool_beside
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

# Opcodes by what they are, in the order of tables and figures; NVIDIA's names: CUDA Binary Utilities, Instruction Set
# Reference. What is in none of them is `other`.
CLASSES = {
    "FFMA": r"FFMA2?",
    "HMMA": r"[A-Z]?MMA",
    "HGMMA": r"[A-Z]GMMA",
    "LDS": r"LDS|LDSM",
    "STS": r"STS|STSM",
    "LDG": r"LDG|LD",
    "STG": r"STG|ST",
    "LDGSTS": r"LDGSTS|UTMALDG|UBLKCP",
    "BAR": r"BAR|B2R|DEPBAR|LDGDEPBAR|SYNCS|ARRIVES|WARPSYNC|WARPGROUP|UCGABAR_\w+|ERRBAR|MEMBAR",
    # Integer arithmetic and logic, moves between registers, and reads of constants and special registers.
    "integer": r"U?(IADD\w*|IMAD\w*|IMUL\w*|ISETP|IABS|LEA|LOP3?|PLOP3|SHF|SHL|SHR|IMNMX|VIADD\w*|VIMNMX\w*|VOTE\w*"
    r"|BMSK|SGXT|POPC|FLO|PRMT|SEL|MOV|R2UR|S2R|S2UR|CS2R|LDC|LDCU)",
}
MULTIPLYING = ("HGMMA", "HMMA", "FFMA")  # the classes that a product is computed by, the fastest unit first
_UNITS = (*MULTIPLYING, "FMUL")  # the last for a compiler that joins no product with its sum, as cuTile's
_CLASSES = {name: re.compile(pattern) for name, pattern in CLASSES.items()}
_FUNCTION = re.compile(r"^\s*(\d+):.* FUNC .* (\S+)$", re.MULTILINE)  # of readelf: its index and name
_KERNEL = re.compile(r"^\.text\.", re.MULTILINE)
_LINE = re.compile(
    r'^(?:(\S+):|\s+/\*([0-9a-f]{4,})\*/\s+([^;\n]*?)\s*;|\s*//## File "([^"]+)", line (\d+))', re.MULTILINE
)
_LABEL = re.compile(r"`\(([^)]+)\)")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\s*$")
_WIDTH = re.compile(r"\.(64|128)\b")
_REGISTER = re.compile(r"\bR(\d+)\b(\.reuse)?")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its offset in bytes from the kernel's start, its text, and the source line that it is of.

    `file` is as the compiler names it, and empty without line information. `opcode` and `kind` follow from the text:
    what the functions of those names say of it.
    """

    offset: int
    text: str
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    opcode: str = field(init=False, compare=False)
    kind: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Work out once what every count asks for."""
        name = opcode(self.text)
        object.__setattr__(self, "opcode", name)
        object.__setattr__(self, "kind", class_of(name))

    @property
    def width_bits(self) -> int:
        """Bits that a thread loads or stores with it: 128, 64, else 32."""
        match = _WIDTH.search(_PREDICATE.sub("", self.text).split()[0])
        return int(match[1]) if match else 32

    def is_of(self, unit: str) -> bool:
        """Whether it multiplies with a unit that `unit_of` names."""
        return unit in (self.kind, self.opcode)

    @property
    def target(self) -> int | None:
        """The offset that a branch jumps to; None for what is no direct branch."""
        match = _TARGET.search(self.text) if self.opcode == "BRA" else None
        return int(match[1], 16) if match else None


@cache
def opcode(text: str) -> str:
    """The opcode of an instruction without its modifiers: `LDS` of `@!P0 LDS.128 R4, [R2]`."""
    return _PREDICATE.sub("", text).split()[0].split(".")[0]


@cache
def class_of(name: str) -> str:
    """The class of CLASSES that an opcode without modifiers belongs to, or `other`."""
    return next((kind for kind, pattern in _CLASSES.items() if pattern.fullmatch(name)), "other")


def multiplications(counts: Mapping[str, int]) -> tuple[int, ...]:
    """How many instructions multiply, by MULTIPLYING: of several kernels or loops the greatest computes the product.

    One HGMMA outranks any number of HMMAs, and one of these any number of FFMAs: a kernel that has the faster unit uses
    the slower one beside it only. `counts` is by the names of CLASSES, of instructions or of how often warps executed
    them.
    """
    return tuple(counts.get(name, 0) for name in MULTIPLYING)


def disassemble(library: Path, symbols: Collection[str], nvcc: Nvcc | None = None) -> dict[str, list[Instruction]]:
    """The instructions of these kernels of a library, by their mangled names, without the NOPs that fill their ends.

    A library launches kernels of the cubins that lie beside it too.

    Raises LadderError where the tools beside nvcc, or those that are found, cannot read it.
    """
    listings = []
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        _said(library, tool_beside(nvcc, "cuobjdump"), "-xelf", "all", library.resolve(), folder=folder)
        for cubin in sorted([*Path(folder).glob("*.cubin"), *library.parent.resolve().glob("*.cubin")]):
            listed = _said(library, Path("readelf"), "--syms", "--wide", cubin)
            kernels = [index for index, name in _FUNCTION.findall(listed) if name in symbols]
            if kernels:  # -ndf leaves out an analysis of jumps that nothing here reads; -g adds source lines
                chosen = ["-fun", ",".join(kernels)]
                listings.append(_said(library, tool_beside(nvcc, "nvdisasm"), "-c", "-ndf", "-g", *chosen, cubin))
    return {name: body for listing in listings for name, body in parse(listing).items()}


def _said(library: Path, tool: Path, *arguments: str | Path, folder: str | None = None) -> str:
    result = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr.strip() or result.stdout.strip() or f"exit status {result.returncode}").splitlines()[-1]
        raise LadderError(f"{tool}: cannot read {library}: {said}; it has to be of nvcc's own toolkit")
    return result.stdout


def parse(listing: str) -> dict[str, list[Instruction]]:
    """`disassemble` from nvdisasm's listing; a label in an instruction becomes the offset that it stands for."""
    found = {}
    for part in _KERNEL.split(listing)[1:]:
        name, _, code = part.partition(":\n")
        offsets, body = {name: "0"}, []
        waiting: list[str] = []  # the labels of the next instruction
        file, line = "", 0  # of all instructions to the next that the listing names
        for label, offset, text, named, number in _LINE.findall(code):
            if label:
                waiting.append(label)
                continue
            if named:
                file, line = named, int(number)
                continue
            offsets.update(dict.fromkeys(waiting, offset))
            waiting.clear()
            if opcode(text) != "NOP":
                body.append((int(offset, 16), " ".join(text.split()), file, line))
        found[name] = [
            Instruction(offset, _placed(text, offsets) if "`" in text else text, *source)
            for offset, text, *source in body
        ]
    return found


def _placed(text: str, offsets: Mapping[str, str]) -> str:
    """An instruction with the offsets of labels, in hexadecimal digits, in their place."""
    return _LABEL.sub(lambda label: f"0x{int(offsets[label[1]], 16):x}" if label[1] in offsets else label[0], text)


def unit_of(instructions: Iterable[Instruction]) -> str:
    """The fastest unit that any of these instructions multiplies with (`Instruction.is_of`); empty where none does."""
    names = {name for each in instructions for name in (each.kind, each.opcode)}
    return next((unit for unit in _UNITS if unit in names), "")


def loops(body: Sequence[Instruction]) -> list[list[Instruction]]:
    """The natural loops of a kernel, in the order of their first instructions.

    A. Aho et al., Compilers, 2nd edition, section 9.6: a back edge is a branch to an earlier instruction that every way
    to the branch leads through; its loop is all that reaches the branch without that instruction. What the compiler has
    put elsewhere than between the two, as it does with waits that seldom repeat, is left out. A branch to itself, which
    ends every kernel, is no loop.
    """
    jumps = _jumps(body)
    # Basic blocks, by the places of their instructions: control enters at the first and leaves from the last alone.
    ends = {0, len(body), *(place + 1 for place in jumps), *(place for to in jumps.values() for place in to)}
    blocks = [range(*pair) for pair in itertools.pairwise(sorted(ends))]
    number_of = {block.start: number for number, block in enumerate(blocks)}
    after = [[number_of[p] for p in jumps.get(block[-1], [block.stop]) if p < len(body)] for block in blocks]
    before: list[list[int]] = [[] for _ in blocks]
    for number, following in enumerate(after):
        for other in following:
            before[other].append(number)
    places = {each.offset: place for place, each in enumerate(body)}
    found = []
    for last, block in enumerate(blocks):
        target = body[block[-1]].target
        start = places.get(target, block[-1]) if target is not None else block[-1]
        if start < block[-1] and last not in _reached(0, after, avoided=number_of[start]):
            first = number_of[start]
            inside = [first, *sorted(n for n in _reached(last, before, avoided=first) if first < n <= last)]
            found.append((start, block[-1], [body[place] for number in inside for place in blocks[number]]))
    return [loop for _, _, loop in sorted(found, key=lambda item: item[:2])]


def _jumps(body: Sequence[Instruction]) -> dict[int, list[int]]:
    """Where control may go from each instruction from which it may go elsewhere than to the next, all by their places.

    A call returns; an indirect branch leads nowhere.
    """
    places = {each.offset: place for place, each in enumerate(body)}
    joined: dict[str, int] = {}  # where the warps of a barrier (BSSY) meet again (BSYNC)
    jumps = {}
    for place, each in enumerate(body):
        if each.opcode not in ("BRA", "BSSY", "BSYNC", "EXIT", "RET", "BRX"):
            continue
        operands = _PREDICATE.sub("", each.text).replace(",", " ").split()[1:]
        always = not each.text.startswith("@") and len(operands) <= 1
        if each.opcode == "BSSY" and (target := _TARGET.search(each.text)):
            joined[operands[0]] = int(target[1], 16)
        if each.target is not None:
            inside = [places[each.target]] if each.target in places else []
            jumps[place] = inside + ([] if always else [place + 1])
        elif each.opcode == "BSYNC" and always and joined.get(operands[0]) in places:
            jumps[place] = [places[joined[operands[0]]]]
        elif each.opcode in ("EXIT", "RET", "BRX") and not each.text.startswith("@"):
            jumps[place] = []
    return jumps


def _reached(start: int, edges: Sequence[Sequence[int]], avoided: int) -> set[int]:
    """The places that edges lead to from `start`, itself among them, by ways without `avoided`."""
    if start == avoided:
        return set()
    reached, waiting = {start}, [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other != avoided and other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def inner_loop(body: Sequence[Instruction]) -> list[Instruction]:
    """The loop that the product is computed in, by the fastest unit that any loop of the kernel multiplies with.

    Of the loops that hold no other that multiplies so, the one with most such instructions; of equals the shortest,
    which has no guards at the edges. Empty where no loop multiplies.
    """
    found = loops(body)
    unit = unit_of(each for loop in found for each in loop)
    spans = [(loop[0].offset, loop[-1].offset, sum(each.is_of(unit) for each in loop)) for loop in found]
    chosen = innermost(spans)
    return found[spans.index(chosen)] if chosen else []


def innermost(spans: Sequence[tuple[int, int, int]]) -> tuple[int, int, int] | None:
    """Of spans (first, last, how much multiplies in it) the one with most among those that hold no other that does.

    Of equals the shortest; None where nothing multiplies.
    """
    computing = [span for span in spans if span[2]]
    holding = {outer for outer in computing for inner in computing if inner != outer and _within(inner, outer)}
    return max((span for span in computing if span not in holding), key=lambda s: (s[2], s[0] - s[1]), default=None)


def _within(inner: tuple[int, int, int], outer: tuple[int, int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def mix(body: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions of each class there are, in the order of CLASSES, `other` last."""
    counted = Counter(each.kind for each in body)
    return {name: counted[name] for name in [*CLASSES, "other"]}


def source_lines(body: Sequence[Instruction]) -> list[dict[str, Any]]:
    """The source lines that instructions are of, in the order of file and line; empty without line information.

    Keys: file (a path in this project, or a name), line, text (empty where the file cannot be read), instructions (how
    many), and mix (how many of each class that there is).
    """
    places: dict[tuple[str, int], list[Instruction]] = {}
    for each in body:
        if each.line:
            places.setdefault((each.file, each.line), []).append(each)
    found = []
    for (file, line), own in places.items():
        counts = {kind: count for kind, count in mix(own).items() if count}
        place = {"file": source_name(file), "line": line, "text": line_text(file, line)}
        found.append({**place, "instructions": len(own), "mix": counts})
    return sorted(found, key=lambda each: (each["file"], each["line"]))


def source_name(file: str) -> str:
    """How a source file of line information is named: its path in this project, or else its name."""
    inside = file.rpartition("/kernels/")
    return "kernels/" + inside[2] if inside[1] else file.rpartition("/")[2]


def line_text(file: str, line: int) -> str:
    """A line of a source that a compiler names by its path, maybe from the project's folder; empty if unreadable.

    What was compiled in another checkout is looked for in this one.
    """
    lines = _lines_of(ROOT / file) or _lines_of(ROOT / source_name(file))
    return lines[line - 1].strip() if line <= len(lines) else ""


@cache
def _lines_of(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def widths(body: Sequence[Instruction]) -> dict[str, dict[str, int]]:
    """How many loads and stores there are by class and bits a thread."""
    kinds = ("LDS", "STS", "LDG", "STG", "LDGSTS")
    counted = Counter((each.kind, str(each.width_bits)) for each in body if each.kind in kinds)
    return {kind: {bits: counted[kind, bits] for bits in ("32", "64", "128")} for kind in kinds}


def bank_conflicts(body: Sequence[Instruction]) -> tuple[int, int]:
    """FFMAs whose three sources lie in one register bank, and source operands kept in the reuse cache.

    Since Volta a register file has two banks, even and odd registers, each 64 bits wide; an FFMA waits where all three
    of its different sources are in one, less those that the instruction before left in the reuse cache of the same
    place: Z. Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, section 3.4.
    """
    conflicts = reused = 0
    held: dict[int, int] = {}
    for each in body:
        multiplies = each.kind == "FFMA"
        if not multiplies and ".reuse" not in each.text:
            held = {}
            continue
        registers = _sources(each.text)
        if multiplies:
            read = {number for place, number, _ in registers if held.get(place) != number}
            conflicts += len(read) == 3 and len({number % 2 for number in read}) == 1
            reused += sum(kept for _, _, kept in registers)
        held = {place: number for place, number, kept in registers if kept}
    return conflicts, reused


@cache
def _sources(text: str) -> list[tuple[int, int, bool]]:
    """The registers that an instruction reads: which operand, its number, and whether the reuse cache keeps it."""
    operands = _PREDICATE.sub("", text).partition(" ")[2].split(",")[1:]
    found = ((place, _REGISTER.search(operand)) for place, operand in enumerate(operands))
    return [(place, int(match[1]), match[2] is not None) for place, match in found if match]


def code_summary(body: Sequence[Instruction]) -> dict[str, Any]:
    """What a kernel or a loop of it is made of.

    Keys: instructions, mix (`mix`), widths (`widths`), bank_conflicts and reused_operands (of FFMAs).
    """
    conflicts, reused = bank_conflicts(body)
    return {
        "instructions": len(body),
        "mix": mix(body),
        "widths": widths(body),
        "bank_conflicts": conflicts,
        "reused_operands": reused,
    }


def ratios(loop: Mapping[str, Any]) -> dict[str, float]:
    """What the counts of an inner loop say for each FFMA; empty where its product is computed by another unit.

    `loop` is of `code_summary`.

    Keys: ffma_share (of issue slots), shared_loads_per_ffma and global_loads_per_ffma (instructions),
    load_bytes_per_ffma (bytes that a thread's loads bring into registers), and wavefronts_per_ffma: the fewest passes
    through the load/store data pipe, one for a warp's load of 32 or 64 bits and two for one of 128, which is what
    Nsight Compute counts where all lanes of a warp read one address.
    """
    *tensor, count = multiplications(loop["mix"])
    if any(tensor) or not count:
        return {}
    loads = [(int(bits), number) for kind in ("LDS", "LDG") for bits, number in loop["widths"][kind].items()]
    loaded = sum(bits // 8 * number for bits, number in loads)
    return {
        "ffma_share": count / loop["instructions"],
        "shared_loads_per_ffma": loop["mix"]["LDS"] / count,
        "global_loads_per_ffma": loop["mix"]["LDG"] / count,
        "load_bytes_per_ffma": loaded / count,
        "wavefronts_per_ffma": sum((2 if bits == 128 else 1) * number for bits, number in loads) / count,
    }


# A tensor core's product by its name: HGMMA.64x128x8.F32.TF32 has m, n and k of a group of four warps; HMMA.16816.F32
# and HMMA.1688.F32.TF32 are a warp's, 16 x 8 results with 16 and 8 steps of k. Without a type, numbers are FP16.
_HGMMA = re.compile(r"\bHGMMA\.(\d+)x(\d+)x(\d+)((?:\.\w+)*)")
_HMMA = re.compile(r"\bHMMA\.(16)(8)(\d+)((?:\.\w+)*)")


def tensor_work(lines: Iterable[str]) -> tuple[str, float]:
    """The type of numbers that a warp's tensor core instructions in these lines of SASS multiply, and their FLOP.

    The type is `TF32`, `BF16` or `FP16`, empty where there are none or several; four warps share a group's FLOP.
    """
    types, total = set(), 0.0
    for line in lines:
        found = _HGMMA.search(line) or _HMMA.search(line)
        if found:
            modifiers = found[4].split(".")
            types.add(next((name for name in ("TF32", "BF16") if name in modifiers), "FP16"))
            total += 2 * math.prod(map(int, found.groups()[:3])) / (4 if found.re is _HGMMA else 1)
    return types.pop() if len(types) == 1 else "", total


_PTX_LABEL = re.compile(r"^(\$\w+):")
_PTX_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_PTX_NEXT = re.compile(r"^\.(visible|weak|entry|func|extern)\b", re.MULTILINE)  # of the next function
_PTX_MULTIPLYING = ("wgmma.mma_async.", "mma.sync.", "fma.rn.f32")  # as MULTIPLYING


def ptx_loop(ptx: str, symbol: str) -> list[str]:
    """The inner loop of a kernel in PTX, found as in SASS; without line information; empty where there is none."""
    start = re.search(rf"\.entry {re.escape(symbol)}\(", ptx)
    if start is None:
        return []
    rest = ptx[start.end() :]
    end = _PTX_NEXT.search(rest)
    lines = [line.strip() for line in rest[: end.start() if end else None].splitlines()]
    lines = [line for line in lines if line and not line.startswith((".loc", "//", ".pragma"))]
    labels = {match[1]: place for place, line in enumerate(lines) if (match := _PTX_LABEL.match(line))}
    found = []
    for place, line in enumerate(lines):
        match = _PTX_BRANCH.search(line)
        if match and labels.get(match[1], place) < place:
            found.append((labels[match[1]], place))
    for unit in _PTX_MULTIPLYING:
        before = [0, *itertools.accumulate(unit in line for line in lines)]  # each line
        spans = [(first, last, before[last + 1] - before[first]) for first, last in found]
        if chosen := innermost(spans):
            return lines[chosen[0] : chosen[1] + 1]
    return []
