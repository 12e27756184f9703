"""The errors of every case of the check."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.model.bounds import componentwise_bound
from ladder.model.cases import Case
from ladder.model.precision import BOUNDS
from ladder.tables.evidence import Evidence


def check_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and case: its verdict, and each error beside its bound; then one a tool of the sanitizer.

    Columns: rung, by (`check`, or a tool of compute-sanitizer), shape (of a tool's row all that ran under it), alpha,
    beta, padding, offset, family (of the inputs), verdict, error_componentwise, bound_componentwise, error_normwise,
    bound_normwise (all four relative, without unit, all but bound_componentwise with three digits; of the norm only
    where the statistical test applies). The seeds of the inputs stand in the records of the check.
    """
    columns = [
        *("rung", "by", "shape", "alpha", "beta", "padding", "offset", "family", "verdict"),
        *("error_componentwise", "bound_componentwise", "error_normwise", "bound_normwise"),
    ]
    rows = []
    for item in evidence:
        for case in item.check["cases"] if item.check else ():
            asked = Case.of(case)
            bound = componentwise_bound(asked.shape.k, BOUNDS[item.rung.precision])
            layout = {"padding": _layout(asked.padding), "offset": _layout(asked.offset)}
            row = {**asked.as_record(), **case, **layout, "bound_componentwise": bound}
            rows.append({"rung": item.rung.name, "by": "check", **row})
        for tool in item.sanitized["tools"] if item.sanitized else ():
            shapes = " ".join(dict.fromkeys(case["shape"] for case in item.sanitized["cases"]))
            verdict = "pass" if tool["verdict"] == "pass" else f"{tool['verdict']}: {tool['message']}"
            rows.append({"rung": item.rung.name, "by": tool["tool"], "shape": shapes, "verdict": verdict})
    table = pd.DataFrame(rows, columns=columns)
    for name in ("error_componentwise", "error_normwise", "bound_normwise"):
        table[name] = table[name].map(lambda value: float(f"{value:.3g}"), na_action="ignore")
    return table


def _layout(floats: int | tuple[int, int, int]) -> str:
    """A padding or an offset: one number, or those of A, B and C."""
    return " ".join(map(str, floats)) if isinstance(floats, tuple) else str(floats)
