"""Every GPU that has records beside the others: one table, from the raw records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.config import gpus
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.records.digests import source_of
from ladder.records.identity import RecordPlace
from ladder.records.provenance import ORIGIN
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.tables.evidence import Evidence, read_evidence
from ladder.tables.timings import square_rows, timing_table

ACROSS_COLUMNS = [
    *("rung", "precision", "shape", "m", "n", "k", "gpu", "device"),
    *("time_ms_median", "gflops", "gflops_ci_low", "gflops_ci_high", "share_of_peak"),
    *(f"share_of_cublas{end}" for end in ("", "_ci_low", "_ci_high")),
    *(f"speedup_over_naive{end}" for end in ("", "_ci_low", "_ci_high")),
    *("baseline", "sm_clock_mhz", "throttle_reasons", *ORIGIN, "measured_at", "driver", "source_digest"),
]


def across_table(
    results: Path,
    rungs: Sequence[Rung],
    shapes: list[Shape] | None,
    baseline: str,
    first: str,
    own: Sequence[Path] = (),
) -> pd.DataFrame:
    """One row a rung, shape and GPU whose check passed there, by the ladder, the work and the GPU's name.

    `results` holds one folder a GPU, with the records that ship; `own` are the folders of those of devices of the
    user's own. `shapes` are those asked for, or None for all. Columns: ACROSS_COLUMNS, where gpu is the folder, with
    the user's device behind it, and device NVML's name, shares are fractions, and source_digest is of the code that was
    measured; the others are those of `ladder.tables.timings.timing_table`. Raises LadderError where nothing is recorded
    or a record is damaged.
    """
    parts = []
    for raw in [*sorted(results.glob("*/raw")), *own]:
        evidence = [read_evidence(rung, None, raw, shapes) for rung in rungs if rung.role != "floor"]
        sound = [item for item in evidence if item.sound and item.timings]
        if sound:
            parts.append(_on_one_gpu(sound, RecordPlace.of(raw / "time"), baseline, first))
    if not parts:
        raise LadderError(f"{results.name}: no GPU has records of these rungs and sizes; make some on a GPU: make run")
    order = {rung.name: place for place, rung in enumerate(rungs)}
    table = pd.concat(parts, ignore_index=True)
    table["work"] = table["m"] * table["n"] * table["k"]
    table["place"] = table["rung"].map(order)
    return table.sort_values(["place", "work", "shape", "gpu"], ignore_index=True)[ACROSS_COLUMNS]


def _on_one_gpu(evidence: Sequence[Evidence], place: RecordPlace, baseline: str, first: str) -> pd.DataFrame:
    where = {(item.rung.name, str(shape)): timing.where for item in evidence for shape, timing in item.timings.items()}
    table = timing_table(evidence, _gpu(place.gpu, next(iter(where.values()))), baseline, first)
    places = [where[key] for key in zip(table["rung"], table["shape"], strict=True)]
    renamed = {f"speedup_over_cublas{end}": f"share_of_cublas{end}" for end in ("", "_ci_low", "_ci_high")}
    return table.rename(columns=renamed).assign(
        gpu=" ".join(filter(None, [place.gpu, place.device])),
        device=[place["gpu"]["name"] for place in places],
        driver=[place["gpu"]["driver"] for place in places],
        source_digest=[source_of(place) for place in places],
    )


def _gpu(name: str, where: Mapping[str, Any]) -> Gpu:
    """The GPU of a folder of results: its file, or what NVML said of it when its records were made."""
    return gpus.read_gpu(name) if name in gpus.names() else gpus.from_device(Present(**where["gpu"]))


def caption(table: pd.DataFrame) -> str:
    """On which GPUs, with which drivers and when, and which rungs were not of the same source on all."""
    lines = []
    for name, rows in table.groupby("gpu", sort=True):
        days = sorted({min(rows["measured_at"])[:10], max(rows["measured_at"])[:10]})
        drivers = ", ".join(sorted(rows["driver"].unique()))
        lines.append(f"{name}: {rows['device'].iloc[0]}, driver {drivers}, {' to '.join(days)}")
    sources = table.groupby("rung", sort=False)["source_digest"].nunique()
    changed = list(sources[sources > 1].index)
    if changed:
        lines.append(f"Not of the same source on all: {', '.join(changed)}")
    return "\n".join(lines)


def common_size(table: pd.DataFrame) -> int | None:
    """Of the square sizes on most GPUs that at which most rungs are on all of them, the largest of equals; or None."""
    gpus = square_rows(table).groupby(["n", "rung"])["gpu"].nunique()
    if gpus.empty:
        return None
    most = square_rows(table).groupby("n")["gpu"].nunique()
    shared = gpus.eq(most.max()).groupby("n").sum()
    return int(max(most[most == most.max()].index, key=lambda n: (shared[n], n)))
