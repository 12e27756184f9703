"""What a busy neighbour does to a measurement on one of two GPUs: results/GPU/raw/neighbour.json."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from ladder.build.compile import Build
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.measure.time.stage import time_rung
from ladder.records.provenance import environment, settings_digest
from ladder.records.store import read_record
from ladder.records.timings import ShapeTiming, read_time_record
from ladder.system import nvml, process
from ladder.system.errors import LadderError
from ladder.system.nvml import VISIBLE
from ladder.system.paths import ROOT, shown
from ladder.system.process import LEASED, visible_alone
from ladder.tables.regression import t_quantile
from recording import checked_builds, record_as

RECORD = "neighbour.json"
RUNGS = ("cublas", "async_copy")
SIZES = ("1024", "4096")
RESTS, BUSY = "rests", "busy"
# Pairs whose order alternates, so that a drift is in both alike.
BLOCKS = (RESTS, BUSY, BUSY, RESTS) * 3
# The neighbour's load: products of the library back to back, until it is killed. It says when it has begun.
LOAD = """
import cupy
A = cupy.full((8192, 8192), 0.5, cupy.float32)
C = A @ A
cupy.cuda.Device().synchronize()
print("busy", flush=True)
while True:
    for _ in range(20):
        cupy.matmul(A, A, out=C)
    cupy.cuda.Device().synchronize()
"""


@contextmanager
def busy(uuid: str, log: Path) -> Iterator[None]:
    """Keep a GPU busy; raises LadderError where its process ends by itself."""
    with log.open("wb") as errors:
        load = process.start([sys.executable, "-c", LOAD], env={VISIBLE: uuid}, stdout=subprocess.PIPE, stderr=errors)
        try:
            begun = load.stdout.readline()
            if begun:
                yield
        finally:
            ended = load.poll() is not None
            process.stop(load)
            load.stdout.close()
    if ended or not begun:
        said = log.read_text(errors="replace").strip().splitlines()
        raise LadderError(
            f"{uuid[:12]}: the neighbour's load ended by itself: {said[-1] if said else 'it said nothing'}"
        )


def timed(run: Plan, rung: str, made: Build, folder: Path) -> dict[str, ShapeTiming]:
    """The rung at each of SIZES, timed as the time stage does; raises LadderError where that fails."""
    record, settings = folder / f"{rung}.zip", run.settings["timing"]
    record.unlink(missing_ok=True)
    where = environment(ROOT, run.device, made.record, settings_digest(settings))
    asked = (rung, {rung: made}, list(SIZES), run.expected([rung]), settings, LEASED, where, record, folder / "log")
    if message := time_rung(*asked, lambda *_: None):
        raise LadderError(f"{rung}: not timed: {message}")
    return {str(shape): timing for shape, timing in read_time_record(record).items()}


def on_two_gpus(run: Plan) -> dict[str, Any]:
    """The record: for each block, rung and size the times in ms, the clock in MHz and the state of both GPUs."""
    own, neighbour = run.devices[:2]
    builds, blocks = checked_builds(run, RUNGS), []
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as place:
        folder = Path(place)
        for number, state in enumerate(BLOCKS):
            print(f"[neighbour] block {number + 1} of {len(BLOCKS)}: the other GPU {state}", flush=True)
            with busy(neighbour.uuid, folder / "load.log") if state == BUSY else nullcontext():
                for rung, made in builds.items():
                    timings = timed(run, rung, made, folder)
                    with visible_alone(neighbour.uuid):
                        beside = nvml.state(0)
                    for shape, timing in timings.items():
                        blocks.append(_row(number, state, rung, shape, timing, beside))
    settings = {"settings": [RUNGS, SIZES, BLOCKS, LOAD], "timing": run.settings["timing"]}
    return {
        "where": environment(ROOT, own, builds[RUNGS[-1]].record, settings_digest(settings)),
        "beside": {"name": neighbour.name, "uuid": neighbour.uuid},
        "blocks": blocks,
    }


def _row(number: int, state: str, rung: str, shape: str, timing: ShapeTiming, beside: Mapping[str, Any]) -> dict:
    measured = timing.own
    return {
        **{"block": number, "neighbour": state, "rung": rung, "shape": shape},
        "ms": [round(1e3 * float(time_s), 6) for time_s in measured.times_s],
        "sm_clock_mhz": round(float(np.median(measured.clocks_hz)) / 1e6, 3),
        "state": measured.state["after"],
        "neighbour_state": dict(beside),
    }


def effects(record: Mapping[str, Any]) -> str:
    """The record in words: a Markdown table with a row a rung and size.

    A change is the mean over pairs of blocks that follow each other, with its 95 % interval.
    """
    where = record["where"]
    lines = [
        f"On two {where['gpu']['name']}, {where['measured_at'][:10]}, {len(BLOCKS) // 2} pairs of blocks:",
        "",
        "| rung and size | time beside a busy GPU | SM clock | power | power of the other GPU |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rung in RUNGS:
        for shape in SIZES:
            rows = [row for row in record["blocks"] if (row["rung"], row["shape"]) == (rung, shape)]
            of = {state: [row for row in rows if row["neighbour"] == state] for state in (RESTS, BUSY)}
            pairs = list(zip(of[RESTS], of[BUSY], strict=True))
            changes = [float(np.log(np.median(after["ms"]) / np.median(before["ms"]))) for before, after in pairs]
            half = t_quantile(0.975, len(changes) - 1) * np.std(changes, ddof=1) / len(changes) ** 0.5
            readings = [
                _from_to(of, lambda row: row["sm_clock_mhz"], "MHz"),
                _from_to(of, lambda row: row["state"].get("power_w"), "W"),
                _from_to(of, lambda row: row["neighbour_state"].get("power_w"), "W"),
            ]
            change = f"{100 * np.expm1(np.mean(changes)):+.2f} % ± {100 * half:.2f} %"
            lines.append(f"| `{rung}` at {shape} | {change} | {' | '.join(readings)} |")
    return "\n".join(lines)


def _from_to(of: Mapping[str, Sequence[Mapping[str, Any]]], reading: Any, unit: str) -> str:
    """A reading's median beside a GPU that rests and beside a busy one; `-` where NVML does not tell it."""
    found = {state: [value for row in rows if (value := reading(row)) is not None] for state, rows in of.items()}
    if not all(found.values()):
        return "-"
    before, after = (float(np.median(found[state])) for state in (RESTS, BUSY))
    return f"{before:.0f} to {after:.0f} {unit}"


def neighbour() -> str:
    """What docs/measuring.md says of the record that ships."""
    path = ROOT / "results/h100-sxm/raw" / RECORD
    if not path.exists():
        return "This is not recorded yet: `python tools neighbour gpu` records it on two GPUs."
    return effects(read_record(path))


def record_gpu() -> None:
    """On two GPUs of one kind: results/GPU/raw/neighbour.json."""
    record_as(RECORD, on_two_gpus, gpus=2)


def show() -> None:
    """Print what is recorded of the GPU that is here, or of the one whose records are shown."""
    run = plan(read_yaml(ROOT / "config/config.yaml") | {"records": "shipped", "measure": False})
    path = run.raw() / RECORD
    if not path.exists():
        raise LadderError(f"{shown(path)}: there is none; record it on two GPUs: python tools neighbour gpu")
    print(effects(read_record(path)))


COMMANDS = {"gpu": record_gpu, "show": show}
