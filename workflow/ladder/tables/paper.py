"""The calculation on paper: what a product needs, what a rung asks for, and the ceilings that follow, without a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ladder.build import sass
from ladder.config.sources import source_of_rung, source_text
from ladder.config.wrapper import parameters_of
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.model.shape import Shape

FLOAT = 4  # bytes
ISSUE_SLOTS = 4  # instructions that an SM issues in a cycle, one for each of its schedulers, since Maxwell
_DEFAULT = re.compile(r"^#ifndef\s+(\w+)\s*\n#define\s+\1\s+(\d+)\s*$", re.MULTILINE)


def default_macros(rung: Rung) -> dict[str, str]:
    """The macros that a rung's source has where no other are given, with their values."""
    if not source_of_rung(rung).is_file():
        return {}
    parameters = {name: str(value) for name, value in parameters_of(rung).items()}
    return dict(_DEFAULT.findall(source_text(rung))) | parameters


def tile_of(rung: Rung, shape: Shape) -> dict[str, int]:
    """The block tile BM x BN and the thread tile TM x TN of a rung at a shape, from its source's macros and its own.

    TILE stands for BM and BN of a square tile, a thread tile that is not given is 1. Empty where there is no tile.
    """
    macros = default_macros(rung) | rung.macros_at(shape)
    values = {key: int(value) for key, value in macros.items() if str(value).isdigit()}
    if "TILE" in values:
        values |= {"BM": values["TILE"], "BN": values["TILE"]}
    if not {"BM", "BN"} <= values.keys():
        return {}
    return {key: values.get(key, 1) for key in ("BM", "BN", "TM", "TN")}


def floors(shape: Shape, gpu: Gpu) -> dict[str, float]:
    """What any kernel needs for C = A . B, each matrix moved once.

    Keys: flop (2mnk), minimum_bytes, compute_floor_ms and memory_floor_ms (at the GPU file's peaks), and
    intensity_minimum (FLOP a byte). S. Williams et al., Roofline, Communications of the ACM 52(4), 2009.
    """
    moved = FLOAT * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    return {
        "flop": shape.flop,
        "minimum_bytes": moved,
        "compute_floor_ms": shape.flop / gpu.peak_gflops / 1e6,
        "memory_floor_ms": moved / gpu.memory_bandwidth_gb_s / 1e6,
        "intensity_minimum": shape.flop / moved,
    }


def accesses(tile: Mapping[str, int], k: int, shared: bool) -> dict[str, float]:
    """Elements read for each result, and the FLOP for each byte of them.

    Of a block tile BM x BN a block reads k (BM + BN) elements for BM BN results, so k/BN + k/BM each; of a thread tile
    TM x TN likewise from shared memory. Without tiles in shared memory a thread reads its own row and column: 2k / 1.

    Keys: global_reads_per_result, shared_reads_per_result (elements), intensity_global, intensity_shared (FLOP a byte;
    not a number where nothing is read).
    """
    if not shared:
        return {
            "global_reads_per_result": 2 * k,
            "shared_reads_per_result": 0,
            "intensity_global": 2 * k / (FLOAT * 2 * k),
            "intensity_shared": math.nan,
        }
    if not tile:
        return dict.fromkeys(_ACCESSES, math.nan)
    from_global = k / tile["BN"] + k / tile["BM"]
    from_shared = k / tile["TN"] + k / tile["TM"]
    return {
        "global_reads_per_result": from_global,
        "shared_reads_per_result": from_shared,
        "intensity_global": 2 * k / (FLOAT * from_global),
        "intensity_shared": 2 * k / (FLOAT * from_shared),
    }


_ACCESSES = ("global_reads_per_result", "shared_reads_per_result", "intensity_global", "intensity_shared")


def waves(blocks: int, blocks_per_sm: int, sms: int) -> dict[str, float]:
    """How a grid fills a GPU.

    Keys: waves (of all blocks that the GPU holds at once), tail_percent (of the last wave's places that stay empty),
    balance (share of the time that the SMs work at most, where all blocks take as long: blocks over what the SM with
    most blocks gets, times the SMs).
    """
    filled = blocks / (blocks_per_sm * sms)
    return {
        "waves": filled,
        "tail_percent": 100 * (math.ceil(filled) - filled),
        "balance": blocks / (sms * math.ceil(blocks / sms)),
    }


def load_pipe_wavefronts(loop: Mapping[str, Any] | None, profiled: float, source: str = "profile") -> dict[str, Any]:
    """Passes of an SM's load/store data pipe for each FFMA of a warp.

    Keys: wavefronts_per_ffma and wavefronts_from: `source` where a profile says how many there were (`profiled`, else
    not a number), else `code`, the least that the inner loop's loads can take. Only a profile knows which addresses the
    lanes of a warp ask for, so how many passes an uncoalesced load or a bank conflict costs.
    """
    if not math.isnan(profiled):
        return {"wavefronts_per_ffma": profiled, "wavefronts_from": source}
    if loop is None:
        return {"wavefronts_per_ffma": math.nan, "wavefronts_from": ""}
    return {"wavefronts_per_ffma": sass.ratios(loop)["wavefronts_per_ffma"], "wavefronts_from": "code"}


def ceilings(
    gpu: Gpu, shape: Shape, loop: Mapping[str, Any] | None, balance: float, wavefronts: float = math.nan
) -> dict[str, float]:
    """GFLOP/s that a rung cannot exceed, by what would stop it.

    Keys: `FP32 units` (the GPU file's peak, of SMs that are busy for the share `balance` of the time), `issue slots`
    (every instruction of the inner loop takes one of ISSUE_SLOTS, an FFMA also its units), `load pipe` (an SM's
    load/store pipe does one wavefront a cycle; `wavefronts` for each FFMA as profiled, not a number where none is
    recorded), `DRAM` (the least bytes at the GPU file's bandwidth).
    """
    peak, lanes = gpu.peak_gflops * balance, gpu.lane_gflops * balance
    found = {"FP32 units": peak}
    if loop:
        ffma_cycles = 32 / gpu.fp32_lanes_per_sm  # of an SM, for each warp's FFMA
        issue_cycles = 1 / sass.ratios(loop)["ffma_share"] / ISSUE_SLOTS
        load_cycles = load_pipe_wavefronts(loop, wavefronts)["wavefronts_per_ffma"]
        found["issue slots"] = min(peak, lanes * ffma_cycles / issue_cycles)
        found["load pipe"] = min(peak, lanes * ffma_cycles / load_cycles) if load_cycles else peak
    found["DRAM"] = floors(shape, gpu)["intensity_minimum"] * gpu.memory_bandwidth_gb_s
    return found
