"""How a rung is compiled, what that leaves, and when the stages after it may run."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.build.borrowed import why_borrowed
from ladder.build.toolchain import Nvcc, run_compiler
from ladder.config.sources import BY_SIZE, INCLUDE, by_size, source_digest
from ladder.model.gpu import Target
from ladder.model.rung import Rung
from ladder.records import digests, store
from ladder.system.paths import ROOT

NOT_APPLICABLE = "does not apply"


@dataclass(frozen=True)
class Build:
    """A rung's folder under build/: compile.json and, where it compiled, library.so."""

    folder: Path

    @property
    def library(self) -> Path:
        """The shared library."""
        return self.folder / "library.so"

    @property
    def ptx(self) -> Path:
        """What nvcc compiled the kernels to before their machine code."""
        return self.folder / "kernels.ptx"

    @property
    def record(self) -> dict[str, Any]:
        """What the compile stage recorded: `compile_rung`'s record and the rung's name."""
        return store.read_json(self.folder / "compile.json")


def build(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], folder: Path) -> dict[str, Any]:
    """Compile a rung into its folder and record how that went; returns the record.

    A rung that needs another compute capability than the GPU's is not compiled: its status is `does not apply`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Build(folder)
    if not rung.runs_on(target.compute_capability):
        message = f"needs compute capability {rung.compute_capability}; {target.title} has {target.compute_capability}"
        record: dict[str, Any] = {"status": NOT_APPLICABLE, "message": message, "log": "", "build_digest": ""}
    else:
        record = compile_rung(rung, target, nvcc, flags, made.library)
    store.write_json(folder / "compile.json", {"rung": rung.name, **record})
    return record


def why_not_measured(made: Build, check: dict[str, Any] | None) -> str:
    """Why a rung may not be timed or profiled: it did not compile, or this build did not pass its check.

    Empty where it may be. `check` is its check record, or None for a floor, which has none.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        prefix = "" if compiled["status"] == NOT_APPLICABLE else "it does not compile: "
        return prefix + compiled["message"]
    if check is None:
        return ""
    if check["status"] != "pass":
        return f"its check failed: {check['message']}"
    if digests.build_of(check["where"]) != compiled["build_digest"]:
        return "its check was of another build; run the check stage again"
    return ""


GLIBC = Path(__file__).with_name("glibc")  # what nvcc cannot read of a newer glibc than it knows, as it can


def build_digest(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str]) -> str:
    """What identifies a build: the rung's code and all that makes a library of it."""
    return digests.digest_of_build(source_digest(rung), nvcc.version, target.architecture, flags)


def compile_command(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], output: Path) -> list[str]:
    """The nvcc command line that makes a rung's library; for several classes of size from `by_size.cu` beside it.

    It runs in the project's folder and has paths as seen from there: nvcc gives them to a shell, some without quotes.
    """
    virtual = target.architecture.replace("sm_", "compute_")
    classes = len(rung.tuned) > 1
    macros = {} if classes else dict(rung.macros) | (dict(rung.tuned[0].macros) if rung.tuned else {})
    source = Path("kernels") / rung.source
    return [
        str(nvcc.path),
        *flags,
        f"-gencode=arch={virtual},code={target.architecture}",
        "-Xptxas=-v",
        "-shared",
        "--no-device-link",  # no kernel calls into another file
        "-Xcompiler=-fPIC",
        "-allow-unsupported-compiler",  # of a g++ that is newer than itself
        f"-I{os.path.relpath(GLIBC, ROOT)}",
        f"-I{INCLUDE.relative_to(ROOT)}",
        *(flag[:2] + os.path.relpath(flag[2:], ROOT) for flag in nvcc.library_flags),
        *([f"-I{source.parent}"] if classes else []),
        *(f"-D{key}={value}" for key, value in macros.items()),
        "-o",
        str(output),
        str(output.parent / BY_SIZE if classes else source),
        "-ldl",
    ]


def compile_rung(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], library: Path) -> dict[str, Any]:
    """Compile a rung; returns its compile record, whose `status` is `ok` or `failed` with the compiler's message.

    A rung that has another library's product (`ladder.build.borrowed`) fails too, and leaves no library.

    Keys: status, message, nvcc, flags, architecture, source_digest, build_digest (of the code and all that made it),
    log (the compiler's output with the resource report). Raises LadderError where nvcc fails whatever the source
    (`run_compiler`): no record is left of that, so that the next run compiles again.
    """
    if len(rung.tuned) > 1:
        (library.parent / BY_SIZE).write_text(by_size(rung))
    command = compile_command(rung, target, nvcc, flags, library)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        kept = ["--keep", f"--keep-dir={folder}"]
        log, error = run_compiler([*command, *kept], Path(rung.source))
        if not error and rung.role != "baseline" and (why := why_borrowed(Path(folder).glob("*.o"), library)):
            error = f"{Path(rung.source).name}: {why}"
            library.unlink()
        for ptx in sorted(Path(folder).glob("*.ptx")):
            shutil.copyfile(ptx, library.with_name("kernels.ptx"))
    record = {
        "status": "failed" if error else "ok",
        "message": error,
        "nvcc": nvcc.version,
        "flags": [*flags, f"-gencode=arch={target.architecture.replace('sm_', 'compute_')},code={target.architecture}"],
        "architecture": target.architecture,
        "source_digest": source_digest(rung),
        "build_digest": build_digest(rung, target, nvcc, flags),
        "log": log,
    }
    return record
