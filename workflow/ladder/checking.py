"""The check stage: a verdict for every case, recorded whatever the rung does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder import records
from ladder.build import Build
from ladder.config import Shape
from ladder.errors import LadderError
from ladder.worker import OUT_OF_MEMORY, Event, run_worker


def all_cases(shapes: list[Shape], cases: list[Mapping[str, Any]], timed: list[Shape]) -> list[dict[str, Any]]:
    """Every shape with every combination of scalars and layout, then the shapes to be timed as they are timed."""
    crossed = [{"shape": str(shape), **case} for shape in dict.fromkeys(shapes) for case in cases]
    plain = {"alpha": 1, "beta": 0, "padding": 0, "offset": 0}
    return crossed + [case for case in ({"shape": str(shape), **plain} for shape in timed) if case not in crossed]


def check_rung(
    made: Build,
    cases: list[dict[str, Any]],
    device: int,
    time_limit_s: float,
    environment: Callable[[dict[str, Any]], dict[str, Any]],
    log: Path,
    progress: Callable[[int, dict[str, Any]], None],
) -> dict[str, Any]:
    """Check a rung and return its record.

    Keys: status (`pass`, `failed`, or why it could not be checked: the compile record's status), message, where (with
    wall_s, the seconds that it took), cases (those that ran, with errors and verdict). Raises LadderError where the GPU
    has too little free memory, which says nothing about the rung.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": []}
    done: list[dict[str, Any]] = []
    current: dict[str, Any] = {}

    def on_event(event: Event) -> None:
        if "starts" in event:
            current.update(event["starts"])
            progress(len(done), event["starts"])
        else:
            done.append(event["case"])

    where = environment(compiled)
    begun = time.monotonic()
    request = {"library": str(made.library), "device": device, "cases": cases}
    outcome = run_worker("ladder.check_worker", request, on_event, time_limit_s, log)
    where["wall_s"] = round(time.monotonic() - begun, 3)
    ended = f"{describe(current)}: {outcome.message}" if current else outcome.message
    wrong = [case for case in done if case["verdict"] != "pass"]
    if wrong:
        status, message = "failed", f"{describe(wrong[0])}: {wrong[0]['verdict']}"
        if len(wrong) > 1:
            message += f" (and {len(wrong) - 1} more of {len(done)} cases)"
    elif OUT_OF_MEMORY in outcome.message:
        raise LadderError(f"check: {made.folder.name}: {ended}")
    elif outcome.status != "ok":
        status, message = "failed", ended
    else:
        status, message = "pass", ""
    return {"status": status, "message": message, "where": where, "cases": done}


def describe(case: Mapping[str, Any]) -> str:
    """A case in the words of a message: its shape, and what differs from alpha 1, beta 0 and a tight layout."""
    plain = {"alpha": 1, "beta": 0, "padding": 0, "offset": 0}
    extras = [f"{key} {case[key]:g}" for key, value in plain.items() if case.get(key, value) != value]
    return ", ".join([case["shape"], *extras])


def merge_check(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to a passed record the cases that an earlier one of the same build holds and this run did not ask for."""
    if record["status"] != "pass" or not path.exists():
        return record
    earlier = records.read_json(path)
    if earlier["status"] != "pass" or earlier["where"]["compile"] != record["where"]["compile"]:
        return record
    identity = ("shape", "alpha", "beta", "padding", "offset")
    now = {tuple(case[key] for key in identity) for case in record["cases"]}
    kept = [case for case in earlier["cases"] if tuple(case[key] for key in identity) not in now]
    return record | {"cases": record["cases"] + kept}
