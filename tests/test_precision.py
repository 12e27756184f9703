"""Classes of arithmetic: how rungs are named beside others, what they are held to, what they are compared with."""

import numpy as np
import pandas as pd
import pytest
from ladder.bounds import componentwise_bound
from ladder.config import ROOT, read_kernels, schema
from ladder.precision import BOUNDS, TITLES, baseline_of, label, labelled, name_of


def test_every_class_has_a_name_and_bounds():
    classes = schema("kernels")["additionalProperties"]["properties"]["precision"]["enum"]
    assert list(TITLES) == list(BOUNDS) == classes


def test_a_rung_of_another_class_than_fp32_is_named_with_it():
    assert [label("tma", "fp32"), label("mma_3xtf32@BK=32", "3xtf32")] == ["tma", "mma_3xtf32@BK=32 (3xTF32)"]
    assert name_of("mma_3xtf32@BK=32 (3xTF32)") == "mma_3xtf32@BK=32"


def test_a_table_is_labelled_by_the_table_of_rungs():
    rungs = pd.DataFrame({"rung": ["cublas", "mma_3xtf32"], "precision": ["fp32", "3xtf32"]})
    table = pd.DataFrame({"rung": ["mma_3xtf32", "cublas", "mma_3xtf32"], "value": [1, 2, 3]})
    assert list(labelled(table, rungs)["rung"]) == ["mma_3xtf32 (3xTF32)", "cublas", "mma_3xtf32 (3xTF32)"]
    assert list(table["rung"]) == ["mma_3xtf32", "cublas", "mma_3xtf32"]


@pytest.mark.parametrize(
    ("precision", "baseline"), [("fp32", "cublas"), ("3xtf32", "cublas"), ("3xfp16", "cublas"), ("tf32", "other")]
)
def test_a_rung_is_compared_with_the_baseline_of_the_class_whose_bounds_it_holds(precision, baseline):
    baselines = [{"name": "cublas", "precision": "fp32"}, {"name": "other", "precision": "tf32"}]
    assert baseline_of(precision, baselines) == baseline
    assert baseline_of(precision, baselines[:1]) == "cublas"


def test_rungs_of_the_ladder_that_split_numbers_are_held_to_fp32s_bounds():
    split = [rung for rung in read_kernels(ROOT / "config/kernels.yaml").values() if rung.precision.startswith("3x")]
    assert split
    assert {rung.declared["precision"] for rung in split} == {"fp32"}
    assert {rung.baseline for rung in split} == {"cublas"}


# What kernels/include/split_tf32.cuh says of the error, in NumPy.


def split(x):
    """Two TF32 numbers, the first rounded to nearest and of the second what the tensor core reads, in float64."""
    big = ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    small = ((x - big).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return big.astype(np.float64), small.astype(np.float64)


def test_three_products_of_split_numbers_lose_no_more_than_eight_units():
    random = np.random.default_rng(7)
    a, b = (np.ldexp(1 + random.random(1 << 20), random.integers(-40, 40, 1 << 20)).astype(np.float32) for _ in "ab")
    (big_a, small_a), (big_b, small_b) = split(a), split(b)
    exact = a.astype(np.float64) * b
    error = np.abs(big_a * big_b + big_a * small_b + small_a * big_b - exact) / np.abs(exact) * 2.0**24
    assert 4 < error.max() <= 8
    assert (np.abs(big_a * big_b - exact) / np.abs(exact) * 2.0**24).max() > 2000  # and one product alone 2^11 and more


def test_below_64_steps_the_bound_needs_another_path():
    """8 u for splitting, 20 u for each of two steps of the tensor core, and the roundings outside."""
    u = 2.0**-24
    assert 48 * u > componentwise_bound(32)
    assert all((48 + k / 16 + 2) * u <= componentwise_bound(k) for k in (64, 65, 1024, 65536))
