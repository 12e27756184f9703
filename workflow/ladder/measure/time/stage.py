"""The time stage: NVBench on a rung beside its references."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.records import provenance, store
from ladder.records.timings import SAMPLING, unfinished
from ladder.system.process import Event, run_worker


def time_rung(
    rung: str,
    builds: Mapping[str, Build],
    shapes: list[str],
    settings: Mapping[str, Any],
    device: int,
    where: Mapping[str, Any],
    record: Path,
    log: Path,
    progress: Callable[[str, str], None],
) -> str:
    """Time a rung and its references at each shape, in one process, and add that run to the record.

    Returns an empty string, or one line that says why nothing was added. Raises LadderError where the machine broke it
    off, which says nothing about the rung.
    """
    current: dict[str, str] = {}
    states: list[dict[str, Any]] = []

    def on_event(event: Event) -> None:
        if "starts" in event:
            current.update(event["starts"])
            progress(event["starts"]["kernel"], event["starts"]["shape"])
        else:
            states.extend(event["states"])

    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        request = {
            "rung": rung,
            "libraries": {name: str(made.library) for name, made in builds.items()},
            "shapes": shapes,
            "device": device,
            "folder": folder,
            **{key: settings[key] for key in SAMPLING},
        }
        begun = time.monotonic()
        outcome = run_worker("ladder.measure.time.worker", request, on_event, settings["time_limit_s"], log)
        wall_s = round(time.monotonic() - begun, 3)
        files = collect(Path(folder))
    if outcome.of_the_work(f"time: {rung}").status != "ok":
        return (f"{current['kernel']} at {current['shape']}: " if current else "") + outcome.message
    if message := unfinished(files):
        return message
    content = {
        "schema_version": store.SCHEMA_VERSION,
        "stage": "time",
        "rung": rung,
        "builds": {name: made.record["build_digest"] for name, made in builds.items()},
        "shapes": shapes,
        "settings": dict(settings),
        "where": {**where, "measured_at": provenance.now(), "wall_s": wall_s},
        "states": states,
    }
    store.add_run(record, {**files, "record.json": store.to_json(content).encode()})
    return ""


def collect(folder: Path) -> dict[str, bytes]:
    """The files below a folder by their names relative to it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
