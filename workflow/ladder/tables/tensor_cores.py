"""What a rung that tensor cores compute should reach, from its code, its launches and the rates of the GPU.

The time of a product is its launches, the SM with the most tiles, and what a pre-pass moves:

    time = launches + factor * products + factor * other instructions / warps + latency * rounds + factor * pre-pass

- products: the tiles of that SM at the rate of its instructions, mma.sync or wgmma, of their type; three for one where
  numbers are split.
- other instructions: the issue slots that the inner loop takes. While a warp issues them its scheduler's other warps
  multiply, so they count by the warps of a scheduler.
- rounds: each round of blocks waits for its first tiles and for its last stores.
- pre-pass: kernels before the one that multiplies read A and B, and leave their parts in the workspace. DRAM moves
  both, but A and B only once where they fit in the L2 cache. A kernel reads them unless its profile says otherwise.

The rates are the probes' where the GPU has a hardware record, else those that NVIDIA states.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ladder.build import sass
from ladder.build.inspection import multiplying_kernel
from ladder.model.gpu import Gpu
from ladder.model.metrics import value_of
from ladder.model.shape import Shape
from ladder.tables.evidence import Evidence
from ladder.tables.hardware import PRODUCTS, stated_rate
from ladder.tables.paper import FLOAT, ISSUE_SLOTS

TENSOR_FITTED = {
    "factor, tensor cores": ("", "times as long as at their highest rate the tensor cores of a full SM take"),
    "factor, other instructions": ("", "of their issue slots, over the warps of a scheduler, that multiplying waits"),
    "cycles a round": ("cycle", "that the first loads and the last stores of a round of blocks take"),
    "factor, pre-pass": ("", "times as long as at the bandwidth of DRAM the pre-pass takes"),
}
# What each number, in the same order, would be of a rung without losses, and how far off we take that to be. Few rungs
# multiply on tensor cores, and where one is left out the times of the others do not always tell these losses apart.
EXPECTED = ((1.0, 0.5), (1.0, 0.5), (0.0, 5000.0), (1.0, 0.5))
BYTES = {"FP16": 2, "BF16": 2, "TF32": 4}  # of a part, by its type
UNITS = {"HGMMA": "wgmma", "HMMA": "mma.sync"}  # by the class of their SASS


@dataclass(frozen=True)
class TensorRates:
    """The GFLOP/s of each unit and type, the bandwidth of DRAM in GB/s, where they are from, and the bytes of L2."""

    gflops: Mapping[tuple[str, str], float]
    dram_gb_s: float
    source: str
    l2_bytes: float = 0.0

    @classmethod
    def of(cls, gpu: Gpu, hardware: pd.DataFrame) -> TensorRates:
        """From the table of probes; of a GPU without one, from its file and NVIDIA's whitepapers."""
        probed = hardware[(hardware["kind"] == "rate") & hardware["of"].isin(UNITS.values())]
        rates = {(row.of, row.how): 1e3 * row.whole for row in probed.itertuples() if "," not in row.how}
        if rates:
            return cls(rates, gpu.memory_bandwidth_gb_s, "probes", gpu.l2_mib * 2**20)
        stated = {(unit, kind): stated_rate(kind, gpu) for unit in UNITS.values() for kind in ("FP16", "BF16", "TF32")}
        known = {key: rate for key, rate in stated.items() if math.isfinite(rate)}
        return cls(known, gpu.memory_bandwidth_gb_s, "GPU file", gpu.l2_mib * 2**20)


@dataclass(frozen=True)
class TensorWork:
    """What a rung does for a product: FLOP of it, products for one, GFLOP/s of the tensor cores, GB/s of DRAM, tiles,
    blocks that an SM holds, warps of a block, issue slots a FLOP that is multiplied, kernels launched, bytes of the
    pre-pass, the unit that multiplies, where the rates are from, and GFLOP/s of the fastest unit for this type.
    """

    flop: float
    products: int
    rate: float
    dram_gb_s: float
    tiles: int
    held: int
    warps: int
    slots: float
    kernels: int
    prepass_bytes: float
    by: str
    source: str
    fastest: float
    of: str = ""  # whose kernel it is, where that is another rung's

    fitted = TENSOR_FITTED
    expected = EXPECTED

    def rounds(self, machine: Any) -> tuple[int, int]:
        """How often all SMs are filled with blocks, and the blocks of the SM with the most in what is left."""
        full = self.tiles // (machine.sms * self.held)
        return full, math.ceil((self.tiles - full * machine.sms * self.held) / machine.sms)

    def launches_ms(self, machine: Any) -> float:
        """The time of as many empty kernels."""
        return machine.launch_ms * self.kernels

    def ceilings(self, machine: Any) -> dict[str, float]:
        """GFLOP/s of the product that the tensor cores, the issue slots and the bytes of the pre-pass allow."""
        issued = ISSUE_SLOTS * machine.sms * machine.clock_khz * 1e3 / self.slots / 1e9 / self.products
        found = {"tensor cores": self.rate / self.products, "issue slots": issued}
        if self.prepass_bytes:
            found["DRAM"] = self.flop / self.prepass_bytes * self.dram_gb_s
        return found

    def ceiling_gflops(self, machine: Any) -> float:
        """The lowest of the ceilings."""
        return min(self.ceilings(machine).values())

    def bound_by(self, machine: Any) -> str:
        """What the lowest ceiling is of."""
        found = self.ceilings(machine)
        return min(found, key=lambda name: found[name])

    def terms(self, machine: Any) -> np.ndarray:
        """What the fitted numbers are multiplied by, in milliseconds a unit of each, in the order of TENSOR_FITTED."""
        full, rest = self.rounds(machine)
        of_tile = self.products * self.flop / self.tiles
        multiplying = (full * self.held + rest) * of_tile / (self.rate * 1e6 / machine.sms)
        issuing = of_tile * self.slots / ISSUE_SLOTS / machine.clock_khz
        waiting = (full + (rest > 0)) * issuing / (self.warps / ISSUE_SLOTS)  # a scheduler has one slot a cycle
        moved = self.prepass_bytes / (self.dram_gb_s * 1e6)
        return np.array([multiplying, waiting, (full + (rest > 0)) / machine.clock_khz, moved])

    def parts_ms(self, machine: Any, numbers: np.ndarray) -> dict[str, float]:
        """The predicted time: launch_ms, busy_ms, waiting_ms and prepass_ms."""
        multiplying, waiting, rounds, moved = self.terms(machine) * numbers
        parts = {"launch_ms": self.launches_ms(machine), "busy_ms": multiplying, "waiting_ms": waiting + rounds}
        return parts | {"prepass_ms": moved}


def tensor_works(
    evidence: Sequence[Evidence], shapes: Sequence[Shape], rates: TensorRates
) -> dict[tuple[str, str], TensorWork]:
    """The work of each rung that tensor cores compute, by rung and shape."""
    found = {}
    for item in evidence:
        if item.rung.role != "rung" or item.rung.precision not in PRODUCTS:
            continue
        _, products = PRODUCTS[item.rung.precision]
        areas, idle = _tile_areas(item.inspection), _read_little(item)
        for shape in shapes:
            work = _work(item.inspection, shape, products, rates, areas, idle)
            if work is not None:
                found[item.rung.name, str(shape)] = work
    return found


def _work(
    inspection: Mapping[str, Any],
    shape: Shape,
    products: int,
    rates: TensorRates,
    areas: Mapping[str, float],
    idle: Collection[str],
) -> TensorWork | None:
    """None where no tensor cores multiply at the shape, or their rate or tiles are not known.

    `idle` are the symbols of kernels that do not read A and B.
    """
    main = multiplying_kernel(dict(inspection), str(shape))
    if main is None:
        return None
    launch, kernel = main
    unit = next((UNITS[name] for name in UNITS if kernel["code"]["loop"]["mix"][name]), "")
    kind, multiplied = sass.tensor_work(kernel["code"]["loop_sass"])
    held = (launch.get("occupancy") or {}).get("blocks")
    area = areas.get(launch["symbol"])
    if (unit, kind) not in rates.gflops or not held or not area:
        return None
    launches = inspection["launches"][str(shape)]
    before = next(place for place, each in enumerate(launches) if each is launch)
    readers = sum(each["symbol"] not in idle for each in launches[:before])
    numbers = shape.m * shape.k + shape.k * shape.n
    read = FLOAT * numbers * (min(readers, 1) if FLOAT * numbers <= rates.l2_bytes else readers)
    parts = BYTES[kind] * numbers * (2 if products > 1 else 1)
    return TensorWork(
        flop=shape.flop,
        products=products,
        rate=rates.gflops[unit, kind],
        dram_gb_s=rates.dram_gb_s,
        tiles=launch.get("tiles") or math.ceil(shape.m * shape.n / area),
        held=held,
        warps=-(-math.prod(launch["block"]) // 32),
        slots=kernel["code"]["loop"]["instructions"] / multiplied,
        kernels=len(launches),
        prepass_bytes=read + min(parts, inspection.get("workspace_bytes", {}).get(str(shape), 0)) if before else 0,
        by=unit,
        source=rates.source,
        fastest=max(rate for (_, of), rate in rates.gflops.items() if of == kind),
    )


def _read_little(item: Evidence) -> set[str]:
    """The symbols of kernels that read less than half of A and B from DRAM when they were profiled.

    Nsight Compute empties the caches before each kernel, so that one that reads A and B reads them from DRAM.
    """
    found = set()
    for text, profile in {**item.counted, **item.profiles}.items():
        shape, launches = Shape.parse(text), item.inspection["launches"].get(text, ())
        if len(launches) == len(profile["kernels"]):
            half = FLOAT * (shape.m * shape.k + shape.k * shape.n) / 2
            pairs = zip(launches, profile["kernels"], strict=True)
            found |= {each["symbol"] for each, one in pairs if value_of(one["metrics"], "dram_bytes_read") < half}
    return found


def _tile_areas(inspection: Mapping[str, Any]) -> dict[str, float]:
    """Results of a block's tile by kernel, from the largest shape at which its tiles are known."""
    found: dict[str, tuple[float, float]] = {}
    for text, launches in inspection["launches"].items():
        shape = Shape.parse(text)
        for launch in launches:
            if launch.get("tiles"):
                results = shape.m * shape.n
                found[launch["symbol"]] = max(found.get(launch["symbol"], (0, 0)), (results, results / launch["tiles"]))
    return {symbol: area for symbol, (_, area) in found.items()}
