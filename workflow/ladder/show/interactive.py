"""Draws a specification as an interactive chart of the HTML report, as Vega-Lite by Altair.

Choices and legend of a chart are HTML beside it: they work by keyboard and in any font. The page passes what a reader
chose to the chart's parameters: `choose_COLUMN`, and `picked`, the names in the legend that are ticked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from ladder.show.dark import legible
from ladder.show.figures.specification import Axis, Choice, Key, Layer, Specification
from ladder.show.numbers import TINY

HEIGHT = 340  # pixels
_ROW, _MARK = 24, 11  # pixels of a name on an axis of names, and of a mark there
_PADDING = {"left": 4, "top": 4, "right": 24, "bottom": 4}  # half of the last tick's label stands to the right
_WIDE = 8  # pixels of a character, in fonts wider than most
_TEXT = {"labelFontSize": 12, "titleFontSize": 12}
_INK = dict.fromkeys(("labelColor", "titleColor", "tickColor", "domainColor", "gridColor"), "currentColor")
# Matplotlib's markers as paths in a square from -1 to 1
SYMBOLS = {
    "o": "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z", "s": "M-.85,-.85L.85,-.85L.85,.85L-.85,.85Z",
    "D": "M0,-1.1L1.1,0L0,1.1L-1.1,0Z", "^": "M0,-1L1,.8L-1,.8Z", "v": "M0,1L1,-.8L-1,-.8Z",
    "<": "M-1,0L.8,-1L.8,1Z", ">": "M1,0L-.8,-1L-.8,1Z", "p": "M0,-1L.95,-.3L.6,.8L-.6,.8L-.95,-.3Z",
    "P": "M-.35,-1L.35,-1L.35,-.35L1,-.35L1,.35L.35,.35L.35,1L-.35,1L-.35,.35L-1,.35L-1,-.35L-.35,-.35Z",
    "h": "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "X": "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z",
}  # fmt: skip


def choices(figure: Specification) -> list[Choice]:
    """What a reader chooses; where all panels have the same axes, one of them is shown at a time."""
    panels = [figure.panels] if figure.panels and not _apart(figure) else []
    return [choice for choice in (*figure.choices, *panels) if len(choice.options) > 1]


def charts(figure: Specification) -> dict[str, dict[str, Any]]:
    """The charts of a specification by their titles: one, or one for each panel that has axes of its own."""
    return {panel: _chart(figure, panel) for panel in (figure.panels.options if _apart(figure) else [""])}


def compact(chart: Mapping[str, Any]) -> dict[str, Any]:
    """A chart with the rows of its data as columns, which `rows` of report.js takes apart again.

    A column of texts is {"texts": each text once, "at": the place of each row's among them}.
    """
    return {**chart, "datasets": {name: _columns(rows) for name, rows in chart["datasets"].items()}}


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    for name, values in found.items():
        if any(isinstance(value, str) for value in values):
            texts = {text: place for place, text in enumerate(dict.fromkeys(values))}
            found[name] = {"texts": list(texts), "at": [texts[value] for value in values]}
    return found


def legend(figure: Specification) -> dict[str, list[dict[str, str]]]:
    """What colours stand for, by panel where one is chosen: name, colour, and of lines and points symbol and dash."""
    found: dict[str, list[dict[str, str]]] = {}
    for layer in figure.layers:
        if layer.key is None or layer.data.empty:
            continue
        parts = [("", layer.data)]
        if figure.panels and figure.panels.column in layer.data and not _apart(figure):
            parts = [(panel, layer.data[layer.data[figure.panels.column] == panel]) for panel in figure.panels.options]
        for panel, rows in parts:
            known = {each["name"] for entries in found.values() for each in entries}
            names = [name for name in layer.key.names(rows) if name not in known]
            found.setdefault(panel, []).extend(_entry(layer, name) for name in names)
    return {panel: entries for panel, entries in found.items() if entries}


def _entry(layer: Layer, name: str) -> dict[str, str]:
    entry = {"name": name, "color": legible(layer.key.colors[name])}
    if layer.mark in ("line", "point"):
        entry["symbol"] = SYMBOLS[layer.key.markers.get(name, "o")]
    if layer.mark == "line":
        entry["dash"] = " ".join(f"{length:g}" for length in layer.key.dashes.get(name, ()))
    return entry


def _apart(figure: Specification) -> bool:
    """Whether panels have axes of their own, and charts therefore."""
    return bool(figure.panels) and not (isinstance(figure.x, Axis) and isinstance(figure.y, Axis))


def _chart(figure: Specification, panel: str) -> dict[str, Any]:
    x, y = figure.axes(panel)
    asked = choices(figure)
    keys = {layer.key.column for layer in figure.layers if layer.key}
    parts, crowd = [], 0
    for layer in sorted(figure.layers, key=lambda layer: not layer.behind):
        if layer.printed:
            continue
        rows = layer.data
        if panel and figure.panels.column in rows:
            rows = rows[rows[figure.panels.column] == panel]
        if rows.empty:
            continue
        if layer.dodge:
            rows = _one_below_the_other(rows, layer, [choice.column for choice in asked])
            crowd = rows["slot"].max() + 1
        used = {layer.x, layer.y, layer.low, layer.high, layer.text, layer.group, "slot", *layer.hints, *keys}
        used |= {choice.column for choice in asked}
        base = alt.Chart(_rounded(rows[[column for column in rows if column in used]]))
        for choice in asked:
            if choice.column in rows and choice is not figure.panels:
                base = base.transform_filter(f"datum['{choice.column}'] == choose_{choice.column}")
        base = _picked(base, rows, keys, figure.panels if figure.panels in asked else None)
        parts += _MARKS[layer.mark](base, layer, {"x": _axis(alt.X, x), "y": _axis(alt.Y, y)})
    params = [alt.param(name=f"choose_{choice.column}", value=choice.first) for choice in asked]
    drawn = alt.layer(*parts).add_params(*params, alt.param(name="picked", value=[]))
    height = len(y.names) * max(_ROW, _MARK * crowd) if y.scale == "names" else HEIGHT
    drawn = drawn.properties(width="container", height=height, padding=_PADDING).configure_view(strokeOpacity=0)
    return drawn.configure_axis(**_TEXT, **_INK, gridOpacity=0.15).configure_text(fontSize=12).to_dict()


def _one_below_the_other(rows: pd.DataFrame, layer: Layer, choices: list[str]) -> pd.DataFrame:
    """The rows with the place of each mark in its name's row of the axis, from above, in the column `slot`."""
    order = rows[layer.key.column].map(list(layer.key.colors).index)
    of_name = order.groupby([rows[column] for column in (layer.y, *choices) if column in rows])
    count = of_name.transform("size")
    return rows.assign(slot=of_name.rank(method="first").astype(int) - 1 + (count.max() - count) // 2)


def _picked(base: alt.Chart, rows: pd.DataFrame, keys: set[str], panels: Choice | None) -> alt.Chart:
    """The rows of the names that are ticked, of any panel but each once; where none is, those of the chosen panel."""
    chosen = f"datum['{panels.column}'] == choose_{panels.column}" if panels and panels.column in rows else "true"
    if not keys & set(rows):
        return base.transform_filter(chosen)
    for column in sorted(keys & set(rows)):
        ticked = f"indexof(picked, datum['{column}']) >= 0"
        if chosen != "true":
            first = rows.groupby(column)[panels.column].first().to_dict()
            ticked += f" && datum['{panels.column}'] == {json.dumps(first)}[datum['{column}']]"
        base = base.transform_filter(f"length(picked) ? {ticked} : {chosen}")
    return base


def _rounded(rows: pd.DataFrame) -> pd.DataFrame:
    """Numbers with five digits: more are not seen, and would make the page larger."""
    numbers = rows.select_dtypes("float").columns
    return rows.assign(**{name: rows[name].map(lambda value: float(f"{value:.5g}")) for name in numbers})


def _axis(channel: type, axis: Axis) -> Callable[[str], Any]:
    """An axis without its field; a logarithmic one ends where what it shows ends."""
    if axis.scale == "names":
        look = alt.Axis(labelLimit=200, labelAngle=0)
        return lambda column: channel(f"{column}:N", sort=list(axis.names), title=axis.title or None, axis=look)
    low, high = axis.limits if axis.scale == "linear" else (None, None)
    ends = {name: value for name, value in (("domainMin", low), ("domainMax", high)) if value is not None}
    room = {"nice": False, "padding": 12} if axis.scale == "log" else {"nice": high is None}
    scale = alt.Scale(type=axis.scale, clamp="domainMax" in ends, **room, **ends)
    if axis.ticks:
        texts = json.dumps({f"{place:g}": text.split("\n") for place, text in axis.ticks.items()})
        marks = {"values": list(axis.ticks), "labelExpr": f"{texts}[datum.value]", "labelOverlap": True}
    else:
        small = axis.scale == "log" and (axis.limits[0] or 1) < TINY
        marks = {"format": ".0e" if small else "~g"} if axis.scale == "log" else {}
        marks["tickCount"] = 8 if channel is alt.Y else alt.ExprRef("max(2, width / 70)")
    return lambda column: channel(f"{column}:Q", title=axis.title or None, scale=scale, axis=alt.Axis(**marks))


def _color(key: Key, names: list[str]) -> alt.Color:
    scale = alt.Scale(domain=names, range=[legible(key.colors[name]) for name in names])
    return alt.Color(f"{key.column}:N", scale=scale, sort=names, legend=None)


def _shape(key: Key, names: list[str]) -> alt.Shape:
    scale = alt.Scale(domain=names, range=[SYMBOLS[key.markers.get(name, "o")] for name in names])
    return alt.Shape(f"{key.column}:N", scale=scale, sort=names, legend=None)


def _hints(layer: Layer) -> list[alt.Tooltip]:
    return [_hint(layer.data[column], heading) for column, heading in layer.hints.items()]


def _hint(values: pd.Series, heading: str) -> alt.Tooltip:
    """What a chart tells of a mark, with numbers as `ladder.show.numbers` writes them."""
    if not pd.api.types.is_numeric_dtype(values):
        return alt.Tooltip(f"{values.name}:N", title=heading)
    whole = (values.dropna() % 1 == 0).all()
    form = ",d" if whole else ".2e" if values.abs().max() < TINY else ",.4r"
    return alt.Tooltip(f"{values.name}:Q", title=heading, format=form)


def _lines(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    x, y = axes["x"](layer.x), axes["y"](layer.y)
    if layer.key is None:
        group = {"detail": f"{layer.group}:N"} if layer.group else {}
        return [base.mark_line(color="gray", strokeWidth=1.2, clip=True).encode(x=x, y=y, **group)]
    names, key = layer.key.names(layer.data), layer.key
    base = base.encode(x=x, color=_color(key, names))
    parts = []
    if layer.low:
        parts.append(base.mark_errorband(opacity=0.3).encode(y=axes["y"](layer.low), y2=layer.high))
    lengths = [[3 * length for length in key.dashes.get(name, ())] or [1, 0] for name in names]
    scale = alt.Scale(domain=names, range=lengths)
    dash = alt.StrokeDash(f"{key.column}:N", scale=scale, sort=names, legend=None)
    parts.append(base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash))
    points = base.mark_point(filled=True, size=75, opacity=1)
    return [*parts, points.encode(y=y, shape=_shape(key, names), tooltip=_hints(layer))]


def _points(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    marks = base.encode(x=axes["x"](layer.x), y=axes["y"](layer.y), tooltip=_hints(layer))
    if layer.key is None:
        size, opacity = (18, 0.25) if layer.behind else (70, 1)
        return [marks.mark_point(filled=True, size=size, opacity=opacity, color=legible(layer.color))]
    names = layer.key.names(layer.data)
    marks = marks.mark_point(filled=True, size=60, opacity=1)
    marks = marks.encode(color=_color(layer.key, names), shape=_shape(layer.key, names))
    return [marks.encode(yOffset=alt.YOffset("slot:O")) if layer.dodge else marks]


def _bars(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    base = base.encode(y=axes["y"](layer.y), tooltip=_hints(layer))
    color = _color(layer.key, layer.key.names(layer.data)) if layer.key else alt.value(legible(layer.color))
    bars = base.mark_bar(size=_ROW * layer.width).encode(x=axes["x"](layer.x), color=color)
    if not layer.low:
        return [bars]
    return [bars, base.mark_rule(strokeWidth=2, color="currentColor").encode(x=axes["x"](layer.low), x2=layer.high)]


def _stack(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    names = layer.key.names(layer.data)
    order = f"indexof({json.dumps(names)}, datum['{layer.key.column}'])"
    return [
        base.transform_calculate(place=order).mark_bar(size=_ROW * layer.width).encode(
            x=axes["x"](layer.x), y=axes["y"](layer.y), color=_color(layer.key, names), order="place:Q",
            tooltip=_hints(layer),
        )
    ]  # fmt: skip


def _texts(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    text = base.mark_text(align="left", dx=layer.offset[0], dy=-layer.offset[1], color="currentColor")
    parts = [text.encode(x=axes["x"](layer.x), y=axes["y"](layer.y), text=f"{layer.text}:N")]
    if not layer.offset[1]:  # beside a bar: a point that is not seen, so far right that the longest text has room
        room = layer.offset[0] + _WIDE * layer.data[layer.text].str.len().max()
        far = base.transform_calculate(far=f"datum['{layer.x}'] * width / max(width - {room:g}, width / 4)")
        parts.append(far.mark_point(opacity=0).encode(x=axes["x"]("far"), y=axes["y"](layer.y)))
    return parts


def _rules(base: alt.Chart, layer: Layer, axes: Mapping[str, Any]) -> list[alt.Chart]:
    return [base.mark_rule(strokeDash=[2, 3], color="gray").encode(y=axes["y"](layer.y), tooltip=f"{layer.text}:N")]


_MARKS = {"line": _lines, "point": _points, "bar": _bars, "stack": _stack, "text": _texts, "rule": _rules}
