"""`adaptive_3xfp16` takes the way that shape and data ask for, and each way is right and as accurate as FP32."""

import ctypes

import numpy as np
import pytest
from emulator import matrix, report
from ladder.build.compile import Build, build
from ladder.build.library import Launch, Library, Operands
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.measure.devices import Call, EmulatedDevice
from ladder.measure.survey.data import draw_data
from ladder.model.bounds import UNIT_ROUNDOFF, componentwise_bound
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

SHAPE = Shape(260, 300, 640)  # pairs of tiles, tiles and halves of tiles that end inside C


@pytest.fixture(scope="module")
def tensor_cores(for_the_emulator):
    """The rung where every product takes the pre-pass and tensor cores."""
    return Library(for_the_emulator(ROOT / "kernels/sgemm/adaptive_3xfp16.cu", {"ALWAYS_SPLIT": "1"}))


@pytest.fixture(scope="module")
def in_place(for_the_emulator):
    """The rung where blocks split their tiles themselves."""
    return Library(for_the_emulator(ROOT / "kernels/sgemm/adaptive_3xfp16.cu", {"ALWAYS_SPLIT": "2"}))


@pytest.fixture(params=["tensor_cores", "in_place"])
def each_way(request):
    """The rung with one of its ways to use tensor cores."""
    return request.getfixturevalue(request.param)


# Of A and of B: how many floats beyond the alignment to 16 bytes a row begins after the one before, and the first one.
ALIGNED, RAW = ((0, 0), (0, 0)), ((3, 1), (3, 1))


def gaps_of(shape: Shape, places) -> tuple[int, int]:
    """Elements between the rows of A and of B where these begin at such places."""
    (of_A, _), (of_B, _) = places
    return (of_A - shape.k) % 4 + 4, (of_B - shape.n) % 4 + 4


def computed(library: Library, A, B, beta: float = 0.0, sms: int = 8, seed: int = 1, places=RAW):
    """C and what stood there before; fails where the emulator finds anything."""
    shape = Shape(A.shape[0], B.shape[1], A.shape[1])
    held = [
        matrix(*given.shape, gap, offset, given)
        for given, gap, (_, offset) in zip((A, B), gaps_of(shape, places), places, strict=True)
    ]
    before = np.random.default_rng(7).standard_normal((shape.m, shape.n)).astype(np.float32)
    C = matrix(shape.m, shape.n, 1, 0, before if beta else np.nan)
    outside = C.outside()
    operands = Operands(*(part for each in (*held, C) for part in (each.address, each.ld)))
    library.functions.emulator_set_sms(ctypes.c_int(sms))
    size = library.workspace_bytes(shape, 1.0, beta, operands)
    device = EmulatedDevice(threads=0, time_limit_s=300)
    workspace = device.put(np.full(size // 4 + 128, np.nan, np.float32))
    problem = device.compute(library, Call(shape, 1.0, beta, operands, workspace, size), seed)
    assert not problem, report(library)
    assert C.outside() == outside
    return C.elements.copy(), before


def fp32_sums(A, B):
    """The product by FP32 sums in the order of k."""
    C = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for p in range(A.shape[1]):
        C += A[:, p : p + 1] * B[p]
    return C


def wide_rows(random, strong: int):
    """A whose rows have so many numbers near 1, all others being far below."""
    A = random.standard_normal((SHAPE.m, SHAPE.k)).astype(np.float32) * np.float32(2.0**-48)
    A[:, :strong] *= np.float32(2.0**48)
    return A


def some_small_products(random):
    """Some columns of B meet only numbers of A that FP16 cannot hold."""
    B = random.standard_normal((SHAPE.k, SHAPE.n)).astype(np.float32)
    B[:100, 5::150] = 0
    return wide_rows(random, 100), B


def small_products_of_a_tile(random):
    """A whole tile of C has only such products."""
    B = random.standard_normal((SHAPE.k, SHAPE.n)).astype(np.float32)
    B[:100, :128] = 0
    return wide_rows(random, 100), B


def few_strong_numbers(random):
    """Few numbers of a row of A are more than 2^-25 of its largest."""
    return wide_rows(random, 5), random.standard_normal((SHAPE.k, SHAPE.n)).astype(np.float32)


def rows_of_zeros(random):
    """Rows of zeros beside rows with wide ranges."""
    A = wide_rows(random, 100)
    A[10:200] = 0
    return A, random.standard_normal((SHAPE.k, SHAPE.n)).astype(np.float32)


def assert_as_accurate_as_fp32(C, before, A, B, beta, times=1.0, spare=UNIT_ROUNDOFF):
    """Within the bound of each element, and by the norm no worse than so many times FP32 sums and what is spared."""
    wide = [each.astype(np.float64) for each in (A, B, before)]
    exact = wide[0] @ wide[1] + beta * wide[2]
    magnitude = np.abs(wide[0]) @ np.abs(wide[1]) + abs(beta * wide[2])
    error = C - exact
    assert (np.abs(error) <= componentwise_bound(A.shape[1]) * magnitude + 2.0**-140).all()
    of_fp32 = np.linalg.norm(fp32_sums(A, B) + np.float32(beta) * before - exact)
    assert np.linalg.norm(error) <= times * of_fp32 + spare * np.linalg.norm(exact)


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize(
    "data",
    [some_small_products, small_products_of_a_tile, few_strong_numbers, rows_of_zeros],
    ids=lambda each: each.__name__,
)
def test_what_products_do_not_prove_is_computed_by_fp32(tensor_cores, data, beta):
    A, B = data(np.random.default_rng(3))
    C, before = computed(tensor_cores, A, B, beta)
    assert_as_accurate_as_fp32(C, before, A, B, beta)


@pytest.mark.parametrize(
    "family",
    [
        *("normal", "relu", "softmax", "lognormal", "outlier_columns", "scaled_k", "log_uniform", "far_apart"),
        *("sparse", "zero_blocks"),
    ],
)
def test_the_data_of_users_are_as_accurate_as_fp32_sums(each_way, family):
    A, B = draw_data(family, SHAPE, 5)
    C, before = computed(each_way, A, B)
    assert_as_accurate_as_fp32(C, before, A, B, 0.0)


@pytest.mark.parametrize("sms", [1, 3, 8])
def test_infinities_are_where_they_belong_for_any_number_of_sms_and_any_order_of_blocks(each_way, sms):
    A, B = draw_data("normal", Shape(260, 300, 1100), 1)
    A[3, 5], A[200, 7], B[9, 140] = np.nan, np.inf, -np.inf
    C, before = computed(each_way, A, B, 0.5, sms)
    again, _ = computed(each_way, A, B, 0.5, sms, seed=2)
    assert C.tobytes() == again.tobytes()
    with np.errstate(invalid="ignore"):
        exact = A.astype(np.float64) @ B.astype(np.float64) + 0.5 * before
    finite = np.isfinite(exact)
    assert np.array_equal(C[~finite], exact[~finite].astype(np.float32), equal_nan=True)
    magnitude = np.abs(np.nan_to_num(A, posinf=0).astype(np.float64)) @ np.abs(np.nan_to_num(B, neginf=0))
    bound = componentwise_bound(1100) * (magnitude + np.abs(0.5 * before))
    assert (np.abs(C[finite] - exact[finite]) <= bound[finite]).all()


def unsplit_columns(shape: Shape, tiles):
    """Normal numbers, and an infinity in the last column of each of these tiles of 128 columns: FP32 has the tile."""
    A, B = draw_data("normal", shape, 3)
    last = [min(128 * tile + 127, shape.n - 1) for tile in tiles]
    B[5, last] = np.inf
    return A, B, last


@pytest.mark.parametrize("places", [RAW, ALIGNED], ids=["by_threads", "by_the_engine"])
@pytest.mark.parametrize(
    ("shape", "tiles", "sms"),
    [
        (Shape(70, 900, 600), [0, 2, 3, 5, 6], 8),  # of 64 rows and of 6, each time four of the tiles and one
        (Shape(130, 900, 600), [1, 4], 132),  # a third strip of two rows
        (Shape(5, 4400, 580), [31, 32, 34], 3),  # of two segments
        (Shape(300, 300, 1100), [0, 1, 2], 5),  # all tiles, some of them shared; sections
    ],
    ids=str,
)
def test_fp32_gathers_tiles_that_are_left_wherever_they_are(tensor_cores, shape, tiles, sms, places):
    A, B, infinite = unsplit_columns(shape, tiles)
    C, before = computed(tensor_cores, A, B, 0.5, sms, places=places)
    assert not np.isfinite(C[:, infinite]).any()
    finite = np.setdiff1d(np.arange(shape.n), infinite)
    assert_as_accurate_as_fp32(C[:, finite], before[:, finite], A, B[:, finite], 0.5)


def test_a_tile_without_rows_is_not_left(tensor_cores):
    """Below the last row; the bit of such a tile would be that of another one, to which beta C would be added again."""
    shape = Shape(5, 4400, 577)
    random = np.random.default_rng(8)
    A = random.standard_normal((shape.m, shape.k)).astype(np.float32)
    A[random.random(A.shape) < 0.6] *= np.float32(2.0**-48)
    B = random.standard_normal((shape.k, shape.n)).astype(np.float32)
    C, before = computed(tensor_cores, A, B, 0.5)
    assert_as_accurate_as_fp32(C, before, A, B, 0.5)


@pytest.mark.parametrize("rows", [slice(0, 128), slice(128, 256), slice(0, 256)], ids=str)
def test_a_tile_whose_rows_have_few_strong_numbers_is_left_alone_or_with_its_neighbour(tensor_cores, rows):
    """Of a pair of tiles, one or both. The rows that stay have many strong numbers, but are wide, too."""
    random = np.random.default_rng(4)
    A = random.standard_normal((SHAPE.m, SHAPE.k)).astype(np.float32)
    strong = np.full(SHAPE.m, 100)
    strong[rows] = 3
    order = random.permuted(np.tile(np.arange(SHAPE.k), (SHAPE.m, 1)), axis=1)
    A[order >= strong[:, None]] *= np.float32(2.0**-48)
    B = random.standard_normal((SHAPE.k, SHAPE.n)).astype(np.float32)
    C, before = computed(tensor_cores, A, B)
    for part in (slice(0, 128), slice(128, 256), slice(256, None)):
        few = part.start >= rows.start and part.start < rows.stop
        spare = 0.0 if few else UNIT_ROUNDOFF
        assert_as_accurate_as_fp32(C[part], before[part], A[part], B, 0.0, times=1.1, spare=spare)


def steps_of(when: str):
    """All steps of k, or those from 32 on: the first block of a tile has not seen them when it begins to multiply."""
    return np.full(SHAPE.k, True) if when == "at once" else np.arange(SHAPE.k) >= 32


def normal_pair(random):
    return [random.standard_normal(each).astype(np.float32) for each in ((SHAPE.m, SHAPE.k), (SHAPE.k, SHAPE.n))]


def low_parts_that_underflow(random, steps):
    """There numbers of A are too small for low parts in TF32; products are as large as elsewhere."""
    A, B = normal_pair(random)
    A *= np.where(steps, np.float32(2.0**-124), np.float32(2.0**-60))
    B *= np.where(steps, np.float32(2.0**124), np.float32(2.0**60))[:, None]
    return A, B


def few_terms(random, steps):
    """There 97 numbers of a hundred are zeros. Elsewhere A is small."""
    A, B = normal_pair(random)
    A[:, steps] *= random.random(A[:, steps].shape) < 0.03
    B[steps] *= random.random(B[steps].shape) < 0.03
    A[:, ~steps] *= np.float32(2.0**-30)
    return A, B


def one_large_number(random, steps):
    """Of each row and column one number there is a million times as large as the others."""
    A, B = normal_pair(random)
    at = np.flatnonzero(steps)[0]
    A[:, at] *= np.float32(1e6)
    B[at] *= np.float32(1e6)
    return A, B


def one_large_column_of_A(random, steps):
    """There all terms but one of each sum are far too small to matter, by A alone."""
    A, B = normal_pair(random)
    A[:, np.flatnonzero(steps)[0]] *= np.float32(2.0**30)
    return A, B


def split_kernel(library: Library, shape: Shape, sms: int, places) -> Launch:
    """The launch of sgemm_split. It brings raw lines if A or B is not aligned."""
    launch = library.launches(shape, sms, (*gaps_of(shape, places), 1))[-1]
    assert f"ELb{int(places != ALIGNED)}E" in launch.kernel
    return launch


@pytest.mark.parametrize("places", [ALIGNED, RAW], ids=["aligned", "raw"])
@pytest.mark.parametrize("when", ["at once", "later"])
@pytest.mark.parametrize(
    "data",
    [low_parts_that_underflow, few_terms, one_large_number, one_large_column_of_A],
    ids=lambda each: each.__name__,
)
def test_a_block_that_finds_that_fp32_errs_less_computes_its_tile_so(in_place, data, when, places):
    """At its first stage, or at its end. Split numbers would err more than twice as much."""
    split_kernel(in_place, SHAPE, 8, places)
    A, B = data(np.random.default_rng(11), steps_of(when))
    C, before = computed(in_place, A, B, 0.5, places=places)
    assert_as_accurate_as_fp32(C, before, A, B, 0.5, times=1.1, spare=0.0)


def test_a_long_part_of_k_is_judged_as_a_short_one(in_place):
    """A block with more than 4096 lines counts by 2^12, and compares with as much.

    Normal numbers are split, which errs less than FP32 sums of as many steps in totals. Where all terms but one are too
    small to matter, FP32 computes.
    """
    shape = Shape(20, 100, 140_000)
    assert in_place.launches(shape, 1, (0, 0, 0))[-1].grid[0] == 1  # a block has all of k
    A, B = draw_data("normal", shape, 2)
    C, _ = computed(in_place, A, B, sms=1)
    total = np.zeros_like(C)
    for p in range(0, shape.k, 512):
        total += fp32_sums(A[:, p : p + 512], B[p : p + 512])
    exact = A.astype(np.float64) @ B.astype(np.float64)
    assert np.linalg.norm(C - exact) <= 0.8 * np.linalg.norm(total - exact)
    A[:, 35] *= np.float32(2.0**44)  # one of those that the block looks at
    C, before = computed(in_place, A, B, 0.5, sms=1)
    assert_as_accurate_as_fp32(C, before, A, B, 0.5, times=1.1, spare=0.0)


@pytest.mark.parametrize("places", [ALIGNED, RAW], ids=["aligned", "raw"])
@pytest.mark.parametrize(
    ("shape", "sms", "tile", "parts"),
    [
        (SHAPE, 1, (128, 128), 1),
        (Shape(130, 190, 1100), 8, (128, 128), 2),
        (SHAPE, 8, (64, 128), 1),
        (Shape(130, 190, 1100), 32, (64, 128), 4),
        (Shape(130, 190, 1100), 1, (64, 64), 1),
        (Shape(61, 500, 97), 132, (64, 64), 4),
        (Shape(130, 190, 1100), 132, (64, 64), 8),
        (Shape(300, 40, 700), 132, (64, 64), 8),
    ],
    ids=str,
)
def test_blocks_that_share_steps_of_k_compute_any_tile(in_place, shape, sms, tile, parts, places):
    """Each tiling at edges, with one part of k and with several."""
    rows, cols = tile
    launch = split_kernel(in_place, shape, sms, places)
    assert f"SplitTilingILi{rows}ELi{cols // 64}E" in launch.kernel
    assert launch.grid[0] == -(-shape.m // rows) * -(-shape.n // cols) * parts
    A, B = draw_data("normal", shape, 9)
    C, before = computed(in_place, A, B, 0.5, sms, places=places)
    assert_as_accurate_as_fp32(C, before, A, B, 0.5)


@pytest.mark.parametrize(
    ("of_A", "of_B"),
    [
        ((0, 0), (1, 0)),
        ((0, 1), (1, 3)),
        ((0, 2), (2, 0)),
        ((1, 1), (3, 2)),
        ((1, 2), (0, 3)),
        ((2, 0), (3, 0)),
        ((2, 3), (2, 1)),
        ((3, 0), (0, 0)),
    ],
    ids=str,
)
def test_raw_lines_may_begin_anywhere(in_place, of_A, of_B):
    """Rows of four classes lack none to three floats, and the first row of B comes by another way."""
    shape = Shape(70, 140, 150)
    split_kernel(in_place, shape, 8, (of_A, of_B))
    A, B = draw_data("normal", shape, 9)
    C, before = computed(in_place, A, B, 0.5, places=(of_A, of_B))
    assert_as_accurate_as_fp32(C, before, A, B, 0.5)


@pytest.mark.parametrize("aligned", [(True, False), (False, True), (True, True)], ids=str)
def test_one_launch_copies_what_does_not_come_as_raw_lines_either(in_place, aligned):
    """Three rows are too few for these."""
    shape = Shape(3, 260, 420)
    places = [(0, 0) if whole else (1, 1) for whole in aligned]
    made = in_place.launches(shape, 8, (*gaps_of(shape, places), 0))
    copies = [launch for launch in made if "copy" in launch.kernel]
    assert len(copies) == (0 if all(aligned) else 1)
    A, B = draw_data("normal", shape, 9)
    C, before = computed(in_place, A, B, 0.5, places=places)
    assert_as_accurate_as_fp32(C, before, A, B, 0.5)


def test_shape_and_sms_say_which_way_a_product_takes(tmp_path, nvcc):
    rung = read_kernels(KERNELS)["adaptive_3xfp16"]
    assert build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path / "build")["status"] == "ok"
    library = Library(Build(tmp_path / "build").library)

    def kernels(*sides: int) -> list[str]:
        return [launch.kernel for launch in library.launches(Shape(*sides), 132)]

    for large in ((2048, 2048, 2048), (4096, 4096, 4096), (2112, 2000, 4001)):
        ways = kernels(*large)
        assert len(ways) == 5
        expected = ("scan_matrices", "rescale_steps", "split_parts", "sgemm_parts", "sgemm_left")
        assert all(name in way for name, way in zip(expected, ways, strict=True))
    assert library.launches(Shape(4096, 4096, 4096), 132)[-1].grid == (132, 1, 1)
    for middle in ((512, 512, 512), (736, 448, 736), (1024, 1024, 1024), (4096, 4096, 512), (640, 640, 8192)):
        assert ["sgemm_split" in way for way in kernels(*middle)] == [True], middle
    assert ["sgemm_split" in way for way in kernels(1023, 1023, 1023)] == [True], "raw lines"
    assert ["sgemm_split" in way for way in kernels(4096, 4095, 512)] == [False, True], "a copy before it"
    for small in ((256, 256, 64), (384, 384, 384), (128, 512, 7392), (8192, 32, 8192), (3, 8192, 8192), (16, 16, 8128)):
        assert not any("sgemm_parts" in way or "sgemm_split" in way for way in kernels(*small)), small
