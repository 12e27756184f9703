"""One run against another, as a figure and in words."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ladder.model.shape import Shape
from ladder.records.baseline import find_baseline
from ladder.show.style import DPI, FIXED
from ladder.system.errors import LadderError
from ladder.tables.comparison import compare

_LIMIT = 5.0  # percent of change at which the figure's colours end


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
