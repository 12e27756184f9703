"""Errors against k, of the rungs whose arithmetic is not plain FP32 and of the libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ladder.records.digests import source_of
from ladder.records.provenance import ORIGIN, origin

ACCURACY_COLUMNS = [
    *("rung", "precision", "family", "m", "n", "k", "error_normwise", "error_componentwise", "time_ms"),
    *(*ORIGIN, "measured_at"),
]


def accuracy_table(records: Mapping[str, Mapping[str, Any]], precisions: Mapping[str, str]) -> pd.DataFrame:
    """One row a rung, size, family of inputs and k. `records` and `precisions` are by the rung's name.

    Columns: rung, precision, family, m, n, k, error_normwise (||C - AB|| / ||AB||, Frobenius norms),
    error_componentwise (the largest |C - AB| / (|A| |B|), in units of 2^-24), time_ms (median of the launches there),
    card, cublas_version, commit, measured_at.
    """
    rows = [
        {
            **{"rung": name, "precision": precisions[name], **point},
            **origin([record["where"]]),
            "measured_at": record["where"]["measured_at"],
        }
        for name, record in records.items()
        for point in record["points"]
    ]
    return pd.DataFrame(rows, columns=ACCURACY_COLUMNS)


_CLOCKS = {"nvbench": "NVBench", None: "CUDA events"}  # by the key `clock`, which the first records lack


def clocks(records: Mapping[str, Mapping[str, Any]]) -> str:
    """What timed the launches; where rungs differ, each clock with its rungs. Empty where nothing is measured."""
    timed: dict[str, list[str]] = {}
    for name, record in records.items():
        if record["points"]:
            timed.setdefault(_CLOCKS[record.get("clock")], []).append(name)
    if len(timed) == 1:
        return next(iter(timed))
    return " and ".join(f"{clock} ({', '.join(names)})" for clock, names in timed.items())


def changed_since(records: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]) -> list[str]:
    """The rungs whose records are of another source than the present one; `digests` are by the rung's name."""
    return [name for name, record in records.items() if source_of(record["where"]) != digests[name]]
