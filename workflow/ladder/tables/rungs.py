"""The table of rungs: a row for each, with what every stage says of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ladder.model.claims import in_words
from ladder.records.digests import CHANGED_SINCE, CURRENT
from ladder.records.provenance import ORIGIN, origin
from ladder.tables.evidence import Evidence


def rung_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung: what it is and how it fared.

    Columns: rung, title, role, precision, claims (what a rung computes that is restricted; else empty), before, status,
    message, emulation (`emulated` where the source passed the check on a CPU; `needs a GPU` where it cannot; `wrong`;
    `not emulated`), determinism (of the recorded check,
    `5 runs alike` or `declared not to be`), checked_cases, timed_shapes, profiled_shapes, profile_message, parameters
    (of the GPU's tuned file, by size; empty where the source's own are used), source (`current`, `changed since` or
    empty), card, cublas_version and commit (of all its records), measured_at (of the latest), check_wall_s and
    time_wall_s (seconds that the measuring processes took), time_gpu_s (seconds on the GPU of all samples in them).
    """
    rows = []
    for item in evidence:
        current = item.source_is_current
        rows.append(
            {
                "rung": item.rung.name,
                "title": item.rung.title,
                "role": item.rung.role,
                "precision": item.rung.precision,
                "claims": in_words(item.rung.claims),
                "before": item.rung.before,
                "status": item.status,
                "message": item.message,
                "emulation": item.emulation,
                "determinism": item.determinism,
                "checked_cases": len(item.check["cases"]) if item.check else 0,
                "timed_shapes": len(item.timings) if item.sound else 0,
                "profiled_shapes": len(item.profiles),
                "profile_message": item.profile_failure,
                "parameters": item.rung.parameters,
                "source": "" if current is None else CURRENT if current else CHANGED_SINCE,
                **origin(item.places),
                "measured_at": max((place["measured_at"] for place in item.places), default=""),
                "check_wall_s": item.check_wall_s,
                "time_wall_s": item.time_wall_s,
                "time_gpu_s": item.time_gpu_s if item.timings else math.nan,
            }
        )
    return pd.DataFrame(rows, columns=RUNG_COLUMNS)


RUNG_COLUMNS = [
    *("rung", "title", "role", "precision", "claims", "before", "status", "message", "emulation", "determinism"),
    *("checked_cases", "timed_shapes"),
    *("profiled_shapes", "profile_message", "parameters", "source", *ORIGIN, "measured_at"),
    *("check_wall_s", "time_wall_s", "time_gpu_s"),
]
