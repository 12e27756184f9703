"""The cards of one name compared with each other, by their UUID: what each takes for the same builds and sizes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.digests import build_of
from ladder.records.identity import DEVICES, RecordPlace
from ladder.records.timings import BEFORE, measurements

CARDS_COLUMNS = [
    *("gpu", "device", "card", "rung", "shape", "build_digest", "cublas", "launches"),
    *("processes", "time_ms_median", "over_cards", "sm_clock_mhz", "driver"),
]
_SAME = ["gpu", "rung", "shape", "build_digest", "cublas", "launches"]  # of rows that can be compared


def cards_table(results: Path, rungs: Collection[str], shapes: Collection[Shape] | None = None) -> pd.DataFrame:
    """One row a GPU, rung, shape, build and card, where two cards or more have measured that build there.

    `results` holds one folder a GPU, with the records that ship and those of devices of the user's own; each kernel of
    a time record counts, also those beside its rung. Columns: CARDS_COLUMNS. card is the beginning of the UUID,
    launches how they were made (of one way only are compared), processes how many measured it, time_ms_median the
    median of their medians in ms, over_cards that time over the geometric mean of the cards' times (1.01 takes 1 %
    longer), sm_clock_mhz the median. Raises LadderError where a record is damaged.
    """
    rows = []
    for path in sorted([*results.glob("*/raw/time/*.zip"), *results.glob(f"*/{DEVICES}/*/raw/time/*.zip")]):
        for files in store.read_runs(path).values():
            record = store.run_record(files, path)
            try:
                measured = list(measurements(files, record))
            except (KeyError, ValueError, StopIteration) as error:
                raise store.damaged(path, error) from None
            where, builds = record["where"], record.get("builds", {})
            builds = {**builds, record["rung"]: build_of(where)}
            for each in measured:
                name = each.kernel.removesuffix(BEFORE)
                if name in rungs and name in builds and (shapes is None or each.shape in shapes):
                    rows.append(
                        {
                            "gpu": _gpu(path),
                            "device": where["gpu"]["name"],
                            "card": where["gpu"]["uuid"][:12],
                            "rung": name,
                            "shape": str(each.shape),
                            "build_digest": builds[name],
                            "launches": record.get("launches", ""),
                            "cublas": where["software"].get("cublas", ""),
                            "driver": where["gpu"]["driver"],
                            "time_ms": 1e3 * float(np.median(each.times_s)),
                            "mhz": float(np.median(each.clocks_hz)) / 1e6,
                            "process": f"{path} {where['measured_at']}",
                        }
                    )
    if not rows:
        return pd.DataFrame(columns=CARDS_COLUMNS)
    grouped = pd.DataFrame(rows).groupby([*_SAME, "card"], as_index=False, sort=True)
    table = grouped.agg(
        device=("device", "first"),
        processes=("process", "nunique"),
        time_ms_median=("time_ms", "median"),
        sm_clock_mhz=("mhz", "median"),
        driver=("driver", "last"),
    )
    table = table[table.groupby(_SAME)["card"].transform("nunique") > 1]
    mean = np.exp(np.log(table["time_ms_median"]).groupby([table[key] for key in _SAME]).transform("mean"))
    return table.assign(over_cards=table["time_ms_median"] / mean)[CARDS_COLUMNS].reset_index(drop=True)


def _gpu(path: Path) -> str:
    """The folder of the GPU in results that a record is of."""
    found = RecordPlace.of(path)
    return found.gpu or (path.parents[4] if found.device else path.parents[2]).name
