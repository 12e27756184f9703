"""The hardware stage: latencies, bandwidths and rates of one GPU, from the probes of kernels/floor/hardware.cu."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.worker import WORKER
from ladder.model.rung import Rung
from ladder.system.process import Event, run_worker

# What `ladder.build.compile.build` makes the library of. It has no sgemm, and stands in no ladder.
HARDWARE_PROBES = Rung(
    name="hardware",
    entry="hardware",
    title="latencies, bandwidths and rates of the GPU",
    source="floor/hardware.cu",
    macros={},
    precision="fp32",
    role="floor",
    before=None,
    compute_capability="7.0",
)
PROBE_TIME_LIMIT_S = 60  # between two probes; one takes some milliseconds
MOST_FAILURES = 3  # after which the GPU is left alone


def measure_hardware(
    made: Build, device: int, where: Mapping[str, Any], log: Path, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Measure every probe of a library in a process of its own, and return the record.

    Keys: status (`ok`; `failed` where a probe failed), its message, where, probes: the worker's, in order, of which one
    that failed has no samples and says why in `message`. Behind a probe that failed the others are measured in a new
    process, until MOST_FAILURES have failed. Raises LadderError where the machine broke it off.
    """
    probes: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    begun = time.monotonic()

    def on_event(event: Event) -> None:
        if "starts" in event:
            current.update(event["starts"])
            progress(f"{len(probes) + 1}: {current['of']}, {current['kind']}, {current['how']}")
        else:
            probes.append({**event["probe"], "message": ""})
            current.clear()

    message, failures = "", 0
    while failures < MOST_FAILURES:
        request = {"stage": "hardware", "library": str(made.library), "device": device, "first": len(probes)}
        outcome = run_worker(WORKER, request, on_event, PROBE_TIME_LIMIT_S, log).of_the_work("hardware")
        if outcome.status == "ok":
            break
        failures += 1
        what = ", ".join(current[key] for key in ("of", "kind", "how")) if current else "before the first probe"
        message = message or f"{what}: {outcome.message}"
        if not current:
            break
        probes.append({**current, "cycles": [], "ns": [], "message": outcome.message})
        current.clear()
    return {
        "status": "failed" if message else "ok",
        "message": message,
        "where": {**where, "wall_s": round(time.monotonic() - begun, 3)},
        "probes": probes,
    }
