"""The figures: one message each, the same colour for the same rung everywhere, cuBLAS and the ceiling as references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from ladder.precision import labelled, name_of, other_baselines
from ladder.tables import headline_shape

WIDTH, HEIGHT, DPI = 6.5, 5.2, 150  # inches, without the labels at the right, and dots an inch
LABEL_GAP = 0.038  # smallest distance of two labels, as a share of the axis
# Paul Tol's «muted» scheme, nine colours that colour-blind readers can tell apart (SRON, Colour Schemes).
PALETTE = ("#332288", "#cc6677", "#117733", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#ddcc77")
_LINES = ("-", (0, (4, 1)), (0, (1, 1)))  # one for each time that the colours are used up
_FACES = (None, "white", "white")  # of the markers, in step with the lines; None is the line's own colour
_MARKERS = "osD^vPX*<>"  # ten for nine colours: entries of one colour have different ones
PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # behind a text, so that no grid line crosses it
TEXT_SIZES = {"axes.titlesize": 12, "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9}
FIXED = {"svg.hashsalt": "gemm-ladder", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def styles(rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Colour, line and marker of each rung by its entry's place in the ladder; the baseline is black and dashed.

    Variants of one entry share its colour and differ in their markers. `rungs` is the table of rungs, `ladder` the
    entries in climbing order, which are the table's own where it is empty. A rung may be named by its label.
    """
    named = [*ladder, *(name_of(name).split("@")[0] for name in rungs["rung"])]
    entries = [entry for entry in dict.fromkeys(named) if entry != baseline]
    found: dict[str, dict[str, object]] = {baseline: {"color": "black", "marker": "None", "linestyle": "--"}}
    variants: dict[str, int] = {}
    for name in rungs["rung"]:
        if name == baseline:
            continue
        entry = name_of(name).split("@")[0]
        index = entries.index(entry)
        variants[entry] = variants.get(entry, -1) + 1
        color, lap = PALETTE[index % len(PALETTE)], index // len(PALETTE) % len(_LINES)
        found[name] = {
            "color": color,
            "linestyle": _LINES[lap],
            "marker": _MARKERS[(index + variants[entry]) % len(_MARKERS)],
            "markerfacecolor": _FACES[lap] or color,
        }
    return found


def square_rows(timings: pd.DataFrame) -> pd.DataFrame:
    """The rows of square products, by rung and size; other shapes have no place on an axis of sizes."""
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])]
    return square.sort_values(["rung", "n"])


def by_size(
    timings: pd.DataFrame,
    rungs: pd.DataFrame,
    baseline: str,
    column: str,
    title: str,
    label: str,
    caption: str,
    references: Mapping[str, float],
    log: bool,
    ladder: Sequence[str] = (),
) -> Figure:
    """One line a rung over the size of square products, its interval as a band, its name at the line's end.

    Sizes stand side by side at equal distances: on an axis of numbers 4095 and 4096 would be one place.

    `column` is a column of the table of timings that has _ci_low and _ci_high beside it; `references` are horizontal
    lines by their label; `caption` says on which GPU and when the numbers were recorded.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, **TEXT_SIZES})
        figure = Figure(figsize=(WIDTH, HEIGHT * max(1, LABEL_GAP * len(rungs))), dpi=DPI)
        axes = figure.subplots()
        look = styles(rungs, baseline, ladder)
        ends: list[tuple[float, str]] = []
        rows = square_rows(timings).dropna(subset=[column])
        sizes = sorted(rows["n"].unique())
        for name in rungs["rung"]:
            line = rows[rows["rung"] == name]
            if line.empty:
                continue
            places = [sizes.index(n) for n in line["n"]]
            axes.plot(places, line[column], label=name, markersize=4.5, linewidth=1.4, **look[name])
            axes.fill_between(
                places, line[f"{column}_ci_low"], line[f"{column}_ci_high"], color=look[name]["color"], alpha=0.25
            )
            ends.append((float(line[column].iloc[-1]), name))
        axes.set_xticks(range(len(sizes)), [str(n) for n in sizes])
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(bottom=0)
        for text, value in references.items():
            axes.axhline(value, color="dimgray", linewidth=1, linestyle=":")
            axes.annotate(
                text, (0.01, value), xycoords=axes.get_yaxis_transform(), xytext=(0, 3), textcoords="offset points",
                va="bottom", fontsize=8, color="dimgray", bbox=PLAIN,
            )  # fmt: skip
        if references and not log:
            axes.set_ylim(top=max(axes.get_ylim()[1], 1.07 * max(references.values())))
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("m = n = k")
        axes.set_ylabel(label)
        figure.text(0.01, 0.01, caption, fontsize=7, color="dimgray")
        figure.subplots_adjust(left=0.11, right=0.98, top=0.92, bottom=0.14)
        _end_labels(axes, ends, look)
        sns.despine(fig=figure, left=True)
        return figure


def _end_labels(axes: Axes, ends: Sequence[tuple[float, str]], look: Mapping[str, Mapping[str, Any]]) -> None:
    """Write each line's marker and name beside its end, moved up or down as far as it takes to keep the names apart.

    The figure is made wider by as much as the longest name needs at the right, and the axis's label at the left.
    """
    figure = axes.figure
    renderer = FigureCanvasAgg(figure).get_renderer()  # without one, each text that is measured makes its own
    to_axes = axes.transAxes.inverted()
    placed = sorted((to_axes.transform(axes.transData.transform((1, value)))[1], name) for value, name in ends)
    heights = spread([height for height, _ in placed], LABEL_GAP)
    right = axes.get_position().x1 * WIDTH
    for (height, name), y in zip(placed, heights, strict=True):
        outside = {"transform": axes.transAxes, "clip_on": False}
        axes.plot(
            [1, 1.02, 1.06], [height, y, y], linewidth=0.8, markersize=4.5, markevery=[2], **look[name], **outside
        )
        dark = [0.7 * channel for channel in to_rgb(look[name]["color"])]
        text = axes.text(1.075, y, name, va="center", fontsize=8, color=dark, **outside)
        right = max(right, text.get_window_extent(renderer).x1 / figure.dpi)
    left, bottom, width, height = axes.get_position().bounds
    margin = 0.02 * WIDTH
    more = max(0.0, margin - axes.yaxis.get_tightbbox(renderer).x0 / figure.dpi)
    wide = more + right + margin
    figure.set_figwidth(wide)
    axes.set_position(((more + left * WIDTH) / wide, bottom, width * WIDTH / wide, height))


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


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure as SVG, and as PNG of at most 256 colours; the bytes depend on what is drawn alone."""
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".svg":
                figure.savefig(path, metadata={"Date": None, "Creator": None})
                continue
            drawn = BytesIO()
            figure.savefig(drawn, format="rgba")
            pixels = figure.canvas.get_width_height()
            picture = Image.frombytes("RGBA", pixels, drawn.getvalue()).convert("RGB")
            # Median cut, of Pillow's methods the one that keeps the grid's greys without a tint, refined until a round
            # moves no more than a thousand pixels.
            few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=1000, dither=Image.Dither.NONE)
            few.save(path, format="png", optimize=True)


def all_figures(
    timings: pd.DataFrame,
    rungs: pd.DataFrame,
    baseline: str,
    peak_gflops: float,
    caption: str,
    ladder: Sequence[str] = (),
) -> dict[str, Figure]:
    """Every figure of the pipeline by its name."""
    rungs = rungs[rungs["role"] != "floor"]
    best = best_rung(timings[timings["rung"].isin(rungs.loc[rungs["precision"] == "fp32", "rung"])], baseline)
    others = "; ".join(f"{title}: of {name}" for title, name in other_baselines(rungs).items())
    timings, rungs = labelled(timings, rungs), labelled(rungs, rungs)
    rates, shares = timings.copy(), timings.copy()
    for end in ("", "_ci_low", "_ci_high"):
        rates[f"tflops{end}"] = timings[f"gflops{end}"] / 1000
        shares[f"share{end}"] = 100 * timings[f"speedup_over_cublas{end}"]
    where = f"at {best['n']}" if best else ""
    titles = (
        {
            "rate": f"{best['rung']} does {best['gflops'] / 1000:.1f} TFLOP/s {where}, "
            f"{best['share_of_peak']:.0%} of the peak",
            "share": f"{best['rung']} comes to {best['speedup_over_cublas']:.0%} of cuBLAS {where}",
            "speedup": f"{best['rung']} is {best['speedup_over_naive']:.1f} times as fast as naive {where}"
            if best["speedup_over_naive"] > 0
            else "Speedup over naive by size",
        }
        if best
        else {"rate": "Rate by size", "share": "Share of cuBLAS by size", "speedup": "Speedup over naive by size"}
    )
    peak = {f"FP32 peak {peak_gflops / 1000:.1f} TFLOP/s": peak_gflops / 1000}
    common = {"rungs": rungs, "baseline": baseline, "caption": caption, "ladder": ladder}
    return {
        "gflops_by_size": by_size(
            rates, column="tflops", title=titles["rate"], label="TFLOP/s", references=peak, log=True, **common
        ),
        "share_of_cublas": by_size(
            shares,
            column="share",
            title=titles["share"],
            label=f"% of cuBLAS{others and f' ({others})'}",
            references={},
            log=False,
            **common,
        ),
        "speedup_over_naive": by_size(
            timings,
            column="speedup_over_naive",
            title=titles["speedup"],
            label="times as fast as naive",
            references={},
            log=True,
            **common,
        ),
    }


def best_rung(timings: pd.DataFrame, baseline: str) -> dict[str, Any] | None:
    """The row of the fastest rung, the baseline aside, at the square size that stands for the run; None without any.

    Its speedup over naive is NaN where naive was not timed beside it.
    """
    rows = square_rows(timings).dropna(subset=["gflops", "speedup_over_cublas"])
    rows = rows[(rows["rung"] != baseline) & (rows["shape"] == headline_shape(rows))]
    rows = rows[rows["speedup_over_naive"] != 1]  # the naive kernel is no news
    return None if rows.empty else rows.loc[rows["gflops"].idxmax()].to_dict()
