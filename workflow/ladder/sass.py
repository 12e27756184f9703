"""What a rung compiled to: its SASS by cuobjdump, its inner loops, and what the instructions of each are."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.errors import LadderError
from ladder.toolchain import Nvcc, tool_beside

# Opcodes by what they are, in the order of tables and figures; NVIDIA's names: CUDA Binary Utilities, Instruction Set
# Reference. What is in none of them is `other`.
CLASSES = {
    "FFMA": r"FFMA2?",
    "LDS": r"LDS|LDSM",
    "STS": r"STS|STSM",
    "LDG": r"LDG|LD",
    "STG": r"STG|ST",
    "LDGSTS": r"LDGSTS|UTMALDG|UBLKCP",
    "BAR": r"BAR|B2R|DEPBAR|LDGDEPBAR|SYNCS|ARRIVES|WARPSYNC|ERRBAR|MEMBAR",
    # Integer arithmetic and logic, moves between registers, and reads of constants and special registers.
    "integer": r"U?(IADD\w*|IMAD\w*|IMUL\w*|ISETP|IABS|LEA|LOP3?|PLOP3|SHF|SHL|SHR|IMNMX|VIADD\w*|VIMNMX\w*|VOTE\w*"
    r"|BMSK|SGXT|POPC|FLO|PRMT|SEL|MOV|R2UR|S2R|S2UR|CS2R|LDC|LDCU)",
}
_CLASSES = {name: re.compile(pattern) for name, pattern in CLASSES.items()}
_FUNCTION = re.compile(r"^\s*Function : (\S+)")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\s*$")
_WIDTH = re.compile(r"\.(64|128)\b")
_REGISTER = re.compile(r"\bR(\d+)\b(\.reuse)?")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its offset in bytes from the kernel's start, and its text."""

    offset: int
    text: str

    @property
    def opcode(self) -> str:
        """The opcode without its modifiers: `LDS` of `@!P0 LDS.128 R4, [R2]`."""
        return _PREDICATE.sub("", self.text).split()[0].split(".")[0]

    @property
    def kind(self) -> str:
        """The class of CLASSES that it belongs to, or `other`."""
        return next((name for name, pattern in _CLASSES.items() if pattern.fullmatch(self.opcode)), "other")

    @property
    def width_bits(self) -> int:
        """Bits that a thread loads or stores with it: 128, 64, else 32."""
        match = _WIDTH.search(_PREDICATE.sub("", self.text).split()[0])
        return int(match[1]) if match else 32

    @property
    def target(self) -> int | None:
        """The offset that a branch jumps to; None for what is no direct branch."""
        match = _TARGET.search(self.text) if self.opcode == "BRA" else None
        return int(match[1], 16) if match else None


def disassemble(library: Path, nvcc: Nvcc | None = None) -> dict[str, list[Instruction]]:
    """The instructions of each kernel of a library, by its mangled name; the NOPs that fill its end are left out.

    Raises LadderError where the cuobjdump beside nvcc, or the one that is found, cannot read it.
    """
    tool = tool_beside(nvcc, "cuobjdump")
    result = subprocess.run([tool, "-sass", library], capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr.strip() or result.stdout.strip() or f"exit status {result.returncode}").splitlines()[-1]
        raise LadderError(f"{tool}: cannot read {library}: {said}; it has to be of nvcc's own toolkit")
    return parse(result.stdout)


def parse(listing: str) -> dict[str, list[Instruction]]:
    """`disassemble` from cuobjdump's listing."""
    found: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in listing.splitlines():
        if match := _FUNCTION.match(line):
            current = found.setdefault(match[1], [])
        elif match := _INSTRUCTION.match(line):
            current.append(Instruction(int(match[1], 16), " ".join(match[2].split())))
    return {name: [each for each in body if each.opcode != "NOP"] for name, body in found.items()}


def loops(body: Sequence[Instruction]) -> list[list[Instruction]]:
    """The loops of a kernel by their back edges: a branch to an earlier instruction, and all that lies between.

    A branch to itself, which ends every kernel, is none.
    """
    spans = {(each.target, each.offset) for each in body if each.target is not None and each.target < each.offset}
    return [[each for each in body if first <= each.offset <= last] for first, last in sorted(spans)]


def inner_loop(body: Sequence[Instruction]) -> list[Instruction]:
    """The loop that the product is computed in: of those that hold no other with FFMAs, the one with most FFMAs.

    Of equals the shortest, which has no guards at the edges. Empty where no loop has an FFMA.
    """
    computing = [loop for loop in loops(body) if _ffmas(loop)]
    innermost = [
        loop
        for loop in computing
        if not any(_within(other, loop) for other in computing if other is not loop and len(other) < len(loop))
    ]
    return max(innermost, key=lambda loop: (_ffmas(loop), -len(loop)), default=[])


def _within(inner: Sequence[Instruction], outer: Sequence[Instruction]) -> bool:
    return outer[0].offset <= inner[0].offset and inner[-1].offset <= outer[-1].offset


def _ffmas(body: Sequence[Instruction]) -> int:
    return sum(each.kind == "FFMA" for each in body)


def mix(body: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions of each class there are, in the order of CLASSES, `other` last."""
    counted = Counter(each.kind for each in body)
    return {name: counted[name] for name in [*CLASSES, "other"]}


def widths(body: Sequence[Instruction]) -> dict[str, dict[str, int]]:
    """How many loads and stores there are by class and bits a thread."""
    counted = Counter((each.kind, str(each.width_bits)) for each in body)
    return {
        kind: {bits: counted[kind, bits] for bits in ("32", "64", "128")}
        for kind in ("LDS", "STS", "LDG", "STG", "LDGSTS")
    }


def bank_conflicts(body: Sequence[Instruction]) -> tuple[int, int]:
    """FFMAs whose three sources lie in one register bank, and source operands kept in the reuse cache.

    Since Volta a register file has two banks, even and odd registers, each 64 bits wide; an FFMA waits where all three
    of its different sources are in one, less those that the instruction before left in the reuse cache of the same
    place: Z. Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, section 3.4.
    """
    conflicts = reused = 0
    held: dict[int, str] = {}
    for each in body:
        operands = _PREDICATE.sub("", each.text).partition(" ")[2].split(",")[1:]
        registers = {place: match for place, text in enumerate(operands) if (match := _REGISTER.search(text))}
        if each.kind == "FFMA":
            read = {match[1] for place, match in registers.items() if held.get(place) != match[1]}
            conflicts += len(read) == 3 and len({int(number) % 2 for number in read}) == 1
            reused += sum(match[2] is not None for match in registers.values())
        held = {place: match[1] for place, match in registers.items() if match[2]}
    return conflicts, reused


def describe(body: Sequence[Instruction]) -> dict[str, Any]:
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
    """What the counts of an inner loop say for each FFMA; `loop` is of `describe` and has FFMAs.

    Keys: ffma_share (of issue slots), shared_loads_per_ffma and global_loads_per_ffma (instructions),
    load_bytes_per_ffma (bytes that a thread's loads bring into registers), and wavefronts_per_ffma: the fewest passes
    through the load/store data pipe, one for a warp's load of 32 or 64 bits and two for one of 128, which is what
    Nsight Compute counts where all lanes of a warp read one address.
    """
    count = loop["mix"]["FFMA"]
    loads = [(int(bits), number) for kind in ("LDS", "LDG") for bits, number in loop["widths"][kind].items()]
    loaded = sum(bits // 8 * number for bits, number in loads)
    return {
        "ffma_share": count / loop["instructions"],
        "shared_loads_per_ffma": loop["mix"]["LDS"] / count,
        "global_loads_per_ffma": loop["mix"]["LDG"] / count,
        "load_bytes_per_ffma": loaded / count,
        "wavefronts_per_ffma": sum((2 if bits == 128 else 1) * number for bits, number in loads) / count,
    }


_PTX_LABEL = re.compile(r"^(\$\w+):")
_PTX_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")


def ptx_loop(ptx: str, symbol: str) -> list[str]:
    """The inner loop of a kernel in PTX, found as in SASS; without line information; empty where there is none."""
    start = re.search(rf"\.entry {re.escape(symbol)}\(", ptx)
    if start is None:
        return []
    rest = ptx[start.end() :]
    end = rest.find("\n}")
    lines = [line.strip() for line in rest[: end if end >= 0 else None].splitlines()]
    lines = [line for line in lines if line and not line.startswith((".loc", "//", ".pragma"))]
    labels = {match[1]: place for place, line in enumerate(lines) if (match := _PTX_LABEL.match(line))}
    found = []
    for place, line in enumerate(lines):
        match = _PTX_BRANCH.search(line)
        if match and labels.get(match[1], place) < place:
            found.append((labels[match[1]], place))
    computing = [(first, last) for first, last in found if _fmas(lines[first : last + 1])]
    innermost = [
        (first, last)
        for first, last in computing
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in computing)
    ]
    best = max(innermost, key=lambda span: (_fmas(lines[span[0] : span[1] + 1]), span[0] - span[1]), default=None)
    return lines[best[0] : best[1] + 1] if best else []


def _fmas(lines: Sequence[str]) -> int:
    return sum("fma.rn.f32" in line for line in lines)
