"""Tidy tables from the evidence: one observation a row, units in the column names, equal evidence gives equal bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder import records, sass
from ladder.bounds import componentwise_bound
from ladder.config import Rung, Shape
from ladder.diagnosis import FP32_UNITS, TENSOR_CORES, Profile, diagnose, main_profile, slots, top_lines
from ladder.evidence import Evidence
from ladder.gpu import Gpu
from ladder.inspection import main_kernel
from ladder.occupancy import LIMITS
from ladder.paper import accesses, ceilings, floors, load_pipe_wavefronts, tile_of, waves
from ladder.precision import BOUNDS

RESAMPLES = 1000
CONFIDENCE = 95  # percent
WORKLOG_MINIMUM = 512  # the worklogs quote the geometric mean over square sizes from here up

# What is named of a profile, in the order of Nsight Compute's sections: our name -> (metric, section).
HEADLINES = {
    "duration": ("gpu__time_duration.sum", "speed of light"),
    "elapsed_cycles": ("gpc__cycles_elapsed.max", "speed of light"),
    "sm_active_cycles": ("sm__cycles_active.avg", "speed of light"),
    "sm_frequency": ("smsp__cycles_elapsed.avg.per_second", "speed of light"),
    "dram_frequency": ("dram__cycles_elapsed.avg.per_second", "speed of light"),
    "compute_throughput": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "memory_throughput": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "dram_throughput": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "l2_throughput": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "speed of light"),
    "l1_throughput": ("l1tex__throughput.avg.pct_of_peak_sustained_active", "speed of light"),
    "ffma_per_cycle": ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed", "roofline"),
    "dram_bytes_read": ("dram__bytes_read.sum", "roofline"),
    "dram_bytes_written": ("dram__bytes_write.sum", "roofline"),
    "dram_peak": ("dram__bytes.sum.peak_sustained", "roofline"),
    "l2_sectors": ("lts__t_sectors_srcunit_tex_op_read.sum", "roofline"),
    "l2_sectors_written": ("lts__t_sectors_srcunit_tex_op_write.sum", "roofline"),
    "l2_peak": ("derived__lts__lts2xbar_bytes.sum.peak_sustained", "roofline"),
    "ipc_active": ("sm__inst_executed.avg.per_cycle_active", "compute workload"),
    "ipc_elapsed": ("sm__inst_executed.avg.per_cycle_elapsed", "compute workload"),
    "issue_slots_busy": ("smsp__issue_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "fma_pipe_active": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "tensor_pipe_active": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "tma_pipe_active": ("sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_active", "compute workload"),
    "l1_hit_rate": ("l1tex__t_sector_hit_rate.pct", "memory workload"),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct", "memory workload"),
    "dram_bytes": ("dram__bytes.sum.per_second", "memory workload"),
    "memory_busy": ("gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed", "memory workload"),
    "load_pipe_busy": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "memory workload"),
    "global_load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "memory tables"),
    "global_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "memory tables"),
    "global_store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "memory tables"),
    "global_store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "memory tables"),
    "global_excessive_sectors": ("derived__memory_l2_theoretical_sectors_global_excessive", "memory tables"),
    "shared_loads": ("smsp__sass_inst_executed_op_shared_ld.sum", "memory tables"),
    "shared_load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "memory tables"),
    "shared_load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "memory tables"),
    "shared_stores": ("smsp__sass_inst_executed_op_shared_st.sum", "memory tables"),
    "shared_store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "memory tables"),
    "shared_store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "memory tables"),
    "shared_excessive_wavefronts": ("derived__memory_l1_wavefronts_shared_excessive", "memory tables"),
    "active_warps": ("smsp__warps_active.avg.per_cycle_active", "scheduler"),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active", "scheduler"),
    "issued_warps": ("smsp__issue_active.avg.per_cycle_active", "scheduler"),
    "no_eligible": ("smsp__issue_inst0.avg.pct_of_peak_sustained_active", "scheduler"),
    "warp_cycles_per_instruction": ("smsp__average_warp_latency_per_inst_issued.ratio", "warp state"),
    "threads_per_instruction": ("smsp__thread_inst_executed_per_inst_executed.ratio", "warp state"),
    "executed_instructions": ("smsp__inst_executed.sum", "instructions"),
    "issued_instructions": ("smsp__inst_issued.sum", "instructions"),
    "grid_size": ("launch__grid_size", "launch"),
    "block_size": ("launch__block_size", "launch"),
    "registers": ("launch__registers_per_thread", "launch"),
    "static_shared": ("launch__shared_mem_per_block_static", "launch"),
    "dynamic_shared": ("launch__shared_mem_per_block_dynamic", "launch"),
    "waves": ("launch__waves_per_multiprocessor", "launch"),
    "block_limit_blocks": ("launch__occupancy_limit_blocks", "occupancy"),
    "block_limit_registers": ("launch__occupancy_limit_registers", "occupancy"),
    "block_limit_shared_memory": ("launch__occupancy_limit_shared_mem", "occupancy"),
    "block_limit_warps": ("launch__occupancy_limit_warps", "occupancy"),
    "theoretical_occupancy": ("sm__maximum_warps_per_active_cycle_pct", "occupancy"),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy"),
    "branch_instructions": ("smsp__inst_executed_op_branch.sum", "source counters"),
    "branch_efficiency": ("smsp__sass_average_branch_targets_threads_uniform.pct", "source counters"),
    "divergent_branches": ("smsp__sass_branch_targets_threads_divergent.avg", "source counters"),
}


# What the worklogs quote and Nsight Compute's report has as two counts: our name -> (one of HEADLINES, over another).
RATIOS = {
    "sectors_per_global_load_request": ("global_load_sectors", "global_load_requests"),
    "sectors_per_global_store_request": ("global_store_sectors", "global_store_requests"),
    "wavefronts_per_shared_load": ("shared_load_wavefronts", "shared_loads"),
    "wavefronts_per_shared_store": ("shared_store_wavefronts", "shared_stores"),
}


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV with six significant digits."""
    records.write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


TEXT = (
    "rung",
    "shape",
    "launched_at",
    "before",
    "message",
    "emulation",
    "determinism",
    "profile_message",
    "source",
    "throttle_reasons",
    "measured_at",
    "sizes",
)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table that `write_table` wrote: empty text stays empty text, shapes stay text."""
    columns = pd.read_csv(path, nrows=0).columns
    empty = {column: [""] for column in columns if column not in TEXT}
    return pd.read_csv(path, dtype=dict.fromkeys(TEXT, str), keep_default_na=False, na_values=empty)


def largest(shapes: Sequence[str]) -> str:
    """The square shape with most work among shapes as text; the first of all where none is square."""
    square = [shape for shape in shapes if "x" not in str(shape)]
    return str(max(square, key=int)) if square else next(iter(shapes), "")


def headline_shape(timings: pd.DataFrame) -> str | None:
    """The shape that a run is summed up at: the largest of those that the most rungs were timed at, squares first.

    Takes rung and shape of the table of timings; None where it is empty.
    """
    square = timings[~timings["shape"].astype(str).str.contains("x")]
    rungs = (timings if square.empty else square).groupby("shape")["rung"].nunique()
    return max(rungs.index, key=lambda shape: (rungs[shape], Shape.parse(str(shape)).flop)) if len(rungs) else None


def bootstrap_medians(samples: np.ndarray, key: str) -> np.ndarray:
    """Medians of RESAMPLES samples drawn with replacement; the draws depend on the key alone.

    B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (percentile intervals).
    """
    return _bootstrapped(samples.astype(float).tobytes(), key)


@cache
def _bootstrapped(samples: bytes, key: str) -> np.ndarray:
    values = np.frombuffer(samples)
    random = np.random.default_rng(int(records.digest(key), 16))
    medians = np.median(random.choice(values, (RESAMPLES, len(values))), axis=1)
    medians.setflags(write=False)
    return medians


def interval(values: np.ndarray) -> tuple[float, float]:
    """The percentile interval that holds CONFIDENCE percent of the bootstrapped values."""
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def timing_table(evidence: Sequence[Evidence], gpu: Gpu, baseline: str, first: str) -> pd.DataFrame:
    """One row a rung and shape: the summary of its samples, rates, and speedups measured side by side.

    Columns: rung, precision (the class that it claims), shape, m, n, k, samples, target_samples,
    time_ms_{mean,median,min,q1,q3,ci_low,ci_high}, noise_percent (standard deviation over mean), gflops,
    gflops_ci_low, gflops_ci_high, share_of_peak (of the FP32 units, for the class fp32 alone),
    speedup_over_{naive,cublas,before} each with _ci_low and _ci_high (cublas is the baseline of the rung's class; NaN
    where the other was not measured beside it), before, sm_clock_mhz (median), throttle_reasons, temperature_c,
    power_w, measured_at.
    """
    rows = []
    for item in evidence:
        if not item.sound:
            continue
        for shape in item.timings:
            references = {"naive": first, "cublas": item.rung.baseline or baseline, "before": item.rung.before}
            rows.append(_timing_row(item, shape, gpu, references))
    return pd.DataFrame(rows, columns=TIMING_COLUMNS)


_RATIOS = ("naive", "cublas", "before")
TIMING_COLUMNS = [
    *("rung", "precision", "shape", "m", "n", "k", "samples", "target_samples"),
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
        "precision": item.rung.precision,
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
            "share_of_peak": rate / np.median(times) / gpu.peak_gflops if item.rung.precision == "fp32" else np.nan,
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

    Columns: rung, precision, over (naive, cublas or before), shapes (how many), speedup, ci_low, ci_high.
    """
    rows = []
    for item in evidence:
        if not item.sound or item.rung.role == "floor":
            continue
        square = [s for s in item.timings if s.m == s.n == s.k and s.n >= WORKLOG_MINIMUM]
        references = {"naive": first, "cublas": item.rung.baseline or baseline, "before": item.rung.before}
        for label, other in references.items():
            ratios = [ratio for shape in square if (ratio := speedup(item, shape, other)) is not None]
            if not ratios:
                continue
            low, high = interval(np.exp(np.mean([np.log(values) for _, values in ratios], axis=0)))
            mean = float(np.exp(np.mean([np.log(value) for value, _ in ratios])))
            rows.append((item.rung.name, item.rung.precision, label, len(ratios), mean, low, high))
    return pd.DataFrame(rows, columns=["rung", "precision", "over", "shapes", "speedup", "ci_low", "ci_high"])


def rung_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung: what it is and how it fared.

    Columns: rung, title, role, precision, before, status, message, emulation (`emulated` where the source passed the
    check on a CPU, `needs a GPU` where it cannot, `wrong`, or `not emulated`), determinism (of the recorded check,
    `5 runs alike` or `declared not to be`), checked_cases, timed_shapes, profiled_shapes, profile_message, parameters
    (of the GPU's tuned file, by size; empty where the source's own are used), source (`current`, `changed since` or
    empty), measured_at (of the latest record), check_wall_s and
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
                "emulation": item.emulation,
                "determinism": item.determinism,
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
    *("rung", "title", "role", "precision", "before", "status", "message", "emulation", "determinism"),
    *("checked_cases", "timed_shapes"),
    *("profiled_shapes", "profile_message", "parameters", "source", "measured_at"),
    *("check_wall_s", "time_wall_s", "time_gpu_s"),
]


def check_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and case: its verdict, and each error beside its bound; then one a tool of the sanitizer.

    Columns: rung, by (`check`, or a tool of compute-sanitizer), shape (of a tool's row all that it watched), alpha,
    beta, padding, offset, family (of the inputs), verdict, error_componentwise, bound_componentwise, error_normwise,
    bound_normwise (all four relative, without unit, all but bound_componentwise with three digits; of the norm only
    where the statistical test applies). The seeds of the inputs stand in the records of the check.
    """
    columns = [
        *("rung", "by", "shape", "alpha", "beta", "padding", "offset", "family", "verdict"),
        *("error_componentwise", "bound_componentwise", "error_normwise", "bound_normwise"),
    ]
    rows = []
    for item in evidence:
        for case in item.check["cases"] if item.check else ():
            k = Shape.parse(case["shape"]).k
            bounds = {"family": "uniform", "bound_componentwise": componentwise_bound(k, BOUNDS[item.rung.precision])}
            rows.append({"rung": item.rung.name, "by": "check", **bounds, **case})
        for tool in item.sanitized["tools"] if item.sanitized else ():
            shapes = " ".join(dict.fromkeys(case["shape"] for case in item.sanitized["cases"]))
            verdict = "pass" if tool["verdict"] == "pass" else f"{tool['verdict']}: {tool['message']}"
            rows.append({"rung": item.rung.name, "by": tool["tool"], "shape": shapes, "verdict": verdict})
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("padding", "offset"), "Int64"))
    for name in ("error_componentwise", "error_normwise", "bound_normwise"):
        table[name] = table[name].map(lambda value: float(f"{value:.3g}"), na_action="ignore")
    return table


def resource_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and launched kernel: what it takes of an SM, by the compiler and the rung's own launch.

    Columns: rung, shape, kernel, multiplies (whether it is, of the rung's launches at the shape, the one that computes
    the product), grid, block_threads, registers (a thread), static_shared_bytes and dynamic_shared_bytes (a block),
    stack_bytes, spill_store_bytes, spill_load_bytes (a thread), blocks_per_sm,
    occupancy_percent (theoretical), occupancy_limited_by, block_limit_{warps,registers,shared_memory,blocks} (by
    cuda_occupancy.h; empty where the SM's limits are not known), architecture, nvcc.
    """
    rows = []
    for item in evidence:
        resources = {kernel["symbol"]: kernel for kernel in item.inspection["kernels"]}
        for shape, launches in item.inspection["launches"].items():
            main = main_kernel(item.inspection, shape)
            for launch in launches:
                kernel = resources.get(launch["symbol"], {})
                rows.append(
                    {
                        "rung": item.rung.name,
                        "shape": shape,
                        "kernel": kernel.get("kernel", ""),
                        "multiplies": main is not None and launch is main[0],
                        "grid": "x".join(map(str, launch["grid"])),
                        "block_threads": int(np.prod(launch["block"])),
                        **{key: kernel.get(key) for key in RESOURCES},
                        "dynamic_shared_bytes": launch["dynamic_shared_bytes"],
                        **_occupancy(launch),
                        "architecture": item.inspection["architecture"],
                        "nvcc": item.inspection["nvcc"],
                    }
                )
    columns = ["rung", "shape", "kernel", "multiplies", "grid", "block_threads", *RESOURCES, *_AFTER]
    return pd.DataFrame(rows, columns=columns)


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

    Columns: rung, kernel, launched_at (the shapes of this run), part, instructions, one column a class of instructions
    (`ladder.sass.CLASSES` and other, as compiled: a guarded branch counts as if taken), {lds,ldg,...}_{32,64,128}bit,
    ffma_share (of issue slots), shared_loads_per_ffma, global_loads_per_ffma, load_bytes_per_ffma (a thread),
    wavefronts_per_ffma (at least), bank_conflicts and reused_operands (of FFMAs). The ratios are the inner loop's.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for item in evidence:
        for shape in item.inspection["launches"]:
            found = main_kernel(item.inspection, shape)
            for part in ("whole", "loop") if found else ():
                kernel = found[1]
                counts = kernel["code"][part]
                key = (item.rung.name, kernel["symbol"], part)
                rows[key] = {
                    "rung": item.rung.name,
                    "kernel": kernel["kernel"],
                    "launched_at": f"{rows[key]['launched_at']} {shape}" if key in rows else shape,
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
    *("rung", "kernel", "launched_at", "part", "instructions", *sass.CLASSES, "other"),
    *(f"{kind}_{bits}bit" for kind in ("lds", "sts", "ldg", "stg", "ldgsts") for bits in (32, 64, 128)),
    *("ffma_share", "shared_loads_per_ffma", "global_loads_per_ffma", "load_bytes_per_ffma", "wavefronts_per_ffma"),
    *("bank_conflicts", "reused_operands"),
]


def paper_table(evidence: Sequence[Evidence], gpu: Gpu) -> pd.DataFrame:
    """The calculation on paper (`ladder.paper`) beside what was measured: one row a rung and shape.

    Where tensor cores multiply, or another class than fp32 is claimed, what only FFMAs have is empty: the compute
    floor, the thread tile and its reads from shared memory, the ceilings.

    Columns: rung, shape, flop, minimum_bytes, compute_floor_ms, memory_floor_ms, intensity_minimum, BM, BN, TM, TN,
    global_reads_per_result, shared_reads_per_result (elements), intensity_global, intensity_shared (FLOP a byte),
    blocks, blocks_per_sm, waves, tail_percent, wavefronts_per_ffma and wavefronts_from (`profile` where one of this
    build and shape is recorded, else `code`, the least), ceiling_{fp32_units,issue_slots,load_pipe,dram}_gflops,
    predicted_gflops (the lowest ceiling), predicted_ms, bound_by, measured_gflops (the median), share_of_prediction.
    """
    rows = []
    for item in evidence:
        if item.rung.role != "rung" or not item.inspection["launches"]:
            continue
        for text in item.inspection["launches"]:
            found, shape = main_kernel(item.inspection, text), Shape.parse(text)
            if found is None:
                continue
            launch, kernel = found
            by_ffmas = item.rung.precision == "fp32" and bool(sass.ratios(kernel["code"]["loop"]))
            tile = tile_of(item.rung, shape)
            loop = kernel["code"]["loop"]
            blocks = math.prod(launch["grid"])
            held = (launch.get("occupancy") or {}).get("blocks")
            filled = waves(blocks, held, gpu.sms) if held else {"balance": 1.0}
            profile = item.profiles.get(text)
            metrics = main_profile(profile["kernels"])["metrics"] if profile else {}
            seen = Profile(metrics).wavefronts_per_ffma(gpu.sms)
            limits = ceilings(gpu, shape, loop, filled["balance"], seen) if by_ffmas else {}
            bound = min(limits, key=lambda name: limits[name], default="")
            lowest = limits.get(bound, math.nan)
            timing = item.timings.get(shape) if item.sound else None
            measured = shape.flop / np.median(timing.own.times_s) / 1e9 if timing else math.nan
            asked = accesses(tile, shape.k, not by_ffmas or bool(kernel["code"]["whole"]["mix"]["LDS"]))
            of_ffmas = ("compute_floor_ms", "TM", "TN", "shared_reads_per_result", "intensity_shared")
            rows.append(
                {
                    "rung": item.rung.name,
                    "shape": text,
                    **floors(shape, gpu),
                    **tile,
                    **asked,
                    **({} if by_ffmas else dict.fromkeys(of_ffmas, math.nan)),
                    "blocks": blocks,
                    "blocks_per_sm": held,
                    **filled,
                    **load_pipe_wavefronts(loop if by_ffmas else None, seen if by_ffmas else math.nan),
                    **{f"ceiling_{name.lower().replace(' ', '_')}_gflops": limit for name, limit in limits.items()},
                    "predicted_gflops": lowest,
                    "predicted_ms": shape.flop / lowest / 1e6,
                    "bound_by": bound,
                    "measured_gflops": measured,
                    "share_of_prediction": measured / lowest,
                }
            )
    return pd.DataFrame(rows, columns=PAPER_COLUMNS)


PAPER_COLUMNS = [
    *("rung", "shape", "flop", "minimum_bytes", "compute_floor_ms", "memory_floor_ms", "intensity_minimum"),
    *("BM", "BN", "TM", "TN", "global_reads_per_result", "shared_reads_per_result"),
    *("intensity_global", "intensity_shared", "blocks", "blocks_per_sm", "waves", "tail_percent"),
    *("wavefronts_per_ffma", "wavefronts_from"),
    *(f"ceiling_{name}_gflops" for name in ("fp32_units", "issue_slots", "load_pipe", "dram")),
    *("predicted_gflops", "predicted_ms", "bound_by", "measured_gflops", "share_of_prediction"),
]


def profile_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape, kernel and headline metric of Nsight Compute, RATIOS of them last.

    Columns: rung, shape, kernel, multiplies (whether it is the one of the product's kernels that computes it), section,
    name (ours), metric (Nsight Compute's), value, unit.
    """
    rows = []
    for item in evidence:
        for shape, profile in item.profiles.items():
            main = main_profile(profile["kernels"])
            for kernel in profile["kernels"]:
                own = (item.rung.name, shape, kernel["kernel"], kernel is main)
                for name, (metric, section) in (HEADLINES | _stalls(kernel["metrics"])).items():
                    value, unit = kernel["metrics"].get(metric, (None, ""))
                    unit = _UNITS.get(name, unit)
                    rows.append((*own, section, name, metric, value, unit))
                for name, parts in RATIOS.items():
                    over, under = (HEADLINES[part][0] for part in parts)
                    counts = [kernel["metrics"].get(metric, (0,))[0] for metric in (over, under)]
                    value = counts[0] / counts[1] if counts[1] else None
                    rows.append((*own, HEADLINES[parts[0]][1], name, f"{over} / {under}", value, ""))
    columns = ["rung", "shape", "kernel", "multiplies", "section", "name", "metric", "value", "unit"]
    return pd.DataFrame(rows, columns=columns)


# Where Nsight Compute's unit is not what it counts: it calls these sectors bytes.
_UNITS = {"global_excessive_sectors": "sector"}


def _stalls(metrics: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The stall reasons of a profile: the cycles that a warp waits for each, for each instruction it issues."""
    found = {match[1]: metric for metric in metrics if (match := _STALL.fullmatch(metric))}
    return {f"stall_{reason}": (metric, "warp state") for reason, metric in sorted(found.items())}


_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def advice_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a piece of Nsight Compute's advice, by its estimated speedup.

    Columns: rung, shape, kernel, multiplies (whether it is the one of the product's kernels that computes it), section,
    rule, title, estimated_speedup_percent (may be empty), message.
    """
    columns = [
        "rung",
        "shape",
        "kernel",
        "multiplies",
        "section",
        "rule",
        "title",
        "estimated_speedup_percent",
        "message",
    ]
    rows = [
        {"rung": item.rung.name, "shape": shape, "kernel": kernel["kernel"], "multiplies": kernel is main, **advice}
        for item in evidence
        for shape, profile in item.profiles.items()
        for main in [main_profile(profile["kernels"])]
        for kernel in profile["kernels"]
        for advice in sorted(kernel["advice"], key=lambda advice: -(advice["estimated_speedup_percent"] or 0))
    ]
    return pd.DataFrame(rows, columns=columns)


def hotspot_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and source line: the ten lines at which most stalled warps were sampled.

    Columns: rung, shape, place (of the ten), file, line, samples, percent (of all stalled samples), reason (the first),
    text. No rows for profiles that were recorded without their lines.
    """
    rows = [
        {"rung": item.rung.name, "shape": shape, "place": place, **line}
        for item in evidence
        for shape, profile in item.profiles.items()
        for place, line in enumerate(top_lines(main_profile(profile["kernels"])), 1)
    ]
    return pd.DataFrame(
        rows, columns=["rung", "shape", "place", "file", "line", "samples", "percent", "reason", "text"]
    )


def slot_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and use of the issue slots (`ladder.diagnosis.slots`).

    Columns: rung, shape, use (FFMA, tensor cores, other instructions, or the stall reason of empty slots), percent.
    """
    rows = [
        (item.rung.name, shape, use, percent)
        for item in evidence
        for shape, profile in item.profiles.items()
        for use, percent in slots(Profile.of(main_profile(profile["kernels"]))).items()
    ]
    return pd.DataFrame(rows, columns=["rung", "shape", "use", "percent"])


def followers(rungs: Sequence[Rung]) -> dict[str, str]:
    """The rung that follows each: the first whose `before` it is; of its variants the one that others build on."""
    found: dict[str, Rung] = {}
    built_on = {rung.before for rung in rungs}
    for rung in rungs:
        first = found.setdefault(rung.before, rung)
        if first.entry == rung.entry and first.name not in built_on and rung.name in built_on:
            found[rung.before] = rung
    return {before: rung.name for before, rung in found.items() if before}


def diagnosis_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and finding, by rank: what binds the rung, and what the next rung does about it.

    Columns: rung, shape, rank, finding, slots_percent, of (what it is a share of: the issue slots, or the tensor pipe's
    cycles), evidence, next_rung (`followers`; empty where none is), next_slots_percent
    (the same finding there, however small; 0 where its rule does not apply, empty where that rung has no profile of
    this shape or its shares are of something else).
    """
    profiles = {
        (item.rung.name, shape): Profile.of(main_profile(profile["kernels"]))
        for item in evidence
        for shape, profile in item.profiles.items()
    }
    following = followers([item.rung for item in evidence])
    rows = []
    for (name, shape), profile in profiles.items():
        follower = following.get(name, "")
        after = profiles.get((follower, shape))
        after = after if after is not None and after.slots == profile.slots else None
        then = {} if after is None else {found.rule: found.slots_percent for found in diagnose(after, least=0.0)}
        works = {} if after is None else slots(after)  # told of the next rung however few they are
        then |= {FP32_UNITS: works.get("FFMA"), TENSOR_CORES: works.get(TENSOR_CORES)}
        for rank, finding in enumerate(diagnose(profile), 1):
            rows.append(
                {
                    "rung": name,
                    "shape": shape,
                    "rank": rank,
                    "finding": finding.rule,
                    "slots_percent": finding.slots_percent,
                    "of": profile.slots,
                    "evidence": finding.evidence,
                    "next_rung": follower,
                    "next_slots_percent": math.nan if after is None else then.get(finding.rule, 0.0),
                }
            )
    return pd.DataFrame(rows, columns=DIAGNOSIS_COLUMNS)


DIAGNOSIS_COLUMNS = [
    *("rung", "shape", "rank", "finding", "slots_percent", "of", "evidence", "next_rung", "next_slots_percent"),
]

# The rows of the comparison of rungs: what it says -> (name in HEADLINES, unit, factor).
_COMPARED = {
    "time": ("duration", "ms", 1e-6),
    "compute throughput": ("compute_throughput", "%", 1),
    "memory throughput": ("memory_throughput", "%", 1),
    "DRAM throughput": ("dram_throughput", "%", 1),
    "FMA pipe active": ("fma_pipe_active", "%", 1),
    "tensor pipe active": ("tensor_pipe_active", "%", 1),
    "issue slots busy": ("issue_slots_busy", "%", 1),
    "no eligible warp": ("no_eligible", "%", 1),
    "executed instructions": ("executed_instructions", "million", 1e-6),
    "shared loads": ("shared_loads", "million", 1e-6),
    "shared stores": ("shared_stores", "million", 1e-6),
    "L1 hit rate": ("l1_hit_rate", "%", 1),
    "L2 hit rate": ("l2_hit_rate", "%", 1),
    "bank conflicts, shared loads": ("shared_load_conflicts", "million", 1e-6),
    "bank conflicts, shared stores": ("shared_store_conflicts", "million", 1e-6),
    "stall MIO throttle": ("stall_mio_throttle", "cycles", 1),
    "stall short scoreboard": ("stall_short_scoreboard", "cycles", 1),
    "stall LG throttle": ("stall_lg_throttle", "cycles", 1),
    "stall long scoreboard": ("stall_long_scoreboard", "cycles", 1),
    "stall barrier": ("stall_barrier", "cycles", 1),
    "stall dispatch": ("stall_dispatch_stall", "cycles", 1),
    "theoretical occupancy": ("theoretical_occupancy", "%", 1),
    "achieved occupancy": ("achieved_occupancy", "%", 1),
    "registers a thread": ("registers", "", 1),
}


def rung_comparison(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """The worklogs' table: one row a shape and metric of Nsight Compute, one column a rung.

    Columns: shape, metric, unit, then the rungs that have a profile, in climbing order. Stalls are cycles that a warp
    waits for each instruction that it issues. Of several kernels of one product the one that computes it counts.
    """
    columns: dict[str, dict[tuple[str, str, str], float]] = {}
    for item in evidence:
        for shape, profile in item.profiles.items():
            metrics = main_profile(profile["kernels"])["metrics"]
            names = HEADLINES | _stalls(metrics)
            for label, (name, unit, factor) in _COMPARED.items():
                value = metrics.get(names[name][0], (math.nan,))[0] if name in names else math.nan
                columns.setdefault(item.rung.name, {})[shape, label, unit] = value * factor
    keys = list(dict.fromkeys(key for column in columns.values() for key in column))
    table = pd.DataFrame(keys, columns=["shape", "metric", "unit"])
    for name, column in columns.items():
        table[name] = [column.get(key, math.nan) for key in keys]
    return table


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
        "metrics_by_rung": rung_comparison(evidence),
        "slots": slot_table(evidence),
        "diagnosis": diagnosis_table(evidence),
        "hotspots": hotspot_table(evidence),
        "environment": environment_table(evidence, gpu),
    }
