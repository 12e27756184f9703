"""What compute-sanitizer says of sound kernels, by its version and the instructions that it misreads."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder.build.toolchain import find_tool

# What follows from a finding, and is none of its own.
_FOLLOWS = re.compile(r"Program hit |Warning: |\d+ errors were skipped")


@dataclass(frozen=True)
class Misread:
    """A finding that says nothing of a kernel that has such an instruction."""

    tool: str
    mended: tuple[int, ...]  # the first version that reads it right; empty where none is known
    finding: str  # a pattern of its text
    instruction: str  # a pattern of a library's SASS
    why: str


# Sources: the release notes of Compute Sanitizer 2025.4; controls of tests/faults, with 2025.3.1 on an H100.
MISREADINGS = (
    Misread(
        "initcheck", (2025, 4), "Host API memory access error", r"\bUBLKCP\.G\.S\b", "it does not follow bulk stores"
    ),
    Misread(
        "synccheck",
        (2025, 4),
        r"Barrier error detected\. Missing wait",
        r"\bARRIVES\.LDGSTSBAR\S*\.TRANSCNT\b",
        "it does not count arrivals of cp.async rightly",
    ),
    Misread(
        "memcheck",
        (),
        r"Invalid __global__ read of size (8|16) bytes",
        r"\bLDGSTS\.\S*\bZFILL\b",
        "it takes a cp.async for a read of all its bytes, whatever its source size",
    ),
)


def why_misread(tool: str, version: str, findings: Sequence[Mapping[str, str]], library: Path) -> str:
    """Why findings of a tool say nothing about a library; empty where one of them counts.

    `version` is such as 2025.3.1.0. Where there is no cuobjdump, all findings count.
    """
    found = [each["text"] for each in findings if not _FOLLOWS.match(each["text"])]
    numbers = tuple(map(int, re.findall(r"\d+", version)))
    for known in MISREADINGS:
        alike = known.tool == tool and found and all(re.match(known.finding, text) for text in found)
        if alike and not (known.mended and numbers >= known.mended) and re.search(known.instruction, _sass(library)):
            later = f" (from {'.'.join(map(str, known.mended))} on it does)" if known.mended else ""
            return f"compute-sanitizer {version} may be wrong, for {known.why}{later}"
    return ""


def _sass(library: Path) -> str:
    """What cuobjdump lists of a library and the cubins beside it; empty where it cannot."""
    cuobjdump = find_tool("cuobjdump")
    files = [library, *sorted(library.parent.glob("*.cubin"))] if cuobjdump else []
    run = ([cuobjdump, "-sass", file] for file in files)
    return "".join(subprocess.run(each, capture_output=True, text=True, check=False).stdout for each in run)
