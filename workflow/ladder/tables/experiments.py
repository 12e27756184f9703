"""The trials behind docs/performance.md: variants of kernels that were timed beside cuBLAS and mostly dropped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ladder.records.provenance import origin
from ladder.records.timings import read_time_record


def experiment_table(paths: Sequence[Path], baseline: str) -> pd.DataFrame:
    """One row an experiment (a time record), shape and kernel: median in ms, GFLOP/s, share of the baseline, origin.

    A kernel's name is its source, then the macros that it was compiled with. The baseline is what was measured beside
    it in the same process. Raises LadderError where a record is damaged.
    """
    rows = []
    for path in paths:
        for shape, timing in read_time_record(path).items():
            medians = {name: float(np.median(m.times_s)) for name, m in timing.measurements.items()}
            for kernel, median in medians.items():
                rows.append(
                    {
                        "experiment": path.stem,
                        "shape": str(shape),
                        "kernel": kernel,
                        "samples": len(timing.measurements[kernel].times_s),
                        "time_ms_median": median * 1e3,
                        "gflops": shape.flop / median / 1e9,
                        "share_of_baseline": medians[baseline] / median,
                        **origin([timing.where]),
                        "measured_at": timing.where["measured_at"],
                    }
                )
    return pd.DataFrame(rows)
