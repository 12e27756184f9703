"""What others published beside what was measured here."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.published import OVER_BEFORE, size_words

PANELS = {"share of cuBLAS": 100, "times naive": 1}  # a quantity of the table, and what it is multiplied by
_HERE = ("X", *MARKERS)


def figure(table: pd.DataFrame, rungs: Sequence[str]) -> Specification:
    """Published and measured share of cuBLAS and speedup over naive; a row a rung in the order of `rungs`.

    Speedups over naive are over the rung that the publication's naive kernel is here, so a set of sizes has one mark
    for each of these.
    """
    steps = table[(table["quantity"] == OVER_BEFORE) & table["here"].notna()]
    table = table[table["quantity"].isin(list(PANELS)) & table["rung"].isin(rungs)].dropna(subset=["here"])
    factor = table["quantity"].map(PANELS)
    named = table[["rung"]].assign(panel=table["quantity"])
    there = named.assign(value=factor * table["published"], who=[_words(row) for row in table.itertuples()])
    over = ["" if row.quantity != "times naive" else f" over {row.compared_with}" for row in table.itertuples()]
    own = [f"here, {size_words(sizes)}{words}" for sizes, words in zip(table["sizes"], over, strict=True)]
    here = named.assign(value=factor * table["here"], who=own).drop_duplicates()
    data = pd.concat([here, there], ignore_index=True)
    mine, others = sorted(here["who"].unique()), list(there["who"].unique())
    colors = dict.fromkeys(mine, "black") | {who: PALETTE[i % len(PALETTE)] for i, who in enumerate(others)}
    markers = dict(zip(mine, _HERE, strict=False)) | {who: MARKERS[i % len(MARKERS)] for i, who in enumerate(others)}
    alike = steps["verdict"].isin(["agrees", "the same direction"]).sum()
    return Specification(
        title=f"{alike} of {len(steps)} published steps from rung to rung go the same way here",
        note="Each colour is a publication and its GPU. The black marks are our measurements at the same sizes.",
        layers=[Layer("point", data, "value", "rung", key=Key("who", colors, markers), dodge=True)],
        x={"share of cuBLAS": Axis("% of cuBLAS", limits=(0, None)), "times naive": Axis("times naive", "log")},
        y=Axis(scale="names", names=[rung for rung in rungs if rung in set(data["rung"])]),
        panels=Choice("panel", "Panel", list(PANELS), next(iter(PANELS))),
        columns=2,
    )


def _words(row: object) -> str:
    """Who published a row, of which GPU and sizes, and what kind of number it is where it was not measured."""
    kind = "" if row.kind == "measured" else f" ({row.kind})"
    return f"{row.publication}, {row.gpu.removeprefix('a GPU of ')}, {size_words(row.sizes)}{kind}"
