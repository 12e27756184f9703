"""Rate, share of cuBLAS and speedup over the naive kernel, over the size of square products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ladder.model.precision import labelled, other_baselines
from ladder.show.style import DPI, FIXED, HEIGHT, LABEL_GAP, PLAIN, TEXT_SIZES, WIDTH, spread, styles
from ladder.tables.timings import headline_shape, square_rows


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
