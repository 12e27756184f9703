"""Every rung at one shape, in each metric."""

from __future__ import annotations

import pandas as pd

from ladder.model.precision import labelled
from ladder.model.shape import Shape
from ladder.show.figures.by_size import BY_SIZE_METRICS, HINTS, share_note, size_rows
from ladder.show.figures.specification import Axis, Choice, Key, Layer, Specification
from ladder.show.numbers import number
from ladder.tables.timings import headline_shape


def figure(timings: pd.DataFrame, rungs: pd.DataFrame, baseline: str, key: Key) -> Specification:
    """A bar a rung with its interval and its value; a choice of the metric and of the shape. `key` is of the rungs."""
    data = labelled(size_rows(timings, rungs), rungs)
    data = data.assign(text=data["value"].map(number))
    shapes = sorted(data["shape"].unique(), key=lambda shape: Shape.parse(shape).flop)
    return Specification(
        title="At one size",
        note=f"Bars are medians; the line at a bar's end is its 95 % interval. A name with no class of arithmetic in"
        f" brackets is FP32. {share_note(rungs)}",
        layers=[
            Layer("bar", data, "value", "rung", key=key, low="low", high="high", hints=HINTS),
            Layer("text", data, "high", "rung", text="text", offset=(6, 0)),
        ],
        x=Axis(),
        y=Axis(scale="names", names=[name for name in key.colors if name in set(data["rung"])]),
        choices=[
            Choice("metric", "metric", list(BY_SIZE_METRICS), "% of cuBLAS"),
            Choice("shape", "shape", shapes, headline_shape(data)),
        ],
    )
