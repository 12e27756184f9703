"""The GPUs of this machine and their state, as NVML reports them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any


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
    nvml: str = ""  # its version

    @property
    def folder(self) -> str:
        """The name of the folder of this device's records: `GPU-` and the first eight digits of its UUID."""
        return self.uuid[:12]


VISIBLE = "CUDA_VISIBLE_DEVICES"


@cache
def _nvml() -> Any:
    """NVML, initialised once for all that a process asks of it."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def _handle(nvml: Any, index: int) -> Any:
    """NVML's handle of the CUDA device with this index, which CUDA_VISIBLE_DEVICES may have renumbered."""
    asked = os.environ.get(VISIBLE)
    if asked is None:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    chosen = [part.strip() for part in asked.split(",") if part.strip()][index]
    return nvml.nvmlDeviceGetHandleByIndex(int(chosen)) if chosen.isdigit() else nvml.nvmlDeviceGetHandleByUUID(chosen)


def visible() -> list[Present]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in CUDA's order; none where NVML finds no driver."""
    found: dict[str, Present] = {}
    while (device := present(len(found))) is not None and device.uuid not in found:  # one may be named twice
        found[device.uuid] = device
    return list(found.values())


def present(index: int = 0) -> Present | None:
    """The GPU with this index, or None where NVML finds no driver or no such device."""
    return _present(index, os.environ.get(VISIBLE))


@cache
def _present(index: int, visible: str | None) -> Present | None:
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
            nvml=_reading(nvml, nvml.nvmlSystemGetNVMLVersion) or "",
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


def energy_j(index: int = 0) -> float | None:
    """The joules that the board has taken since the driver was loaded; None where NVML does not count them."""
    nvml = _nvml()
    device = _handle(nvml, index)
    return _reading(nvml, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000)


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
