"""How often `snakemake compare` calls the same code different, and finds 1 %: results/GPU/raw/regression.json."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from ladder.build.compile import Build, build
from ladder.build.toolchain import find_nvcc
from ladder.commands.regress import in_two_steps
from ladder.config.plan import Plan
from ladder.measure.regress.stage import time_in_turn
from ladder.records.provenance import environment, settings_digest
from ladder.records.store import read_record
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.tables.regression import CONFIRMED, SCREENED, observed
from recording import checked_builds, record_as

RUNG = "fastest"
SLOWER = ROOT / "tests/regression/slower.cu"
SHAPES = ["2048", "4096"]
ROUNDS = 4
COMPARISONS = 100  # drawn from the recorded processes
RECORD = ROOT / "results/h100-sxm/raw/regression.json"
SIDES = ("before", "after", "planted")


def three_builds(run: Plan) -> dict[str, Build]:
    """The rung, the same library at another place, and the rung with the planted slowdown."""
    before = checked_builds(run, [RUNG])[RUNG]
    after, planted = (Build(ROOT / "build/regression" / name) for name in ("after", "planted"))
    shutil.copytree(before.folder, after.folder, dirs_exist_ok=True)
    nvcc, flags = find_nvcc(run.settings["compile"]["nvcc"]), run.settings["compile"]["flags"]
    record = build(replace(run.by_name(RUNG), source=str(SLOWER)), run.gpu, nvcc, flags, planted.folder)
    if record["status"] != "ok":
        raise LadderError(f"{SLOWER}: does not compile: {record['message']}")
    return dict(zip(SIDES, (before, after, planted), strict=True))


def blocks(process: int) -> list[str]:
    """The blocks of a process: each round has the three builds, in the other order than the round before."""
    return [f"{side}.{i}" for i in range(ROUNDS) for side in (SIDES if (process + i) % 2 == 0 else SIDES[::-1])]


def measured(run: Plan, seconds: int) -> dict[str, Any]:
    """The record: the change of each process and size, in logarithms, of the same code and of the slower code."""
    builds = three_builds(run)
    where = environment(
        ROOT, run.device, builds["before"].record, settings_digest({"settings": [RUNG, SHAPES, ROUNDS]})
    )
    rows: list[dict[str, Any]] = []
    begun, process = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        timing, device, log = run.settings["timing"], LEASED, ROOT / "build/regression/log"
        expected, order = run.expected([RUNG]), blocks(process)
        timings = time_in_turn(order, builds, SHAPES, expected, timing, device, where, log, lambda *_: None)
        same, slower = observed(timings), observed(timings, "planted")
        rows += [
            {"process": process, "shape": one.shape, "same": one.change, "planted": other.change}
            for one, other in zip(same.itertuples(), slower.itertuples(), strict=True)
        ]
        process += 1
    if process < SCREENED + CONFIRMED:
        raise LadderError(f"regression: {process} processes in {seconds} s; give more seconds")
    return {"where": where, "rung": RUNG, "wall_s": round(time.monotonic() - begun, 1), "processes": rows}


def drawn(processes: pd.DataFrame, column: str, random: np.random.Generator) -> pd.DataFrame:
    """One comparison of processes that are drawn without replacement; `decided`'s table. `column`: same, planted."""
    numbers = random.permutation(processes["process"].unique())

    def process(name: str, number: int, shapes: list[str]) -> pd.DataFrame:
        rows = processes[(processes["process"] == numbers[number]) & processes["shape"].isin(shapes)]
        return pd.DataFrame(
            {"shape": rows["shape"], "time_ms_before": 1.0, "time_ms": 1.0, "change": rows[column], "rung": name}
        )

    return in_two_steps([RUNG], list(processes["shape"].unique()), process)


def rates(record: Mapping[str, Any]) -> dict[str, Any]:
    """What COMPARISONS drawn comparisons say: how many call the same code different, how many find what was planted.

    Keys: processes, comparisons, different, found (by shape), planted_percent (by shape, the mean of all processes).
    """
    processes, random = pd.DataFrame(record["processes"]), np.random.default_rng(1)
    verdicts = {
        column: [drawn(processes, column, random).set_index("shape")["verdict"] for _ in range(COMPARISONS)]
        for column in ("same", "planted")
    }
    planted = processes.groupby("shape", sort=False)["planted"].mean()
    return {
        "processes": int(processes["process"].nunique()),
        "comparisons": COMPARISONS,
        "different": sum(bool(found.isin(["slower", "faster"]).any()) for found in verdicts["same"]),
        "found": {shape: sum(found[shape] == "slower" for found in verdicts["planted"]) for shape in planted.index},
        "planted_percent": {shape: 100 * float(np.expm1(change)) for shape, change in planted.items()},
    }


def regression() -> str:
    """The record in words."""
    if not RECORD.exists():
        return "These rates are not recorded yet: `python tools regression gpu` records them."
    record = read_record(RECORD)
    told, where = rates(record), record["where"]
    planted = " and ".join(f"{percent:.1f} % at {shape}" for shape, percent in told["planted_percent"].items())
    found = " and ".join(f"{count} at {shape}" for shape, count in told["found"].items())
    return (
        f"We timed `{record['rung']}`, a copy of it and a version that is slower by {planted} in {told['processes']}"
        f" processes ({where['gpu']['name']}, {where['measured_at'][:10]}). Of {told['comparisons']} comparisons drawn"
        f" from them, {told['different']} called the copy different. Of as many with the slower version, {found} found"
        " it."
    )


def record_gpu(seconds: int = 110) -> None:
    """On a GPU, for so many seconds: results/GPU/raw/regression.json."""
    record_as(RECORD.name, lambda run: measured(run, seconds))


COMMANDS = {"gpu": record_gpu}
