"""The matrices that rungs are checked with: families of random inputs, each hard on something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ladder.model.shape import Shape

Matrix = np.ndarray

# Of these the signs are independent of all else, which the statistical test of ladder.model.bounds stands on.
RANDOM_SIGNS = ("uniform", "normal", "wide_range", "outliers", "uneven", "uneven_steps", "late", "last", "smallest")


@dataclass(frozen=True)
class Inputs:
    """A (m x k), B (k x n) and C (m x n) in float32; None for what must not be read."""

    A: Matrix | None
    B: Matrix | None
    C: Matrix | None


def draw_inputs(family: str, shape: Shape, product: bool, addend: bool, seed: int) -> Inputs:
    """Inputs of a family; A and B only where there is a product to compute, C only where beta is not zero."""
    random = np.random.default_rng(seed)
    A, B = _PAIRS[family](random, shape) if product else (None, None)
    C = _ADDENDS.get(family, _uniform)(random, shape.m, shape.n) if addend else None
    return Inputs(A, B, C)


def _uniform(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Odd multiples of 2**-24 between -1 and 1: as many below zero as above, and never zero."""
    values = random.random((rows, columns), dtype=np.float32)
    values *= 2  # in place: matrices may be large, and touching fresh memory is what drawing them costs most
    values -= np.float32(1 - 2.0**-24)
    return values


def _normal(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return random.standard_normal((rows, columns), dtype=np.float32)


def _wide(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Magnitudes from 2**-30 to 2**30: the products of two neither overflow nor underflow."""
    return np.ldexp(_uniform(random, rows, columns), random.integers(-30, 31, (rows, columns))).astype(np.float32)


def _outliers(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """About one number in 512 is 256 times as large: a range that was found from the others does not hold it."""
    values = _uniform(random, rows, columns)
    values[random.random(values.shape, dtype=np.float32) < 2.0**-9] *= 256
    return values


def _positive(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Below 1: in a sum of one sign no error takes another away."""
    return np.abs(_uniform(random, rows, columns))


def _huge_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """Positive; each row of A and each column of B has its own power of two, up to 2**55.

    Sums of products come near every power of two up to 2**110, and are of one sign: where a part of them overflows, no
    other makes a NaN of it.
    """
    A, B = _positive(random, shape.m, shape.k), _positive(random, shape.k, shape.n)
    for lines in (A, B.T):
        lines[...] = np.ldexp(lines, random.integers(31, 56, (len(lines), 1)))
    return A, B


def _huge_addend(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return np.ldexp(_uniform(random, rows, columns), 120).astype(np.float32)


def _largest_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """One matrix near the largest numbers, the other so small that sums of products are finite in every order.

    Of the large one each number in eight is so near to 2**128 that it rounds to an infinity in TF32, BF16 and FP16. The
    small ones are below 2**-24, or so small that a rung that tests them for that leaves all to another path.
    """
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    large, small = (A, B) if random.random() < 1 / 2 else (B, A)
    below_one = np.nextafter(np.float32(1), np.float32(0))
    nearest = np.copysign(np.minimum(1 - np.abs(large) * np.float32(2.0**-12), below_one), large)
    large[...] = np.ldexp(np.where(random.random(large.shape) < 1 / 8, nearest, large / 2), 128)
    small[...] = np.ldexp(small, -random.choice((24, 100)))
    return A, B


def _smallest_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """One matrix of normal numbers from 2**-125 to 2**-116, the other of numbers up to 2**56; no zero or subnormal.

    What is left of the small ones in a second or third part of BF16 or TF32 is subnormal, and matters.
    """
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    small, large = (A, B) if random.random() < 1 / 2 else (B, A)
    small[...] = np.ldexp(small + np.copysign(np.float32(1), small), random.integers(-125, -116, small.shape))
    large[...] = np.ldexp(large, 56)
    return A, B


def _smallest_addend(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return np.ldexp(_uniform(random, rows, columns), -64).astype(np.float32)


def _largest_addend(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return np.ldexp(_uniform(random, rows, columns), 28).astype(np.float32)


def _subnormal(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Multiples of 2**-149, all below the smallest normal number, 2**-126."""
    return (random.integers(-(2**23) + 1, 2**23, (rows, columns)) * 2.0**-149).astype(np.float32)


def _zeros(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Zeros of either sign, and a number in one of eight places."""
    zeros = np.copysign(np.float32(0), _uniform(random, rows, columns))
    return np.where(random.random((rows, columns)) < 1 / 8, _uniform(random, rows, columns), zeros)


def _alike(kind: Callable[..., Matrix]) -> Callable[..., tuple[Matrix, Matrix]]:
    return lambda random, shape: (kind(random, shape.m, shape.k), kind(random, shape.k, shape.n))


def _cancelling(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """The second half of the terms takes the first half away again, but for some 2**-10 of it."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    half = shape.k // 2
    A[:, half : 2 * half] = A[:, :half]
    B[half : 2 * half] = -B[:half] * (1 + np.float32(2.0**-10) * _uniform(random, half, shape.n))
    return A, B


def _subnormal_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    return _subnormal(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)


def _subnormal_second(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    return _uniform(random, shape.m, shape.k), _subnormal(random, shape.k, shape.n)


def _uneven_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """Rows of A, or columns of B, that differ by many orders of magnitude: all of them, or one from all others."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    lines = A if random.random() < 1 / 2 else B.T
    lines[...] = np.ldexp(lines, _scales(random, len(lines)))
    return A, B


def _uneven_steps_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """Steps of k that differ so, all or one, and by as much the other way in B: of each sum all terms count."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    scales = _scales(random, shape.k)
    return np.ldexp(A, scales.T), np.ldexp(B, -scales)


def _late_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """The last eighth of the steps of k is 2**20 times as large: a range found from the others does not hold it."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    return _with_larger_end(A, B, shape.k // 8)


def _last_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """The last step of k, or up to eight, is 2**20 times as large: a rest of a long sum is all that counts."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    return _with_larger_end(A, B, int(random.integers(1, 9)))


def _with_larger_end(A: Matrix, B: Matrix, steps: int) -> tuple[Matrix, Matrix]:
    """The matrices with their last steps of k, so many or all, 2**20 times as large."""
    first = max(0, len(B) - steps)
    A[:, first:] *= np.float32(2.0**20)
    B[first:] *= np.float32(2.0**20)
    return A, B


def _scales(random: np.random.Generator, lines: int) -> Matrix:
    """Exponents of powers of two, a column of them, all of them drawn or one; the others are 0."""
    chosen = np.ones(lines, bool) if random.random() < 1 / 2 else np.arange(lines) == _any(random, lines)
    return np.where(chosen, random.integers(-30, 31, lines), 0)[:, None]


def _uneven(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return np.ldexp(_uniform(random, rows, columns), random.integers(-30, 31, (rows, 1))).astype(np.float32)


def _zero_tiles(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """Zeros wherever A has some neighbouring steps of k, or B has, and infinities of the other matrix meet them.

    They are whole tiles of up to 64 steps, or of half or a quarter as many. Who skips a tile of zeros misses NaNs.
    """
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    zeros, others = (A.T, B) if random.random() < 1 / 2 else (B, A.T)
    steps = int(random.choice((16, 32, 64)))
    first = int(random.integers(shape.k)) // steps * steps
    last = min(shape.k, -(-(int(random.integers(first, shape.k)) + 1) // steps) * steps)
    zeros[first:last] = 0
    for _ in range(3):
        others[random.integers(first, last), _any(random, others.shape[1])] = np.inf
    return A, B


def _scattered_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    return _scatter(random, A), _scatter(random, B)


def _scattered(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    return _scatter(random, _uniform(random, rows, columns))


def _scatter(random: np.random.Generator, matrix: Matrix) -> Matrix:
    """Up to three infinities or NaNs anywhere."""
    for _ in range(random.integers(4)):
        place = _any(random, len(matrix)), _any(random, matrix.shape[1])
        matrix[place] = random.choice((np.inf, -np.inf, np.nan))
    return matrix


def _any(random: np.random.Generator, size: int) -> int:
    """A place, the last one as often as all others."""
    return size - 1 if random.random() < 1 / 2 else int(random.integers(size))


def _nonfinite_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """NaN and infinities in the corners, where a tile's guard is easily forgotten, and one in the middle of A.

    A zero meets an infinity in the first row and in the middle row: who skips zeros misses a NaN. A single row or
    column has no NaN of its own, which would hide that.
    """
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    A[0, -1] = 0
    B[shape.k // 2, shape.n // 2] = 0
    A[shape.m // 2, shape.k // 2] = np.inf
    B[-1, 0] = -np.inf
    if shape.m > 1:
        A[-1, -1] = np.nan
    if shape.n > 1:
        B[0, -1] = np.nan
    return A, B


def _nonfinite_first_pair(random: np.random.Generator, shape: Shape) -> tuple[Matrix, Matrix]:
    """Of each matrix the first number alone is infinite: who reads it where nothing is, times a zero, makes NaNs."""
    A, B = _uniform(random, shape.m, shape.k), _uniform(random, shape.k, shape.n)
    A[0, 0] = B[0, 0] = np.inf
    return A, B


def _nonfinite_addend(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    C = _uniform(random, rows, columns)
    C[0, columns // 2] = np.nan
    C[rows // 3, columns // 3] = -np.inf
    return C


_PAIRS: dict[str, Callable[[np.random.Generator, Shape], tuple[Matrix, Matrix]]] = {
    "uniform": _alike(_uniform),
    "normal": _alike(_normal),
    "wide_range": _alike(_wide),
    "outliers": _alike(_outliers),
    "cancellation": _cancelling,
    "subnormal": _subnormal_pair,
    "signed_zeros": _alike(_zeros),
    "nonfinite": _nonfinite_pair,
    "nonfinite_first": _nonfinite_first_pair,
    "uneven": _uneven_pair,
    "uneven_steps": _uneven_steps_pair,
    "late": _late_pair,
    "last": _last_pair,
    "subnormal_B": _subnormal_second,
    "zero_tiles": _zero_tiles,
    "scattered": _scattered_pair,
    "positive": _alike(_positive),
    "huge": _huge_pair,
    "largest": _largest_pair,
    "smallest": _smallest_pair,
}
_ADDENDS = {
    "normal": _normal,
    "wide_range": _wide,
    "subnormal": _subnormal,
    "signed_zeros": _zeros,
    "nonfinite": _nonfinite_addend,
    "uneven": _uneven,
    "scattered": _scattered,
    "huge": _huge_addend,
    "largest": _largest_addend,
    "smallest": _smallest_addend,
}
FAMILIES = tuple(_PAIRS)
