"""The profile stage: Nsight Compute on one product of a rung."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.profile.report import extract
from ladder.system.errors import LadderError
from ladder.system.process import BROKEN, FAILED, OK, Outcome, blamed, start, stop

# Lines of ncu that say why nothing was profiled, and what to do about each.
_REMEDIES = {
    "ERR_NVGPUCTRPERM": "this user may not read the GPU's counters; run as root or set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module",
    "LibraryNotLoaded": "this virtual machine gives no access to the GPU's counters; profile on another",
    "not supported on": "this ncu does not know the GPU; install a newer Nsight Compute",
}


def ncu_command(ncu: Path, report: Path, made: Build, shape: str, device: int) -> list[str]:
    """The command line that profiles one product; the clocks are left alone."""
    return [
        str(ncu),
        *("--set", "full"),
        *("--import-source", "yes"),
        *("--clock-control", "none"),
        *("--profile-from-start", "off"),
        *("--force-overwrite", "--export", str(report)),
        *(sys.executable, "-m", "ladder.measure.profile.worker", str(made.library), shape, str(device)),
    ]


def profile_rung(
    ncu: Path | None,
    made: Build,
    shapes: Sequence[str],
    device: int,
    folder: Path,
    time_limit_s: float,
    log: Path,
    progress: Callable[[str], None],
) -> tuple[dict[str, list[dict[str, Any]]], Outcome]:
    """Profile products of these shapes, with reports in a folder: the profiled kernels of each, and how that ended.

    It ends at the first that fails: `failed` by the rung, or `broken` by the machine, which says nothing about it.
    """
    profiles: dict[str, list[dict[str, Any]]] = {}
    if ncu is None:
        missing = "ncu: not found; install Nsight Compute, or set its path in config/config.yaml: profile.ncu"
        return profiles, Outcome(BROKEN, missing)
    for index, shape in enumerate(shapes):
        progress(f"{shape}  ({index + 1}/{len(shapes)} sizes)")
        report = folder / f"{shape}.ncu-rep"
        outcome = profile_shape(ncu, made, shape, device, report, time_limit_s, log)
        if outcome.status != OK:
            return profiles, outcome
        try:
            profiles[shape] = extract(report, log)
        except LadderError as error:
            return profiles, Outcome(BROKEN, str(error))
    return profiles, Outcome(OK, "")


def profile_shape(
    ncu: Path, made: Build, shape: str, device: int, report: Path, time_limit_s: float, log: Path
) -> Outcome:
    """Profile one product into a report, and say how that ended."""
    report.parent.mkdir(parents=True, exist_ok=True)
    command = ncu_command(ncu, report, made, shape, device)
    with log.open("ab") as output:
        process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            text, _ = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            return Outcome(BROKEN, f"no profile within {time_limit_s:g} s; stopped; raise profile.time_limit_s")
        finally:
            stop(process)
        output.write(text)
    if process.returncode == 0 and report.exists():
        return Outcome(OK, "")
    said = text.decode(errors="replace")
    return Outcome(FAILED, fault) if (fault := blamed(said)) else Outcome(BROKEN, why_not(said))


def why_not(output: str) -> str:
    """One line from ncu's output that says why there is no report, with the remedy where one is known."""
    for mark, remedy in _REMEDIES.items():
        if mark in output:
            return f"ncu: {mark}: {remedy}"
    errors = [line.strip("= ").strip() for line in output.splitlines() if "ERROR" in line or "Error" in line]
    return f"ncu: {errors[0] if errors else 'wrote no report'}"
