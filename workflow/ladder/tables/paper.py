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
from ladder.model.layouts import layout_of
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


def least_passes(rung: Rung, shape: Shape, loop: Mapping[str, Any] | None) -> tuple[float, str]:
    """Passes of an SM's load/store data pipe for each FFMA of a warp, without a profile, and what they are from.

    From `addresses` where the lanes' addresses are known (`ladder.model.layouts`), else from `code`, the fewest that
    the inner loop's loads can take; not a number without an inner loop of FFMAs.
    """
    if loop is None or not sass.ratios(loop):
        return math.nan, ""
    macros = default_macros(rung) | rung.macros_at(shape)
    layout = layout_of(rung.entry, {key: int(value) for key, value in macros.items() if str(value).isdigit()})
    if layout is not None and rung.language == "cuda":
        return layout.passes_per_ffma(shape.k, shape.n), "addresses"
    return sass.ratios(loop)["wavefronts_per_ffma"], "code"


Passes = tuple[float, str]  # of the load/store pipe an FFMA, and what they are from


def passes_by_shape(counted: Mapping[str, Passes], least: Mapping[str, Passes]) -> dict[str, Passes]:
    """The passes of each shape of `least`: as `counted` by a profile of the shape.

    Where there is none, those that a profile counted at the nearest shape by work, and what addresses or code say that
    is different at this one; where there is no profile at all, the least.
    """
    found = {}
    for text, (passes, source) in least.items():
        if text in counted:
            found[text] = counted[text]
        elif counted:
            work = math.log(max(Shape.parse(text).flop, 1))
            near = min(counted, key=lambda at, work=work: abs(math.log(max(Shape.parse(at).flop, 1)) - work))
            there, profile = counted[near]
            found[text] = there + passes - least[near][0], f"{profile} at {near}, {source}"
        else:
            found[text] = passes, source
    return found


def ceilings(
    gpu: Gpu, shape: Shape, loop: Mapping[str, Any] | None, balance: float, wavefronts: float = 0.0
) -> dict[str, float]:
    """GFLOP/s that a rung cannot exceed, by what would stop it.

    Keys: `FP32 units` (the GPU file's peak, of SMs that are busy for the share `balance` of the time), `issue slots`
    (every instruction of the inner loop takes one of ISSUE_SLOTS, an FFMA also its units), `load pipe` (an SM's
    load/store pipe does one wavefront a cycle; `wavefronts` for each FFMA), `DRAM` (the least bytes at the GPU file's
    bandwidth).
    """
    peak, lanes = gpu.peak_gflops * balance, gpu.lane_gflops * balance
    found = {"FP32 units": peak}
    if loop:
        ffma_cycles = 32 / gpu.fp32_lanes_per_sm  # of an SM, for each warp's FFMA
        issue_cycles = 1 / sass.ratios(loop)["ffma_share"] / ISSUE_SLOTS
        found["issue slots"] = min(peak, lanes * ffma_cycles / issue_cycles)
        found["load pipe"] = min(peak, lanes * ffma_cycles / wavefronts) if wavefronts else peak
    found["DRAM"] = floors(shape, gpu)["intensity_minimum"] * gpu.memory_bandwidth_gb_s
    return found
