"""The interactive charts of the HTML report, as Vega-Lite specifications by Altair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from ladder.build.occupancy import LIMITS
from ladder.model.gpu import Gpu
from ladder.show.style import PALETTE
from ladder.show.why import compute_ceilings, loop_shares, rates, shapes_of, slot_shares, stack_colors, warp_limits
from ladder.tables.timings import headline_shape, largest

# label -> (column of the table of timings, factor)
METRICS = {
    "TFLOP/s": ("gflops", 1e-3),
    "% of cuBLAS": ("speedup_over_cublas", 100),
    "times naive": ("speedup_over_naive", 1),
}
HEIGHT = 380  # pixels
FORMAT = ".4~r"  # four significant digits, in d3's words
TEXT = {"labelFontSize": 12, "titleFontSize": 12}
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
    digits = {name: table[name].map(lambda value: float(f"{value:.8g}")) for name in ("value", "low", "high")}
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
    faint = alt.condition(picked, alt.value(0.3), alt.value(0.02))
    logarithmic = {"title": "", "scale": alt.Scale(type="log"), "axis": alt.Axis(format="~g", tickCount=8)}
    band = base.mark_errorband().encode(y=alt.Y("low:Q", **logarithmic), y2="high:Q", opacity=faint)
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("value:Q", **logarithmic),
        strokeDash=alt.StrokeDash("rung:N", scale=dashes, sort=list(order), legend=_legend()),
    )
    points = base.mark_point(filled=True, size=45).encode(y=alt.Y("value:Q", **logarithmic), tooltip=_tooltip())
    return _finished(alt.layer(band, line, points).add_params(metric, picked), HEIGHT)


def at_one_size(data: pd.DataFrame, look: Mapping[str, Mapping[str, Any]], order: Sequence[str]) -> dict[str, Any]:
    """A bar for each rung at one shape, with its interval; a choice of the metric and of the shape."""
    shapes = _sizes(data)
    metric = alt.param(name="at_size_metric", value="% of cuBLAS", bind=_select(METRICS, "Metric: "))
    shape = alt.param(name="at_size_shape", value=headline_shape(data), bind=_select(shapes, "Shape: "))
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
    return _finished(alt.layer(bars, ends, text, _room(base, "high", 1.16)).add_params(metric, shape), 22 * len(order))


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
    x = alt.X("k:Q", scale=alt.Scale(type="log"), title="k", axis=alt.Axis(tickCount=5, format="~g"))
    y = alt.Y("share:Q", scale=alt.Scale(type="log", domainMax=1), title="error / bound",
              axis=alt.Axis(tickCount=5, format="~g"))  # fmt: skip
    tip = ["rung", "shape", "alpha", "beta", alt.Tooltip("share:Q", title="error / bound", format=".2g")]
    others = base.mark_point(color="gray", opacity=0.25, size=18).encode(x=x, y=y)
    own = base.transform_filter(alt.datum.rung == rung).mark_point(filled=True, size=70, opacity=1)
    own = own.encode(x=x, y=y, color=alt.value("#cc6677"), tooltip=tip)
    return _finished(alt.layer(others, own).add_params(rung), 280)


def issue_slots(slots: pd.DataFrame, order: Sequence[str]) -> dict[str, Any] | None:
    """Stacked bars: where the issue slots of each profiled rung go; a choice of the shape. `slots` is the table."""
    by_shape = {shape: slot_shares(slots, shape) for shape in slots["shape"].unique()}
    return _stacked(by_shape, order, "slots", "% of issue slots, or of cycles", 290)


def instruction_mix(instructions: pd.DataFrame, order: Sequence[str]) -> dict[str, Any] | None:
    """Stacked bars: the instructions of each inner loop; a choice of the shape. `instructions` is the table."""
    by_shape = {shape: loop_shares(instructions, shape) for shape in shapes_of(instructions)}
    return _stacked(by_shape, order, "mix", "% of the inner loop", 110)


def _stacked(
    by_shape: Mapping[str, pd.DataFrame], order: Sequence[str], name: str, label: str, width: int
) -> dict[str, Any] | None:
    """Stacked bars of percents: one frame a shape, a row a rung, a column a part; `width` of a name in the legend."""
    tables = {shape: frame[frame.index.isin(order)] for shape, frame in by_shape.items()}
    tables = {shape: frame for shape, frame in tables.items() if len(frame)}
    if not tables:
        return None
    colors_of = stack_colors(pd.concat(tables.values()))
    parts = list(colors_of)
    data = pd.concat(
        [
            frame[parts]
            .rename_axis("rung")
            .reset_index()
            .melt("rung", var_name="part", value_name="percent")
            .assign(shape=shape)
            for shape, frame in tables.items()
        ]
    )
    data["percent"] = data["percent"].map(lambda value: float(f"{value:.4g}"))
    data["place"] = data["part"].map({part: place for place, part in enumerate(parts)})
    chosen = _shape_choice(name, list(tables))
    picked = alt.selection_point(name=f"{name}_part", fields=["part"], bind="legend", toggle="true")
    colors = alt.Scale(domain=parts, range=[legible(color) for color in colors_of.values()])
    chart = (
        alt.Chart(data)
        .transform_filter((alt.datum.shape == chosen) & (alt.datum.percent > 0))
        .mark_bar()
        .encode(
            x=alt.X("percent:Q", title=label, scale=alt.Scale(domainMax=100, clamp=True)),
            y=_rungs(order, {rung for frame in tables.values() for rung in frame.index}),
            color=alt.Color("part:N", scale=colors, sort=parts, legend=_legend("square", width)),
            order="place:Q",
            opacity=alt.condition(picked, alt.value(1), alt.value(0.15)),
            tooltip=["rung", "shape", "part", alt.Tooltip("percent:Q", format=".1f")],
        )
    )
    rungs = data["rung"].nunique()
    return _finished(alt.layer(chart).add_params(chosen, picked), 24 * rungs)


def occupancy(resources: pd.DataFrame, order: Sequence[str]) -> dict[str, Any] | None:
    """A bar of the warps that an SM holds of each rung, a mark for each resource's limit; a choice of the shape."""
    tables = {shape: warp_limits(resources, shape) for shape in resources["shape"].unique()}
    tables = {shape: frame[frame.index.isin(order)] for shape, frame in tables.items()}
    if not any(len(frame) for frame in tables.values()):
        return None
    held = pd.concat([frame[["held"]].assign(shape=shape, floor=1) for shape, frame in tables.items()])
    held = held.rename_axis("rung").reset_index()
    limits = pd.concat(
        [
            frame[list(LIMITS)].rename_axis("rung").reset_index().melt("rung", var_name="limit", value_name="allowed")
            .assign(shape=shape)
            for shape, frame in tables.items()
        ]
    ).dropna()  # fmt: skip
    chosen = _shape_choice("occupancy", list(tables))
    y = _rungs(order, set(held["rung"]))
    x = {"title": "warps an SM", "scale": alt.Scale(type="log", base=2, domainMin=1), "axis": alt.Axis(tickCount=5)}
    bars = alt.Chart(held).transform_filter(alt.datum.shape == chosen).mark_bar(color="gray", opacity=0.45)
    bars = bars.encode(
        x=alt.X("held:Q", **x), x2="floor:Q", y=y, tooltip=["rung", "shape", alt.Tooltip("held:Q", title="warps held")]
    )
    colors = alt.Scale(domain=list(LIMITS), range=[legible(color) for color in PALETTE[: len(LIMITS)]])
    marks = alt.Chart(limits).transform_filter(alt.datum.shape == chosen).mark_point(filled=True, opacity=1)
    sizes = alt.Scale(domain=list(LIMITS), range=[260, 110, 60, 30])  # so that marks in one place are all seen
    kinds = {"sort": list(LIMITS), "legend": _legend(None, 150)}
    marks = marks.encode(
        x=alt.X("allowed:Q", **x), y=y, size=alt.Size("limit:N", scale=sizes, **kinds),
        color=alt.Color("limit:N", scale=colors, **kinds),
        shape=alt.Shape("limit:N", scale=alt.Scale(domain=list(LIMITS)), **kinds),
        tooltip=["rung", "shape", alt.Tooltip("limit:N", title="limit by"), alt.Tooltip("allowed:Q", title="warps")],
    )  # fmt: skip
    return _finished(alt.layer(bars, marks).add_params(chosen), 24 * held["rung"].nunique())


def prediction(paper: pd.DataFrame, order: Sequence[str]) -> dict[str, Any] | None:
    """The lowest ceiling on paper of each rung and the measured rate inside it; a choice of the shape."""
    table = paper[paper["rung"].isin(order) & paper["predicted_gflops"].notna()]
    if table.empty:
        return None
    ceilings = ["fp32_units", "issue_slots", "load_pipe", "dram"]
    data = table[["rung", "shape", "bound_by", "wavefronts_from", "share_of_prediction"]].assign(
        predicted=table["predicted_gflops"] / 1e3,
        measured=table["measured_gflops"] / 1e3,
        **{name: table[f"ceiling_{name}_gflops"] / 1e3 for name in ceilings},
    )
    numbers = data.select_dtypes("number").columns
    data[numbers] = data[numbers].map(lambda value: None if pd.isna(value) else float(f"{value:.4g}"))
    measured = headline_shape(table[table["measured_gflops"].notna()])
    chosen = _shape_choice("prediction", list(table["shape"].unique()), measured)
    tip = [
        "rung", "shape", alt.Tooltip("measured:Q", title="measured, TFLOP/s", format=FORMAT),
        alt.Tooltip("predicted:Q", title="lowest ceiling", format=FORMAT), alt.Tooltip("bound_by:N", title="which"),
        alt.Tooltip("share_of_prediction:Q", title="share of it", format=".1%"),
        *(alt.Tooltip(f"{name}:Q", title=name.replace("_", " "), format=FORMAT) for name in ceilings),
        alt.Tooltip("wavefronts_from:N", title="load pipe passes from"),
    ]  # fmt: skip
    base = alt.Chart(data).transform_filter(alt.datum.shape == chosen).encode(y=_rungs(order, set(data["rung"])))
    outer = base.mark_bar(color="gray", opacity=0.35, size=19).encode(
        x=alt.X("predicted:Q", title="TFLOP/s", axis=alt.Axis(tickCount=alt.ExprRef("width / 60"))), tooltip=tip
    )
    inner = base.mark_bar(color=legible(PALETTE[0]), size=10).encode(x="measured:Q", tooltip=tip)
    text = base.mark_text(align="left", dx=6, color="currentColor").encode(x="predicted:Q", text="bound_by:N")
    return _finished(
        alt.layer(outer, inner, text, _room(base, "predicted", 1.5)).add_params(chosen), 24 * data["rung"].nunique()
    )


def roofline(
    profiles: pd.DataFrame,
    timings: pd.DataFrame,
    gpu: Gpu,
    look: Mapping[str, Mapping[str, Any]],
    order: Sequence[str],
) -> dict[str, Any] | None:
    """Rate against measured intensity towards L2 and DRAM, under the ceilings; a choice of the shape.

    S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009.
    """
    points, lines, names = [], [], []
    for shape in profiles["shape"].unique():
        table = rates(profiles, shape)
        table = table[table.index.isin(order)]
        if table.empty:
            continue
        flat = {label: value / 1e12 for label, value in compute_ceilings(timings, gpu, shape).items()}
        top = max(flat.values())
        for name, row in table.iterrows():
            points += [
                {"rung": name, "shape": shape, "level": label, "intensity": row["flops"] / row[level],
                 "tflops": row["flops"] / 1e12}
                for label, level in (("L2", "l2"), ("DRAM", "dram"))
            ]  # fmt: skip
        for label, value in flat.items():
            lines += [{"shape": shape, "ceiling": label, "intensity": x, "tflops": value} for x in (0.3, 3000.0)]
        for label, level in (("L2", "l2_peak"), ("DRAM", "dram_peak")):
            slope = table[level].median() / 1e12
            name = f"{label} {slope:.1f} TB/s"
            lines += [
                {"shape": shape, "ceiling": name, "intensity": x, "tflops": x * slope} for x in (0.3, top / slope)
            ]
            names.append({"shape": shape, "ceiling": name, "intensity": 0.32, "tflops": 0.32 * slope})
        # The flat ceilings lie too close for names in their places: these stand in a column above, the highest first.
        for place, (label, value) in enumerate(sorted(flat.items(), key=lambda pair: pair[1]), 1):
            text = f"{label}: {value:.1f} TFLOP/s"
            names.append({"shape": shape, "ceiling": text, "intensity": 0.32, "tflops": top * 1.45**place})
    if not points:
        return None
    dots, roofs, texts = (
        pd.DataFrame(rows).map(lambda value: float(f"{value:.4g}") if isinstance(value, float) else value)
        for rows in (points, lines, names)
    )
    chosen = _shape_choice("roofline", list(dots["shape"].unique()))
    picked = alt.selection_point(name="roofline_rung", fields=["rung"], bind="legend", toggle="true")
    shown = [rung for rung in order if rung in set(dots["rung"])]
    colors, _ = _scales(look, shown)
    decades = {"values": [0.01, 0.1, 1, 10, 100, 1000], "format": "~g"}
    scale = alt.Scale(type="log", domain=[0.3, 3000])
    x = alt.X("intensity:Q", scale=scale, title="FLOP a byte", axis=alt.Axis(**decades))
    below, above = 0.5 * min(dots["tflops"].min(), texts["tflops"].min()), 1.3 * texts["tflops"].max()
    heights = alt.Scale(type="log", domain=[below, above], nice=False)
    y = alt.Y("tflops:Q", scale=heights, title="TFLOP/s", axis=alt.Axis(**decades))
    roof = alt.Chart(roofs).transform_filter(alt.datum.shape == chosen)
    roof = roof.mark_line(color="gray", clip=True).encode(
        x=x, y=y, detail="ceiling:N", tooltip=["ceiling", alt.Tooltip("tflops:Q", title="TFLOP/s", format=FORMAT)]
    )
    marks = alt.Chart(dots).transform_filter(alt.datum.shape == chosen).mark_point(size=70, strokeWidth=2)
    marks = marks.encode(
        x=x, y=y, color=alt.Color("rung:N", scale=colors, sort=shown, legend=_legend()),
        shape=alt.Shape("level:N", scale=alt.Scale(domain=["L2", "DRAM"], range=["circle", "triangle-up"]),
                        legend=alt.Legend(title=None, orient="top")),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.1)),
        tooltip=["rung", "shape", "level", alt.Tooltip("intensity:Q", title="FLOP a byte", format=FORMAT),
                 alt.Tooltip("tflops:Q", title="TFLOP/s", format=FORMAT)],
    )  # fmt: skip
    words = alt.Chart(texts).transform_filter(alt.datum.shape == chosen)
    words = words.mark_text(align="left", dy=14, color="currentColor").encode(x=x, y=y, text="ceiling:N")
    return _finished(alt.layer(roof, words, marks).add_params(chosen, picked), HEIGHT)


def _shape_choice(name: str, shapes: Sequence[str], first: str | None = None) -> alt.Parameter:
    """A choice of one of these shapes, which begins at `first`, or else at the largest square."""
    return alt.param(name=f"{name}_shape", value=first or largest(shapes), bind=_select(shapes, "Shape: "))


def _rungs(order: Sequence[str], present: set[str]) -> alt.Y:
    shown = [rung for rung in order if rung in present]
    return alt.Y("rung:N", sort=shown, scale=alt.Scale(domain=shown), title="", axis=alt.Axis(labelLimit=200))


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


def _legend(symbol: str | None = "stroke", width: int = 180) -> alt.Legend:
    """A legend below the chart, of as many columns of so many pixels as fit; without a symbol, of the marks' own."""
    columns = alt.ExprRef(f"max(1, floor((containerSize()[0] - 140) / {width}))")
    options = {"symbolType": symbol, "symbolSize": 400 if symbol == "stroke" else 100} if symbol else {}
    return alt.Legend(title=None, orient="bottom", columns=columns, symbolOpacity=1, labelLimit=260, **options)


def _room(base: alt.Chart, field: str, factor: float) -> alt.Chart:
    """Nothing that is seen, so far right that the text at the end of a bar has room."""
    return base.transform_calculate(room=f"datum.{field} * {factor}").mark_point(opacity=0).encode(x="room:Q")


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
    chart = chart.properties(width="container", height=height).configure_view(strokeOpacity=0)
    return chart.configure_axis(**TEXT).configure_legend(**TEXT).configure_text(fontSize=12).to_dict()
