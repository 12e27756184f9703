"""How accurate is it? Errors against k of the libraries and of every class beside FP32, with their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ladder.model.precision import labelled
from ladder.show.style import DPI, FIXED, spread, styles

FAMILY_TITLES = {"normal": "normal", "positive": "uniform in [0, 1)", "wide_range": "wide range"}


def accuracy_figure(
    table: pd.DataFrame, rungs: pd.DataFrame, baseline: str, ladder: Sequence[str], caption: str
) -> Figure:
    """The error's norm against k for each family of inputs, and against the time at one k; a line a rung, a row a size.

    `table` is of `accuracy_table`, `rungs` the table of rungs.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(
            style="whitegrid",
            rc={**FIXED, "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9},
        )
        look = styles(labelled(rungs, rungs), baseline, ladder)
        table = labelled(table, rungs)
        sizes = sorted(table["m"].unique())
        families = [family for family in FAMILY_TITLES if family in set(table["family"])]
        rows = max(1, len(sizes))
        height = 3.8 * rows + 0.8
        figure = Figure(figsize=(11, height), dpi=DPI)
        panels = figure.subplots(rows, len(families) + 1, sharey=True, squeeze=False)
        title = "Error of C = A B by k" if sizes else "No accuracy is recorded"
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
        figure.text(0.01, 0.1 / height, caption, fontsize=7, color="dimgray")
        figure.subplots_adjust(
            left=0.07, right=0.83, top=1 - 0.7 / height, bottom=0.75 / height, wspace=0.14, hspace=0.35
        )
        panels[0, 0].set_yscale("log")
        for of_size, size in zip(panels, sizes, strict=False):
            _draw_size(of_size, table[table["m"] == size], families, look)
            of_size[0].set_ylabel("norm of the error / norm of the product")
        sns.despine(fig=figure, left=True)
        return figure


def _draw_size(
    panels: Sequence[Axes], table: pd.DataFrame, families: Sequence[str], look: Mapping[str, Mapping[str, Any]]
) -> None:
    """A row of panels: a panel a family, and one of the error beside the time; `table` is of one size."""
    for axes, family in zip(panels, families, strict=False):
        rows = table[table["family"] == family].sort_values("k")
        for name, line in rows.groupby("rung", sort=False):
            axes.plot(line["k"], line["error_normwise"], markersize=4, linewidth=1.3, **look[name])
        axes.set_xscale("log", base=2)
        axes.set_xlabel("k")
        axes.set_title(FAMILY_TITLES[family], loc="left")
    panels[0].set_title(f"m = n = {table['m'].iloc[0]}, {FAMILY_TITLES[families[0]]}", loc="left")
    at = _at_one_k(table)
    for row in at.itertuples():
        style = {**look[row.rung], "marker": "X"} if look[row.rung]["marker"] == "None" else look[row.rung]
        panels[-1].plot(row.time_ms, row.error_normwise, markersize=6, **style)
    panels[-1].set_xscale("log")
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xlabel("ms")
    panels[-1].set_title(f"{FAMILY_TITLES[at['family'].iloc[0]]}, k = {at['k'].iloc[0]}: beside time", loc="left")
    times = sorted(at["time_ms"])
    panels[-1].set_xticks([times[0], times[-1]], [f"{time:.2g}" for time in (times[0], times[-1])])
    _names(panels[-1], at, look)


def _at_one_k(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first family at the k nearest to 4096."""
    rows = table[table["family"] == next(family for family in FAMILY_TITLES if family in set(table["family"]))]
    k = min(rows["k"].unique(), key=lambda k: abs(k - 4096))
    return rows[rows["k"] == k]


def _names(axes: Axes, at: pd.DataFrame, look: Mapping[str, Mapping[str, Any]]) -> None:
    """Each rung's name at the right, at the height of its error, apart from the others."""
    axes.figure.canvas.draw()
    to_axes = axes.transAxes.inverted()
    ends = sorted(
        (to_axes.transform(axes.transData.transform((row.time_ms, row.error_normwise)))[1], row.rung)
        for row in at.itertuples()
    )
    for (_, name), y in zip(ends, spread([height for height, _ in ends], 0.055), strict=True):
        axes.plot(
            [1.04, 1.12], [y, y], transform=axes.transAxes, clip_on=False, markersize=4, markevery=[1], **look[name]
        )
        axes.text(1.15, y, name, transform=axes.transAxes, va="center", fontsize=8, clip_on=False)
