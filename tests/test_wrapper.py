"""Kernels of another contract: the wrapper that kernels.yaml declares runs them, unchanged, under our check."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import asked, line_of, write
from ladder.build.compile import NOT_APPLICABLE, Build, build
from ladder.build.emulator import EMULATED, NEEDS_GPU, cached_engine
from ladder.build.inspection import inspect
from ladder.build.library import Library, Operands
from ladder.build.resources import first_warning
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.config.sources import source_digest
from ladder.config.wrapper import MAIN_OF_SOURCE
from ladder.measure.check.emulate import emulate_source
from ladder.model.claims import claimed_cases
from ladder.model.rung import TunedClass
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

H100 = gpus.read_gpu("h100-sxm")
FLAGS = ["-O3", "-std=c++17"]
CASES = [
    asked("64x32x16"),
    asked("33x65x17", alpha=-1.25, beta=0.75),
    asked("7", padding=3),
    asked("31x33x0", beta=0.5),
]

# A kernel as tutorials have them: square tiles, row-major, no leading dimensions, main() and a comparison beside it.
TUTORIAL = """
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
int ceil_div(int a, int b) { return (a + b - 1) / b; }  // a name of ours
struct Gemm {};                                         // and another
template <const int BM, const int BN>
__global__ void sgemm(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
  int row = blockIdx.y * BM + threadIdx.y, col = blockIdx.x * BN + threadIdx.x;
  float sum = 0.0f;
  for (int p = 0; p < K; ++p) sum += A[row * K + p] * B[p * N + col];
  C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
void compare(cublasHandle_t handle, float* C) {
  float one = 1.0f;
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, C, 1, C, 1, &one, C, 1);
}
int main() {
  float* C;
  cudaMalloc(&C, 4);
  cudaEvent_t begin;
  cudaEventCreate(&begin);
  sgemm<16, 16><<<dim3(CEIL_DIV(64, 16)), dim3(16, 16)>>>(64, 64, 64, 1.0f, C, C, 0.0f, C);
  cudaDeviceSynchronize();
  exit(printf("never\\n"));
}
"""
ENTRY = {
    "title": "a tutorial's kernel",
    "source": "tutorial.cu",
    "wrap": {
        "kernel": "sgemm<BM, BN>",
        "arguments": ["m", "n", "k", "alpha", "A", "B", "beta", "C"],
        "grid": ["n // BN", "m // BM"],
        "block": ["BN", "BM"],
        "clear_c": True,
        "parameters": {"BM": 16, "BN": 16},
    },
    "claims": {
        **{"m": "m % 16 == 0", "n": "n % 16 == 0"},
        **{"lda": "lda == k", "ldb": "ldb == n", "ldc": "ldc == n"},
    },
}
# The same product in column-major order, with leading dimensions, and rows and columns of any number.
COLUMN_MAJOR = """
__global__ void gemm_cm(const float* A, int lda, const float* B, int ldb, float* C, int ldc, int m, int n, int k,
                        float alpha, float beta) {
  int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y;
  if (row >= m) return;
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) sum += A[row + size_t(p) * lda] * B[p + size_t(col) * ldb];
  float* c = C + row + size_t(col) * ldc;
  *c = beta == 0.0f ? alpha * sum : alpha * sum + beta * *c;
}
"""
SWAPPED = {
    "title": "a column-major kernel",
    "source": "tutorial.cu",
    "wrap": {
        "kernel": "gemm_cm",
        "arguments": ["B", "ldb", "A", "lda", "C", "ldc", "n", "m", "k", "alpha", "beta"],
        "grid": ["ceil_div(n, 64)", "m"],
        "block": [64],
    },
}


@pytest.fixture
def ladder(tmp_path):
    """Reads a ladder with one entry, `mine`, and these files beside it; gives its rungs."""

    def make(entry: dict, **files: str) -> list:
        for name, text in files.items():
            write(tmp_path / f"{name}.cu", text)
        path = write(tmp_path / "kernels.yaml", yaml.safe_dump({"mine": entry}, sort_keys=False))
        return [rung for rung in read_kernels(path, read_kernels(KERNELS)).values() if rung.entry == "mine"]

    return make


def changed(entry: dict, **wrap) -> dict:
    """The entry with another wrapper; a key of None is left out."""
    values = {**entry["wrap"], **wrap}
    return {**entry, "wrap": {key: value for key, value in values.items() if value is not None}}


def emulated(rung, tmp_path: Path, cases=CASES) -> dict:
    engine = cached_engine(ROOT / "build" / "emulator")
    return emulate_source(rung, claimed_cases(rung.claims, cases), 2, 60, tmp_path / "log", engine)


def test_a_tutorials_kernel_passes_the_check_as_it_is_where_it_claims_to_be_right(ladder, tmp_path):
    (rung,) = ladder(ENTRY, tutorial=TUTORIAL)
    record = emulated(rung, tmp_path)
    assert record["message"] == ""
    assert record["status"] == EMULATED
    assert len(record["cases"]) == 3  # the padded case has no neighbour without gaps
    (wrong,) = ladder({**ENTRY, "claims": {}}, tutorial=TUTORIAL)
    assert emulated(wrong, tmp_path)["status"] == "failed"


def test_a_kernel_that_reads_c_where_beta_is_0_needs_it_cleared(ladder, tmp_path):
    (rung,) = ladder(changed(ENTRY, clear_c=False), tutorial=TUTORIAL)
    record = emulated(rung, tmp_path)
    assert record["status"] == "failed"
    assert "uninitialised read" in record["message"]


def test_a_column_major_kernel_is_given_the_operands_in_the_other_order(ladder, tmp_path):
    (rung,) = ladder(SWAPPED, tutorial=COLUMN_MAJOR)
    assert emulated(rung, tmp_path)["status"] == EMULATED
    straight = changed(SWAPPED, arguments=["A", "lda", "B", "ldb", "C", "ldc", "m", "n", "k", "alpha", "beta"])
    (rung,) = ladder(straight, tutorial=COLUMN_MAJOR)
    assert emulated(rung, tmp_path)["status"] == "failed"


def test_the_launches_of_a_wrapped_kernel_are_those_that_the_expressions_say(ladder, tmp_path, nvcc):
    (rung,) = ladder(changed(ENTRY, shared_bytes="4 * BM * BN"), tutorial=TUTORIAL)
    assert build(rung, H100, nvcc, FLAGS, tmp_path / "b")["status"] == "ok"
    (launch,) = inspect(Build(tmp_path / "b"), ["64x32x16"], H100, tmp_path / "log", nvcc)["launches"]["64x32x16"]
    assert (launch["grid"], launch["block"], launch["dynamic_shared_bytes"]) == ([2, 4, 1], [16, 16, 1], 1024)
    assert "sgemm" in launch["symbol"]


def test_variants_and_tuned_classes_change_what_the_wrapper_holds(ladder, tmp_path, nvcc):
    small, large = ladder({**ENTRY, "variants": [{"BM": 8}, {"BN": 32}]}, tutorial=TUTORIAL)
    assert [rung.name for rung in (small, large)] == ["mine@BM=8", "mine@BN=32"]
    assert source_digest(small) != source_digest(large)
    (plain,) = ladder(ENTRY, tutorial=TUTORIAL)
    tuned = (TunedClass(1e5, {"BM": "8", "BN": "8"}), TunedClass(float("inf"), {"BM": "16", "BN": "32"}))
    rung = plain.__class__(**{**vars(plain), "tuned": tuned})
    build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    library = Library(tmp_path / "b/library.so")
    grids = {shape: library.launches(Shape.parse(shape), 132)[0].grid for shape in ("32", "64")}
    assert grids == {"32": (4, 4, 1), "64": (2, 4, 1)}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (changed(ENTRY, kernel=None), "wrap: a .cu file is called by its kernel; give kernel, and no function"),
        (changed(ENTRY, function="int f()"), "wrap: a .cu file is called by its kernel; give kernel, and no function"),
        (changed(ENTRY, kernel="sgemm<<<1>>>"), "wrap.kernel: 'sgemm<<<1>>>' names no kernel; write it as in `name`"),
        (changed(ENTRY, block=None), "wrap: a kernel is launched with grid and block; add block"),
        (changed(ENTRY, grid=["n / BN"]), "wrap.grid[0]: 'n / BN': Div has no place in it; it may hold"),
        (changed(ENTRY, arguments=["rows"]), "wrap.arguments[0]: 'rows': rows is no number of a product; known: m, n"),
        (changed(ENTRY, shared_bytes="A"), "wrap.shared_bytes: 'A': A is no number of a product; known: m, n, k"),
        (changed(ENTRY, grid=[]), "wrap.grid: [] has too few entries; it should be: a list of one to three"),
        (changed(ENTRY, blocks=[1]), "wrap.blocks: unknown key; did you mean block?"),
        (changed(ENTRY, include=["lost"]), "wrap.include: {folder}/lost: there is no such folder; make it, or mend"),
        ({**ENTRY, "source": "tutorial.cuh", "wrap": None}, "source: a .cuh file is wrapped; say under `wrap` how it"),
    ],
)
def test_what_a_wrapper_cannot_be_is_one_line(ladder, tmp_path, entry, message):
    line = line_of(lambda: ladder(entry, tutorial=TUTORIAL))
    assert f"kernels.yaml: mine.{message}".replace("{folder}", str(tmp_path)) in line


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        ({"kernel": "sgem<16, 16>"}, '"sgem"'),
        ({"arguments": ["m", "n"]}, "too few arguments"),
        ({"arguments": ENTRY["wrap"]["arguments"][::-1]}, "no suitable conversion function"),
    ],
)
def test_what_does_not_suit_the_source_is_one_line_that_blames_the_wrapper(ladder, tmp_path, nvcc, wrap, words):
    (rung,) = ladder(changed(ENTRY, **wrap), tutorial=TUTORIAL)
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert record["status"] == "failed"
    assert record["message"].startswith("mine.wrap does not suit tutorial.cu: error: ")
    assert words in record["message"]


# Cubins


@pytest.fixture
def cubin(tmp_path, nvcc):
    """Compiles COLUMN_MAJOR to a cubin beside the ladder, for an architecture; gives its kernel's symbol."""

    def make(architecture: str) -> str:
        source = write(tmp_path / "source.cu", COLUMN_MAJOR.replace("__global__", 'extern "C" __global__'))
        subprocess.run(
            [nvcc.path, *nvcc.library_flags, "-cubin", f"-arch={architecture}", source, "-o", tmp_path / "mine.cubin"],
            check=True,
        )
        return "gemm_cm"

    return make


def test_a_cubin_is_embedded_launched_and_inspected(ladder, cubin, tmp_path, nvcc):
    (rung,) = ladder(changed({**SWAPPED, "source": "mine.cubin"}, kernel=cubin("sm_90a")))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert (record["status"], record["message"]) == ("ok", "")
    found = inspect(Build(tmp_path / "b"), ["100x200x300"], H100, tmp_path / "log", nvcc)
    (launch,) = found["launches"]["100x200x300"]
    assert (launch["symbol"], launch["grid"], launch["block"]) == ("gemm_cm", [4, 100, 1], [64, 1, 1])
    kernel = next(kernel for kernel in found["kernels"] if kernel["symbol"] == "gemm_cm")
    assert kernel["registers"] > 8
    assert kernel["code"]["loop"]["mix"]
    assert emulated(rung, tmp_path)["status"] == NEEDS_GPU


def test_a_cubin_of_another_architecture_does_not_apply(ladder, cubin, tmp_path, nvcc):
    (rung,) = ladder(changed({**SWAPPED, "source": "mine.cubin"}, kernel=cubin("sm_80")))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert (record["status"], record["message"]) == (
        NOT_APPLICABLE,
        f"mine.cubin is of sm_80; {H100.title} needs sm_90a",
    )


def test_a_kernel_that_a_cubin_lacks_is_one_line_that_names_those_that_it_has(ladder, cubin, tmp_path, nvcc):
    cubin("sm_90a")
    (rung,) = ladder(changed({**SWAPPED, "source": "mine.cubin"}, kernel="other"))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert (record["status"], record["message"]) == ("failed", "mine.cubin: has no function other; it has: gemm_cm")


def test_arguments_that_are_not_as_many_as_a_kernel_of_a_cubin_takes_are_one_line(ladder, cubin, tmp_path, nvcc):
    few = SWAPPED["wrap"]["arguments"][:-2]
    (rung,) = ladder(changed({**SWAPPED, "source": "mine.cubin"}, kernel=cubin("sm_90a"), arguments=few))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    message = f"gemm_cm takes {len(few) + 2} parameters, and wrap.arguments has {len(few)}; mend kernels.yaml"
    assert (record["status"], record["message"]) == ("failed", f"mine.cubin: {message}")


# Compiled libraries

OF_LIBRARY = {
    "title": "a compiled library",
    "source": "libmine.so",
    "wrap": {
        "function": "int blas_sgemm(void* handle, int m, int n, int k, const float* alpha, const float* A, int lda, "
        "const float* B, int ldb, const float* beta, float* C, int ldc)",
        "arguments": [None, "m", "n", "k", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc"],
    },
}
ON_THE_HOST = """
extern "C" int blas_sgemm(void*, int m, int n, int k, const float* alpha, const float* A, int lda, const float* B,
                          int ldb, const float* beta, float* C, int ldc) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += A[i * lda + p] * B[p * ldb + j];
      C[i * ldc + j] = *alpha * sum + *beta * C[i * ldc + j];
    }
  return 0;
}
"""


def library_of(folder: Path, text: str, *arguments: str) -> None:
    source = write(folder / "library.cpp", text)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", folder / "libmine.so", *arguments], check=True)


def test_a_function_of_a_compiled_library_is_called_with_what_it_asks_for(ladder, tmp_path, nvcc):
    library_of(tmp_path, ON_THE_HOST)
    (rung,) = ladder(OF_LIBRARY)
    assert build(rung, H100, nvcc, FLAGS, tmp_path / "b")["message"] == ""
    A, B, C = (np.random.default_rng(0).random(shape, np.float32) for shape in ((3, 5), (5, 4), (3, 6)))
    expected = 2 * A @ B + 0.5 * C[:, :4]
    pointers = (array.ctypes.data_as(ctypes.c_void_p).value for array in (A, B, C))
    a, b, c = pointers
    operands = Operands(a, 5, b, 4, c, 6)
    assert Library(tmp_path / "b/library.so").queue(Shape(3, 4, 5), 2.0, 0.5, operands) == 0
    np.testing.assert_allclose(C[:, :4], expected, rtol=1e-6)


def test_a_library_that_lets_cublas_multiply_is_refused(ladder, tmp_path, nvcc):
    library_of(tmp_path, "int other() { return 0; }", "-Wl,-soname,libcublas.so.13")
    (tmp_path / "libmine.so").rename(tmp_path / "libcublas.so.13")
    library_of(tmp_path, ON_THE_HOST, "-Wl,--no-as-needed", str(tmp_path / "libcublas.so.13"))
    (rung,) = ladder(OF_LIBRARY)
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    assert record["status"] == "failed"
    assert "needs libcublas.so.13; do not link with it" in record["message"]


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF and no more"])
def test_a_file_that_is_no_library_is_one_line(ladder, tmp_path, nvcc, content):
    (tmp_path / "libmine.so").write_bytes(content)
    (rung,) = ladder(OF_LIBRARY)
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    message = "libmine.so: is no shared library; build it anew, or mend the name"
    assert (record["status"], record["message"]) == ("failed", message)


def test_a_function_that_a_library_lacks_is_one_line_that_names_the_one_most_like_it(ladder, tmp_path, nvcc):
    library_of(tmp_path, ON_THE_HOST)
    (rung,) = ladder(changed(OF_LIBRARY, function=OF_LIBRARY["wrap"]["function"].replace("sgemm", "sgem")))
    record = build(rung, H100, nvcc, FLAGS, tmp_path / "b")
    message = "libmine.so: has no function blas_sgem; did you mean blas_sgemm?"
    assert (record["status"], record["message"]) == ("failed", message)


def test_a_declaration_that_is_none_is_one_line(ladder, tmp_path):
    library_of(tmp_path, ON_THE_HOST)
    line = line_of(lambda: ladder(changed(OF_LIBRARY, function="blas_sgemm")))
    assert "mine.wrap.function: 'blas_sgemm' declares no C function; write it as in `int f(" in line


def test_that_main_ends_without_a_value_is_no_warning_of_the_kernel():
    text = 'own.cu({}): warning #940-D: missing return statement at end of non-void function "{}"\n'
    assert first_warning(text.format(9, MAIN_OF_SOURCE)) == ""
    both = text.format(9, MAIN_OF_SOURCE) + text.format(20, "run")
    assert first_warning(both).startswith("; nvcc warns: own.cu(20): ")
