"""What others published beside what was measured here."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.published import size_words

PANELS = {"share of cuBLAS": ("share_of_cublas", 100), "speedup over naive": ("speedup_over_naive", 1)}
_HERE = ("X", *MARKERS)


def figure(table: pd.DataFrame, rungs: Sequence[str]) -> Specification:
    """Published and measured share of cuBLAS and speedup over naive; a row a rung in the order of `rungs`."""
    table = table[table["rung"] != "cublas"]
    here = table.drop_duplicates(["rung", "sizes"])
    here = here.assign(who=[f"here, {size_words(sizes)}" for sizes in here["sizes"]])
    there = table.assign(who=[_words(row) for row in table.itertuples()])
    parts = []
    for panel, (column, factor) in PANELS.items():
        for rows, source in ((here, column), (there, f"published_{column}")):
            parts.append(rows[["rung", "who"]].assign(panel=panel, value=factor * rows[source]))
    data = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    own, others = sorted(here["who"].unique()), list(there["who"].unique())
    colors = dict.fromkeys(own, "black") | {who: PALETTE[i % len(PALETTE)] for i, who in enumerate(others)}
    markers = dict(zip(own, _HERE, strict=False)) | {who: MARKERS[i % len(MARKERS)] for i, who in enumerate(others)}
    agreed, steps = (table["verdict"] == "confirmed").sum(), table["verdict"].isin(["confirmed", "the other way"]).sum()
    return Specification(
        title=f"{agreed} of {steps} published steps from rung to rung go the same way here",
        note="A mark a publication and GPU; marks without a colour are what is measured here at the same sizes.",
        layers=[Layer("point", data, "value", "rung", key=Key("who", colors, markers), dodge=True)],
        x={"share of cuBLAS": Axis("% of cuBLAS", limits=(0, None)), "speedup over naive": Axis("times naive", "log")},
        y=Axis(scale="names", names=[rung for rung in rungs if rung in set(data["rung"])]),
        panels=Choice("panel", "Panel", list(PANELS), next(iter(PANELS))),
        columns=2,
    )


def _words(row: object) -> str:
    """Who published a row, of which GPU and sizes, and what kind of number it is where it was not measured."""
    kind = "" if row.kind == "measured" else f" ({row.kind})"
    return f"{row.publication}, {row.gpu.removeprefix('a GPU of ')}, {size_words(row.sizes)}{kind}"
