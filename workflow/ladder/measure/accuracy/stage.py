"""The accuracy stage: a rung's errors against k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder.build.compile import Build, why_not_measured
from ladder.measure.worker import WORKER
from ladder.system.process import Event, run_worker


def measure_accuracy(
    made: Build,
    check: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    device: int,
    environment: Callable[[dict[str, Any]], dict[str, Any]],
    log: Path,
) -> dict[str, Any]:
    """Measure a rung's errors and return its record.

    `settings` are those of the section `accuracy`: products (size, which is m = n, and k) and families. Keys: status
    (`ok`, or `failed` with its message), where, clock (what timed the launches), points (one a size, family and k: the
    worker's `measure`; `time_ms` is null in the points of a rung that failed).
    """
    if message := why_not_measured(made, dict(check) if check else None):
        return {"status": "failed", "message": message, "points": []}
    points: list[dict[str, Any]] = []

    def on_event(event: Event) -> None:
        if "point" in event:
            points.append(event["point"])
        else:
            for point, time_ms in zip(points, event["times_ms"], strict=True):
                point["time_ms"] = time_ms

    where = environment(made.record)
    request = {"library": str(made.library), "device": device}
    request |= {key: settings[key] for key in ("products", "families")}
    outcome = run_worker(WORKER, {"stage": "accuracy", **request}, on_event, settings["time_limit_s"], log)
    outcome = outcome.of_the_work(f"accuracy: {made.folder.name}")
    return {"status": outcome.status, "message": outcome.message, "where": where, "clock": "nvbench", "points": points}
