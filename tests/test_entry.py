"""A source that cannot be called as a rung is told before it is compiled, with what to write."""

from dataclasses import replace

import pytest
from conftest import write
from ladder.build.entry import PARAMETERS, why_no_entry
from ladder.config.kernels import read_kernels
from ladder.system.paths import ROOT

LADDER = read_kernels(ROOT / "config" / "kernels.yaml")
KERNEL = "__global__ void k(float* C) { *C = 0; }\n"
CONTRACT = (
    "int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb, float beta, float* C, "
    "int64_t ldc, void* workspace, size_t* workspace_bytes, cudaStream_t stream"
)
NOTHING = "it has no sgemm that can be called; end the file with EXPORT_SGEMM(run)"


def why(tmp_path, text, **changes):
    source = write(tmp_path / "own.cu", text)
    return why_no_entry(replace(LADDER["naive"], source=str(source), **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", NOTHING),
        ("// EXPORT_SGEMM(run) comes later\n", NOTHING),
        ('#include "gemm.cuh"\n', NOTHING),
        (f"{KERNEL}int main() {{ k<<<1, 1>>>(0); }}\n", NOTHING),
        ('extern "C" void sgemm(int n, float* C) {}\n', "its sgemm takes 2 parameters, and that of"),
        (f'extern "C" int sgemm({CONTRACT}, int more) {{ return 0; }}\n', "its sgemm takes 15 parameters"),
        (f'extern "C" int sgemm({CONTRACT}) {{ return 0; }}\n', ""),
        (f"{KERNEL}EXPORT_SGEMM(run)\n", ""),
        ("EXPORT_SGEMM_WITH_WORKSPACE(run, bytes)\n", ""),
        ("#define ENTRY EXPORT_SGEMM(run)\nENTRY\n", ""),
        ("#define CALL(f) f(sgemm)\nCALL(DEFINE)\n", ""),
    ],
)
def test_a_source_without_the_contracts_function_says_what_to_write(tmp_path, text, message):
    told = why(tmp_path, text)
    assert told.startswith(message)
    assert bool(told) == bool(message)
    assert not told or ("EXPORT_SGEMM(run)" in told and "`wrap`" in told)


def test_an_entry_may_stand_in_a_header(tmp_path):
    write(tmp_path / "entry.cuh", "EXPORT_SGEMM(run)\n")
    assert why(tmp_path, '#include "entry.cuh"\n') == ""


def test_a_wrapped_source_has_no_entry_of_its_own(tmp_path):
    wrap = {"kernel": "k", "arguments": ["C"], "grid": [1], "block": [1]}
    assert why(tmp_path, KERNEL, wrap=wrap) == ""
    assert "leave `wrap` out" in why(tmp_path, f"{KERNEL}EXPORT_SGEMM(run)\n", wrap=wrap)


def test_the_contract_has_as_many_parameters_as_are_counted():
    text = (ROOT / "kernels/include/gemm.cuh").read_text()
    assert CONTRACT.count(",") + 1 == PARAMETERS
    assert "".join(CONTRACT.split()) in "".join(text.replace("\\", "").split())


@pytest.mark.parametrize("rung", [rung for rung in LADDER.values() if rung.language == "cuda"], ids=lambda r: r.name)
def test_every_rung_of_ours_has_one(rung):
    assert why_no_entry(rung) == ""
