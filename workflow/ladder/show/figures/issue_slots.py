"""Where the issue slots of each profiled rung go."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.parts import stacked
from ladder.show.figures.specification import Specification
from ladder.tables.timings import largest

# Uses of issue slots that get a colour of their own; the rest is `other waits`.
_USES = {
    "FFMA": ("FFMA",),
    "tensor cores": ("tensor cores",),
    "other instructions": ("other instructions",),
    "MIO (shared memory)": ("mio_throttle", "short_scoreboard"),
    "global memory": ("lg_throttle", "long_scoreboard"),
    "barrier": ("barrier", "membar"),
    "dispatch, math pipe": ("dispatch_stall", "math_pipe_throttle"),
    "fixed latency, fetch": ("wait", "no_instruction", "branch_resolving", "imc_miss"),
    "tensor core results": ("gmma", "warpgroup_arrive"),
}

_SLOTS, _CYCLES = "% of issue slots", "% of cycles (tensor cores)"


def slot_shares(slots: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Percent of the issue slots of each rung at a shape by the uses of _USES and `other waits`; `slots` the table."""
    at = slots[slots["shape"] == shape]
    wide = at.pivot(index="rung", columns="use", values="percent").reindex(list(at["rung"].unique()))
    rows = pd.DataFrame(index=wide.index)
    for name, uses in _USES.items():
        rows[name] = wide[[use for use in uses if use in wide]].sum(axis=1)
    rows["other waits"] = (100 - rows.sum(axis=1)).clip(lower=0)
    return rows


def figure(slots: pd.DataFrame, order: Sequence[str]) -> Specification:
    """Stacked bars of what the issue slots of each rung hold. `slots` is the table, `order` the rungs from above."""
    shapes = list(slots["shape"].unique())
    by_shape = {shape: slot_shares(slots, shape) for shape in shapes}
    shape = largest(shapes)
    tensor = set(slots.loc[(slots["use"] == "tensor cores") & (slots["percent"] > 0), "rung"])
    best = by_shape[shape]["FFMA"].idxmax() if shape else ""
    return stacked(
        by_shape,
        order,
        title=f"{best} fills {by_shape[shape].loc[best, 'FFMA']:.0f} % of its issue slots with FFMAs at {shape}"
        if shape
        else "Where the issue slots go",
        note="Each scheduler has one issue slot a cycle. Green slots hold FFMAs, grey slots other instructions. All"
        " other slots are empty; their colour shows what the warps waited for. For kernels on tensor cores the bars"
        " show cycles instead of slots; in the indigo ones the tensor pipe works.",
        label={rung: _CYCLES if rung in tensor else _SLOTS for rung in order},
        empty="No profile is recorded.",
    )
