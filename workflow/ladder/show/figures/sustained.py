"""Launches back to back beside isolated ones: share of cuBLAS, energy a product, rate for each watt."""

from __future__ import annotations

import pandas as pd

from ladder.model.precision import labelled, shared_in
from ladder.model.shape import Shape
from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.show.numbers import number, percent
from ladder.tables.sustained import best_sustained
from ladder.tables.timings import headline_shape

MODES = ("sustained", "isolated")
_KEY = Key("mode", dict(zip(MODES, PALETTE[:2], strict=True)), dict(zip(MODES, MARKERS[:2], strict=True)))
SHARE, ENERGY = "% of cuBLAS", "J a product"
# panel -> (mode -> column of the table, factor)
_PANELS = {
    SHARE: ({mode: f"share_of_cublas_{mode}" for mode in MODES}, 100),
    ENERGY: ({"sustained": "joules_per_product"}, 1),
    "GFLOP/s a watt": ({"sustained": "gflops_per_watt"}, 1),
}


def figure(sustained: pd.DataFrame, rungs: pd.DataFrame) -> Specification:
    """A row a rung: its share of cuBLAS in both modes, and its energy in the sustained one; a choice of the shape.

    `sustained` and `rungs` are the tables of those names.
    """
    names = labelled(rungs, rungs).loc[list(rungs["role"] != "floor"), "rung"]
    table = labelled(sustained, rungs)
    ends = {"value": "", "low": "_ci_low", "high": "_ci_high"}
    parts = [
        table[["rung", "shape", "sm_clock_mhz", "power_w"]].assign(
            panel=panel,
            mode=mode,
            **{name: factor * table[column + end] for name, end in ends.items()},
        )
        for panel, (columns, factor) in _PANELS.items()
        for mode, column in columns.items()
    ]
    data = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    data = data.assign(low=data["low"].fillna(data["value"]), high=data["high"].fillna(data["value"]))
    shapes = sorted(data["shape"].unique(), key=lambda shape: Shape.parse(shape).flop)
    first = headline_shape(sustained) or ""
    shares = f" % of cuBLAS is {shared_in(rungs)}, launched before and after." if shared_in(rungs) else ""
    hints = {"rung": "rung", "shape": "shape", "mode": "launches", "value": "value", "low": "95 % from"}
    hints |= {"high": "95 % to", "sm_clock_mhz": "SM MHz (sustained)", "power_w": "W (sustained)"}
    return Specification(
        title=_title(sustained),
        note="Sustained: launches back to back on rotating operands, once clock and power have settled. Isolated:"
        " single launches with a flushed L2 cache. Energy is that of the whole board. Marks are means (isolated: ratios"
        f" of medians) with their 95 % intervals; numbers are sustained (isolated).{shares}",
        layers=[
            Layer("text", _texts(data), "end", "rung", text="text", offset=(6, 0)),
            Layer("point", data, "value", "rung", key=_KEY, low="low", high="high", dodge=True, hints=hints),
        ],
        x={panel: _axis(panel, data.loc[data["panel"] == panel, "value"]) for panel in _PANELS},
        y=Axis(scale="names", names=[name for name in names if name in set(data["rung"])]),
        panels=Choice("panel", "Panel", list(_PANELS), SHARE),
        choices=[Choice("shape", "shape", shapes, first)],
        columns=3,
        empty="No sustained launches are recorded.",
    )


def _axis(panel: str, values: pd.Series) -> Axis:
    """The axis of a panel, with room for texts."""
    if values.empty:
        return Axis(panel)
    if panel == ENERGY:
        return Axis(panel, "log", limits=(values.min() / 1.5, values.max() * 8))
    return Axis(panel, limits=(0, 2.6 * values.max()))


def _texts(data: pd.DataFrame) -> pd.DataFrame:
    """A text for each rung and panel: the sustained value and, in brackets, the isolated one."""
    place = ["panel", "shape", "rung"]
    values = data.pivot_table("value", place, "mode", sort=False).reindex(columns=list(MODES))
    texts = values.map(number, na_action="ignore").fillna("")
    brackets = texts["isolated"].map(lambda text: f" ({text})" if text else "")
    ends = data.groupby(place)["high"].max()  # behind the intervals
    return values.assign(text=texts["sustained"] + brackets, end=ends).reset_index()


def _title(sustained: pd.DataFrame) -> str:
    best = best_sustained(sustained)
    best = best[best["precision"] == "fp32"]
    if best.empty:
        return "Sustained launches: share of cuBLAS and energy"
    row = best.iloc[0]
    share, alone = percent(row["share_of_cublas_sustained"], 1), percent(row["share_of_cublas_isolated"], 1)
    isolated = f" ({alone} isolated)" if alone else ""
    energy = f", with {row['energy_of_cublas']:.2f} times its energy" if row["energy_of_cublas"] > 0 else ""
    return f"{row['rung']} sustains {share} of cuBLAS{isolated} at {row['shape']}{energy}"
