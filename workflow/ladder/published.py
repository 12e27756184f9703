"""What others published beside what is measured here: the same rungs, in share of cuBLAS and in speedup over naive.

The figures of others ship as workflow/data/published.csv, each row with its source. Absolute times on other GPUs say
nothing about this one; shares, speedups and the step from one rung to the next do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ladder.config import ROOT
from ladder.figures import DPI, FIXED, PALETTE

DATA = ROOT / "workflow" / "data" / "published.csv"
LEVEL = 0.02  # a step of less than this share is neither up nor down
_SET = ["publication", "gpu", "sizes"]
_MARKERS = "oDs^vPdX<"
COLUMNS = [
    *("publication", "gpu", "sizes", "kind", "kernel", "rung"),
    *("published_share_of_cublas", "share_of_cublas", "published_speedup_over_naive", "speedup_over_naive"),
    *("compared_with", "published_step", "step", "verdict", "source"),
]


def read_published() -> pd.DataFrame:
    """The published figures, with what follows from them.

    share_of_cublas, speedup_over_naive and speedup_over_before are ratios; where a publication does not give them but
    gives the rates or times that they are ratios of, at the same size on the same GPU, they are computed from those.
    `rung` is our rung of the same idea, empty where there is none; `sizes` is n, or 512+ for a geometric mean.
    """
    table = pd.read_csv(DATA, dtype={"sizes": str, "rung": str}).assign(before="")
    table["rung"] = table["rung"].fillna("")
    for _, rows in table.groupby(_SET, sort=False):
        for column, reference in (("share_of_cublas", "cublas"), ("speedup_over_naive", "naive")):
            of = rows[rows["rung"] == reference]
            if len(of):
                ratios = rows.apply(_ratio, axis=1, args=(of.iloc[0],))
                table.loc[rows.index, column] = rows[column].fillna(ratios)
        climbed = table.loc[rows.index][rows["rung"].ne("") & rows["rung"].ne("cublas")]
        for (_, before), (index, row) in pairwise(climbed.iterrows()):
            table.loc[index, "before"] = before["rung"]
            if pd.isna(row["speedup_over_before"]):
                first = before["rung"] == "naive" and pd.notna(row["speedup_over_naive"])
                table.loc[index, "speedup_over_before"] = row["speedup_over_naive"] if first else _ratio(row, before)
    return table


def _ratio(row: pd.Series, of: pd.Series) -> float:
    """How many times as fast a row is as another, from their rates or else their times; NaN where neither has both."""
    by_rate = row["gflops"] / of["gflops"]
    return by_rate if pd.notna(by_rate) else of["time_ms"] / row["time_ms"]


def compare_published(timings: pd.DataFrame, geomeans: pd.DataFrame) -> pd.DataFrame:
    """The published rows whose rung is measured here at the same sizes, with COLUMNS.

    `timings` and `geomeans` are the tables of those names. A step is the speedup over the rung before in the same
    publication; its verdict is `confirmed` where it goes the same way here (up, down, or less than 2 %), else
    `the other way`, and empty where there is no step to compare.
    """
    ours = _ours(timings, geomeans)
    rows = []
    for row in read_published().itertuples():
        here = ours.get((row.rung, row.sizes))
        given = (row.share_of_cublas, row.speedup_over_naive, row.speedup_over_before)
        if here is None or all(map(pd.isna, given)):
            continue
        before = ours.get((row.before, row.sizes))
        step = here["speedup_over_naive"] / before["speedup_over_naive"] if before else np.nan
        known = row.speedup_over_before if before else np.nan
        same = _direction(step) == _direction(known)
        values = (
            *(row.publication, row.gpu, row.sizes, row.kind, row.kernel, row.rung),
            *(row.share_of_cublas, here["share_of_cublas"], row.speedup_over_naive, here["speedup_over_naive"]),
            *(row.before if before else "", known, step),
            "" if np.isnan(known) or np.isnan(step) else "confirmed" if same else "the other way",
            row.source,
        )
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return pd.DataFrame(rows, columns=COLUMNS)


def _ours(timings: pd.DataFrame, geomeans: pd.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])]
    found = {
        (row.rung, str(row.n)): {
            "share_of_cublas": row.speedup_over_cublas,
            "speedup_over_naive": row.speedup_over_naive,
        }
        for row in square.itertuples()
        if pd.notna(row.speedup_over_cublas) and pd.notna(row.speedup_over_naive)
    }
    means = geomeans.pivot(index="rung", columns="over", values="speedup") if len(geomeans) else pd.DataFrame()
    for row in means.itertuples():
        found[(row.Index, "512+")] = {"share_of_cublas": row.cublas, "speedup_over_naive": row.naive}
    return found


def _direction(step: float) -> int:
    return 0 if abs(step - 1) < LEVEL else 1 if step > 1 else -1


def findings(table: pd.DataFrame) -> list[str]:
    """What the comparison says, for each publication that climbs at least three rungs."""
    lines = []
    for (publication, gpu, sizes), rows in table[table["rung"] != "cublas"].groupby(_SET, sort=False):
        climbed = rows.dropna(subset=["published_speedup_over_naive", "speedup_over_naive"])
        climbed = climbed.drop_duplicates("rung")
        if len(climbed) < 3:
            continue
        agree, turned = _pairs(climbed)
        size = f"n = {sizes}" if sizes.isdigit() else f"sizes {_words(sizes)}"
        what = "expects" if (rows["kind"] == "expected").all() else "found"
        order = f"{agree} of {agree + len(turned)} pairs of rungs stand in the order that it {what}"
        lines.append(f"{publication} ({gpu}, {size}): {order}{', but not ' + '; '.join(turned) if turned else ''}.")
        steps = rows.dropna(subset=["published_step", "step"])
        if len(steps):
            largest = steps.loc[steps["published_step"].idxmax()]
            lines[-1] += (
                f" Its largest step, {largest['compared_with']} to {largest['rung']}, is"
                f" {largest['published_step']:.2f} x there and {largest['step']:.2f} x here."
            )
            other = steps[steps["verdict"] == "the other way"]
            lines[-1] += "".join(
                f" {row.compared_with} to {row.rung} is {row.published_step:.2f} x there, but {row.step:.2f} x here."
                for row in other.itertuples()
            )
    return lines


def _pairs(rows: pd.DataFrame) -> tuple[int, list[str]]:
    """How many pairs of rungs stand in the same order there and here, and the pairs that do not, in words."""
    agree, turned = 0, []
    items = list(rows.itertuples())
    for index, one in enumerate(items):
        for other in items[index + 1 :]:
            there = one.published_speedup_over_naive - other.published_speedup_over_naive
            here = one.speedup_over_naive - other.speedup_over_naive
            if there * here > 0:
                agree += 1
            else:
                fast, slow = (one, other) if there > 0 else (other, one)
                turned.append(f"{fast.rung} before {slow.rung}")
    return agree, turned


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
            Line2D([], [], color="black", linestyle=style, marker="_", markersize=9, label=f"here, {_words(sizes)}")
            for sizes, style in _sizes(table).items()
        ]
        for key in sets:
            color, marker = looks[key]
            rows = table[(table["publication"] == key[0]) & (table["gpu"] == key[1]) & (table["sizes"] == key[2])]
            hollow = (rows["kind"] != "measured").all()
            words = f"{key[0]}, {key[1].removeprefix('a GPU of ')}, {_words(key[2])}" + (
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


def _words(sizes: str) -> str:
    return sizes if sizes.isdigit() else f"from {sizes.rstrip('+')} up"


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
