"""What Nsight Compute measured: named metrics, advice, hot lines, issue slots, findings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.model.rung import Rung
from ladder.tables.diagnosis import FP32_UNITS, TENSOR_CORES, Profile, diagnose, main_profile, slots, top_lines
from ladder.tables.evidence import Evidence

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
    """One row a rung, shape and use of the issue slots (`ladder.tables.diagnosis.slots`).

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
