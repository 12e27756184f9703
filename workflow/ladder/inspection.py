"""The inspect stage: what a compiled rung says of itself on any machine."""

from __future__ import annotations

from typing import Any

from ladder.build import Build
from ladder.config import Shape
from ladder.library import Library
from ladder.toolchain import demangled, resource_report


def inspect(made: Build, shapes: list[Shape], sms: int) -> dict[str, Any]:
    """The inspection record of a rung.

    Keys: status and message (the compile record's), kernels (name, symbol, and what `resource_report` gives for each
    kernel of the library), launches (for each shape the launches that the rung makes on a GPU with so many SMs: symbol,
    grid, block, dynamic_shared_bytes).
    """
    compiled = made.record
    record: dict[str, Any] = {key: compiled[key] for key in ("status", "message", "rung")}
    record |= {key: compiled.get(key, "") for key in ("nvcc", "architecture", "source_digest")}
    report = resource_report(compiled["log"]) if compiled["status"] == "ok" else {}
    names = demangled(list(report))
    record["kernels"] = [
        {"kernel": names[symbol].split("(")[0], "symbol": symbol, **resources} for symbol, resources in report.items()
    ]
    record["launches"] = {}
    if compiled["status"] == "ok":
        library = Library(made.library)
        for shape in shapes:
            record["launches"][str(shape)] = [
                {"symbol": launch.kernel, **{k: v for k, v in vars(launch).items() if k != "kernel"}}
                for launch in library.launches(shape, sms)
            ]
    return record
