"""The error bounds: their values, and that they pass FP32 arithmetic and fail anything coarser."""

import math

import numpy as np
import pytest
from ladder.measure.check import judge
from ladder.measure.inputs import RANDOM_SIGNS, draw_inputs
from ladder.model.bounds import FALSE_ALARM, componentwise_bound, statistical_bound, underflow_bound
from ladder.model.shape import Shape

SEEDS = range(3)
DEPTHS = [1, 3, 64, 1024, 4096]


@pytest.mark.parametrize(
    ("k", "value"), [(0, 3 / 16777213), (1, 4 / 16777212), (1024, 1027 / 16776189), (4096, 4099 / 16773117)]
)
def test_the_componentwise_bound_is_gamma_of_k_and_three(k, value):
    assert componentwise_bound(k) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_the_componentwise_bound_stays_a_bound_for_any_k(precision):
    """n roundings may each err by u in the same direction. n u reaches 1/2 and 1 at these k, of one of the two."""
    for k in (2**21 - 4, 2**21, 2**22 - 4, 2**22, 2**23 - 5, 2**23, 2**24 - 3, 2**24, 2**31 - 1):
        n = k + 3 if precision == "fp32" else 4 * k + 6
        assert math.expm1(n * math.log1p(2.0**-24)) <= componentwise_bound(k, precision) < math.inf


def test_the_statistical_bound_grows_like_the_root_of_k_and_shrinks_to_a_limit_with_the_columns():
    x = math.log(2 / FALSE_ALARM)
    alone = 1 + 2 * math.sqrt(x) + 2 * x
    assert statistical_bound(61, 1) == pytest.approx(8 * alone * 2**-24, rel=1e-12)
    assert statistical_bound(4 * 64 - 3, 1) == pytest.approx(2 * statistical_bound(61, 1), rel=1e-12)
    assert statistical_bound(61, 1e12) == pytest.approx(8 * math.sqrt(alone) * 2**-24, rel=1e-5)


@pytest.mark.parametrize("count", [1, 4, 64])
def test_the_tail_is_not_below_that_of_the_mean_of_squared_normals(count):
    """Compared with the exact tail where it is large enough to be sampled: FALSE_ALARM far up."""
    random, x = np.random.default_rng(0), math.log(2 / 0.01)
    means = (random.standard_normal((20000, count)) ** 2).mean(axis=1)
    assert (means > 1 + 2 * math.sqrt(x / count) + 2 * x / count).mean() <= 0.005


def test_underflow_is_allowed_half_a_subnormal_a_product_or_all_that_is_flushed():
    assert underflow_bound(10, 1, 0, 1, 1, "gradual") == pytest.approx(12 * 2.0**-150, rel=1e-5)
    assert underflow_bound(10, 1, 0, 0, 8, "gradual") == pytest.approx(8 * 12 * 2.0**-150, rel=1e-5)
    assert underflow_bound(10, 1, 0, 1, 1, "flushed") > 1e7 * underflow_bound(10, 1, 0, 1, 1, "gradual")


# Arithmetic, as one thread an element does it, of this and of coarser precision


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A . B in FP32, summed one after another."""
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for p in range(A.shape[1]):
        C += np.outer(A[:, p], B[p])
    return C


def rounded(values: np.ndarray, dropped: int, nearest: bool = True) -> np.ndarray:
    """FP32 values without their last bits: 13 for TF32, 16 for BF16; to nearest, ties to even, or towards zero."""
    bits = values.view(np.uint32).astype(np.uint64)
    up = (1 << dropped - 1) - 1 + ((bits >> dropped) & 1) if nearest else 0
    return ((bits + up) >> dropped << dropped).astype(np.uint32).view(np.float32)


def exact(values: np.ndarray) -> np.ndarray:
    return values


def tf32(values):
    return rounded(values, 13)


def tf32_truncated(values):
    return rounded(values, 13, nearest=False)


def bf16(values):
    return rounded(values, 16)


def judged(k: int, seed: int, family: str, of_A=exact, of_B=exact, sums=exact, shape=(24, 32)) -> dict:
    shape = Shape(*shape, k)
    inputs = draw_inputs(family, shape, True, False, seed)
    C = sums(product(of_A(inputs.A), of_B(inputs.B)))
    return judge.case_error(shape, 1, 0, inputs.A, inputs.B, None, C, family)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "family", [*RANDOM_SIGNS, "positive", "huge", "largest", "cancellation", "subnormal", "signed_zeros", "nonfinite"]
)
@pytest.mark.parametrize("k", DEPTHS)
def test_sequential_fp32_sums_pass(k, family, seed):
    with np.errstate(all="ignore"):
        assert judged(k, seed, family)["verdict"] == "pass"


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_numbers_are_none_of_them_infinite(seed):
    inputs = draw_inputs("largest", Shape(512, 512, 512), True, False, seed)
    assert np.isfinite(inputs.A).all()
    assert np.isfinite(inputs.B).all()


@pytest.mark.parametrize("sides", [(1, 70), (70, 1), (7, 9)], ids=str)
def test_a_zero_that_meets_an_infinity_makes_a_nan_that_no_other_hides(sides):
    inputs = draw_inputs("nonfinite", Shape(*sides, 10), True, False, 1)
    with np.errstate(all="ignore"):
        right = inputs.A @ inputs.B
    skipped = (inputs.A == 0)[:, :, None] & np.isinf(inputs.B) | np.isinf(inputs.A)[:, :, None] & (inputs.B == 0)
    own = np.isnan(inputs.A).any(axis=1)[:, None] | np.isnan(inputs.B).any(axis=0)
    assert (skipped.any(axis=1) & ~own).any()
    assert np.isnan(right[skipped.any(axis=1) & ~own]).all()


@pytest.mark.parametrize("seed", range(8))
def test_some_of_the_largest_numbers_are_infinite_in_tf32_and_sums_of_them_are_finite(seed):
    shape = Shape(24, 24, 24)
    inputs = draw_inputs("largest", shape, True, False, seed)
    with np.errstate(all="ignore"):
        assert [np.isinf(tf32(each)).any() for each in (inputs.A, inputs.B)] in ([True, False], [False, True])
        found = judge.case_error(shape, 1, 0, inputs.A, inputs.B, None, tf32(inputs.A) @ tf32(inputs.B), "largest")
    assert found["verdict"].startswith("NaN or infinity at row ")
    assert np.isfinite(np.abs(inputs.A) @ np.abs(inputs.B)).all()


def fixed_point(lines: np.ndarray) -> np.ndarray:
    """Each line in multiples of 2**-22 of its largest magnitude."""
    unit = np.abs(lines).max(axis=1, keepdims=True) * 2.0**-22
    return np.round(lines / unit) * unit


def test_a_product_that_loses_numbers_beside_larger_ones_of_their_line_is_blamed_where_steps_of_k_differ():
    shape, found = Shape(24, 32, 300), {}
    for family in ("uneven", "uneven_steps"):
        drawn = [draw_inputs(family, shape, True, False, seed) for seed in range(8)]
        products = [(fixed_point(each.A) @ fixed_point(each.B.T).T).astype(np.float32) for each in drawn]
        found[family] = {
            judge.case_error(shape, 1, 0, each.A, each.B, None, C, family)["verdict"] == "pass"
            for each, C in zip(drawn, products, strict=True)
        }
    assert found == {"uneven": {True}, "uneven_steps": {True, False}}


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (64, 1), (2, 3)])
@pytest.mark.parametrize("family", RANDOM_SIGNS)
def test_no_right_product_is_blamed_however_small(shape, family):
    found = [judged(k, seed, family, shape=shape) for k in (1, 2, 64, 300) for seed in range(50)]
    assert {each["verdict"] for each in found} == {"pass"}
    assert max(each["error_normwise"] / each["bound_normwise"] for each in found) < 0.5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", ["uniform", "normal"])
@pytest.mark.parametrize(
    ("of_A", "of_B"),
    [(tf32, tf32), (exact, tf32), (exact, tf32_truncated), (bf16, bf16), (bf16, exact)],
    ids=["TF32", "TF32 B", "TF32 B truncated", "BF16", "BF16 A"],
)
@pytest.mark.parametrize("k", [64, 256, 1024, 4096])
def test_inputs_of_less_precision_are_told_with_room_to_spare(k, of_A, of_B, family, seed):
    found = judged(k, seed, family, of_A, of_B)
    assert found["verdict"] != "pass"
    assert found["error_normwise"] > 2 * found["bound_normwise"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", RANDOM_SIGNS)
@pytest.mark.parametrize("rounding", [tf32, bf16], ids=["TF32", "BF16"])
@pytest.mark.parametrize("k", [64, 1024])
@pytest.mark.parametrize("line", ["row", "column"])
def test_one_row_or_column_of_less_precision_is_told(line, k, rounding, family, seed):
    shape = Shape(24, 32, k)
    inputs = draw_inputs(family, shape, True, False, seed)
    C, coarse = product(inputs.A, inputs.B), product(rounding(inputs.A), rounding(inputs.B))
    place = (5, slice(None)) if line == "row" else (slice(None), 5)
    C[place] = coarse[place]
    assert judge.case_error(shape, 1, 0, inputs.A, inputs.B, None, C, family)["verdict"] != "pass"


def test_the_alarms_of_all_rows_together_are_as_improbable_as_that_of_the_matrix():
    """Compared with sums of squared normals, where the tail is large enough to be sampled: FALSE_ALARM far up."""
    rows, random = 100, np.random.default_rng(0)
    x = math.log(2 * rows / 0.01)
    worst = (random.standard_normal((5000, rows, 8)) ** 2).mean(axis=2).max(axis=1)
    assert (worst > 1 + 2 * math.sqrt(x / 8) + 2 * x / 8).mean() <= 0.005
    alone = statistical_bound(64, 8.0, tests=1)
    assert statistical_bound(64, np.array([8.0, 1e9]), tests=rows)[0] > alone
    assert statistical_bound(64, np.array([8.0, 1e9]), tests=rows)[1] < alone


@pytest.mark.parametrize("scale", [2.0**-140, 2.0**-100, 2.0**100, 2.0**127, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("of_alpha", [True, False])
@pytest.mark.parametrize("operand", [True, False])
def test_a_right_product_of_any_scalars_passes_whatever_alpha_is_multiplied_with(scale, of_alpha, operand):
    alpha, beta = (scale, 1.0) if of_alpha else (1.0, scale)
    shape = Shape(24, 32, 64)
    inputs = draw_inputs("uniform", shape, True, True, 0)
    with np.errstate(all="ignore"):
        a = np.float32(alpha)
        scaled = product(a * inputs.A, inputs.B) if operand else a * product(inputs.A, inputs.B)
        C = scaled + np.float32(beta) * inputs.C
    assert judge.case_error(shape, alpha, beta, inputs.A, inputs.B, inputs.C, C)["verdict"] == "pass"


@pytest.mark.parametrize("wrong", [0.0, 3.4e38])
def test_a_number_where_the_result_overflows_or_is_nan_is_told(wrong):
    shape = Shape(24, 32, 64)
    inputs = draw_inputs("uniform", shape, True, False, 0)
    C = np.full((24, 32), wrong, np.float32)
    for alpha in (math.inf, math.nan):
        assert judge.case_error(shape, alpha, 0, inputs.A, inputs.B, None, C)["verdict"].startswith("not the ")
    with np.errstate(all="ignore"):
        C = np.float32(2.0**127) * product(inputs.A, inputs.B)
    overflowed = np.argwhere(np.isinf(C))[0]
    C[tuple(overflowed)] = wrong
    assert judge.case_error(shape, 2.0**127, 0, inputs.A, inputs.B, None, C)["verdict"] != "pass"


def test_tf32_at_a_depth_of_4096_is_caught_by_the_norm_alone():
    found = judged(4096, 0, "uniform", tf32, tf32)
    assert found["error_componentwise"] <= componentwise_bound(4096)
    assert found["verdict"].startswith("the norm of the error, ")


@pytest.mark.parametrize("k", [64, 1024])
def test_sums_kept_in_half_precision_are_told(k):
    found = judged(k, 0, "uniform", sums=lambda C: C.astype(np.float16).astype(np.float32))
    assert found["verdict"] != "pass"
    assert found["error_normwise"] > found["bound_normwise"]


def test_subnormals_that_are_flushed_are_told_unless_the_rung_says_so():
    shape = Shape(8, 9, 64)
    inputs = draw_inputs("subnormal", shape, True, False, 0)
    arguments = (shape, 1, 0, inputs.A, inputs.B, None, np.zeros((8, 9), np.float32), "subnormal")
    assert judge.case_error(*arguments, "gradual")["verdict"] != "pass"
    assert judge.case_error(*arguments, "flushed")["verdict"] == "pass"


# A tensor core's arithmetic in TF32


def truncated(values: np.ndarray) -> np.ndarray:
    """Float64 values as FP32, towards zero."""
    nearest = values.astype(np.float32)
    return np.where(np.abs(nearest) > np.abs(values), np.nextafter(nearest, np.float32(0)), nearest)


def of_a_tensor_core(A: np.ndarray, B: np.ndarray, step: int = 8) -> np.ndarray:
    """A . B with operands cut to TF32 and the sum truncated after every `step` terms."""
    A64, B64 = (rounded(matrix, 13, nearest=False).astype(np.float64) for matrix in (A, B))
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for p in range(0, A.shape[1], step):
        C = truncated(C + A64[:, p : p + step] @ B64[p : p + step])
    return C


@pytest.mark.parametrize(
    "family", [*RANDOM_SIGNS, "positive", "huge", "cancellation", "subnormal", "signed_zeros", "nonfinite"]
)
@pytest.mark.parametrize("k", DEPTHS)
def test_a_rung_that_declares_tf32_is_held_to_the_bound_of_tf32(k, family):
    shape = Shape(24, 32, k)
    inputs = draw_inputs(family, shape, True, False, 0)
    with np.errstate(all="ignore"):
        C = of_a_tensor_core(inputs.A, inputs.B)
        arguments = (shape, 1, 0, inputs.A, inputs.B, None, C, family, "gradual")
        assert judge.case_error(*arguments, "tf32")["verdict"] == "pass"
        if family in RANDOM_SIGNS:
            assert "FP32" in judge.case_error(*arguments, "fp32")["verdict"]


@pytest.mark.parametrize("k", [64, 4096])
def test_a_rung_that_declares_tf32_may_not_be_coarser(k):
    shape = Shape(24, 32, k)
    inputs = draw_inputs("normal", shape, True, False, 0)
    C = product(*(rounded(matrix, 18) for matrix in (inputs.A, inputs.B)))
    found = judge.case_error(shape, 1, 0, inputs.A, inputs.B, None, C, "normal", "gradual", "tf32")
    assert found["verdict"] != "pass"
    assert found["error_normwise"] > found["bound_normwise"]
