"""One run against another, in words."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ladder.model.shape import Shape
from ladder.records.baseline import find_baseline
from ladder.system.errors import LadderError
from ladder.tables.comparison import compare


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
        table = compare(rungs, shapes, find_baseline(baseline, gpu, Path(folder)), current, gpu)
    if table.empty:
        raise LadderError(f"baseline: {baseline}: no rung of this run is recorded in both at any of its sizes")
    return table
