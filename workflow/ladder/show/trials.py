"""What each tuned parameter does, as a figure."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.model.rung import parse_variant
from ladder.model.shape import Shape
from ladder.show.style import DPI, FIXED, PALETTE

_CELL = (1.55, 1.15)  # inches of one axes of the figure


def trial_figure(trials: pd.DataFrame, caption: str) -> Figure:
    """One row of axes a rung, one column a parameter of it: a dot each trial, a line along the best of each value.

    Heights are shares of the rung's fastest trial at the size, so that sizes and rungs compare. `trials` is
    `trial_table`'s; parameters that only ever had one value are left out.
    """
    timed = trials.dropna(subset=["gflops"])
    timed = timed.assign(share=100 * timed["gflops"] / timed.groupby(["rung", "shape"])["gflops"].transform("max"))
    macros = pd.DataFrame([parse_variant(name)[1] for name in timed["trial"]], index=timed.index).apply(pd.to_numeric)
    rows: dict[str, list[str]] = {}
    for rung, part in timed.groupby("rung", sort=False):
        varied = [name for name in macros if macros.loc[part.index, name].nunique() > 1]
        if varied:
            rows[rung] = varied
    shapes = sorted(timed["shape"].unique(), key=lambda text: Shape.parse(text).flop)
    colors = {shape: PALETTE[index % len(PALETTE)] for index, shape in enumerate(shapes)}
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        sns.set_theme(style="whitegrid", rc={**FIXED, "axes.titlesize": 8, "axes.labelsize": 8})
        columns, lines = max(map(len, rows.values()), default=1), max(1, len(rows))
        size = (_CELL[0] * columns + 1.5, _CELL[1] * lines + 1.35)
        figure = Figure(figsize=size, dpi=DPI)
        grid = figure.add_gridspec(lines, columns)
        for line, (rung, varied) in enumerate(rows.items()):
            part = timed[timed["rung"] == rung]
            for column, name in enumerate(varied):
                axes = figure.add_subplot(grid[line, column])  # shared y axes take long to draw: each is set alike
                _one_parameter(axes, part, macros.loc[part.index, name], colors)
                axes.set_title(name, loc="left", pad=2)
                axes.tick_params(axis="y", labelleft=column == 0)
                if column == 0:
                    axes.set_ylabel(rung, fontsize=8, fontweight="bold")
        figure.text(0.02, 1 - 0.3 / size[1], "What each parameter does", fontsize=12, fontweight="bold")
        note = "% of the rung's fastest trial; a dot a trial, a line along the best of each value"
        figure.text(0.02, 1 - 0.52 / size[1], note, fontsize=8, color="dimgray")
        figure.text(0.02, 0.12 / size[1], caption, fontsize=7, color="dimgray")
        names = {shape: f"at {shape}" for shape in shapes}
        handles = [
            Line2D([], [], color=colors[shape], marker="o", markersize=4, label=names[shape]) for shape in shapes
        ]
        figure.legend(handles=handles, loc="upper right", ncols=len(shapes), fontsize=8, frameon=False)
        figure.subplots_adjust(
            left=0.75 / size[0],
            right=1 - 0.15 / size[0],
            top=1 - 0.9 / size[1],
            bottom=0.6 / size[1],
            hspace=0.75,
            wspace=0.12,
        )
        sns.despine(fig=figure, left=True)
        return figure


def _one_parameter(axes: mpl.axes.Axes, part: pd.DataFrame, values: pd.Series, colors: Mapping[str, str]) -> None:
    """A parameter's axes: its values side by side, the sizes beside each other at each."""
    ticks = sorted(values.unique())
    for index, (shape, color) in enumerate(colors.items()):
        rows = part[part["shape"] == shape]
        places = values.loc[rows.index].map(ticks.index) + 0.16 * (index - (len(colors) - 1) / 2)
        axes.plot(places, rows["share"], "o", color=color, alpha=0.35, markersize=2.5, markeredgewidth=0)
        best = rows.groupby(values.loc[rows.index])["share"].max()
        axes.plot([ticks.index(value) for value in best.index], best, color=color, linewidth=1.3)
    axes.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks], fontsize=7)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100])
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(axis="x", visible=False)
