"""The measured rate of each rung inside the lowest of its ceilings on paper."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.show.numbers import percent
from ladder.tables.timings import headline_shape, largest

CEILINGS = ("fp32_units", "issue_slots", "load_pipe", "dram")
COLORS = dict(
    zip((name.replace("_", " ") for name in CEILINGS), ("#44aa99", "#88ccee", "#ddcc77", "#cc6677"), strict=True)
)


def figure(paper: pd.DataFrame, order: Sequence[str]) -> Specification:
    """A bar of the lowest ceiling, in the colour of what it is, and one of the measured rate inside it.

    `paper` is the table of that name.

    Rungs that it has no ceiling for are left out.
    """
    table = paper[paper["rung"].isin(order) & paper["predicted_gflops"].notna()]
    shapes = list(table["shape"].unique())
    first = headline_shape(table[table["measured_gflops"].notna()]) or largest(shapes)
    share = table["share_of_prediction"].map(percent)
    least = ((table["bound_by"] == "load pipe") & (table["wavefronts_from"] == "code")).map({True: "*", False: ""})
    data = table[["rung", "shape", "bound_by", "wavefronts_from", "share_of_prediction"]].assign(
        text=share + least,
        predicted=table["predicted_gflops"] / 1e3,
        measured=table["measured_gflops"] / 1e3,
        end=table[["predicted_gflops", "measured_gflops"]].max(axis=1) / 1e3,
        **{name: table[f"ceiling_{name}_gflops"] / 1e3 for name in CEILINGS},
    )
    shares = table.loc[table["shape"] == first, "share_of_prediction"].dropna()
    hints = {"rung": "rung", "shape": "shape", "measured": "measured, TFLOP/s", "predicted": "lowest ceiling"}
    hints |= {"bound_by": "which", "share_of_prediction": "share of it"}
    hints |= {name: name.replace("_", " ") for name in CEILINGS} | {"wavefronts_from": "load pipe passes from"}
    return Specification(
        title=f"Rungs reach {percent(shares.min())} to {percent(shares.max())} of their lowest ceiling on paper"
        f" at {first}"
        if len(shares)
        else "The lowest ceiling on paper",
        note="The outer bar is the lowest of four ceilings: the FP32 units, the issue slots that the inner loop needs,"
        " the load pipe, and DRAM. The inner bar is measured; the number is its share of the ceiling. Only rungs"
        " that multiply with FFMAs are shown. A star: neither a profile nor the threads' addresses are known, so the"
        " passes of the load pipe are the fewest that the code needs.",
        layers=[
            Layer("bar", data, "predicted", "rung", key=Key("bound_by", COLORS), hints=hints),
            Layer("bar", data, "measured", "rung", color=PALETTE[0], width=0.4, hints=hints),
            Layer("text", data, "end", "rung", text="text", offset=(6, 0)),
        ],
        x=Axis("TFLOP/s", limits=(0, None)),
        y=Axis(scale="names", names=[rung for rung in order if rung in set(data["rung"])]),
        choices=[Choice("shape", "shape", shapes, first)],
    )
