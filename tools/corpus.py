"""The corpus of faults: each is a patch of a control, a sound kernel, and says in its first lines what it is."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from emulator import SMALL, Case, run
from ladder.build.library import Library
from ladder.records.store import digest
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

FOLDER = ROOT / "tests/faults"
FAULTS = sorted(FOLDER.glob("*.patch"))
CONTROLS = sorted(FOLDER.glob("control_*.cu"))
FIRST_COMMENT = re.compile(r"\A(//.*\n)+")
# The first comment, what git says of the files, the control's path, and the hunks.
FAULT = re.compile(r"((?://.*\n)+)(?:(?:diff|index) .*\n)*--- a/(\S+)\n\+\+\+ b/\2\n@@ .*", re.DOTALL)


def whole(source: Path) -> str:
    """The source of a fault or a control as it is compiled; of a fault, its own comment and its control's patched code.

    Raises LadderError where a fault is not written so, or its patch does not fit the control.
    """
    text = source.read_text()
    if source.suffix != ".patch":
        return text
    if (parts := FAULT.fullmatch(text)) is None or ROOT / parts[2] not in CONTROLS:
        raise LadderError(f"{source.name}: is not `// NAME: what it is.` with a unified diff of a control below it")
    try:
        return parts[1] + FIRST_COMMENT.sub("", _patched(parts[2], text))
    except subprocess.CalledProcessError as error:
        raise LadderError(f"{source.name}: {error.stderr.splitlines()[0]}") from None


@cache
def _patched(control: str, patch: str) -> str:
    """A control as `git apply` patches it; subprocess.CalledProcessError where the patch does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / control
        copy.parent.mkdir(parents=True)
        copy.write_text((ROOT / control).read_text())
        command = ["git", f"--git-dir={folder}/none", "apply"]
        subprocess.run(command, cwd=folder, input=patch, capture_output=True, text=True, check=True)
        return copy.read_text()


def written(source: Path, folder: Path) -> Path:
    """A file with the whole source: NAME.cu in the folder, by which compilers name a fault, or the control itself."""
    if source.suffix != ".patch":
        return source
    path = folder / f"{source.stem}.cu"
    path.write_text(whole(source))
    return path


def source_digest(source: Path) -> str:
    """What identifies the whole source, as `ladder.records.store.digest_files` of the written file."""
    return digest(f"{source.stem}.cu", whole(source))


def title(source: Path) -> str:
    """What a fault is: the first sentence of its comment."""
    text = source.read_text().replace("\n// ", " ")
    return text.removeprefix(f"// {source.stem}: ").partition(". ")[0]


def header(source: Path, key: str) -> str:
    """A line of the first comment, such as `Caught by`; empty where there is none."""
    found = re.search(rf"^// {key}: (.*)\.$", source.read_text(), re.M)
    return found.group(1) if found else ""


CASES = {
    "": SMALL,
    "one": [Case(1, 1, 1)],
    "tall": [Case(16 * 65535 + 1, 1, 1)],
    "nonfinite": [Case(20, 24, 20, family="nonfinite")],
    "offsets": [Case(20, 24, 20, offset=(0, 1, 0))],
    "huge_lda": [Case(3, 2, 2, gaps=(2**30, 0, 0))],
    "huge_ldc": [Case(3, 2, 2, gaps=(0, 0, 2**31))],
}


def expected(source: Path) -> set[str]:
    """The kinds of finding that a fault says it is caught by."""
    return {kind.strip() for kind in header(source, "Caught by").split(",") if kind.strip()}


def emulate(library: Library, source: Path) -> tuple[set[str], list[str]]:
    """Run a fault or a control over the cases that it asks for; the kinds found and the lines of the reports."""
    time_limit_s = 0.5 if "timeout" in expected(source) else 30.0
    found, lines = set(), []
    for case in CASES[header(source, "Case")]:
        for seed in (1, 2):
            _, kinds, report = run(library, case, seed, time_limit_s=time_limit_s)
            found |= kinds
            lines += report
    if not found:
        results = {run(library, Case(20, 20, 200), seed, data=0)[0] for seed in range(8)}
        found |= {"nondeterminism"} if len(results) > 1 else set()
    return found, lines
