"""What this machine has of all that the stages need, and what to do about what it lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.build.toolchain import Nvcc, find_nvcc, find_tool, supported_architectures
from ladder.config import gpus
from ladder.measure.sanitize.stage import require_sanitizer
from ladder.system import nvml
from ladder.system.errors import LadderError
from ladder.system.nvml import Present

FREE_BYTES = 2e9  # what a run's builds, reports and records may take
GXX = 12  # the oldest g++ that the emulator is made for
DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `verdict` is ok, note (a stage does without it) or bad (a stage fails)."""

    what: str
    verdict: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.verdict:<5}{self.what:<20}{self.found}"
        return f"{text}\n{'':25}-> {self.remedy}" if self.remedy else text


def examine(settings: dict[str, Any], root: Path) -> Iterator[Check]:
    """Look at everything that the stages need; `settings` is the configuration, `root` the checkout."""
    devices = gpus.chosen(settings["devices"])
    device = next(iter(devices), None)
    yield from _gpus(devices)
    nvcc, finding = _nvcc(settings["compile"]["nvcc"])
    yield finding
    if nvcc and device:
        yield _match(nvcc, device)
    yield _gxx()
    yield _packages(device is not None)
    yield _cublas(device is not None)
    yield _ncu(settings["profile"]["ncu"], device is not None)
    yield _sanitizer(settings["sanitize"]["compute_sanitizer"])
    yield _disk(root)


def _gpus(devices: Sequence[Present]) -> Iterator[Check]:
    if not devices:
        driver = shutil.which("nvidia-smi")
        remedy = "`nvidia-smi` says why" if driver else "to measure, run where there is an NVIDIA GPU with its driver"
        yield Check("GPU", "note", "none: recorded measurements are shown, the emulator checks", remedy)
    here = [device.uuid for device in nvml.visible()]
    for device in devices:
        yield from _gpu(device, here.index(device.uuid))


def _gpu(device: Present, index: int) -> Iterator[Check]:
    size = f"{device.memory_bytes / 2**30:.0f} GiB"
    yield Check("GPU", "ok", f"{device.name}, compute capability {device.compute_capability}, {size}")
    known = gpus.recognise(device)
    if known:
        yield Check("GPU file", "ok", f"config/gpus/{known}.yaml")
    else:
        yield Check("GPU file", "note", "none for this GPU: it runs from its own properties", "snakemake gpu_file")
    yield _idle(index)


def _idle(index: int) -> Check:
    """Whether anything else uses the GPU, or holds its clocks down, at this moment."""
    others = nvml.processes(index)
    reasons = [reason for reason in nvml.state(index).get("throttle_reasons", []) if reason != "idle"]
    if others:
        pids = ", ".join(map(str, others))
        return Check("GPU load", "note", f"processes {pids} use it: timings will be disturbed", "end them, or wait")
    if reasons:
        return Check(
            "GPU load", "note", f"its clocks are held down: {', '.join(reasons)}", "see `nvidia-smi -q -d CLOCK`"
        )
    return Check("GPU load", "ok", "no other process, clocks free")


def _nvcc(configured: str) -> tuple[Nvcc | None, Check]:
    try:
        nvcc = find_nvcc(configured)
    except LadderError as error:
        return None, Check("nvcc", "bad", str(error))
    return nvcc, Check("nvcc", "ok", f"{nvcc.version}, {nvcc.path}")


def _match(nvcc: Nvcc, device: Present) -> Check:
    """Whether the driver runs what nvcc makes, and nvcc makes what the GPU runs."""
    if int(device.cuda_driver.split(".")[0]) < int(nvcc.version.split(".")[0]):
        found = f"driver {device.driver} runs CUDA {device.cuda_driver}, nvcc is {nvcc.version}"
        return Check("driver", "bad", found, "a newer driver, or CUDA 12: make env ENV=cuda12 (docs/cuda12.md)")
    architecture = gpus.architecture_of(device.compute_capability)
    if architecture.rstrip("af") not in supported_architectures(nvcc):
        found = f"nvcc {nvcc.version} does not compile for {architecture}"
        return Check("driver", "bad", found, "the other CUDA: make env ENV=cuda12, or ENV=requirements")
    return Check("driver", "ok", f"{device.driver}, CUDA {device.cuda_driver}")


def _gxx() -> Check:
    path = shutil.which("g++")
    if path is None:
        return Check("g++", "bad", "not found: nvcc and the emulator need it", "install g++ (Debian: apt install g++)")
    version = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    if int(re.match(r"\d*", version)[0] or 0) < GXX:
        return Check("g++", "note", f"{version}: the emulator needs {GXX} or newer", "install a newer g++")
    return Check("g++", "ok", version)


def _packages(measuring: bool) -> Check:
    missing = [name for name in ("cupy", "cuda.bench", "ncu_report", "pynvml", "pandas", "seaborn") if not _there(name)]
    if missing:
        return Check("Python packages", "bad" if measuring else "note", f"missing: {', '.join(missing)}", "make env")
    return Check("Python packages", "ok", "all there")


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _cublas(measuring: bool) -> Check:
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return Check("cuBLAS", "ok", str(load_nvidia_dynamic_lib("cublas").abs_path))
    except (DynamicLibNotFoundError, RuntimeError):
        remedy = "a CUDA toolkit, or: pip install --require-hashes -r envs/cublas.txt"
        return Check("cuBLAS", "bad" if measuring else "note", "not found: only the rungs of cuBLAS need it", remedy)


def _ncu(configured: str, measuring: bool) -> Check:
    """Whether Nsight Compute is there, and may read the counters."""
    try:
        ncu = find_tool("ncu", configured)
    except LadderError as error:
        return Check("ncu", "bad", str(error))
    if ncu is None:
        found = "not found: rungs are measured, but not profiled"
        return Check("ncu", "note", found, "install Nsight Compute, or set config/config.yaml: profile.ncu")
    if measuring and os.geteuid() != 0 and _counters_are_the_admins():
        remedy = "run as root, or set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module"
        return Check("ncu", "note", f"{ncu}, but this user may not read the GPU's counters", remedy)
    return Check("ncu", "ok", str(ncu))


def _counters_are_the_admins() -> bool:
    """Whether the driver keeps the counters to root (developer.nvidia.com/ERR_NVGPUCTRPERM)."""
    try:
        return re.search(r"^RmProfilingAdminOnly: 1$", DRIVER_PARAMETERS.read_text(), re.MULTILINE) is not None
    except OSError:
        return False


def _sanitizer(configured: str) -> Check:
    try:
        return Check("compute-sanitizer", "ok", str(require_sanitizer(configured)))
    except LadderError:
        remedy = "it comes with the CUDA toolkit; put it on the PATH"
        return Check("compute-sanitizer", "note", "not found: no `snakemake sanitize`", remedy)


def _disk(root: Path) -> Check:
    free = shutil.disk_usage(root).free
    if not os.access(root, os.W_OK):
        return Check("disk", "bad", f"{root} cannot be written to", "work in a checkout of your own")
    if free < FREE_BYTES:
        return Check("disk", "bad", f"{free / 1e9:.1f} GB are free, a run may take {FREE_BYTES / 1e9:.0f}", "make room")
    return Check("disk", "ok", f"{free / 1e9:.0f} GB are free")


def print_checks(checks: list[Check], say: Callable[[str], object]) -> int:
    """Say every check and what they come to; returns the exit status, 1 where one is bad."""
    for check in checks:
        say(str(check))
    bad = sum(check.verdict == "bad" for check in checks)
    notes = sum(check.verdict == "note" for check in checks)
    say(f"\n{bad} to mend, {notes} to know of." if bad or notes else "\nAll is there.")
    return 1 if bad else 0
