"""The predicted rate of each rung and size beside the measured one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.predictions import FFMAS, error_table

UNIT_PANELS = {True: "FP32 units (FFMA)", False: "tensor cores (mma.sync, wgmma)"}


def figure(predictions: pd.DataFrame, order: Sequence[str]) -> Specification:
    """A mark a rung and size that was timed, with a line where both are equal, a panel for each unit that multiplies.

    `predictions` is the table of that name.
    """
    table = predictions[predictions["rung"].isin(order) & predictions["timed"].astype(bool)]
    data = table[["rung", "by", "error_percent", "bound_by", "counted_from"]].assign(
        n=table["n"].map(str),
        measured=table["measured_gflops"] / 1e3,
        predicted=table["predicted_gflops"] / 1e3,
        unit=(table["by"] == FFMAS).map(UNIT_PANELS),
    )
    sizes = [str(n) for n in sorted(table["n"].unique())]
    key = Key("n", dict(zip(sizes, PALETTE, strict=False)), dict(zip(sizes, MARKERS, strict=False)))
    units = [unit for unit in UNIT_PANELS.values() if unit in set(data["unit"])]
    ends = {
        unit: (0.8 * rates.min(axis=None), 1.25 * rates.max(axis=None))
        for unit, rates in ((unit, data.loc[data["unit"] == unit, ["measured", "predicted"]]) for unit in units)
    }
    equal = pd.DataFrame(
        [{"measured": end, "predicted": end, "n": "", "unit": unit} for unit in units for end in ends[unit]],
        columns=["measured", "predicted", "n", "unit"],
    )
    hints = {"rung": "rung", "n": "m = n = k", "measured": "measured, TFLOP/s", "predicted": "predicted, TFLOP/s"}
    hints |= {"error_percent": "error, %", "bound_by": "lowest ceiling", "by": "multiplied by"}
    hints |= {"counted_from": "passes or rates from"}
    median = data["error_percent"].abs().median()
    errors = [f"{row.median_error_percent:.1f} % for {row.by}" for row in error_table(table).itertuples()][:-1]
    said = f"The median error is {', '.join(errors)}. " if errors else ""
    x, y = (
        {unit: Axis(f"{name}, TFLOP/s", "log", limits=ends[unit]) for unit in units} or Axis(f"{name}, TFLOP/s")
        for name in ("measured", "predicted")
    )
    return Specification(
        title=f"Half of the predicted rates lie within {median:.0f} % of the measured ones"
        if len(data)
        else "Predicted and measured rates",
        note=f"{said}The prediction of a rung is fitted to the times of all other rungs of its unit, never to its own."
        " On the line both are equal.",
        layers=[
            Layer("line", equal, "measured", "predicted", behind=True),
            Layer("point", data, "measured", "predicted", key=key, hints=hints),
        ],
        x=x,
        y=y,
        panels=Choice("unit", "unit", units, units[0]) if units else None,
        columns=max(1, len(units)),
        height=4.0,
        empty="No times of rungs are recorded that a prediction could be fitted to.",
    )
