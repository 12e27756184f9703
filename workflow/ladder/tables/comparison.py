"""This run against another: for each rung and size faster, slower, same or undecided, by NVBench's robust comparison.

What NVBench's own tool `nvbench-compare-robust` decides for a pair of result files is decided here for a pair of time
records: both hold NVBench's summaries, samples and clocks as it wrote them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from cuda.bench.scripts import nvbench_compare_robust as nvbench

from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.digests import build_of
from ladder.records.identity import RecordPlace
from ladder.records.provenance import ORIGIN, origin

VERDICTS = {"FAST": "faster", "SLOW": "slower", "SAME": "same", "AMBG": "undecided", "????": "undecided"}
COMPARISON_COLUMNS = [
    *("rung", "shape", "m", "n", "k", "verdict", "reason"),
    *("time_ms_baseline", "time_ms", "change_percent", "change_percent_low", "change_percent_high"),
    *("same_build", "baseline_measured_at", "measured_at"),
    *(f"{side}{name}" for name in ORIGIN for side in ("baseline_", "")),
]


@dataclass(frozen=True)
class LatestTiming:
    """The latest measurement of a rung at a shape in one record: what NVBench compares, and where it was made."""

    data: nvbench.GpuTimingData
    where: Mapping[str, Any]


def read_timings(path: Path, rung: str, gpu: str) -> dict[Shape, LatestTiming]:
    """The rung's own timings in a time record, the latest of each shape.

    Raises LadderError where the record is damaged, of another version, or of another rung or GPU.
    """
    nvbench.load_nvbench_compare_tooling(load_color=False)
    found: dict[Shape, LatestTiming] = {}
    for files in store.read_runs(path).values():
        where = store.run_record(files, path, RecordPlace("time", rung, gpu))["where"]
        try:
            for shape, summaries in _own_states(files, rung):
                found[shape] = LatestTiming(_timing_data(files, summaries), where)
        except (KeyError, ValueError, StopIteration) as error:
            raise store.damaged(path, error) from None
    return found


def _own_states(files: Mapping[str, bytes], rung: str) -> Iterator[tuple[Shape, list[dict[str, Any]]]]:
    for benchmark in json.loads(files["nvbench.json"])["benchmarks"]:
        for state in benchmark["states"]:
            axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
            if axes["kernel"] == rung:
                yield Shape.parse(axes["shape"]), state["summaries"]


def _timing_data(files: Mapping[str, bytes], summaries: list[dict[str, Any]]) -> nvbench.GpuTimingData:
    inside = "/record"

    def read(filename: str) -> bytes:
        return files[os.path.relpath(filename, inside)]

    return nvbench.extract_gpu_timing_data(summaries, inside, read)


def compare(rungs: Sequence[str], shapes: Sequence[Shape], baseline: Path, current: Path, gpu: str) -> pd.DataFrame:
    """Compare a GPU's time records of two folders: one row a rung and shape that both hold, with COMPARISON_COLUMNS.

    Times are medians in milliseconds; changes are of the time, so negative is faster, and their interval is NVBench's.
    """
    rows = []
    for rung in rungs:
        paths = [folder / f"{rung}.zip" for folder in (baseline, current)]
        if not all(path.exists() for path in paths):
            continue
        before, after = (read_timings(path, rung, gpu) for path in paths)
        rows += [
            _row(rung, shape, before[shape], after[shape])
            for shape in sorted(shapes, key=lambda shape: shape.flop)
            if shape in before and shape in after
        ]
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)


def _row(rung: str, shape: Shape, before: LatestTiming, after: LatestTiming) -> dict[str, Any]:
    decided = nvbench.compare_gpu_timings(before.data, after.data)
    low, high = decided.frac_diff_interval or (float("nan"), float("nan"))
    return {
        **{"rung": rung, "shape": str(shape), "m": shape.m, "n": shape.n, "k": shape.k},
        "verdict": VERDICTS[decided.status.value],
        "reason": decided.reason.code.replace("_", " "),
        "time_ms_baseline": 1e3 * decided.ref_time,
        "time_ms": 1e3 * decided.cmp_time,
        "change_percent": 100 * decided.frac_diff,
        "change_percent_low": 100 * low,
        "change_percent_high": 100 * high,
        "same_build": build_of(before.where) == build_of(after.where),
        "baseline_measured_at": before.where["measured_at"],
        "measured_at": after.where["measured_at"],
        **{f"baseline_{name}": text for name, text in origin([before.where]).items()},
        **origin([after.where]),
    }
