"""Theoretical occupancy by NVIDIA's own calculator, cuda_occupancy.h, compiled with the host's C++ compiler."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ladder.build.toolchain import Nvcc
from ladder.model.gpu import Gpu
from ladder.system.errors import LadderError

SOURCE = Path(__file__).with_suffix(".cpp")
LIMITS = ("warps", "registers", "shared memory", "blocks")  # in the order of cudaOccLimitingFactor's bits


@dataclass(frozen=True)
class SmLimits:
    """What an SM of a GPU has; shared memory in bytes."""

    compute_capability: str
    sms: int
    max_threads: int
    registers: int
    shared_bytes: int
    shared_bytes_a_block: int


def limits_of(gpu: Gpu) -> SmLimits | None:
    """The limits of a GPU's SMs, by its file; None where they are not known."""
    if not gpu.limits:
        return None
    return SmLimits(
        compute_capability=gpu.compute_capability,
        sms=gpu.sms,
        max_threads=gpu.limits["max_threads_per_sm"],
        registers=gpu.limits["registers_per_sm"],
        shared_bytes=gpu.limits["shared_memory_per_sm_kib"] << 10,
        shared_bytes_a_block=gpu.limits["shared_memory_per_block_kib"] << 10,
    )


def include_folders(nvcc: Nvcc) -> list[Path]:
    """Where the headers of an nvcc's toolkit may be: beside it, or in CUDA 12's wheels."""
    toolkit = nvcc.path.resolve().parent.parent
    wheels = [Path(flag[2:]) for flag in nvcc.library_flags if flag.startswith("-I")]
    return [toolkit / "include", toolkit / "targets" / "x86_64-linux" / "include", *wheels]


def compile_calculator(nvcc: Nvcc, library: Path) -> None:
    """Make the calculator a library; raises LadderError where the toolkit has no cuda_occupancy.h or g++ fails."""
    folder = next((path for path in include_folders(nvcc) if (path / "cuda_occupancy.h").is_file()), None)
    if folder is None:
        raise LadderError(f"{nvcc.path}: its toolkit has no cuda_occupancy.h; install CUDA's runtime headers")
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{folder}", str(SOURCE), "-o", str(library)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LadderError(f"g++: cannot be run ({error.strerror}); install a C++ compiler") from None
    if made.returncode:
        raise LadderError(f"{SOURCE.name}: does not compile: {(made.stderr.splitlines() or [''])[0]}")


@cache
def _function(calculator: Path) -> Any:
    function = ctypes.CDLL(str(calculator.resolve())).occupancy
    function.argtypes = [
        *(ctypes.c_int,) * 5,
        *(ctypes.c_size_t,) * 2,
        ctypes.c_int,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    return function


def occupancy(
    calculator: Path,
    sm: SmLimits,
    registers: int,
    static_shared_bytes: int,
    block_threads: int,
    dynamic_shared_bytes: int,
) -> dict[str, Any]:
    """How many blocks of a kernel an SM holds at once, and what limits that, by `compile_calculator`'s library.

    Keys: blocks, warps and percent (of the SM's warps), block_limits (by each of LIMITS alone), limited_by (the names
    of the least). Raises LadderError where the calculator does not know the GPU.
    """
    major, minor = map(int, sm.compute_capability.split("."))
    result = (ctypes.c_int * 6)()
    error = _function(calculator)(
        major, minor, sm.sms, sm.max_threads, sm.registers, sm.shared_bytes, sm.shared_bytes_a_block,
        registers, static_shared_bytes, block_threads, dynamic_shared_bytes, result,
    )  # fmt: skip
    if error:
        raise LadderError(f"cuda_occupancy.h gives error {error} for compute capability {sm.compute_capability}")
    blocks, bits = result[0], result[5]
    warps = blocks * -(-block_threads // 32)
    return {
        "blocks": blocks,
        "warps": warps,
        "percent": 100 * warps * 32 / sm.max_threads,
        "block_limits": dict(zip(LIMITS, result[1:5], strict=True)),
        "limited_by": [name for place, name in enumerate(LIMITS) if bits >> place & 1],
    }
