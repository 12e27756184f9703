"""Which of its kernels a rung's host function launches for which products: its way, observed without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.model.cases import Case
from ladder.model.survey import PRODUCT_CLASSES
from ladder.tables.evidence import Evidence

WAY_COLUMNS = [
    *("rung", "class", "way", "products", "percent", "builds", "least_side_low", "least_side_high"),
    *("k_low", "k_high", "flop_low", "flop_high", "example"),
]


def way_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, class of products (`ladder.model.survey.PRODUCT_CLASSES`) and way; none of libraries.

    The products are those that WAYS_SEED draws. Columns: rung, class, way (the kernels that are launched, joined by
    ` + `, without their template arguments), products (how many of the class), percent (of the class), builds (how many
    different template arguments and tuned classes among them), least_side_{low,high} (of the smaller of m and n),
    k_{low,high}, flop_{low,high}, example (the product of median work).
    """
    rows = [row for item in evidence for row in _of_rung(item.rung.name, item.inspection.get("ways", ()))]
    return pd.DataFrame(rows, columns=WAY_COLUMNS)


def _of_rung(rung: str, ways: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    cases = [(Case.of(each), tuple(each["kernels"])) for each in ways if each["kernels"]]
    rows = []
    for title, belongs in PRODUCT_CLASSES.items():
        chosen = [(case, kernels) for case, kernels in cases if belongs(case)]
        found: dict[str, list[tuple[Case, tuple[str, ...]]]] = {}
        for case, kernels in chosen:
            found.setdefault(" + ".join(map(plain_name, kernels)), []).append((case, kernels))
        for way, members in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
            shapes = sorted((case.shape for case, _ in members), key=lambda shape: shape.flop)
            ends = {
                "least_side": [min(shape.m, shape.n) for shape in shapes],
                "k": [shape.k for shape in shapes],
                "flop": [shape.flop for shape in shapes],
            }
            rows.append(
                {
                    **{"rung": rung, "class": title, "way": way, "products": len(members)},
                    "percent": 100 * len(members) / len(chosen),
                    "builds": len({kernels for _, kernels in members}),
                    **{f"{name}_low": min(values) for name, values in ends.items()},
                    **{f"{name}_high": max(values) for name, values in ends.items()},
                    "example": str(shapes[len(shapes) // 2]),
                }
            )
    return rows


def plain_name(kernel: str) -> str:
    """A kernel's name without its type, namespaces and template arguments."""
    return kernel.partition("<")[0].rpartition("::")[2].split()[-1]
