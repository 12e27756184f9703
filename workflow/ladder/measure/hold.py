"""Every SM held while a rung's host code runs: what it queues on other streams cannot begin before the clock.

Where a stream is blocked until a launch is queued, work on another stream could be done before the clock starts. So
before some launches a kernel takes all SMs, and the rung's stream lets go of them when the clock has started. How long
the launch takes then, by the GPU's own clock, is compared with what NVBench says of the others.
"""

from __future__ import annotations

import ctypes
import time

import cupy as cp
import numpy as np

THREADS = 512  # a block's; divides the threads of an SM of every architecture since 7.0
LIMIT_NS = 250_000_000  # after which the SMs are let go anyhow: host code that waits for the GPU would wait for ever
BEGINS_WITHIN_S = 1e-4
_FIRST, _OVERDUE, _END, _TIMES = range(4)  # what the kernels write, and how much


class Hold:
    """Holds the SMs of the current device."""

    def __init__(self, module: cp.RawModule) -> None:
        """Take the kernels of operands.cu."""
        self._occupy, self._stamp = module.get_function("occupy"), module.get_function("stamp")
        self._stream = cp.cuda.Stream(non_blocking=True)
        attributes = cp.cuda.Device().attributes
        blocks = attributes["MultiProcessorCount"] * (attributes["MaxThreadsPerMultiProcessor"] // THREADS)
        self._blocks = blocks - 1  # NVBench's own kernels need a place, and not of one warp alone
        self._released = cp.zeros(1, np.int32)
        self._times = cp.zeros(_TIMES, np.uint64)
        self._write = ctypes.CDLL("libcuda.so.1").cuStreamWriteValue32_v2
        self._write.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
        self.stamp(self._stream)
        self.begin(0)
        cp.cuda.runtime.deviceSynchronize()

    def begin(self, stream: int) -> None:
        """Take all SMs, until `stream` comes to what is queued on it here."""
        self._released.data.memset_async(0, 4, self._stream)
        self._times.data.memset_async(0, self._times.nbytes, self._stream)
        self._times[:1].data.memset_async(0xFF, 8, self._stream)
        self._stream.synchronize()
        arguments = (self._released, np.uint64(LIMIT_NS), self._times)
        self._occupy((self._blocks,), (THREADS,), arguments, stream=self._stream)
        time.sleep(BEGINS_WITHIN_S)
        if self._write(stream, self._released.data.ptr, 1, 0):
            raise RuntimeError("CUDA: cuStreamWriteValue32 is not supported")

    def stamp(self, stream: cp.cuda.Stream) -> None:
        """Queue a look at the GPU's clock: the end of what is timed."""
        self._stamp((1,), (1,), (self._times[_END:],), stream=stream)

    def end(self) -> tuple[float, bool]:
        """The microseconds from when the SMs were let go to the stamp, and whether they were let go by the limit."""
        times = self._times.get(stream=self._stream)
        return (int(times[_END]) - int(times[_FIRST])) / 1e3, bool(times[_OVERDUE])
