"""Errors against k, of the rungs whose arithmetic is not plain FP32 and of the libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ladder.records.digests import state_of
from ladder.records.provenance import ORIGIN, origin

ACCURACY_COLUMNS = [
    *("rung", "precision", "family", "m", "n", "k", "error_normwise", "error_componentwise", "time_ms"),
    *("source", *ORIGIN, "measured_at"),
]


def accuracy_table(
    records: Mapping[str, Mapping[str, Any]], precisions: Mapping[str, str], digests: Mapping[str, str]
) -> pd.DataFrame:
    """One row a rung, size, family of inputs and k. All mappings are by the rung's name, `digests` of its sources now.

    Columns: rung, precision, family, m, n, k, error_normwise (||C - AB|| / ||AB||, Frobenius norms),
    error_componentwise (the largest |C - AB| / (|A| |B|), in units of 2^-24), time_ms (median of the launches there),
    source (`current` or `changed since`), card, cublas_version, commit, measured_at.
    """
    rows = [
        {
            **{"rung": name, "precision": precisions[name], **point},
            "source": state_of(record["where"]["compile"]["source_digest"], digests.get(name)),
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
