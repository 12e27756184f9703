"""A compiled rung through its contract, on a machine without a GPU: all that returns before any work is queued."""

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REPOSITORY, a_rung, line_of, take_for_checkout, write
from ladder.build.compile import Build, build
from ladder.build.inspection import inspect
from ladder.build.library import Library, Operands, explain
from ladder.build.resources import resource_report
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.model.shape import Shape

T4 = gpus.read_gpu("t4")
ADDRESS = 1 << 20  # of matrices that are never read
INVALID = "cudaErrorInvalidValue: an argument outside the contract, or a launch larger than CUDA allows"

# A rung with all that a launch can have: tiles, a grid that follows the SMs, dynamic shared memory, a workspace.
SOURCE = """\
#include "gemm.cuh"

static __global__ void sgemm_first(Gemm g) { dynamic_shared<float>()[threadIdx.x] = 0.0f; }
__global__ void sgemm_second(Gemm g) {}

size_t needed(const Gemm& g) { return sizeof(float) * g.m * g.n; }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  error = launch(sgemm_first, dim3(sms, 2, 3), dim3(32, 4, 2), 100000, stream, g);
  return error != cudaSuccess ? error : launch(sgemm_second, tile_grid(g, 32, 16), dim3(64), 0, stream, g);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, nvcc):
    """The build of that rung."""
    folder = tmp_path_factory.mktemp("project")
    write(folder / "kernels/sgemm/large.cu", SOURCE)
    (folder / "kernels/include").symlink_to(REPOSITORY / "kernels/include")
    with pytest.MonkeyPatch.context() as patch:
        take_for_checkout(folder, patch)
        record = build(a_rung("large"), T4, nvcc, ["-std=c++17"], folder / "build")
    assert record["status"] == "ok", record["log"]
    return Build(folder / "build")


@pytest.fixture
def large(made):
    return Library(made.library)


def operands(shape: Shape, **changes) -> Operands:
    ld = {"lda": max(1, shape.k), "ldb": max(1, shape.n), "ldc": max(1, shape.n)}
    return Operands(**{"A": ADDRESS, "B": ADDRESS, "C": ADDRESS, **ld} | changes)


# Launches


def test_every_launch_of_a_shape_is_seen_in_order_with_all_its_numbers(large):
    first, second = large.launches(Shape(8, 8, 8), sms=40)
    assert "sgemm_first" in first.kernel
    assert "sgemm_second" in second.kernel
    assert (first.grid, first.block, first.dynamic_shared_bytes) == ((40, 2, 3), (32, 4, 2), 100000)
    assert (second.grid, second.block, second.dynamic_shared_bytes) == ((1, 1, 1), (64, 1, 1), 0)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((1, 1, 1), 1), ((32, 16, 5), 1), ((33, 65, 7), 2 * 5), ((4096, 4096, 4096), 128 * 256), ((1, 100000, 1), 6250)],
)
def test_a_grid_follows_the_shape(large, shape, blocks):
    assert large.launches(Shape(*shape), sms=40)[1].grid == (blocks, 1, 1)


def test_a_grid_follows_the_number_of_sms_that_it_is_told(large):
    assert [large.launches(Shape(8, 8, 8), sms)[0].grid[0] for sms in (132, 7)] == [132, 7]


def test_a_launch_is_named_as_the_compiler_names_its_kernel_even_a_static_one(made, large):
    report = resource_report(made.record["log"])
    assert [launch.kernel in report for launch in large.launches(Shape(8, 8, 8), sms=40)] == [True, True]


def test_the_workspace_that_a_shape_asks_for_needs_no_gpu(large):
    assert large.workspace_asked(Shape(8, 16, 4), sms=40) == 4 * 8 * 16


@pytest.mark.parametrize(("shape", "blocks"), [((5, 7, 0), 1), ((16, 16, 0), 1), ((100, 100, 0), 40)])
def test_a_product_of_nothing_only_scales(large, shape, blocks):
    (launch,) = large.launches(Shape(*shape), sms=40)
    assert "scale_kernel" in launch.kernel
    assert (launch.grid, launch.block) == ((blocks, 1, 1), (256, 1, 1))


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (0, 0, 0)])
def test_an_empty_result_launches_nothing(large, shape):
    assert large.launches(Shape(*shape), sms=40) == []


LARGE = {(2048, 2048, 2048), (8192, 8192, 8192), (2045, 2044, 2052)}


@pytest.mark.parametrize(
    ("name", "macros", "large"),
    [
        ("h100-sxm", {}, LARGE),
        ("h100-sxm", {"LARGE_K": "16384"}, set()),
        ("a100-sxm", {}, set()),  # a block may not have the shared memory
    ],
)
def test_large_tiles_of_mma_3xtf32_are_for_long_products_of_vectors_that_fill_sms(tmp_path, nvcc, name, macros, large):
    rung = replace(read_kernels(REPOSITORY / "config/kernels.yaml")["mma_3xtf32"], macros=macros)
    assert build(rung, gpus.read_gpu(name), nvcc, ["-std=c++17"], tmp_path / "build")["status"] == "ok"
    library = Library(Build(tmp_path / "build").library)
    small = {(2048, 2048, 2044), (4095, 4095, 4095), (1792, 1792, 4096), (2560, 2560, 4096), (3072, 3072, 3072)}
    shapes = small | LARGE
    taken = {shape for shape in shapes for each in library.launches(Shape(*shape), 132) if "sgemm_large" in each.kernel}
    assert taken == large


@pytest.mark.parametrize("name", ["mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16"])
def test_split_numbers_leave_short_sums_and_few_tiles_to_multiply_adds(tmp_path, nvcc, name):
    """An H100 of 132 SMs has enough with 60 tiles of 128 x 128."""
    rung = read_kernels(REPOSITORY / "config/kernels.yaml")[name]
    assert build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path / "build")["status"] == "ok"
    library = Library(Build(tmp_path / "build").library)
    left = {(4096, 4096, 576), (1, 1, 612), (512, 512, 65536), (896, 1024, 4096), (64, 3776, 1000)}
    others = {(4096, 4096, 577), (1024, 1024, 1024), (1024, 1024, 1536), (640, 1536, 4096), (64, 7680, 8192)}
    taken = {
        shape for shape in left | others if "sgemm_multiply_adds" in library.launches(Shape(*shape), 132)[0].kernel
    }
    assert taken == left
    for m, k, longest in ((512, 512, 96), (768, 768, 128), (512, 2048, 128), (512, 16384, 256), (1664, 512, 128)):
        splits = library.launches(Shape(m, m, k), 132)[0].grid[0] // (m // 128) ** 2
        assert k / splits <= longest
    assert library.launches(Shape(4096, 4096, 576), 132)[0].grid == (32 * 32, 1, 1)


@pytest.mark.parametrize(("name", "first"), [("wgmma_3xtf32", "sgemm_mma"), ("wgmma_3xfp16", "scan_lines")])
def test_the_pre_pass_of_tf32_needs_more_tiles_than_half_of_the_sms(tmp_path, nvcc, name, first):
    """64 of 132 SMs, and 72."""
    rung = read_kernels(REPOSITORY / "config/kernels.yaml")[name]
    assert build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path / "build")["status"] == "ok"
    library = Library(Build(tmp_path / "build").library)
    assert first in library.launches(Shape(1024, 1024, 4096), 132)[0].kernel
    assert "scan_lines" in library.launches(Shape(1024, 1152, 4096), 132)[0].kernel


@pytest.mark.parametrize("name", ["wgmma_3xtf32", "wgmma_3xfp16", "adaptive_3xfp16", "tf32"])
def test_the_compiler_has_wgmma_run_beside_each_other(tmp_path, nvcc, name):
    rung = read_kernels(REPOSITORY / "config/kernels.yaml")[name]
    record = build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path / "build")
    assert "Used 168 registers" in record["log"]  # what ptxas says is there
    assert "serialized" not in record["log"]


@pytest.mark.parametrize("name", ["wgmma_3xtf32", "wgmma_3xfp16"])
def test_lines_that_do_not_fit_are_left_to_multiply_adds_in_sections_for_each_tile(tmp_path, nvcc, name):
    rung = read_kernels(REPOSITORY / "config/kernels.yaml")[name]
    assert build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path / "build")["status"] == "ok"
    launches = Library(Build(tmp_path / "build").library).launches(Shape(2048, 1920, 4096), 132)
    names = "scan_lines.*split_lines.*sgemm_split.*sgemm_multiply_adds.*Li128E15TilesLeftToFp32"
    assert re.search(names, " ".join(launch.kernel for launch in launches))
    assert launches[-1].grid == (16 * 15, 1, 1)


def test_nothing_is_observed_any_more_behind_an_observation(made, large):
    large.launches(Shape(8, 8, 8), sms=40)
    library = ctypes.CDLL(str(made.library.resolve()))
    assert ctypes.c_void_p.in_dll(library, "launch_observer").value is None
    assert ctypes.c_int.in_dll(library, "observed_sms").value == 0


def test_two_libraries_in_one_process_are_observed_apart(made, large, tmp_path):
    other = Library(Path(shutil.copy(made.library, tmp_path / "other.so")))
    assert [each.launches(Shape(8, 8, 8), sms)[0].grid[0] for each, sms in ((large, 3), (other, 5), (large, 7))] == [
        3,
        5,
        7,
    ]


def test_the_inspection_joins_resources_and_launches(made, tmp_path):
    record = inspect(made, ["8", "0x8x8"], T4, tmp_path / "log")
    assert (record["status"], record["message"], record["rung"]) == ("ok", "", "large")
    assert record["architecture"] == "sm_75"
    kernels = {kernel["symbol"]: kernel for kernel in record["kernels"]}
    launches = record["launches"]["8"]
    assert record["launches"]["0x8x8"] == []
    assert [kernels[launch["symbol"]]["registers"] > 0 for launch in launches] == [True, True]
    assert launches[0]["grid"] == [T4.sms, 2, 3]


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="binutils' c++filt is not installed")
def test_the_inspection_names_kernels_as_the_source_does(made, tmp_path):
    kernels = {kernel["kernel"] for kernel in inspect(made, [], T4, tmp_path / "log")["kernels"]}
    assert kernels == {"sgemm_first", "sgemm_second", "scale_kernel"}


# The contract's errors


@pytest.mark.parametrize("change", [{"lda": 7}, {"ldb": 5}, {"ldc": 5}, {"lda": 0}, {"ldc": -1}], ids=str)
def test_a_leading_dimension_that_is_too_small_is_refused(large, change):
    shape = Shape(4, 6, 8)
    refused = line_of(large.workspace_bytes, shape, 1.0, 0.0, operands(shape, **change))
    assert refused == f"sgemm refuses 4x6x8: {INVALID}"
    assert large.queue(shape, 1.0, 0.0, operands(shape, **change)) == 1


@pytest.mark.parametrize("shape", [(-1, 1, 1), (1, -1, 1), (1, 1, -1)])
def test_a_negative_size_is_refused(large, shape):
    assert large.queue(Shape(*shape), 1.0, 0.0, operands(Shape(*shape))) == 1


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (0, 0, 0)])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_an_empty_result_is_done_at_once(large, shape, beta):
    assert large.queue(Shape(*shape), 1.0, beta, operands(Shape(*shape))) == 0


@pytest.mark.parametrize(("shape", "alpha"), [((5, 7, 0), 1.0), ((5, 7, 9), 0.0)])
def test_a_product_of_nothing_that_keeps_c_is_done_at_once(large, shape, alpha):
    assert large.queue(Shape(*shape), alpha, 1.0, operands(Shape(*shape))) == 0


@pytest.mark.parametrize(
    ("shape", "alpha", "needed"),
    [((4, 6, 8), 1.0, 96), ((4, 6, 8), 0.0, 0), ((4, 6, 0), 1.0, 0), ((0, 6, 8), 1.0, 0)],
)
def test_the_workspace_is_what_the_rung_asks_for_and_nothing_where_there_is_no_product(large, shape, alpha, needed):
    shape = Shape(*shape)
    assert large.workspace_bytes(shape, alpha, 0.0, operands(shape)) == needed


# What is no rung


def test_a_library_without_sgemm_is_one_line_that_says_what_is_missing(tmp_path):
    source = write(tmp_path / "other.c", "int other(void) { return 0; }\n")
    library = tmp_path / "other.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    text = line_of(Library, library)
    assert text.startswith("it cannot be used as a rung (")
    assert "undefined symbol: sgemm" in text
    assert text.endswith("; end the source with EXPORT_SGEMM")


@pytest.mark.parametrize("content", [None, b"no library"], ids=["missing", "no library"])
def test_a_file_that_is_no_library_is_one_line(tmp_path, content):
    path = tmp_path / "library.so"
    if content is not None:
        path.write_bytes(content)
    assert line_of(Library, path).startswith("it cannot be used as a rung (")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (1, INVALID),
        (700, "cudaErrorIllegalAddress: a kernel read or wrote outside its memory"),
        (9999, "CUDA error 9999"),
    ],
)
def test_an_error_is_told_in_words(error, words):
    assert explain(error) == words
