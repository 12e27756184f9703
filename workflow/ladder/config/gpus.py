"""The GPU files in config/gpus: reading them, and which one the GPU of this machine belongs to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.config.documents import nearest, of_fields, read_yaml, validated
from ladder.model.gpu import Gpu, slug
from ladder.system import nvml
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.paths import GPU_FILES, read_text, shown

# Folders beside those of GPUs in a folder of results, and what `gpu` has another meaning for.
RESERVED = ("across", "build", "logs", "tuned", "auto")


def names() -> list[str]:
    """The GPUs that have a file in config/gpus; raises LadderError for a name that cannot be one."""
    found = sorted(path.stem for path in GPU_FILES.glob("*.yaml"))
    for name in found:
        if name in RESERVED or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise LadderError(
                f"{shown(GPU_FILES)}/{name}.yaml: {name!r} cannot name a GPU; rename the file: letters, digits, - and "
                f"_, and neither {' nor '.join(RESERVED)}"
            )
    return found


def read_gpu(name: str, where: str = "gpu") -> Gpu:
    """One GPU file; raises LadderError where there is none of that name or it breaks its schema.

    `where` is the key, and its place, that gave the name.
    """
    path = GPU_FILES / f"{name}.yaml"
    if name not in names():
        raise LadderError(f"{where}: {name!r} has no file in config/gpus; {nearest(name, ['auto', *names()])}")
    values = _values(path)
    limits = {key: values[key] for key in SM_LIMITS} if all(key in values for key in SM_LIMITS) else {}
    own = {"name": name, "sizes": tuple(values.get("sizes", ())), "file": shown(path), "limits": limits}
    slurm = {"gres": values["slurm"]["gres"]} if values.get("slurm") else {}
    return Gpu(**of_fields(Gpu, values) | own | slurm)


# What an SM of a GPU has, by the keys in GPU files; of one compute capability all GPUs have the same.
SM_LIMITS = (
    "shared_memory_per_sm_kib",
    "shared_memory_per_block_kib",
    "registers_per_sm",
    "max_threads_per_sm",
    "max_blocks_per_sm",
)


def numbers_of_sms() -> tuple[int, ...]:
    """The numbers of SMs in all GPU files, in rising order; the files are not validated, for that takes longer."""
    found = (re.search(r"^sms: *([0-9]+)", read_text(path), re.MULTILINE) for path in GPU_FILES.glob("*.yaml"))
    return tuple(sorted({int(match[1]) for match in found if match}))


def _values(path: Path) -> dict[str, Any]:
    values = validated(read_yaml(path), "gpu", shown(path))
    try:
        re.compile(values["match"]["name"])
    except re.error as error:
        raise LadderError(f"{shown(path)}: match.name: is no regular expression ({error}); mend it") from None
    _check_consistency(values, shown(path))
    return values


# Of any GPU: the least and the most that a quantity has been or will be for years, narrower than a factor of 1000, so
# that a value in another unit is outside. A machine's balance decides what it can compute, the time to read its memory
# once what it can hold, and an L2 cache is shared by the SMs on its die.
PLAUSIBLE = {
    "memory_bandwidth_gb_s": ("FP32 operations for each byte of memory bandwidth", 2, 400),
    "memory_gib": ("ms to read the memory once", 3, 2000),
    "l2_mib": ("MiB of L2 cache for each SM", 0.02, 10),
}


def _check_consistency(values: Mapping[str, Any], file: str) -> None:
    """Raise LadderError where values of a GPU file contradict each other, as they do in wrong units."""
    capability, architecture = values["compute_capability"], values["architecture"]
    right = architecture_of(capability)
    if architecture not in (right, right.rstrip("a")):
        problem = f"{architecture} is not of compute capability {capability}; write {right}, or mend compute_capability"
        raise LadderError(f"{file}: architecture: {problem}")
    per_second = values["sms"] * values["fp32_lanes_per_sm"] * 2 * values["sm_clock_mhz"] * 1e6
    bytes_per_second = values["memory_bandwidth_gb_s"] * 1e9
    found = {
        "memory_bandwidth_gb_s": per_second / bytes_per_second,
        "memory_gib": values["memory_gib"] * 2**30 / bytes_per_second * 1e3,
        "l2_mib": values.get("l2_mib", values["sms"]) / values["sms"],
    }
    for key, (what, least, most) in PLAUSIBLE.items():
        if not least <= found[key] <= most:
            problem = f"{values[key]} would mean {found[key]:.3g} {what}, and GPUs have {least} to {most}"
            raise LadderError(f"{file}: {key}: {problem}; mend its unit, or the other values")
    block, whole = "shared_memory_per_block_kib", "shared_memory_per_sm_kib"
    if values.get(block, 0) > values.get(whole, math.inf):
        raise LadderError(f"{file}: {block}: {values[block]} is more than {whole}; mend one of the two")


def recognise(device: Present) -> str | None:
    """The name of the GPU file whose `match.name` fits the device, or None; raises LadderError where two do."""
    found = [name for name in names() if re.search(_values(GPU_FILES / f"{name}.yaml")["match"]["name"], device.name)]
    if len(found) > 1:
        both = f"{' and '.join(found)} both fit {device.name!r}"
        raise LadderError(f"{shown(GPU_FILES)}/{found[1]}.yaml: match.name: {both}; let one file fit each GPU")
    return found[0] if found else None


def kind(device: Present) -> str:
    """The name of a device's GPU: its file's, or one from its own name; raises LadderError as `recognise` does."""
    return recognise(device) or slug(device.name)


def of_kind(gpu: str, devices: Iterable[Present]) -> list[Present]:
    """Those of the devices that are the GPU of this name."""
    return [device for device in devices if kind(device) == gpu]


def chosen(devices: str | int | Sequence[str | int], place: str = "devices") -> list[Present]:
    """The GPUs of this machine that a configuration chooses: `all`, or some by index or by the beginning of the UUID.

    None are where this machine has none. Raises LadderError for one that it has not.
    """
    here = nvml.visible()
    if devices == "all" or not here:
        return here
    found = {}
    for one in devices if isinstance(devices, list) else [devices]:
        named = [device for i, device in enumerate(here) if str(one) == str(i) or device.uuid.startswith(str(one))]
        if not named:
            there = ", ".join(f"{i} ({device.folder})" for i, device in enumerate(here))
            raise LadderError(f"{place}: {one!r} is no GPU here; here are {there}")
        found[named[0].uuid] = named[0]
    return list(found.values())


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
