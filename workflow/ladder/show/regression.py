"""What a change did to the times, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from ladder.tables.regression import NEGLIGIBLE, NOTICED


@dataclass(frozen=True)
class Comparison:
    """The table of `ladder.tables.regression.decided`, and what was not timed: of the same build, or left out, why."""

    table: pd.DataFrame
    against: str
    same_build: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    device: str = ""

    @property
    def slower(self) -> int:
        """How many rows are slower."""
        return int((self.table["verdict"] == "slower").sum())


def markdown(found: Comparison) -> str:
    """A heading with the count of each verdict, a table with a row a rung and size, and what was not timed."""
    count = found.table["verdict"].value_counts()
    words = ", ".join(f"{count.get(word, 0)} {word}" for word in ("slower", "faster", "undecided", "same"))
    lines = [f"## Times against `{found.against}`: {words}", ""]
    if len(found.table):
        lines += [
            f"On {found.device}. Both builds ran in turn in each process. `slower` and `faster` are changes beyond"
            f" {NEGLIGIBLE} %; `same` excludes a change of {NOTICED:g} %.",
            "",
            "| rung | size | verdict | before, ms | now, ms | change | interval | processes |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
    order = {"slower": 0, "faster": 1, "undecided": 2, "same": 3}
    for row in found.table.sort_values("verdict", key=lambda each: each.map(order), kind="stable").itertuples():
        verdict = f"**{row.verdict}**" if row.verdict in ("slower", "faster") else row.verdict
        lines.append(
            f"| `{row.rung}` | {row.shape} | {verdict} | {row.time_ms_before:.4g} | {row.time_ms:.4g} |"
            f" {row.change_percent:+.2f} % | {row.change_percent_low:+.2f} to {row.change_percent_high:+.2f} % |"
            f" {row.processes} |"
        )
    if found.same_build:
        lines += ["", f"The same build on both sides, not timed: {', '.join(found.same_build)}."]
    lines += (
        ["", *(f"Not compared: `{name}`: {why}." for name, why in found.left_out.items())] if found.left_out else []
    )
    return "\n".join(lines) + "\n"
