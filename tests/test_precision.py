"""Classes of arithmetic: how rungs are named beside others, what they are held to, what they are compared with."""

import zlib
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from ladder.build.library import Library, Operands
from ladder.config.documents import schema
from ladder.config.kernels import read_kernels
from ladder.measure.accuracy.worker import inputs_of, measure
from ladder.measure.check.judge import case_error
from ladder.measure.devices import EMULATED_SMS, Call, EmulatedDevice
from ladder.measure.inputs import draw_inputs
from ladder.model.bounds import componentwise_bound
from ladder.model.precision import BOUNDS, TITLES, baselines_of, label, labelled, name_of, shared_in
from ladder.model.shape import Shape
from ladder.system.paths import ROOT


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
    ("precision", "expected"),
    [
        ("fp32", ("cublas", "best")),
        ("3xtf32", ("cublas", "best")),
        ("3xfp16", ("cublas", "best")),
        ("tf32", ("other",)),
    ],
)
def test_a_rung_is_compared_with_the_baselines_of_the_class_whose_bounds_it_holds(precision, expected):
    named = [("cublas", "fp32"), ("other", "tf32"), ("best", "fp32")]
    baselines = [{"name": name, "precision": each} for name, each in named]
    assert baselines_of(precision, baselines) == expected
    assert baselines_of(precision, baselines[:1]) == ("cublas",)


def test_what_a_share_of_cublas_is_of_is_told_by_the_table_of_rungs():
    rows = [("cublas", "fp32", "baseline"), ("mine (TF32)", "tf32", "baseline"), ("best", "fp32", "baseline")]
    rungs = pd.DataFrame([*rows, ("a", "tf32", "rung"), ("b", "3xfp16", "rung")], columns=["rung", "precision", "role"])
    assert shared_in(rungs) == "of mine for TF32, of the faster of cublas and best for every other class"
    assert shared_in(rungs[rungs["rung"] != "best"]) == "of mine for TF32, of cublas for every other class"
    assert shared_in(rungs[rungs["precision"] != "tf32"]) == "of the faster of cublas and best"
    assert shared_in(rungs[rungs["rung"].isin(["cublas", "b"])]) == "of cublas"
    assert shared_in(rungs[rungs["role"] == "rung"]) == ""


def test_rungs_of_the_ladder_that_split_numbers_are_held_to_fp32s_bounds():
    split = [rung for rung in read_kernels(ROOT / "config/kernels.yaml").values() if rung.precision.startswith("3x")]
    assert split
    assert {rung.declared["precision"] for rung in split} == {"fp32"}
    assert {rung.baselines for rung in split} == {("cublas", "cublas_best")}


# What kernels/include/split_tf32.cuh says of the error, in NumPy.


def split(x):
    """Two TF32 numbers, the first rounded to nearest and of the second what the tensor core reads, in float64."""
    product = x * np.float32(8191)
    big = (8192 * x.astype(np.float64) - product).astype(np.float32)  # a multiply-add: exact but for one rounding
    small = ((x - big).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return big.astype(np.float64), small.astype(np.float64)


def test_the_first_of_two_tf32_numbers_is_the_nearest():
    """Of all 2^23 significands; at the ends of a binade a factor of 8193 would miss it."""
    significands = (np.arange(1 << 23, 1 << 24, dtype=np.uint32) & 0x7FFFFF | 0x3F800000).view(np.float32)
    big, _ = split(significands)
    units = significands.astype(np.float64) * 2**10  # of the last of 11 bits
    assert (big * 2**10 == np.rint(big * 2**10)).all()
    assert np.abs(big * 2**10 - units).max() == 0.5


def test_three_products_of_split_numbers_lose_no_more_than_eight_units():
    random = np.random.default_rng(7)
    a, b = (np.ldexp(1 + random.random(1 << 20), random.integers(-40, 40, 1 << 20)).astype(np.float32) for _ in "ab")
    (big_a, small_a), (big_b, small_b) = split(a), split(b)
    exact = a.astype(np.float64) * b
    error = np.abs(big_a * big_b + big_a * small_b + small_a * big_b - exact) / np.abs(exact) * 2.0**24
    assert 4 < error.max() <= 8
    assert (np.abs(big_a * big_b - exact) / np.abs(exact) * 2.0**24).max() > 2000  # and one product alone 2^11 and more


def toward_zero(x, places):
    """Truncated to so many binary places below the leading bit of the largest along the first axis."""
    last = np.ldexp(1.0, np.frexp(np.abs(x).max(axis=0))[1] - places)
    return np.trunc(x / last) * last


def on_tensor_cores(products, k, turn=16, summed=16):
    """The sum of `summed` steps of k at a time: 8 terms and the sum so far, aligned with two spare bits, cut to 24.

    Of `turn` steps one product comes after the other.
    """
    total = np.float32(0)
    for begin in range(0, k, summed):
        part = np.zeros(products[0].shape[1:])
        for first in range(begin, begin + summed, turn):
            for terms in products:
                for p in range(first, first + turn, 8):
                    part = toward_zero(toward_zero(np.stack([part, *terms[p : p + 8]]), 26).sum(axis=0)[None], 24)[0]
        total = (total + part).astype(np.float32)
    return total


def test_of_wide_ranges_no_fourth_product_brings_the_error_of_a_short_sum_to_that_of_multiply_adds():
    """Where one term is most of the sum, FP32 loses its last rounding; a split loses bits of both factors besides."""
    k = 64
    inputs = draw_inputs("wide_range", Shape(1, 1024, k), True, False, 3)
    a, b = np.repeat(inputs.A.T, 1024, axis=1), inputs.B
    (big_a, small_a), (big_b, small_b) = split(a), split(b)
    exact, scale = ((a.astype(np.float64) * b) ** power for power in (1, 2))
    chain = np.float32(0)
    for term in exact:
        chain = (chain + term).astype(np.float32)

    def error(found):
        return np.sqrt(np.mean((found - exact.sum(axis=0)) ** 2 / scale.sum(axis=0))) * 2.0**24

    three = [small_a * big_b, big_a * small_b, big_a * big_b]
    of_three, of_four = error(on_tensor_cores(three, k)), error(on_tensor_cores([small_a * small_b, *three], k))
    assert error(chain) * 1.3 < of_four < of_three


def test_beyond_short_sums_the_bound_has_room_for_split_numbers():
    """8 u for splitting, 20 u for each of two steps on tensor cores, 24 in a large tile, and roundings outside."""
    u = 2.0**-24
    assert all((48 + k / 16 + 2) * u <= componentwise_bound(k) / 5 for k in (513, 1024, 65536))
    assert all((8 + 24 * 20 + k / 64 + 2) * u <= componentwise_bound(k) / 3 for k in (2048, 65536))


def error_one_by_one(family, shape, rounded=False):
    """The norm-wise error of multiply-adds in the order of k, of the inputs that `measure` draws.

    Products are exact, as of a GPU's FFMA, or `rounded` first, as of the emulator where a kernel has no fmaf.
    """
    inputs = inputs_of(family, shape, zlib.crc32(f"{family} {shape}".encode()))
    A, B = (matrix.astype(np.float64) for matrix in (inputs.A, inputs.B))
    chain = np.zeros((shape.m, shape.n), np.float32)
    for p in range(shape.k):
        products = np.outer(A[:, p], B[p])
        chain = (chain + (products.astype(np.float32) if rounded else products)).astype(np.float32)
    return np.linalg.norm(chain - A @ B) / np.linalg.norm(A @ B)


@contextmanager
def told(library, sms):
    """The library, told that the GPU has so many SMs."""
    library.functions.emulator_set_sms(sms)
    try:
        yield library
    finally:
        library.functions.emulator_set_sms(EMULATED_SMS)


@pytest.mark.parametrize(("sms", "rounded"), [(132, False), (1, True)])
@pytest.mark.parametrize("k", [1, 64, 256, 512])
@pytest.mark.parametrize("family", ["normal", "positive", "wide_range"])
def test_a_short_sum_errs_no_more_than_multiply_adds_one_by_one(for_the_emulator, family, k, sms, rounded):
    """Up to 512 steps of k split numbers would err more where one term is most of the sum.

    Of few tiles k is split among an H100's SMs; on one SM it is not.
    """
    shape = Shape(140, 132, k)
    with told(Library(for_the_emulator(ROOT / "kernels/sgemm/mma_3xtf32.cu")), sms) as library:
        found = measure(EmulatedDevice(1, 60), library, shape, family)
    assert found["error_normwise"] <= 1.001 * error_one_by_one(family, shape, rounded)


TALL = {"BM": "256", "WM": "64", "MIN_BLOCKS": "1"}  # tiles of 256 rows


@pytest.mark.parametrize(("family", "most"), [("wide_range", 0.9), ("signed_zeros", 0.8)])
def test_few_terms_are_left_to_multiply_adds_if_few_tiles_are_not(for_the_emulator, family, most):
    """Else the error of a long sum on tensor cores would be twice as large as that of multiply-adds one by one."""
    shape = Shape(140, 132, 1500)
    with told(Library(for_the_emulator(ROOT / "kernels/sgemm/mma_3xtf32.cu")), 1) as library:
        found = measure(EmulatedDevice(1, 60), library, shape, family)["error_normwise"]
    assert found < most * error_one_by_one(family, shape, rounded=True)


@pytest.mark.parametrize("of_A", [True, False])
@pytest.mark.parametrize(
    ("macros", "wide", "left"),
    [({}, range(0), []), ({}, range(4), []), ({}, range(5), [0]), (TALL, range(5), [0, 1]), ({}, range(259, 260), [])],
)
def test_a_tile_with_some_lines_of_wide_ranges_is_left_to_multiply_adds(for_the_emulator, macros, of_A, wide, left):
    """Whichever computes the others, their bits tell. The last line counts once, though a block may copy it twice."""
    size, k = 260, 600
    shape = Shape(size, 8, k) if of_A else Shape(8, size, k)
    device, inputs = EmulatedDevice(1, 60), draw_inputs("normal", shape, True, False, 7)
    results = []
    with told(Library(for_the_emulator(ROOT / "kernels/sgemm/mma_3xtf32.cu", macros)), 1) as library:
        for lines in (range(0), wide):
            (inputs.A.T if of_A else inputs.B)[::2, lines] *= np.float32(2.0**-40)
            C = np.zeros((shape.m, shape.n), np.float32)
            A, B, C = (device.put(matrix.ravel()) for matrix in (inputs.A, inputs.B, C))
            operands = Operands(device.address(A), k, device.address(B), shape.n, device.address(C), shape.n)
            call = Call(shape, 1.0, 0.0, operands, device.put(np.zeros(1, np.uint32)), 0)
            assert device.compute(library, call, 0) == ""
            results.append(C.reshape(shape.m, shape.n) if of_A else C.reshape(shape.m, shape.n).T)
    differ = (results[0] != results[1]).any(axis=1)
    differ[wide] = False
    left = left if of_A else left[:1]
    assert [i for i in range(3) if differ[128 * i : 128 * (i + 1)].any()] == left


def test_the_error_of_sections_of_multiply_adds_falls_with_their_number(for_the_emulator):
    """Each has its own roundings, and totals have none. With totals of FP32 the error would grow."""
    library = Library(for_the_emulator(ROOT / "tests/kernels/sections_of_multiply_adds.cu"))
    shapes = [Shape(16, 8, k) for k in (128, 1024, 4096, 12800)]
    errors = [measure(EmulatedDevice(1, 60), library, shape, "positive")["error_normwise"] for shape in shapes]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03 * error_one_by_one("positive", shapes[-1], rounded=True)


@pytest.mark.parametrize(("family", "most"), [("normal", 1), ("positive", 1), ("wide_range", 2.5), ("signed_zeros", 1)])
def test_a_long_sum_in_a_large_tile_errs_no_more_than_multiply_adds_one_by_one(for_the_emulator, family, most):
    """On an H100 0.9 of it in wide ranges; the emulator also truncates where what is added is too small to count."""
    shape = Shape(128, 64, 2048)
    large = Library(for_the_emulator(ROOT / "tests/kernels/large_tiles_of_mma.cu"))
    found = measure(EmulatedDevice(1, 60), large, shape, family)
    assert found["error_normwise"] < most * error_one_by_one(family, shape)
    assert found["error_componentwise"] < componentwise_bound(2048) * 2**24 / 5


def test_of_wide_ranges_a_long_sum_by_64_steps_errs_no_more_than_additions_one_by_one():
    """What the emulator does not show. Sums of 256 steps are truncated at one large term longer, and err more."""
    k = 2048
    inputs = draw_inputs("wide_range", Shape(1, 2048, k), True, False, 3)
    a, b = np.repeat(inputs.A.T, 2048, axis=1), inputs.B
    (big_a, small_a), (big_b, small_b) = split(a), split(b)
    exact = a.astype(np.float64) * b
    chain = np.float32(0)
    for term in exact:
        chain = (chain + term).astype(np.float32)
    products = [small_a * big_b, big_a * small_b, big_a * big_b]
    found = {summed: on_tensor_cores(products, k, turn=8, summed=summed) for summed in (64, 256)}
    errors = {summed: np.linalg.norm(total - exact.sum(axis=0)) for summed, total in found.items()}
    assert errors[64] < np.linalg.norm(chain - exact.sum(axis=0)) < errors[256]


@pytest.fixture(scope="module")
def one_product(for_the_emulator):
    return Library(for_the_emulator(ROOT / "tests/kernels/one_tf32_product.cu"))


@pytest.mark.parametrize(("n", "k"), [(8, 96), (7, 97)])  # by the copy engine, as boxes and as raw lines
@pytest.mark.parametrize("value", [0x7FFFFFFF, 0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0x7F7FEFFF, 0xFF7FEFFF])
def test_one_product_of_rounded_numbers_keeps_nan_infinities_and_the_largest_number(one_product, value, n, k):
    """0x7FFFFFFF is the NaN of CUDA's arithmetic, of which rounding by adding to the bits would make a zero.

    0x7F7FEFFF is the largest number that is not rounded to 2^128, which is infinite.
    """
    shape, device = Shape(9, n, k), EmulatedDevice(1, 60)
    inputs = draw_inputs("uniform", shape, True, False, 5)
    inputs.A[3, 2] = inputs.B[70, 6] = 0.25
    inputs.A.view(np.uint32)[3, 70] = inputs.B.view(np.uint32)[2, 6] = value
    A, B, C = (device.put(matrix.ravel()) for matrix in (inputs.A, inputs.B, np.zeros((9, n), np.float32)))
    operands = Operands(device.address(A), k, device.address(B), n, device.address(C), n)
    assert device.compute(one_product, Call(shape, 1.0, 0.0, operands, device.put(np.zeros(1, np.uint32)), 0), 0) == ""
    verdict = case_error(shape, 1.0, 0.0, inputs.A, inputs.B, None, C.reshape(9, n), "nonfinite", "gradual", "tf32")
    assert verdict["verdict"] == "pass", verdict
    assert np.isfinite(C).sum() == (9 * n if value & 0x7FFFFFFF == 0x7F7FEFFF else 8 * (n - 1))


@pytest.mark.parametrize(("n", "k"), [(8, 96), (7, 97)])
def test_a_number_that_rounds_beyond_the_largest_becomes_infinite(one_product, n, k):
    """TF32 has no number for the largest of FP32: `NOT_ASKED` leaves such inputs out for its class."""
    shape, device = Shape(9, n, k), EmulatedDevice(1, 60)
    inputs = draw_inputs("uniform", shape, True, False, 5)
    inputs.A.view(np.uint32)[3, 70] = 0x7F7FFFFF
    inputs.B[70] = 0.25
    A, B, C = (device.put(matrix.ravel()) for matrix in (inputs.A, inputs.B, np.zeros((9, n), np.float32)))
    operands = Operands(device.address(A), k, device.address(B), n, device.address(C), n)
    assert device.compute(one_product, Call(shape, 1.0, 0.0, operands, device.put(np.zeros(1, np.uint32)), 0), 0) == ""
    assert (np.isposinf(C.reshape(9, n)).all(axis=1) == (np.arange(9) == 3)).all()
    assert np.isfinite(C).sum() == 8 * n


@pytest.mark.parametrize("k", [5, 128])
def test_one_product_of_rounded_numbers_is_a_product_in_tf32(one_product, k):
    found = measure(EmulatedDevice(1, 60), one_product, Shape(24, 18, k), "normal")["error_normwise"]
    assert 2.0**-13 < found < 2.0**-10


@pytest.mark.parametrize(("n", "k"), [(8, 1500), (8, 2148), (7, 2148)])
def test_the_error_of_sections_of_k_hardly_grows_with_their_number(for_the_emulator, n, k):
    """Sums of positive terms, whose roundings add up: with one section for all they err 1.4 times as much and more.

    One SM always has tiles enough for the tensor cores.
    """
    with told(Library(for_the_emulator(ROOT / "kernels/sgemm/mma_3xtf32.cu")), 1) as library:
        of_few, of_more = (
            measure(EmulatedDevice(1, 60), library, Shape(16, n, each), "positive")["error_normwise"]
            for each in (641, k)
        )
    assert of_more < 1.1 * of_few


@pytest.mark.parametrize(
    ("rung", "k", "most"),
    [
        *(("split_k", 640, 0.3), ("split_k", 768, 0.25), ("split_k", 1024, 0.25)),
        *(("mma_3xtf32", 384, 0.25), ("mma_3xtf32", 388, 0.25), ("mma_3xtf32", 640, 0.2), ("mma_3xtf32", 1152, 0.2)),
    ],
)
def test_splits_carry_little_along_where_the_second_half_takes_the_first_away(for_the_emulator, rung, k, most):
    """Above `most` are ranges in place of every n-th tile (split_k), and that in place of halves (mma_3xtf32)."""
    shape = Shape(140, 132, k)
    with told(Library(for_the_emulator(ROOT / f"kernels/sgemm/{rung}.cu")), 132) as library:
        found = measure(EmulatedDevice(1, 60), library, shape, "cancellation")
    assert found["error_normwise"] < most * error_one_by_one("cancellation", shape, rounded=True)


def test_the_error_of_a_sum_split_among_blocks_is_that_of_one_split(for_the_emulator):
    """128 of them; without what each addition loses they would err more than twice as much."""
    shape = Shape(16, 8, 128 * 16)
    with told(Library(for_the_emulator(ROOT / "kernels/sgemm/split_k.cu")), 132) as library:
        none = Operands(0, shape.k, 0, shape.n, 0, shape.n)
        assert library.workspace_bytes(shape, 1.0, 0.0, none) == 128 * shape.m * shape.n * 4
        found = measure(EmulatedDevice(1, 60), library, shape, "positive")
    assert found["error_normwise"] < error_one_by_one("positive", Shape(16, 8, 16))
