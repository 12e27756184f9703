"""What the compiler made of each rung: resources, instructions, and the calculation on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.build import sass
from ladder.build.inspection import multiplying_kernel
from ladder.build.occupancy import LIMITS
from ladder.model.gpu import Gpu
from ladder.model.shape import Shape
from ladder.tables.diagnosis import Profile, multiplying_profile
from ladder.tables.evidence import Evidence
from ladder.tables.paper import accesses, ceilings, floors, least_passes, passes_by_shape, tile_of, waves


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
            main = multiplying_kernel(item.inspection, shape)
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
    (`ladder.build.sass.CLASSES` and other, as compiled: a guarded branch counts as if taken),
    {lds,ldg,...}_{32,64,128}bit,
    ffma_share (of issue slots), shared_loads_per_ffma, global_loads_per_ffma, load_bytes_per_ffma (a thread),
    wavefronts_per_ffma (at least), bank_conflicts and reused_operands (of FFMAs). The ratios are the inner loop's.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for item in evidence:
        for shape in item.inspection["launches"]:
            found = multiplying_kernel(item.inspection, shape)
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
    """The calculation on paper (`ladder.tables.paper`) beside what was measured: one row a rung and shape.

    Where tensor cores multiply, or another class than fp32 is claimed, what only FFMAs have is empty: the compute
    floor, the thread tile and its reads from shared memory, the ceilings. The thread tile of a rung in another language
    is its compiler's choice, and empty too.

    Columns: rung, shape, flop, minimum_bytes, compute_floor_ms, memory_floor_ms, intensity_minimum, BM, BN, TM, TN,
    global_reads_per_result, shared_reads_per_result (elements), intensity_global, intensity_shared (FLOP a byte),
    blocks, blocks_per_sm, waves, tail_percent, wavefronts_per_ffma and wavefronts_from (`profile` where one of this
    build and shape is recorded, `profile on` another GPU where one is of the same build; `... at` the nearest shape
    that has one, and `addresses` or `code`, which say what is different here; without a profile these alone),
    ceiling_{fp32_units,issue_slots,load_pipe,dram}_gflops,
    predicted_gflops (the lowest ceiling), predicted_ms, bound_by, measured_gflops (the median), share_of_prediction.
    """
    rows = []
    for item in evidence:
        if item.rung.role != "rung" or not item.inspection["launches"]:
            continue
        passes = _passes(item, gpu)
        for text in item.inspection["launches"]:
            if found := multiplying_kernel(item.inspection, text):
                row = _on_paper(item, gpu, Shape.parse(text), *found, passes.get(text, (math.nan, "")))
                rows.append({"rung": item.rung.name, "shape": text, **row})
    return pd.DataFrame(rows, columns=PAPER_COLUMNS)


def _on_paper(
    item: Evidence,
    gpu: Gpu,
    shape: Shape,
    launch: Mapping[str, Any],
    kernel: Mapping[str, Any],
    passes: tuple[float, str],
) -> dict[str, Any]:
    """A row of `paper_table` but for its first two columns; `passes` of the load/store pipe an FFMA, and from what."""
    loop = kernel["code"]["loop"]
    by_ffmas = item.rung.precision == "fp32" and bool(sass.ratios(loop))
    each, source = passes if by_ffmas else (math.nan, "")
    blocks = math.prod(launch["grid"])
    held = (launch.get("occupancy") or {}).get("blocks")
    filled = waves(blocks, held, gpu.sms) if held else {"balance": 1.0}
    limits = ceilings(gpu, shape, loop, filled["balance"], each) if by_ffmas else {}
    bound = min(limits, key=lambda name: limits[name], default="")
    lowest = limits.get(bound, math.nan)
    timing = item.timings.get(shape) if item.sound else None
    measured = shape.flop / np.median(timing.own.times_s) / 1e9 if timing else math.nan
    tile = tile_of(item.rung, shape)
    of_threads = ("TM", "TN", "shared_reads_per_result", "intensity_shared")
    known = by_ffmas and item.rung.language == "cuda"
    unknown = (*(() if by_ffmas else ("compute_floor_ms",)), *(() if known else of_threads))
    return {
        **floors(shape, gpu),
        **tile,
        **accesses(tile, shape.k, not by_ffmas or bool(kernel["code"]["whole"]["mix"]["LDS"])),
        **dict.fromkeys(unknown, math.nan),
        "blocks": blocks,
        "blocks_per_sm": held,
        **filled,
        "wavefronts_per_ffma": each,
        "wavefronts_from": source,
        **{f"ceiling_{name.lower().replace(' ', '_')}_gflops": limit for name, limit in limits.items()},
        "predicted_gflops": lowest,
        "predicted_ms": shape.flop / lowest / 1e6,
        "bound_by": bound,
        "measured_gflops": measured,
        "share_of_prediction": measured / lowest,
    }


def _passes(item: Evidence, gpu: Gpu) -> dict[str, tuple[float, str]]:
    """Passes an FFMA by shape, and what they are from (`ladder.tables.paper.passes_by_shape`)."""
    least, counted = {}, {}
    for text in item.inspection["launches"]:
        main = multiplying_kernel(item.inspection, text)
        loop = main[1]["code"]["loop"] if main else None
        passes, source = least_passes(item.rung, Shape.parse(text), loop)
        if source:
            least[text] = passes, source
            seen, profile = _profiled_passes(item, text, gpu)
            if not math.isnan(seen):
                counted[text] = seen, profile
    return passes_by_shape(counted, least)


def _profiled_passes(item: Evidence, shape: str, gpu: Gpu) -> tuple[float, str]:
    """Passes an FFMA that a profile counted, on the SMs of the GPU that it is of, and which; else not a number."""
    profile, source, sms = item.profiles.get(shape), "profile", float(gpu.sms)
    if profile is None and (profile := item.counted.get(shape)):
        source, sms = f"profile on {item.counted_on}", profile["where"]["gpu"]["cores"] / gpu.fp32_lanes_per_sm
    metrics = multiplying_profile(profile["kernels"])["metrics"] if profile else {}
    return Profile(metrics).wavefronts_per_ffma(sms), source


PAPER_COLUMNS = [
    *("rung", "shape", "flop", "minimum_bytes", "compute_floor_ms", "memory_floor_ms", "intensity_minimum"),
    *("BM", "BN", "TM", "TN", "global_reads_per_result", "shared_reads_per_result"),
    *("intensity_global", "intensity_shared", "blocks", "blocks_per_sm", "waves", "tail_percent"),
    *("wavefronts_per_ffma", "wavefronts_from"),
    *(f"ceiling_{name}_gflops" for name in ("fp32_units", "issue_slots", "load_pipe", "dram")),
    *("predicted_gflops", "predicted_ms", "bound_by", "measured_gflops", "share_of_prediction"),
]
