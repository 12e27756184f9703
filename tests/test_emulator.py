"""The emulator passes what is right, over awkward shapes and seeds, and finds every fault of the corpus."""

import re
from itertools import product

import pytest
from corpus import CONTROLS, FAULTS, as_rung, expected, kind_of
from emulator import AWKWARD, RUNGS, SMALL, Case, compile_rung, run
from ladder.build.emulator import compile_for_emulator
from ladder.build.library import Library, Operands
from ladder.measure.check.probes import probe_case
from ladder.measure.check.worker import check_case
from ladder.measure.devices import EMULATED_SMS, EmulatedDevice
from ladder.model.cases import Case as ACase
from ladder.model.cases import emulated_runs
from ladder.model.shape import Shape
from ladder.records.store import read_json
from ladder.system.paths import ROOT
from record_faults import EMULATED, by_emulator

RECORDED = {entry["name"]: entry for entry in read_json(EMULATED)["entries"]}
SOUND = RUNGS + [control for control in CONTROLS if RECORDED[control.stem]["status"] == "emulated"]


def has_no_finding_and_one_result(library, case, precision="fp32", seeds=(1, 2)):
    """Asserts so; a seed is an order of threads and blocks."""
    results = set()
    for seed in seeds:
        result, kinds, report = run(library, case, seed, data=0, precision=precision)
        assert not kinds, f"{case} seed {seed}: {kinds} " + "\n".join(report)
        results.add(result)
    assert len(results) == 1, f"{case}: the order of threads and blocks changes the result"


@pytest.mark.parametrize("source", SOUND, ids=lambda p: p.stem)
def test_a_sound_kernel_has_no_finding_and_one_result(for_the_emulator, source, tmp_path):
    library, precision = Library(for_the_emulator(source)), as_rung(source, tmp_path).precision
    for case in AWKWARD:
        has_no_finding_and_one_result(library, case, precision, (1, 2, 3) if case in SMALL else (4,))


# Rows of C begin at multiples of 16 bytes, all at another place, or each at its own; and a beta.
ROWS_OF_C = [{}, {"offset": 1}, {"gaps": (0, 0, 1)}, {"gaps": (0, 0, 6), "offset": 3}, {"gaps": (0, 0, 3), "beta": 0.5}]


@pytest.mark.parametrize("tile", ["64,128,16,4,8,16,64,64", "32,32,32,3,4,4,32,16"])
@pytest.mark.parametrize("rows", ROWS_OF_C, ids=str)
def test_a_tile_of_fastest_is_stored_wherever_rows_of_C_begin_and_its_parts_add_up(for_the_emulator, tile, rows):
    library = Library(for_the_emulator(ROOT / "tests/kernels/tiles_of_fastest.cu", {"TILE": tile}))
    BM, BN, BK, *_ = map(int, tile.split(","))
    for case in (Case(BM + 3, 2 * BN, 2 * BK, 1.5, **rows), Case(BM, 2 * BN + 5, 3 * BK - 1, 1.5, **rows)):
        _, kinds, report = run(library, case, 1)
        assert not kinds, f"{case}: {kinds} " + "\n".join(report)


# Of a thin kernel the most rows or columns, or the longest k, and how its work is cut: among warps, and among blocks of
# clusters. What goes on between the blocks of a cluster is followed for 2 of them; 8 have too many threads for that.
THIN = [
    *(("launch_few_columns", most, cut) for most, cut in ((1, "{8,2},0"), (2, "{1,1},0"), (4, "{8,8},0"))),
    *(("launch_few_columns", most, cut) for most, cut in ((8, "{2,1},0"), (16, "{4,2},0"), (32, "{1,1},0"))),
    *(("launch_few_rows", most, cut) for most, cut in ((1, "{4,2},0"), (2, "{1,1},0"), (4, "{2,2},0"))),
    *(("launch_few_rows", most, cut) for most, cut in ((8, "{8,8},0"), (16, "{4,2},0"))),
    *(("launch_short_k", most, f"{{}},{rows}") for most, rows in ((4, 4), (8, 32), (16, 4), (32, 32))),
]


@pytest.mark.parametrize(("kernel", "most", "cut"), THIN, ids=str)
def test_a_thin_kernel_of_fastest_is_right_however_its_work_is_cut(for_the_emulator, kernel, most, cut):
    macros = {"KERNEL": f"{kernel}<{most}>", "CUT": cut}
    library = Library(for_the_emulator(ROOT / "tests/kernels/thin_ways_of_fastest.cu", macros))
    sides = {
        "launch_few_columns": [(37, most, 650), (70, (most + 1) // 2, 1030), (67, most, 532)],
        "launch_few_rows": [(most, 141, 300), ((most + 1) // 2, 67, 150)],
        "launch_short_k": [(131, 261, most), (70, 33, (most + 1) // 2)],
    }
    for m, n, k in sides[kernel]:
        for case in (Case(m, n, k, 1.5, 0.5, (1, 2, 3), 1), Case(m, n, k, -1.0)):
            has_no_finding_and_one_result(library, case)


# By way and parts, as one_tf32_product.cu chooses them: raw lines in small and square tiles, then aligned rows.
TF32 = [
    *(Case(m, 72, 261, 1.5, 0.5, (1, 2, 3), 1) for m in (68, 69, 70, 71)),
    *(Case(m, 133, 261, 1.5, 0.5, (1, 2, 3), 1) for m in (132, 133, 134, 135)),
    # raw lines of B alone, then of A alone; with heads that differ from row to row, or in pairs of rows, or not at all
    Case(26, 42, 252, -1.0, -1.25, (0, 1, 14), (0, 3, 6)),
    Case(68, 138, 132, -1.0, 0.0, (0, 2, 0)),
    Case(69, 72, 261, 1.5, 0.5),
    Case(70, 133, 258, -1.0, -1.25, (0, 3, 0)),
    Case(136, 192, 68, 1.5, 0.5, (0, 0, 0), (2, 0, 0)),
    Case(140, 133, 100, 1.5, 0.5, (0, 3, 0), (3, 1, 2)),
    Case(4, 6, 4, 1.5, 0.5, (1, 2, 0)),  # the fewest rows, columns and steps
    *(Case(m, 68, 260, 1.5, 0.5, (4, 8, 1)) for m in (68, 71)),
    *(Case(m, 129, 260, -1.0, 0.0, (0, 3, 3)) for m in (132, 135)),
    *(Case(m, 130, 260, 1.5, 0.5, (0, 2, 2)) for m in (68, 71)),
    *(Case(m, 131, 260, 1.5, 0.5, (0, 1, 1)) for m in (260, 263)),
]


@pytest.mark.parametrize("case", TF32, ids=str)
def test_a_tile_of_tf32_is_right_however_its_steps_are_cut(for_the_emulator, case):
    library = Library(for_the_emulator(ROOT / "tests/kernels/one_tf32_product.cu"))
    has_no_finding_and_one_result(library, case, "tf32")


# Edges on both sides; steps of k in one stage, in all stages, in more, and not whole ones. Rows of C are aligned to
# pairs, to vectors or not at all.
SHORT_TF32 = [
    *(Case(m, n, k, 1.5, beta, (0, 0, pad)) for m, n, k, beta, pad in ((130, 132, 20, 0, 0), (66, 68, 228, 0.5, 3))),
    *(Case(m, n, k, -1.0, beta, (0, 1, 1)) for m, n, k, beta in ((197, 67, 96, 0), (5, 131, 100, 0))),
    Case(70, 66, 64, 1.5, 0.0, (4, 2, 4), (0, 0, 2)),
]
# One warp with a part of its steps; as many as there are steps for; all of them, once and again.
TINY_TF32 = [
    Case(3, 2, 1, 1.5),
    Case(35, 67, 33, 1.5, 0.5, (1, 2, 3), (1, 3, 2)),
    Case(16, 32, 96, 1.5, 0.0, (0, 0, 0)),
    Case(33, 31, 255, -1.0, 0.0, (0, 1, 0), (0, 1, 0)),
    Case(47, 34, 263, 1.5, -0.5, (3, 0, 1)),
    Case(17, 9, 1061, 1.5, 0.5),
]


@pytest.mark.parametrize(
    ("way", "cases"),
    [
        *((f"launch_short<{tiling}>", SHORT_TF32) for tiling in ("ShortSquare", "ShortTall", "ShortSmall")),
        *((f"launch_tiny<{tiling}>", TINY_TF32) for tiling in ("Tiny", "TinyLong", "TinyTall")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tile_of_tf32_of_a_small_product_is_right(for_the_emulator, way, cases):
    library = Library(for_the_emulator(ROOT / "tests/kernels/one_tf32_product.cu", {"WAY": way}))
    for case in cases:
        has_no_finding_and_one_result(library, case, "tf32")


def test_a_wait_that_is_not_repeated_is_found(for_the_emulator, tmp_path):
    """try_wait may end before the phase is complete, and who goes on then meets what is still being written."""
    text = (ROOT / "tests/faults/control_mbarrier.cu").read_text()
    once = text.replace("while (!is_complete(barrier, parity)) {\n  }", "is_complete(barrier, parity);")
    assert once != text
    (tmp_path / "once.cu").write_text(once)
    library, case = Library(for_the_emulator(tmp_path / "once.cu")), Case(33, 36, 250)
    for seed in (1, 2, 3):
        _, kinds, _ = run(library, case, seed)
        assert "race" in kinds


RELAXED = """asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");"""


@pytest.mark.parametrize("before", ["", "cluster.sync();"], ids=["one barrier before", "two barriers before"])
@pytest.mark.parametrize("last", ["cluster.sync();", RELAXED, ""], ids=["a barrier", "a relaxed one", "none"])
def test_a_block_that_may_leave_while_others_read_its_shared_memory_is_found_in_whatever_order(
    for_the_emulator, tmp_path, before, last
):
    text = (ROOT / "tests/faults/control_cluster_group.cu").read_text().replace("BLOCKS = 4", "BLOCKS = 2")
    begins, ends = "  sums[threadIdx.x] = sum;\n", "  }\n  cluster.sync();\n}\n"
    assert text.count(begins) == text.count(ends) == 1
    changed = text.replace(begins, f"  {before}\n{begins}").replace(ends, f"  }}\n  {last}\n}}\n")
    source = tmp_path / f"cluster_{len(before)}_{len(last)}.cu"
    source.write_text(changed)
    library = Library(for_the_emulator(source))
    if last:
        has_no_finding_and_one_result(library, Case(33, 36, 250), seeds=(1, 2, 3))
        return
    for seed, k in product((1, 2, 3), (16, 250)):
        _, kinds, report = run(library, Case(33, 36, k), seed)
        assert "cluster" in kinds, report
        left = r"^cluster: .* (of a block that has left the kernel|may have left before); cluster_\d+_0\.cu:\d+"
        assert any(re.search(left, finding) for finding in report), report


def test_a_block_that_waits_long_for_many_copies_of_single_floats_is_no_deadlock(for_the_emulator):
    _, kinds, report = run(Library(for_the_emulator(ROOT / "kernels/sgemm/fastest.cu")), Case(33, 65, 613), 1)
    assert not kinds, "\n".join(report)


LARGE = [Case(130, 260, 148, 1.5, 0.5), Case(3, 520, 36, -1.0, 0.0, (4, 8, 1), (4, 0, 3)), Case(257, 4, 4, 1.0, 2.0)]


@pytest.mark.parametrize("case", [*LARGE, Case(9, 8, 100, family="nonfinite")], ids=str)
def test_a_large_tile_of_mma_3xtf32_is_right_at_the_edges(for_the_emulator, case):
    library = Library(for_the_emulator(ROOT / "tests/kernels/large_tiles_of_mma.cu"))
    has_no_finding_and_one_result(library, case, seeds=(1,) if case.family else (1, 2))


TILED = [Case(130, 260, 148, 1.5, 0.5), Case(257, 131, 300, -1.0, 2.0), Case(9, 8, 128)]


@pytest.mark.parametrize("case", TILED, ids=str)
def test_sections_of_multiply_adds_are_right_for_whichever_tiles(for_the_emulator, case):
    library = Library(for_the_emulator(ROOT / "tests/kernels/sections_of_multiply_adds.cu"))
    _, kinds, report = run(library, case, 1, data=0)
    assert not kinds, f"{case}: {kinds} " + "\n".join(report)


# What is said of a thread names the kernel, block, thread and line; what is said of a launch, the kernel. The other
# kinds have no such place: of values, and of an error that sgemm returned.
THREAD = r"[\w<>, ]+ block \(\d+,\d+,\d+\) thread \(\d+,\d+,\d+\) .*; \w+\.cuh?:\d+(; the other: \w+\.cuh?:\d+)?"
PLACED = re.compile(rf"(launch|stream|timeout): sgemm_kernel .*|[a-z ]+: (host code .*|{THREAD})")
PLACELESS = {"values", "nondeterminism", "capture", "error"}


CAUGHT = [fault for fault in FAULTS if by_emulator(fault, RECORDED[fault.stem])]


@pytest.mark.parametrize("source", CAUGHT, ids=lambda p: p.stem)
def test_a_fault_is_caught_by_the_case_that_showed_it(for_the_emulator, source_of, source, tmp_path):
    library = Library(for_the_emulator(source_of(source.stem)))
    recorded, declared = RECORDED[source.stem]["case"], as_rung(source, tmp_path).declared
    case, device = ACase.of(recorded), EmulatedDevice(threads=1, time_limit_s=30)
    check = probe_case if case.probe else check_case
    record = check(device, library, case, recorded["seed"], emulated_runs(case), **declared)
    assert kind_of(record["verdict"]) in expected(source), record["verdict"]
    assert kind_of(record["verdict"]) in PLACELESS or PLACED.fullmatch(record["verdict"])


def test_a_finding_names_kernel_block_thread_array_and_both_lines(for_the_emulator, source_of):
    _, _, report = run(Library(for_the_emulator(source_of("missing_first_barrier"))), Case(16, 16, 16), 1)
    line = r"missing_first_barrier\.cu:\d+"
    thread = r"block \(0,0,0\) thread \(\d+,\d+,0\)"
    pattern = rf"race: sgemm_kernel {thread} (reads|writes) tile_[AB] \+ \d+ bytes, .*{line}; the other: {line}"
    assert any(re.fullmatch(pattern, text) for text in report), report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('__global__ void k() { asm volatile("vote.s 0;"); }', "the emulator cannot run the PTX instruction `vote.s`"),
        ("#include <curand_kernel.h>", "curand_kernel.h"),
    ],
    ids=["inline PTX", "a header"],
)
def test_what_cannot_be_emulated_does_not_compile(tmp_path, text, message):
    source = tmp_path / "rung.cu"
    source.write_text('#include "gemm.cuh"\n' + text)
    assert message in compile_rung(source, tmp_path / "rung.so")


def test_a_rung_sees_the_number_of_sms_that_the_host_sets(tmp_path):
    source = tmp_path / "rung.cu"
    source.write_text(
        '#include "gemm.cuh"\ncudaError_t run(const Gemm&, void*, cudaStream_t) {\n'
        "  int sms = 0;\n  sm_count(&sms);\n  return static_cast<cudaError_t>(sms);\n}\nEXPORT_SGEMM(run)\n"
    )
    assert compile_rung(source, tmp_path / "rung.so") == ""
    library = Library(tmp_path / "rung.so")
    product = (Shape(1, 1, 1), 1.0, 0.0, Operands(0, 1, 0, 1, 0, 1))
    assert library.queue(*product) == EMULATED_SMS
    library.functions.emulator_set_sms(132)
    assert library.queue(*product) == 132


def test_fibers_work_without_assembly(tmp_path):
    target = tmp_path / "tiled.so"
    macros = {"EMULATOR_UCONTEXT": "1"}  # in the engine too, which is compiled with the rung
    assert compile_for_emulator(ROOT / "kernels/sgemm/tiled.cu", macros, target, ROOT / "kernels/sgemm") == ""
    for case in SMALL:
        assert not run(Library(target), case, 1)[1]


@pytest.mark.parametrize(
    ("alignment", "at"),
    [
        ("", 16),
        ("__align__(64)", 64),
        ("alignas(double2)", 16),
        ("__attribute__((aligned(256)))", 256),
        ("alignas(1024)", 0),
    ],
)
def test_dynamic_shared_memory_is_behind_the_kernels_own_and_aligned_as_declared(for_the_emulator, alignment, at):
    source = ROOT / "tests/kernels/dynamic_alignment.cu"
    library = Library(for_the_emulator(source, {"ALIGNMENT": alignment, "AT": str(at)}))
    _, kinds, found = run(library, Case(5, 7, 9), 1)
    assert not kinds, found
    elsewhere = Library(for_the_emulator(source, {"ALIGNMENT": alignment, "AT": str(at + 16)}))
    _, kinds, _ = run(elsewhere, Case(5, 7, 9), 1)
    assert kinds == {"values"}
