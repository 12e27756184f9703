"""Every GPU that has records beside the others, as two figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ladder.model.precision import label
from ladder.show.style import DPI, FIXED, PALETTE
from ladder.tables.across import caption, common_size
from ladder.tables.timings import square_rows

_METRICS = {
    "gflops": ("TFLOP/s", 1e-3),
    "share_of_peak": ("% of FP32 peak", 100),
    "share_of_cublas": ("% of cuBLAS", 100),
}
_MARKERS = "osD^vPX*"


def looks(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour and marker of each GPU."""
    names = sorted(table["gpu"].unique())
    return {
        name: {"color": PALETTE[place % len(PALETTE)], "marker": _MARKERS[place % len(_MARKERS)]}
        for place, name in enumerate(names)
    }


def at_one_size(table: pd.DataFrame, baseline: str) -> Figure:
    """Rate, share of the peak and share of cuBLAS of each rung on each GPU, at the size that they share most of."""
    size = common_size(table)
    rows = square_rows(table)
    rows = rows[rows["n"] == size]
    rungs = [name for name in table["rung"].unique() if name in set(rows["rung"])]
    look = looks(table)
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, "axes.labelsize": 10})
        note = caption(table, "Medians with their 95 % intervals; shares of cuBLAS are measured side by side.")
        foot = 0.25 + 0.16 * (note.count("\n") + 1)  # inches
        height = 1.6 + 0.3 * max(1, len(rungs)) + foot
        figure = Figure(figsize=(10, height), dpi=DPI)
        panels = figure.subplots(1, len(_METRICS), sharey=True)
        step = 0.5 / max(1, len(look))
        for axes, (column, (label, factor)) in zip(panels, _METRICS.items(), strict=True):
            for place, (name, style) in enumerate(look.items()):
                own = rows[rows["gpu"] == name].set_index("rung").reindex(rungs)
                heights = [at + step * (place - (len(look) - 1) / 2) for at in range(len(rungs))]
                values = factor * own[column]
                axes.plot(values, heights, linestyle="none", markersize=5, clip_on=False, zorder=3, label=name, **style)
                if f"{column}_ci_low" in own:
                    ends = factor * own[f"{column}_ci_low"], factor * own[f"{column}_ci_high"]
                    axes.hlines(heights, *ends, color=style["color"], linewidth=1.5)
            axes.set_xlabel(label)
            axes.set_xlim(left=0)
            axes.tick_params(axis="x", labelsize=8)
        panels[0].set_yticks(range(len(rungs)), _labels(table, rungs), fontsize=8)
        panels[0].set_ylim(len(rungs) - 0.4, -0.6)
        figure.suptitle(_title(rows, baseline, size), x=0.02, ha="left", fontweight="bold", fontsize=12)
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="upper right", ncols=4, frameon=False, fontsize=9,
            bbox_to_anchor=(0.99, 1 - 0.38 / height),
        )  # fmt: skip
        figure.text(0.02, 0.08 / height, note, fontsize=7, color="dimgray", va="bottom")
        figure.subplots_adjust(left=0.19, right=0.98, top=1 - 0.75 / height, bottom=(0.55 + foot) / height, wspace=0.08)
        sns.despine(fig=figure, left=True)
        return figure


def _labels(table: pd.DataFrame, rungs: Sequence[str]) -> list[str]:
    classes = dict(zip(table["rung"], table["precision"], strict=True))
    return [label(name, classes[name]) for name in rungs]


def _title(rows: pd.DataFrame, baseline: str, size: int | None) -> str:
    best = rows[(rows["rung"] != baseline) & (rows["precision"] == "fp32")].dropna(subset=["gflops"])
    if best.empty:
        return "No rung is recorded at a square size"
    best = best.loc[best.groupby("gpu")["gflops"].idxmax()].sort_values("gflops", ascending=False)
    parts = [f"{row.rung} {row.gflops / 1000:.1f} TFLOP/s on {row.gpu}" for row in best.head(3).itertuples()]
    more = "" if len(best) <= 3 else f" (of {len(best)} GPUs)"
    return f"The best FP32 rung at {size}: {', '.join(parts)}{more}"


def by_size(table: pd.DataFrame) -> Figure:
    """Share of the FP32 peak over the size of square products: a panel a rung of the class fp32, a line a GPU."""
    table = table[table["precision"] == "fp32"]
    rows = square_rows(table)
    rungs = [name for name in table["rung"].unique() if name in set(rows["rung"])]
    look, sizes = looks(table), sorted(rows["n"].unique())
    columns = min(4, max(1, len(rungs)))
    lines = max(1, -(-len(rungs) // columns))
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, "axes.titlesize": 9, "axes.labelsize": 9})
        note = caption(table, "Medians.")
        foot = 0.25 + 0.16 * (note.count("\n") + 1)
        height = 1.3 + 1.7 * lines + foot
        figure = Figure(figsize=(10, height), dpi=DPI)
        panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(rungs) :]:
            axes.set_axis_off()
        for place, (axes, rung) in enumerate(zip(panels.flat, rungs, strict=False)):
            for name, style in look.items():
                own = rows[(rows["rung"] == rung) & (rows["gpu"] == name)]
                at = [sizes.index(n) for n in own["n"]]
                axes.plot(at, 100 * own["share_of_peak"], label=name, markersize=3.5, linewidth=1.2, **style)
            axes.set_title(rung, loc="left", pad=3)
            axes.set_xticks(range(len(sizes)), [str(n) for n in sizes], rotation=60, fontsize=7)
            axes.tick_params(axis="y", labelsize=8)
            if place + columns >= len(rungs):  # nothing below it
                axes.tick_params(axis="x", labelbottom=True)
        panels[0, 0].set_ylim(0, max(100, 105 * rows["share_of_peak"].max()))
        figure.suptitle("Share of the FP32 peak by size", x=0.02, ha="left", fontweight="bold", fontsize=12)
        figure.supylabel("% of FP32 peak", fontsize=9, x=0.015)
        figure.legend(
            *panels.flat[0].get_legend_handles_labels(), loc="upper right", ncols=4, frameon=False, fontsize=9,
            bbox_to_anchor=(0.99, 1 - 0.05 / height),
        )  # fmt: skip
        figure.text(0.02, 0.08 / height, note, fontsize=7, color="dimgray", va="bottom")
        figure.subplots_adjust(
            left=0.07, right=0.98, top=1 - 0.65 / height, bottom=(0.55 + foot) / height, wspace=0.08, hspace=0.28
        )
        sns.despine(fig=figure, left=True)
        return figure
