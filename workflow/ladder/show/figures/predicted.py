"""The predicted rate of each rung and size beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Key, Layer, Specification


def figure(predictions: pd.DataFrame, order: Sequence[str]) -> Specification:
    """A mark a rung and size, with a line where both rates are equal; `predictions` is the table of that name."""
    table = predictions[predictions["rung"].isin(order)]
    data = table[["rung", "error_percent", "bound_by"]].assign(
        n=table["n"].map(str),
        measured=table["measured_gflops"] / 1e3,
        predicted=table["predicted_gflops"] / 1e3,
    )
    sizes = [str(n) for n in sorted(table["n"].unique())]
    key = Key("n", dict(zip(sizes, PALETTE, strict=False)), dict(zip(sizes, MARKERS, strict=False)))
    rates = data[["measured", "predicted"]]
    ends = [0.8 * rates.min(axis=None), 1.25 * rates.max(axis=None)] if len(data) else []
    equal = pd.DataFrame({"measured": ends, "predicted": ends, "n": ""})
    hints = {"rung": "rung", "n": "m = n = k", "measured": "measured, TFLOP/s", "predicted": "predicted, TFLOP/s"}
    hints |= {"error_percent": "error, %", "bound_by": "lowest ceiling"}
    median = data["error_percent"].abs().median()
    limits = (ends[0], ends[1]) if ends else (None, None)
    return Specification(
        title=f"Half of the predicted rates lie within {median:.0f} % of the measured ones"
        if len(data)
        else "Predicted and measured rates",
        note="The prediction of a rung is fitted to the times of all other rungs, never to its own. The line is where"
        " both are equal. Only rungs whose product FFMAs compute are shown.",
        layers=[
            Layer("line", equal, "measured", "predicted", behind=True),
            Layer("point", data, "measured", "predicted", key=key, hints=hints),
        ],
        x=Axis("measured, TFLOP/s", "log", limits=limits),
        y=Axis("predicted, TFLOP/s", "log", limits=limits),
        height=4.5,
        empty="No times of rungs are recorded that a prediction could be fitted to.",
    )
