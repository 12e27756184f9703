"""What the check asks of a host function, and static memory and streams in the emulator: sound sources and faults."""

import ctypes
import os
from dataclasses import replace

import numpy as np
import pytest
from conftest import asked
from emulator import compiled_engine
from ladder.build.compile import Build, build
from ladder.build.library import Library, Operands
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.measure.check.emulate import emulate_source
from ladder.measure.check.probes import probe_case
from ladder.measure.devices import Call, CudaDevice, EmulatedDevice
from ladder.model.cases import EMULATED_PROBES, LARGE_WORKSPACE, PROBES, Case, probes
from ladder.model.shape import Shape
from ladder.system import nvml
from ladder.system.paths import ROOT

NAIVE = read_kernels(ROOT / "config" / "kernels.yaml")["naive"]
CASES = [asked("33x35x65", beta=0.5), *probes(EMULATED_PROBES)]

# A product in two kernels: `halves` leaves the sums of both halves of k, `add` adds them.
SOURCE = """#include "gemm.cuh"
STATIC
__global__ void halves(Gemm g, float* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, half = blockIdx.y;
  if (i >= g.m * g.n) return;
  float sum = 0;
  for (int p = half * (g.k / 2); p < (half ? g.k : g.k / 2); ++p) {
    sum += g.A[i / g.n * g.lda + p] * g.B[p * g.ldb + i % g.n];
  }
  SUMS[half * g.m * g.n + i] = sum;
}
__global__ void add(Gemm g, float* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < g.m * g.n) store_result(g, i / g.n, i % g.n, SUMS[i] + SUMS[g.m * g.n + i]);
}
size_t needed(const Gemm& g) { return 8ull * g.m * g.n; }
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  float* sums = static_cast<float*>(workspace);
  unsigned blocks = (static_cast<int64_t>(g.m) * g.n + 255) / 256;
  FIRST
  cudaError_t error = launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums);
  if (error != cudaSuccess) return error;
  BETWEEN
  return launch(add, dim3(blocks), dim3(256), 0, stream, g, sums);
}
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""
PLACES = {"STATIC": "", "SUMS": "sums", "FIRST": "", "BETWEEN": ""}
OWN_SGEMM = """extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B,
                     int64_t ldb, float beta, float* C, int64_t ldc, void* workspace, size_t* bytes,
                     cudaStream_t stream) {
  Gemm g{m, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
  if (bytes) { QUERY }
  REFUSED
  if (m == 0 || n == 0) return cudaSuccess;
  if (k == 0 || alpha == 0) return launch(scale_kernel, dim3((m * n + 255) / 256), dim3(256), 0, stream, g);
  return run(g, workspace, stream);
}
"""
REFUSED = (
    "if (m < 0 || n < 0 || k < 0 || lda < std::max(1, k) || ldb < std::max(1, n) || ldc < std::max(1, n)) return 1;"
)


def emulated(tmp_path, text: str, **places: str) -> tuple[str, str]:
    """The status and the message of a source in which the places are filled."""
    for name, filled in {**PLACES, **places}.items():
        text = text.replace(name, filled)
    source = tmp_path / "rung.cu"
    source.write_text(text)
    rung = replace(NAIVE, source=os.path.relpath(source, ROOT / "kernels"), macros={}, tuned=())
    record = emulate_source(rung, CASES, 1, 60, tmp_path / "log", compiled_engine())
    return record["status"], record["message"]


def with_sgemm(query: str = "*bytes = needed(g); return 0;", refused: str = REFUSED) -> str:
    own = OWN_SGEMM.replace("QUERY", query).replace("REFUSED", refused)
    return SOURCE.replace("EXPORT_SGEMM_WITH_WORKSPACE(run, needed)\n", own)


FORK = """static cudaStream_t beside; static cudaEvent_t begun, done;
  if (!beside) { cudaStreamCreate(&beside); cudaEventCreate(&begun); cudaEventCreate(&done); }
  cudaEventRecord(begun, stream); cudaStreamWaitEvent(beside, begun);
  cudaMemsetAsync(sums, 0, 4, beside);
"""
SMS = "int sms = 0; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);"
SMS_ONCE = "static int sms; static cudaError_t asked = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);"
MEMSET = "cudaMemsetAsync(sums, 0, 4, stream)"
CALL = "although call number {} of the CUDA runtime"
TOLD = "if (launch_observer) launch_observer(reinterpret_cast<const void*>(add), dim3(1), dim3(1), 0);"
MANY_LAUNCHES = """for (int i = 0; g.m == 4095 && i < 70; ++i) {
    if (auto e = launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums)) return e;
  }"""
IN_ANOTHER_ORDER = """if (launch_observer) {
    launch(add, dim3(blocks), dim3(256), 0, stream, g, sums);
    return launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums);
  }"""
RESIDENT = """int device, sms = 1, held = 3;
  if (launch_observer) {
    sms = observed_sms;
  } else {
    cudaGetDevice(&device);
    if (auto e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) return e;
    if (auto e = OCCUPANCY) return e;
  }
  blocks = blocks < 500 ? 500 + sms * held : blocks;"""
ASKED = "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held, add, 256, 0)"
JOIN = "cudaEventRecord(done, beside); cudaStreamWaitEvent(stream, done);"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (SOURCE, {}),
        (with_sgemm(), {}),
        (SOURCE, {"FIRST": f"{FORK}{JOIN}"}),
        (SOURCE, {"FIRST": f"{SMS} if (sms == 0) sms = 1; blocks += sms;"}),
        (SOURCE, {"FIRST": f"{SMS_ONCE} if (asked) return asked;"}),
        (SOURCE, {"FIRST": "cudaError_t memset = cudaMemsetAsync(sums, 0, 4, stream); if (memset) return memset;"}),
        (SOURCE, {"FIRST": MANY_LAUNCHES}),
        (SOURCE, {"FIRST": IN_ANOTHER_ORDER}),
        (SOURCE, {"FIRST": RESIDENT.replace("OCCUPANCY", ASKED)}),
        (SOURCE, {"BETWEEN": "if (auto e = cudaGetDevice(&device)) return e;", "FIRST": "int device;"}),
        (
            SOURCE.replace("8ull * g.m * g.n;", "8ull * g.m * g.n + 2;"),
            {"FIRST": "if (auto e = cudaMemsetAsync(sums + 2ll * g.m * g.n, 0, 2, stream)) return e;"},
        ),
    ],
    ids=[
        "partial sums",
        "own arguments' check",
        "fork and join by events",
        "an error that does not matter",
        "an error of the first call that is told again",
        "memset",
        "more launches than the emulator remembers",
        "launches that are told in another order",
        "grids of as many blocks as an SM holds, which nobody knows where launches are observed",
        "an error where there is no driver",
        "workspace of no whole words",
    ],
)
def test_a_sound_host_function_passes_every_probe(tmp_path, text, places):
    if "beside" in places.get("FIRST", ""):
        places = {"FIRST": places["FIRST"].replace("cudaMemsetAsync(sums, 0, 4, beside);", "CHECKED")}
        places["FIRST"] = places["FIRST"].replace(
            "CHECKED", "if (auto e = cudaMemsetAsync(sums, 0, 4, beside)) return e;"
        )
    assert emulated(tmp_path, text, **places) == ("emulated", "")


STATIC_SUMS = "__device__ float kept[2 * 130 * 132];"


def test_a_rung_that_keeps_data_in_device_variables_passes_as_one_for_one_stream_at_a_time(tmp_path, monkeypatch):
    # Its array is as large as the other cases need.
    monkeypatch.setitem(globals(), "CASES", [case for case in CASES if case.probe != LARGE_WORKSPACE])
    found = emulated(tmp_path, SOURCE, STATIC=STATIC_SUMS, SUMS="kept")
    assert found == ("emulated", "not for two streams at once: its kernels write the __device__ variable kept")


# A copy of g goes from the host to a variable, and so to both products.
G_OF_COPY = "const Gemm& g = *reinterpret_cast<const Gemm*>(copied);"
COPIED = {
    "STATIC": "__constant__ char copied[sizeof(Gemm)];",
    "BETWEEN": """static Gemm all[64];
  static int turn;
  Gemm& own = all[turn++ % 64] = g;
  if (auto e = cudaMemcpyToSymbolAsync(copied, &own, sizeof g, 0, cudaMemcpyHostToDevice, stream)) return e;""",
}


@pytest.mark.parametrize(
    ("text", "places", "message"),
    [
        (with_sgemm(refused=""), {}, "probe refusals: m = -1"),
        (with_sgemm(refused="if (m < 0 || n < 0 || k < 0) return 1;"), {}, "probe refusals: lda = k - 1"),
        (with_sgemm(refused=REFUSED.replace("return 1", "return 9")), {}, "instead of cudaErrorInvalidValue"),
        (
            with_sgemm(query="*bytes = needed(g); launch(add, dim3(1), dim3(1), 0, stream, g, g.C); return 0;"),
            {},
            "query",
        ),
        (with_sgemm(query="*bytes = 8 * m * n; return 0;"), {}, "; asked for the workspace of 70001x70003x70005"),
        (SOURCE, {"FIRST": f"if (g.k > 1024 && {MEMSET}) return cudaSuccess;"}, CALL.format(1) + " (a memset)"),
        (SOURCE, {"FIRST": f"{SMS} if (sms == 0) return cudaSuccess;"}, CALL.format(1) + " (cudaDeviceGetAttribute)"),
        (
            SOURCE,
            {"FIRST": f"{SMS_ONCE} if (sms == 0) return cudaSuccess;"},
            "for the first product of a process although in the first one call number 1 of the CUDA runtime",
        ),
        (
            SOURCE,
            {"FIRST": f"{SMS_ONCE} auto e = asked; asked = cudaSuccess; if (sms == 0) return e;"},
            "for the second product of a process although in the first one call number 1 of the CUDA runtime",
        ),
        (SOURCE, {"FIRST": "if (auto e = cudaPeekAtLastError()) return e;"}, "returned the error of an earlier call"),
        (with_sgemm(query="static size_t most; *bytes = needed(g) + (most += 256); return 0;"), {}, "the workspace"),
        (
            SOURCE.replace("if (error != cudaSuccess) return error;", "(void)error;"),
            {},
            CALL.format(1) + " (a launch of halves), at alpha = 1.5, failed",
        ),
        (
            SOURCE.replace("return launch(add", "launch(add").replace(
                "sums);\n}\nEXPORT", "sums);\n  return cudaSuccess;\n}\nEXPORT"
            ),
            {},
            CALL.format(2),
        ),
        (with_sgemm(query="*bytes = k == 0 || alpha == 0 ? 0 : needed(g); return 0;"), {}, "integer overflow in *"),
        (with_sgemm(refused=REFUSED.replace("ldb <", "int(ldb) <")), {}, "with leading dimensions of 4294967297"),
        (with_sgemm(refused=REFUSED.replace("std::max(1, n)", "n")), {}, "ldb = 0 with n = 0"),
        (
            SOURCE,
            {"FIRST": RESIDENT.replace("OCCUPANCY", "(held = 8, cudaSuccess)")},
            "observer is told of (5",
        ),
        (SOURCE, {"FIRST": TOLD}, "launch_observer is told of (1, 1, 1) blocks of (1, 1, 1) with 0 bytes and "),
        (SOURCE, {"FIRST": f"if (launch_observer) {{ {TOLD} return cudaErrorUnknown; }}"}, "launches were observed"),
        (
            SOURCE,
            {
                "FIRST": "int device; bool none = launch_observer && cudaGetDevice(&device);",
                "BETWEEN": "if (none) return launch(halves, dim3(blocks), dim3(256), 0, stream, g, sums);",
            },
            " where there is no driver, and ",
        ),
        (
            SOURCE,
            {"FIRST": "if (launch_observer && g.m == 4095) blocks += 1;"},
            "4095x4097x4099, probe queued only: launch_observer is told of ",
        ),
        (
            SOURCE.replace("return launch(add", "error = launch(add").replace(
                "sums);\n}\nEXPORT", "sums);\n  return g.n == 3 ? cudaSuccess : error;\n}\nEXPORT"
            ),
            {},
            "70x3x100, alpha 1.5, beta 0.5, probe errors: ",
        ),
        (
            SOURCE,
            {
                "FIRST": "if (g.m == 2030) { launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums);"
                " return cudaSuccess; }"
            },
            "2030x2040x2052, SMs 66, probe errors: sgemm returned cudaSuccess and queued 0 of 1 kernels after ",
        ),
        (
            SOURCE,
            {
                "FIRST": "if (g.m == 1370) { launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums);"
                " return cudaSuccess; }"
            },
            "1370x1358x579, SMs 1, probe errors: sgemm returned cudaSuccess and queued 0 of 1 kernels after ",
        ),
        (SOURCE, {"FIRST": "if (g.A[0] > 2) return cudaSuccess;"}, "reads A, which is in the memory of the GPU"),
        (
            SOURCE,
            {"BETWEEN": "static const float* last; bool same = last == g.B; last = g.B; if (same) return cudaSuccess;"},
            "",
        ),
        (SOURCE.replace("add(Gemm g, float* sums) {", f"add(Gemm, float* sums) {{ {G_OF_COPY}"), COPIED, "two at once"),
        (SOURCE, {"FIRST": FORK}, "stream: "),
        (
            SOURCE,
            {"FIRST": "if (auto e = cudaMemsetAsync(sums, 0, 4)) return e;"},
            "stream: host code queues a memset on another stream than it was given",
        ),
        (SOURCE, {"FIRST": "cudaMemsetAsync(sums, 0, needed(g) + 4, stream);"}, "out of bounds: host code fills"),
        (
            SOURCE,
            {"FIRST": "static int m, k; if (m == g.m) const_cast<int&>(g.k) = k; m = g.m; k = g.k;"},
            "probe other arguments: after other calls in the same memory, with a ",
        ),
        (
            SOURCE,
            {"FIRST": "static const int first = g.k; if (first == 36 && g.beta == 0) return cudaSuccess;"},
            "probe other arguments: after other calls in the same memory, with beta = 0",
        ),
        (
            SOURCE.replace("needed(const Gemm& g) { return", "needed(const Gemm& g) { queried = g.k; return"),
            {"STATIC": "int queried;", "FIRST": "if (queried > g.k) return cudaSuccess;"},
            "probe other arguments: after other calls in the same memory, with a ",
        ),
        (
            SOURCE.replace("needed(const Gemm& g) { return", "needed(const Gemm& g) { queried = g.k; return"),
            {"STATIC": "int queried;", "FIRST": "if (queried < g.k) return cudaSuccess;"},
            "probe other arguments: after other calls in the same memory, with the first call",
        ),
        (
            SOURCE,
            {
                "FIRST": "if (g.m == 65 && g.k % 4 == 0 && g.lda % 4 == 0) { static const int first = g.k;"
                " if (g.k != first) return cudaSuccess; }"
            },
            "probe other arguments: after other calls in the same memory, with a smaller k",
        ),
        (
            SOURCE,
            {
                "FIRST": "static unsigned of_A; static const float* A; auto place = reinterpret_cast<uintptr_t>(g.A);"
                " if (of_A != static_cast<unsigned>(place)) { of_A = static_cast<unsigned>(place); A = g.A; }"
                " const_cast<const float*&>(g.A) = A;"
            },
            "probe other arguments: a product of aligned matrices after the same one with all matrices 2^32 bytes ",
        ),
        (SOURCE.replace("static_cast<int64_t>(g.m) * g.n + 255", "g.m * g.n + 255"), {}, "integer overflow in *"),
        (
            SOURCE,
            {"FIRST": f"{SMS} int all = (g.m + g.n) / 64 * sms; if (all < 0) return cudaErrorUnknown;"},
            "1073741825x3x37, SMs 192, probe queued only: ",
        ),
        (
            SOURCE,
            {
                "FIRST": "if (g.k > 8 && g.m > 1 << 20) {"
                " if (auto e = launch(halves, dim3(1, g.m / 64), dim3(64), 0, stream, g, sums)) return e; }"
            },
            "1073741825x3x37, SMs 192, probe queued only: launch: ",
        ),
        *(
            (
                SOURCE,
                {
                    "FIRST": f"if (g.k > 8 && {one} && {many} > 1 << 21) {{"
                    f" if (auto e = launch(halves, dim3(1, {many} / 32), dim3(32), 0, stream, g, sums)) return e; }}"
                },
                f"{shape}, SMs 192, probe queued only: launch: ",
            )
            for one, many, shape in (
                ("g.m == 1", "g.n", "1x1073741825x37"),
                ("g.n == 1", "g.m", "1073741825x1x37"),
                ("g.m == 1", "g.k", "1x1x1073741825"),
                ("g.m == 3", "g.k", "3x5x1073741825"),
            )
        ),
        (
            SOURCE.replace("dim3(256), 0, stream, g, sums);\n  if", "dim3(256), 4 * g.k, stream, g, sums);\n  if"),
            {},
            "3x5x131073, probe queued only: ",
        ),
        (
            SOURCE.replace("8ull * g.m * g.n;", "8ull * g.m * g.n + 4;"),
            {
                "FIRST": "int k = g.k;",
                "BETWEEN": "if (auto e = cudaMemcpyAsync(sums + 2ll * g.m * g.n, &k, 4, cudaMemcpyDefault, stream))"
                " return e;",
            },
            "probe capture: capture: host code copies from the host's stack",
        ),
        (SOURCE, {"STATIC": "__device__ float kept[8];", "SUMS": "kept"}, "outside its array"),
        (
            SOURCE.replace("float sum = 0;", "float sum = 0; Last last; last.fill(i);"),
            {
                "STATIC": "struct Last { int first; float of[4]; "
                "__device__ void fill(float x) { for (int j = 0; j <= 4; ++j) of[j] = x; } };"
            },
            "index 4 outside its array",
        ),
        (
            SOURCE.replace("float sum = 0;", "float sum = kept[0]; if (i == 0) kept[0] = 0;"),
            {"STATIC": "__device__ float kept[1];"},
            "kept",
        ),
    ],
)
def test_a_fault_of_the_host_function_or_of_static_memory_is_found(tmp_path, text, places, message):
    status, found = emulated(tmp_path, text, **places)
    assert (status, message in found) == ("failed", True), found


EARLY = """
template <typename Kernel>
cudaError_t launch_early(Kernel kernel, dim3 grid, cudaStream_t stream, const Gemm& g, float* sums) {
  if (launch_observer != nullptr) return launch(kernel, grid, dim3(256), 0, stream, g, sums);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {grid, dim3(256), 0, stream, &early, 1};
  return cudaLaunchKernelEx(&config, kernel, g, sums);
}
"""


@pytest.mark.parametrize(("waits", "status"), [(True, "emulated"), (False, "failed")])
def test_a_kernel_that_is_launched_early_must_wait_for_the_call_before(tmp_path, waits, status):
    text = SOURCE.replace(
        "launch(halves, dim3(blocks, 2), dim3(256), 0, stream, g, sums)",
        "launch_early(halves, dim3(blocks, 2), stream, g, sums)",
    )
    wait = 'asm volatile("griddepcontrol.wait;" ::: "memory");\n  ' if waits else ""
    text = text.replace("float sum = 0;", f"{wait}float sum = 0;")
    found = emulated(tmp_path, text, STATIC=EARLY)
    assert found[0] == status, found
    assert ("which what was queued before this call may still write" in found[1]) == (not waits), found


# A block for each row of C.
ROWS = """#include "gemm.cuh"
__global__ void rows(Gemm g) {
  NUMBER row = blockIdx.x;
  for (int col = threadIdx.x; col < g.n; col += 32) {
    float START;
    for (int p = 0; p < g.k; ++p) sum += g.A[row * static_cast<LD>(g.lda) + p] * g.B[p * g.ldb + col];
    store_result(g, row, col, sum);
  }
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(rows, dim3(g.m), dim3(32), 0, stream, g);
}
EXPORT_SGEMM(run)
"""
IN_ROWS = {"NUMBER": "unsigned", "START": "sum = 0", "LD": "int64_t"}
BY_ROWS = [Case(Shape(131073, 2, 3), blocks=64), asked("33x35x5", beta=0.5), Case(Shape(3, 12, 4), padding=1 << 32)]


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({}, ""),
        ({"NUMBER": "unsigned short"}, "131073x2x3, blocks 64: race"),
        ({"START": "sum"}, "-1.69473953e+38 at row 0"),
        ({"LD": "int"}, "3x12x4, padding 4294967296"),
    ],
    ids=["sound", "a block's number in 16 bits", "no first value", "a leading dimension in 32 bits"],
)
def test_a_number_that_is_too_short_and_what_is_not_initialised_is_found(tmp_path, monkeypatch, places, message):
    monkeypatch.setitem(globals(), "CASES", BY_ROWS)
    status, found = emulated(tmp_path, ROWS, **{**IN_ROWS, **places})
    assert (status, message in found) == ("failed" if message else "emulated", True), found


# A thread for each element of C.
ELEMENTS = """#include "gemm.cuh"
__global__ void elements(Gemm g) {
  int64_t i = BLOCK * blockDim.x + threadIdx.x, all = COUNT;
  if (i >= all) return;
  float sum = 0;
  for (int p = 0; p < g.k; ++p) sum += g.A[i / g.n * g.lda + p] * g.B[p * g.ldb + i % g.n];
  store_result(g, i / g.n, i % g.n, sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int64_t all = COUNT;
  return launch(elements, dim3((all + 255) / 256), dim3(256), 0, stream, g);
}
EXPORT_SGEMM(run)
"""
OF_ELEMENTS = {"BLOCK": "int64_t{blockIdx.x}", "COUNT": "int64_t{g.m} * g.n"}


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({}, ""),
        ({"BLOCK": "blockIdx.x"}, "65789x65284x4, alpha 1.5, beta 0.5, probe many elements: alpha = 1.5: race: "),
        (
            {"COUNT": "std::max(1u, static_cast<unsigned>(g.m) * g.n)"},
            "probe many elements: alpha = 1.5: the blocks are too few to write ",
        ),
    ],
    ids=["sound", "an element's number in 32 bits", "a number of elements in 32 bits"],
)
def test_a_number_of_elements_that_is_little_more_than_32_bits_hold_is_found(tmp_path, monkeypatch, places, message):
    monkeypatch.setitem(globals(), "CASES", [case for case in CASES if case.shape == Shape(65789, 65284, 4)])
    status, found = emulated(tmp_path, ELEMENTS, **{**OF_ELEMENTS, **places})
    assert (status, message in found) == ("failed" if message else "emulated", True), found


# Two kernels: one copies A to the workspace, the other multiplies this copy.
COPIED_FIRST = """#include "gemm.cuh"
__global__ void copy(Gemm g, float* to) {
  int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < int64_t{g.m} * g.k) to[i] = g.A[i / g.k * g.lda + i % g.k];
}
__global__ void multiply(Gemm g, const float* A) {
  Tile tile = tile_of_block(g, 8, 32);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  float sum = 0;
  for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += A[row * int64_t{g.k} + p] * g.B[p * g.ldb + col];
  if (row < g.m && col < g.n) store_result(g, row, col, sum);
}
size_t needed(const Gemm& g) { return FLOAT * g.m * g.k; }
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  float* A = static_cast<float*>(workspace);
  int64_t blocks = (int64_t{g.m} * g.k + 255) / 256;
  if (auto e = launch(copy, dim3(static_cast<unsigned>(blocks)), dim3(256), 0, stream, g, A)) return e;
  return launch(multiply, tile_grid(g, 8, 32), dim3(32, 8), 0, stream, g, A);
}
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.mark.parametrize(("of_a_float", "status"), [("sizeof(float)", "emulated"), ("4u", "failed")])
def test_an_offset_into_a_workspace_of_more_than_32_bits_is_found(tmp_path, monkeypatch, of_a_float, status):
    monkeypatch.setitem(globals(), "CASES", [CASES[0], *probes([LARGE_WORKSPACE])])
    found = emulated(tmp_path, COPIED_FIRST, FLOAT=of_a_float)
    assert found[0] == status, found
    assert found[1].startswith("2097217x68x1028, alpha 1.5, beta 0.5, probe large workspace: " if found[1] else "")


# Whole tiles of aligned rows have a kernel of their own, whose rows of A are read by vectors.
WHOLE_TILES = """#include "gemm.cuh"
template <bool WHOLE>
__global__ void multiply(Gemm g) {
  Tile tile = tile_of_block(g, 8, 32);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  if (row >= g.m || col >= g.n) return;
  float sum = 0;
  for (int p = 0; p < g.k; p += WHOLE ? 4 : 1) {
    const float* a = g.A + row * g.lda + p;
    float4 some = {a[0], 0, 0, 0};
    if (WHOLE) some = *reinterpret_cast<const float4*>(a);
    const float of_a[] = {some.x, some.y, some.z, some.w};
    for (int q = 0; q < (WHOLE ? 4 : 1); ++q) sum += of_a[q] * g.B[(p + q) * g.ldb + col];
  }
  store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  WORKSPACE
  HOW_LONG bool aligned = reinterpret_cast<uintptr_t>(g.A) % 16 == 0 && g.lda % 4 == 0;
  const bool whole = aligned && g.m % 128 == 0 && g.n % 128 == 0 && g.k % 4 == 0;
  return launch(whole ? multiply<true> : multiply<false>, tile_grid(g, 8, 32), dim3(32, 8), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize(
    ("places", "status", "message"),
    [
        ({"HOW_LONG": "const", "WORKSPACE": ""}, "emulated", ""),
        ({"HOW_LONG": "static const", "WORKSPACE": ""}, "failed", "rows of A that are not aligned: misaligned"),
        ({"HOW_LONG": "const", "WORKSPACE": "if (!workspace) return cudaErrorInvalidValue;"}, "failed", "returned"),
    ],
)
def test_whole_tiles_are_not_chosen_by_the_first_call_and_a_workspace_of_0_bytes_may_be_null(
    tmp_path, places, status, message
):
    found = emulated(tmp_path, WHOLE_TILES, **places)
    assert (found[0], message in found[1]) == (status, True), found


ON_A_GPU = {
    "sound": (SOURCE, {}, ""),
    "refuses nothing": (with_sgemm(refused=""), {}, " = -1: "),
    "waits": (SOURCE, {"BETWEEN": "cudaStreamSynchronize(stream);"}, "captured"),
    "another stream": (SOURCE, {"FIRST": "cudaMemsetAsync(g.C, 0, 4);"}, "C"),
}


@pytest.mark.gpu
@pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")
@pytest.mark.parametrize("name", ON_A_GPU)
def test_on_a_gpu_the_host_function_is_probed_too(tmp_path, nvcc, gpu_alone, name):
    text, places, message = ON_A_GPU[name]
    for place, filled in {**PLACES, **places}.items():
        text = text.replace(place, filled)
    (tmp_path / "rung.cu").write_text(text)
    here = nvml.present()
    known = gpus.recognise(here)
    rung = replace(NAIVE, source=str(tmp_path / "rung.cu"), macros={}, tuned=())
    made = build(rung, gpus.read_gpu(known) if known else gpus.from_device(here), nvcc, ["-std=c++17"], tmp_path)
    assert made["status"] == "ok", made["log"]
    device, library = CudaDevice(0), Library(Build(tmp_path).library)
    wrong = [probe_case(device, library, case, 1)["verdict"] for case in probes(PROBES)]
    assert any(message in verdict for verdict in wrong if verdict != "pass") if message else set(wrong) == {"pass"}, (
        wrong
    )


@pytest.mark.parametrize(("limit", "ends"), [(64, True), (65, False)])
def test_a_launch_is_not_waited_for_after_as_many_accesses_as_it_is_given(for_the_emulator, limit, ends):
    library, device = Library(for_the_emulator(ROOT / "kernels/sgemm/naive.cu")), EmulatedDevice(1, 30)
    A, B, C, workspace = (device.put(np.ones(64, np.float32)) for _ in range(4))
    operands = Operands(A.ctypes.data, 8, B.ctypes.data, 8, C.ctypes.data, 8)
    call = Call(Shape(8, 8, 8), 1.0, 0.0, operands, workspace, 0)
    device.begin(library, [call])
    library.functions.emulator_set_most_accesses(ctypes.c_uint64(limit))
    library.queue(call.shape, 1.0, 0.0, operands, workspace.ctypes.data, device.stream)
    found = device.found(library, call)
    assert found.endswith("has not ended after 64 accesses") if ends else not found
    assert device.stuck == ends
