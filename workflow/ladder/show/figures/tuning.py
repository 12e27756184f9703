"""What the parameters that matter most do."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ladder.model.rung import parse_variant
from ladder.model.shape import Shape
from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification

MOST_PANELS = 6  # at most, each of another rung


def figure(trials: pd.DataFrame) -> Specification:
    """A panel a rung and its costliest parameter: a dot each trial, a line along the best of each value, by size.

    Heights are shares of the rung's fastest trial at the size, so that sizes and rungs compare. `trials` is
    `trial_table`'s. Those rungs are shown whose parameter's worst value costs most.
    """
    timed = trials.dropna(subset=["gflops"])
    timed = timed.assign(share=100 * timed["gflops"] / timed.groupby(["rung", "shape"])["gflops"].transform("max"))
    macros = pd.DataFrame([parse_variant(name)[1] for name in timed["trial"]], index=timed.index).apply(pd.to_numeric)
    costs = {rung: influences(rows, macros.loc[rows.index])[:1] for rung, rows in timed.groupby("rung", sort=False)}
    costly = sorted((rung for rung in costs if costs[rung]), key=lambda rung: -costs[rung][0][1])[:MOST_PANELS]
    found, parts = [], []
    for rung in (rung for rung in costs if rung in costly):
        rows = timed[timed["rung"] == rung]
        ((name, loss, shape),) = costs[rung]
        panel, values = f"{rung}: {name}", macros.loc[rows.index, name]
        found.append((panel, [f"{value:g}" for value in sorted(values.unique())], loss, shape))
        part = rows[["shape", "share"]].assign(panel=panel, setting=values.map("{:g}".format), number=values)
        parts.append(part.sort_values("number"))
    data = pd.concat(parts) if parts else pd.DataFrame(columns=["shape", "share", "panel", "setting"])
    shapes = sorted(data["shape"].unique(), key=lambda text: Shape.parse(text).flop)
    data = data.assign(size=data["shape"].map("at {}".format))
    best = data.groupby(["panel", "size", "setting"], sort=False)["share"].max().reset_index()
    key = Key(
        "size",
        {f"at {shape}": PALETTE[place % len(PALETTE)] for place, shape in enumerate(shapes)},
        {f"at {shape}": MARKERS[place % len(MARKERS)] for place, shape in enumerate(shapes)},
    )
    panels = [panel for panel, *_ in found]
    return Specification(
        title=_title(found),
        note="The rate of each trial (grey dots) in % of the rung's fastest trial at this size, by the value of one"
        " parameter. The line joins the best trials of each value. The figure shows the"
        f" {len(found)} rungs with the costliest parameters, each with that parameter.",
        layers=[
            Layer("point", data, "setting", "share", behind=True),
            Layer("line", best, "setting", "share", key=key),
        ],
        x={panel: Axis("", "names", names=names) for panel, names, *_ in found} or Axis(),
        y=Axis("% of the fastest", limits=(0, 108)),
        panels=Choice("panel", "Panel", panels, panels[0]) if panels else None,
        columns=3,
        height=2.0,
    )


def influences(rows: pd.DataFrame, macros: pd.DataFrame) -> list[tuple[str, float, str]]:
    """The parameters of one rung that were varied, what their worst value costs at most in %, and at which shape.

    The costliest first; of parameters whose values go together the first in the order of declaration.
    """
    found: dict[tuple[int, ...], tuple[str, float, str]] = {}
    for name in macros:
        if macros[name].nunique() < 2:
            continue
        best = rows.groupby(["shape", macros[name]])["share"].max()
        loss = 100 - best.groupby("shape").min()
        together = tuple(pd.factorize(macros[name])[0])
        found.setdefault(together, (name, float(loss.max()), str(loss.idxmax())))
    return sorted(found.values(), key=lambda each: -each[1])


def _title(found: list[tuple[Any, ...]]) -> str:
    if not found:
        return "No parameter was varied"
    panel, _, loss, shape = max(found, key=lambda each: each[2])
    rung, name = panel.split(": ")
    return f"The worst value of {name} costs {rung} {loss:.0f} % of its rate at {shape}"
