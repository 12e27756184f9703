"""The interactive charts of the HTML report, as Vega-Lite specifications by Altair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.colors import to_hex, to_rgb

# label -> (column of the table of timings, factor)
METRICS = {
    "TFLOP/s": ("gflops", 1e-3),
    "% of cuBLAS": ("speedup_over_cublas", 100),
    "times naive": ("speedup_over_naive", 1),
}
HEIGHT = 380  # pixels
FORMAT = ".4~r"  # four significant digits, in d3's words
_DASHES = {"-": [1, 0], "--": [6, 4]}  # matplotlib's names; its own dashes are a tuple of an offset and lengths


def measurements(timings: pd.DataFrame, rungs: pd.DataFrame) -> pd.DataFrame:
    """One row a rung, shape and metric: rung, shape, work, metric, value, low and high (95 %), and how it was timed.

    `timings` and `rungs` are the tables of those names; the floors are left out.
    """
    kept = timings[timings["rung"].isin(rungs.loc[rungs["role"] != "floor", "rung"])]
    parts = []
    for label, (column, factor) in METRICS.items():
        ends = {"value": column, "low": f"{column}_ci_low", "high": f"{column}_ci_high"}
        part = kept[["rung", "shape", "m", "n", "k", "time_ms_median", "samples", "noise_percent"]].assign(metric=label)
        parts.append(part.assign(**{name: factor * kept[source] for name, source in ends.items()}))
    table = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    table = table.assign(work=table["m"] * table["n"] * table["k"]).drop(columns=["m", "n", "k"])
    digits = {name: table[name].map(lambda value: float(f"{value:.5g}")) for name in ("value", "low", "high")}
    return table.assign(**digits)


def by_size(data: pd.DataFrame, look: Mapping[str, Mapping[str, Any]], order: Sequence[str]) -> dict[str, Any]:
    """Lines over the size of square products; a choice of the metric, and of the rung by a click on its name."""
    square = data[~data["shape"].str.contains("x")]
    metric = alt.param(name="by_size_metric", value="TFLOP/s", bind=_select(METRICS, "Metric: "))
    picked = alt.selection_point(name="by_size_rung", fields=["rung"], bind="legend", toggle="true")
    colors, dashes = _scales(look, order)
    base = (
        alt.Chart(square)
        .transform_filter(alt.datum.metric == metric)
        .encode(
            x=alt.X("shape:N", sort=_sizes(square), title="m = n = k", axis=alt.Axis(labelAngle=0)),
            color=alt.Color("rung:N", scale=colors, sort=list(order), legend=_legend()),
            opacity=alt.condition(picked, alt.value(1), alt.value(0.08)),
        )
    )
    band = base.mark_errorband().encode(y=alt.Y("low:Q", title=""), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("value:Q", title=""),
        strokeDash=alt.StrokeDash("rung:N", scale=dashes, sort=list(order), legend=_legend()),
    )
    points = base.mark_point(filled=True, size=45).encode(y="value:Q", tooltip=_tooltip())
    return _finished(alt.layer(band, line, points).add_params(metric, picked), HEIGHT)


def at_one_size(data: pd.DataFrame, look: Mapping[str, Mapping[str, Any]], order: Sequence[str]) -> dict[str, Any]:
    """A bar for each rung at one shape, with its interval; a choice of the metric and of the shape."""
    shapes = _sizes(data)
    square = [shape for shape in shapes if "x" not in shape]
    metric = alt.param(name="at_size_metric", value="% of cuBLAS", bind=_select(METRICS, "Metric: "))
    shape = alt.param(name="at_size_shape", value=(square or shapes)[-1], bind=_select(shapes, "Shape: "))
    colors, _ = _scales(look, order)
    base = (
        alt.Chart(data)
        .transform_filter((alt.datum.metric == metric) & (alt.datum.shape == shape))
        .encode(y=alt.Y("rung:N", sort=list(order), title="", axis=alt.Axis(labelLimit=200)))
    )
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title=""), color=alt.Color("rung:N", scale=colors, legend=None), tooltip=_tooltip()
    )
    ends = base.mark_rule(strokeWidth=2, color="currentColor").encode(x="low:Q", x2="high:Q")
    text = base.mark_text(align="left", dx=6, color="currentColor")
    text = text.encode(x="high:Q", text=alt.Text("value:Q", format=FORMAT))
    return _finished(alt.layer(bars, ends, text).add_params(metric, shape), 22 * len(order))


def check_errors(checks: pd.DataFrame, order: Sequence[str]) -> dict[str, Any] | None:
    """The largest error of each rung over its bound, by k; None where nothing is checked.

    `checks` is the table of that name. An error at its bound is 1, one above it fails.
    """
    if checks.empty:
        return None
    ratio = checks["error_componentwise"] / checks["bound_componentwise"]
    table = checks.assign(share=ratio.where(checks["bound_componentwise"] > 0)).dropna(subset=["share"])
    table = table.assign(k=table["shape"].str.split("x").str[-1].astype(int))
    table = table[(table["share"] > 0) & (table["k"] > 0)]
    if table.empty:
        return None
    worst = table.loc[table.groupby(["rung", "k"])["share"].idxmax(), ["rung", "k", "share", "shape", "alpha", "beta"]]
    worst["share"] = worst["share"].map(lambda value: float(f"{value:.3g}"))
    rungs = [rung for rung in order if rung in set(worst["rung"])]
    rung = alt.param(name="check_rung", value=rungs[0], bind=_select(rungs, "Rung: "))
    base = alt.Chart(worst)
    x = alt.X("k:Q", scale=alt.Scale(type="log"), title="k")
    y = alt.Y("share:Q", scale=alt.Scale(type="log", domainMax=1), title="error / bound", axis=alt.Axis(format=".0e"))
    tip = ["rung", "shape", "alpha", "beta", alt.Tooltip("share:Q", title="error / bound", format=".2g")]
    others = base.mark_point(color="gray", opacity=0.25, size=18).encode(x=x, y=y)
    own = base.transform_filter(alt.datum.rung == rung).mark_point(filled=True, size=70, opacity=1)
    own = own.encode(x=x, y=y, color=alt.value("#cc6677"), tooltip=tip)
    return _finished(alt.layer(others, own).add_params(rung), 280)


def _select(options: Any, name: str) -> alt.BindRadioSelect:
    return alt.binding_select(options=list(options), name=name)


def _sizes(data: pd.DataFrame) -> list[str]:
    return list(data.sort_values("work", kind="stable")["shape"].unique())


def _scales(look: Mapping[str, Mapping[str, Any]], order: Sequence[str]) -> tuple[alt.Scale, alt.Scale]:
    colors = [legible(str(look[rung]["color"])) for rung in order]
    lines = [look[rung]["linestyle"] for rung in order]
    dashes = [[2 * length for length in line[1]] if isinstance(line, tuple) else _DASHES[line] for line in lines]
    return alt.Scale(domain=list(order), range=colors), alt.Scale(domain=list(order), range=dashes)


def legible(color: str) -> str:
    """A colour of the same hue that stands out from a white and from a nearly black page alike.

    Its relative luminance (WCAG 2) is brought to between 0.15 and 0.30 by mixing it with white or with black.
    """
    red, green, blue = to_rgb(color)
    for toward in (0.0, 1.0):
        for share in range(100):
            mixed = tuple((1 - share / 100) * channel + toward * share / 100 for channel in (red, green, blue))
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mixed]
            luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
            if 0.15 <= luminance <= 0.30:
                return to_hex(mixed)
    raise AssertionError(color)


def _legend() -> alt.Legend:
    return alt.Legend(title=None, orient="bottom", columns=4, symbolType="stroke", labelLimit=180)


def _tooltip() -> list[Any]:
    return [
        alt.Tooltip("rung:N"),
        alt.Tooltip("shape:N"),
        alt.Tooltip("metric:N"),
        alt.Tooltip("value:Q", format=FORMAT),
        alt.Tooltip("low:Q", title="95 % from", format=FORMAT),
        alt.Tooltip("high:Q", title="95 % to", format=FORMAT),
        alt.Tooltip("time_ms_median:Q", title="median, ms", format=".5g"),
        alt.Tooltip("samples:Q"),
        alt.Tooltip("noise_percent:Q", title="noise, %", format=".2f"),
    ]


def _finished(chart: alt.LayerChart, height: int) -> dict[str, Any]:
    return chart.properties(width="container", height=height).configure_view(strokeOpacity=0).to_dict()
