"""The time stage: NVBench on a rung beside its references."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.account import Account
from ladder.measure.time.plausible import implausible
from ladder.measure.worker import WORKER
from ladder.records import provenance, store
from ladder.records.timings import BEFORE, DISHONEST, LAUNCHES, SAMPLING, measurements, unfinished
from ladder.system.process import Event, run_worker


def time_rung(
    rung: str,
    builds: Mapping[str, Build],
    shapes: list[str],
    expected: Mapping[str, Any],
    settings: Mapping[str, Any],
    device: int,
    where: Mapping[str, Any],
    record: Path,
    log: Path,
    progress: Callable[[str, str], None],
) -> str:
    """Time a rung and its references at each shape, in one process, and add that run to the record.

    `expected` is `Plan.expected`. Returns an empty string, or one line that says why nothing was added; it begins with
    DISHONEST where a rung was seen to deceive the measurement. Raises LadderError where the machine broke it off, which
    says nothing about the rung.
    """
    states: list[dict[str, Any]] = []
    written: dict[str, str] = {}
    declared = expected["declared"]
    steady = next((name for name in builds if name != rung and declared[name]["role"] == "baseline"), None)

    def keep(event: Event) -> None:
        states.extend(event["states"])
        written.update(event.get("written", {}))

    account = Account(progress, keep)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        request = {
            "rung": rung,
            "steady": steady,
            "declared": dict(declared),
            "libraries": {name: str(made.library) for name, made in builds.items()},
            "shapes": shapes,
            "device": device,
            "folder": folder,
            **{key: settings[key] for key in SAMPLING},
        }
        begun = time.monotonic()
        outcome = run_worker(WORKER, {"stage": "time", **request}, account.hear, settings["time_limit_s"], log)
        wall_s = round(time.monotonic() - begun, 3)
        files = collect(Path(folder))
    outcome.of_the_work(f"time: {rung}")
    if steady and account.dishonest.get("kernel") == steady:  # whose launches show what the rung has changed
        return f"{DISHONEST}{steady} after it: {account.dishonest['finding']}"
    status, message = account.verdict(rung, outcome.status, account.placed(outcome.message))
    if status != "ok":
        return DISHONEST * (status == "dishonest") + message
    if changed := [name for name, digest in written.items() if store.digest(files.get(name, b"")) != digest]:
        return f"{DISHONEST}{changed[0]} was changed after NVBench had written it"
    if message := unfinished(files):
        return message
    content = {
        "schema_version": store.SCHEMA_VERSION,
        "stage": "time",
        "launches": LAUNCHES,
        "rung": rung,
        "builds": {name: made.record["build_digest"] for name, made in builds.items()},
        "shapes": shapes,
        "settings": dict(settings),
        "where": {**where, "measured_at": provenance.now(), "wall_s": wall_s},
        "states": states,
    }
    if declared[rung]["precision"]:
        measured = list(measurements(files, content))
        if found := implausible(measured, rung, steady, f"{steady}{BEFORE}", expected["ceiling"], settings):
            return DISHONEST + found
    store.add_run(record, {**files, "record.json": store.to_json(content).encode()})
    return ""


def collect(folder: Path) -> dict[str, bytes]:
    """The files below a folder by their names relative to it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
