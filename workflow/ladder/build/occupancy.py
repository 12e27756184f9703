"""Theoretical occupancy by NVIDIA's own calculator, cuda_occupancy.h, compiled with the host's C++ compiler."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

from ladder.build.toolchain import Nvcc
from ladder.model.gpu import Gpu
from ladder.system.errors import LadderError

SOURCE = Path(__file__).with_suffix(".cpp")
LIMITS = ("warps", "registers", "shared memory", "blocks")  # in the order of cudaOccLimitingFactor's bits


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


def occupancy(
    calculator: Path,
    gpu: Gpu,
    registers: int,
    static_shared_bytes: int,
    block_threads: int,
    dynamic_shared_bytes: int,
) -> dict[str, Any]:
    """How many blocks of a kernel an SM of a GPU holds at once, and what limits that, by the calculator.

    Keys: blocks, warps and percent (of the SM's warps), block_limits (by each of LIMITS alone), limited_by (the names
    of the least). The GPU is one whose `limits` are known. Raises LadderError where the calculator does not know it.
    """
    major, minor = map(int, gpu.compute_capability.split("."))
    threads = gpu.limits["max_threads_per_sm"]
    shared, of_block = (gpu.limits[f"shared_memory_per_{part}_kib"] << 10 for part in ("sm", "block"))
    size, result = ctypes.c_size_t, (ctypes.c_int * 6)()
    error = ctypes.CDLL(str(calculator.resolve())).occupancy(
        major, minor, gpu.sms, threads, gpu.limits["registers_per_sm"], size(shared), size(of_block),
        registers, size(static_shared_bytes), block_threads, size(dynamic_shared_bytes), result,
    )  # fmt: skip
    if error:
        raise LadderError(f"cuda_occupancy.h gives error {error} for compute capability {gpu.compute_capability}")
    blocks, bits = result[0], result[5]
    warps = blocks * -(-block_threads // 32)
    return {
        "blocks": blocks,
        "warps": warps,
        "percent": 100 * warps * 32 / threads,
        "block_limits": dict(zip(LIMITS, result[1:5], strict=True)),
        "limited_by": [name for place, name in enumerate(LIMITS) if bits >> place & 1],
    }
