"""One run against another: the change of every rung and size."""

from __future__ import annotations

import pandas as pd

from ladder.show.figures.specification import Axis, Layer, Specification

_LIMIT = 5.0  # percent of change at which the figure's colours end
_MARKS = {"faster": "\nfaster", "slower": "\nslower", "undecided": "\n?", "same": ""}


def figure(table: pd.DataFrame, against: str = "the baseline") -> Specification:
    """A map of the changes; verdicts other than `same` are written out. `table` is of `ladder.tables.comparison`."""
    by_work = table.assign(work=table["m"] * table["n"] * table["k"]).sort_values("work", kind="stable")
    count = table["verdict"].value_counts()
    words = ", ".join(f"{count[word]} {word}" for word in _MARKS if word in count)
    text = [f"{row.change_percent:+.1f}{_MARKS[row.verdict]}" for row in table.itertuples()]
    return Specification(
        title=f"Against {against}: {words}",
        note="Change of the time in %; without a word, the two are the same by NVBench's robust comparison.",
        layers=[
            Layer(
                "heat", table.assign(text=text), "shape", "rung", text="text", value="change_percent",
                scale=Axis("change of time, %", limits=(-_LIMIT, _LIMIT)),
            )
        ],
        x=Axis(scale="names", names=list(dict.fromkeys(by_work["shape"]))),
        y=Axis(scale="names", names=list(dict.fromkeys(table["rung"]))),
    )  # fmt: skip
