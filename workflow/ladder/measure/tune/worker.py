"""The process that checks a batch of trials and times those that pass beside cuBLAS.

One process for many trials, because starting one takes longer than a trial. What the check is and how NVBench measures
are the check stage's and the time stage's own. A trial that crashes takes the process along; the parent goes on with
the others in a new one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cupy as cp

from ladder.build.library import Library
from ladder.measure.check.worker import check_case
from ladder.measure.devices import CudaDevice
from ladder.measure.time.worker import TimingRun
from ladder.model.cases import Case
from ladder.system import process


def verdict(device: CudaDevice, library: Library, cases: list[Case], declared: Mapping[str, Any]) -> str:
    """`pass`, or the first case that fails what the rung declares of itself, and how."""
    for case in cases:
        found = check_case(device, library, case, secrets.randbits(48), **declared)["verdict"]
        if found != "pass":
            return f"{case}: {found}"
    return "pass"


def main(asked: Mapping[str, Any]) -> None:
    """Check every library of the request, then time those that passed."""
    device = CudaDevice(asked["device"])
    sound = {}
    for name, path in asked["libraries"].items():
        process.emit(starts={"kernel": name})
        found = verdict(device, Library(Path(path)), list(map(Case.of, asked["cases"])), asked["held_to"])
        process.emit(checked={"kernel": name, "verdict": found})
        if found == "pass":
            sound[name] = path
    cp.get_default_memory_pool().free_all_blocks()
    TimingRun({**asked, "libraries": sound, "rung": asked["baseline"]}).run()
