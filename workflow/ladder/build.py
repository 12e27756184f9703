"""What the compile stage leaves for a rung, and the conditions under which the stages after it may run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder import records
from ladder.config import Rung, Shape
from ladder.gpu import Gpu, Present
from ladder.toolchain import Nvcc, compile_rung

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
        """What the compile stage recorded: `ladder.toolchain.compile_rung` and the rung's name."""
        return records.read_json(self.folder / "compile.json")


def build(rung: Rung, gpu: Gpu, nvcc: Nvcc, flags: list[str], folder: Path) -> dict[str, Any]:
    """Compile a rung into its folder and record how that went; returns the record.

    A rung that needs another compute capability than the GPU's is not compiled: its status is `does not apply`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Build(folder)
    if not rung.runs_on(gpu.compute_capability):
        message = f"needs compute capability {rung.compute_capability}; {gpu.title} has {gpu.compute_capability}"
        record: dict[str, Any] = {"status": NOT_APPLICABLE, "message": message, "log": "", "build_digest": ""}
    else:
        record = compile_rung(rung, gpu, nvcc, flags, made.library)
    records.write_json(folder / "compile.json", {"rung": rung.name, **record})
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
    if check["where"]["compile"]["build_digest"] != compiled["build_digest"]:
        return "its check was of another build; run the check stage again"
    return ""


def environment(root: Path, device: Present, compiled: dict[str, Any], config_digest: str) -> dict[str, Any]:
    """Where and when, and of what, a measurement is made: what every raw record carries.

    Keys: measured_at (UTC), gpu (NVML's description), software, compile (nvcc, flags, architecture, digests),
    config_digest. Checks and timings add wall_s, the seconds that the measuring process took.
    """
    keys = ("nvcc", "flags", "architecture", "source_digest", "build_digest")
    return {
        "measured_at": records.now(),
        "gpu": vars(device),
        "software": records.software(root),
        "compile": {key: compiled[key] for key in keys},
        "config_digest": config_digest,
    }


def settings_digest(settings: dict[str, Any]) -> str:
    """The digest of a stage's settings, as records carry it."""
    return records.digest(json.dumps(settings, sort_keys=True))


def in_order(shapes: list[Shape]) -> list[str]:
    """Shapes by the work they are, as text."""
    return [str(shape) for shape in sorted(shapes, key=lambda shape: (shape.flop, shape))]
