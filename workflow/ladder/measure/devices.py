"""Where a rung is checked: on the GPU, or on the CPU by the emulator. The check is one, its memory is not.

A device has `arrays` (CuPy or NumPy), and can put an array where a rung finds it, say at which address, and compute.
`stuck` says that a product did not come to an end, so that no other is worth its time.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands, explain
from ladder.model.cases import is_unfinished
from ladder.model.shape import Shape

GUARD = 1024  # words before and behind each matrix; a multiple of the bytes that CUDA aligns allocations to
SENTINEL = np.uint32(0x7FC0DEAD)  # a quiet NaN that no arithmetic produces: what a rung must not read
ALIGNMENT = 256  # bytes, of what cudaMalloc gives
MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python names it from 3.13 on
EMULATED_STREAM = 0x57EA  # what the emulator is told to be the stream: any number, and not the default stream
EMULATED_SMS = 8  # as many as the emulator has at first: kernels/emulator/README.md


@dataclass(frozen=True)
class Call:
    """One product: what a library is given for it, and how long the workspace is that it asked for."""

    shape: Shape
    alpha: float
    beta: float
    operands: Operands
    workspace: Any
    workspace_bytes: int
    blocks: int = 0  # the most that a launch in the emulator runs; 0 for all


class CudaDevice:
    """The GPU: memory by CuPy, each product on a stream that waits for no other."""

    stuck = False  # the parent kills a process that waits for an endless kernel

    def __init__(self, device: int) -> None:
        """Use the CUDA device of this number."""
        import cupy

        self.arrays, self.number = cupy, device
        cupy.cuda.Device(device).use()

    def put(self, host: np.ndarray) -> Any:
        """A copy on the GPU."""
        return self.arrays.asarray(host)

    def address(self, array: Any) -> int:
        """Where an array begins."""
        return array.data.ptr

    def compute(self, library: Library, call: Call, run: int) -> str:
        """Compute and wait; what went wrong, in one line, or nothing."""
        stream = self.arrays.cuda.Stream(non_blocking=True)
        self.arrays.cuda.runtime.deviceSynchronize()
        workspace = self.address(call.workspace)
        error = library.queue(call.shape, call.alpha, call.beta, call.operands, workspace, stream.ptr)
        if error:
            return f"sgemm returned {explain(error)}"
        stream.synchronize()
        return ""

    def clear(self) -> None:
        """Give back what is no longer used."""
        self.arrays.get_default_memory_pool().free_all_blocks()


class EmulatedDevice:
    """The CPU: memory by NumPy, and a library that was compiled for the emulator (kernels/emulator)."""

    arrays = np

    def __init__(self, threads: int, time_limit_s: float, first_only: bool = False) -> None:
        """Use so many threads; a launch that takes more CPU time than the limit, or than `_patience_s`, is a finding.

        With `first_only` the device is stuck after its first finding, whatever that is.
        """
        self.threads, self.time_limit_s, self.first_only = threads, time_limit_s, first_only
        self.stuck = False

    def put(self, host: np.ndarray) -> np.ndarray:
        """A copy, aligned as cudaMalloc aligns."""
        memory = np.empty(host.nbytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        aligned = memory[start : start + host.nbytes].view(host.dtype)
        aligned[...] = host
        return aligned

    def reserve(self, elements: int) -> np.ndarray:
        """So many zeros, of which only what is written takes memory; raises OSError where that cannot be had."""
        memory = mmap.mmap(-1, 4 * elements, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        return np.frombuffer(memory, np.float32)

    def address(self, array: np.ndarray) -> int:
        """Where an array begins."""
        return array.ctypes.data

    def compute(self, library: Library, call: Call, run: int) -> str:
        """Compute, with an order of blocks and threads that depends on `run`; the first finding, or nothing.

        Raises OSError where the emulator cannot reserve what it keeps of each element that may be written.
        """
        c = library.functions
        c.emulator_set_workers(ctypes.c_int(self.threads))
        c.emulator_set_timeout(ctypes.c_double(min(self.time_limit_s, _patience_s(call.shape))))
        c.emulator_set_most_blocks(ctypes.c_uint64(call.blocks))
        c.emulator_set_stream(ctypes.c_void_p(EMULATED_STREAM))
        c.emulator_reset(ctypes.c_uint64(run + 1))
        shape, o = call.shape, call.operands
        inputs = b"r" if call.alpha != 0 and shape.k > 0 else b""
        words = call.workspace_bytes // 4
        for name, address, rows, columns, ld, access in (
            (b"A", o.A, shape.m, shape.k, o.lda, inputs),
            (b"B", o.B, shape.k, shape.n, o.ldb, inputs),
            (b"C", o.C, shape.m, shape.n, o.ldc, b"w" if call.beta == 0 else b"rw"),
            (b"workspace", self.address(call.workspace), 1, words, max(1, words), b"w"),
        ):
            sizes = (ctypes.c_int64(size) for size in (rows, columns, ld))
            if c.emulator_register_buffer(name, ctypes.c_void_p(address), *sizes, access):
                raise OSError(f"no room for what the emulator keeps of {name.decode()}")
        error = library.queue(shape, call.alpha, call.beta, o, self.address(call.workspace), EMULATED_STREAM)
        text = ctypes.create_string_buffer(1 << 16)
        c.emulator_report(text, ctypes.c_size_t(len(text)))
        findings = sorted(text.value.decode(errors="replace").splitlines(), key=is_unfinished)
        self.stuck = any(self.first_only or is_unfinished(finding) for finding in findings)
        return findings[0] if findings else f"sgemm returned {explain(error)}" if error else ""

    def clear(self) -> None:
        """Nothing is kept."""


def _patience_s(shape: Shape) -> float:
    """The seconds of CPU time for which a launch in the emulator is waited for: 5, and one for each million FLOP."""
    return 5 + shape.flop / 1e6
