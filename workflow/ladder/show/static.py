"""Draws a specification as a picture, by seaborn's functions on its tidy tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from ladder.show.dark import for_both
from ladder.show.figures.specification import Axis, Key, Layer, Specification
from ladder.show.numbers import TINY

_WIDTH, DPI = 8.0, 150  # inches, and dots an inch
_ROW, APART = 0.27, 0.1  # inches of a name on an axis of names, and of marks one below the other
LABEL_GAP = 0.15  # inches between the names of two lines
PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # behind a text, so that no grid line crosses it
_SIZES = {"axes.titlesize": 10, "axes.labelsize": 9.5, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5}
FIXED = {"svg.hashsalt": "gemm-ladder", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def draw(figure: Specification, caption: str) -> Figure:
    """The picture of a specification: title and note above its panels, and below them what the numbers come from."""
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, **_SIZES})
        panels = list(figure.panels.options) if figure.panels else [""]
        columns = min(figure.columns, len(panels))
        lines = -(-len(panels) // columns)
        shown = "".join(f" Here {each.label} = {each.first}." for each in figure.choices if len(each.options) > 1)
        title, note = textwrap.fill(figure.title, 76), textwrap.fill(figure.note + shown, 108)
        foot = "\n".join(textwrap.fill(line, 125) for line in caption.split("\n"))
        handles = _handles(figure)
        beside = len(panels) == 1  # the legend; else it stands below
        across = max(1, int(_WIDTH / (0.45 + 0.06 * max((len(each.get_label()) for each in handles), default=0))))
        keys = 0 if beside or not handles else 0.1 + 0.17 * -(-len(handles) // across)
        first, second, last = _inches(title, 0.2), _inches(note, 0.145), _inches(foot, 0.13)
        above, below = first + second + 0.1, last + keys + 0.05
        heights = [_height(figure, panel) for panel in panels]
        rows = [max(heights[at : at + columns]) for at in range(0, len(panels), columns)]
        height = math.fsum([*rows, above, below, 0.3])
        picture = Figure(figsize=(_WIDTH, height), dpi=DPI, layout="constrained")
        picture.get_layout_engine().set(rect=(0.01, below / height, 0.98, 1 - (above + below) / height))
        write = partial(picture.text, 0.01, va="top", color="dimgray")
        write(1 - 0.08 / height, title, fontsize=12, weight="bold", color="black")
        write(1 - (first + 0.08) / height, note, fontsize=8)
        write(last / height, foot, fontsize=7)
        # Matplotlib adds the ratios up. Since Python 3.12 a sum of floats is another one; of whole numbers it is not.
        ratios = [round(100 * row) for row in rows]
        grid = picture.subplots(lines, columns, squeeze=False, height_ratios=ratios)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, panels, strict=False):
            _panel(axes, figure, panel)
        if isinstance(figure.x, Axis):  # the same for all, and said once a column
            for axes in grid.flat[: len(panels) - columns]:
                axes.set_xlabel("")
        for place, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
            y = figure.axes(panel)[1]
            if place % columns and y == figure.axes(panels[place - 1])[1]:  # and once a row
                axes.set_ylabel("")
                axes.tick_params(labelleft=y.scale != "names")
        plain = {"handles": handles, "fontsize": 8, "frameon": False}
        if handles and beside:
            grid[0, 0].legend(**plain, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif handles:
            place = (0.01, (last + 0.02) / height)
            picture.legend(**plain, loc="lower left", bbox_to_anchor=place, ncols=across).set_in_layout(False)
        sns.despine(fig=picture, left=True)
        picture.draw_without_rendering()
        picture.set_layout_engine("none")  # laid out once: another time would move things by a hair
        for (
            axes
        ) in picture.axes:  # the solver's last digits are not the same each time, and SVG's clip paths have their hash
            axes.set_position([round(float(side), 9) for side in axes.get_position().bounds])
        return picture


def _inches(text: str, line: float) -> float:
    """The height of a text whose lines are so many inches apart."""
    return line * (text.count("\n") + 1) + 0.08 if text else 0.0


def _height(figure: Specification, panel: str) -> float:
    """Inches of a panel with its title and ticks."""
    y = figure.axes(panel)[1]
    if y.scale != "names":
        return figure.height
    dodged = [figure.rows(layer, panel)[layer.y] for layer in figure.layers if layer.dodge]
    crowd = max((names.value_counts().max() for names in dodged if len(names)), default=1)
    return max(_ROW, APART * crowd / 0.86) * max(3, len(y.names)) + 0.7


def _panel(axes: Axes, figure: Specification, panel: str) -> None:
    x, y = figure.axes(panel)
    for axis, which in ((x, "x"), (y, "y")):
        if axis.scale == "log":
            axes.set(**{f"{which}scale": "log"})
    drawn = False
    for layer in sorted(figure.layers, key=lambda layer: layer.behind):
        rows = figure.rows(layer, panel)
        rows = _placed(rows.dropna(subset=[each for each in (layer.x, layer.y) if each]), layer, x, y)
        if layer.behind:
            axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
        if len(rows):
            drawn |= layer.mark not in ("rule", "text")
            _MARKS[layer.mark](axes, rows, layer if figure.columns < 3 else replace(layer, size=0.6 * layer.size))
    for axis, which in ((x, axes.xaxis), (y, axes.yaxis)):
        _finish(axes, axis, which, 0.5 * any(layer.mark == "heat" for layer in figure.layers))
    if panel and len(figure.panels.options) > 1:
        axes.set_title(panel, loc="left", weight="bold", size=10 if figure.columns < 3 else 8)
    if not drawn:
        axes.text(0.5, 0.5, figure.empty, transform=axes.transAxes, ha="center", color="dimgray")
        axes.set_axis_off()  # its ticks would be of nothing
    for layer in figure.layers:
        if layer.key and layer.key.direct:
            _end_labels(axes, figure.rows(layer, panel), layer, figure.height)


def _placed(rows: pd.DataFrame, layer: Layer, x: Axis, y: Axis) -> pd.DataFrame:
    """The rows of a layer with numbers for the names on an axis, those of a key apart where the layer says so."""
    for axis, column in ((x, layer.x), (y, layer.y)):
        if axis.scale != "names" or not column:
            continue
        places = rows[column].map({name: place for place, name in enumerate(axis.names)})
        if layer.dodge:
            place = rows[layer.key.column].map({value: place for place, value in enumerate(layer.key.colors)})
            rank, count = place.groupby(places).rank(method="first"), place.groupby(places).transform("size")
            places += (rank - (count + 1) / 2) * (0.86 / count).clip(upper=0.3)
        rows = rows.assign(**{column: places.astype(float)}).dropna(subset=[column])
    return rows


def _finish(axes: Axes, axis: Axis, which: mpl.axis.Axis, shift: float) -> None:
    """Title, ticks and limits of one axis; names stand `shift` beside whole numbers."""
    name = which.axis_name
    which.set_label_text(axis.title)
    if axis.scale == "names":
        which.set_ticks([place + shift for place in range(len(axis.names))], list(axis.names))
        ends = (shift - 0.5, max(1, len(axis.names)) + shift - 0.5)
        axes.set(**{f"{name}lim": ends[::-1] if name == "y" else ends})
        axes.grid(axis=name, visible=False)
        return
    low, high = axis.limits
    axes.set(**{f"{name}lim": (low, high)})
    if axis.ticks:
        which.set_ticks(list(axis.ticks), list(axis.ticks.values()))
    elif axis.scale == "log":
        ends = sorted(getattr(axes, f"get_{name}lim")())
        which.set_major_locator(LogLocator(subs=(1, 2, 5) if ends[1] < 2000 * ends[0] else (1,)))
        form = "{:.0e}" if ends[0] < TINY else "{:g}"
        which.set_major_formatter(FuncFormatter(lambda value, _: form.format(value).replace("e-0", "e-")))
    which.set_minor_locator(NullLocator())


def _lines(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    if layer.key is None:
        sns.lineplot(
            rows, x=layer.x, y=layer.y, units=layer.group or None, estimator=None, color=layer.color, linewidth=0.9,
            alpha=0.5 if layer.behind else 1, zorder=1.5, ax=axes,
        )  # fmt: skip
        return
    key, names = layer.key, layer.key.names(rows)
    styles = {"style": key.column, "style_order": names} if key.markers else {}
    sns.lineplot(
        rows, x=layer.x, y=layer.y, hue=key.column, hue_order=names, palette=dict(key.colors), **styles,
        markers={name: key.markers[name] for name in names} if styles else None,
        dashes={name: key.dashes.get(name) or "" for name in names} if styles else True,
        estimator=None, legend=False, markersize=layer.size, markeredgewidth=0.4, linewidth=1.4, ax=axes,
    )  # fmt: skip
    if layer.low:
        for name, line in rows.groupby(key.column, sort=False):
            ends = line[[layer.low, layer.high]].to_numpy(float).T
            axes.fill_between(line[layer.x], *ends, color=key.colors[name], alpha=0.25, linewidth=0)


def _points(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    key = layer.key
    colors = {"hue": key.column, "palette": dict(key.colors)} if key else {"color": layer.color}
    styles = {"style": key.column, "markers": dict(key.markers)} if key and key.markers else {}
    size = layer.size**2 * (0.4 if layer.behind else 1)
    sns.scatterplot(
        rows, x=layer.x, y=layer.y, **colors, **styles, s=size, legend=False, linewidth=0 if layer.dodge else 0.4,
        clip_on=layer.behind, zorder=1.5 if layer.behind else 3, ax=axes,
    )  # fmt: skip
    if layer.low:
        shades = rows[key.column].map(key.colors) if key else layer.color
        axes.hlines(rows[layer.y], rows[layer.low], rows[layer.high], color=shades, linewidth=1.4)


def _bars(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    key = layer.key
    colors = {"hue": key.column, "palette": dict(key.colors), "dodge": False} if key else {"color": layer.color}
    sns.barplot(
        rows, x=layer.x, y=layer.y, orient="y", native_scale=True, **colors, width=layer.width, errorbar=None,
        saturation=1, edgecolor="none", legend=False, ax=axes,
    )  # fmt: skip


def _stack(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    names = layer.key.names(rows)
    sns.histplot(
        rows, y=layer.y, weights=layer.x, hue=layer.key.column, hue_order=names[::-1], palette=dict(layer.key.colors),
        multiple="stack", discrete=True, shrink=layer.width, alpha=1, edgecolor="white", linewidth=0.4, legend=False,
        ax=axes,
    )  # fmt: skip


def _texts(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    side = {"ha": "right" if layer.offset[0] < 0 else "left", "va": "center" if not layer.offset[1] else "baseline"}
    for row in rows.to_dict("records"):
        axes.annotate(
            row[layer.text], (row[layer.x], row[layer.y]), xytext=layer.offset, textcoords="offset points", fontsize=8,
            color="dimgray", bbox=PLAIN, zorder=2, **side,
        )  # fmt: skip


def _rules(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    for row in rows.to_dict("records"):
        axes.axhline(row[layer.y], color="dimgray", linewidth=1.2, linestyle=":")


def _heat(axes: Axes, rows: pd.DataFrame, layer: Layer) -> None:
    cells = {name: rows.pivot(index=layer.y, columns=layer.x, values=name) for name in (layer.value, layer.text)}
    low, high = layer.scale.limits
    sns.heatmap(
        cells[layer.value], annot=cells[layer.text].fillna(""), fmt="", center=0, vmin=low, vmax=high, cmap="PuOr_r",
        linewidths=1, ax=axes, annot_kws={"fontsize": 6}, cbar_kws={"label": layer.scale.title},
    )  # fmt: skip
    axes.tick_params(axis="y", rotation=0)
    axes.tick_params(axis="x", rotation=90 if cells[layer.value].shape[1] > 8 else 0)


_MARKS = {
    "line": _lines, "point": _points, "bar": _bars, "stack": _stack, "text": _texts, "rule": _rules, "heat": _heat,
}  # fmt: skip


def _end_labels(axes: Axes, rows: pd.DataFrame, layer: Layer, height: float) -> None:
    """Each line's name beside its end, moved up or down as far as it takes to keep the names apart."""
    to_axes = axes.transAxes.inverted()
    ends = rows.groupby(layer.key.column, sort=False)[layer.y].last()
    placed = sorted((to_axes.transform(axes.transData.transform((1, value)))[1], name) for name, value in ends.items())
    heights = spread([place for place, _ in placed], LABEL_GAP / (height - 0.65))
    outside = {"transform": axes.transAxes, "clip_on": False}
    for (place, name), y in zip(placed, heights, strict=True):
        color = layer.key.colors[name]
        start = {"line": ([1, 1.02, 1.06], [place, y, y])}.get(layer.mark, ([1.06], [y]))
        axes.plot(
            *start, linewidth=0.8, markersize=5, markevery=[-1], color=color,
            marker=layer.key.markers[name],
            markeredgecolor="white", markeredgewidth=0.4, **outside,
        )  # fmt: skip
        dark = [0.7 * channel for channel in to_rgb(color)]
        axes.text(1.075, y, name, va="center", fontsize=8, color=dark, **outside)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights moved as little as needed to stand at least `gap` apart, from 0 to 1 if there is room.

    Runs of labels that collide are merged and laid out around their mean: the pool-adjacent-violators idea.
    """
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) < _bottom(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    places = [_bottom(group, gap) + index * gap for group in groups for index in range(len(group))]
    floor, ceiling = 0.0, 1.0
    for index, place in enumerate(places):
        places[index] = max(place, floor)
        floor = places[index] + gap
    for index in reversed(range(len(places))):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - gap
    return places


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - (len(group) - 1) * gap / 2


def _handles(figure: Specification) -> list[Artist]:
    """What colours stand for, of the keys that stand in a legend."""
    layers = [layer for layer in figure.layers if layer.key and not layer.key.direct]
    return [_handle(layer, layer.key, name) for layer in layers for name in layer.key.names(layer.data)]


def _handle(layer: Layer, key: Key, name: str) -> Artist:
    if layer.mark in ("bar", "stack"):
        return Patch(color=key.colors[name], label=name)
    line = {"linestyle": (0, key.dashes[name]) if key.dashes.get(name) else "-"} if layer.mark == "line" else {}
    return Line2D(
        [], [], color=key.colors[name], marker=key.markers.get(name, "o"), markersize=5, markeredgecolor="white",
        markeredgewidth=0.4, label=name, **({"linestyle": ""} | line),
    )  # fmt: skip


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a picture as SVG, and as PNG of at most 256 colours; the bytes depend on what is drawn alone."""
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".svg":
                figure.savefig(text := StringIO(), format="svg", metadata={"Date": None, "Creator": None})
                path.write_text(for_both(text.getvalue()))
                continue
            drawn = BytesIO()
            figure.savefig(drawn, format="rgba")
            pixels = figure.canvas.get_width_height()
            picture = Image.frombytes("RGBA", pixels, drawn.getvalue()).convert("RGB")
            # Median cut, of Pillow's methods the one that keeps the grid's greys without a tint, refined until a round
            # moves no more than a thousand pixels.
            few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=1000, dither=Image.Dither.NONE)
            few.save(path, format="png", optimize=True)
