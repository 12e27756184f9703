"""The GPU as its probes measure it: latencies, bandwidths and rates, and the ceilings that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ladder.model.gpu import Gpu, ceiling_gflops
from ladder.records.hardware import Hardware, Probed
from ladder.records.provenance import ORIGIN, origin
from ladder.tables.statistics import bootstrap_medians, interval

# By kind: the unit of one SM's cycles, that of the whole GPU's time, and the factor from one a nanosecond to it.
_UNITS = {
    "latency": ("cycles", "ns", 1.0),
    "bandwidth": ("B/cycle/SM", "GB/s", 1.0),
    "rate": ("FLOP/cycle/SM", "TFLOP/s", 1e-3),
}
HARDWARE_COLUMNS = [
    *("of", "kind", "how", "samples", "value", "value_ci_low", "value_ci_high", "value_unit"),
    *("value_percentile_10", "value_percentile_90", "whole", "whole_ci_low", "whole_ci_high", "whole_unit"),
    *("sm_clock_mhz", "gpu_file", "share_of_gpu_file", *ORIGIN, "measured_at"),
]


def hardware_table(found: Hardware | None, gpu: Gpu) -> pd.DataFrame:
    """One row a probe.

    Columns: of (the part of the GPU), kind (latency, bandwidth or rate), how, samples, value (the median, in
    value_unit: cycles an access, or bytes or FLOP a cycle of one SM; empty of launches) with its interval and
    percentiles, whole (in whole_unit: ns an access, or GB/s or TFLOP/s of the GPU) with its interval, sm_clock_mhz
    (cycles over time, of bandwidths and rates), gpu_file (what the GPU file or NVIDIA's whitepaper says, in whole_unit;
    empty where they say nothing), share_of_gpu_file, card, cublas_version, commit, measured_at.
    """
    if found is None:
        return pd.DataFrame(columns=HARDWARE_COLUMNS)
    made = {**origin([found.where]), "measured_at": found.where["measured_at"]}
    return pd.DataFrame([{**_row(each, gpu), **made} for each in found.probes], columns=HARDWARE_COLUMNS)


def _row(probe: Probed, gpu: Gpu) -> dict[str, object]:
    value_unit, whole_unit, factor = _UNITS[probe.kind]
    cycles, ns = np.array(probe.cycles), np.array(probe.ns)
    if probe.kind == "latency":
        values, wholes = cycles / probe.count, ns / probe.count
    else:
        values, wholes = probe.count / cycles, factor * probe.count * probe.blocks / ns
    row: dict[str, object] = {"of": probe.of, "kind": probe.kind, "how": probe.how, "samples": len(ns)}
    for name, samples in (("value", values), ("whole", wholes)):
        if len(samples):
            low, high = interval(bootstrap_medians(samples, f"{probe.of} {probe.kind} {probe.how}"))
            row |= {name: float(np.median(samples)), f"{name}_ci_low": low, f"{name}_ci_high": high}
    if len(values):
        row |= {"value_unit": value_unit}
        row |= {f"value_percentile_{p}": float(np.percentile(values, p)) for p in (10, 90)}
        if probe.kind != "latency":
            row["sm_clock_mhz"] = 1e3 * float(np.median(cycles / ns))
    says = said_of(probe, gpu)
    share = float(np.median(wholes)) / says
    return {**row, "whole_unit": whole_unit, "gpu_file": says, "share_of_gpu_file": share}


def said_of(probe: Probed, gpu: Gpu) -> float:
    """What is said of a probe's bandwidth (GB/s) or rate (TFLOP/s); not a number where nothing is."""
    if (probe.of, probe.kind) == ("DRAM", "bandwidth"):
        return gpu.memory_bandwidth_gb_s
    if probe.kind != "rate":
        return math.nan
    found = stated_rate(probe.how.partition(",")[0], gpu) / 1e3
    return found if math.isfinite(found) else math.nan


def stated_rate(kind: str, gpu: Gpu) -> float:
    """GFLOP/s that the GPU file or NVIDIA's whitepaper states of FP32, or of a type on tensor cores; infinite if none.

    `kind` is FP32, TF32, FP16 or BF16.
    """
    half = 3 * ceiling_gflops("3xfp16", gpu)  # of FP16, and BF16 has as much
    return {"FP32": gpu.peak_gflops, "TF32": half / 2, "FP16": half, "BF16": half}[kind]


def measured_ceilings(table: pd.DataFrame) -> dict[str, float]:
    """The highest of each: `DRAM` and `L2` (GB/s), `FFMA`, and `TF32`, `FP16` and `BF16` by tensor cores (GFLOP/s).

    `table` is that of `hardware_table`; what it does not have is left out.
    """
    found = {}
    for part in ("DRAM", "L2"):
        rows = table[(table["of"] == part) & (table["kind"] == "bandwidth")]
        if len(rows):
            found[part] = float(rows["whole"].max())
    rates = table[table["kind"] == "rate"]
    kinds = rates["how"].str.split(",").str[0].where(rates["of"] != "FFMA", "FFMA")
    return found | {kind: 1e3 * float(rates.loc[kinds == kind, "whole"].max()) for kind in kinds.unique()}


def class_ceilings(gpu: Gpu, measured: Mapping[str, float]) -> dict[str, float]:
    """The highest rate of the product by class of arithmetic, in GFLOP/s; of those whose rate is known.

    `measured` is that of `measured_ceilings`; a unit that it lacks has the GPU file's rate. A product of split numbers
    takes three on tensor cores.
    """
    half = 3 * ceiling_gflops("3xfp16", gpu)
    tf32 = measured.get("TF32", half / 2)
    found = {"fp32": measured.get("FFMA", gpu.peak_gflops), "3xtf32": tf32 / 3}
    found |= {"3xfp16": measured.get("FP16", half) / 3, "tf32": tf32}
    return {name: rate for name, rate in found.items() if math.isfinite(rate)}


# By class: what tensor cores multiply, and how many such products one of the class takes.
PRODUCTS = {"3xtf32": ("TF32", 3), "3xfp16": ("FP16", 3), "tf32": ("TF32", 1)}
TENSOR_COLUMNS = ["shape", "by", "ceiling_tflops", "tflops", "share_of_ceiling"]


def tensor_table(
    hardware: pd.DataFrame, instructions: pd.DataFrame, timings: pd.DataFrame, precision: str
) -> pd.DataFrame:
    """What the measured rate of tensor cores allows a rung, at each shape that was timed and is computed on them.

    The tables are those of these names, the last two of the rung alone. Columns: shape, by (`wgmma` or `mma.sync`,
    whichever the inner loop has), ceiling_tflops (of the product, at the SM clock that the launches had: a GPU at its
    power limit lowers it), tflops, share_of_ceiling.
    """
    kind, times = PRODUCTS.get(precision, ("", 1))
    rates = hardware[(hardware["kind"] == "rate") & (hardware["how"] == kind)].set_index("of")
    loops = instructions[instructions["part"] == "inner loop"]
    rows = []
    for timing in timings.itertuples():
        at = loops[[str(timing.shape) in str(text).split() for text in loops["launched_at"]]]
        by = {"wgmma": "HGMMA", "mma.sync": "HMMA"}
        units = [name for name, opcode in by.items() if opcode in at and at[opcode].sum() > 0]
        if not units or units[0] not in rates.index or not timing.sm_clock_mhz > 0:
            continue
        rate = rates.loc[units[0]]
        ceiling = float(rate["whole"] * timing.sm_clock_mhz / rate["sm_clock_mhz"]) / times
        tflops = timing.gflops / 1e3
        rows.append((timing.shape, units[0], ceiling, tflops, tflops / ceiling))
    return pd.DataFrame(rows, columns=TENSOR_COLUMNS)


def as_measured(gpu: Gpu, table: pd.DataFrame) -> Gpu:
    """The GPU with the FP32 peak and the DRAM bandwidth that its probes have; what they have not stays the file's."""
    found = measured_ceilings(table)
    return replace(
        gpu,
        measured_gflops=found.get("FFMA", gpu.measured_gflops),
        memory_bandwidth_gb_s=found.get("DRAM", gpu.memory_bandwidth_gb_s),
    )
