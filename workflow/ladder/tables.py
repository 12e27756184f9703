"""Tidy tables from the evidence: one observation a row, units in the column names, equal evidence gives equal bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder import records, sass
from ladder.bounds import componentwise_bound, normwise_bound
from ladder.config import Shape
from ladder.evidence import Evidence
from ladder.gpu import Gpu
from ladder.inspection import main_kernel
from ladder.occupancy import LIMITS
from ladder.paper import accesses, ceilings, floors, tile_of, waves

RESAMPLES = 1000
CONFIDENCE = 95  # percent
WORKLOG_MINIMUM = 512  # the worklogs quote the geometric mean over square sizes from here up

# What is named of a profile, in the order of Nsight Compute's sections: our name -> (metric, section).
HEADLINES = {
    "duration": ("gpu__time_duration.sum", "speed of light"),
    "compute_throughput": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "memory_throughput": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "dram_throughput": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "l2_throughput": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "l1_throughput": ("l1tex__throughput.avg.pct_of_peak_sustained_active", "speed of light"),
    "sm_frequency": ("smsp__cycles_elapsed.avg.per_second", "speed of light"),
    "ipc_active": ("sm__inst_executed.avg.per_cycle_active", "compute workload"),
    "issue_slots_busy": ("smsp__issue_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "fma_pipe_active": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "l1_hit_rate": ("l1tex__t_sector_hit_rate.pct", "memory workload"),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct", "memory workload"),
    "dram_bytes": ("dram__bytes.sum.per_second", "memory workload"),
    "shared_load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "memory workload"),
    "shared_store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "memory workload"),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active", "scheduler"),
    "no_eligible": ("smsp__issue_inst0.avg.pct_of_peak_sustained_active", "scheduler"),
    "warp_cycles_per_instruction": ("smsp__average_warp_latency_per_inst_issued.ratio", "warp state"),
    "executed_instructions": ("smsp__inst_executed.sum", "instructions"),
    "registers": ("launch__registers_per_thread", "launch"),
    "static_shared": ("launch__shared_mem_per_block_static", "launch"),
    "dynamic_shared": ("launch__shared_mem_per_block_dynamic", "launch"),
    "waves": ("launch__waves_per_multiprocessor", "launch"),
    "theoretical_occupancy": ("sm__maximum_warps_per_active_cycle_pct", "occupancy"),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy"),
}


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV with six significant digits."""
    records.write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


TEXT = ("rung", "shape", "before", "message", "profile_message", "source", "throttle_reasons", "measured_at")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table that `write_table` wrote: empty text stays empty text, shapes stay text."""
    columns = pd.read_csv(path, nrows=0).columns
    empty = {column: [""] for column in columns if column not in TEXT}
    return pd.read_csv(path, dtype=dict.fromkeys(TEXT, str), keep_default_na=False, na_values=empty)


def headline_shape(timings: pd.DataFrame) -> str | None:
    """The shape that a run is summed up at: the largest of those that the most rungs were timed at, squares first.

    Takes rung, shape, m, n and k of the table of timings; None where it is empty.
    """
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])]
    of = square if not square.empty else timings
    if of.empty:
        return None
    shapes = (
        of.assign(work=of["m"] * of["n"] * of["k"])
        .groupby("shape")
        .agg(rungs=("rung", "nunique"), work=("work", "max"))
    )
    return str(shapes.sort_values(["rungs", "work"]).index[-1])


def bootstrap_medians(samples: np.ndarray, key: str) -> np.ndarray:
    """Medians of RESAMPLES samples drawn with replacement; the draws depend on the key alone.

    B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (percentile intervals).
    """
    random = np.random.default_rng(int(records.digest(key), 16))
    return np.median(random.choice(samples, (RESAMPLES, len(samples))), axis=1)


def interval(values: np.ndarray) -> tuple[float, float]:
    """The percentile interval that holds CONFIDENCE percent of the bootstrapped values."""
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def timing_table(evidence: Sequence[Evidence], gpu: Gpu, baseline: str, first: str) -> pd.DataFrame:
    """One row a rung and shape: the summary of its samples, rates, and speedups measured side by side.

    Columns: rung, shape, m, n, k, samples, target_samples, time_ms_{mean,median,min,q1,q3,ci_low,ci_high},
    noise_percent (standard deviation over mean), gflops, gflops_ci_low, gflops_ci_high, share_of_peak,
    speedup_over_{naive,cublas,before} each with _ci_low and _ci_high (NaN where the other was not measured beside it),
    before, sm_clock_mhz (median), throttle_reasons, temperature_c, power_w, measured_at.
    """
    rows = []
    for item in evidence:
        if not item.sound:
            continue
        for shape in item.timings:
            references = {"naive": first, "cublas": baseline, "before": item.rung.before}
            rows.append(_timing_row(item, shape, gpu, references))
    return pd.DataFrame(rows, columns=TIMING_COLUMNS)


_RATIOS = ("naive", "cublas", "before")
TIMING_COLUMNS = [
    *("rung", "shape", "m", "n", "k", "samples", "target_samples"),
    *(f"time_ms_{statistic}" for statistic in ("mean", "median", "min", "q1", "q3", "ci_low", "ci_high")),
    *("noise_percent", "gflops", "gflops_ci_low", "gflops_ci_high", "share_of_peak"),
    *(f"speedup_over_{other}{end}" for other in _RATIOS for end in ("", "_ci_low", "_ci_high")),
    *("before", "sm_clock_mhz", "throttle_reasons", "temperature_c", "power_w", "measured_at"),
]


def _timing_row(item: Evidence, shape: Shape, gpu: Gpu, references: Mapping[str, str | None]) -> dict[str, Any]:
    timing = item.timings[shape]
    own = timing.own
    times = own.times_s * 1e3
    low, high = interval(bootstrap_medians(times, f"{item.rung.name} {shape}"))
    rate = shape.flop / 1e6  # GFLOP/s from milliseconds
    computes = item.rung.role != "floor"
    state = own.state["after"]
    row: dict[str, Any] = {
        "rung": item.rung.name,
        "shape": str(shape),
        **{"m": shape.m, "n": shape.n, "k": shape.k},
        "samples": len(times),
        "target_samples": own.target_samples,
        "time_ms_mean": times.mean(),
        "time_ms_median": np.median(times),
        "time_ms_min": times.min(),
        "time_ms_q1": np.percentile(times, 25),
        "time_ms_q3": np.percentile(times, 75),
        "time_ms_ci_low": low,
        "time_ms_ci_high": high,
        "noise_percent": 100 * times.std(ddof=1) / times.mean() if len(times) > 1 else np.nan,
        "before": item.rung.before,
        "sm_clock_mhz": np.median(own.clocks_hz) / 1e6,
        "throttle_reasons": "; ".join(state.get("throttle_reasons", [])),
        "temperature_c": state.get("temperature_c"),
        "power_w": state.get("power_w"),
        "measured_at": timing.where["measured_at"],
    }
    if computes:
        row |= {
            "gflops": rate / np.median(times),
            "gflops_ci_low": rate / high,
            "gflops_ci_high": rate / low,
            "share_of_peak": rate / np.median(times) / gpu.peak_gflops,
        }
    for label, other in references.items() if computes else ():
        ratio = speedup(item, shape, other)
        if ratio is not None:
            low, high = interval(ratio[1])
            column = f"speedup_over_{label}"
            row |= {column: ratio[0], f"{column}_ci_low": low, f"{column}_ci_high": high}
    return row


def speedup(item: Evidence, shape: Shape, other: str | None) -> tuple[float, np.ndarray] | None:
    """The ratio of medians, other / rung, both measured in the rung's process, and its bootstrapped values.

    None where the other was not measured there.
    """
    timing = item.timings[shape]
    if other not in timing.measurements:
        return None
    own, reference = timing.own.times_s, timing.measurements[other].times_s
    key = f"{item.rung.name} {shape}"
    ratios = bootstrap_medians(reference, f"{key} {other}") / bootstrap_medians(own, key)
    if other == item.rung.name:
        ratios = np.ones(RESAMPLES)
    return float(np.median(reference) / np.median(own)), ratios


def geomean_table(evidence: Sequence[Evidence], baseline: str, first: str) -> pd.DataFrame:
    """One row a rung and reference: the geometric mean of its speedups over the square sizes from 512 up.

    Columns: rung, over (naive, cublas or before), shapes (how many), speedup, ci_low, ci_high.
    """
    rows = []
    for item in evidence:
        if not item.sound or item.rung.role == "floor":
            continue
        square = [s for s in item.timings if s.m == s.n == s.k and s.n >= WORKLOG_MINIMUM]
        for label, other in {"naive": first, "cublas": baseline, "before": item.rung.before}.items():
            ratios = [ratio for shape in square if (ratio := speedup(item, shape, other)) is not None]
            if not ratios:
                continue
            low, high = interval(np.exp(np.mean([np.log(values) for _, values in ratios], axis=0)))
            mean = float(np.exp(np.mean([np.log(value) for value, _ in ratios])))
            rows.append((item.rung.name, label, len(ratios), mean, low, high))
    return pd.DataFrame(rows, columns=["rung", "over", "shapes", "speedup", "ci_low", "ci_high"])


def rung_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung: what it is and how it fared.

    Columns: rung, title, role, precision, before, status, message, checked_cases, timed_shapes, profiled_shapes,
    profile_message, parameters (of the GPU's tuned file, by size; empty where the source's own are used), source
    (`current`, `changed since` or empty), measured_at (of the latest record), check_wall_s and
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
                "before": item.rung.before,
                "status": item.status,
                "message": item.message,
                "checked_cases": len(item.check["cases"]) if item.check else 0,
                "timed_shapes": len(item.timings) if item.sound else 0,
                "profiled_shapes": len(item.profiles),
                "profile_message": item.profile_failure,
                "parameters": item.rung.parameters,
                "source": "" if current is None else "current" if current else "changed since",
                "measured_at": max((place["measured_at"] for place in item.places), default=""),
                "check_wall_s": item.check_wall_s,
                "time_wall_s": item.time_wall_s,
                "time_gpu_s": item.time_gpu_s if item.timings else math.nan,
            }
        )
    return pd.DataFrame(rows, columns=RUNG_COLUMNS)


RUNG_COLUMNS = [
    *("rung", "title", "role", "precision", "before", "status", "message", "checked_cases", "timed_shapes"),
    *("profiled_shapes", "profile_message", "parameters", "source", "measured_at"),
    *("check_wall_s", "time_wall_s", "time_gpu_s"),
]


def check_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and case: its verdict, and each error beside its bound; then one a tool of the sanitizer.

    Columns: rung, by (`check`, or a tool of compute-sanitizer), shape (of a tool's row all that it watched), alpha,
    beta, padding, offset, verdict, error_componentwise, bound_componentwise, error_normwise, bound_normwise (all four
    relative, without unit), seed.
    """
    columns = [
        *("rung", "by", "shape", "alpha", "beta", "padding", "offset", "verdict"),
        *("error_componentwise", "bound_componentwise", "error_normwise", "bound_normwise", "seed"),
    ]
    rows = []
    for item in evidence:
        for case in item.check["cases"] if item.check else ():
            k = Shape.parse(case["shape"]).k
            bounds = {"bound_componentwise": componentwise_bound(k), "bound_normwise": normwise_bound(k)}
            rows.append({"rung": item.rung.name, "by": "check", **case, **bounds})
        for tool in item.sanitized["tools"] if item.sanitized else ():
            shapes = " ".join(dict.fromkeys(case["shape"] for case in item.sanitized["cases"]))
            verdict = "pass" if tool["verdict"] == "pass" else f"{tool['verdict']}: {tool['message']}"
            rows.append({"rung": item.rung.name, "by": tool["tool"], "shape": shapes, "verdict": verdict})
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("padding", "offset", "seed"), "Int64"))


def resource_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and launched kernel: what it takes of an SM, by the compiler and the rung's own launch.

    Columns: rung, shape, kernel, grid, block_threads, registers (a thread), static_shared_bytes and
    dynamic_shared_bytes (a block), stack_bytes, spill_store_bytes, spill_load_bytes (a thread), blocks_per_sm,
    occupancy_percent (theoretical), occupancy_limited_by, block_limit_{warps,registers,shared_memory,blocks} (by
    cuda_occupancy.h; empty where the SM's limits are not known), architecture, nvcc.
    """
    rows = []
    for item in evidence:
        resources = {kernel["symbol"]: kernel for kernel in item.inspection["kernels"]}
        for shape, launches in item.inspection["launches"].items():
            for launch in launches:
                kernel = resources.get(launch["symbol"], {})
                rows.append(
                    {
                        "rung": item.rung.name,
                        "shape": shape,
                        "kernel": kernel.get("kernel", ""),
                        "grid": "x".join(map(str, launch["grid"])),
                        "block_threads": int(np.prod(launch["block"])),
                        **{key: kernel.get(key) for key in RESOURCES},
                        "dynamic_shared_bytes": launch["dynamic_shared_bytes"],
                        **_occupancy(launch),
                        "architecture": item.inspection["architecture"],
                        "nvcc": item.inspection["nvcc"],
                    }
                )
    return pd.DataFrame(rows, columns=["rung", "shape", "kernel", "grid", "block_threads", *RESOURCES, *_AFTER])


RESOURCES = ("registers", "static_shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
_LIMITS = tuple(f"block_limit_{name.replace(' ', '_')}" for name in LIMITS)
_OCCUPANCY = ("blocks_per_sm", "occupancy_percent", "occupancy_limited_by", *_LIMITS)
_AFTER = ("dynamic_shared_bytes", *_OCCUPANCY, "architecture", "nvcc")


def _occupancy(launch: Mapping[str, Any]) -> dict[str, Any]:
    found = launch.get("occupancy")
    if not found:
        return {}
    values = (found["blocks"], found["percent"], " and ".join(found["limited_by"]), *found["block_limits"].values())
    return dict(zip(_OCCUPANCY, values, strict=True))


def instruction_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, kernel that it launches at a shape of this run, and part of it (whole, inner loop).

    Columns: rung, kernel, part, instructions, one column a class of instructions (`ladder.sass.CLASSES` and other, as
    compiled: a guarded branch counts as if taken), {lds,ldg,...}_{32,64,128}bit, ffma_share (of issue slots),
    shared_loads_per_ffma, global_loads_per_ffma, load_bytes_per_ffma (a thread), wavefronts_per_ffma (at least),
    bank_conflicts and reused_operands (of FFMAs). The ratios are the inner loop's.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for item in evidence:
        for shape in item.inspection["launches"]:
            found = main_kernel(item.inspection, shape)
            for part in ("whole", "loop") if found else ():
                kernel = found[1]
                counts = kernel["code"][part]
                rows[item.rung.name, kernel["symbol"], part] = {
                    "rung": item.rung.name,
                    "kernel": kernel["kernel"],
                    "part": {"loop": "inner loop"}.get(part, part),
                    "instructions": counts["instructions"],
                    **counts["mix"],
                    **{
                        f"{kind.lower()}_{bits}bit": number
                        for kind, by_width in counts["widths"].items()
                        for bits, number in by_width.items()
                    },
                    **(sass.ratios(counts) if part == "loop" else {}),
                    "bank_conflicts": counts["bank_conflicts"],
                    "reused_operands": counts["reused_operands"],
                }
    return pd.DataFrame(rows.values(), columns=INSTRUCTION_COLUMNS)


INSTRUCTION_COLUMNS = [
    *("rung", "kernel", "part", "instructions", *sass.CLASSES, "other"),
    *(f"{kind}_{bits}bit" for kind in ("lds", "sts", "ldg", "stg", "ldgsts") for bits in (32, 64, 128)),
    *("ffma_share", "shared_loads_per_ffma", "global_loads_per_ffma", "load_bytes_per_ffma", "wavefronts_per_ffma"),
    *("bank_conflicts", "reused_operands"),
]


def paper_table(evidence: Sequence[Evidence], gpu: Gpu) -> pd.DataFrame:
    """One row a rung and shape: the calculation on paper (`ladder.paper`) beside what was measured.

    Columns: rung, shape, flop, minimum_bytes, compute_floor_ms, memory_floor_ms, intensity_minimum, BM, BN, TM, TN,
    global_reads_per_result, shared_reads_per_result (elements), intensity_global, intensity_shared (FLOP a byte),
    blocks, blocks_per_sm, waves, tail_percent, ceiling_{fp32_units,issue_slots,load_pipe,dram}_gflops,
    predicted_gflops (the lowest ceiling), predicted_ms, bound_by, measured_gflops (the median), share_of_prediction.
    """
    rows = []
    for item in evidence:
        if item.rung.role != "rung" or not item.inspection["launches"]:
            continue
        tile = tile_of(item.rung)
        for text in item.inspection["launches"]:
            found, shape = main_kernel(item.inspection, text), Shape.parse(text)
            if found is None:
                continue
            launch, kernel = found
            loop = kernel["code"]["loop"]
            blocks = math.prod(launch["grid"])
            held = (launch.get("occupancy") or {}).get("blocks")
            filled = waves(blocks, held, gpu.sms) if held else {"balance": 1.0}
            limits = ceilings(gpu, shape, loop, filled["balance"])
            bound = min(limits, key=lambda name: limits[name])
            timing = item.timings.get(shape) if item.sound else None
            measured = shape.flop / np.median(timing.own.times_s) / 1e9 if timing else math.nan
            shared = bool(kernel["code"]["whole"]["mix"]["LDS"])
            rows.append(
                {
                    "rung": item.rung.name,
                    "shape": text,
                    **floors(shape, gpu),
                    **tile,
                    **accesses(tile, shape.k, shared),
                    "blocks": blocks,
                    "blocks_per_sm": held,
                    **filled,
                    **{f"ceiling_{name.lower().replace(' ', '_')}_gflops": limit for name, limit in limits.items()},
                    "predicted_gflops": limits[bound],
                    "predicted_ms": shape.flop / limits[bound] / 1e6,
                    "bound_by": bound,
                    "measured_gflops": measured,
                    "share_of_prediction": measured / limits[bound],
                }
            )
    return pd.DataFrame(rows, columns=PAPER_COLUMNS)


PAPER_COLUMNS = [
    *("rung", "shape", "flop", "minimum_bytes", "compute_floor_ms", "memory_floor_ms", "intensity_minimum"),
    *("BM", "BN", "TM", "TN", "global_reads_per_result", "shared_reads_per_result"),
    *("intensity_global", "intensity_shared", "blocks", "blocks_per_sm", "waves", "tail_percent"),
    *(f"ceiling_{name}_gflops" for name in ("fp32_units", "issue_slots", "load_pipe", "dram")),
    *("predicted_gflops", "predicted_ms", "bound_by", "measured_gflops", "share_of_prediction"),
]


def profile_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape, kernel and headline metric of Nsight Compute.

    Columns: rung, shape, kernel, section, name (ours), metric (Nsight Compute's), value, unit.
    """
    rows = []
    for item in evidence:
        for shape, profile in item.profiles.items():
            for kernel in profile["kernels"]:
                for name, (metric, section) in (HEADLINES | _stalls(kernel["metrics"])).items():
                    value, unit = kernel["metrics"].get(metric, (None, ""))
                    rows.append((item.rung.name, shape, kernel["kernel"], section, name, metric, value, unit))
    return pd.DataFrame(rows, columns=["rung", "shape", "kernel", "section", "name", "metric", "value", "unit"])


def _stalls(metrics: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The stall reasons of a profile: the cycles that a warp waits for each, for each instruction it issues."""
    found = {match[1]: metric for metric in metrics if (match := _STALL.fullmatch(metric))}
    return {f"stall_{reason}": (metric, "warp state") for reason, metric in sorted(found.items())}


_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def advice_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a piece of Nsight Compute's advice, by its estimated speedup.

    Columns: rung, shape, kernel, section, rule, title, estimated_speedup_percent (may be empty), message.
    """
    columns = ["rung", "shape", "kernel", "section", "rule", "title", "estimated_speedup_percent", "message"]
    rows = [
        {"rung": item.rung.name, "shape": shape, "kernel": kernel["kernel"], **advice}
        for item in evidence
        for shape, profile in item.profiles.items()
        for kernel in profile["kernels"]
        for advice in sorted(kernel["advice"], key=lambda advice: -(advice["estimated_speedup_percent"] or 0))
    ]
    return pd.DataFrame(rows, columns=columns)


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
        add("recorded", {"gpu": place["gpu"], "software": place["software"], "compile": compiled})
    times = sorted(place["measured_at"] for place in places)
    if times:
        add("recorded.first", times[0])
        add("recorded.last", times[-1])
    return pd.DataFrame(
        [(key, "; ".join(sorted(values))) for key, values in rows.items()], columns=["property", "value"]
    )


def all_tables(evidence: Sequence[Evidence], gpu: Gpu, baseline: str, first: str) -> dict[str, pd.DataFrame]:
    """Every table of the pipeline by its name."""
    return {
        "rungs": rung_table(evidence),
        "timings": timing_table(evidence, gpu, baseline, first),
        "geomeans": geomean_table(evidence, baseline, first),
        "checks": check_table(evidence),
        "resources": resource_table(evidence),
        "instructions": instruction_table(evidence),
        "paper": paper_table(evidence, gpu),
        "profiles": profile_table(evidence),
        "advice": advice_table(evidence),
        "environment": environment_table(evidence, gpu),
    }
