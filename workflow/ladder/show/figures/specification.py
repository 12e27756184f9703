"""What a figure is, before anything draws it: `ladder.show.static` and `ladder.show.interactive` read the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

# Paul Tol's «muted» scheme, nine colours that colour-blind readers can tell apart (SRON, Colour Schemes).
PALETTE = ("#332288", "#cc6677", "#117733", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#ddcc77")
MARKERS = "osD^vPp<>h"  # as Matplotlib names them; ten for nine colours: entries of one colour have different ones
GREY = "#9a9a9a"


@dataclass(frozen=True)
class Axis:
    """An axis: its title with the unit, its scale (`linear`, `log`, or `names`, the first on top), ticks and limits.

    `ticks` are texts by their place, the renderer's own where empty.
    """

    title: str = ""
    scale: str = "linear"
    ticks: Mapping[float, str] = field(default_factory=dict)
    limits: tuple[float | None, float | None] = (None, None)
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Key:
    """What colours, and in some figures markers and dashes, stand for: the values of a column.

    `direct` keys are written at the ends of lines in a static figure, the others stand in a legend.
    """

    column: str
    colors: Mapping[str, str]
    markers: Mapping[str, str] = field(default_factory=dict)
    dashes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # lengths on and off; () is a whole line
    direct: bool = False

    def names(self, rows: pd.DataFrame) -> list[str]:
        """The values that occur in the key's column, in the key's order."""
        return [name for name in self.colors if name in set(rows[self.column])]


@dataclass(frozen=True)
class Layer:
    """Marks of one kind, each from a row of `data`: `line`, `point`, `bar`, `stack`, `text`, `rule` or `heat`.

    `x`, `y`, `low` and `high` (an interval), `text`, `group` (a line each) and `value` (a colour of a heat map, on the
    axis `scale`) are columns.
    `hints` are what an interactive chart tells of a mark: column -> heading.
    """

    mark: str
    data: pd.DataFrame
    x: str = ""
    y: str = ""
    key: Key | None = None
    color: str = GREY
    low: str = ""
    high: str = ""
    text: str = ""
    group: str = ""
    value: str = ""
    scale: Axis | None = None
    width: float = 0.8  # of a bar, as a share of its place
    size: float = 5.5  # of a mark, in points
    offset: tuple[int, int] = (4, 0)  # of a text, to the right and up, in points or pixels
    dodge: bool = False  # those of one name one below the other, so that no mark hides another
    behind: bool = False  # drawn first, in grey, and no reason to widen an axis
    printed: bool = False  # no part of an interactive chart, whose reader picks what to see and whose axes fit that
    hints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """One value of a column at a time: those that there are, and the first."""

    column: str
    label: str
    options: Sequence[str]
    first: str


@dataclass(frozen=True)
class Specification:
    """A figure: a title that says its message, a note on how to read it, and layers of marks on two axes.

    A layer shows the rows of each choice whose column it has. `panels` is a choice whose values a static figure draws
    side by side, `columns` in a row, each `height` inches high. An axis may be another in each of them; an interactive
    chart then draws them side by side too.
    """

    title: str
    note: str
    layers: Sequence[Layer]
    x: Axis | Mapping[str, Axis]
    y: Axis | Mapping[str, Axis]
    panels: Choice | None = None
    choices: Sequence[Choice] = ()
    columns: int = 1
    height: float = 3.0
    empty: str = "Nothing is recorded."

    def axes(self, panel: str) -> tuple[Axis, Axis]:
        """The axes of a panel."""
        return tuple(axis if isinstance(axis, Axis) else axis[panel] for axis in (self.x, self.y))

    def rows(self, layer: Layer, panel: str = "") -> pd.DataFrame:
        """The rows of a layer that a panel shows at the first value of each choice."""
        rows = layer.data
        shown = {choice.column: choice.first for choice in self.choices}
        for column, value in (shown | ({self.panels.column: panel} if self.panels else {})).items():
            rows = rows[rows[column] == value] if column in rows else rows
        return rows


def one_of(label: str, figures: Mapping[str, Specification]) -> Specification:
    """Figures of equal layers as one with a choice between them, by name; its second axis is untitled, for all.

    Lines of their notes that say the same are said once.
    """
    first = next(iter(figures.values()))
    layers = []
    for each in zip(*(figure.layers for figure in figures.values()), strict=True):
        named = zip(figures, each, strict=True)
        layers.append(replace(each[0], data=pd.concat([layer.data.assign(figure=name) for name, layer in named])))
    choice = Choice("figure", label, list(figures), next(iter(figures)))
    note = "\n".join(dict.fromkeys(line for figure in figures.values() for line in figure.note.split("\n")))
    return replace(first, note=note, layers=layers, y=Axis(scale="log"), choices=[choice, *first.choices])


def size_axis(sizes: Iterable[int], apart: float = 1) -> Axis:
    """The sizes of square products at their places; those within 5 % of each other share a tick that names them all.

    A tick is at least `apart` times the one before, for panels that have no room for all.
    """
    groups: list[list[int]] = []
    for size in sorted(set(sizes)):
        if groups and size < 1.05 * groups[-1][0]:
            groups[-1].append(size)
        else:
            groups.append([size])
    ticks: dict[float, str] = {}
    for group in groups:
        place = sum(group) / len(group)
        if not ticks or place >= apart * max(ticks):
            ticks[place] = "\n".join(map(str, group))
    ends = (groups[0][0] / 1.15, groups[-1][-1] * 1.15) if groups else (None, None)
    return Axis("m = n = k", "log", ticks, ends)


def apart(
    rows: pd.DataFrame, x: str, y: str, x_axis: Axis, y_axis: Axis, width: float = 0.024, height: float = 0.035
) -> list[float]:
    """Places along x at which no mark covers another: each moved sideways as little as that takes, y as it is.

    Both axes are logarithmic and have limits; a mark takes `width` and `height` of them.
    """
    logs = [np.log(np.array([*axis.limits, *rows[each]], float)) for axis, each in ((x_axis, x), (y_axis, y))]
    across, up = ((log[2:] - log[0]) / (log[1] - log[0]) for log in logs)
    steps = sorted(range(-len(rows), len(rows) + 1), key=abs)
    placed: list[tuple[float, float]] = []
    for place, level in zip(across, up, strict=True):
        near = [other for other, at in placed if abs(at - level) < height]
        candidates = (place + step * width for step in steps)
        free = next(each for each in candidates if all(abs(each - other) > 0.99 * width for other in near))
        placed.append((float(free), level))
    low, high = logs[0][:2]
    return [float(np.exp(low + (high - low) * place)) for place, _ in placed]
