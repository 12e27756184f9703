"""What the report compares two rungs by: numbers of every rung at every shape, from the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.model.metrics import STALLS
from ladder.model.precision import name_of

# heading -> (column, factor)
_TIMES = {
    "median, ms": ("time_ms_median", 1), "95 % from, ms": ("time_ms_ci_low", 1), "95 % to, ms": ("time_ms_ci_high", 1),
    "noise, %": ("noise_percent", 1), "TFLOP/s": ("gflops", 1e-3), "% of peak": ("share_of_peak", 100),
    "% of cuBLAS": ("speedup_over_cublas", 100), "times naive": ("speedup_over_naive", 1),
    "SM clock, MHz": ("sm_clock_mhz", 1), "power, W": ("power_w", 1),
}  # fmt: skip
_RESOURCES = {
    name: (column, 1)
    for name, column in {
        "threads a block": "block_threads", "registers a thread": "registers", "spilled, byte": "spill_store_bytes",
        "static shared memory, byte": "static_shared_bytes", "dynamic shared memory, byte": "dynamic_shared_bytes",
        "blocks an SM": "blocks_per_sm", "occupancy, %": "occupancy_percent",
    }.items()
}  # fmt: skip


def numbers(tables: Mapping[str, pd.DataFrame], rungs: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Times, resources, counters and stalls: a row each with its name and `at`, shape -> a value for each of `rungs`.

    `tables` are those of the records with `rungs` as labels. A value that is not recorded is None.
    """
    resources, profiles = (tables[name][tables[name]["multiplies"].astype(bool)] for name in ("resources", "profiles"))
    stalls = profiles[profiles["name"].str.startswith("stall_")]
    waits = stalls["name"].str.removeprefix("stall_").str.replace("_", " ")
    stalls = stalls.assign(metric=waits)
    counted = tables["metrics_by_rung"]
    counted = counted[~counted["metric"].str.startswith("stall")].rename(
        columns={name_of(label): label for label in rungs}
    )
    counters = counted.melt(["shape", "metric", "unit"], [label for label in rungs if label in counted], "rung")
    units = counters["unit"].fillna("").map(lambda unit: f", {unit}" if unit else "")
    found = {
        "Times": _of_columns(tables["timings"], _TIMES),
        "Resources": _of_columns(resources, _RESOURCES),
        "Counters of Nsight Compute": counters.assign(metric=counters["metric"] + units),
        "Stalls: cycles of a warp between two instructions": stalls,
    }
    return {title: _rows(table, rungs) for title, table in found.items()}


def _of_columns(table: pd.DataFrame, columns: Mapping[str, tuple[str, float]]) -> pd.DataFrame:
    parts = [
        table[["rung", "shape"]].assign(metric=name, value=factor * table[column])
        for name, (column, factor) in columns.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _rows(table: pd.DataFrame, rungs: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    table = table.assign(value=pd.to_numeric(table["value"], errors="coerce")).dropna(subset=["value"])
    for metric, rows in table.groupby("metric", sort=False):
        at = {
            shape: [float(f"{values[rung]:.6g}") if rung in values else None for rung in rungs]
            for shape, values in (
                (shape, part.groupby("rung")["value"].first().to_dict()) for shape, part in rows.groupby("shape")
            )
        }
        found.append({"name": metric, "hint": STALLS.get(str(metric).replace(" ", "_"), ""), "at": at})
    return found
