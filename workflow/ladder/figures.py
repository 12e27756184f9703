"""The figures: one message each, the same colour for the same rung everywhere, cuBLAS and the ceiling as references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

WIDTH, HEIGHT, DPI = 8.0, 4.8, 150  # inches, inches, dots an inch
LABEL_GAP = 0.042  # smallest distance of two labels, as a share of the axis
_MARKERS = "osD^vP*X"
_FIXED = {"svg.hashsalt": "gemm-ladder", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def styles(rungs: pd.DataFrame, baseline: str) -> dict[str, dict[str, object]]:
    """Colour and marker of each rung by its place in the ladder; the baseline is black and dashed.

    Variants of one entry share its colour and differ in their markers. `rungs` is the table of rungs.
    """
    entries = list(dict.fromkeys(name.split("@")[0] for name in rungs["rung"] if name != baseline))
    palette = sns.color_palette("colorblind", 10)
    found: dict[str, dict[str, object]] = {baseline: {"color": "black", "marker": "None", "linestyle": "--"}}
    seen: dict[str, int] = {}
    for name in rungs["rung"]:
        if name == baseline:
            continue
        entry = name.split("@")[0]
        index = entries.index(entry)
        variant = seen[entry] = seen.get(entry, -1) + 1
        marker = _MARKERS[(index // 10 + variant) % len(_MARKERS)]
        found[name] = {"color": palette[index % 10], "marker": marker, "linestyle": "-"}
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
) -> Figure:
    """One line a rung over the size of square products, its interval as a band, its name at the line's end.

    `column` is a column of the table of timings that has _ci_low and _ci_high beside it; `references` are horizontal
    lines by their label; `caption` says on which GPU and when the numbers were recorded.
    """
    with mpl.rc_context(_FIXED):
        sns.set_theme(style="whitegrid", rc={**_FIXED, "axes.titlesize": 12, "axes.labelsize": 10})
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        axes = figure.subplots()
        look = styles(rungs, baseline)
        ends: list[tuple[str, float, object]] = []
        rows = square_rows(timings).dropna(subset=[column])
        for name in rungs["rung"]:
            line = rows[rows["rung"] == name]
            if line.empty:
                continue
            axes.plot(line["n"], line[column], label=name, markersize=4.5, linewidth=1.6, **look[name])
            axes.fill_between(
                line["n"], line[f"{column}_ci_low"], line[f"{column}_ci_high"], color=look[name]["color"], alpha=0.25
            )
            ends.append((name, float(line[column].iloc[-1]), look[name]["color"]))
        _size_axis(axes, rows["n"])
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            axes.set_ylim(bottom=0)
        for text, value in references.items():
            axes.axhline(value, color="dimgray", linewidth=1, linestyle=":")
            axes.text(0.01, value, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8, color="dimgray")
        if references and not log:
            axes.set_ylim(top=max(axes.get_ylim()[1], 1.07 * max(references.values())))
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("m = n = k")
        axes.set_ylabel(label)
        _end_labels(axes, ends)
        figure.text(0.01, 0.01, caption, fontsize=7, color="dimgray")
        figure.subplots_adjust(left=0.09, right=0.80, top=0.92, bottom=0.15)
        sns.despine(fig=figure, left=True)
        return figure


def _size_axis(axes: Axes, sizes: pd.Series) -> None:
    axes.set_xscale("log", base=2)
    if sizes.empty:
        return
    low, high = np.floor(np.log2(sizes.min())), np.ceil(np.log2(sizes.max()))
    ticks = [2**exponent for exponent in np.arange(low, high + 1)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _end_labels(axes: Axes, ends: Sequence[tuple[str, float, object]]) -> None:
    """Write each line's name beside its end, moved up or down as far as it takes to keep the names apart."""
    axes.figure.canvas.draw()
    to_axes = axes.transAxes.inverted()
    placed = sorted(
        (to_axes.transform(axes.transData.transform((1, value)))[1], name, color) for name, value, color in ends
    )
    heights = spread([height for height, _, _ in placed], LABEL_GAP)
    for (height, name, color), y in zip(placed, heights, strict=True):
        line = {"transform": axes.transAxes, "clip_on": False, "color": color}
        axes.plot([1.0, 1.02], [height, y], linewidth=0.6, **line)
        axes.text(1.025, y, name, va="center", fontsize=8, **line)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights moved as little as needed to stand at least `gap` apart, centred on where they were.

    Runs of labels that collide are merged and laid out around their mean: the pool-adjacent-violators idea.
    """
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) < _bottom(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    return [_bottom(group, gap) + index * gap for group in groups for index in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - (len(group) - 1) * gap / 2


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure as SVG and PNG whose bytes depend on what is drawn alone."""
    with mpl.rc_context(_FIXED):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            empty = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, metadata=empty)


def all_figures(
    timings: pd.DataFrame, rungs: pd.DataFrame, baseline: str, peak_gflops: float, caption: str
) -> dict[str, Figure]:
    """Every figure of the pipeline by its name."""
    rungs = rungs[rungs["role"] != "floor"]
    rates, shares = timings.copy(), timings.copy()
    for end in ("", "_ci_low", "_ci_high"):
        rates[f"tflops{end}"] = timings[f"gflops{end}"] / 1000
        shares[f"share{end}"] = 100 * timings[f"speedup_over_cublas{end}"]
    best = best_rung(timings, baseline)
    where = f"at {best['n']}" if best else ""
    titles = (
        {
            "rate": f"{best['rung']} does {best['gflops'] / 1000:.1f} TFLOP/s {where}, "
            f"{best['share_of_peak']:.0%} of the peak",
            "share": f"{best['rung']} comes to {best['speedup_over_cublas']:.0%} of cuBLAS {where}",
            "speedup": f"{best['rung']} is {best['speedup_over_naive']:.1f} times as fast as naive {where}",
        }
        if best
        else {"rate": "Rate by size", "share": "Share of cuBLAS by size", "speedup": "Speedup over naive by size"}
    )
    peak = {f"FP32 peak {peak_gflops / 1000:.1f} TFLOP/s": peak_gflops / 1000}
    common = {"rungs": rungs, "baseline": baseline, "caption": caption}
    return {
        "gflops_by_size": by_size(
            rates, column="tflops", title=titles["rate"], label="TFLOP/s", references=peak, log=False, **common
        ),
        "share_of_cublas": by_size(
            shares,
            column="share",
            title=titles["share"],
            label="% of cuBLAS, measured side by side",
            references={},
            log=False,
            **common,
        ),
        "speedup_over_naive": by_size(
            timings,
            column="speedup_over_naive",
            title=titles["speedup"],
            label="times as fast as naive, measured side by side",
            references={},
            log=True,
            **common,
        ),
    }


def best_rung(timings: pd.DataFrame, baseline: str) -> dict[str, Any] | None:
    """The row of the fastest rung, the baseline aside, at the largest square size; None where nothing is timed."""
    rows = square_rows(timings).dropna(subset=["gflops", "speedup_over_naive", "speedup_over_cublas"])
    rows = rows[(rows["rung"] != baseline) & (rows["n"] == rows["n"].max())]
    return None if rows.empty else rows.loc[rows["gflops"].idxmax()].to_dict()
