"""What the figures of stacked bars share: the parts of a whole, a bar a rung."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ladder.show.figures.specification import PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.timings import largest

TENSOR = "HMMA, HGMMA"  # as one part of an inner loop: what tensor cores multiply with
_COLORS = {
    "FFMA": "#117733",
    **dict.fromkeys((TENSOR, "tensor cores"), "#332288"),
    **dict.fromkeys(("integer", "other instructions"), "#bbbbbb"),
}


def stacked(
    by_shape: Mapping[str, pd.DataFrame],
    order: Sequence[str],
    title: str,
    note: str,
    label: str | Mapping[str, str],
    empty: str,
) -> Specification:
    """Stacked bars of percents: `by_shape` has a frame a shape, with a row a rung and a column a part.

    `label` says what they are percents of, or of what for each rung, which then stand in panels.
    """
    frames = {shape: frame[frame.index.isin(order)] for shape, frame in by_shape.items()}
    frames = {shape: frame for shape, frame in frames.items() if len(frame)}
    tall = [
        frame.rename_axis("rung").reset_index().melt("rung", var_name="part", value_name="percent").assign(shape=shape)
        for shape, frame in frames.items()
    ]
    data = pd.concat(tall) if tall else pd.DataFrame(columns=["rung", "part", "percent", "shape"])
    first = largest(list(frames))
    of = {rung: label if isinstance(label, str) else label[rung] for rung in order if rung in set(data["rung"])}
    panels = list(dict.fromkeys(of.values()))
    data = data.assign(of=data["rung"].map(of))
    rest = (color for color in PALETTE if color not in _COLORS.values())
    colors = {part: _COLORS.get(part) or next(rest) for part in dict.fromkeys(data["part"])}
    occurring = set(data.loc[data["percent"] > 0, "part"])
    key = Key("part", {part: color for part, color in colors.items() if part in occurring})
    hints = {"rung": "rung", "shape": "shape", "part": "part", "percent": "%"}
    return Specification(
        title=title,
        note=note,
        layers=[Layer("stack", data[data["percent"] > 0], "percent", "rung", key=key, hints=hints)],
        x={panel: Axis(panel if len(panels) == 1 else "", limits=(0, 100)) for panel in panels} or Axis(),
        y={panel: Axis(scale="names", names=[rung for rung in of if of[rung] == panel]) for panel in panels} or Axis(),
        panels=Choice("of", "Share of", panels, panels[0]) if panels else None,
        choices=[Choice("shape", "shape", list(frames), first)],
        empty=empty,
    )
