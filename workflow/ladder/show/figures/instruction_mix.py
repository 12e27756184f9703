"""The instructions of each rung's inner loop, as compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ladder.build.sass import CLASSES
from ladder.show.figures.parts import TENSOR, stacked
from ladder.show.figures.specification import Specification
from ladder.tables.timings import largest


def loop_shares(instructions: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Percent of the instructions of the inner loop that each rung runs at a shape by class, FFMA first.

    `instructions` is the table of that name.
    """
    loops = instructions[instructions["part"] == "inner loop"]
    here = [shape in str(shapes).split() for shapes in loops["launched_at"]]
    loops = loops.loc[np.array(here, dtype=bool)].set_index("rung")
    loops[TENSOR] = loops["HMMA"] + loops["HGMMA"]
    first = ["FFMA", TENSOR, "integer"]
    parts = first + [part for part in (*CLASSES, "other") if part not in (*first, "HMMA", "HGMMA")]
    return loops[parts].div(loops["instructions"], axis=0) * 100


def figure(instructions: pd.DataFrame, order: Sequence[str]) -> Specification:
    """Stacked bars of the instructions of each inner loop. `instructions` is the table, `order` the rungs in order."""
    instructions = instructions[instructions["rung"].isin(order)]
    shapes = list(dict.fromkeys(shape for each in instructions["launched_at"] for shape in str(each).split()))
    by_shape = {shape: loop_shares(instructions, shape) for shape in shapes}
    shape = largest([shape for shape in shapes if len(by_shape[shape])])
    best = by_shape[shape]["FFMA"].max() if shape else 0
    return stacked(
        by_shape,
        order,
        title=f"FFMAs are at most {best:.0f} % of an inner loop at {shape}" if shape else "Instructions of inner loops",
        note="The kernel that the shape launches, as compiled. Where an SM has 128 FP32 lanes, every instruction but an"
        " FFMA takes an issue slot that an FFMA needs.",
        label="% of the inner loop",
        empty="No rung has an inner loop.",
    )
