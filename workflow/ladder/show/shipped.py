"""A device of the user's own beside the records that ship, in words."""

from __future__ import annotations

import pandas as pd

from ladder.records.provenance import ORIGIN
from ladder.show.origin import origin_words


def of_shipped(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table `shipped` with card, cuBLAS, commit and day of what ships instead of this device's."""
    names = [*ORIGIN, "measured_at"]
    return table.drop(columns=names).rename(columns={f"baseline_{name}": name for name in names})


def shipped_line(table: pd.DataFrame) -> str:
    """What ships, named as a baseline, and how this device's times compare with it; empty where nothing does.

    `table` is that of `ladder.tables.shipped`.
    """
    if table.empty:
        return ""
    ratio, others = table["here_over_shipped"], int((~table["same_build"].astype(bool)).sum())
    whose = f"The baseline, shipped with the repository and not measured here: {origin_words(of_shipped(table))}."
    span = f"{ratio.min():.3f} to {ratio.max():.3f}, median {ratio.median():.3f}"
    line = f"{whose} Time here / time shipped: {span}, over {len(table)} pairs of rung and size"
    return f"{line}, of which {others} are of another build." if others else f"{line}."
