"""The error bounds: their values, and that they pass FP32 arithmetic and fail anything coarser."""

import math

import numpy as np
import pytest
from ladder.bounds import componentwise_bound, normwise_bound

SEEDS = range(3)
DEPTHS = [1, 3, 64, 1024, 4096]


@pytest.mark.parametrize(
    ("k", "value"), [(0, 3 / 16777213), (1, 4 / 16777212), (1024, 1027 / 16776189), (4096, 4099 / 16773117)]
)
def test_the_componentwise_bound_is_gamma_of_k_and_three(k, value):
    assert componentwise_bound(k) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("k", "value"), [(0, 8 / 2**24), (1, 12 / 2**24), (4096, 264 / 2**24)])
def test_the_normwise_bound_grows_like_the_root_of_k(k, value):
    assert normwise_bound(k) == pytest.approx(value, rel=1e-12)
    assert normwise_bound(4 * 4096) - normwise_bound(4096) == pytest.approx(4 * 64 / 2**24, rel=1e-12)


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A . B as one thread an element computes it: FP32 products, summed in FP32 one after another."""
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for p in range(A.shape[1]):
        C += np.outer(A[:, p], B[p])
    return C


def tf32(values: np.ndarray) -> np.ndarray:
    """FP32 values rounded to the ten bits of mantissa that TF32 has, to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def errors(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> tuple[float, float]:
    """The component-wise and the norm-wise error of C, as the bounds define them."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    expected = A @ B
    difference = np.abs(C - expected)
    terms = (A**2).sum(axis=0) @ (B**2).sum(axis=1)
    size = math.sqrt((expected**2).sum() + terms)
    return float((difference / (np.abs(A) @ np.abs(B))).max()), float(np.linalg.norm(difference)) / size


def inputs(k: int, seed: int, low: float = -1.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([k, seed])
    return tuple(random.uniform(low, 1, shape).astype(np.float32) for shape in ((16, k), (k, 24)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("low", [-1.0, 0.0], ids=["either sign", "positive"])
@pytest.mark.parametrize("k", DEPTHS)
def test_sequential_fp32_sums_are_within_both_bounds(k, low, seed):
    A, B = inputs(k, seed, low)
    componentwise, normwise = errors(A, B, product(A, B))
    assert componentwise <= componentwise_bound(k)
    assert normwise <= normwise_bound(k)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("k", [64, 1024, 4096])
def test_inputs_rounded_to_tf32_are_above_the_normwise_bound(k, seed):
    A, B = inputs(k, seed)
    _, normwise = errors(A, B, product(tf32(A), tf32(B)))
    assert normwise > 5 * normwise_bound(k)
    assert 1e-4 < normwise < 1e-3


def test_tf32_at_a_depth_of_4096_is_caught_by_the_normwise_bound_alone():
    A, B = inputs(4096, 0)
    componentwise, normwise = errors(A, B, product(tf32(A), tf32(B)))
    assert componentwise <= componentwise_bound(4096)
    assert normwise > normwise_bound(4096)


def test_one_wrong_element_of_many_is_above_the_componentwise_bound():
    A, B = inputs(64, 0)
    C = product(A, B)
    C[3, 5] += np.float32(1e-4)
    assert errors(A, B, C)[0] > componentwise_bound(64)


def test_sums_kept_in_half_precision_are_above_both_bounds():
    A, B = inputs(64, 0)
    componentwise, normwise = errors(A, B, product(A, B).astype(np.float16).astype(np.float32))
    assert componentwise > componentwise_bound(64)
    assert normwise > normwise_bound(64)
