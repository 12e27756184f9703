"""Drawn products and data as users have them: where a rung is slower than the libraries, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ladder.model.precision import labelled
from ladder.model.shape import Shape
from ladder.model.survey import EVERY_PRODUCT
from ladder.show.figures.specification import Axis, Choice, Key, Layer, Specification
from ladder.show.numbers import number, percent
from ladder.show.style import rung_key
from ladder.tables.survey import SLOWER_BELOW

# Shares of cuBLAS by their upper end, with colour and mark: from far slower to far faster.
_STEPS = {
    "below 70 %": (0.7, "#882255", "v"),
    f"to {100 * SLOWER_BELOW:.0f} %": (SLOWER_BELOW, "#cc6677", "s"),
    "to 120 %": (1.2, "#88ccee", "o"),
    "above": (float("inf"), "#332288", "^"),
}
_COLORS, _MARKERS = ({name: step[part] for name, step in _STEPS.items()} for part in (1, 2))
_KEY = Key("step", _COLORS, _MARKERS)
WORST = 3  # products of each rung that are named
MOST_SURVEYED = 6
_TICKS = {100 * 2.0**power: f"{100 * 2**power:g}" for power in range(-5, 5)}


def products(survey: pd.DataFrame, classes: pd.DataFrame, rungs: pd.DataFrame) -> Specification:
    """A dot a drawn product at m n and k, in the colour of its share of cuBLAS; a panel a rung.

    `survey` and `classes` are the tables survey and survey_classes, `rungs` the table of rungs.
    """
    shown = _rungs(survey, rungs)
    data = labelled(survey[survey["rung"].isin(shown)].dropna(subset="share_of_cublas"), rungs)
    data = data.assign(elements=data["m"] * data["n"], shape=_shapes(data), step=_step(data["share_of_cublas"]))
    worst = data.sort_values("share_of_cublas").groupby("rung", sort=False).head(WORST)
    worst = worst.assign(
        text=[f"{row.shape}: {percent(row.share_of_cublas)}" for row in worst.itertuples()],
        at=data["elements"].min(),
        line=[data["k"].max() * 4.0 ** (WORST - place) for place in worst.groupby("rung", sort=False).cumcount()],
    )
    hints = {"rung": "rung", "shape": "m x n x k", "share_of_cublas": "share of cuBLAS", "reference": "the faster"}
    panels = [name for name in labelled(rungs, rungs)["rung"] if name in set(data["rung"])]
    return Specification(
        title=_title(classes, rungs),
        note="Each mark is a product with m, n and k drawn at random, a quarter of them with gaps between rows. Its"
        " share is the time of the faster library over the rung's."
        f" On top: the {WORST} lowest of each rung.",
        layers=[
            Layer("point", data, "elements", "k", key=_KEY, size=3.5, hints=hints),
            Layer("text", worst, "at", "line", text="text", offset=(0, 0)),  # where no product is
        ],
        x=_axis("m n, elements of C", data["elements"], 3, 2.0),
        y=_axis("k", data["k"], 1, 4.0 ** (WORST + 1)),
        panels=Choice("rung", "Rung", panels, panels[0]) if panels else None,
        columns=min(2, max(1, len(panels))),
        empty="No survey is recorded.",
    )


def reached_bandwidth(survey: pd.DataFrame, classes: pd.DataFrame, rungs: pd.DataFrame) -> Specification:
    """A dot a drawn product that is bound by memory: its bytes and the share of the DRAM bandwidth that they had.

    The tables are those of `products`; a panel a rung, in the colours of the share of cuBLAS.
    """
    own = survey[survey["rung"].isin(_rungs(survey, rungs)) & survey["share_of_bandwidth"].notna()]
    data = labelled(own.dropna(subset="share_of_cublas"), rungs)
    data = data.assign(
        megabytes=data["least_gb_s"] * data["time_us"] / 1e3,
        reached=100 * data["share_of_bandwidth"],
        shape=_shapes(data),
        step=_step(data["share_of_cublas"]),
    )
    hints = {"rung": "rung", "shape": "m x n x k", "reached": "% of the DRAM bandwidth"}
    hints |= {"share_of_cublas": "share of cuBLAS", "reference": "the faster"}
    panels = [name for name in labelled(rungs, rungs)["rung"] if name in set(data["rung"])]
    return Specification(
        title=_title_of_bandwidth(classes, rungs),
        note="Products that need more time for reading A and B and writing C once, at the DRAM bandwidth, than for"
        " computing, at the peak of their class, and than an empty kernel takes.",
        layers=[Layer("point", data, "megabytes", "reached", key=_KEY, size=3.5, hints=hints)],
        x=Axis("MB that A, B and C are", "log"),
        y=Axis("% of the DRAM bandwidth", limits=(0, max(100.0, data["reached"].max()) if len(data) else 100)),
        panels=Choice("rung", "Rung", panels, panels[0]) if panels else None,
        columns=min(2, max(1, len(panels))),
        empty="No product that is bound by memory is recorded.",
    )


def on_data(table: pd.DataFrame, rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()) -> Specification:
    """A row a kind of data, a mark a rung: its share of cuBLAS on the same data; a choice of the size.

    `table` is survey_data, `rungs` the table of rungs; `ladder` is the entries in climbing order.
    """
    shown = _rungs(table, rungs)
    data = labelled(table[table["rung"].isin(shown)].dropna(subset="share_of_cublas"), rungs)
    data = data.assign(
        family=data["family"].str.replace("_", " "), shape=_shapes(data), share=100 * data["share_of_cublas"]
    )
    shapes = sorted(data["shape"].unique(), key=lambda shape: Shape.parse(shape).flop)
    key = replace(rung_key(labelled(rungs, rungs), baseline, ladder), direct=False)
    hints = {"rung": "rung", "family": "data", "shape": "m x n x k", "share": "% of cuBLAS"}
    hints |= {"reference": "the faster", "times_error_of_cublas": "error over cuBLAS's"}
    return Specification(
        title=_title_of_data(data),
        note="The time of the faster library over the rung's, both on the same data. docs/measuring.md says what each"
        " kind of data is.",
        layers=[Layer("point", data, "share", "family", key=key, dodge=True, hints=hints)],
        x=_around("% of cuBLAS on the same data", data["share"]),
        y=Axis(scale="names", names=list(dict.fromkeys(data["family"]))),
        choices=[Choice("shape", "m = n = k", shapes, shapes[-1])] if shapes else [],
        height=5.0,
        empty="No survey is recorded.",
    )


def _axis(title: str, values: pd.Series, every: int, above: float) -> Axis:
    """A logarithmic axis with a tick at `every` power of ten among the values, and `above` times as far as the last."""
    if values.empty:
        return Axis(title, "log")
    powers = range(0, int(math.log10(values.max())) + 1, every)
    return Axis(
        title, "log", {10.0**power: number(10**power) for power in powers}, (values.min() / 2, values.max() * above)
    )


def _around(title: str, shares: pd.Series) -> Axis:
    """A logarithmic axis that has room for all shares and for 100 %, with a tick at each doubling."""
    if shares.empty:
        return Axis(title, "log")
    least, most = min(shares.min(), 100.0) / 1.2, max(shares.max(), 100.0) * 1.2
    return Axis(title, "log", {tick: text for tick, text in _TICKS.items() if least <= tick <= most}, (least, most))


def _rungs(table: pd.DataFrame, rungs: pd.DataFrame) -> list[str]:
    """The rungs that are shown: of those surveyed the last of the ladder, and no library."""
    own = rungs.loc[rungs["role"] == "rung", "rung"]
    return [name for name in own if name in set(table["rung"])][-MOST_SURVEYED:]


def _shapes(data: pd.DataFrame) -> list[str]:
    return [str(Shape(*row)) for row in zip(data["m"], data["n"], data["k"], strict=True)]


def _step(shares: pd.Series) -> list[str]:
    return [next(name for name, (end, *_) in _STEPS.items() if share < end) for share in shares]


def _title(classes: pd.DataFrame, rungs: pd.DataFrame) -> str:
    """What the rung with the highest mean over all products reaches, and how often it is slower."""
    own = classes[(classes["class"] == EVERY_PRODUCT) & classes["rung"].isin(_rungs(classes, rungs))]
    if own.empty:
        return "Drawn products: share of cuBLAS"
    best = own.loc[own["geometric_mean"].idxmax()]
    return (
        f"{best['rung']}: {percent(best['geometric_mean'])} of cuBLAS over {best['products']} drawn products,"
        f" slower on {best['slower_percent']:.0f} %"
    )


def _title_of_bandwidth(classes: pd.DataFrame, rungs: pd.DataFrame) -> str:
    """What the rung with the highest median share of the DRAM bandwidth reaches, of all products bound by memory."""
    own = classes[(classes["class"] == EVERY_PRODUCT) & classes["rung"].isin(_rungs(classes, rungs))]
    own = own.dropna(subset="share_of_bandwidth")
    if own.empty:
        return "Products bound by memory: share of the DRAM bandwidth"
    best = own.loc[own["share_of_bandwidth"].idxmax()]
    return (
        f"{best['rung']}: {percent(best['share_of_bandwidth'])} of the DRAM bandwidth is the median of"
        f" {best['memory_bound']} products bound by memory"
    )


def _title_of_data(data: pd.DataFrame) -> str:
    if data.empty:
        return "Data as users have them: share of cuBLAS"
    row = data.loc[data["share_of_cublas"].idxmin()]
    share = percent(row["share_of_cublas"])
    return f"The lowest: {row['rung']} reaches {share} of cuBLAS on {row['family']} at {row['shape']}"
