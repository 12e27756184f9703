"""A GPU as its file in config/gpus describes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Target(NamedTuple):
    """What a rung is compiled for."""

    title: str
    compute_capability: str
    architecture: str


@dataclass(frozen=True)
class Gpu:
    """What a GPU file says, or what the device itself says where there is no file."""

    name: str
    title: str
    compute_capability: str
    architecture: str
    sms: int
    fp32_lanes_per_sm: int
    sm_clock_mhz: float
    memory_bandwidth_gb_s: float
    sizes: tuple[str | int, ...]
    cuda: str
    file: str
    limits: Mapping[str, int]  # of an SM, by their keys in GPU files; empty where they are not known
    gres: str = "gpu:1"  # what a job on a Slurm cluster asks for to get one
    l2_mib: float = 0.0  # L2 cache; 0 where it is not known
    measured_gflops: float | None = None  # of FFMAs, where the probes of this GPU are taken for its file's numbers

    @property
    def peak_gflops(self) -> float:
        """FP32 peak in GFLOP/s: as measured, else what its lanes do (`lane_gflops`)."""
        return self.lane_gflops if self.measured_gflops is None else self.measured_gflops

    @property
    def lane_gflops(self) -> float:
        """What all lanes do at two operations in every cycle, which a measured peak does not quite reach."""
        return self.sms * self.fp32_lanes_per_sm * 2 * self.sm_clock_mhz / 1000

    @property
    def target(self) -> Target:
        """What rungs are compiled for on this GPU."""
        return Target(self.title, self.compute_capability, self.architecture)


# FLOP a cycle and SM of dense FP16 products on tensor cores, by compute capability: NVIDIA's architecture whitepapers.
_TENSOR_FP16 = {
    **{"7.0": 1024, "7.2": 1024, "7.5": 1024, "8.0": 2048, "8.6": 1024, "8.7": 1024, "8.9": 1024},
    **{"9.0": 4096, "10.0": 8192, "10.3": 8192, "12.0": 1024},
}
# By class: how many FLOP at the rate of FP16 one FLOP of the product takes at least. TF32 has at most half that rate.
_AT_LEAST = {"3xfp16": 3.0, "3xtf32": 6.0, "tf32": 2.0}


def ceiling_gflops(precision: str, gpu: Gpu) -> float:
    """The highest rate of a class of arithmetic, in GFLOP/s at the clock of the GPU's file.

    Of `fp32` that of the FP32 units, of the others that of the tensor cores; infinite where their rate is not known.
    """
    if precision == "fp32":
        return gpu.peak_gflops
    rate = _TENSOR_FP16.get(gpu.compute_capability, math.inf)
    return rate * gpu.sms * gpu.sm_clock_mhz / 1000 / _AT_LEAST[precision]


def slug(name: str) -> str:
    """`NVIDIA RTX 4000 SFF` as a file's name: `rtx-4000-sff`."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "-".join(word for word in words if word and word not in ("nvidia", "tesla", "geforce", "quadro")) or "gpu"
