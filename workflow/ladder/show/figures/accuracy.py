"""How accurate is it? Errors against k of the libraries and of every class beside FP32, with their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ladder.model.precision import BOUNDS, TITLES, labelled
from ladder.show.figures.specification import Axis, Choice, Layer, Specification, apart
from ladder.show.style import rung_key

FAMILY_TITLES = {"normal": "normal", "positive": "uniform in [0, 1)", "wide_range": "wide range"}


def figure(table: pd.DataFrame, rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()) -> Specification:
    """The error's norm against k, a panel a family of inputs, and against the time at one k; a choice of the size.

    `table` is of `accuracy_table`, `rungs` the table of rungs.
    """
    table = table[table["rung"].isin(rungs["rung"])]
    if table.empty:
        return Specification(_title(table, baseline), "", [], Axis("k"), Axis())
    key = replace(rung_key(labelled(rungs, rungs), baseline, ladder), direct=False)
    table = labelled(table, rungs).assign(order=lambda rows: rows["rung"].map(list(key.colors).index))
    table = table.assign(size=table["m"].astype(str)).sort_values(["order", "k"])
    families = [family for family in FAMILY_TITLES if family in set(table["family"])]
    titles = [FAMILY_TITLES[family] for family in families]
    errors, ks = table["error_normwise"], table["k"]
    y = Axis("relative error", "log", limits=(errors.min() / 2, errors.max() * 2))
    ticks = {float(4**power): f"{4**power}" for power in range(12) if ks.min() <= 4**power <= ks.max()}
    by_k = Axis("k", "log", ticks, (ks.min() / 1.5, ks.max() * 1.5))
    time = f"{titles[0]}: error against time"
    parts = []
    for (_, family), rows in table.groupby(["size", "family"], sort=False):
        places = apart(rows, "k", "error_normwise", by_k, y, width=0.016)
        parts.append(rows.assign(panel=FAMILY_TITLES[family], at=places))
        if family == families[0]:
            k = min(rows["k"].unique(), key=lambda k: abs(k - 4096))
            parts.append(rows[rows["k"] == k].assign(panel=time, at=rows["time_ms"]).dropna(subset=["at"]))
    sizes = [str(size) for size in sorted(table["m"].unique())]
    hints = {"rung": "rung", "size": "m = n", "k": "k", "error_normwise": "relative error", "time_ms": "median, ms"}
    return Specification(
        title=_title(table, baseline),
        note="The norm of the error over the norm of the product, against a product in float64. Times are at the k"
        " nearest to 4096. Marks that would cover each other are moved sideways a little.",
        layers=[Layer("line", pd.concat(parts), "at", "error_normwise", key=key, hints=hints)],
        x=dict.fromkeys(titles, by_k) | {time: Axis("ms", limits=(0, None))},
        y=y,
        panels=Choice("panel", "Panel", [*titles, time], titles[0]),
        choices=[Choice("size", "m = n", sizes, sizes[0])],
        height=1.9,
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
    return f"The error of {classes} is at most {times.max():.2f} times that of {baseline}"
