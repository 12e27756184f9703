"""A rung for use elsewhere: what the library exports, and what its Python function and its shim for cuBLAS pass on."""

import ctypes
import importlib.util
import os
import shutil
import subprocess

import numpy as np
import pytest
from conftest import write
from emulator import AWKWARD, compile_rung, run
from ladder.build.cuda_syntax import in_plain_cpp
from ladder.build.library import Library
from ladder.commands import library
from ladder.config.plan import plan
from ladder.system.paths import ROOT

PARTS = ROOT / "kernels/library"
# Stands in for libgemm_ladder.so: it multiplies on the host and says what it was given.
STAND_IN = """
#include "gemm_ladder.h"
#include <cstdio>
#include <cstdlib>
extern "C" int gemm_ladder_runs_here(void) { return std::getenv("OTHER_DEVICE") == nullptr; }
extern "C" const char* gemm_ladder_describe(void) { return "a stand-in"; }
extern "C" int gemm_ladder_sgemm_transposed(int ta, int tb, int m, int n, int k, float alpha, const float* A,
                                            int64_t lda, const float* B, int64_t ldb, float beta, float* C,
                                            int64_t ldc, gemm_ladder_stream stream) {
  std::printf("ladder%s%s %d %d %d %g %ld %ld %g ", ta ? " A'" : "", tb ? " B'" : "", m, n, k, alpha, long(lda),
              long(ldb), beta);
  std::printf("%ld %p\\n", long(ldc), (void*)stream);
  std::fflush(stdout);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p)
        sum += (ta ? A[p * lda + i] : A[i * lda + p]) * (tb ? B[j * ldb + p] : B[p * ldb + j]);
      C[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * C[i * ldc + j]);
    }
  return std::getenv("FAILS") ? 1 : 0;
}
"""
# Stands in for libcublas.so: it says what was called, and what a program has set.
CUBLAS = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
static int setting(const char* name) { const char* text = std::getenv(name); return text ? std::atoi(text) : 0; }
extern "C" int cublasGetPointerMode_v2(void*, int* mode) { *mode = setting("POINTER_MODE"); return 0; }
extern "C" int cublasGetMathMode(void*, int* mode) { *mode = setting("MATH_MODE"); return 0; }
extern "C" int cublasGetStream_v2(void*, void** stream) { *stream = (void*)0x77; return 0; }
extern "C" int cublasSgemm_v2(void*, int ta, int tb, int m, int n, int k, const float*, const float*, int lda,
                              const float*, int ldb, const float*, float*, int ldc) {
  std::printf("cublas %d %d %d %d %d %d %d %d\\n", ta, tb, m, n, k, lda, ldb, ldc);
  return 0;
}
extern "C" int cublasSgemm_v2_64(void*, int ta, int tb, int64_t m, int64_t n, int64_t k, const float*, const float*,
                                 int64_t lda, const float*, int64_t ldb, const float*, float*, int64_t ldc) {
  std::printf("cublas64 %d %d %ld\\n", ta, tb, long(m));
  return 0;
}
extern "C" int cublasGemmEx(void*, int ta, int tb, int m, int n, int k, const void*, const void*, int type_a, int lda,
                            const void*, int type_b, int ldb, const void*, void*, int type_c, int ldc, int compute,
                            int algorithm) {
  std::printf("cublas %d %d %d %d %d %d %d %d, %d %d %d in %d by %d\\n", ta, tb, m, n, k, lda, ldb, ldc, type_a, type_b,
              type_c, compute, algorithm);
  return 0;
}
"""
# A program of cuBLAS: C = 2 A . B + 0.5 C in column-major order, 2 x 3 x 4 with gaps; then what its arguments ask for.
# Behind `transposed` stand cuBLAS's numbers of the operations on A and on B.
PROGRAM = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
extern "C" int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                              const float*, float*, int);
extern "C" int cublasSgemm_v2_64(void*, int, int, int64_t, int64_t, int64_t, const float*, const float*, int64_t,
                                 const float*, int64_t, const float*, float*, int64_t);
extern "C" int cublasGemmEx(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                            const void*, void*, int, int, int, int);
int main(int count, char** arguments) {
  float A[20], B[24], C[4 * 3], alpha = 2, beta = 0.5f;
  for (int i = 0; i < 20; ++i) A[i] = i;
  for (int i = 0; i < 24; ++i) B[i] = 1 - i;
  for (int i = 0; i < 12; ++i) C[i] = i;
  const char* asked = count > 1 ? arguments[1] : "";
  if (!std::strcmp(asked, "off")) ((void (*)(int))dlsym(RTLD_DEFAULT, "gemm_ladder_shim"))(0);
  bool given = !std::strcmp(asked, "transposed");
  int ta = given ? std::atoi(arguments[2]) : 0, tb = given ? std::atoi(arguments[3]) : 0, status;
  if (!std::strcmp(asked, "64"))
    status = cublasSgemm_v2_64(nullptr, 0, 0, 2, 3, 4, &alpha, A, 5, B, 6, &beta, C, 4);
  else if (!std::strcmp(asked, "ex"))  // a type of C, and what it is computed in
    status = cublasGemmEx(nullptr, 0, 0, 2, 3, 4, &alpha, A, 0, 5, B, 0, 6, &beta, C, std::atoi(arguments[2]), 4,
                          std::atoi(arguments[3]), 7);
  else
    status = cublasSgemm_v2(nullptr, ta, tb, 2, 3, 4, &alpha, A, 5, B, 6, &beta, C, 4);
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 2; ++i) {
      float sum = 0;
      for (int p = 0; p < 4; ++p) sum += (ta ? A[p + i * 5] : A[i + p * 5]) * (tb ? B[j + p * 6] : B[p + j * 6]);
      if (C[i + j * 4] != 2 * sum + 0.5f * (i + j * 4)) { std::printf("status %d, not computed\\n", status); return 0; }
    }
  std::printf("status %d, computed\\n", status);
}
"""


def shared(folder, name, text, *more):
    source = write(folder / f"{name}.cpp", text)
    options = ["-shared", "-fPIC", f"-I{PARTS}", "-o", folder / f"lib{name}.so"]
    subprocess.run(["g++", source, *options, *more], check=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the shim, the Python module and a program, and stand-ins for our library and for cuBLAS."""
    folder = tmp_path_factory.mktemp("library")
    shared(folder, "gemm_ladder", STAND_IN)
    shared(folder, "cublas", CUBLAS, "-Wl,-soname,libcublas.so")
    library.make_shim(folder)
    shutil.copy(PARTS / "gemm_ladder.py", folder)
    program = write(folder / "program.cpp", PROGRAM)
    linked = [f"-L{folder}", "-lcublas", f"-Wl,-rpath,{folder}", "-ldl"]
    subprocess.run(["g++", program, "-o", folder / "program", *linked], check=True)
    return folder


def said(place, *arguments: str, preload: bool = True, **variables: str) -> list[str]:
    """The lines of the program, with the shim before its cuBLAS."""
    env = {**os.environ, **variables, **({"LD_PRELOAD": str(place / library.SHIM_NAME)} if preload else {})}
    return subprocess.run(
        [place / "program", *arguments], env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()


LADDER = ["ladder 3 2 4 2 6 5 0.5 4 0x77", "status 0, computed"]  # n and m, B and A have changed places
OF_CUBLAS = ["cublas 0 0 2 3 4 5 6 4", "status 0, not computed"]


def test_the_shim_computes_a_column_major_product_from_the_transposes_on_the_handles_stream(place):
    assert said(place) == LADDER
    assert said(place, "64") == LADDER
    assert said(place, preload=False) == OF_CUBLAS


@pytest.mark.parametrize(
    "variables",
    [{"POINTER_MODE": "1"}, {"MATH_MODE": "3"}, {"OTHER_DEVICE": "1"}, {"GEMM_LADDER_SHIM": "0"}],
)
def test_what_the_shim_cannot_take_or_is_not_to_take_goes_to_cublas_as_it_came(place, variables):
    assert said(place, **variables) == OF_CUBLAS


def test_a_product_of_cublasgemmex_is_ours_where_it_is_of_fp32_in_fp32(place):
    assert said(place, "ex", "0", "68") == LADDER
    for types in (("2", "68"), ("0", "74"), ("0", "0")):  # FP16 results, in TF32, an old name of compute types
        called = f"cublas 0 0 2 3 4 5 6 4, 0 0 {types[0]} in {types[1]} by 7"
        assert said(place, "ex", *types) == [called, "status 0, not computed"]


@pytest.mark.parametrize(
    ("arguments", "counts"), [((), "1 of 1"), (("transposed", "3", "0"), "0 of 1"), (("ex", "2", "68"), "0 of 0")]
)
def test_the_shim_reports_at_the_end_how_many_products_it_computed(place, arguments, counts):
    env = {**os.environ, "LD_PRELOAD": str(place / library.SHIM_NAME), "GEMM_LADDER_SHIM": "report"}
    ended = subprocess.run([place / "program", *arguments], env=env, capture_output=True, text=True, check=True)
    assert ended.stderr == f"gemm_ladder: {counts} FP32 products by a stand-in\n"


@pytest.mark.parametrize(
    ("operations", "operands"),
    [(("1", "0"), " B'"), (("0", "1"), " A'"), (("2", "1"), " A' B'"), (("0", "2"), " A'")],
)
def test_the_shim_passes_on_which_operands_are_transposed(place, operations, operands):
    assert said(place, "transposed", *operations) == [f"ladder{operands} 3 2 4 2 6 5 0.5 4 0x77", "status 0, computed"]


def test_an_operation_that_is_none_goes_to_cublas_as_it_came(place):
    assert said(place, "transposed", "3", "0") == ["cublas 3 0 2 3 4 5 6 4", "status 0, not computed"]


def test_the_shim_is_switched_off_for_a_call_by_its_own_function(place):
    assert said(place, "off", GEMM_LADDER_SHIM="1") == OF_CUBLAS


def test_an_error_of_ours_is_an_error_of_cublas(place):
    assert said(place, FAILS="1")[1] == "status 13, computed"


# Python


@pytest.fixture
def module(place, monkeypatch):
    """The Python module, for which the CPU is a CUDA device."""
    spec = importlib.util.spec_from_file_location("gemm_ladder", place / "gemm_ladder.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made, "CUDA", 1)  # kDLCPU
    return made


class OnAnyStream:
    """A NumPy array whose producer takes a stream, as those of GPUs do."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__()


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


def operand(rows: int, columns: int, turned: bool) -> np.ndarray:
    """A matrix, or a transposed view of one whose rows have gaps behind them."""
    return drawn(columns, rows + 2)[:, :rows].T if turned else drawn(rows, columns)


@pytest.mark.parametrize(("m", "n", "k", "gap"), [(3, 5, 4, 0), (1, 5, 4, 2), (3, 1, 1, 3), (2, 2, 0, 0)])
def test_the_python_function_passes_shapes_rows_and_scalars_on(module, m, n, k, gap):
    A, B, C = drawn(m, k + gap)[:, :k], drawn(k, n + gap)[:, :n], drawn(m, n + gap)[:, :n]
    expected = 2 * A @ B + 0.5 * C
    operands = [OnAnyStream(each) for each in (A, B, C)]
    assert module.sgemm(*operands, alpha=2, beta=0.5, stream=9) is operands[2]
    np.testing.assert_allclose(C, expected, rtol=1e-6)
    assert [each.streams for each in operands] == [[9]] * 3


@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 4), (1, 5, 4), (5, 1, 4), (5, 4, 1), (2, 2, 0)])
@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
def test_the_python_function_takes_transposed_views(module, capfd, m, n, k, turned):
    A, B, C = operand(m, k, turned[0]), operand(k, n, turned[1]), drawn(m, n)
    expected = 2 * A @ B + 0.5 * C
    module.sgemm(*map(OnAnyStream, (A, B, C)), alpha=2, beta=0.5)
    np.testing.assert_allclose(C, expected, rtol=1e-6)
    told = capfd.readouterr().out.split(" 2 ")[0]
    if min(m, n, k) > 1:
        assert [name in told for name in ("A'", "B'")] == list(turned)


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((np.zeros((2, 3)), drawn(3, 2), drawn(2, 2)), "A: is no matrix of float32; convert it"),
        ((drawn(2, 3), drawn(3), drawn(2, 2)), "B: is no matrix of float32; convert it"),
        (
            (drawn(2, 3), drawn(6, 4)[::2, ::2], drawn(2, 2)),
            "B: neither its columns nor its rows are side by side; make it contiguous",
        ),
        ((drawn(2, 3), drawn(3, 2), drawn(2, 2).T), "C: its columns are not side by side; make it contiguous"),
        ((drawn(2, 3), drawn(4, 2), drawn(2, 2)), "A is 2 x 3, B 4 x 2, C 2 x 2: they make no product"),
    ],
)
def test_operands_that_make_no_product_are_refused(module, operands, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        module.sgemm(*map(OnAnyStream, operands))
    assert str(caught.value) == f"sgemm: {message}"


def test_what_is_on_no_cuda_device_or_speaks_no_dlpack_is_refused(module, monkeypatch):
    with pytest.raises(TypeError) as caught:
        module.sgemm([[1.0]], drawn(1, 1), drawn(1, 1))
    assert "list speaks no DLPack" in str(caught.value)
    monkeypatch.setattr(module, "CUDA", 2)
    with pytest.raises(TypeError) as caught:
        module.sgemm(drawn(1, 1), drawn(1, 1), drawn(1, 1))
    assert "A: is on no CUDA device; move it there" in str(caught.value)


# The library itself

# A rung of the emulator, whose product is our library's of the transposes of its operands, by its own kernel: each
# operand is transposed twice, by this rung into the first two parts of the workspace, by the library into the third.
TRANSPOSED_TWICE = """
#define sgemm sgemm_of_the_rung
#include "naive.cu"
#include "gemm_ladder.cu"
#undef sgemm
cudaError_t twice(const Gemm& g, void* workspace, cudaStream_t stream) {
  uintptr_t at = reinterpret_cast<uintptr_t>(workspace);
  int64_t lda = g.m + 1, ldb = g.k + 2;
  size_t bytes_a = sizeof(float) * g.k * lda, bytes_b = sizeof(float) * g.n * ldb;
  Operand a{reinterpret_cast<float*>(at), lda, bytes_a}, b{reinterpret_cast<float*>(at + bytes_a), ldb, bytes_b};
  cudaError_t error = copy(a, g.k, g.m, g.A, g.lda, stream);
  error = error != cudaSuccess ? error : copy(b, g.n, g.k, g.B, g.ldb, stream);
  void* rest = reinterpret_cast<void*>((at + bytes_a + bytes_b + 255) / 256 * 256);
  return error != cudaSuccess ? error
                              : cudaError_t(gemm_ladder_sgemm_transposed_with_workspace(
                                    1, 1, g.m, g.n, g.k, g.alpha, a.elements, lda, b.elements, ldb, g.beta, g.C, g.ldc,
                                    rest, nullptr, static_cast<gemm_ladder_stream>(stream)));
}
size_t bytes_of_twice(const Gemm& g) {
  size_t bytes = 0;
  gemm_ladder_sgemm_transposed_with_workspace(1, 1, g.m, g.n, g.k, g.alpha, g.A, g.m, g.B, g.k, g.beta, g.C, g.ldc,
                                              nullptr, &bytes, nullptr);
  return bytes + sizeof(float) * (g.k * (g.m + 1ll) + g.n * (g.k + 2ll)) + 255;
}
EXPORT_SGEMM_WITH_WORKSPACE(twice, bytes_of_twice)
"""


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """That rung, compiled for the emulator."""
    folder = tmp_path_factory.mktemp("twice")
    for path in (ROOT / "kernels/sgemm/naive.cu", PARTS / "gemm_ladder.cu", PARTS / "gemm_ladder.h"):
        shutil.copy(path, folder)
    for name in ("naive.cu", "gemm_ladder.cu"):
        text = in_plain_cpp((folder / name).read_text(), name)
        (folder / name).write_text(text)
    source = write(folder / "twice.cu", TRANSPOSED_TWICE)
    macros = {"GEMM_LADDER_CAPABILITY": "90", "GEMM_LADDER_DESCRIPTION": '"a rung"'}
    error = compile_rung(source, folder / "twice.so", macros)
    assert not error, error
    return Library(folder / "twice.so")


@pytest.mark.parametrize("case", AWKWARD, ids=str)
def test_the_library_copies_transposed_operands_without_a_fault(twice, case):
    _, kinds, found = run(twice, case, seed=1)
    assert not kinds, found


def test_the_library_has_the_functions_of_its_header_and_answers_without_a_gpu(tmp_path):
    planned = plan({"gpu": "h100-sxm", "measure": False, "kernels": ["split_k"]})
    library.make_library(planned, planned.rungs[0], tmp_path)
    names = {"libgemm_ladder.so", "libgemm_ladder_cublas.so", "gemm_ladder.h", "gemm_ladder.py"}
    assert {path.name for path in tmp_path.iterdir()} == names
    made = ctypes.CDLL(str(tmp_path / library.LIBRARY_NAME))
    made.gemm_ladder_describe.restype = ctypes.c_char_p
    assert made.gemm_ladder_describe().decode() == f"split_k (fp32) for {planned.gpu.title}"
    assert not hasattr(made, "sgemm")
    assert made.gemm_ladder_runs_here() in (0, 1)
    needed = ctypes.c_size_t()
    pointer, wide = ctypes.c_void_p(1 << 20), ctypes.c_int64(300)
    arguments = [300, 300, 300, ctypes.c_float(1), pointer, wide, pointer, wide, ctypes.c_float(0), pointer, wide]
    assert made.gemm_ladder_sgemm_with_workspace(-1, *arguments[1:], None, ctypes.byref(needed), None) == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert library.main(["naive", "-o", str(tmp_path / "file"), "-C", "gpu=h100-sxm"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"library: {tmp_path}/file/rung: Not a directory; ")


@pytest.mark.parametrize("name", ["cublas", "empty"])
def test_what_is_no_rung_makes_no_library(tmp_path, capsys, name):
    assert library.main([name, "-o", str(tmp_path), "-C", "gpu=h100-sxm"]) == 1
    assert "only a rung that computes all of SGEMM makes a library" in capsys.readouterr().err
