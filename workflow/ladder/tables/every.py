"""Every table of a GPU, from the evidence: one observation a row, units in the column names, the same bytes always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.model.gpu import Gpu
from ladder.records.hardware import Hardware
from ladder.records.provenance import NOT_RECORDED
from ladder.tables.checks import check_table
from ladder.tables.code import instruction_table, paper_table, resource_table
from ladder.tables.evidence import Evidence
from ladder.tables.hardware import as_measured, hardware_table
from ladder.tables.predictions import Model, fit_table, lever_table, prediction_table
from ladder.tables.profiles import (
    advice_table,
    diagnosis_table,
    executed_table,
    hot_instruction_table,
    hotspot_table,
    memory_table,
    profile_table,
    rung_comparison,
    slot_table,
)
from ladder.tables.records import record_table, sample_table
from ladder.tables.rungs import rung_table
from ladder.tables.sustained import sustained_table
from ladder.tables.timings import geomean_table, timing_table
from ladder.tables.ways import way_table


def environment_table(evidence: Sequence[Evidence], gpu: Gpu) -> pd.DataFrame:
    """One row a property of the GPU file or of the records' environment; several values are joined by `; `.

    Columns: property, value.
    """
    rows: dict[str, dict[str, None]] = {}

    def add(key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for inner, content in value.items():
                add(f"{key}.{inner}", content)
        else:
            text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            rows.setdefault(key, {})[text] = None

    for key in ("title", "architecture", "sms", "fp32_lanes_per_sm", "sm_clock_mhz", "memory_bandwidth_gb_s"):
        add(f"gpu_file.{key}", getattr(gpu, key))
    add("gpu_file.peak_gflops", f"{gpu.peak_gflops:.6g}")
    places = [place for item in evidence for place in item.places]
    for place in places:
        compiled = {key: place["compile"][key] for key in ("nvcc", "flags", "architecture")}
        software = {"cublas": NOT_RECORDED, "cublas_lt": NOT_RECORDED, **place["software"]}
        add("recorded", {"gpu": place["gpu"], "software": software, "compile": compiled})
    times = sorted(place["measured_at"] for place in places)
    if times:
        add("recorded.first", times[0])
        add("recorded.last", times[-1])
    return pd.DataFrame(
        [(key, "; ".join(sorted(values))) for key, values in rows.items()], columns=["property", "value"]
    )


def all_tables(
    evidence: Sequence[Evidence], gpu: Gpu, baseline: str, first: str, hardware: Hardware | None = None
) -> dict[str, pd.DataFrame]:
    """Every table of the pipeline by its name; ceilings and predictions take the probes' numbers if there are any."""
    timings, resources = timing_table(evidence, gpu, baseline, first), resource_table(evidence)
    probes = hardware_table(hardware, gpu)
    measured = as_measured(gpu, probes)
    instructions, paper = instruction_table(evidence), paper_table(evidence, measured)
    model = Model.of(evidence, measured, paper, resources, timings, probes)
    return {
        "rungs": rung_table(evidence),
        "timings": timings,
        "geomeans": geomean_table(evidence, baseline, first),
        "sustained": sustained_table(evidence, baseline),
        "checks": check_table(evidence),
        "resources": resources,
        "instructions": instructions,
        "ways": way_table(evidence),
        "paper": paper,
        "predictions": prediction_table(model),
        "prediction_fit": fit_table(model),
        "levers": lever_table(model, instructions),
        "profiles": profile_table(evidence),
        "advice": advice_table(evidence),
        "metrics_by_rung": rung_comparison(evidence),
        "slots": slot_table(evidence),
        "diagnosis": diagnosis_table(evidence),
        "hotspots": hotspot_table(evidence),
        "hot_instructions": hot_instruction_table(evidence),
        "executed": executed_table(evidence),
        "memory": memory_table(evidence),
        "environment": environment_table(evidence, gpu),
        "records": record_table(evidence),
        "samples": sample_table(evidence),
    }
