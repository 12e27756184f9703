"""CUDA C++ as tutorials write it: launches, dynamic shared memory and names, rewritten for g++ and emulated."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import a_build, asked
from emulator import compiled_engine
from ladder.build.cuda_syntax import in_plain_cpp
from ladder.config.kernels import read_kernels
from ladder.measure.check.emulate import emulate_rung
from ladder.system.paths import ROOT

NAIVE = read_kernels(ROOT / "config" / "kernels.yaml")["naive"]
CASES = [asked("33x20x35"), asked("17x33x16", alpha=0.5, beta=1, padding=3)]
TUTORIALS = sorted((ROOT / "tests" / "tutorials").glob("*.cu"))


def emulated(tmp_path: Path, source: Path, cases=CASES) -> dict:
    rung = replace(NAIVE, source=os.path.relpath(source, ROOT / "kernels"))
    return emulate_rung(rung, a_build(tmp_path / "build"), cases, 1, 60, tmp_path / "log", compiled_engine())


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("k<<<g, b>>>(a);", "emulator_launch(EMULATOR_KERNEL(k), g, b)(a);"),
        ("if (x) k<<<1, 2>>>();", "if (x) emulator_launch(EMULATOR_KERNEL(k), 1, 2)();"),
        (
            "n::k<32, (1 > 2), A<B<int>>> <<<dim3(1, 2), f(x, y), 0, s>>> (a);",
            "emulator_launch(EMULATOR_KERNEL(n::k<32, (1 > 2), A<B<int>>>), dim3(1, 2), f(x, y), 0, s)(a);",
        ),
        ("T::template k<3><<<1, 2>>>(y)", "emulator_launch(EMULATOR_KERNEL(T::template k<3>), 1, 2)(y)"),
        ("return (*p)<<<1, v<int>>>>(x)", "return emulator_launch(EMULATOR_KERNEL((*p)), 1, v<int>)(x)"),
        ("x->table[i]<<<1,\n2>>>(a)", "emulator_launch(EMULATOR_KERNEL(x->table[i]), 1,\n2)(a)"),
        ("get<3>(x)<<<1, 2>>>()", "emulator_launch(EMULATOR_KERNEL(get<3>(x)), 1, 2)()"),
        (
            "#define RUN(k, ...) k##_kernel<<<g, b>>>(__VA_ARGS__)\n",
            "#define RUN(k, ...) emulator_launch(EMULATOR_KERNEL(k##_kernel), g, b)(__VA_ARGS__)\n",
        ),
        ("// k<<<1, 2>>>()", "// k<<<1, 2>>>()"),
        ('"k<<<1, 2>>>()" /* k<<<1, 2>>>() */', '"k<<<1, 2>>>()" /* k<<<1, 2>>>() */'),
        ("operator<<<int>(x); cout << a<b>>>(c);", "operator<<<int>(x); cout << a<b>>>(c);"),
        (
            "void f() { extern __shared__ __align__(16) float s[]; }",
            "void f() { struct EmulatorAligned_s_5 { __align__ ( 16 ) float s [1 ]; };  float (&s)[] = "
            "emulator_extern_shared<float[], EmulatorAligned_s_5>(); }",
        ),
        (
            "void f() { __shared__ extern alignas(alignof(T)) volatile T s[][32]; }",
            "void f() { struct EmulatorAligned_s_5 { alignas ( alignof ( T ) ) volatile T s [1 ] [ 32 ]; }; "
            "volatile T (&s)[][32] = emulator_extern_shared<volatile T[][32], EmulatorAligned_s_5>(); }",
        ),
        (
            'extern "C" { extern __shared__ float s[];\nvoid f() { s[0] = a.s; } }',
            'extern "C" { struct EmulatorAligned_s_3 { float s [1 ]; };\nvoid f() '
            "{ (emulator_extern_shared<float[], EmulatorAligned_s_3>())[0] = a.s; } }",
        ),
        (
            'extern "C" __global__ void k() { __shared__ float s[32]; }',
            'extern "C" __global__ void k() { __shared__ float s[32]; }',
        ),
        ("cudaLaunchKernel((const void *)k, g, b, a);", "cudaLaunchKernel(k, g, b, a);"),
        (
            "cudaLaunchCooperativeKernel(reinterpret_cast<void*>(k<1>), g, b, a);",
            "cudaLaunchCooperativeKernel((k<1>), g, b, a);",
        ),
        ("cudaLaunchKernel((f)(x), g, b, a);", "cudaLaunchKernel((f)(x), g, b, a);"),
        (
            "__global__ void __launch_bounds__(f(T) * 2, 1) k(int a) {}",
            "__global__ void __launch_bounds__(f(T) * 2, 1) k(int a) { emulator::require_threads(f(T) * 2, 1);}",
        ),
        ("__global__ void __launch_bounds__(64) k(int a);", "__global__ void __launch_bounds__(64) k(int a);"),
        (
            "void f() { dim3 gridDim(1), blockDim(2); k<<<gridDim, blockDim>>>(); } int x = gridDim.x;",
            "void f() { dim3 host_gridDim(1), host_blockDim(2); "
            "emulator_launch(EMULATOR_KERNEL(k), host_gridDim, host_blockDim)(); } int x = gridDim.x;",
        ),
        (
            "void f(dim3 blockDim) { blockDim.x; } int x = blockDim.x;",
            "void f(dim3 host_blockDim) { host_blockDim.x; } int x = blockDim.x;",
        ),
    ],
)
def test_what_is_no_cpp_is_rewritten_where_it_stands(text, rewritten):
    found = in_plain_cpp(text, "a.cu").removeprefix('#line 1 "a.cu"\n')
    assert "".join(found.split()) == "".join(rewritten.split())
    assert found.count("\n") == text.count("\n")


def test_a_text_without_anything_of_the_kind_stays_as_it_is():
    for path in (ROOT / "kernels/sgemm").glob("*.cu"):
        text = path.read_text().replace("__launch_bounds__", "__bounds__")
        assert in_plain_cpp(text, "a.cu") == text


@pytest.mark.parametrize("source", TUTORIALS, ids=lambda path: path.stem)
def test_a_kernel_as_tutorials_write_it_passes_in_the_emulator(tmp_path, source):
    record = emulated(tmp_path, source)
    assert (record["status"], len(record["cases"])) == ("emulated", len(CASES)), record


DYNAMIC = (ROOT / "tests/tutorials/dynamic_shared_memory.cu").read_text()


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("    __syncthreads();\n  }", "  }", "race: sgemm_dyn<float> block"),
        (", stream, g, tile", ", nullptr, g, tile", "name the stream as the fourth argument"),
        ("2 * tile * tile * sizeof(float)", "tile * sizeof(float)", "dynamic shared memory"),
        ("2 * tile * tile * sizeof(float)", "60000", "cudaFuncSetAttribute"),
        ("return cudaGetLastError", "cudaDeviceSynchronize();\n  return cudaGetLastError", "waits (cudaDevice"),
    ],
)
def test_a_fault_of_such_a_kernel_is_found(tmp_path, old, new, finding):
    assert old in DYNAMIC
    source = tmp_path / "rung.cu"
    source.write_text(DYNAMIC.replace(old, new))
    record = emulated(tmp_path, source)
    assert (record["status"], finding in record["message"]) == ("failed", True), record["message"]


# A kernel with memory of both kinds, launched with more than 48 KiB in all.
LIMITS = """#include "gemm.cuh"
template <int N>
__global__ void __launch_bounds__(BOUNDS) multiply(Gemm g) {
  __shared__ float own[OWN];
  extern __shared__ float s[];
  own[threadIdx.x] = s[threadIdx.x] = N;
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= g.m * g.n) return;
  for (int p = 0; p < g.k; ++p) own[threadIdx.x] += g.A[i / g.n * g.lda + p] * g.B[p * g.ldb + i % g.n];
  g.C[i / g.n * g.ldc + i % g.n] = own[threadIdx.x] + s[threadIdx.x];
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  constexpr auto MOST = cudaFuncAttributeMaxDynamicSharedMemorySize;
  if (cudaError_t error = cudaFuncSetAttribute(multiply<ASKED>, MOST, BYTES)) return error;
  multiply<0><<<(g.m * g.n + 63) / 64, 64, BYTES, stream>>>(g);
  return cudaGetLastError();
}
EXPORT_SGEMM(run)
"""
SOUND = {"BOUNDS": "64", "OWN": "64", "ASKED": "0", "BYTES": "(60 << 10)"}


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({}, ""),
        ({"BOUNDS": "32"}, "launch: multiply<0> block (0,0,0) thread"),
        ({"BOUNDS": "32, 2"}, "is launched with 64 threads in a block, and its __launch_bounds__ are 32"),
        ({"ASKED": "1"}, "launch: multiply<0> asks for more than 48 KiB of shared memory"),
        ({"OWN": "64 << 8"}, "launch: multiply<0> has 65536 bytes of __shared__ arrays"),
        (
            {"OWN": "2048", "BYTES": "(220 << 10)"},
            "launch: multiply<0> 233472 bytes of shared memory are more",
        ),
    ],
    ids=str,
)
def test_a_launch_within_the_limits_of_its_kernel_passes_and_another_is_a_finding(tmp_path, changed, finding):
    text = LIMITS
    for name, value in {**SOUND, **changed}.items():
        text = text.replace(name, value)
    source = tmp_path / "rung.cu"
    source.write_text(text)
    record = emulated(tmp_path, source, [asked("5x7x3")])
    assert (record["status"], finding in record["message"]) == ("failed" if finding else "emulated", True), record


@pytest.mark.parametrize(
    ("added", "named", "line"),
    [
        ('asm volatile("tex.1d.v4.f32.s32 {%0, %0, %0, %0}, [a, {%0}];" : "+f"(x));', "tex.1d.v4.f32.s32", 4),
        ('asm volatile("add.s32 %0, %0, %lane;" : "+r"(x));', "%lane", 4),
        ("cooperative_groups::inclusive_scan(1);", "inclusive_scan", 4),
        ("cudaGraphLaunch(0, 0);", "cudaGraphLaunch", 4),
        ("}\n#include <curand_kernel.h>\nvoid g() {", "curand_kernel.h", 5),
    ],
)
def test_what_cannot_run_is_named_with_its_line_and_what_to_write_instead(tmp_path, added, named, line):
    source = tmp_path / "rung.cu"
    head = '#include "gemm.cuh"\n#include <cooperative_groups.h>\n'
    source.write_text(f"{head}void f() {{\n{added}\n}}\nEXPORT_SGEMM(nullptr)\n")
    record = emulated(tmp_path, source)
    assert record["status"] == "needs a GPU"
    assert record["message"].startswith(f"{source}:{line}:"), record["message"]
    assert all(word in record["message"] for word in (named, "or check it on a GPU"))


def test_a_launch_in_a_header_of_ones_own_is_rewritten_too(tmp_path):
    (tmp_path / "parts").mkdir()
    head, body = DYNAMIC.split("cudaError_t run", 1)
    (tmp_path / "parts/kernel.cuh").write_text(head)
    (tmp_path / "rung.cu").write_text(f'#include "parts/kernel.cuh"\ncudaError_t run{body}')
    assert emulated(tmp_path, tmp_path / "rung.cu")["status"] == "emulated"
