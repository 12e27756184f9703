"""Every GPU that has records beside the others, at the size that they share most of."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ladder.model.precision import label
from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.across import common_size
from ladder.tables.timings import square_rows

# unit -> (column of the table, factor)
_METRICS = {
    "TFLOP/s": ("gflops", 1e-3),
    "% of FP32 peak": ("share_of_peak", 100),
    "% of cuBLAS": ("share_of_cublas", 100),
}


def gpu_key(table: pd.DataFrame) -> Key:
    """Colour and marker of each GPU."""
    names = sorted(table["gpu"].unique())
    return Key(
        "gpu",
        {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)},
        {name: MARKERS[place % len(MARKERS)] for place, name in enumerate(names)},
    )


def with_labels(table: pd.DataFrame, claims: Mapping[str, str]) -> pd.DataFrame:
    """A table of `across_table` with labels in place of the rungs' names; `claims` are those of restricted rungs."""
    return table.assign(rung=[label(row.rung, row.precision, claims.get(row.rung, "")) for row in table.itertuples()])


def figure(table: pd.DataFrame, baseline: str, claims: Mapping[str, str]) -> Specification:
    """Rate, share of peak and share of cuBLAS of each rung on each GPU; the arguments are those of `with_labels`."""
    size = common_size(table)
    rows = square_rows(table)
    rows = rows[rows["n"] == size]
    order = list(with_labels(table, claims)["rung"].unique())
    named = with_labels(rows, claims)
    nan = float("nan")
    parts = [
        named[["rung", "gpu"]].assign(
            metric=metric,
            value=factor * rows[column],
            **{end: factor * rows.get(f"{column}_ci_{end}", nan) for end in ("low", "high")},
        )
        for metric, (column, factor) in _METRICS.items()
    ]
    data = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    return Specification(
        title=_title(rows, baseline, size),
        note="Medians with their 95 % intervals; shares of cuBLAS are measured side by side.",
        layers=[Layer("point", data, "value", "rung", key=gpu_key(table), low="low", high="high", dodge=True)],
        x={metric: Axis(metric, limits=(0, None)) for metric in _METRICS},
        y=Axis(scale="names", names=[name for name in order if name in set(data["rung"])]),
        panels=Choice("metric", "metric", list(_METRICS), next(iter(_METRICS))),
        columns=3,
    )


def _title(rows: pd.DataFrame, baseline: str, size: int | None) -> str:
    libraries = {baseline, *rows["baseline"]}
    best = rows[~rows["rung"].isin(libraries) & (rows["precision"] == "fp32")].dropna(subset=["gflops"])
    if best.empty:
        return "No rung is recorded at a square size"
    best = best.loc[best.groupby("gpu")["gflops"].idxmax()].sort_values("gflops", ascending=False)
    parts = [f"{row.rung} {row.gflops / 1000:.1f} TFLOP/s on {row.gpu}" for row in best.head(3).itertuples()]
    more = "" if len(best) <= 3 else f" (of {len(best)} GPUs)"
    return f"The best FP32 rung at {size}: {', '.join(parts)}{more}"
