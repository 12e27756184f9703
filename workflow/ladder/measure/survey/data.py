"""Data as users of a matrix product have them: families of A and B, whose parameters a seed draws.

Each family takes a generator of NumPy or CuPy, its module, the shape, and `amount`, a number from 0 to 1 that the seed
has drawn: how many zeros, how wide, how large. What it stands for is in the family's own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ladder.model.shape import Shape

Pair = tuple[Any, Any]


def draw_data(family: str, shape: Shape, seed: int, xp: Any = np) -> Pair:
    """A (m x k) and B (k x n) of a family in float32, by a seed, in the arrays of `xp` (NumPy or CuPy)."""
    A, B = DATA_FAMILIES[family](xp.random.default_rng(seed), xp, shape, drawn_amount(seed))
    return A.astype(np.float32), B.astype(np.float32)


def drawn_amount(seed: int) -> float:
    """The `amount` that a seed draws."""
    return float(np.random.default_rng(seed).random())


def _normal(random: Any, *size: int) -> Any:
    return random.standard_normal(size, dtype=np.float32)


def _exponents(random: Any, xp: Any, count: int, reach: float) -> Any:
    """Powers of two from 2^-reach to 2^reach."""
    return xp.exp2(xp.rint((2 * random.random(count, dtype=np.float32) - 1) * np.float32(reach)))


def _signs(random: Any, *size: int) -> Any:
    return 1 - 2 * (random.random(size, dtype=np.float32) < 0.5).astype(np.float32)


def normal(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Independent normal numbers."""
    return _normal(random, shape.m, shape.k), _normal(random, shape.k, shape.n)


def uniform(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Uniform in [0, 1): all terms of a sum have one sign."""
    return random.random((shape.m, shape.k), dtype=np.float32), random.random((shape.k, shape.n), dtype=np.float32)


def relu(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Activations behind a ReLU, a quarter to three quarters of them zero, by normal weights."""
    return xp.maximum(_normal(random, shape.m, shape.k) + np.float32(1.35 * amount - 0.675), 0), _normal(
        random, shape.k, shape.n
    )


def softmax(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Rows of a softmax, of logits with a deviation of 1 to 9, by normal values: attention."""
    logits = np.float32(1 + 8 * amount) * _normal(random, shape.m, shape.k)
    powers = xp.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), _normal(random, shape.k, shape.n)


def lognormal(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Random signs, and magnitudes whose logarithms are normal with a deviation of 1 to 5."""
    sigma = np.float32(1 + 4 * amount)
    pair = []
    for size in ((shape.m, shape.k), (shape.k, shape.n)):
        pair.append(_signs(random, *size) * xp.exp(sigma * _normal(random, *size)))
    return pair[0], pair[1]


def outlier_columns(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Normal numbers; one column of A in 500, at least one, is 100 to 100,000 times as large."""
    A, B = normal(random, xp, shape, amount)
    columns = random.integers(0, shape.k, max(1, shape.k // 500))
    A[:, columns] *= np.float32(10 ** (2 + 3 * amount))
    return A, B


def power_law(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Matrices of rank up to 256 whose singular values fall as i^-p, p from 0.5 to 2."""
    rank = min(256, shape.m, shape.n, shape.k)
    weights = xp.arange(1, rank + 1, dtype=np.float32) ** np.float32(-(0.5 + 1.5 * amount))
    A = (_normal(random, shape.m, rank) * weights) @ _normal(random, rank, shape.k)
    B = (_normal(random, shape.k, rank) * weights) @ _normal(random, rank, shape.n)
    return A, B


def sparse(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Normal numbers; 50 to 99 % of A are zeros."""
    A, B = normal(random, xp, shape, amount)
    return A * (random.random(A.shape, dtype=np.float32) >= 0.5 + 0.49 * amount), B


def zero_blocks(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Normal numbers; of blocks of 64 x 64 elements of A and B a quarter to three quarters are zero."""
    A, B = normal(random, xp, shape, amount)
    pair = []
    for matrix in (A, B):
        rows, columns = (-(-side // 64) for side in matrix.shape)
        kept = random.random((rows, columns), dtype=np.float32) >= 0.25 + 0.5 * amount
        whole = xp.repeat(xp.repeat(kept, 64, axis=0), 64, axis=1)[: matrix.shape[0], : matrix.shape[1]]
        pair.append(matrix * whole)
    return pair[0], pair[1]


def integers(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Integers up to a magnitude of 1 to 127: FP32 computes the product without an error where k is small."""
    largest = 1 + int(126 * amount)
    return tuple(  # type: ignore[return-value]
        random.integers(-largest, largest + 1, size).astype(np.float32)
        for size in ((shape.m, shape.k), (shape.k, shape.n))
    )


def scaled_rows(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Normal numbers; each row of A and each column of B has a scale of its own, from 2^-30 to 2^30 at most."""
    A, B = normal(random, xp, shape, amount)
    reach = 5 + 25 * amount
    return A * _exponents(random, xp, shape.m, reach)[:, None], B * _exponents(random, xp, shape.n, reach)


def scaled_k(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Normal numbers; each column of A has a scale of its own, and the same row of B its inverse."""
    A, B = normal(random, xp, shape, amount)
    scales = _exponents(random, xp, shape.k, 5 + 25 * amount)
    return A * scales, B / scales[:, None]


def log_uniform(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """Random signs, and magnitudes that are log-uniform over 40 to 100 binades."""
    pair = []
    for size in ((shape.m, shape.k), (shape.k, shape.n)):
        logs = (2 * random.random(size, dtype=np.float32) - 1) * np.float32(20 + 30 * amount)
        pair.append(_signs(random, *size) * xp.exp2(logs))
    return pair[0], pair[1]


def far_apart(random: Any, xp: Any, shape: Shape, amount: float) -> Pair:
    """A is tiny and B is huge, 1e-20 to 1e-35 by the inverse: only their products are near 1."""
    A, B = normal(random, xp, shape, amount)
    scale = np.float32(10 ** -(20 + 15 * amount))
    return A * scale, B / scale


DATA_FAMILIES: dict[str, Callable[[Any, Any, Shape, float], Pair]] = {
    each.__name__: each
    for each in (
        *(normal, uniform, relu, softmax, lognormal, outlier_columns, power_law, sparse, zero_blocks, integers),
        *(scaled_rows, scaled_k, log_uniform, far_apart),
    )
}
