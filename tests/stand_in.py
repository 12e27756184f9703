"""In the place of workflow/ladder/measure/worker.py: checks and times on no GPU, with times that an H100 once took.

In the folder that STAND_IN_NOTES names it keeps a file for each GPU, with a line whenever a job comes and goes; there
and in STAND_IN_SECONDS, how long a job stays, tests say what is to happen.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ladder.records import store
from ladder.system import process
from ladder.system.paths import ROOT

WORKER = "ladder.measure.worker"


def check(asked: dict[str, Any]) -> None:
    """Every case passes."""
    for case in asked["cases"]:
        process.emit(starts=case)
        process.emit(case={**case, "seed": 1, "verdict": "pass", "identical": True})


def times(asked: dict[str, Any]) -> None:
    """NVBench's files of the recorded run of this rung."""
    runs = store.read_runs(ROOT / f"results/h100-sxm/raw/time/{asked['rung']}.zip")
    files = runs[max(runs)]
    for name, content in files.items():
        if name != "record.json":
            store.write_bytes(Path(asked["folder"]) / name, content)
    process.emit(states=json.loads(files["record.json"])["states"])


def hardware(asked: dict[str, Any]) -> None:
    """Three probes, of which each kind is one, on an SM that runs at 1 GHz."""
    for of, kind, how, count in (
        ("L2", "latency", "load, 8 bytes, one thread", 512),
        ("DRAM", "bandwidth", "load, 16 bytes a thread", 25_000_000),
        ("FFMA", "rate", "FP32", 200_000_000),
    ):
        described = {"of": of, "kind": kind, "how": how, "count": count, "blocks": 1 if kind == "latency" else 132}
        process.emit(starts=described)
        process.emit(probe={**described, "cycles": [1e6, 1.1e6, 0.9e6], "ns": [1e6, 1.1e6, 0.9e6]})


def main() -> None:
    """Do what the request's stage does."""
    with process.request() as asked:
        name = asked.get("rung") or Path(asked["library"]).parent.name
        note = f"{asked['stage']} {name} {os.getpid()}"
        notes = Path(os.environ["STAND_IN_NOTES"]) / os.environ["CUDA_VISIBLE_DEVICES"]
        for word in ("begins", "ends"):
            with notes.open("a") as file:
                file.write(f"{word} {note} {time.monotonic()}\n")
            if word == "begins":
                time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0.1")))
                {"check": check, "time": times, "hardware": hardware}[asked["stage"]](asked)


if __name__ == "__main__":
    main()
