"""The inspect stage: what a compiled rung says of itself on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ladder.build import Build
from ladder.toolchain import demangled, resource_report
from ladder.worker import run_worker

UNUSABLE = "unusable"
TIME_LIMIT_S = 60.0


def inspect(made: Build, shapes: list[str], sms: int, log: Path) -> dict[str, Any]:
    """The inspection record of a rung.

    Keys: status and message (the compile record's, or `unusable` and why the library cannot be asked), kernels (name,
    symbol, and what `resource_report` gives for each kernel of the library), launches (for each shape the launches that
    the rung makes on a GPU with so many SMs: symbol, grid, block, dynamic_shared_bytes).
    """
    compiled = made.record
    record: dict[str, Any] = {key: compiled[key] for key in ("status", "message", "rung")}
    record |= {key: compiled.get(key, "") for key in ("nvcc", "architecture", "source_digest")}
    report = resource_report(compiled["log"]) if compiled["status"] == "ok" else {}
    names = demangled(list(report))
    record["kernels"] = [
        {"kernel": names[symbol].split("(")[0], "symbol": symbol, **resources} for symbol, resources in report.items()
    ]
    launches: dict[str, Any] = {}
    if compiled["status"] == "ok":
        request = {"library": str(made.library), "shapes": shapes, "sms": sms}

        def keep(event: dict[str, Any]) -> None:
            launches[event["shape"]] = event["launches"]

        outcome = run_worker("ladder.inspect_worker", request, keep, TIME_LIMIT_S, log)
        if outcome.status != "ok":
            record |= {"status": UNUSABLE, "message": outcome.message}
    return record | {"launches": launches}
