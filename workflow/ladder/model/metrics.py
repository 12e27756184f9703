"""Nsight Compute's metrics: what each is called here and there, its unit, and what it says.

The rest of the package knows a metric by its name here; no other module spells one of Nsight Compute's. Their meaning:
NVIDIA, Nsight Compute Profiling Guide, «Metrics Reference».
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """One metric: its name here, its name in Nsight Compute (`counter`), its unit, its section, and what it says.

    The section is that of Nsight Compute's report; it is empty for a metric that only the diagnosis reads.
    """

    name: str
    counter: str
    unit: str
    section: str
    meaning: str


@dataclass(frozen=True)
class Ratio:
    """What the SGEMM worklogs quote and Nsight Compute has as two counts: one metric over another, by their names."""

    name: str
    over: str
    under: str
    meaning: str


# Section -> name, counter, unit, meaning.
# fmt: off
_COUNTED = {
    "speed of light": (
        ("duration", "gpu__time_duration.sum", "ns",
         "how long the kernel ran"),
        ("elapsed_cycles", "gpc__cycles_elapsed.max", "cycle",
         "clock cycles from the kernel's start to its end"),
        ("sm_active_cycles", "sm__cycles_active.avg", "cycle",
         "cycles in which an SM had at least one warp, mean over the SMs"),
        ("sm_frequency", "smsp__cycles_elapsed.avg.per_second", "hz",
         "the SMs' clock while the kernel ran"),
        ("dram_frequency", "dram__cycles_elapsed.avg.per_second", "hz",
         "the device memory's clock while the kernel ran"),
        ("compute_throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%",
         "how near the busiest part of the SMs came to its peak"),
        ("memory_throughput", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%",
         "how near the busiest part of the memory system came to its peak"),
        ("dram_throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%",
         "how near the device memory came to its peak"),
        ("l2_throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed", "%",
         "how near the L2 cache came to its peak"),
        ("l1_throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active", "%",
         "how near the L1 caches came to their peak"),
    ),
    "roofline": (
        ("ffma_per_cycle", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed", "inst/cycle",
         "FP32 multiply-adds of single threads that the GPU did in a cycle"),
        ("dram_bytes_read", "dram__bytes_read.sum", "byte",
         "bytes read from device memory"),
        ("dram_bytes_written", "dram__bytes_write.sum", "byte",
         "bytes written to device memory"),
        ("dram_peak", "dram__bytes.sum.peak_sustained", "byte/cycle",
         "bytes that device memory can move in one of its cycles"),
        ("l2_sectors", "lts__t_sectors_srcunit_tex_op_read.sum", "sector",
         "sectors of 32 bytes that the SMs read from the L2 cache"),
        ("l2_sectors_written", "lts__t_sectors_srcunit_tex_op_write.sum", "sector",
         "sectors of 32 bytes that the SMs wrote to the L2 cache"),
        ("l2_peak", "derived__lts__lts2xbar_bytes.sum.peak_sustained", "byte",
         "bytes that the L2 cache can send to the SMs in one of its cycles"),
    ),
    "compute workload": (
        ("ipc_active", "sm__inst_executed.avg.per_cycle_active", "inst/cycle",
         "instructions of warps that an SM executed in a cycle with at least one warp"),
        ("ipc_elapsed", "sm__inst_executed.avg.per_cycle_elapsed", "inst/cycle",
         "instructions of warps that an SM executed in a cycle of the kernel"),
        ("issue_slots_busy", "smsp__issue_active.avg.pct_of_peak_sustained_active", "%",
         "issue slots that held an instruction"),
        ("fma_pipe_active", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "%",
         "cycles in which the FP32 pipe worked"),
        ("tensor_pipe_active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%",
         "cycles in which the tensor pipe worked, for mma.sync (HMMA) and for wgmma (HGMMA)"),
        ("tma_pipe_active", "sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_active", "%",
         "cycles in which the bulk copy engine (TMA) worked"),
    ),
    "memory workload": (
        ("l1_hit_rate", "l1tex__t_sector_hit_rate.pct", "%",
         "requested sectors that the L1 caches held"),
        ("l2_hit_rate", "lts__t_sector_hit_rate.pct", "%",
         "requested sectors that the L2 cache held"),
        ("dram_bytes", "dram__bytes.sum.per_second", "byte/s",
         "bytes moved from and to device memory in a second"),
        ("memory_busy", "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed", "%",
         "how near the busiest unit inside the caches and the device memory came to its peak"),
        ("load_pipe_busy", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "%",
         "cycles in which an SM's load/store pipe did a pass (wavefront)"),
    ),
    "memory tables": (
        ("global_load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "",
         "loads from global memory that warps asked for"),
        ("global_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector",
         "sectors of 32 bytes that these loads touched"),
        ("global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "",
         "stores to global memory that warps asked for"),
        ("global_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector",
         "sectors of 32 bytes that these stores touched"),
        ("global_excessive_sectors", "derived__memory_l2_theoretical_sectors_global_excessive", "sector",
         "sectors that were touched only because a warp's addresses lay apart"),
        ("shared_loads", "smsp__sass_inst_executed_op_shared_ld.sum", "inst",
         "loads from shared memory that warps executed"),
        ("shared_load_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "",
         "passes of the load/store pipe for these loads"),
        ("shared_load_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "",
         "passes for loads that were added by bank conflicts or by waiting for the pipe"),
        ("shared_stores", "smsp__sass_inst_executed_op_shared_st.sum", "inst",
         "stores to shared memory that warps executed"),
        ("shared_store_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "",
         "passes of the load/store pipe for these stores"),
        ("shared_store_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "",
         "passes for stores that were added by bank conflicts or by waiting for the pipe"),
        ("shared_excessive_wavefronts", "derived__memory_l1_wavefronts_shared_excessive", "",
         "passes that the addresses alone made necessary: bank conflicts"),
    ),
    "scheduler": (
        ("active_warps", "smsp__warps_active.avg.per_cycle_active", "warp",
         "warps that a scheduler held"),
        ("eligible_warps", "smsp__warps_eligible.avg.per_cycle_active", "warp",
         "warps of a scheduler that could issue in a cycle"),
        ("issued_warps", "smsp__issue_active.avg.per_cycle_active", "",
         "instructions that a scheduler issued in a cycle, one at most"),
        ("no_eligible", "smsp__issue_inst0.avg.pct_of_peak_sustained_active", "%",
         "cycles in which no warp of a scheduler could issue"),
    ),
    "warp state": (
        ("warp_cycles_per_instruction", "smsp__average_warp_latency_per_inst_issued.ratio", "cycle",
         "cycles between two instructions of a warp"),
        ("threads_per_instruction", "smsp__thread_inst_executed_per_inst_executed.ratio", "",
         "threads of a warp that took part in an instruction"),
    ),
    "instructions": (
        ("executed_instructions", "smsp__inst_executed.sum", "inst",
         "instructions that warps executed"),
        ("issued_instructions", "smsp__inst_issued.sum", "inst",
         "instructions that schedulers issued, those counted that had to be issued again"),
    ),
    "launch": (
        ("grid_size", "launch__grid_size", "",
         "blocks of the launch"),
        ("block_size", "launch__block_size", "",
         "threads of a block"),
        ("registers", "launch__registers_per_thread", "register/thread",
         "registers that a thread takes"),
        ("static_shared", "launch__shared_mem_per_block_static", "byte/block",
         "shared memory of a block that the source declares"),
        ("dynamic_shared", "launch__shared_mem_per_block_dynamic", "byte/block",
         "shared memory of a block that the launch asks for"),
        ("waves", "launch__waves_per_multiprocessor", "",
         "how often the blocks fill the GPU"),
    ),
    "occupancy": (
        ("block_limit_blocks", "launch__occupancy_limit_blocks", "block",
         "blocks that an SM can hold at most"),
        ("block_limit_registers", "launch__occupancy_limit_registers", "block",
         "blocks that an SM's registers are enough for"),
        ("block_limit_shared_memory", "launch__occupancy_limit_shared_mem", "block",
         "blocks that an SM's shared memory is enough for"),
        ("block_limit_warps", "launch__occupancy_limit_warps", "block",
         "blocks that an SM's warps are enough for"),
        ("theoretical_occupancy", "sm__maximum_warps_per_active_cycle_pct", "%",
         "warps that an SM can hold of this kernel, of all that it can hold"),
        ("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "%",
         "warps that an SM did hold, of all that it can hold"),
    ),
    "source counters": (
        ("branch_instructions", "smsp__inst_executed_op_branch.sum", "inst",
         "branches that warps executed"),
        ("branch_efficiency", "smsp__sass_average_branch_targets_threads_uniform.pct", "%",
         "branches at which all threads of a warp went the same way"),
        ("divergent_branches", "smsp__sass_branch_targets_threads_divergent.avg", "branches",
         "branches at which threads of a warp parted, mean over the schedulers"),
    ),
    "": (
        ("scheduler_cycles", "smsp__cycles_elapsed.avg", "cycle",
         "cycles of a scheduler from the kernel's start to its end"),
        ("sm_elapsed_cycles", "sm__cycles_elapsed.max", "cycle",
         "cycles of an SM from the kernel's start to its end"),
        ("global_sectors", "memory_l2_theoretical_sectors_global", "sector",
         "sectors that loads and stores of global memory touched"),
        ("global_loads", "smsp__sass_inst_executed_op_global_ld.sum", "inst",
         "loads from global memory that warps executed"),
        ("global_stores", "smsp__sass_inst_executed_op_global_st.sum", "inst",
         "stores to global memory that warps executed"),
        ("global_copies", "smsp__inst_executed_op_ldgsts.sum", "inst",
         "copies from global to shared memory (cp.async) that warps executed"),
        ("shared_load_busy", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum.pct_of_peak_sustained_elapsed", "%",
         "cycles in which the load/store pipe did a pass for a load from shared memory"),
        ("shared_store_busy", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum.pct_of_peak_sustained_elapsed", "%",
         "cycles in which the load/store pipe did a pass for a store to shared memory"),
    ),
}
# fmt: on

METRICS = {
    name: Metric(name, counter, unit, section, meaning)
    for section, rows in _COUNTED.items()
    for name, counter, unit, meaning in rows
}
RATIOS = (
    Ratio(
        "sectors_per_global_load_request", "global_load_sectors", "global_load_requests",
        "sectors that a load from global memory touched; 4 hold 32 neighbouring floats",
    ),
    Ratio(
        "sectors_per_global_store_request", "global_store_sectors", "global_store_requests",
        "sectors that a store to global memory touched; 4 hold 32 neighbouring floats",
    ),
    Ratio(
        "wavefronts_per_shared_load", "shared_load_wavefronts", "shared_loads",
        "passes of the load/store pipe that a load from shared memory took",
    ),
    Ratio(
        "wavefronts_per_shared_store", "shared_store_wavefronts", "shared_stores",
        "passes of the load/store pipe that a store to shared memory took",
    ),
)  # fmt: skip

# What a warp waits for between two of its instructions.
STALLS = {
    "barrier": "the other warps of its block, at a barrier",
    "branch_resolving": "a branch to be taken",
    "dispatch_stall": "the dispatcher, which holds the chosen instruction back",
    "drain": "its stores to be written before it ends",
    "gmma": "the tensor core, at work on a wgmma",
    "imc_miss": "a constant that the cache does not hold",
    "lg_throttle": "a place in the full queue of global and local memory",
    "long_scoreboard": "data from global, local or texture memory",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "membar": "a memory barrier",
    "mio_throttle": "a place in the full queue of shared memory and special instructions (MIO)",
    "misc": "something else",
    "no_instruction": "its next instruction to be fetched",
    "not_selected": "its turn: it could issue, another warp did",
    "selected": "nothing: it issues",
    "short_scoreboard": "data from shared memory or a special instruction (MIO)",
    "sleeping": "the time that it asked to sleep",
    "tex_throttle": "a place in the full queue of texture memory",
    "wait": "a fixed number of cycles, for its own last instruction",
    "warpgroup_arrive": "the other warps of its warp group, before a wgmma",
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
# Counted at each instruction, and for each opcode.
EXECUTED_AT, EXECUTED_OPCODES = "inst_executed", "sass__inst_executed_per_opcode"


def value_of(metrics: Mapping[str, Any], name: str, missing: float = math.nan) -> float:
    """A metric's value in a record (counter -> [value, unit]), by its name here; `missing` where it has none."""
    found = metrics.get(METRICS[name].counter, (missing,))[0]
    return float(found) if isinstance(found, (int, float)) else missing


def stall_counters(metrics: Mapping[str, Any]) -> dict[str, str]:
    """The reasons for which warps stalled in a record, sorted, and the counter of each.

    It counts the cycles that a warp waits for that reason, for each instruction that it issues.
    """
    return dict(sorted((match[1], counter) for counter in metrics if (match := _STALL.fullmatch(counter))))


def sampled_reason(counter: str) -> str:
    """What the warps that a counter samples were waiting for; empty for any other counter."""
    sampled = counter.startswith(_SAMPLES) and not counter.endswith("_not_issued")
    return counter.removeprefix(_SAMPLES) if sampled else ""


def is_kept(counter: str) -> bool:
    """Whether a record keeps a counter: not a property of the device, nor samples over time (no one value)."""
    return not counter.startswith("device__attribute_") and ".TriageCompute." not in counter
