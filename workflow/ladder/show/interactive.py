"""Draws a specification as an interactive chart of the HTML report, as Vega-Lite by Altair."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from ladder.show.dark import legible
from ladder.show.figures.specification import Axis, Choice, Key, Layer, Specification

HEIGHT = 380  # pixels
_ROW = 24  # pixels of a name on an axis of names
_WIDE = 8  # pixels of a character, in fonts wider than most
TEXT = {"labelFontSize": 12, "titleFontSize": 12}
# Matplotlib's markers in Vega's words
SYMBOLS = {
    **{"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross"},
    **{"<": "triangle-left", ">": "triangle-right"},
    "p": "M0,-1L.95,-.3L.6,.8L-.6,.8L-.95,-.3Z",
    "h": "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "X": "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z",
}  # fmt: skip


def chart(figure: Specification, name: str) -> dict[str, Any]:
    """The chart of a specification; its panels are a choice like the others, and a click on a key shows it alone.

    `name` begins the names of its parameters.
    """
    choices = [*figure.choices, *([figure.panels] if figure.panels and len(figure.panels.options) > 1 else [])]
    chosen = {choice.column: _param(name, choice) for choice in choices}
    x, y = figure.axes(figure.panels.options[0] if figure.panels else "")
    axes = {"x": _axis(alt.X, x), "y": _axis(alt.Y, y)}
    parts, picks = [], {}
    for layer in sorted(figure.layers, key=lambda layer: not layer.behind):
        if layer.data.empty:
            continue
        if layer.key and layer.mark != "bar" and layer.key.column not in picks:
            picks[layer.key.column] = alt.selection_point(
                name=f"{name}_{layer.key.column}", fields=[layer.key.column], bind="legend", toggle="true"
            )
        base = alt.Chart(_rounded(layer.data))
        for column, param in chosen.items():
            if column in layer.data:
                base = base.transform_filter(alt.datum[column] == param)
        parts += _MARKS[layer.mark](base, layer, axes, _legend(layer, chosen, figure.panels, y), picks)
    drawn = alt.layer(*parts).add_params(*chosen.values(), *picks.values())
    row = _ROW * (1.4 if any(layer.dodge for layer in figure.layers) else 1)
    height = row * len(y.names) if y.scale == "names" else HEIGHT
    drawn = drawn.properties(width="container", height=height)
    drawn = drawn.configure_view(strokeOpacity=0)
    return drawn.configure_axis(**TEXT).configure_legend(**TEXT).configure_text(fontSize=12).to_dict()


def _param(name: str, choice: Choice) -> alt.Parameter:
    select = alt.binding_select(options=list(choice.options), name=f"{choice.label}: ")
    return alt.param(name=f"{name}_{choice.column}_choice", value=choice.first, bind=select)


def _rounded(rows: pd.DataFrame) -> pd.DataFrame:
    """Numbers with six digits: more are not measured, and would make the page larger."""
    numbers = rows.select_dtypes("float").columns
    return rows.assign(**{name: rows[name].map(lambda value: float(f"{value:.6g}")) for name in numbers})


def _axis(channel: type, axis: Axis) -> Any:
    """An axis without its field."""
    if axis.scale == "names":
        return lambda column: channel(f"{column}:N", sort=list(axis.names), scale=alt.Scale(domain=list(axis.names)),
                                      title=axis.title, axis=alt.Axis(labelLimit=200, labelAngle=0))  # fmt: skip
    low, high = axis.limits
    ends = {name: value for name, value in (("domainMin", low), ("domainMax", high)) if value is not None}
    scale = alt.Scale(type=axis.scale, nice=not axis.ticks, clamp="domainMax" in ends, **ends)
    if axis.ticks:
        texts = json.dumps({f"{place:g}": text.split("\n") for place, text in axis.ticks.items()})
        marks = {"values": list(axis.ticks), "labelExpr": f"{texts}[datum.value]", "labelOverlap": True}
    else:
        marks = {"format": "~g"} if axis.scale == "log" else {}
        marks["tickCount"] = 8 if channel is alt.Y else alt.ExprRef("max(2, width / 70)")
    return lambda column: channel(f"{column}:Q", title=axis.title, scale=scale, axis=alt.Axis(**marks))


def _legend(layer: Layer, chosen: Mapping[str, alt.Parameter], panels: Choice | None, y: Axis) -> dict[str, Any]:
    """Options of a legend below the chart, of as many columns as fit, with those names alone that the panel shows."""
    if layer.key is None:
        return {}
    names = layer.key.names(layer.data)
    longest = max(map(len, names), default=0)
    left = 60 + _WIDE * max(map(len, y.names), default=0)  # where the plot begins, and the legend with it
    columns = alt.ExprRef(f"max(1, floor((containerSize()[0] - {left}) / {_WIDE * longest + 40}))")
    values: Any = names
    if panels and panels.column in chosen and panels.column in layer.data:
        shown = {panel: layer.key.names(rows) for panel, rows in layer.data.groupby(panels.column)}
        values = alt.ExprRef(f"{json.dumps(shown)}[{chosen[panels.column].name}]")
    texts = {"title": None, "labelLimit": 400, "symbolOpacity": 1}
    return {**texts, "orient": "bottom", "columns": columns, "values": values}


def _color(key: Key, names: Sequence[str], legend: Mapping[str, Any]) -> alt.Color:
    scale = alt.Scale(domain=list(names), range=[legible(key.colors[name]) for name in names])
    return alt.Color(f"{key.column}:N", scale=scale, sort=list(names), legend=alt.Legend(**legend) if legend else None)


def _hints(layer: Layer) -> list[alt.Tooltip]:
    numbers = set(layer.data.select_dtypes("number").columns)
    return [
        alt.Tooltip(f"{column}:Q", title=heading, format=".4~r")
        if column in numbers
        else alt.Tooltip(f"{column}:N", title=heading)
        for column, heading in layer.hints.items()
    ]


def _lines(base, layer, axes, legend, picks) -> list[alt.Chart]:
    x, y = axes["x"](layer.x), axes["y"](layer.y)
    if layer.key is None:
        faint = 0.35 if layer.behind else 1
        group = {"detail": f"{layer.group}:N"} if layer.group else {}
        return [base.mark_line(color="gray", opacity=faint, strokeWidth=1.2, clip=True).encode(x=x, y=y, **group)]
    names, key, picked = layer.key.names(layer.data), layer.key, picks[layer.key.column]
    base = base.encode(x=x, color=_color(key, names, legend), opacity=_faded(picked, 0.08))
    parts = []
    if layer.low:
        band = base.mark_errorband().encode(y=axes["y"](layer.low), y2=layer.high, opacity=_faded(picked, 0.02, 0.3))
        parts.append(band)
    dashes = [[6 * length for length in key.dashes.get(name, ())] or [1, 0] for name in names]
    lengths = alt.Scale(domain=names, range=dashes)
    dash = alt.StrokeDash(f"{key.column}:N", scale=lengths, sort=names, legend=alt.Legend(**legend))
    parts.append(base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash))
    shape = _shape(key, names, legend)
    return [*parts, base.mark_point(filled=True, size=60).encode(y=y, shape=shape, tooltip=_hints(layer))]


def _shape(key: Key, names: Sequence[str], legend: Mapping[str, Any] | None) -> alt.Shape:
    scale = alt.Scale(domain=list(names), range=[SYMBOLS[key.markers.get(name, "o")] for name in names])
    return alt.Shape(f"{key.column}:N", scale=scale, sort=list(names), legend=alt.Legend(**legend) if legend else None)


def _faded(picked: alt.Parameter, off: float, on: float = 1) -> Any:
    return alt.condition(picked, alt.value(on), alt.value(off))


def _points(base, layer, axes, legend, picks) -> list[alt.Chart]:
    marks = base.encode(x=axes["x"](layer.x), y=axes["y"](layer.y), tooltip=_hints(layer))
    if layer.key is None:
        size, opacity = (18, 0.25) if layer.behind else (70, 1)
        return [marks.mark_point(filled=True, size=size, opacity=opacity, color=legible(layer.color))]
    names, symbols = layer.key.names(layer.data), layer.symbols or layer.key
    values = names if symbols is layer.key else list(symbols.markers)
    other = legend if symbols is layer.key else {"title": None, "orient": "top"}
    marks = marks.mark_point(filled=True, size=32 if layer.dodge else 60).encode(
        color=_color(layer.key, names, legend), shape=_shape(symbols, values, other),
        opacity=_faded(picks[layer.key.column], 0.1),
    )  # fmt: skip
    return [marks.encode(yOffset=alt.YOffset(f"{layer.key.column}:N", sort=names)) if layer.dodge else marks]


def _bars(base, layer, axes, legend, picks) -> list[alt.Chart]:
    base = base.encode(y=axes["y"](layer.y), tooltip=_hints(layer))
    named = layer.key and layer.key.column == layer.y  # on the axis: no legend needs to say it again
    color = (
        _color(layer.key, layer.key.names(layer.data), {} if named else legend)
        if layer.key
        else alt.value(legible(layer.color))
    )
    bars = base.mark_bar(size=_ROW * layer.width).encode(x=axes["x"](layer.x), color=color)
    if not layer.low:
        return [bars]
    return [bars, base.mark_rule(strokeWidth=2, color="currentColor").encode(x=axes["x"](layer.low), x2=layer.high)]


def _stack(base, layer, axes, legend, picks) -> list[alt.Chart]:
    names = layer.key.names(layer.data)
    data = layer.data[layer.data[layer.x] > 0]
    place = data[layer.key.column].map({name: place for place, name in enumerate(names)})
    base = base.properties(data=_rounded(data.assign(place=place)))
    return [
        base.mark_bar(size=_ROW * layer.width).encode(
            x=axes["x"](layer.x), y=axes["y"](layer.y), color=_color(layer.key, names, legend), order="place:Q",
            opacity=_faded(picks[layer.key.column], 0.15), tooltip=_hints(layer),
        )
    ]  # fmt: skip


def _texts(base, layer, axes, legend, picks) -> list[alt.Chart]:
    text = base.mark_text(align="left", dx=layer.offset[0], dy=-layer.offset[1], color="currentColor")
    parts = [text.encode(x=axes["x"](layer.x), y=axes["y"](layer.y), text=f"{layer.text}:N")]
    if not layer.offset[1]:  # beside a bar: a point that is not seen, so far right that the longest text has room
        room = layer.offset[0] + _WIDE * layer.data[layer.text].str.len().max()
        far = base.transform_calculate(far=f"datum['{layer.x}'] * width / max(width - {room:g}, width / 4)")
        parts.append(far.mark_point(opacity=0).encode(x=axes["x"]("far"), y=axes["y"](layer.y)))
    return parts


def _rules(base, layer, axes, legend, picks) -> list[alt.Chart]:
    return [base.mark_rule(strokeDash=[2, 3], color="gray").encode(y=axes["y"](layer.y), tooltip=f"{layer.text}:N")]


_MARKS = {"line": _lines, "point": _points, "bar": _bars, "stack": _stack, "text": _texts, "rule": _rules}
