"""The check without a GPU: sound rungs are emulated, wrong ones fail in one line, others are said to need a GPU."""

import math
import os
import resource
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from conftest import a_build, a_rung, asked, line_of, write
from emulator import compiled_engine
from ladder.build import emulator
from ladder.build.library import Library, operands_at
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.plan import plan
from ladder.config.tuned_file import with_tuned
from ladder.measure import devices
from ladder.measure.check.emulate import emulate_rung, emulate_source
from ladder.measure.check.stage import Answers
from ladder.measure.check.worker import check_case
from ladder.measure.devices import EmulatedDevice
from ladder.measure.inputs import FAMILIES
from ladder.model.cases import (
    EMULATED_ALONE,
    EMULATED_FEW,
    EMULATED_PROBES,
    OF_WHOLE_TILES,
    WIDE,
    Case,
    emulated_cases,
    emulated_runs,
    probes,
)
from ladder.model.rung import Rung, TunedClass, variant_name
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.system.process import Outcome
from products import families_for

LADDER = read_kernels(ROOT / "config" / "kernels.yaml")
CASES = [
    *(asked("33x35x65", family=family) for family in FAMILIES),
    asked("17x5x9", alpha=-1.25, beta=0.75, padding=3, offset=1, family="nonfinite"),
    asked("64", beta=1),
    asked("33x36x612", sms=1, family="wide_range"),
    asked("33x35x613", sms=1, family="nonfinite"),
    asked("5x6x0"),
]


def emulated(tmp_path: Path, source: str | Path, cases=CASES, **changes) -> dict:
    """The record of a source, below the checkout or anywhere, as naive's would be."""
    rung = replace(LADDER["naive"], source=os.path.relpath(ROOT / source, ROOT / "kernels"), **changes)
    return emulate_rung(rung, a_build(tmp_path / "naive"), cases, 2, 60, tmp_path / "log", compiled_engine())


def as_built() -> list[Rung]:
    """Every rung with the macros of each class of products that a tuned file has for it; with its own, where none has.

    Those that tuning did not choose are tried in tests/test_emulator.py and tests/test_properties.py.
    """
    found = []
    tuned = [with_tuned(LADDER, path) for path in sorted((ROOT / "config/tuned").glob("*.yaml"))] or [LADDER]
    for rung in (rung for ladder in tuned for rung in ladder.values() if rung.role == "rung"):
        choices = [{**rung.macros, **each.macros} for each in rung.tuned] or [rung.macros]
        found += [replace(rung, macros=macros, tuned=()) for macros in choices]
    return list({(rung.name, *rung.macros.items()): rung for rung in found}.values())


@pytest.mark.parametrize("rung", as_built(), ids=lambda rung: variant_name(rung.name.split("@")[0], rung.macros))
def test_every_rung_of_the_ladder_passes_as_it_is_built(tmp_path, rung):
    cases = [case for case in CASES if case.family in families_for(rung.precision)]
    record = emulate_rung(rung, a_build(tmp_path / "build"), cases, 2, 60, tmp_path / "log", compiled_engine())
    assert (record["status"], len(record["cases"])) == ("emulated", len(cases)), record


def test_a_launch_of_many_tiles_and_few_steps_is_waited_for_as_one_of_whole_tiles():
    def patience_s(*sides: int) -> float:
        operands, workspace = operands_at((0, 0, 0), Shape(*sides)), np.zeros(1, np.uint32)
        return devices._patience_s(devices.Call(Shape(*sides), 1, 0, operands, workspace, 0))

    least = patience_s(1790, 1150, 1)
    assert least > 60
    assert patience_s(1790, 1150, 16) == pytest.approx(least, rel=1e-3)
    assert patience_s(1790, 1150, 32) > 1.8 * least
    assert patience_s(1, 1, 1) < 5.1


def test_a_library_needs_a_gpu_and_no_compiler_says_so(tmp_path):
    rung = LADDER["cublas"]
    record = emulate_rung(rung, a_build(tmp_path / "build"), CASES, 2, 60, tmp_path / "log", tmp_path / "no engine")
    assert record["status"] == "needs a GPU"
    assert "error" not in record["message"]


@pytest.mark.parametrize(("shape", "status"), [("33x35x65", "emulated"), ("64", "needs a GPU")])
def test_what_is_built_for_larger_products_than_the_cases_is_not_compiled_for_the_emulator(tmp_path, shape, status):
    border = 2.0 * 50**3
    classes = (TunedClass(border, {"TILE": "8"}), TunedClass(float("inf"), {"TILE": "NOT_COMPILED"}))
    rung = replace(LADDER["tiled@TILE=8"], macros={}, tuned=classes)
    cases = [asked("33x35x65"), asked(shape)]
    record = emulate_rung(rung, a_build(tmp_path / "tiled"), cases, 2, 60, tmp_path / "log", compiled_engine())
    assert record["status"] == status, record


def test_a_library_needs_a_gpu(tmp_path):
    assert emulated(tmp_path, LADDER["cublas"].source.join(["kernels/", ""]))["status"] == "needs a GPU"


def test_an_argument_of_more_than_512_bytes_arrives_whole(tmp_path):
    for n in range(32, 36):  # the ways to start it
        record = emulated(tmp_path, "tests/kernels/large_argument.cu", [asked(f"33x{n}x9")])
        assert record["status"] == "emulated", (n, record)


def test_matrices_that_are_copied_to_the_workspace_first_give_the_same_product(tmp_path):
    wide = asked("9x515x21", alpha=0.5, beta=1, padding=2, offset=1)
    deep = asked("3x17x1030", padding=1, offset=3)
    record = emulated(tmp_path, "tests/kernels/copied_first.cu", [*CASES, wide, deep])
    assert (record["status"], len(record["cases"])) == ("emulated", len(CASES) + 2), record


@pytest.mark.parametrize(("begin", "end"), [('extern "C" ', ""), ("static ", ""), ("namespace {\n", "}\n")])
def test_dynamic_shared_memory_is_behind_the_arrays_of_a_kernel_that_the_library_does_not_export(tmp_path, begin, end):
    text = (ROOT / "tests/kernels/dynamic_alignment.cu").read_text()
    text = text.replace('extern "C" ', begin).replace("cudaError_t run", f"{end}cudaError_t run")
    (tmp_path / "rung.cu").write_text(text)
    record = emulated(tmp_path, tmp_path / "rung.cu", [asked("5x7x9")])
    assert record["status"] == "emulated", record["message"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing_first_barrier", "uninitialised read: "),
        ("beta_ignored", "beta 1: "),
        ("c_read_at_beta_zero", "C"),
        ("one_input_in_tf32", "error"),
        ("bf16_inputs", "error"),
        ("float_atomics", "nondeterminism: "),
        ("last_tile_of_k_skipped", "error"),
    ],
)
def test_a_wrong_rung_fails_in_one_line(tmp_path, source_of, fault, message):
    record = emulated(tmp_path, source_of(fault), [*CASES, asked("20x20x1024")])
    assert record["status"] == "failed"
    assert message in record["message"]
    assert "\n" not in record["message"]


def test_a_rung_that_does_not_end_is_tried_once(tmp_path):
    rung = replace(LADDER["naive"], source="../tests/kernels/endless.cu")
    cases = [asked(str(size), beta=1) for size in range(5, 9)]
    record = emulate_rung(rung, a_build(tmp_path / "naive"), cases, 2, 60, tmp_path / "log", compiled_engine())
    assert record["status"] == "not emulated", record["message"]
    assert "has not ended after 5" in record["message"]
    assert len(record["cases"]) == 2, "each of two threads tries one case"


PASSES, TIMES_OUT, RACES = "pass", "timeout: k has not ended after 5 s", "race: k"
STOPPED = Outcome("failed", "no progress for 9 s; stopped", overdue=True)


@pytest.mark.parametrize(
    ("verdicts", "outcome", "told"),
    [
        ([PASSES, PASSES], Outcome("ok", ""), ""),
        ([PASSES, TIMES_OUT], Outcome("ok", ""), "8x8x8: not finished: k has not ended after 5 s"),
        ([RACES, TIMES_OUT], Outcome("ok", ""), ""),
        ([RACES], STOPPED, ""),
        ([PASSES], STOPPED, "8x8x8: not finished: no progress for 9 s; stopped"),
        ([], STOPPED, "8x8x8: not finished: no progress for 9 s; stopped"),
        ([PASSES], Outcome("failed", "crashed"), ""),
    ],
)
def test_what_was_not_waited_for_is_told_and_is_wrong_only_with_another_finding(verdicts, outcome, told):
    cases = [asked("7"), asked("8")]
    records = [{**case.as_record(), "verdict": each} for case, each in zip(cases, verdicts, strict=False)]
    found = Answers(cases, records, current=cases[1], outcome=outcome).unfinished()
    assert found.partition("; 1 of")[0].partition("; 0 of")[0] == told


def test_of_wrong_cases_one_of_finite_numbers_is_told_first():
    infinite = [asked("7", family="nonfinite"), asked("8", alpha=math.inf), asked("9", beta=math.nan)]
    for last, told in ((asked("10"), "10x10x10: 1 at row 0"), (asked("11", family="nonfinite"), "7x7x7, inputs nonf")):
        cases = [*infinite, last]
        records = [{**case.as_record(), "verdict": "not the nan that belongs at row 0"} for case in infinite]
        records.append({**last.as_record(), "verdict": "1 at row 0, instead of 2"})
        status, message = Answers(cases, records, outcome=Outcome("ok", "")).verdict("a rung")
        assert status == "failed"
        assert message.startswith(told)
        races = [{**cases[0].as_record(), "verdict": "race: two threads"}, *records[1:]]
        assert Answers(cases, races, outcome=Outcome("ok", "")).verdict("a rung")[1].startswith("7x7x7, inputs nonf")


@pytest.mark.parametrize(("fault", "found"), [("missing_first_barrier", 2), ("last_tile_of_k_skipped", 4)])
def test_the_first_finding_ends_the_check_where_that_is_asked_for_and_wrong_values_do_not(
    tmp_path, source_of, fault, found
):
    rung = replace(LADDER["naive"], source=os.path.relpath(source_of(fault), ROOT / "kernels"))
    cases = [asked("33x35x65", beta=beta) for beta in range(4)]
    record = emulate_source(rung, cases, 2, 60, tmp_path / "log", compiled_engine(), first_only=True)
    assert record["status"] == "failed"
    assert len(record["cases"]) == found


def test_each_case_is_told_as_it_begins(tmp_path):
    told = []
    arguments = LADDER["naive"], [asked("2"), asked("16")], 1, 60, tmp_path / "log", compiled_engine()
    emulate_source(*arguments, lambda done, case: told.append((done, str(case.shape))))
    assert told == [(0, "2"), (1, "16")]


def test_a_rung_that_declares_that_its_sums_change_order_is_not_blamed_for_it(tmp_path, source_of):
    cases = [asked("20x20x1024")]
    assert emulated(tmp_path, source_of("float_atomics"), cases, deterministic=False)["status"] == "emulated"


def test_the_same_sources_give_the_same_record(tmp_path):
    first, second = (emulated(tmp_path, "kernels/sgemm/naive.cu") for _ in range(2))
    assert first == second


def test_without_a_compiler_nothing_is_emulated_and_nothing_passes(tmp_path, monkeypatch):
    compiled_engine()  # while there is one
    monkeypatch.setenv("PATH", str(tmp_path))
    record = emulated(tmp_path, "kernels/sgemm/naive.cu")
    assert record == {
        **{"status": "not emulated", "message": "the emulator needs g++ 12 or newer; there is none"},
        "cases": [],
    }


def test_a_rung_that_did_not_compile_is_not_emulated(tmp_path):
    made = a_build(tmp_path / "naive", status="failed", message="a.cu(3): error")
    record = emulate_rung(a_rung(), made, CASES, 1, 60, tmp_path / "log")
    assert record == {"status": "failed", "message": "a.cu(3): error", "cases": []}


@pytest.mark.parametrize(("registers", "status"), [(64, "emulated"), (65, "failed")])
def test_a_launch_that_asks_for_more_registers_than_an_sm_has_fails(tmp_path, registers, status):
    source = (ROOT / "kernels/sgemm/naive.cu").read_text().replace("__launch_bounds__(BM* BN)", "")
    (tmp_path / "naive.cu").write_text(source)
    rung = replace(LADDER["naive"], source=os.path.relpath(tmp_path / "naive.cu", ROOT / "kernels"))
    rung = replace(rung, macros={"BM": "32", "BN": "32"})
    log = f"Compiling entry function '_Z11sgemm_naive4Gemm' for 'sm_90a'\nUsed {registers} registers\n"
    made = a_build(tmp_path / "build", log=log)
    record = emulate_rung(rung, made, CASES[:2], 1, 60, tmp_path / "log", compiled_engine())
    assert (record["status"], "sgemm_naive is launched with 1024" in record["message"]) == (status, status == "failed")
    assert "blocks" not in record


def test_small_shapes_are_emulated_with_every_case_and_large_ones_with_one_some_blocks_or_none():
    shapes = ["7", "255", "1024", "3x2097153x2"]
    kept = emulated_cases([asked(shape, beta=beta) for shape in shapes for beta in (1, 0)])
    kept, alone = kept[:4], kept[4:]
    assert [str(case.shape) for case in kept] == ["7", "7", "255", "3x2097153x2"]
    assert [emulated_runs(case) for case in kept] == [2, 2, 1, 1]
    assert alone == [*OF_WHOLE_TILES, *EMULATED_ALONE, *probes(EMULATED_PROBES)]
    assert kept[3] == asked("3x2097153x2", blocks=64)


def test_of_a_product_that_is_emulated_once_each_matrix_has_a_leading_dimension_of_its_own():
    """Its rows are aligned as those of the case that is asked for; of small products other cases have other gaps."""
    gaps = {"7": 3, "255": 3, "3x2097153x2": 4, "33x65x613": (1, 1, 0), "40x50x400": 0}
    kept = emulated_cases([asked(shape, padding=gap) for shape, gap in gaps.items()])[: len(gaps)]
    assert [case.padding for case in kept] == [3, (3, 7, 11), (4, 8, 12), (1, 1, 0), 0]


def test_long_sums_are_emulated_on_one_sm_where_a_product_of_any_size_has_tiles_enough(for_the_emulator):
    """Of few tiles mma_3xtf32 leaves all to multiply-adds, which err otherwise."""
    long, short = asked("33x65x613"), asked("33x65x17")
    kept = emulated_cases([long, short])[:2]
    assert kept == [replace(long, sms=1), short]
    library = Library(for_the_emulator(ROOT / "kernels/sgemm/mma_3xtf32.cu"))
    errors = [check_case(EmulatedDevice(1, 60), library, case, 1)["error_normwise"] for case in (long, *kept[:1], long)]
    assert errors[0] == errors[2] != errors[1]


def test_every_shape_of_the_configuration_is_emulated():
    config = read_yaml(ROOT / "config/config.yaml")
    shapes = {Shape.parse(shape) for shape in config["check"]["shapes"]}
    assert shapes <= {case.shape for case in plan(config).emulated_cases()}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("alignment_of_one_matrix", "65x68x20, alpha -1, beta -1, padding 4, offset [0, 1, 0]: misaligned: "),
        ("index_overflows_int", "129x132x36, beta 1, padding 67108864: undefined behaviour: "),
        ("index_truncated", "129x132x36, beta 1, padding 67108864: out of bounds: "),
        ("control_tiled", None),
    ],
)
def test_matrices_are_emulated_unaligned_one_at_a_time_and_with_offsets_beyond_32_bits(
    tmp_path, source_of, fault, message
):
    record = emulated(tmp_path, source_of(fault), list(EMULATED_ALONE))
    assert record["status"] == ("failed" if message else "emulated")
    assert record["message"].startswith(message or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("g.alpha * sum :", "fabsf(g.alpha) * sum :"),
        ("g.beta == 0.0f ?", "fabsf(g.beta) < 1e-6f ?"),
        ("g.alpha * sum + g.beta", "g.alpha * sum + (g.alpha < 0.0f ? 1.0f : g.beta)"),
    ],
    ids=["alpha at beta = 0", "a small beta", "beta at a negative alpha"],
)
def test_no_scalars_go_unchecked(tmp_path, old, new):
    text = (ROOT / "tests/faults/control_tiled.cu").read_text()
    assert old in text
    source = tmp_path / "rung.cu"
    source.write_text(text.replace(old, new))
    cases = [asked("20", **case) for case in read_yaml(ROOT / "config/config.yaml")["check"]["cases"]]
    record = emulated(tmp_path, source, cases)
    assert (record["status"], "exceeds" in record["message"]) == ("failed", True)


def test_what_a_rung_keeps_from_its_first_product_is_found(tmp_path):
    text = (ROOT / "tests/faults/control_tiled.cu").read_text()
    kept = text.replace("return launch(sgemm_kernel, tile_grid(g, TILE, TILE)", "return launch(sgemm_kernel, grid")
    kept = kept.replace("stream) {\n", "stream) {\n  static const dim3 grid = tile_grid(g, TILE, TILE);\n")
    source = tmp_path / "rung.cu"
    source.write_text(kept)
    cases = [asked(shape) for shape in ("5", "6", "40", "41")]
    message = emulated(tmp_path, source, cases)["message"]
    assert message.startswith("40x40x40: NaN or infinity")
    assert "as the first product of a process it is right" in message


def test_of_a_product_that_is_wrong_as_the_first_one_too_nothing_is_said_of_earlier_ones(tmp_path):
    text = (ROOT / "tests/faults/control_tiled.cu").read_text()
    source = tmp_path / "rung.cu"
    source.write_text(text.replace("? g.alpha * sum :", "? 2 * g.alpha * sum :"))
    message = emulated(tmp_path, source, [asked("5"), asked("6")])["message"]
    assert message.startswith("5x5x5: ")
    assert "first product" not in message


def test_who_reads_c_where_beta_is_0_is_told_so(tmp_path):
    text = (ROOT / "tests/faults/control_tiled.cu").read_text()
    source = tmp_path / "rung.cu"
    source.write_text(text.replace("g.beta == 0.0f ? g.alpha * sum : ", ""))
    message = emulated(tmp_path, source, [asked("5")])["message"]
    assert "], which is not to be read where beta = 0" in message


OWN = """\
__global__ void k(Gemm g) {
  int row = blockIdx.x, column = threadIdx.x;
  for (; column < g.n; column += blockDim.x) {
    float sum = 0;
    for (int p = 0; p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + column];
    store_result(g, row, column, sum);
  }
}
"""
RUN = """\
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  k<<<g.m, 32, 0, stream>>>(g);
  return cudaGetLastError();
}
"""
FILES = {
    "a mark of its encoding": {"own.cu": f'\ufeff#include "gemm.cuh"\n{OWN}{RUN}EXPORT_SGEMM(run)\n'},
    "lines of Windows": {"own.cu": f'#include "gemm.cuh"\n{OWN}{RUN}EXPORT_SGEMM(run)\n'.replace("\n", "\r\n")},
    "a launch in a header that is called like ours": {
        "own.cu": '#include "parts/kernel.cuh"\n#include "parts/launch.cuh"\nEXPORT_SGEMM(run)\n',
        "parts/kernel.cuh": f'\ufeff#pragma once\n#include "gemm.cuh"\n{OWN}',
        "parts/launch.cuh": RUN,
    },
    "such a header beside it": {
        "own.cu": f'#include "gemm.cuh"\n{OWN}#include "launch.cuh"\nEXPORT_SGEMM(run)\n',
        "launch.cuh": RUN,
    },
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_sources_and_headers_as_editors_write_them_are_emulated(tmp_path, files):
    ours = (emulator.INCLUDE / "launch.cuh").read_text()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    record = emulated(tmp_path, tmp_path / "own.cu")
    assert (record["status"], len(record["cases"])) == ("emulated", len(CASES)), record
    assert (emulator.INCLUDE / "launch.cuh").read_text() == ours


@pytest.mark.parametrize(
    ("grid", "block", "why"),
    [
        ("dim3(1, 1, 0)", "32", "a grid has at least one block along x, y and z"),
        ("dim3(1, 65536)", "32", "a grid has at most 65535 blocks along y and z; number the tiles along x (tile_grid)"),
        ("dim3(1, 1, 65536)", "32", "a grid has at most 65535 blocks along y and z; number the tiles along x"),
        ("dim3(1u << 31)", "32", "a grid has at most 2147483647 blocks along x"),
        ("1", "dim3(32, 33)", "a block has at most 1024 threads"),
        ("1", "dim3(1, 1, 65)", "a block has at most 64 threads along z"),
        ("1", "0", "a block has at least one thread"),
    ],
)
def test_a_launch_that_is_too_large_is_told_with_the_limit(tmp_path, grid, block, why):
    launch = RUN.replace("<<<g.m, 32,", f"<<<{grid}, {block},")
    write(tmp_path / "own.cu", f'#include "gemm.cuh"\n{OWN}{launch}EXPORT_SGEMM(run)\n')
    message = emulated(tmp_path, tmp_path / "own.cu", [asked("3x4x5")])["message"]
    assert message.startswith("3x4x5: launch: k is launched with a grid of (")
    assert f" threads: {why}" in message


def test_what_is_otherwise_wrong_is_told_apart_from_the_first_finding(tmp_path):
    wrong = OWN.replace("store_result(g, row, column, sum)", "g.C[row * g.ldc + column] = g.alpha * sum")
    launch = RUN.replace("g.m, 32", "dim3(g.m, 1, g.k == 7 ? 0 : 1), 32")
    write(tmp_path / "own.cu", f'#include "gemm.cuh"\n{wrong}{launch}EXPORT_SGEMM(run)\n')
    cases = [asked(shape, beta=beta) for shape in ("8", "16", "5x6x7") for beta in (0, 1)]
    message = emulated(tmp_path, tmp_path / "own.cu", cases)["message"]
    assert message.startswith("8x8x8, beta 1: ")
    assert "; 2 of 4 cases pass, all with beta = 0; otherwise wrong: 2, such as 5x6x7: launch: k is" in message


def test_what_is_wrong_is_told_with_what_nvcc_warned_of(tmp_path):
    wrong = OWN.replace("float sum = 0", "float sum = 1")
    source = write(tmp_path / "own.cu", f'#include "gemm.cuh"\n{wrong}{RUN}EXPORT_SGEMM(run)\n')
    rung = replace(LADDER["naive"], source=os.path.relpath(source, ROOT / "kernels"))
    made = a_build(tmp_path / "naive", log='own.cu(5): warning #177-D: variable "x" was declared\n')
    record = emulate_rung(rung, made, CASES[:1], 1, 60, tmp_path / "log", compiled_engine())
    assert record["status"] == "failed"
    assert record["message"].endswith('; nvcc warns: own.cu(5): variable "x" was declared')


def test_what_is_missing_for_a_cpu_is_named(tmp_path):
    source = tmp_path / "rung.cu"
    text = (ROOT / "tests/faults/control_tiled.cu").read_text()
    source.write_text(text.replace("  return launch(", "  extern int elsewhere();\n  elsewhere();\n  return launch("))
    record = emulated(tmp_path, source)
    assert record["status"] == "needs a GPU"
    assert "elsewhere is declared, and nothing that the source includes defines it" in record["message"]
    source.write_text(text.replace("  return launch(", "  extern int __of_cuda();\n  __of_cuda();\n  return launch("))
    assert "the emulator cannot run __of_cuda; leave it out" in emulated(tmp_path, source)["message"]


@pytest.mark.parametrize(
    "macro",
    [
        "__GNUC__",
        "__clang__",
        "__x86_64__",
        "__OPTIMIZE__",
        "__SANITIZE_THREAD__",
        "EMULATOR_PLAIN",
        "CUBLAS_VERSION",
        "_OPENMP",
    ],
)
def test_a_source_that_tells_compilers_apart_needs_a_gpu(tmp_path, macro):
    source = tmp_path / "rung.cu"
    source.write_text(f"#ifdef {macro}\n#endif\n" + (ROOT / "tests/faults/control_tiled.cu").read_text())
    record = emulated(tmp_path, source)
    assert (record["status"], record["cases"]) == ("needs a GPU", [])
    assert f"other code for a GPU than for a CPU ({macro})" in record["message"]


@pytest.mark.parametrize(
    ("directive", "status"),
    [
        ("#if defined(__CUDACC__) && __CUDA_ARCH_LIST__ == 900\n#define TAKEN 1\n#endif\n", "emulated"),
        ("#if __CUDA_ARCH__ == 900\n#define TAKEN 1\n#else\n#define TAKEN 0\n#endif\n", "emulated"),
        ("#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n__device__ constexpr int TAKEN = 1;\n#endif\n", "emulated"),
        ("#ifdef __CUDA_ARCH__\nconstexpr int TAKEN = 1;\n#endif\n", "needs a GPU"),
        (
            "__host__ __device__ int f() {\n#ifdef __CUDA_ARCH__\nreturn 1;\n#else\nreturn 0;\n#endif\n}\n",
            "needs a GPU",
        ),
        ("__device__ int f() {\n#ifdef __CUDA_ARCH__\nreturn 1;\n#endif\n}\n#define TAKEN 1\n", "emulated"),
        ("#if defined(CUDART_VERSION) && CUDART_VERSION >= 11080\n#define TAKEN 1\n#endif\n", "emulated"),
        ("#if (__CUDACC_VER_MAJOR__ < 12) || defined(__CUDACC_RTC__)\n#else\n#define TAKEN 1\n#endif\n", "emulated"),
        ("#if CUDART_VERSION >= 13000\n#define TAKEN 1\n#endif\n", "needs a GPU"),
        ("#if CUDART_VERSION >= 12000 + 1000\n#define TAKEN 1\n#endif\n", "needs a GPU"),
        ("#if __CUDA_ARCH_HAS_FEATURE__(SM90_ALL)\n__device__ constexpr int TAKEN = 1;\n#endif\n", "emulated"),
    ],
)
def test_a_source_sees_the_macros_of_nvcc_where_they_mean_the_same_in_both_of_its_passes(tmp_path, directive, status):
    source = tmp_path / "rung.cu"
    head, body = (ROOT / "tests/faults/control_tiled.cu").read_text().split("cudaError_t run", 1)
    source.write_text(f'{directive}{head}static_assert(TAKEN == 1, "as on sm_90a");\ncudaError_t run{body}')
    record = emulated(tmp_path, source)
    assert record["status"] == status, record["message"]


SOUND = (ROOT / "tests/faults/control_tiled.cu").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef DEBUG\n#error no\n#endif\n#ifndef NDEBUG\n#define CHECKS 1\n#endif\n#if USE_TF32\n#error no\n#endif\n",
        "#include <future>\n#include <memory>\nstatic std::unique_ptr<int> table;\n",
        '#include <stdexcept>\nint tried() {\n  try {\n    throw std::runtime_error("caught");\n'
        "  } catch (const std::exception&) {\n    return 0;\n  }\n}\nstatic int at_first = tried();\n",
        '__device__ float ptx_fma(float a) {\n  asm("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));\n  return a;\n}\n'
        "__global__ void ptx() {}\n",
        "#include <cuda/ptx>\n__device__ bool first() { return cuda::ptx::elect_sync(~0u); }\n"
        "__device__ float* there(float* s) { return cuda::ptx::mapa(cuda::ptx::space_cluster, s, 1); }\n",
        "#include <vector_functions.h>\n#include <vector_types.h>\n#include <device_functions.h>\n",
    ],
    ids=["macros that nobody defines", "noinline", "exceptions", "names", "of a newer libcu++", "headers"],
)
def test_what_strangers_write_is_emulated(tmp_path, text):
    source = tmp_path / "rung.cu"
    source.write_text(text + SOUND)
    record = emulated(tmp_path, source)
    assert record["status"] == "emulated", record["message"]


@pytest.mark.parametrize("flags", [["-O3", "-DWIDTH=3", "-DDEBUG"], ["-D", "WIDTH=3", "-D", "DEBUG"]])
def test_a_macro_that_a_flag_of_nvcc_defines_is_defined_here(tmp_path, flags):
    source = tmp_path / "rung.cu"
    source.write_text('static_assert(WIDTH == 3 && DEBUG == 1, "");\n#ifndef DEBUG\n#error no\n#endif\n' + SOUND)
    rung = replace(LADDER["naive"], source=os.path.relpath(source, ROOT / "kernels"))
    record = emulate_source(rung, [asked("7")], 1, 60, tmp_path / "log", compiled_engine(), flags=flags)
    assert record["status"] == "emulated", record["message"]


HALVES = """
#include <cuda/atomic>
#include "gemm.cuh"
__global__ void halves(Gemm g, float* partial, unsigned* arrived) {
  __shared__ bool last;
  int count = g.m * g.n, half = blockIdx.x, from = half == 0 ? 0 : g.k / 2, to = half == 0 ? g.k / 2 : g.k;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    float sum = 0;
    for (int p = from; p < to; ++p) sum += g.A[i / g.n * g.lda + p] * g.B[p * g.ldb + i % g.n];
    partial[half * count + i] = sum;
  }
  __syncthreads();
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> ticket(*arrived);
  if (threadIdx.x == 0) last = ticket.fetch_add(1, cuda::memory_order_ORDER) == 1;
  __syncthreads();
  for (int i = threadIdx.x; last && i < count; i += blockDim.x) {
    store_result(g, i / g.n, i % g.n, partial[i] + partial[count + i]);
  }
}
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  unsigned* arrived = static_cast<unsigned*>(workspace);
  if (cudaError_t error = cudaMemsetAsync(arrived, 0, 4, stream)) return error;
  return launch(halves, dim3(2), dim3(64), 0, stream, g, static_cast<float*>(workspace) + 1, arrived);
}
size_t needed(const Gemm& g) { return 4 + 8 * static_cast<size_t>(g.m) * g.n; }
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.mark.parametrize(("order", "status"), [("acq_rel", "emulated"), ("relaxed", "failed")])
def test_the_order_of_an_atomic_counts(tmp_path, order, status):
    source = tmp_path / "rung.cu"
    source.write_text(HALVES.replace("ORDER", order))
    record = emulated(tmp_path, source, [asked("5x7x20", beta=beta) for beta in (0, 1)])
    assert record["status"] == status, record["message"]
    assert order == "acq_rel" or "race: halves" in record["message"]


@pytest.mark.parametrize(
    ("order", "scope", "status"),
    [("ACQ_REL", "DEVICE", "emulated"), ("RELAXED", "DEVICE", "failed"), ("ACQ_REL", "BLOCK", "failed")],
)
def test_the_order_and_the_scope_of_a_builtin_atomic_count(tmp_path, order, scope, status):
    source = tmp_path / "rung.cu"
    builtin = f"__nv_atomic_fetch_add(arrived, 1u, __NV_ATOMIC_{order}, __NV_THREAD_SCOPE_{scope})"
    text = HALVES.replace("ticket.fetch_add(1, cuda::memory_order_ORDER)", builtin)
    source.write_text(
        text.replace("#include <cuda/atomic>\n", "").replace("  cuda::atomic_ref", "  // cuda::atomic_ref")
    )
    record = emulated(tmp_path, source, [asked("5x7x20", beta=beta) for beta in (0, 1)])
    assert record["status"] == status, record["message"]
    assert status == "emulated" or "race: halves" in record["message"]


ONE_ROW = """
#include "gemm.cuh"
__global__ void one_row(Gemm g) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= g.n) return;
  float sum = 0;
  for (int p = 0; p < g.k; ++p) sum += g.A[p] * g.B[p * g.ldb + col];
  float* c = g.C + col;
  *c = g.beta == 0 ? g.alpha * sum : g.alpha * sum + g.beta * *c;
}
__global__ void any_rows(Gemm g) {
  int row = blockIdx.x / ceil_div(g.n, 64), col = blockIdx.x % ceil_div(g.n, 64) * 64 + threadIdx.x;
  if (col >= g.n) return;
  float sum = 0;
  for (int p = 0; p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (g.m == 1) return launch(one_row, dim3(ceil_div(g.n, 64)), dim3(64), 0, stream, g);
  return launch(any_rows, dim3(g.m * ceil_div(g.n, 64)), dim3(64), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize(
    ("sound", "wrong"),
    [
        ("", ""),
        ("p * g.ldb + col]", "p * static_cast<int>(g.ldb) + col]"),
        ("p * g.ldb + col]", "(g.ldb % 4 ? p * g.ldb : static_cast<int>(p * g.ldb)) + col]"),
        ("p < g.k", "p < (g.k < 500 ? g.k : g.k / 4 * 4)"),
        ("g.beta == 0 ?", "g.beta == 0 && g.n < 1000 ?"),
        ("sum += g.A[p]", "if (g.A[p] != 0) sum += g.A[p]"),
        ("sum += g.A[p] * g.B[p * g.ldb + col]", "sum += g.A[p] * (g.k < 600 ? 1 : 0.999f) * g.B[p * g.ldb + col]"),
    ],
)
def test_a_kernel_of_one_row_is_asked_what_kernels_of_tiles_are_asked(tmp_path, sound, wrong):
    source = tmp_path / "rung.cu"
    source.write_text(ONE_ROW.replace(sound, wrong, 1) if sound else ONE_ROW)
    few = [case for case in EMULATED_ALONE if min(case.shape.m, case.shape.n) == 1]
    assert emulated(tmp_path, source, few)["status"] == ("failed" if sound else "emulated")


# Parts of sums, as many as there are SMs for, are computed by blocks of 16 x 16 threads and added up by another kernel.
OF_PARTS = """
#include "gemm.cuh"
__global__ void parts(Gemm g, int steps, float* sums) {
  int wide = ceil_div(g.n, 16);
  int64_t row = blockIdx.x / wide * 16 + threadIdx.y, col = blockIdx.x % wide * 16 + threadIdx.x;
  int last = min(g.k, static_cast<int>(blockIdx.y + 1) * steps);
  float sum = 0;
  if (row >= g.m || col >= g.n) return;
  for (int p = blockIdx.y * steps; p < last; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  sums[(blockIdx.y * static_cast<int64_t>(g.m) + row) * g.n + col] = sum;
}
__global__ void add(Gemm g, int count, const float* sums) {
  int64_t all = static_cast<int64_t>(g.m) * g.n;
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < all; i += gridDim.x * 256) {
    float sum = 0;
    for (int part = 0; part < count; ++part) sum += sums[part * all + i];
    store_result(g, i / g.n, i % g.n, sum);
  }
}
int parts_of(const Gemm& g) {
  int sms = 0;
  if (sm_count(&sms)) return 1;
  int64_t tiles = ceil_div(g.m, 64) * static_cast<int64_t>(ceil_div(g.n, 64));
  return std::max<int64_t>(1, std::min<int64_t>(2 * sms / tiles, g.k / 64));
}
size_t needed(const Gemm& g) { return 4ull * parts_of(g) * g.m * g.n; }
cudaError_t run(const Gemm& given, void* workspace, cudaStream_t stream) {
  Gemm g = given;
  FIRST
  int count = parts_of(g), tiles = ceil_div(g.m, 16) * ceil_div(g.n, 16);
  float* sums = static_cast<float*>(workspace);
  if (auto e = launch(parts, dim3(tiles, count), dim3(16, 16), 0, stream, g, ceil_div(g.k, count), sums)) return e;
  int64_t blocks = std::min<int64_t>(1024, (static_cast<int64_t>(g.m) * g.n + 255) / 256);
  return launch(add, dim3(blocks), dim3(256), 0, stream, g, count, sums);
}
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.mark.parametrize(
    ("sound", "wrong", "shape"),
    [
        ("FIRST", "", ""),
        ("part < count;", "part < min(count, 16);", "9x6x5200"),
        ("i < all; i += gridDim.x * 256", "i < min(all, int64_t{1 << 17}); i += gridDim.x * 256", "70x2044x132"),
        ("4ull * parts_of(g)", "4ull * std::min(parts_of(g), 264 / ceil_div(g.m, 64))", "8500x3x130"),
        ("FIRST", "if (g.m % 128 == 0 && g.n % 256 == 0 && g.k % 64 == 0) g.ldb = g.n;", "256x256x64"),
        ("FIRST", "if (g.m % 128 == 0 && g.n % 256 == 0 && g.k % 64 == 0) g.ldc = g.n;", "256x256x64"),
        ("FIRST", "if (g.m > 256 && g.n <= 8) g.lda = static_cast<int>(g.lda << 9) >> 9;", "1030x5x35"),
        ("dim3(tiles, count)", "dim3(std::min(tiles, 1024), count)", "129x2044x68"),
        ("4ull * parts_of(g)", "4ull * (ceil_div(g.m, 64) == 8 && g.n > 999 ? 1 : parts_of(g))", "512x1024x128"),
        ("FIRST", "if (ceil_div(g.m, 32) * ceil_div(g.n, 32) == 64 && g.k > 256) g.ldb = g.n + 1;", "256x256x512"),
        (
            "FIRST",
            "int sms; if (g.m == 384 && !sm_count(&sms) && sms > 160) g.ldb = g.n + 1;",
            "384x384x256, SMs 192",
        ),
        ("g.A[row * g.lda + p] *", "fminf(g.A[row * g.lda + p], 2) *", "17x36x5204"),
        ("FIRST", "if (g.n > 256 && g.m <= 8) g.lda = static_cast<int>(g.lda << 9) >> 9;", "5x1030x133"),
    ],
)
def test_what_shows_on_many_sms_in_whole_tiles_or_far_rows_alone_is_found(tmp_path, sound, wrong, shape):
    (tmp_path / "rung.cu").write_text(OF_PARTS.replace(sound, wrong, 1).replace("FIRST", ""))
    shapes = ("9x6x5200", "3x5x20011", "70x2044x132", "8500x3x130", "129x2044x68")
    shapes += ("17x36x5204", "256x256x64", "1030x5x35", "5x1030x133")
    shapes += ("256x256x512", "384x384x256", "512x1024x128")
    record = emulated(tmp_path, tmp_path / "rung.cu", [each for each in EMULATED_ALONE if str(each.shape) in shapes])
    assert record["status"] == ("failed" if shape else "emulated"), record["message"]
    assert record["message"].startswith(shape)


# Whole tiles of aligned matrices are computed without guards, four columns at a time, by a kernel of their own.
WITHOUT_GUARDS = """
#include "gemm.cuh"
constexpr int TILE = 128, STEPS = 8;
__global__ void whole(Gemm g) {
  unsigned col = blockIdx.x * TILE + 4 * threadIdx.x, first = blockIdx.y * TILE;
  for (unsigned row = first + threadIdx.y; row < first + TILE; row += blockDim.y) {
    float sum[4] = {};
    for (int p = 0; p < g.k; p += STEPS)
      for (int q = p; q < p + STEPS; q += 4) {
        float4 a = *reinterpret_cast<const float4*>(g.A + row * g.lda + q);
        const float* of = &a.x;
        for (int i = 0; i < 4; ++i) {
          float4 b = *reinterpret_cast<const float4*>(g.B + (q + i) * g.ldb + col);
          sum[0] += of[i] * b.x, sum[1] += of[i] * b.y, sum[2] += of[i] * b.z, sum[3] += of[i] * b.w;
        }
      }
    float4* place = reinterpret_cast<float4*>(g.C + row * g.ldc + col);
    float alpha = g.alpha, beta = g.beta;
    float4 c = beta == 0 ? make_float4(0, 0, 0, 0) : *place;
    *place = {alpha * sum[0] + beta * c.x, alpha * sum[1] + beta * c.y, alpha * sum[2] + beta * c.z,
              alpha * sum[3] + beta * c.w};
  }
}
__global__ void guarded(Gemm g) {
  int64_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  if (row >= g.m || col >= g.n) return;
  float sum = 0;
  for (int p = 0; p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  store_result(g, row, col, sum);
}
bool aligned(const float* place, int to = 16) { return reinterpret_cast<uintptr_t>(place) % to == 0; }
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool fits = g.m % TILE == 0 && g.n % TILE == 0 && g.k % STEPS == 0 && aligned(g.A) && aligned(g.B) && aligned(g.C);
  fits = fits && g.lda % 4 == 0 && g.ldb % 4 == 0 && g.ldc % 4 == 0;
  dim3 tiles(ceil_div(g.n, TILE), ceil_div(g.m, TILE));
  if (fits) return launch(whole, tiles, dim3(TILE / 4, 4), 0, stream, g);
  return launch(guarded, dim3(ceil_div(g.n, 16), ceil_div(g.m, 16)), dim3(16, 16), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize(
    ("sizes", "sound", "wrong"),
    [
        *((sizes, "", "") for sizes in ("128, STEPS = 8", "256, STEPS = 64")),
        *(
            ("256, STEPS = 64", f"aligned(g.{name})", f"aligned(g.{name}, {to})")
            for name, to in (("A", 4), ("B", 4), ("C", 4), ("C", 8))
        ),
        *(
            ("256, STEPS = 64", f"g.ld{name} % 4", f"g.ld{name} % {to}")
            for name, to in (("a", 1), ("b", 2), ("b", 1), ("c", 1))
        ),
        *(
            (sizes, f"g.{name} % TILE", f"g.{name} % {less}")
            for name in "mn"
            for sizes, less in (("128, STEPS = 8", "(TILE / 2)"), ("256, STEPS = 64", "128"), ("128, STEPS = 8", "8"))
        ),
        *((sizes, "g.k % STEPS", "g.k % (STEPS / 2)") for sizes in ("128, STEPS = 8", "128, STEPS = 16")),
        ("256, STEPS = 64", "beta = g.beta;", "beta = g.beta == -1 ? 1 : g.beta;"),
        ("128, STEPS = 8", "beta == 0 ?", "__float_as_uint(beta) == 0 ?"),
        ("128, STEPS = 8", "beta = g.beta;", "beta = g.beta < 0 || g.beta > 0 ? g.beta : 0;"),
        ("128, STEPS = 8", "beta = g.beta;", "beta = fminf(g.beta, 1e30f);"),
        (
            "128, STEPS = 8",
            "  store_result",
            "  if (g.n % 4 == 0 && g.ldc % 4 == 0 && isnan(g.beta)) g.beta = 0;\n  store_result",
        ),
        ("256, STEPS = 64", "alpha = g.alpha,", "alpha = g.beta == 1 ? 1 : g.alpha,"),
        ("256, STEPS = 64", "alpha = g.alpha,", "alpha = g.alpha == -1 && g.beta == 0 ? 1 : g.alpha,"),
        *(
            ("128, STEPS = 8", f"{row} * g.ld{name}", f"{row} * static_cast<unsigned>(g.ld{name})")
            for row, name in (("row", "a"), ("(q + i)", "b"), ("row", "c"))
        ),
    ],
)
def test_what_a_kernel_for_whole_tiles_does_not_ask_is_found(tmp_path, sizes, sound, wrong):
    assert sound in WITHOUT_GUARDS
    text = WITHOUT_GUARDS.replace(sound, wrong, 1) if sound else WITHOUT_GUARDS
    (tmp_path / "rung.cu").write_text(text.replace("128, STEPS = 8", sizes))
    alone = [case for case in EMULATED_ALONE if str(case.shape) in ("256x256x192", "128x128x32", "65x68x36")]
    record = emulated(tmp_path, tmp_path / "rung.cu", [*OF_WHOLE_TILES, *alone])
    assert record["status"] == ("failed" if sound else "emulated"), record["message"]


# Products of numbers of three BF16 parts each; of numbers beyond the range of these parts the plain product.
OF_THREE_PARTS = """
#include <cuda_bf16.h>
#include "gemm.cuh"
__device__ bool fits(float x) { float a = fabsf(x); return a == 0 || (a > LEAST && a < MOST); }
__device__ float times(float a, float b, bool of_A, bool of_B) {
  if ((of_A && !fits(a)) || (of_B && !fits(b))) return a * b;
  float product = 0, left = a;
  for (int i = 0; i < 3; ++i) {
    float part = __bfloat162float(__float2bfloat16_rn(left)), left_of_b = b, sum = 0;
    left -= part;
    for (int j = 0; j < 3; ++j) {
      float other = __bfloat162float(__float2bfloat16_rn(left_of_b));
      left_of_b -= other;
      sum += part * other;
    }
    product += sum;
  }
  return product;
}
__global__ void multiply(Gemm g) {
  Tile tile = tile_of_block(g, 8, 32);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  float sum = 0;
  if (row >= g.m || col >= g.n) return;
  for (int p = 0; p < g.k; ++p) sum += times(g.A[row * g.lda + p], g.B[p * g.ldb + col], OF_A, OF_B);
  store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(multiply, tile_grid(g, 8, 32), dim3(32, 8), 0, stream, g);
}
EXPORT_SGEMM(run)
"""
SOUND_PARTS = {"LEAST": "1e-18f", "MOST": "1e18f", "OF_A": "true", "OF_B": "true"}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        *({name: "false"} for name in ("OF_A", "OF_B")),
        *({name: "false", "MOST": "INFINITY"} for name in ("OF_A", "OF_B")),
        *({name: "false", "LEAST": "1.2e-38f"} for name in ("OF_A", "OF_B")),
        {"MOST": "INFINITY"},
        {"LEAST": "1.2e-38f"},
    ],
    ids=str,
)
def test_a_range_of_parts_that_is_too_wide_or_is_tested_of_one_matrix_is_found(tmp_path, changed):
    text = OF_THREE_PARTS
    for name, value in {**SOUND_PARTS, **changed}.items():
        text = text.replace(name, value)
    (tmp_path / "rung.cu").write_text(text)
    cases = [case for case in EMULATED_ALONE if case.family in ("largest", "smallest")]
    record = emulated(tmp_path, tmp_path / "rung.cu", cases)
    assert record["status"] == ("failed" if changed else "emulated"), record["message"]


@pytest.mark.parametrize("least", [0, 1024])
def test_a_rest_of_k_that_only_large_products_forget_is_found(tmp_path, least):
    text = (ROOT / "kernels/sgemm/naive.cu").read_text()
    large = f"if ({least} > 0 && g.m > {least} && g.n > {least} && g.k > 4 * {least}) g.k -= g.k % 16;"
    (tmp_path / "rung.cu").write_text(text.replace("  float sum = 0.0f;", f"  {large}\n  float sum = 0.0f;"))
    cases = [case for case in EMULATED_ALONE if min(case.shape.m, case.shape.n) > 1000]
    record = emulated(tmp_path, tmp_path / "rung.cu", cases)
    assert record["status"] == ("failed" if least else "emulated"), record["message"]
    assert record["message"].startswith("1030x1040x4100" if least else "")


FROM_A_COUNTER = """
#include "gemm.cuh"
__device__ unsigned next, finished;
__global__ void persistent(Gemm g) {
  __shared__ unsigned i;
  for (;;) {
    if (threadIdx.x == 0) i = atomicAdd(&next, 1u);
    __syncthreads();
    unsigned row = i;
    __syncthreads();
    if (row >= g.m) break;
    for (int col = threadIdx.x; col < g.n; col += blockDim.x) {
      float sum = 0;
      for (int p = 0; p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
      store_result(g, row, col, sum);
    }
  }
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&finished, 1u) == gridDim.x - 1) next = finished = 0;
  }
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(persistent, dim3(8), dim3(32), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


def test_what_a_launch_that_was_cut_off_leaves_in_a_variable_is_not_the_next_products(tmp_path):
    source = tmp_path / "rung.cu"
    source.write_text(FROM_A_COUNTER)
    rung = replace(LADDER["naive"], source=os.path.relpath(source, ROOT / "kernels"))
    cases = [asked("8388609x3x2", blocks=16), asked("7"), asked("33x5x20")]
    record = emulate_source(rung, cases, 1, 10, tmp_path / "log", compiled_engine())
    assert record["status"] == "emulated", record["message"]
    assert list(map(Case.of, record["cases"])) == cases[1:]


@pytest.mark.parametrize("gigabytes", [30, 100], ids=["the matrices", "what the emulator keeps"])
def test_where_there_is_no_room_to_reserve_wide_gaps_are_left_out(tmp_path, gigabytes):
    limit = (resource.RLIMIT_AS, (gigabytes << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    apart = get_context("spawn")  # for this process may have reserved more already, and could then start no thread
    with ProcessPoolExecutor(1, apart, resource.setrlimit, limit) as pool:
        record = pool.submit(emulated, tmp_path, "tests/faults/control_tiled.cu", list(EMULATED_ALONE)).result()
    fits = [
        case
        for case in EMULATED_ALONE
        if max(case.paddings) < WIDE or (case.shape.m == 1 and case.paddings[1] < 1 << 27)
    ]
    kept = [case.as_record()["padding"] for case in fits]  # of one row B alone is wide
    assert (record["status"], [case["padding"] for case in record["cases"]]) == ("emulated", kept), record
    assert {*record["left_out"]} == {str(case) for case in EMULATED_ALONE if case not in fits}


TALL = [asked(shape, blocks=16) for shape in ("2097153x3x2", "3x2097153x2")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "grid_y_overflow",
            "launch: sgemm_kernel is launched with a grid of (1,131073,1) blocks of (16,16,1) threads: a grid",
        ),
        ("last_row_of_tiles_skipped", "too few to write 3 of 6291459 elements"),
        ("lane_never_written", "too few to write"),
        ("guard_of_rows_missing", "out of bounds: sgemm_kernel block (131072,0,0)"),
        ("bf16_inputs", "error"),
    ],
)
def test_of_a_very_long_product_some_blocks_are_checked_the_last_one_among_them(tmp_path, source_of, fault, message):
    record = emulated(tmp_path, source_of(fault), TALL)
    assert record["status"] == "failed"
    assert message in record["message"]


@pytest.mark.parametrize(("shape", "kept"), [("7x7x2048", 2), ("3000x3000x600", 1)])
def test_of_a_launch_that_leaves_something_for_other_blocks_all_blocks_run_if_they_do_not_take_too_long(
    tmp_path, shape, kept
):
    cases = [CASES[0], asked(shape, blocks=1)]
    record = emulated(tmp_path, "tests/faults/control_split_k.cu", cases)
    assert (record["status"], list(map(Case.of, record["cases"]))) == ("emulated", cases[:kept])


# A rung that fills C with a kernel and adds to it with another.
IN_TWO = """#include "gemm.cuh"
__global__ void begin(Gemm g) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= static_cast<int64_t>(g.m) * g.n) return;
  float& c = g.C[i / g.n * g.ldc + i % g.n];
  c = g.beta == 0 ? 0.0f : g.beta * c;
}
__global__ void add(Gemm g) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= static_cast<int64_t>(g.m) * g.n) return;
  float sum = 0.0f;
  for (int p = blockIdx.y; p < g.k; p += gridDim.y) sum += g.A[i / g.n * g.lda + p] * g.B[p * g.ldb + i % g.n];
  atomicAdd(&g.C[i / g.n * g.ldc + i % g.n], g.alpha * sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  unsigned blocks = (static_cast<int64_t>(g.m) * g.n + 255) / 256;
  cudaError_t error = launch(begin, dim3(blocks), dim3(256), 0, stream, g);
  return error ? error : launch(add, dim3(blocks, 2), dim3(256), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


def test_what_a_block_that_did_not_run_may_write_is_no_fault_of_the_kernel_that_reads_it(tmp_path):
    (tmp_path / "in_two.cu").write_text(IN_TWO)
    cases = [asked("9x8x7", beta=0.5), asked("300x3000x2", blocks=4)]
    record = emulated(tmp_path, tmp_path / "in_two.cu", cases, deterministic=False)
    assert (record["status"], [Case.of(each) for each in record["cases"]]) == ("emulated", cases[:1]), record


# A rung whose first kernel notes which tiles the second has to compute, but for a tile that both leave out.
IN_TURNS = """#include "gemm.cuh"
__global__ void nothing(Gemm g) {
  if (g.k > 1000) g.C[blockIdx.x] = 0.0f;
}
__global__ void note(int tiles, int* left) {
  int tile = blockIdx.x * 32 + threadIdx.x;
  if (tile < tiles) left[tile] = tile % 2;
}
__global__ void multiply(Gemm g, const int* left, int even, int* done) {
  Tile tile = tile_of_block(g, 16, 16);
  int number = blockIdx.x, row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  if (threadIdx.x + threadIdx.y == 0) done[number] = 1;
  if (left[number] == even || LEFT_OUT) return;
  float sum = 0.0f;
  for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  if (row < g.m && col < g.n) store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  dim3 grid = tile_grid(g, 16, 16);
  int tiles = grid.x, *left = static_cast<int*>(workspace), *done = left + tiles;
  cudaError_t error = launch(nothing, dim3(32), dim3(1), 0, stream, g);
  if (!error) error = launch(note, dim3((tiles + 31) / 32), dim3(32), 0, stream, tiles, left);
  for (int even : {0, 1}) {
    if (!error) error = launch(multiply, grid, dim3(16, 16), 0, stream, g, left, even, done + even * tiles);
  }
  return error;
}
size_t needed(const Gemm& g) { return 12ull * tile_grid(g, 16, 16).x; }
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.mark.parametrize(
    ("left_out", "beta", "status"),
    [("false", 0, "emulated"), ("number == 70", 0, "failed"), ("number == 70", 1, "failed")],
)
def test_all_of_c_is_judged_of_a_product_of_some_blocks_where_all_have_run(tmp_path, left_out, beta, status):
    """The first launch writes nothing, so that all of its blocks run; the others leave something for others."""
    write(tmp_path / "in_turns.cu", IN_TURNS.replace("LEFT_OUT", left_out))
    cases = [asked("9x8x7"), asked("190x190x8", beta=beta, blocks=2)]
    record = emulated(tmp_path, tmp_path / "in_turns.cu", cases)
    assert (record["status"], len(record["cases"])) == (status, 2), record


# A rung whose kernel for large products reads a copy of A.
OF_LARGE = """#include "gemm.cuh"
__global__ void copy(Gemm g, float* A) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < static_cast<int64_t>(g.m) * g.k) A[i] = g.A[i / g.k * g.lda + i % g.k];
}
__global__ void multiply(Gemm g, const float* A, int64_t lda, float alpha) {
  Tile tile = tile_of_block(g, 8, 32);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  float sum = 0.0f;
  for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += A[row * lda + p] * g.B[p * g.ldb + col];
  g.alpha = alpha;
  if (row < g.m && col < g.n) store_result(g, row, col, sum);
}
bool large(const Gemm& g) { return 1.0 * g.m * g.n * g.k > 1 << 30; }
cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  float* A = static_cast<float*>(workspace);
  dim3 grid = tile_grid(g, 8, 32), block(32, 8);
  if (!large(g)) return launch(multiply, grid, block, 0, stream, g, g.A, g.lda, g.alpha);
  int64_t blocks = (static_cast<int64_t>(g.m) * g.k + 255) / 256;
  cudaError_t error = launch(copy, dim3(static_cast<unsigned>(blocks)), dim3(256), 0, stream, g, A);
  return error ? error : launch(multiply, grid, block, 0, stream, g, A, static_cast<int64_t>(g.k), g.alpha);
}
size_t needed(const Gemm& g) { return large(g) ? sizeof(float) * g.m * g.k : 0; }
EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", ""),
        ("int64_t>(g.k), g.alpha)", "int64_t>(g.k), 1.0f)", "bound"),
        ("+ 255) / 256", "- 256) / 256", "uninitialised read: multiply "),
        ("int64_t>(g.m) * g.k) A[i]", "int64_t>(g.m) * g.k) A[i + 1]", "out of bounds: copy "),
    ],
)
def test_the_kernel_that_a_rung_has_for_large_products_is_emulated(tmp_path, old, new, message):
    source = write(tmp_path / "large.cu", OF_LARGE.replace(old, new))
    record = emulated(tmp_path, source, [CASES[0], *(case for case in EMULATED_ALONE if case.blocks)])
    assert record["status"] == ("failed" if message else "emulated"), record["message"]
    assert message in record["message"]


SPLITS = "    error = launch(split_lines<E>, dim3(blocks), dim3(256), 0, stream, g, lines);\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("include/split_lines.cuh", SPLITS, "", "uninitialised read: sgemm_split "),
        (
            "sgemm/wgmma_3xfp16.cu",
            "&full[stage], STAGE_BYTES)",
            "&full[stage], STAGE_BYTES + 16)",
            "deadlock: sgemm_split ",
        ),
    ],
)
def test_of_some_clusters_it_is_known_what_no_block_has_written_and_what_no_other_block_can_end(
    tmp_path, file, old, new, message
):
    shutil.copy2(ROOT / "kernels/sgemm/wgmma_3xfp16.cu", tmp_path)
    text = (ROOT / "kernels" / file).read_text()
    assert text.count(old) == 1
    write(tmp_path / Path(file).name, text.replace(old, new))
    cases = [case for case in EMULATED_ALONE if case.blocks == EMULATED_FEW]
    record = emulated(tmp_path, tmp_path / "wgmma_3xfp16.cu", cases)
    assert (record["status"], message in record["message"]) == ("failed", True), record["message"]


# A rung whose blocks take tiles along a curve through a square, of which a part lies beside C.
ALONG_A_CURVE = """#include "gemm.cuh"
__global__ void multiply(Gemm g, int bits) {
  int row = threadIdx.y, col = threadIdx.x;
  for (int i = 0; i < bits; ++i) {
    row += (blockIdx.x >> (2 * i + 1) & 1) << (i + 4);
    col += (blockIdx.x >> 2 * i & 1) << (i + 4);
  }
  float sum = 0.0f;
  for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  if (row < g.m && col < g.n) store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int bits = 0;
  while (16 << bits < (g.m > g.n ? g.m : g.n)) ++bits;
  return launch(multiply, dim3(1u << 2 * bits), dim3(16, 16), 0, stream, g, bits);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize(
    ("shape", "writes", "status", "message"),
    [
        ("300x300x2", "true", "emulated", ""),
        ("1100x1100x2", "true", "emulated", ""),
        ("300x300x2", "g.m < 300", "failed", "0 at row 0, column 0, instead of "),
        ("1100x1100x2", "g.m < 300", "failed", "too few to write 1210000 of 1210000"),
    ],
)
def test_a_block_that_lies_beside_c_is_no_fault_but_a_kernel_that_writes_nothing_is(
    tmp_path, shape, writes, status, message
):
    store = "if (row < g.m && col < g.n) store"
    write(tmp_path / "curve.cu", ALONG_A_CURVE.replace(store, store.replace(")", f" && {writes})", 1)))
    record = emulated(tmp_path, tmp_path / "curve.cu", [asked("9x8x7"), asked(shape, blocks=1)])
    assert (record["status"], message in record["message"]) == (status, True), record
    assert message or [Case.of(each).blocks for each in record["cases"]] == [0, 1]


@pytest.mark.parametrize(
    ("where", "slip"),
    [
        *((f"g.{side} == 1 && isnan(g.beta)", "g.beta = 0") for side in "mn"),
        *((f"g.{side} == 1 && sum == 0", "g.alpha = 1") for side in "mn"),
        ("reinterpret_cast<uintptr_t>(g.C) % 16 == 8 && isnan(g.beta)", "g.beta = 0"),
        ("", ""),
    ],
)
def test_scalars_that_are_not_numbers_are_asked_of_one_row_one_column_and_pairs_of_c(tmp_path, where, slip):
    stores = "  if (row < g.m && col < g.n) store_result"
    assert stores in ALONG_A_CURVE
    text = ALONG_A_CURVE.replace(stores, f"  if ({where}) {slip};\n{stores}") if where else ALONG_A_CURVE
    cases = [case for case in EMULATED_ALONE if str(case.shape) in ("1x70x36", "70x1x36", "130x132x36")]
    record = emulated(tmp_path, write(tmp_path / "curve.cu", text), cases)
    assert record["status"] == ("failed" if where else "emulated"), record["message"]


# A rung with tiles of 128 x 128.
OF_LARGE_TILES = """#include "gemm.cuh"
__global__ void multiply(Gemm g) {
  unsigned tiles_m = ceil_div(g.m, 128), tiles_n = ceil_div(g.n, 128), number = blockIdx.x;
  if (tiles_m == TILES_M && tiles_n == TILES_N) number |= 1;
  for (int i = threadIdx.x; i < 128 * 128; i += 256) {
    int row = number / tiles_n * 128 + i / 128, col = number % tiles_n * 128 + i % 128;
    float sum = 0.0f;
    for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
    if (row < g.m && col < g.n) store_result(g, row, col, sum);
  }
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(multiply, tile_grid(g, 128, 128), dim3(256), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize(("tiles_m", "tiles_n"), [(6, 4), (5, 12), (14, 9), (9, 14)])
def test_tiles_that_are_taken_twice_are_found_where_both_sides_have_several(tmp_path, tiles_m, tiles_n):
    text = OF_LARGE_TILES.replace("TILES_M", str(tiles_m)).replace("TILES_N", str(tiles_n))
    write(tmp_path / "tiles.cu", text)
    cases = [case for case in EMULATED_ALONE if case.shape.m >= 640 and case.shape.k <= 3 and not case.blocks]
    record = emulated(tmp_path, tmp_path / "tiles.cu", cases)
    assert (record["status"], record["message"].count("race")) == ("failed", 1), record["message"]


# A rung that numbers its tiles as tile_of_block does.
OF_GROUPS = """#include "gemm.cuh"
__global__ void multiply(Gemm g) {
  unsigned tiles_m = ceil_div(g.m, 16), tiles_n = ceil_div(g.n, 16), number = blockIdx.x;
  unsigned first = number / (8 * tiles_n) * 8, rows = tiles_m - first < 8 ? tiles_m - first : 8;
  unsigned index = number % (8 * tiles_n);
  int row = (first + index % rows) * 16 + threadIdx.y, col = index / rows * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int p = 0; row < g.m && col < g.n && p < g.k; ++p) sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  if (row < g.m && col < g.n) store_result(g, row, col, sum);
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(multiply, tile_grid(g, 16, 16), dim3(16, 16), 0, stream, g);
}
EXPORT_SGEMM(run)
"""


@pytest.mark.parametrize("changed", ["", "tiles_m", "tiles_n"])
def test_blocks_that_write_nothing_are_found_where_a_number_of_tiles_has_16_bits(tmp_path, changed):
    narrow = f"  {changed} = static_cast<unsigned short>({changed});\n" if changed else ""
    text = OF_GROUPS.replace("  unsigned first", f"{narrow}  unsigned first")
    record = emulated(tmp_path, write(tmp_path / "groups.cu", text), [replace(case, blocks=64) for case in TALL])
    assert record["status"] == ("failed" if changed else "emulated"), record["message"]
    assert ("too few to write" in record["message"]) == bool(changed)


def test_the_version_of_gxx_is_asked_for(tmp_path, monkeypatch):
    tool = tmp_path / "g++"
    tool.write_text("#!/bin/sh\necho 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert emulator.why_no_emulator() == "the emulator needs g++ 12 or newer; here is 9"


@pytest.mark.parametrize(
    "answer",
    ["exit 127", "echo", "echo Ubuntu clang version 15", "kill -9 $$"],
    ids=["fails", "silent", "odd", "killed"],
)
def test_a_gxx_that_tells_no_version_is_told_apart_from_none(tmp_path, monkeypatch, answer):
    needs = "the emulator needs g++ 12 or newer; "
    monkeypatch.setenv("PATH", f"{tmp_path}")
    assert emulator.why_no_emulator() == f"{needs}there is none"
    write(tmp_path / "g++", f"#!/bin/sh\n{answer}\n").chmod(0o755)
    assert emulator.why_no_emulator().startswith(f"{needs}the g++ on the PATH does not tell its version")


def test_what_nvcc_includes_before_a_source_need_not_be_included(tmp_path):
    text = (ROOT / "tests/kernels/sound.cu").read_text()
    uses = 'assert(g.m < INT_MAX);\n  if (isalpha(g.k) && time(nullptr) < clock()) fprintf(stderr, "printed");'
    text = text.replace("  return launch(", f"  {uses}\n  return launch(")
    assert uses in text
    record = emulated(tmp_path, write(tmp_path / "implied.cu", text), CASES[:1])
    assert record["status"] == "emulated", record["message"]


@pytest.mark.parametrize("name", ["__of_no_emulator", "ours::of_no_emulator"])
def test_a_function_that_the_emulator_lacks_is_told_by_its_name_and_place(tmp_path, name):
    text = (ROOT / "tests/kernels/sound.cu").read_text().replace("float sum = 0.0f;", f"float sum = {name}();")
    record = emulated(tmp_path, write(tmp_path / "lacks.cu", text), CASES[:1])
    lacks = f"the emulator cannot run {name.partition('::')[0]}; it has nothing of that name: leave it out"
    assert record["status"] == "needs a GPU"
    assert record["message"] == f"{tmp_path}/lacks.cu:13:15: {lacks}, or check it on a GPU"


def test_a_function_of_another_file_is_told_to_be_included(tmp_path):
    record = emulated(tmp_path, ROOT / "tests/kernels/undefined_symbol.cu", CASES[:1])
    assert record["status"] == "needs a GPU"
    assert record["message"].endswith(
        ": defined_nowhere is declared, and nothing that the source includes defines it; "
        "a rung is compiled from one file: include the file that has it"
    )


def test_the_engine_and_the_headers_are_empty_files_where_the_compiler_is_old_and_one_line_where_there_is_none(
    tmp_path, monkeypatch
):
    made = tmp_path / "engine.o", tmp_path / "emulator_launch.h.gch"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert line_of(emulator.compile_engine, *made).startswith("g++: not found; install it")
    write(tmp_path / "g++", "#!/bin/sh\necho 9\n").chmod(0o755)
    emulator.compile_engine(*made)
    assert [path.read_bytes() for path in made] == [b"", b""]


def test_headers_that_were_compiled_are_not_read_again(tmp_path, monkeypatch):
    folder = tmp_path / "emulator"
    shutil.copytree(emulator.EMULATOR, folder)
    for name, path in {
        "EMULATOR": folder,
        "ENGINE": folder / "emulator.cpp",
        "HEADER": folder / "emulator_launch.h",
    }.items():
        monkeypatch.setattr(emulator, name, path)
    engine, headers = tmp_path / "engine.o", tmp_path / "emulator_launch.h.gch"
    emulator.compile_engine(engine, headers)
    (folder / "emulator_launch.h").write_text("#error read again\n")
    source = ROOT / "kernels/sgemm/tiled.cu"
    compiled = [source, {"TILE": "8"}, tmp_path / "rung.so", source.parent, engine]
    assert not emulator.compile_for_emulator(*compiled)
    headers.unlink()
    assert "read again" in emulator.compile_for_emulator(*compiled)


def test_an_engine_that_does_not_compile_ends_the_run_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "emulator.cpp").write_text("no engine\n")
    monkeypatch.setattr(emulator, "ENGINE", tmp_path / "emulator.cpp")
    text = line_of(emulator.compile_engine, tmp_path / "engine.o", tmp_path / "emulator_launch.h.gch")
    assert "emulator.cpp:1:1: error: " in text
