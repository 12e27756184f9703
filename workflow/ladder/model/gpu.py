"""A GPU as its file in config/gpus describes it."""

from __future__ import annotations

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

    @property
    def peak_gflops(self) -> float:
        """FP32 peak in GFLOP/s: each lane of each SM does a multiplication and an addition in every cycle."""
        return self.sms * self.fp32_lanes_per_sm * 2 * self.sm_clock_mhz / 1000

    @property
    def target(self) -> Target:
        """What rungs are compiled for on this GPU."""
        return Target(self.title, self.compute_capability, self.architecture)


def slug(name: str) -> str:
    """`NVIDIA RTX 4000 SFF` as a file's name: `rtx-4000-sff`."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "-".join(word for word in words if word and word not in ("nvidia", "tesla", "geforce", "quadro")) or "gpu"
