"""The GPU: what NVML sees, which file in config/gpus it belongs to, and its state while it is measured."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ladder.config import ROOT, read_yaml, shown, validated
from ladder.errors import LadderError

GPU_FILES = ROOT / "config" / "gpus"


@dataclass(frozen=True)
class Present:
    """A GPU that this machine has, as NVML describes it."""

    name: str
    uuid: str
    compute_capability: str
    cores: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    memory_bus_bits: int
    memory_bytes: int
    power_limit_w: float | None  # None where the board has none, as in laptops
    driver: str
    cuda_driver: str


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


@cache
def _nvml() -> Any:
    """NVML, initialised once for all that a process asks of it."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def _handle(nvml: Any, index: int) -> Any:
    """NVML's handle of the CUDA device with this index, which CUDA_VISIBLE_DEVICES may have renumbered."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    chosen = [part.strip() for part in asked.split(",") if part.strip()][index]
    return nvml.nvmlDeviceGetHandleByIndex(int(chosen)) if chosen.isdigit() else nvml.nvmlDeviceGetHandleByUUID(chosen)


@cache
def present(index: int = 0) -> Present | None:
    """The GPU with this index, or None where NVML finds no driver or no such device."""
    try:
        nvml = _nvml()
        device = _handle(nvml, index)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(device)
        version = nvml.nvmlSystemGetCudaDriverVersion()
        limit = _reading(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimit(device) / 1000)
        return Present(
            name=nvml.nvmlDeviceGetName(device),
            uuid=nvml.nvmlDeviceGetUUID(device),
            compute_capability=f"{major}.{minor}",
            cores=nvml.nvmlDeviceGetNumGpuCores(device),
            sm_clock_mhz=nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_MEM),
            memory_bus_bits=nvml.nvmlDeviceGetMemoryBusWidth(device),
            memory_bytes=nvml.nvmlDeviceGetMemoryInfo(device).total,
            power_limit_w=limit,
            driver=nvml.nvmlSystemGetDriverVersion(),
            cuda_driver=f"{version // 1000}.{version % 1000 // 10}",
        )
    except Exception:  # NVML's errors have no common meaning here beyond «there is no GPU to measure on»
        return None


def state(index: int = 0) -> dict[str, Any]:
    """Temperature, power, clocks and throttle reasons of the GPU at this moment; absent where NVML cannot tell."""
    nvml = _nvml()
    device = _handle(nvml, index)
    reads = {
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
        "throttle_reasons": lambda: throttle_reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(device)),
    }
    readings = {key: _reading(nvml, read) for key, read in reads.items()}
    return {key: value for key, value in readings.items() if value is not None}


def processes(index: int = 0) -> list[int]:
    """The processes that compute on the GPU, as far as NVML tells."""
    nvml = _nvml()
    device = _handle(nvml, index)
    return [process.pid for process in _reading(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device)) or ()]


def _reading(nvml: Any, read: Callable[[], Any]) -> Any:
    """What NVML answers, or None where it cannot tell for this device."""
    try:
        return read()
    except nvml.NVMLError:
        return None


# Bits of nvmlDeviceGetCurrentClocksEventReasons, from nvml.h.
_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}


def throttle_reasons(bits: int) -> list[str]:
    """The names of NVML's clock event reasons in a bit mask."""
    return [name for bit, name in _REASONS.items() if bits & bit]


def names() -> list[str]:
    """The GPUs that have a file in config/gpus."""
    return sorted(path.stem for path in GPU_FILES.glob("*.yaml"))


def read_gpu(name: str, where: str = "gpu") -> Gpu:
    """One GPU file; raises LadderError where there is none of that name or it breaks its schema.

    `where` is the key, and its place, that gave the name.
    """
    path = GPU_FILES / f"{name}.yaml"
    if not path.is_file():
        raise LadderError(f"{where}: {name!r} has no file in config/gpus; known: {', '.join(names())}, or auto")
    values = _values(path)
    return Gpu(
        name=name,
        title=values["title"],
        compute_capability=values["compute_capability"],
        architecture=values["architecture"],
        sms=values["sms"],
        fp32_lanes_per_sm=values["fp32_lanes_per_sm"],
        sm_clock_mhz=values["sm_clock_mhz"],
        memory_bandwidth_gb_s=values["memory_bandwidth_gb_s"],
        sizes=tuple(values.get("sizes", ())),
        cuda=values["cuda"],
        file=shown(path),
        limits={key: values[key] for key in SM_LIMITS} if all(key in values for key in SM_LIMITS) else {},
    )


# What an SM of a GPU has, by the keys in GPU files; of one compute capability all GPUs have the same.
SM_LIMITS = (
    "shared_memory_per_sm_kib",
    "shared_memory_per_block_kib",
    "registers_per_sm",
    "max_threads_per_sm",
    "max_blocks_per_sm",
)


def _values(path: Path) -> dict[str, Any]:
    values = validated(read_yaml(path), "gpu", shown(path))
    try:
        re.compile(values["match"]["name"])
    except re.error as error:
        raise LadderError(f"{shown(path)}: match.name: is no regular expression ({error}); mend it") from None
    return values


def recognise(device: Present) -> str | None:
    """The name of the GPU file whose `match.name` fits the device, or None."""
    for name in names():
        if re.search(_values(GPU_FILES / f"{name}.yaml")["match"]["name"], device.name):
            return name
    return None


def from_device(device: Present) -> Gpu:
    """A GPU without a file, from its own properties; the memory bandwidth counts two transfers a clock (DDR)."""
    lanes = _LANES.get(device.compute_capability, 128)
    return Gpu(
        name=slug(device.name),
        title=device.name,
        compute_capability=device.compute_capability,
        architecture=architecture_of(device.compute_capability),
        sms=device.cores // lanes,
        fp32_lanes_per_sm=lanes,
        sm_clock_mhz=device.sm_clock_mhz,
        memory_bandwidth_gb_s=2 * device.memory_clock_mhz * device.memory_bus_bits / 8 / 1000,
        sizes=(),
        cuda="13" if float(device.compute_capability) >= 7.5 else "12",
        file="the device itself",
        limits=next((gpu.limits for gpu in map(read_gpu, names()) if _alike(gpu, device)), {}),
    )


def _alike(gpu: Gpu, device: Present) -> bool:
    return bool(gpu.limits) and gpu.compute_capability == device.compute_capability


# FP32 lanes an SM where they are not 128: CUDA C++ Programming Guide, arithmetic instructions' throughput.
_LANES = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}


def architecture_of(compute_capability: str) -> str:
    """nvcc's name of the architecture, with its accelerated features (`a`) where it has them, from 9.0 on."""
    digits = compute_capability.replace(".", "")
    return f"sm_{digits}a" if int(digits) >= 90 else f"sm_{digits}"


def slug(name: str) -> str:
    """`NVIDIA RTX 4000 SFF` as a file's name: `rtx-4000-sff`."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "-".join(word for word in words if word and word not in ("nvidia", "tesla", "geforce", "quadro")) or "gpu"


def gpu_file(device: Present) -> str:
    """The text of a GPU file for a device that has none."""
    gpu = from_device(device)
    values = {
        "title": gpu.title,
        "match": {"name": f"^{re.escape(device.name)}$".replace(r"\ ", " ")},
        "compute_capability": gpu.compute_capability,
        "architecture": gpu.architecture,
        "sms": gpu.sms,
        "fp32_lanes_per_sm": gpu.fp32_lanes_per_sm,
        "sm_clock_mhz": gpu.sm_clock_mhz,
        "memory_bandwidth_gb_s": gpu.memory_bandwidth_gb_s,
        "memory_gib": round(device.memory_bytes / 2**30),
        "cuda": gpu.cuda,
        "source": "NVML on the device itself",
    }
    import yaml

    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def keep(path: Path, device: Present) -> None:
    """Write the GPU file of a device; raises LadderError where the file exists."""
    if path.exists():
        raise LadderError(f"{shown(path)}: exists already; delete it to write it anew")
    path.write_text(gpu_file(device))
