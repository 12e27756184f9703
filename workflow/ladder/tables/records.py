"""From where each number comes: the records by file and key, and the samples behind each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.records.digests import at_present
from ladder.records.provenance import ORIGIN, origin
from ladder.tables.evidence import Evidence

RECORD_COLUMNS = [
    *("rung", "stage", "shape", "file", "key", *ORIGIN, "measured_at", "driver", "nvcc"),
    *("source_digest", "build_digest"),
]


def record_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and record, and of times and profiles one a shape. Columns: RECORD_COLUMNS.

    file is relative to the folder of the GPU's results. key says where in it: of a time record the folder of the run,
    else the names of JSON's objects, empty for the whole. Both digests are as today's rule gives them.
    """
    rows = []
    for item in evidence:
        for stage, shape, key, where in _parts(item):
            ending = {"time": "zip", "profile": "json.xz"}.get(stage, "json")
            compiled = at_present(where["compile"])
            rows.append(
                {
                    **{"rung": item.rung.name, "stage": stage, "shape": shape},
                    **{"file": f"raw/{stage}/{item.rung.name}.{ending}", "key": key},
                    **origin([where]),
                    **{"measured_at": where["measured_at"], "driver": where["gpu"]["driver"]},
                    **{name: compiled[name] for name in ("nvcc", "source_digest", "build_digest")},
                }
            )
    return pd.DataFrame(rows, columns=RECORD_COLUMNS)


def _parts(item: Evidence) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Stage, shape, key and environment of each part of a rung's records."""
    for stage, record in (("check", item.check), ("sanitize", item.sanitized)):
        if record and record.get("where"):
            yield stage, "", "", record["where"]
    for shape, timing in item.timings.items():
        yield "time", str(shape), timing.run, timing.where
    for shape, found in item.sustained.items():
        yield "sustained", str(shape), "parts", found.where
    for text, profile in item.profiles.items():
        yield "profile", text, f"shapes.{text}", profile["where"]


def sample_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and kernel that was timed there beside each other, the rung itself first.

    Columns: rung, shape, kernel, key (NVBench's file of the samples in the rung's time record), times_ms (in the order
    in which they were taken, apart by spaces).
    """
    rows = [
        (item.rung.name, str(shape), kernel, f"{timing.run}/{each.file}", _listed(each.times_s))
        for item in evidence
        for shape, timing in item.timings.items()
        for kernel, each in timing.measurements.items()
    ]
    return pd.DataFrame(rows, columns=["rung", "shape", "kernel", "key", "times_ms"])


def _listed(times_s: Any) -> str:
    return " ".join(f"{1e3 * time:.6g}" for time in times_s)
