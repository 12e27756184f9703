"""The corpus of faults: each is a patch of a sound kernel, and says in its first lines what it is."""

import os
import re
import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ladder.build.emulator import EMULATED, NEEDS_GPU, NOT_EMULATED, cached_engine
from ladder.config.cpp import canonical, tokens
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.measure.check.emulate import emulate_source
from ladder.model.cases import Case
from ladder.model.rung import Rung
from ladder.records.store import digest
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

FOLDER = ROOT / "tests/faults"
FAULTS = sorted(FOLDER.glob("*.patch"))
CONTROLS = sorted(FOLDER.glob("control_*.cu"))
SGEMM = sorted((ROOT / "kernels/sgemm").glob("*.cu"))
FIRST_COMMENT = re.compile(r"\A(//.*\n)+")
# The first comment, what git says of the files, the sound kernel's path, and the hunks.
FAULT = re.compile(r"((?://.*\n)+)(?:(?:diff|index) .*\n)*--- a/(\S+)\n\+\+\+ b/\2\n@@ (?s:.*)")

# What a fault gets wrong: its `Class` is one of these.
CLASSES = {
    "tile remainders": "what is left of m, n or k after whole tiles or vectors",
    "numbers of tiles": "an odd number of tiles, or the order in which blocks take them",
    "thin matrices": "a single column, or many more rows than columns",
    "large products": "what only a product with many results does",
    "large offsets": "offsets beyond 31 or 32 bits",
    "narrow integers": "numbers that do not fit their type",
    "layout": "leading dimensions, rows and columns",
    "scalars": "alpha and beta",
    "inputs": "infinities, NaN, zeros, subnormal numbers, rows that differ",
    "precision": "fewer bits than FP32 has",
    "number of SMs": "what depends on the size of the GPU",
    "barriers": "the barriers of a block",
    "warps": "shuffles, masks and barriers of a warp",
    "asynchronous copies": "cp.async: commits, waits, sizes",
    "mbarrier": "arrivals and phases of barriers in shared memory",
    "bulk copies": "the copy engine",
    "clusters": "what blocks of a cluster do with each other's shared memory",
    "tensor cores": "ldmatrix and mma.sync",
    "wgmma": "products by warp groups",
    "cache hints": "loads and stores with hints",
    "between blocks": "sums that one block writes and another reads",
    "grid barriers": "blocks that wait for others",
    "float atomics": "sums in the order in which blocks or warps come",
    "tickets": "counters that tell the last block",
    "static memory": "`__device__` arrays",
    "launches and streams": "what orders two kernels",
    "graph capture": "what a replayed graph does otherwise",
    "host function": "the launch, its arguments and errors, allocation, waiting",
    "shared memory": "indices, sizes and stages of tiles",
    "reads outside": "reads behind a matrix",
    "writes outside": "writes to what is not C",
    "wide accesses": "vectors that are not aligned",
    "memcpy and memset": "copies and fills of whole ranges",
    "workspace": "its size, and what it holds at first",
}


def whole(source: Path) -> str:
    """The source of a fault or a control as it is compiled; of a fault, its own comment and its patched sound kernel.

    A rung of the ladder is patched without its comments, so that the patch holds whatever they say. Raises LadderError
    where a fault is not written so, or its patch does not fit.
    """
    text = source.read_text()
    if source.suffix != ".patch":
        return text
    if (parts := FAULT.fullmatch(text)) is None or ROOT / parts[2] not in CONTROLS + SGEMM:
        raise LadderError(
            f"{source.name}: is not `// NAME: what it is.` with a unified diff of a control or rung below"
        )
    try:
        return parts[1] + FIRST_COMMENT.sub("", _patched(parts[2], text))
    except subprocess.CalledProcessError as error:
        raise LadderError(f"{source.name}: {error.stderr.splitlines()[0]}") from None


def base(source: Path) -> Path:
    """The sound kernel that a fault patches; a control itself."""
    return ROOT / found[2] if (found := FAULT.fullmatch(source.read_text())) else source


@cache
def _patched(sound: str, patch: str) -> str:
    """A sound kernel as `git apply` patches it; subprocess.CalledProcessError where the patch does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        copy, text = Path(folder) / sound, (ROOT / sound).read_text()
        copy.parent.mkdir(parents=True)
        copy.write_text(without_comments(text) if ROOT / sound in SGEMM else text)
        command = ["git", f"--git-dir={folder}/none", "apply"]
        subprocess.run(command, cwd=folder, input=patch, capture_output=True, text=True, check=True)
        return copy.read_text()


def without_comments(text: str) -> str:
    """A C++ source without its comments and empty lines."""
    comment = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
    kept = "".join(comment.sub("", token) if kind == "space" else token for kind, token in tokens(text))
    return "".join(f"{line.rstrip()}\n" for line in kept.splitlines() if line.strip())


def written(source: Path, folder: Path) -> Path:
    """A file with the whole source: NAME.cu in the folder, by which compilers name a fault, or the control itself."""
    if source.suffix != ".patch":
        return source
    path = folder / f"{source.stem}.cu"
    path.write_text(whole(source))
    return path


def source_digest(source: Path) -> str:
    """What identifies the whole source; comments and layout do not count, as in a rung's digest."""
    return digest(f"{source.stem}.cu", canonical(whole(source)))


def _comment(source: Path) -> str:
    """The first comment, a header in each line."""
    found = FIRST_COMMENT.match(source.read_text())
    text = re.sub(r"\n// (?![A-Z][a-z ]*: )", " ", found[0] if found else "")
    return text.replace("\n// ", "\n")


def title(source: Path) -> str:
    """What a fault is: the first sentence of its comment."""
    return first_line(source).removeprefix(f"// {source.stem}: ").partition(". ")[0].removesuffix(".")


def first_line(source: Path) -> str:
    """The first comment without its headers."""
    return _comment(source).partition("\n")[0]


def header(source: Path, key: str) -> str:
    """A line of the first comment, such as `Caught by`; empty where there is none."""
    found = re.search(rf"^{key}: (.*)\.$", _comment(source), re.M)
    return found.group(1) if found else ""


def expected(source: Path) -> set[str]:
    """The kinds of finding by which a fault says that it shows: one of them is enough."""
    return {kind.strip() for kind in header(source, "Caught by").split(",") if kind.strip()}


@cache
def the_plan() -> Plan:
    """The run of config.yaml, of which nothing is measured: each source with its defaults."""
    return plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False, "tune": {"use": False}})


def as_rung(source: Path, folder: Path) -> Rung:
    """A source of the corpus as a rung: what it says of itself is what its sound kernel says.

    `folder` takes the whole source.
    """
    sound, rungs = base(source), the_plan().ladder
    like = next((rung for rung in rungs.values() if ROOT / "kernels" / rung.source == sound), rungs["naive"])
    precision = header(sound, "Precision") if sound in CONTROLS else like.precision
    path = os.path.relpath(written(source, folder), ROOT / "kernels")
    return replace(like, name=source.stem, source=path, macros={}, tuned=(), precision=precision or "fp32")


# The emulator's kinds of finding are the words before the colon. What the check itself finds has other words.
_FOUND = {
    "wrote outside": "out of bounds",
    "wrote into": "forbidden write",
    "differs from the first": "nondeterminism",
    "sgemm returned": "error",
    "captured and run again": "capture",
}
_KIND = re.compile(r"([a-z][a-z -]*): ")
FIRST_CASES = 24  # the smallest: most faults show there, and then no other case is run
LIMIT_S = 600.0  # of all cases of a source: machines that record are shared


def emulate(source: Path) -> dict[str, Any]:
    """What the emulate stage says of a fault or a control, over all cases that it has for a rung, the smallest first.

    Keys: `status` and `message` as of the stage; `found`, the kind of the first finding, empty where there is none;
    `case`, the one that showed it, or null.
    """
    engine = cached_engine(ROOT / "build/emulator")
    with tempfile.TemporaryDirectory() as folder:
        rung = as_rung(source, Path(folder))
        run = replace(the_plan(), ladder={rung.name: rung})
        cases = sorted(run.emulated_cases(rung.name), key=lambda case: case.shape.flop)
        for some in (cases[:FIRST_CASES], cases[FIRST_CASES:]):
            record = emulate_source(rung, some, 1, LIMIT_S, Path(folder) / "log", engine, first_only=True)
            if record["status"] != EMULATED:
                break
    failed = record["status"] not in (
        EMULATED,
        NEEDS_GPU,
        NOT_EMULATED,
    )  # a launch that was not waited for is no finding
    wrong = next((case for case in record["cases"] if failed and case["verdict"] != "pass"), None)
    case = wrong and Case.of(wrong).as_record() | {"seed": wrong["seed"]}
    said = {key: record[key].replace(f"{folder}/", "") for key in ("status", "message")}
    return said | {"found": kind_of(wrong["verdict"]) if wrong else "", "case": case}


def kind_of(verdict: str) -> str:
    """The kind of a finding, by the verdict on a case; `values` where the result alone is wrong."""
    kinds = [kind for mark, kind in _FOUND.items() if mark in verdict]
    named = _KIND.match(verdict)
    return kinds[0] if kinds else named[1] if named else "values"
