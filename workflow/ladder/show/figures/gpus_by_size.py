"""Share of the FP32 peak over the size of square products, on every GPU that has records."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ladder.show.figures.gpus import gpu_key, with_labels
from ladder.show.figures.specification import Axis, Choice, Layer, Specification, size_axis
from ladder.tables.timings import square_rows


def figure(table: pd.DataFrame, claims: Mapping[str, str]) -> Specification:
    """A panel a rung of the class fp32, a line a GPU; table and claims as `gpus.with_labels` takes them."""
    plain = with_labels(table[table["precision"] == "fp32"], claims)
    rows = square_rows(plain).dropna(subset=["share_of_peak"])
    rungs = [name for name in plain["rung"].unique() if name in set(rows["rung"])]
    data = rows[["rung", "gpu", "n"]].assign(percent=100 * rows["share_of_peak"])
    return Specification(
        title="Share of the FP32 peak by size",
        note="Medians.",
        layers=[Layer("line", data, "n", "percent", key=gpu_key(table))],
        x=size_axis(data["n"], apart=4),
        y=Axis("% of FP32 peak", limits=(0, max([100, 1.05 * data["percent"].max()]) if len(data) else 100)),
        panels=Choice("rung", "Rung", rungs, rungs[0]) if rungs else None,
        columns=4,
        height=1.7,
    )
