"""A device of the user's own beside the records that ship: the baseline that its times are compared with."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ladder.model.shape import Shape
from ladder.tables.comparison import COMPARISON_COLUMNS, compare

SHIPPED_COLUMNS = [*COMPARISON_COLUMNS, "here_over_shipped"]


def shipped_table(timings: pd.DataFrame, shipped: Path, own: Path, gpu: str) -> pd.DataFrame:
    """One row a rung and shape of the table of timings that both folders of time records hold.

    Columns: SHIPPED_COLUMNS, where the baseline is what ships, and here_over_shipped is the ratio of the median times:
    above 1 the user's device is slower. Raises LadderError where a record is damaged.
    """
    keys = timings[["rung", "shape"]].astype(str)
    shapes = [Shape.parse(shape) for shape in dict.fromkeys(keys["shape"])]
    table = compare(list(dict.fromkeys(keys["rung"])), shapes, shipped, own, gpu)
    timed = pd.MultiIndex.from_frame(keys)
    table = table[pd.MultiIndex.from_frame(table[["rung", "shape"]].astype(str)).isin(timed)]
    ratio = (table["time_ms"] / table["time_ms_baseline"]).astype(float)
    return table.assign(here_over_shipped=ratio).reset_index(drop=True)
