"""The sustained stage: a rung back to back for seconds, between its references."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.account import Account
from ladder.measure.time.plausible import above_ceiling
from ladder.measure.worker import WORKER
from ladder.model.shape import Shape
from ladder.records.sustained import SUSTAINING
from ladder.system.process import run_worker


def sustain_rung(
    rung: str,
    builds: Mapping[str, Build],
    shapes: Sequence[str],
    expected: Mapping[str, Any],
    settings: Mapping[str, Any],
    device: int,
    where: Mapping[str, Any],
    log: Path,
    progress: Callable[[str, str], None],
) -> dict[str, Any]:
    """Launch a rung and its references back to back at each shape, in one process, and return its record.

    `builds` has the rung first; `expected` is what `Plan.expected` says of it. Keys: status (`ok`;
    `dishonest`, where a launch did not compute its product; or `failed`) with its message, where, builds, shapes,
    settings, parts (the worker's `measured`; none unless the status is ok). Raises LadderError where the machine broke
    it off.
    """
    parts: list[dict[str, Any]] = []
    account = Account(progress, lambda event: parts.append(event["part"]))
    request = {
        "stage": "sustained",
        "libraries": {name: str(made.library) for name, made in builds.items()},
        "precision": expected["declared"][rung]["precision"],
        "shapes": list(shapes),
        "device": device,
        **{key: settings[key] for key in SUSTAINING},
    }
    begun = time.monotonic()
    outcome = run_worker(WORKER, request, account.hear, settings["time_limit_s"], log)
    outcome = outcome.of_the_work(f"sustained: {rung}")
    if outcome.status == "ok" and not account.dishonest and (found := impossible(rung, parts, expected["ceiling"])):
        account.dishonest = {"kernel": rung, "finding": found}
    status, message = account.verdict(rung, outcome.status, account.placed(outcome.message))
    return {
        "status": status,
        "message": message,
        "builds": {name: made.record["build_digest"] for name, made in builds.items()},
        "shapes": list(shapes),
        "settings": {key: settings[key] for key in ("references", *SUSTAINING)},
        "where": {**where, "wall_s": round(time.monotonic() - begun, 3)},
        "parts": parts if status == "ok" else [],
    }


def impossible(rung: str, parts: Sequence[Mapping[str, Any]], ceiling: Sequence[float]) -> str:
    """At which shape a rung was faster than its class can be, in one line; empty where it was not."""
    for part in (each for each in parts if each["kernel"] == rung):
        spans = zip(*(part["batches"][key] for key in ("begin_s", "end_s", "launches")), strict=True)
        launch_s = min((end_s - begin_s) / launches for begin_s, end_s, launches in spans)
        clock_mhz = max(part["samples"].get("sm_clock_mhz", ()), default=0.0)
        if found := above_ceiling(Shape.parse(part["shape"]), launch_s, clock_mhz, ceiling):
            return f"at {part['shape']}: {found}"
    return ""
