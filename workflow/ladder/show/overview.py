"""The README's figure: speed as a share of cuBLAS by size, and the error by k beside cuBLAS's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ladder.show.style import FIXED, spread, styles
from ladder.tables.timings import square_rows

FASTER = ("tiled@TILE=32", "async_copy", "fastest", "mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16")
ACCURATE = ("cublas_tf32", "mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16")
SIZE, FAMILY = 1024, "normal"  # m = n and the inputs of the panel of errors
WIDTH, HEIGHT, DPI = 9.6, 4.3, 160  # inches, and dots an inch: 1536 pixels, about twice what a page shows
LABEL_GAP = 0.072  # smallest distance of two labels, as a share of the axis
FONTS = {"axes.titlesize": 12, "axes.labelsize": 11, "xtick.labelsize": 11, "ytick.labelsize": 11}
PLACES = {"left": 0.076, "right": 0.852, "top": 0.89, "bottom": 0.215, "wspace": 0.75}


def overview(
    timings: pd.DataFrame,
    rungs: pd.DataFrame,
    accuracy: pd.DataFrame,
    baseline: str,
    caption: str,
    ladder: Sequence[str] = (),
) -> Figure:
    """Two panels: the rate of FASTER in % of the baseline's by m = n = k, and the norm-wise error of ACCURATE by k.

    `timings`, `rungs` and `accuracy` are the tables of those names; `ladder` is the entries in climbing order, which
    give each rung its colour; `caption` says on which GPU and when the numbers were recorded. Rungs that a table does
    not hold are left out.
    """
    shares = square_rows(timings).dropna(subset=["speedup_over_cublas"])
    shares = shares.assign(percent=100 * shares["speedup_over_cublas"])
    shares = shares[shares["rung"].isin(FASTER)]
    errors = accuracy[(accuracy["m"] == SIZE) & (accuracy["family"] == FAMILY)]
    errors = errors[errors["rung"].isin([baseline, *ACCURATE])]
    look = styles(rungs, baseline, ladder)
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, **FONTS})
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        left, right = figure.subplots(1, 2, gridspec_kw=PLACES)
        _lines(left, shares, "n", "percent", look)
        left.axhline(100, color="black", linewidth=1.8, linestyle="--", zorder=1)
        left.set(xlabel="m = n = k", xticks=(128, 512, 2048, 8192), yticks=(25, 50, 100, 200, 400))
        left.yaxis.set_major_formatter("{x:g} %")
        _lines(right, errors, "k", "error_normwise", look)
        right.set(xlabel=f"k  (m = n = {SIZE}, {FAMILY} inputs)", xticks=(64, 1024, 16384))
        _names(left, {baseline: (left.get_xlim()[1], 100), **_ends(shares, "n", "percent")}, look)
        _names(right, _ends(errors, "k", "error_normwise"), look)
        for axes, title in ((left, "Speed: % of cuBLAS's FP32 rate"), (right, "Error: norm of C - AB / norm of AB")):
            axes.set_title(title, loc="left", x=-0.15, fontweight="bold")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_ylabel("")
            axes.minorticks_off()
        figure.text(0.008, 0.025, caption, fontsize=9, color="dimgray")
        sns.despine(fig=figure, left=True)
        return figure


def _lines(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Mapping[str, Mapping[str, Any]]) -> None:
    """A line a rung on two logarithmic axes."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2 if y == "percent" else 10)
    if rows.empty:
        return
    styled = {name: look[name] for name in rows["rung"].unique()}
    sns.lineplot(
        rows, x=x, y=y, hue="rung", style="rung", estimator=None, legend=False, ax=axes, linewidth=1.8, markersize=7,
        palette={name: style["color"] for name, style in styled.items()},
        dashes={name: (4, 2) if style["linestyle"] == "--" else "" for name, style in styled.items()},
        markers={name: "." if style["marker"] == "None" else style["marker"] for name, style in styled.items()},
    )  # fmt: skip


def _ends(rows: pd.DataFrame, x: str, y: str) -> dict[str, tuple[float, float]]:
    """The last point of each rung's line."""
    last = rows.sort_values(x).groupby("rung").last()
    return {str(name): (row[x], row[y]) for name, row in last.iterrows()}


def _names(axes: Axes, ends: Mapping[str, tuple[float, float]], look: Mapping[str, Mapping[str, Any]]) -> None:
    """The name of each line at the right of the panel, apart from the others, with a thin line to the line's end."""
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    placed = sorted((to_axes.transform(end)[1], name) for name, end in ends.items())
    for (_, name), y in zip(placed, spread([height for height, _ in placed], LABEL_GAP), strict=True):
        dark = [0.7 * channel for channel in to_rgb(look[name]["color"])]
        axes.annotate(
            name, ends[name], xytext=(1.07, y), textcoords=axes.transAxes, va="center", fontsize=10.5, color=dark,
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": dark, "linewidth": 0.7, "shrinkA": 0},
        )  # fmt: skip
