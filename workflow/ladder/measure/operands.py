"""The operands of launches around which something is measured: drawn anew before each launch, and verified after it.

A launch's result is verified over the whole of C in O(mn + mk + kn): for a vector x of random signs, drawn after the
launch, C x is compared with alpha A (B x) + beta C0 x row by row, all in float64. R. Freivalds, Probabilistic machines
can use less running time, IFIP Congress 1977. The error of a row, e x, exceeds |e| sqrt(2 ln(2 / p)) with a
probability of at most p (Hoeffding), and |e| has the statistical bound of the rung's class (`ladder.model.bounds`):
a right row is blamed with a probability below FALSE_ALARM. A and B are drawn from a secret key, and compared with what
that key gives; so are the words around all three matrices.
"""

from __future__ import annotations

import math
import random
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from ladder.build.library import Operands
from ladder.measure.devices import GUARD
from ladder.model.bounds import FALSE_ALARM, statistical_bound
from ladder.model.shape import Shape

ALIGNED = 64  # words: 256 bytes
LEAST_PLACES = 3
STRIPS, STRIP_ROWS, STRIP_WORDS = 2, 256, 16  # of C, that are looked at as soon as the clock stops
_DEVICE_TO_HOST = 2  # cudaMemcpyKind
_random = random.SystemRandom()
_SOURCE = Path(__file__).with_suffix(".cu")
_FROM_MEMORY, _POISON, _AGAIN = -1, 3, 16
SPREADS = {"uniform": (0, 1.0), "wide": (1, 2.0**30), "sparse": (2, 1.0)}  # -> number in operands.cu, largest magnitude
COUNTS = 5  # of a Verification


@dataclass(frozen=True)
class Kind:
    """What launches have in common beside their shape: scalars, layout of A, B and C, and how values are spread."""

    alpha: float = 1.0
    beta: float = 0.0
    paddings: tuple[int, int, int] = (0, 0, 0)
    offsets: tuple[int, int, int] = (0, 0, 0)
    spread: str = "uniform"


AS_TIMED = Kind()


@dataclass(frozen=True)
class Verification:
    """What is found of a launch: counts of words, and the largest error of a row of C over its bound."""

    changed: float  # elements of A and B
    outside: float  # words that are no element of A, B or C
    unwritten: float  # elements of C
    not_finite: float  # elements of C, those that are not written among them
    worst: float

    @property
    def fault(self) -> str:
        """What is wrong, in a few words; empty where nothing is."""
        if self.unwritten:
            return f"{self.unwritten:.0f} elements of C were not written"
        if self.not_finite:
            return f"{self.not_finite:.0f} elements of C were NaN or infinite"
        if not self.worst <= 1:
            return f"C was wrong: the error of a row was {self.worst:.3g} times what rounding explains"
        if self.changed:
            return f"it changed {self.changed:.0f} elements of A and B"
        return f"it wrote {self.outside:.0f} words outside of C" if self.outside else ""


def kernels() -> cp.RawModule:
    """The kernels of operands.cu, compiled for the current device."""
    return cp.RawModule(code=_SOURCE.read_text(), options=("-std=c++17",))


@dataclass(frozen=True)
class Region:
    """Where a matrix lies, in 32-bit words from the beginning of its place: its guards and gaps are its own."""

    start: int
    lead: int
    rows: int
    columns: int
    ld: int

    @property
    def length(self) -> int:
        """Words, with those in front and behind."""
        return self.lead + self.rows * self.ld + GUARD

    @property
    def end(self) -> int:
        """Where the next may start."""
        return -(-(self.start + self.length) // ALIGNED) * ALIGNED


def regions(shape: Shape, kind: Kind) -> tuple[Region, Region, Region]:
    """A, B and C of a product one behind the other; leading dimensions are the columns and the kind's paddings."""
    found: list[Region] = []
    sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    for (rows, columns), padding, offset in zip(sizes, kind.paddings, kind.offsets, strict=True):
        start = found[-1].end if found else 0
        found.append(Region(start, GUARD + offset, rows, columns, max(1, columns + padding)))
    return found[0], found[1], found[2]


class OperandSets:
    """Places for A, B and C of one shape and kind, at least LEAST_PLACES and together as large as asked, if that fits.

    Everything is queued on `stream`, which must be a stream that waits for no other.
    """

    def __init__(
        self,
        module: cp.RawModule,
        shape: Shape,
        kind: Kind,
        total_bytes: int,
        stream: cp.cuda.Stream,
        least: int = LEAST_PLACES,
    ) -> None:
        """Allocate at least so many places; fewer where the GPU's memory does not hold them.

        Raises CuPy's OutOfMemoryError where it does not hold one.
        """
        self.shape, self.kind, self.stream = shape, kind, stream
        self._draw, self._project, self._judge = map(module.get_function, ("draw", "project", "judge"))
        self._regions = regions(shape, kind)
        self._words = self._regions[-1].end
        wanted = max(least, -(-total_bytes // (4 * self._words)))
        free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
        self.places = max(1, min(wanted, int(0.8 * free) // (4 * self._words)))
        self._memory = cp.empty(self.places * self._words, np.uint32)
        self._keys: list[tuple[int, int, int]] = [(0, 0, 0)] * self.places
        self._found = cp.zeros(COUNTS, np.float64)
        words = 2 * STRIPS * STRIP_ROWS * STRIP_WORDS
        pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(4 * words), np.uint32, words)
        self._glimpses = pinned.reshape(2, STRIPS, STRIP_ROWS, STRIP_WORDS)
        self._strips: list[tuple[int, int, int, int, int]] = []
        self._rows = {name: cp.empty((4, rows), np.float64) for name, rows in (("A", shape.m), ("B", shape.k))}
        self._rows |= {name: cp.empty((3, shape.m), np.float64) for name in ("C", "before")}

    @property
    def bytes(self) -> int:
        """What A, B and C of one place take, guards and gaps included."""
        return 4 * self._words

    def operands(self, place: int) -> Operands:
        """The addresses and leading dimensions at a place."""
        base = self._memory.data.ptr + 4 * place * self._words
        pairs = [(base + 4 * (each.start + each.lead), each.ld) for each in self._regions]
        return Operands(*(value for pair in pairs for value in pair))

    def draw(self, place: int) -> None:
        """Queue new values for A and B, and for C where beta is not 0; every other word becomes a NaN of its own."""
        keys = tuple(secrets.randbits(64) for _ in range(3))
        self._keys[place] = (keys[0], keys[1], keys[2])
        for index, region in enumerate(self._regions):
            spread = SPREADS[self.kind.spread][0] if index < 2 or self.kind.beta != 0 else _POISON
            across = min(-(-max(region.ld, 1) // 1024), 1024)
            grid = (across, min(region.rows + 1, max(1, 65535 // across)))
            self._draw(
                grid,
                (256,),
                (*self._region(place, index), np.uint64(keys[index]), np.int32(spread)),
                stream=self.stream,
            )

    def _region(self, place: int, index: int) -> tuple[Any, ...]:
        region = self._regions[index]
        address = self._memory.data.ptr + 4 * (place * self._words + region.start)
        numbers = (np.int64(number) for number in (region.lead, region.ld, region.length))
        return np.uint64(address), *numbers, np.int32(region.rows), np.int32(region.columns)

    def glimpse(self, place: int, slot: int) -> None:
        """Queue a look at some of C as it stands when the stream comes to it: STRIPS of rows, by a copy engine.

        No SM is used, so that what comes next on other streams finds them as the launch left them. Slots are 0 and 1;
        what slot 0 chose to look at, slot 1 looks at again.
        """
        region = self._regions[2]
        if slot == 0:
            self._strips = [self._random_strip(region) for _ in range(STRIPS)]
        base = self._memory.data.ptr + 4 * (place * self._words + region.start + region.lead)
        for number, (row, step, rows, column, width) in enumerate(self._strips):
            self._glimpses[slot, number] = 0
            source, to = base + 4 * (row * region.ld + column), self._glimpses[slot, number].ctypes.data
            cp.cuda.runtime.memcpy2DAsync(
                to, 4 * STRIP_WORDS, source, 4 * step * region.ld, 4 * width, rows, _DEVICE_TO_HOST, self.stream.ptr
            )

    def _random_strip(self, region: Region) -> tuple[int, int, int, int, int]:
        """First row, distance between rows, rows, first column, words of each row."""
        step = max(1, region.rows // STRIP_ROWS)
        row, width = _random.randrange(step), min(STRIP_WORDS, region.columns)
        rows = min(STRIP_ROWS, (region.rows - row - 1) // step + 1)
        return row, step, rows, _random.randrange(region.columns - width + 1), width

    def changed_since_glimpse(self, place: int) -> int:
        """How many of the words that `glimpse` looked at are others by now; waits for the stream."""
        self.glimpse(place, 1)
        self.stream.synchronize()
        return int((self._glimpses[0] != self._glimpses[1]).sum())

    def verify(self, place: int, precision: str) -> None:
        """Queue the verification of what a launch has computed at a place since `draw`, in the precision it claims.

        C is read first, as it stands when the stream comes to it.
        """
        found = self._found
        found.data.memset_async(0, found.nbytes, self.stream)
        null = np.uint64(0)
        signs = secrets.randbits(64)
        addend = self.kind.beta != 0
        number, largest = SPREADS[self.kind.spread]
        B, A, C, before = (self._rows[name] for name in ("B", "A", "C", "before"))
        self._rows_of(place, 2, _FROM_MEMORY, signs, null, null, C, found)
        self._rows_of(place, 1, number, signs, null, null, B, found)
        self._rows_of(place, 0, number, 0, np.uint64(B[0].data.ptr), np.uint64(B[2].data.ptr), A, found)
        if addend:
            self._rows_of(place, 2, _AGAIN + number, signs, null, null, before, found)
        self._judge(
            (min(-(-self.shape.m // 256), 1024),),
            (256,),
            (
                np.int32(self.shape.m),
                *(np.float64(np.float32(each)) for each in (self.kind.alpha, self.kind.beta)),
                *(np.uint64(rows.data.ptr) for rows in (C[0], A[0], A[1], A[2], before[0], before[2])),
                *(np.float64(each) for each in (largest, *self._bound(precision))),
                np.uint64(found.data.ptr),
            ),
            stream=self.stream,
        )

    def verification(self) -> Verification:
        """What the last `verify` found; waits for the stream."""
        return Verification(*map(float, self._found.get(stream=self.stream)))

    def kept(self) -> cp.ndarray:
        """A copy on the GPU of what the last `verify` finds, for when the stream has come to it."""
        with self.stream:
            return self._found.copy()

    def _rows_of(
        self, place: int, index: int, spread: int, signs: int, x: Any, weights: Any, rows: cp.ndarray, found: cp.ndarray
    ) -> None:
        region = self._regions[index]
        width = 32 if region.columns <= 2048 else 256
        block = (width, 256 // width)
        grid = (max(1, min(-(-region.rows // block[1]), 4096)),)
        key = self._keys[place][index]
        outputs = (np.uint64(each.data.ptr) for each in (*rows[:3], found))
        numbers = (np.uint64(key), np.int32(spread), np.uint64(signs))
        self._project(grid, block, (*self._region(place, index), *numbers, x, weights, *outputs), stream=self.stream)

    def _bound(self, precision: str) -> tuple[float, float]:
        """What `judge` makes the bound of a row of: the factor before sqrt(t(columns) terms), and t's constant."""
        tail = math.log(2 / FALSE_ALARM)
        of_norm = statistical_bound(self.shape.k, math.inf, precision)  # t(infinity) is 1
        return of_norm * math.sqrt(2 * math.log(2 * self.shape.m / FALSE_ALARM)), tail
