"""The profile stage: Nsight Compute on one product of a rung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ladder.build.compile import Build
from ladder.system.process import start, stop

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


def profile_shape(ncu: Path, made: Build, shape: str, device: int, report: Path, time_limit_s: float, log: Path) -> str:
    """Profile one product into a report; returns an empty string, or one line that says why there is none."""
    report.parent.mkdir(parents=True, exist_ok=True)
    command = ncu_command(ncu, report, made, shape, device)
    with log.open("ab") as output:
        process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            text, _ = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            return f"no profile within {time_limit_s:g} s; stopped"
        finally:
            stop(process)
        output.write(text)
    if process.returncode == 0 and report.exists():
        return ""
    return why_not(text.decode(errors="replace"))


def why_not(output: str) -> str:
    """One line from ncu's output that says why there is no report, with the remedy where one is known."""
    for mark, remedy in _REMEDIES.items():
        if mark in output:
            return f"ncu: {mark}: {remedy}"
    errors = [line.strip("= ").strip() for line in output.splitlines() if "ERROR" in line or "Error" in line]
    return f"ncu: {errors[0] if errors else 'wrote no report'}"
