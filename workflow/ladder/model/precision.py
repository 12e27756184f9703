"""The classes of arithmetic that rungs claim: their names, their bounds, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # every process of a run imports this module, and few need pandas
    import pandas as pd


# As kernels.yaml declares them -> as figures and tables name them.
TITLES = {"fp32": "FP32", "3xtf32": "3xTF32", "3xfp16": "3xFP16", "tf32": "TF32"}
# The bounds (`ladder.model.bounds`) that each is held to: numbers split in two, for three products, keep those of FP32.
BOUNDS = {"fp32": "fp32", "3xtf32": "fp32", "3xfp16": "fp32", "tf32": "tf32"}
# The families of inputs (`ladder.measure.inputs`) that a bound is not asked of: rounded, numbers of them are infinite.
NOT_ASKED = {"fp32": frozenset[str](), "tf32": frozenset({"largest"})}


def label(rung: str, precision: str, claims: str = "") -> str:
    """A rung's name beside others': `tma`; with its class, if that is not FP32, `tf32 (TF32)`; `mine (restricted)`.

    `claims` are those of a rung that computes less than SGEMM.
    """
    notes = [TITLES[precision]] * (precision != "fp32") + ["restricted"] * bool(claims)
    return f"{rung} ({', '.join(notes)})" if notes else rung


def labelled(table: pd.DataFrame, rungs: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table with labels in place of the names in its column `rung`; `rungs` is the table of rungs."""
    claims = rungs["claims"] if "claims" in rungs else [""] * len(rungs)  # of a table of older records
    known = {each[0]: label(*each) for each in zip(rungs["rung"], rungs["precision"], claims, strict=True)}
    return table.assign(rung=[known.get(name, name) for name in table["rung"]])


def name_of(label: str) -> str:
    """The rung that a label is of."""
    return label.split(" (")[0]


def baselines_of(precision: str, baselines: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the baselines, of those with `name` and `precision`, that a class is compared with.

    Those of the class whose bounds it holds; where there are none, those of the first one's class.
    """
    named: dict[str, tuple[str, ...]] = {}
    for each in baselines:
        named[each["precision"]] = (*named.get(each["precision"], ()), each["name"])
    return named.get(BOUNDS[precision], next(iter(named.values())))


def shared_in(rungs: pd.DataFrame) -> str:
    """Which libraries a share of cuBLAS is of: `of mine for TF32, of the faster of cublas and cublas_best for every
    other class`; empty where there is none. `rungs` is the table of rungs, which may have labels.
    """
    libraries = rungs[rungs["role"] == "baseline"]
    if libraries.empty:
        return ""
    named = [{"name": name_of(row.rung), "precision": row.precision} for row in libraries.itertuples()]
    found = {TITLES[each]: baselines_of(each, named) for each in rungs["precision"].unique()}
    first = baselines_of(named[0]["precision"], named)
    others = [f"of {_fastest(names)} for {title}" for title, names in found.items() if names != first]
    return ", ".join([*others, f"of {_fastest(first)}{' for every other class' if others else ''}"])


def _fastest(names: tuple[str, ...]) -> str:
    return f"the faster of {' and '.join(names)}" if len(names) > 1 else names[0]
