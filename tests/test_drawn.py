"""Drawn cases: what they are drawn around, what meets what in them, and which slips they find that nobody chose."""

import itertools
import os
import zlib
from dataclasses import replace
from random import Random

import pytest
from conftest import a_build, asked
from emulator import compiled_engine
from ladder.config import gpus
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.named_numbers import named_by
from ladder.config.plan import plan
from ladder.measure.check.emulate import emulate_rung
from ladder.model import drawn
from ladder.model.drawn import ON_A_CPU, ON_A_GPU, Named, drawn_cases, most_elements
from ladder.model.rung import TunedClass
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

LADDER = read_kernels(ROOT / "config" / "kernels.yaml")
NAMED = Named(own=(8, 16, 48), others=(1000,), work=(300_000,), tile=Shape(48, 16, 8))
SMS = (58, 132)


def test_a_seed_gives_the_same_cases_each_time_and_another_seed_others():
    assert drawn_cases(5, 121, NAMED, SMS) == drawn_cases(5, 121, NAMED, SMS)
    assert drawn_cases(5, 50, NAMED, SMS) == drawn_cases(5, 121, NAMED, SMS)[:50]
    assert not set(drawn_cases(5, 121, NAMED, SMS)) & set(drawn_cases(6, 121, NAMED, SMS))
    assert {case.drawn for case in drawn_cases(5, 121, NAMED)} == {5}


def test_any_level_of_one_thing_meets_any_level_of_another_once():
    rows = drawn._array(Random(1), 121)
    for one, other in itertools.combinations(zip(*rows, strict=True), 2):
        assert len(set(zip(one, other, strict=True))) == 121


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_kind_of_input_scalar_layout_and_gpu_is_drawn(seed):
    cases = drawn_cases(seed, 121, NAMED, SMS)
    assert {case.family for case in cases} == {*drawn.DRAWN_FAMILIES, *drawn.SHARED_LEVELS.values()}
    assert {abs(case.alpha) for case in cases if case.family == "largest"} == {1}
    assert {(1, 1), (-1, 1), (1, -1), (1, 0)} <= {(case.alpha, case.beta) for case in cases}
    scalars = {str(float(each)) for case in cases for each in (case.alpha, case.beta)}
    assert {"nan", "inf", "-inf", "0.0", "-0.0"} <= scalars
    sizes = {abs(case.alpha) for case in cases}
    assert any(0 < each < 2**-126 for each in sizes) or any(0 < abs(case.beta) < 2**-126 for case in cases)
    assert any(each > 2**20 for each in sizes)
    for matrix in range(3):
        lds = {(case.paddings[matrix] > 0, case.offsets[matrix] % 4 == 0) for case in cases}
        assert lds == set(itertools.product((True, False), repeat=2))
    assert {0, *SMS} <= {case.sms for case in cases}
    assert len({case.sms for case in cases}) > 10


@pytest.mark.parametrize("seed", range(1, 6))
def test_dimensions_lie_around_the_numbers_that_a_rung_names_and_most_products_are_cheap(seed):
    shapes = [case.shape for case in drawn_cases(seed, 121, NAMED)]
    for dimension in ("m", "n", "k"):
        drawn_sizes = {getattr(shape, dimension) for shape in shapes}
        assert 1 in drawn_sizes
        assert {8, 16, 24, 32, 48} & drawn_sizes
        assert any(size % 16 == 15 for size in drawn_sizes)
        assert any(size % 16 == 1 and size > 16 for size in drawn_sizes)
        assert {size % 8 for size in drawn_sizes} == set(range(8))
        assert max(drawn_sizes) > 8 * min(size for size in drawn_sizes if size > 8)
    whole = [shape for shape in shapes if (shape.m % 48, shape.n % 16, shape.k % 8) == (0, 0, 0)]
    assert any(shape.m // 48 % 2 and shape.n // 16 % 2 for shape in whole)
    assert any((shape.m % 48, shape.n % 16, shape.k % 8) == (0, 1, 0) for shape in shapes)
    assert sorted(shape.flop for shape in shapes)[80] <= 1 << 20
    assert max(shape.flop for shape in shapes if shape.k < drawn.LONG_K) <= 2 * ON_A_CPU.most


@pytest.mark.parametrize("seed", range(1, 6))
def test_scalars_of_the_longest_sums_are_neither_one_nor_zero(seed):
    cases = [case for case in drawn_cases(seed, 121, NAMED) if case.shape.k >= drawn.LONG_K]
    assert cases
    assert not {abs(scalar) for case in cases for scalar in (case.alpha, case.beta)} & {0, 1}


def test_a_sum_longer_than_16_bits_and_both_sides_of_a_limit_of_work_are_drawn():
    shapes = [case.shape for case in drawn_cases(3, 121, NAMED)]
    assert any(shape.k > 1 << 16 for shape in shapes)
    limits = [(shape.m * shape.n, shape.m * shape.n * shape.k, shape.flop) for shape in shapes]
    assert any(min(abs(300_000 - each) for each in limit) < 3000 for limit in limits)


@pytest.mark.parametrize("seed", range(1, 6))
def test_where_a_source_asks_for_few_columns_sums_of_any_number_of_warps_have_as_few(seed):
    named = replace(NAMED, tile=Shape(32, 32, 16), few=(("n", 1),))
    few = [case.shape for case in drawn_cases(seed, 121, named) if case.shape.n == 1]
    assert len(few) >= drawn.FEWEST
    assert {3, 5, 7} & {-(-shape.k // 32) for shape in few}
    assert any(shape.k % 32 == 0 for shape in few)
    assert any(shape.k % 32 for shape in few)


@pytest.mark.parametrize("seed", range(1, 6))
def test_some_products_of_few_columns_have_rows_for_vectors_and_in_some_of_them_one_address_is_not_aligned(seed):
    named = replace(NAMED, tile=Shape(32, 32, 16), few=(("n", 1),))
    few = [case for case in drawn_cases(seed, 121, named) if case.shape.n == 1 and case.paddings[1] == 0]
    vectors = [case for case in few if (case.shape.k + case.paddings[0]) % 4 == 0]
    unaligned = [tuple(offset % 4 != 0 for offset in case.offsets) for case in vectors]
    assert {(False, False, False), (False, True, False), (False, False, True)} <= set(unaligned)
    assert any(case.shape.k % 4 for case in vectors)


@pytest.mark.parametrize("seed", range(1, 6))
def test_in_some_products_of_few_columns_either_b_or_c_alone_has_gaps_between_aligned_vectors_of_a(seed):
    named = replace(NAMED, tile=Shape(32, 32, 16), few=(("n", 1),))
    few = [case for case in drawn_cases(seed, 121, named) if case.shape.n == 1 and case.offsets == (0, 0, 0)]
    vectors = [case for case in few if (case.shape.k + case.paddings[0]) % 4 == 0]
    assert {(False, True), (True, False)} <= {tuple(gap > 0 for gap in case.paddings[1:]) for case in vectors}


def test_the_small_numbers_that_a_source_compares_a_dimension_with_are_named(tmp_path):
    (tmp_path / "mine.cu").write_text("if (g.n == 1 || m<=4 || g.k > 900 || g.k % 4 == 0 || bn < 8 || g.m > 0) {}\n")
    source = os.path.relpath(tmp_path / "mine.cu", ROOT / "kernels")
    assert named_by(replace(LADDER["naive"], source=source, macros={})).few == (("m", 4), ("n", 1))


@pytest.mark.parametrize(
    ("text", "regions", "pairs"),
    [
        ("if (g.m > 1024 && g.n <= 33 && aligned) {}", ((("m", 1025, drawn.ANY), ("n", 1, 33)),), ()),
        ("if (g.k >= 8 || vec && m == 4 && k < 8) {}", ((("k", 1, 7), ("m", 4, 4)),), ()),
        ("return n < 16 || n > 48 ? slow : fast;", ((("n", 16, 48),),), ()),
        (
            "constexpr int FEW = 20;\nbool few(int m, int n) { return m > SOME && n <= FEW; }",
            ((("m", 6, drawn.ANY), ("n", 1, 20)),),
            (),
        ),
        ("if (m > 96) { if (n == 3) {} }", (), ((("m", 97, drawn.ANY), ("n", 3, 3)),)),
        (
            "if (k > 64) { switch (g.n) { case 2: { return two(); } case 3: return three(); default: break; } }",
            (),
            ((("k", 65, drawn.ANY), ("n", 2, 2)), (("k", 65, drawn.ANY), ("n", 3, 3))),
        ),
        ("if (g.m <= 0 || g.n <= 0 || g.m >= 1 && g.k > 0) {}", (), ()),
        ("if (m > 8 && m < 8) {}", (), ()),
        ("half(g.k > 16384 ? 1 : 0); if (g.k > 200) {}", ((("k", 16385, drawn.ANY),),), ()),
    ],
)
def test_comparisons_that_hold_at_once_are_named_as_regions(tmp_path, text, regions, pairs):
    (tmp_path / "mine.cu").write_text(text + "\n")
    source = os.path.relpath(tmp_path / "mine.cu", ROOT / "kernels")
    named = named_by(replace(LADDER["naive"], source=source, macros={"SOME": "5"}))
    assert (named.regions, named.pairs) == (regions, pairs)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_last_sizes_inside_of_a_region_and_the_first_outside_are_drawn(seed):
    tall_and_narrow = (("m", 1025, drawn.ANY), ("n", 1, 33))
    shapes = [case.shape for case in drawn_cases(seed, 121, replace(NAMED, regions=(tall_and_narrow,)))]
    assert {33, 34} <= {shape.n for shape in shapes if shape.m > 1024}
    assert {1024, 1025} <= {shape.m for shape in shapes if shape.n <= 33}


def test_beside_the_bounds_of_a_region_the_other_dimension_may_exceed_a_number_that_the_rung_names():
    region = (("m", 257, drawn.ANY), ("n", 7, 7))
    named = replace(NAMED, own=(7, 128, 256, 512), regions=(region,))
    shapes = [case.shape for seed in range(9) for case in drawn_cases(seed, 121, named)]
    at_bounds = [shape.k for shape in shapes if shape.n == 7 and 256 <= shape.m <= 321]
    assert sum(512 <= k < 522 for k in at_bounds) >= 4


@pytest.mark.parametrize("seed", range(1, 6))
def test_bounds_of_pairs_are_drawn_as_far_as_regions_leave_room(seed):
    region, pair = (("k", 40, 50), ("m", 1025, drawn.ANY)), (("m", 201, drawn.ANY), ("n", 3, 3))
    shapes = [case.shape for case in drawn_cases(seed, 121, replace(NAMED, regions=(region,), pairs=(pair,)))]
    assert {39, 40, 50, 51} <= {shape.k for shape in shapes if shape.m > 1024}
    assert any(shape.m >= 200 and shape.n == 3 for shape in shapes)
    many = tuple((("m", least, drawn.ANY),) for least in range(1100, 1200))
    only = [case.shape for case in drawn_cases(seed, 121, replace(NAMED, regions=many, pairs=(pair,)))]
    assert sum(1098 < shape.m < 1200 for shape in only) >= drawn.MOST_AT_BOUNDS


def test_on_a_gpu_a_limit_of_the_tuned_classes_has_products_on_both_sides():
    limit = 2 * 2048**3
    rung = replace(
        LADDER["vectorized"], tuned=(TunedClass(limit, {"BM": "64"}), TunedClass(float("inf"), {"BM": "128"}))
    )
    named = named_by(rung)
    assert limit in named.work
    assert limit not in named_by(rung, all_classes=False).work
    flop = {case.shape.flop for seed in range(1, 9) for case in drawn_cases(seed, 121, named, (), ON_A_GPU)}
    assert any(0.9 * limit < each < limit for each in flop)
    assert any(limit <= each < 1.1 * limit for each in flop)


def test_the_numbers_of_a_source_its_macros_and_its_headers_are_named(tmp_path):
    (tmp_path / "own.cuh").write_text("constexpr int WIDE = 96;\n")
    (tmp_path / "mine.cu").write_text(
        '#include "own.cuh"\n// 77\n#define BM 24\n#ifndef STAGES\n#define STAGES 3\n#endif\n'
        'const char* text = "55";\nif (m * n > 1 << 20 || k > 4 * 300 || x > 0.5f) {}\n'
    )
    source = os.path.relpath(tmp_path / "mine.cu", ROOT / "kernels")
    named = named_by(replace(LADDER["naive"], source=source, macros={"STAGES": "5"}))
    assert {24, 5, 300, 1200} <= set(named.own)
    assert not {3, 55, 77} & set(named.own)
    assert (named.others, named.work, named.tile.m) == ((96,), (1 << 20,), 24)


@pytest.mark.parametrize(
    ("text", "tile"),
    [
        ("constexpr int BM = 64, BN = 96, BK = 8;", Shape(64, 96, 8)),
        ("template <int kBlockM = 96, int TILE_N = 48, int BLOCK_SIZE_K = 4>", Shape(96, 48, 4)),
        ("static constexpr unsigned TILE_SIZE{32};", Shape(32, 32, 32)),
        ("#define BM 16\nconst int BLOCK = 128;  // BM = 8", Shape(16, 128, 16)),
        ("int x = 4;", Shape(4, 4, 4)),
    ],
)
def test_the_tile_of_a_block_is_known_by_what_its_sides_are_called(tmp_path, text, tile):
    (tmp_path / "mine.cu").write_text(f"{text}\nif (k > 4) {{}}\n")
    source = os.path.relpath(tmp_path / "mine.cu", ROOT / "kernels")
    assert named_by(replace(LADDER["naive"], source=source, macros={})).tile == tile


def test_a_sum_that_16_bits_do_not_count_is_drawn_for_tiles_of_32_x_32():
    named = replace(NAMED, tile=Shape(32, 32, 32), few=())
    assert any(case.shape.k > 1 << 16 for case in drawn_cases(1, 121, named, reach=ON_A_CPU))


def test_the_numbers_of_sms_are_those_of_the_gpu_files():
    assert set(gpus.numbers_of_sms()) == {read_yaml(path)["sms"] for path in (ROOT / "config/gpus").glob("*.yaml")}


@pytest.mark.parametrize("name", ["naive", "fastest", "tf32", "adaptive_3xfp16"])
def test_a_small_gpu_holds_every_product_that_is_drawn_for_a_gpu(name):
    named = named_by(LADDER[name])
    cases = [case for seed in range(1, 20) for case in drawn_cases(seed, 121, named, (), ON_A_GPU)]
    assert 1 << 22 < max(most_elements(case.shape) for case in cases) <= 1 << 24


def test_a_seed_that_is_set_is_that_of_every_rung_and_else_sources_give_their_own():
    config = read_yaml(ROOT / "config/config.yaml") | {"measure": False}
    seeds = {
        name: {case.drawn for case in plan(config).emulated_cases(name)} - {0} for name in ("naive", "coalesced", "tma")
    }
    assert len(set.union(*seeds.values())) == 3
    run = plan(config | {"check": config["check"] | {"seed": 7}})
    assert {case.drawn for case in run.emulated_cases("naive")} == {0, 7}
    assert {case.drawn for case in run.drawing("naive").cases(9)} == {7}
    assert len(run.drawing("naive").cases(9)) == config["check"]["drawn"]


# Slips in sound rungs that only some shape, scalar or input shows


def checked(tmp_path, name: str, old: str, new: str, seed: int = 1):
    """The record of a rung with a slip, of the drawn cases of a seed alone."""
    text = (ROOT / "kernels" / LADDER[name].source).read_text()
    assert old in text
    (tmp_path / "rung.cu").write_text(text.replace(old, new))
    rung = replace(LADDER[name], source=os.path.relpath(tmp_path / "rung.cu", ROOT / "kernels"))
    cases = drawn_cases(seed, 121, named_by(rung, all_classes=False), SMS)
    return emulate_rung(rung, a_build(tmp_path / name), cases, 2, 60, tmp_path / "log", compiled_engine())


GUARD = "  float sum = 0.0f;\n"
STORE = "  store_result(g, row, col, sum);"
SLIPS = {
    # shapes
    "k % 8 == 5": (GUARD, "  float sum = 0.0f;\n  if (g.k % 8 == 5) g.k -= 1;\n"),
    "n % 4 == 2": (GUARD, "  float sum = 0.0f;\n  if (g.n % 4 == 2 && col == g.n - 1) g.k -= 1;\n"),
    "m % BM == BM - 1": (GUARD, "  float sum = 0.0f;\n  if (g.m % BM == BM - 1) g.k -= 1;\n"),
    "whole tiles of odd number": (
        GUARD,
        "  float sum = 0.0f;\n  if (g.m % BM == 0 && g.m / BM % 2 && g.m > BM && g.n % BN == 0) g.k -= 1;\n",
    ),
    "one row": (GUARD, "  float sum = 0.0f;\n  if (g.m == 1 && g.n > 64) g.k -= 1;\n"),
    "one column": (GUARD, "  float sum = 0.0f;\n  if (g.n == 1 && g.m > 64) g.k -= 1;\n"),
    "tall": (GUARD, "  float sum = 0.0f;\n  if (g.m > 32 * g.n) g.k -= 1;\n"),
    "wide": (GUARD, "  float sum = 0.0f;\n  if (g.n > 32 * g.m) g.k -= 1;\n"),
    "k in 16 bits": ("for (int p = 0; p < g.k;", "for (int p = 0; p < (g.k & 65535);"),
    "many rows": (GUARD, "  float sum = 0.0f;\n  if (row > 1000) g.k -= 1;\n"),
    "deep": (GUARD, "  float sum = 0.0f;\n  if (g.k > 500) g.k -= 1;\n"),
    # layout
    "ldc of two more": (STORE, "  if (g.ldc % 4 == 2 && g.ldc > g.n) sum *= 1.001f;\n" + STORE),
    "B by vector": (STORE, "  if ((size_t(g.B) & 15) == 8) sum *= 1.001f;\n" + STORE),
    "lda and A": (STORE, "  if (g.lda % 4 == 0 && (size_t(g.A) & 15)) sum *= 1.001f;\n" + STORE),
    # scalars
    "alpha -1, beta 1": (STORE, "  if (g.alpha == -1.0f && g.beta == 1.0f) sum = -sum;\n" + STORE),
    "alpha 1, beta -1": (STORE, "  if (g.alpha == 1.0f && g.beta == -1.0f) g.beta = 1.0f;\n" + STORE),
    "1 and 1": (STORE, "  if (g.alpha == 1.0f && g.beta == 1.0f) g.beta = 0.0f;\n" + STORE),
    "tiny alpha": (STORE, "  if (fabsf(g.alpha) < 1e-12f) g.alpha = 0.0f;\n" + STORE),
    "huge beta": (STORE, "  if (fabsf(g.beta) > 1e20f) g.beta = 1e20f;\n" + STORE),
    "NaN alpha": (STORE, "  if (g.alpha != g.alpha) g.alpha = 0.0f;\n" + STORE),
    "NaN beta": (STORE, "  if (!(g.beta > 0.0f || g.beta < 0.0f)) g.beta = 0.0f;\n" + STORE),
    "beta -0.0": (STORE, "  if (g.beta == 0.0f && 1.0f / g.beta < 0.0f) sum += g.C[row * g.ldc + col];\n" + STORE),
    # inputs
    "subnormals of B": (
        "* g.B[p * g.ldb + col];",
        "* (fabsf(g.B[p * g.ldb + col]) < 1.18e-38f ? 0.0f : g.B[p * g.ldb + col]);",
    ),
    "zeros of A skipped": ("    sum += ", "    if (g.A[row * g.lda + p] != 0.0f) sum += "),
    "infinity is the largest number": (STORE, "  sum = fminf(sum, 3.4028235e38f);\n" + STORE),
    "one row in BF16": (
        STORE,
        "  if (row == g.m / 2) {\n    sum = 0.0f;\n    for (int p = 0; p < g.k; ++p) {\n"
        "      sum += __uint_as_float(__float_as_uint(g.A[row * g.lda + p]) & 0xFFFF0000) * g.B[p * g.ldb + col];\n"
        "    }\n  }\n" + STORE,
    ),
    # the machine
    "an odd number of SMs": (
        "  return launch(",
        "  int sms = 0;\n  sm_count(&sms);\n  if (sms % 2) return cudaErrorInvalidConfiguration;\n  return launch(",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_that_shows_in_few_products_is_found(tmp_path, slip):
    record = checked(tmp_path, "naive", *SLIPS[slip])
    assert record["status"] == "failed", record["message"]


@pytest.mark.parametrize("name", ["naive", "tiled@TILE=16", "vectorized", "split_k"])
def test_a_sound_rung_passes_every_drawn_case(tmp_path, name):
    record = checked(tmp_path, name, "", "", seed=1 + zlib.crc32(name.encode()))
    assert record["status"] == "emulated", record["message"]
    assert len([case for case in record["cases"] if "drawn" in case]) == 121


def test_a_drawn_case_says_its_seed():
    assert str(asked("7", drawn=5)) == "7, drawn by seed 5"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_most_residues_of_columns_leading_dimension_and_offset_meet_in_each_matrix(seed):
    cases = drawn_cases(seed, 121, NAMED, SMS)
    for index, dimension in enumerate(("k", "n", "n")):
        columns = [getattr(case.shape, dimension) for case in cases]
        met = {
            (count % 4, (count + case.paddings[index]) % 4, case.offsets[index] % 4)
            for count, case in zip(columns, cases, strict=True)
        }
        assert len(met) >= 50  # of 64
