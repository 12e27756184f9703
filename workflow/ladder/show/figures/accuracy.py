"""How accurate is it? Errors against k of the libraries and of every class beside FP32, with their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ladder.model.precision import BOUNDS, TITLES, labelled
from ladder.show.figures.specification import Axis, Choice, Layer, Specification
from ladder.show.style import rung_key

FAMILY_TITLES = {"normal": "normal", "positive": "uniform in [0, 1)", "wide_range": "wide range"}


def figure(table: pd.DataFrame, rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()) -> Specification:
    """The error's norm against k, a panel a size and family of inputs, and against the time at one k of each size.

    `table` is of `accuracy_table`, `rungs` the table of rungs.
    """
    key = replace(rung_key(labelled(rungs, rungs), baseline, ladder), direct=False)
    families = [family for family in FAMILY_TITLES if family in set(table["family"])]
    parts, x = [], {}
    for size, rows in table.groupby("m"):
        for family in families:
            panel = f"m = n = {size}, {FAMILY_TITLES[family]}"
            own = rows[rows["family"] == family].sort_values("k")
            parts.append(own.assign(panel=panel, at=own["k"]))
            ticks = [4**power for power in range(12) if own["k"].min() <= 4**power <= own["k"].max()]
            x[panel] = Axis("k", "log", {tick: f"{tick}" for tick in ticks})
        own = rows[rows["family"] == families[0]]
        k = min(own["k"].unique(), key=lambda k: abs(k - 4096))
        panel = f"m = n = {size}, k = {k}: beside time"
        own = own[own["k"] == k].dropna(subset=["time_ms"])
        parts.append(own.assign(panel=panel, at=own["time_ms"]))
        x[panel] = Axis("ms", limits=(0, None))
    data = labelled(pd.concat(parts) if parts else table.assign(panel="", at=0.0), rungs)
    errors = data["error_normwise"]
    time = f" Time is that of {FAMILY_TITLES[families[0]]} inputs." if families else ""
    return Specification(
        title=_title(table, baseline),
        note="The norm of the error over the norm of the product, against a product in float64." + time,
        layers=[Layer("line", data, "at", "error_normwise", key=key)],
        x=x or Axis("k"),
        y=Axis("relative error, by norms", "log", limits=(errors.min() / 2, errors.max() * 2)) if families else Axis(),
        panels=Choice("panel", "Panel", list(x), next(iter(x))) if x else None,
        columns=2,
        height=2.5,
    )


def _title(table: pd.DataFrame, baseline: str) -> str:
    """How the largest error of each class that keeps FP32's bounds compares with the baseline's at the same place."""
    if table.empty:
        return "No accuracy is recorded"
    place = ["family", "m", "n", "k"]
    beside = table.merge(
        table.loc[table["rung"] == baseline, [*place, "error_normwise"]], on=place, suffixes=("", "_0")
    )
    split = [each for each, bound in BOUNDS.items() if bound == BOUNDS["fp32"] and each != "fp32"]
    times = (beside["error_normwise"] / beside["error_normwise_0"])[beside["precision"].isin(split)]
    if times.empty:
        return "Error of C = A B by k"
    classes = " and ".join(TITLES[each] for each in split if each in set(beside["precision"]))
    return f"Rungs of {classes} err at most {times.max():.2f} times as much as {baseline}"
