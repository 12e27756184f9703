"""What others published beside what was measured here, as a figure."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ladder.show.style import DPI, FIXED, PALETTE
from ladder.tables.published import size_words

_MARKERS = "oDs^vPdX<"


def draw(table: pd.DataFrame, rungs: Sequence[str], caption: str) -> Figure:
    """Published and measured share of cuBLAS and speedup over naive, one place a rung in the order of `rungs`."""
    table = table[table["rung"] != "cublas"]
    order = [rung for rung in rungs if rung in set(table["rung"])]
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, "axes.titlesize": 11, "axes.labelsize": 10})
        figure = Figure(figsize=(10.5, 5.2), dpi=DPI)
        left, right = figure.subplots(1, 2)
        panels = ((left, "share_of_cublas", 100, "% of cuBLAS"), (right, "speedup_over_naive", 1, "times naive"))
        sets = list(dict.fromkeys(zip(table["publication"], table["gpu"], table["sizes"], strict=True)))
        looks = dict(zip(sets, ((PALETTE[i % 9], _MARKERS[i % 9]) for i in range(len(sets))), strict=True))
        for axes, column, scale, label in panels:
            _panel(axes, table, column, scale, order, looks)
            axes.set_title(label, loc="left", fontweight="bold")
        right.set_yscale("log")
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.set_ylim(0, 105)
        handles = [
            Line2D([], [], color="black", linestyle=style, marker="_", markersize=9, label=f"here, {size_words(sizes)}")
            for sizes, style in _sizes(table).items()
        ]
        for key in sets:
            color, marker = looks[key]
            rows = table[(table["publication"] == key[0]) & (table["gpu"] == key[1]) & (table["sizes"] == key[2])]
            hollow = (rows["kind"] != "measured").all()
            words = f"{key[0]}, {key[1].removeprefix('a GPU of ')}, {size_words(key[2])}" + (
                f" ({rows['kind'].iloc[0]})" if hollow else ""
            )
            handles.append(
                Line2D([], [], color=color, marker=marker, linestyle="", label=words, markersize=6,
                       markerfacecolor="none" if hollow else color)
            )  # fmt: skip
        figure.legend(
            handles=handles, loc="lower center", ncols=3, fontsize=7.5, frameon=False, bbox_to_anchor=(0.5, 0.035)
        )
        agreed = (table["verdict"] == "confirmed").sum()
        figure.suptitle(
            f"{agreed} of {(table['verdict'] != '').sum()} published steps from rung to rung go the same way here",
            x=0.01, ha="left", fontweight="bold", fontsize=12,
        )  # fmt: skip
        figure.text(0.01, 0.01, caption, fontsize=7, color="dimgray")
        figure.subplots_adjust(left=0.06, right=0.99, top=0.85, bottom=0.42, wspace=0.16)
        sns.despine(fig=figure, left=True)
        return figure


def _sizes(table: pd.DataFrame) -> dict[str, str]:
    """A line style for each of the sizes that are compared, the most frequent first."""
    return dict(zip(table["sizes"].value_counts(sort=True).sort_index().index, ("-", "--", ":", "-."), strict=False))


def _panel(axes: Axes, table: pd.DataFrame, column: str, scale: float, order: Sequence[str], looks: dict) -> None:
    for sizes, style in _sizes(table).items():
        rows = table[table["sizes"] == sizes].drop_duplicates("rung")
        rows = rows.assign(place=rows["rung"].map(order.index)).sort_values("place").dropna(subset=[column])
        axes.plot(
            rows["place"], scale * rows[column], color="black", linestyle=style, marker="_", linewidth=1, markersize=9
        )
    for (publication, gpu, sizes), (color, marker) in looks.items():
        rows = table[(table["publication"] == publication) & (table["gpu"] == gpu) & (table["sizes"] == sizes)]
        face = color if (rows["kind"] == "measured").all() else "none"
        axes.plot(
            [order.index(rung) for rung in rows["rung"]],
            scale * rows[f"published_{column}"],
            color=color, marker=marker, markersize=5.5, linestyle="", markerfacecolor=face,
        )  # fmt: skip
    axes.set_xticks(range(len(order)), order, rotation=35, ha="right", fontsize=7.5)
    axes.set_xlim(-0.5, max(1, len(order)) - 0.5)
