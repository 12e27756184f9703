"""This run against another: for each rung and size faster, slower, same or undecided, by NVBench's robust comparison.

What NVBench's own tool `nvbench-compare-robust` decides for a pair of result files is decided here for a pair of time
records: both hold NVBench's summaries, samples and clocks as it wrote them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from cuda.bench.scripts import nvbench_compare_robust as nvbench
from matplotlib.figure import Figure

from ladder import records
from ladder.baseline import find_baseline
from ladder.config import Shape
from ladder.errors import LadderError
from ladder.figures import DPI, FIXED

VERDICTS = {"FAST": "faster", "SLOW": "slower", "SAME": "same", "AMBG": "undecided", "????": "undecided"}
COLUMNS = [
    *("rung", "shape", "m", "n", "k", "verdict", "reason"),
    *("time_ms_baseline", "time_ms", "change_percent", "change_percent_low", "change_percent_high"),
    *("same_build", "baseline_measured_at", "measured_at"),
]
_LIMIT = 5.0  # percent of change at which the figure's colours end


@dataclass(frozen=True)
class Timing:
    """The latest measurement of a rung at a shape in one record: what NVBench compares, and where it was made."""

    data: nvbench.GpuTimingData
    where: Mapping[str, Any]


def read_timings(path: Path, rung: str) -> dict[Shape, Timing]:
    """The rung's own timings in a time record, the latest of each shape.

    Raises LadderError where the record is damaged or of another version.
    """
    nvbench.load_nvbench_compare_tooling(load_color=False)
    found: dict[Shape, Timing] = {}
    for name, files in records.read_runs(path).items():
        where = records.run_record(files, f"{path}: {name}")["where"]
        try:
            for shape, summaries in _own_states(files, rung):
                found[shape] = Timing(_timing_data(files, summaries), where)
        except (KeyError, ValueError, StopIteration) as error:
            raise records.damaged(path, error) from None
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


def compare(rungs: Sequence[str], shapes: Sequence[Shape], baseline: Path, current: Path) -> pd.DataFrame:
    """Compare the time records of two folders: one row a rung and shape that both hold, with COLUMNS.

    Times are medians in milliseconds; changes are of the time, so negative is faster, and their interval is NVBench's.
    """
    rows = []
    for rung in rungs:
        paths = [folder / f"{rung}.zip" for folder in (baseline, current)]
        if not all(path.exists() for path in paths):
            continue
        before, after = (read_timings(path, rung) for path in paths)
        rows += [
            _row(rung, shape, before[shape], after[shape])
            for shape in sorted(shapes, key=lambda shape: shape.flop)
            if shape in before and shape in after
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(rung: str, shape: Shape, before: Timing, after: Timing) -> dict[str, Any]:
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
        "same_build": before.where["compile"]["build_digest"] == after.where["compile"]["build_digest"],
        "baseline_measured_at": before.where["measured_at"],
        "measured_at": after.where["measured_at"],
    }


def draw(table: pd.DataFrame, caption: str) -> Figure:
    """The change of every rung and size as a map; verdicts other than `same` are written out."""
    by_work = table.assign(work=table["m"] * table["n"] * table["k"]).sort_values("work", kind="stable")
    rungs, shapes = list(dict.fromkeys(table["rung"])), list(dict.fromkeys(by_work["shape"]))
    change = table.pivot(index="rung", columns="shape", values="change_percent").loc[rungs, shapes]
    verdict = table.pivot(index="rung", columns="shape", values="verdict").loc[rungs, shapes]
    marks = {"faster": "\nfaster", "slower": "\nslower", "undecided": "\n?", "same": ""}
    text = [
        [
            "" if pd.isna(value) else f"{value:+.1f}{marks[word]}"
            for value, word in zip(change.loc[rung], verdict.loc[rung], strict=True)
        ]
        for rung in rungs
    ]
    count = table["verdict"].value_counts()
    words = ", ".join(f"{count[word]} {word}" for word in ("faster", "slower", "same", "undecided") if word in count)
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        height = 1.6 + 0.42 * len(rungs)
        figure = Figure(figsize=(max(6.0, 2.6 + 0.75 * len(shapes)), height), dpi=DPI)
        axes = figure.subplots()
        sns.heatmap(
            change, annot=text, fmt="", center=0, vmin=-_LIMIT, vmax=_LIMIT, cmap="PuOr_r", linewidths=1, ax=axes,
            annot_kws={"fontsize": 7}, cbar_kws={"label": "change of time, %"},
        )  # fmt: skip
        axes.set_title(f"Against the baseline: {words}", loc="left", fontweight="bold", fontsize=12)
        axes.set(xlabel="", ylabel="")
        axes.tick_params(axis="y", rotation=0, labelsize=8)
        axes.tick_params(axis="x", rotation=30 if any("x" in shape for shape in shapes) else 0, labelsize=8)
        figure.text(0.01, 0.01, caption, fontsize=7, color="dimgray")
        figure.tight_layout(rect=(0, 0.03, 1, 1))
        return figure


def days(table: pd.DataFrame, column: str) -> str:
    """`2026-11-20`, or `2026-11-20 to 2026-11-21`: when the measurements of one side were made."""
    ends = sorted({min(table[column])[:10], max(table[column])[:10]})
    return " to ".join(ends)


def report(table: pd.DataFrame, missing: Sequence[str], baseline: str) -> str:
    """The comparison in lines for a terminal: what is not the same, then the count of each verdict."""
    lines = [f"against {baseline}:"]
    for row in table[table["verdict"] != "same"].itertuples():
        reason = row.reason if row.same_build else f"{row.reason}; another build"
        lines.append(
            f"  {row.rung:<24}{row.shape:<18}{row.verdict:<10}{row.time_ms_baseline:10.4f} ms -> "
            f"{row.time_ms:.4f} ms  {row.change_percent:+.2f} %  ({reason})"
        )
    count = table["verdict"].value_counts()
    lines.append("  " + ", ".join(f"{count.get(word, 0)} {word}" for word in ("faster", "slower", "same", "undecided")))
    if missing:
        lines.append(f"  not recorded in both: {', '.join(missing)}")
    return "\n".join(lines) + "\n"


def compare_with(baseline: str, gpu: str, rungs: Sequence[str], shapes: Sequence[Shape], current: Path) -> pd.DataFrame:
    """`compare` with the baseline that a user named; raises LadderError where nothing can be compared."""
    if not baseline:
        raise LadderError("baseline: not set; name a results folder or a git revision: --config baseline=HEAD~1")
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        table = compare(rungs, shapes, find_baseline(baseline, gpu, Path(folder)), current)
    if table.empty:
        raise LadderError(f"baseline: {baseline}: no rung of this run is recorded in both at any of its sizes")
    return table
