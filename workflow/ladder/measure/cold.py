"""Whether A and B are in the L2 cache when the clock starts.

NVBench flushes the cache, blocks the stream, and only then has a rung's host code queue its launch. What that code
starts elsewhere meanwhile could bring A and B back. So some launches that are not counted have a look in front of
them, on the rung's own stream: loads from A and from B, one after the other, are timed before the rung's work begins.
"""

from __future__ import annotations

import random
import time

import cupy as cp
import numpy as np

from ladder.build.library import Operands
from ladder.measure.watch import CHASED_LOADS
from ladder.model.shape import Shape

LINE_WORDS = 32
WAITED_S = 3e-4  # while the stream is blocked, in which work elsewhere may begin
_random = random.SystemRandom()


class Cold:
    """Looks at the loads from A and B that a launch finds."""

    def __init__(self, module: cp.RawModule) -> None:
        """Take the kernels of operands.cu."""
        self._chase = module.get_function("chase")
        self._cycles = cp.zeros(2, np.float32)

    def queue(self, stream: int, shape: Shape, operands: Operands) -> None:
        """Queue the look on a stream that is blocked; what is queued behind it is the launch."""
        matrices = ((operands.A, shape.m, operands.lda, shape.k), (operands.B, shape.k, operands.ldb, shape.n))
        for index, (address, rows, ld, columns) in enumerate(matrices):
            words = (rows - 1) * ld + columns
            first = _random.randrange(min(LINE_WORDS, words))  # of the words of a line, any may be the one in the cache
            lines = max(1, (words - first) // LINE_WORDS)
            arguments = (np.uint64(address + 4 * first), np.uint64(lines), np.int32(CHASED_LOADS), self._cycles[index:])
            self._chase((1,), (1,), arguments, stream=cp.cuda.ExternalStream(stream))

    def wait(self) -> None:
        """Leave the stream blocked for a while, when the launch is queued."""
        time.sleep(WAITED_S)

    def cycles(self, stream: cp.cuda.Stream) -> tuple[float, float]:
        """How many cycles a load from A and one from B took; waits for the stream."""
        of_A, of_B = map(float, self._cycles.get(stream=stream))
        return of_A, of_B
