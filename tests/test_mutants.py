"""Mutants: what each operator makes, how they are drawn and recorded, and that the record and its page are of today."""

import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
import record_mutants
import recording
from conftest import a_build, a_device, a_where, line_of, write
from ladder.build.emulator import NEEDS_GPU
from ladder.config.documents import read_yaml
from ladder.config.plan import plan
from ladder.model.cases import Case
from ladder.model.shape import Shape
from ladder.records import store
from ladder.system.paths import ROOT
from mutants import Mutant, by_universalmutator, drawn, mutant, mutants_of
from mutation_operators import OPERATORS, Code, Edit
from record_mutants import (
    EQUIVALENT,
    KILLED,
    SPEED,
    SURVIVED,
    Bench,
    Recording,
    Searches,
    configured,
    explained,
    explained_verdict,
    ladder,
    why,
    wilson,
)

# What each operator makes of a line: the line, and all that becomes of it.
MADE = {
    "barrier dropped": (
        "__syncthreads(); block.sync(); int sync = 1;",
        ["; block.sync(); int sync = 1;", "__syncthreads(); ; int sync = 1;"],
    ),
    "arrival dropped": ("mbarrier_arrive(&full[0]);", [";"]),
    "fence dropped": ("*to = x; __threadfence();", ["*to = x; ;"]),
    "wait dropped": ("__pipeline_wait_prior(0);", [";"]),
    "commit dropped": ("wgmma_commit();", [";"]),
    "wait leaves one more": (
        "__pipeline_wait_prior(N - 2); wgmma_wait<0>();",
        ["__pipeline_wait_prior(N - 2 + 1); wgmma_wait<0>();", "__pipeline_wait_prior(N - 2); wgmma_wait<1>();"],
    ),
    "mask narrowed": (
        "__shfl_sync(0xFFFFFFFF, x, 0);",
        ["__shfl_sync(0x7FFFFFFF, x, 0);", "__shfl_sync(0x0000FFFF, x, 0);"],
    ),
    "atomic dropped": ("atomicAdd(p, 1); int old = atomicAdd(p, 1);", ["; int old = atomicAdd(p, 1);"]),
    "volatile dropped": ("volatile float x;", [" float x;"]),
    "end included": (
        "for (int i = 0; i < n; ++i) f<4>(a >= b);",
        ["for (int i = 0; i <= n; ++i) f<4>(a >= b);", "for (int i = 0; i < n; ++i) f<4>(a > b);"],
    ),
    "guard left out": ("if (row >= g.m) { return; } if (x) { y(); }", ["if (false) { return; } if (x) { y(); }"]),
    "condition always true": ("if (row < g.m) { y(); }", ["if (true) { y(); }"]),
    "condition never true": ("if (row < g.m) { y(); }", ["if (false) { y(); }"]),
    "part of condition forgotten": (
        "x = (a < m && b < n) ? p : q;",
        ["x = (a < m ) ? p : q;", "x = ( b < n) ? p : q;"],
    ),
    "choice forgotten": ("x = a < n ? *A : 0.0f;", ["x = a < n || true ? *A : 0.0f;"]),
    "tail forgotten": (
        "f(ceil_div(m, BM), (n + 255) / 256);",
        ["f(((m) / (BM)), (n + 255) / 256);", "f(ceil_div(m, BM), (n) / 256);"],
    ),
    "limit forgotten": ("x = min(row, g.m - 1);", ["x = (row);", "x = (g.m - 1);"]),
    "index one off": (
        "int x[2]; t[i][j] = 0;",
        [f"int x[2]; t{changed} = 0;" for changed in ("[i + 1][j]", "[i - 1][j]", "[i][j + 1]", "[i][j - 1]")],
    ),
    "leading dimension swapped": ("x = g.lda;", ["x = g.ldb;", "x = g.k;"]),
    "index swapped": (
        "f(row, tile_A, thread.x);",
        ["f(col, tile_A, thread.x);", "f(row, tile_B, thread.x);", "f(row, tile_A, thread.y);"],
    ),
    "stage swapped": (
        "f(now, frag[(p + 1) % 2], frag[p % 2], STAGES);",
        [
            "f(next, frag[(p + 1) % 2], frag[p % 2], STAGES);",
            "f(now, frag[p % 2], frag[p % 2], STAGES);",
            "f(now, frag[(p + 1) % 2], frag[(p + 1) % 2], STAGES);",
            "f(now, frag[(p + 1) % 2], frag[p % 2], (STAGES - 1));",
        ],
    ),
    "alpha forgotten": ("c = g.alpha * sum;", ["c = sum;", "c = g.beta * sum;"]),
    "beta forgotten": ("c = g.beta * *c;", ["c = *c;", "c = g.alpha * *c;"]),
    "narrowed to 32 bits": ("int64_t i = 0;", ["int i = 0;"]),
    "narrowed to 16 bits": ("int row = tile.row;", ["short row = tile.row;"]),
    "factor rounded to tf32": (
        "sum += a * b;",
        ["sum += __uint_as_float(__float_as_uint(a) + 0x1000u & 0xFFFFE000u) * b;"],
    ),
    "factor rounded to bf16": (
        "x = fmaf(a, b, c);",
        ["x = fmaf(__uint_as_float(__float_as_uint(a) + 0x8000u & 0xFFFF0000u), b, c);"],
    ),
    "factor rounded to half": (
        "sum += a * b;",
        [
            "sum += (fabsf(a) < 6.103515625e-5f ? rintf(a * 16777216.0f) / 16777216.0f : fminf(fmaxf("
            "__uint_as_float(__float_as_uint(a) + 0x1000u & 0xFFFFE000u), -65504.0f), 65504.0f)) * b;"
        ],
    ),
    "shared array one smaller": (
        "__shared__ float tile[BM][BK];",
        ["__shared__ float tile[BM - 1][BK];", "__shared__ float tile[BM][BK - 1];"],
    ),
    "alignment left out": ("alignas(16) float x[4];", [" float x[4];"]),
    "initialisation left out": (
        "float sum[4] = {}; int n = 0;",
        ["float sum[4]; int n = 0;", "float sum[4] = {}; int n;"],
    ),
    "memset left out": ("return cudaMemsetAsync(p, 0, 4, s);", ["return cudaSuccess;"]),
    "stream left out": ("launch(k, grid, block, 0, stream, g);", ["launch(k, grid, block, 0, nullptr, g);"]),
    "error swallowed": ("return launch(k, stream, g);", ["launch(k, stream, g); return cudaSuccess;"]),
    "workspace one smaller": ("return sizeof(float) * m * n;", ["return -4 + sizeof(float) * m * n;"]),
    "ptx instruction dropped": (
        'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
        ['asm volatile("" ::: "memory");'],
    ),
    "parity flipped": ("mbarrier_wait(&full[0], parity);", ["mbarrier_wait(&full[0], (parity) ^ 1);"]),
    "count changed": ("mbarrier_init(b, 4);", ["mbarrier_init(b, (4) + 1);", "mbarrier_init(b, (4) - 1);"]),
    "clobber dropped": ('asm("bar;" ::"r"(x) : "memory");', ['asm("bar;" ::"r"(x));']),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_makes_what_its_name_says(name):
    line, expected = MADE[name]
    made = [line[: edit.start] + edit.new + line[edit.end :] for edit in OPERATORS[name](Code(line))]
    assert sorted(made) == sorted(expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_leaves_comments_and_directives_alone(name):
    line, _ = MADE[name]
    assert list(OPERATORS[name](Code(f"// {line}\n#define X {line}\nstatic_assert({line.partition(';')[0]});\n"))) == []


def test_universalmutator_changes_code_and_neither_comments_nor_directives():
    text = "// a + b\n#define X 1\nstatic_assert(1 < 2);\nx = a + b;\n"
    made = {kind: text[edit.start : edit.end] for kind, edit in by_universalmutator(Code(text))}
    assert set(made.values()) == {"x = a + b;\n"}
    assert {"arithmetic changed", "a line left out", "a jump inserted"} <= set(made)


def test_without_universalmutator_one_line_says_where_it_comes_from(monkeypatch):
    monkeypatch.setitem(sys.modules, "universalmutator.mutator", None)
    assert "envs/mutants.txt" in line_of(list, by_universalmutator(Code("x = a + b;\n")))


# A mutant is the lines that it changes


SOURCE = "int f() {\n  return 1;\n}\nint g() {\n  return 1;\n}\n"


def test_a_mutant_is_put_together_from_its_lines():
    start = SOURCE.rindex("1")
    one = mutant(Code(SOURCE), "f.cu", "a number changed", Edit(start, start + 1, "2"))
    assert (one.line, one.nth, one.old, one.new) == (5, 1, "  return 1;\n", "  return 2;\n")
    assert one.apply(SOURCE) == SOURCE[:start] + "2" + SOURCE[start + 1 :]
    assert Mutant.of(one.as_record()) == one


def test_a_mutant_is_found_again_where_comments_have_moved_it():
    one = Mutant("f.cu", 5, 1, "a number changed", "  return 1;\n", "  return 2;\n")
    moved = one.apply(f"// one\n// two\n{SOURCE}")
    assert moved.endswith("int g() {\n  return 2;\n}\n")
    assert moved.count("return 1") == 1


def test_a_mutant_of_other_lines_is_refused():
    one = Mutant("f.cu", 5, 1, "a number changed", "  return 3;\n", "  return 2;\n")
    assert line_of(one.apply, SOURCE).startswith("f.cu:5: is not what mutant ")


# What is drawn


@pytest.fixture(scope="module")
def rungs():
    return ladder(configured())


def test_a_seed_draws_the_same_mutants_and_another_seed_others(rungs):
    naive = rungs["naive"][0]
    first, again, other = (drawn(naive, seed) for seed in (1, 1, 2))
    assert first == again
    assert first[:20] != other[:20]
    assert {one.id for one in first} == {one.id for one in other}


def test_operators_take_turns_and_every_second_mutant_is_of_cudas_own(rungs):
    first = drawn(rungs["tiled"][0], 1)[:40]
    assert [one.operator in OPERATORS for one in first] == [True, False] * 20
    assert len({one.operator for one in first if one.operator in OPERATORS}) == 20


def test_every_mutant_changes_what_a_compiler_sees_and_no_two_are_one(rungs):
    path = ROOT / "kernels/sgemm/tiled.cu"
    made = [one for some in mutants_of(path).values() for one in some]
    texts = {one.apply(path.read_text()) for one in made}
    assert len(texts) == len(made)
    assert path.read_text() not in texts


# What becomes of them


@pytest.fixture
def bench(tmp_path):
    return Bench(configured(), tmp_path, Searches())


def in_tiled(old: str, new: str) -> Mutant:
    """A mutant of tiled.cu by a part of one line."""
    text = (ROOT / "kernels/sgemm/tiled.cu").read_text()
    start = text.index(old)
    return mutant(Code(text), "tiled.cu", "by hand", Edit(start, start + len(old), new))


def test_a_wrong_mutant_is_found_and_one_that_does_not_compile_is_none(bench, rungs):
    found = bench.emulated(rungs["tiled"][:1], in_tiled("tx < k_left", "true"))
    assert (found["verdict"], found["detector"], found["kind"]) == (KILLED, "emulator", "out of bounds")
    assert bench.emulated(rungs["tiled"][:1], in_tiled("int tx =", "int =")) is None


def test_a_header_that_is_compiled_beforehand_is_changed_too(bench, rungs):
    text = (ROOT / "kernels/include/gemm.cuh").read_text()
    start = text.index("g.alpha * sum :")
    one = mutant(Code(text), "gemm.cuh", "alpha forgotten", Edit(start, start + len("g.alpha * "), ""))
    assert bench.emulated(rungs["tiled"][:1], one)["kind"] == "values"


@pytest.mark.parametrize(
    ("old", "new"), [("if (launch_observer != nullptr) {", "if (false) {"), ("int observed_sms", "short observed_sms")]
)
def test_a_launch_that_is_not_told_and_a_variable_that_is_too_short_to_be_set_are_found(bench, rungs, old, new):
    text = (ROOT / "kernels/include/launch.cuh").read_text()
    start = text.index(old)
    one = mutant(Code(text), "launch.cuh", "condition never true", Edit(start, start + len(old), new))
    assert bench.emulated(rungs["naive"][:1], one)["kind"] == "launch"


@pytest.mark.parametrize(("old", "new"), [("if (launch_observer != nullptr) {", "if (false) {"), ("12000", "11080")])
def test_a_launch_that_is_told_otherwise_without_a_driver_or_of_its_older_version_is_found(bench, rungs, old, new):
    text = (ROOT / "kernels/include/bulk_copy.cuh").read_text()
    start = text.index(old)
    one = mutant(Code(text), "bulk_copy.cuh", "by hand", Edit(start, start + len(old), new))
    tma = rungs["tma"][:1]
    bench.cases[tma[0].name] = [case for case in bench.cases_of(tma[0]) if case.probe == "observed"]
    assert bench.emulated(tma, one)["kind"] == "launch"


def test_a_first_number_that_is_read_instead_of_a_zero_is_found(bench, rungs):
    tiled = rungs["tiled"][:1]
    bench.cases[tiled[0].name] = [case for case in bench.cases_of(tiled[0]) if case.family == "nonfinite_first"]
    assert bench.emulated(tiled, in_tiled("? *B : 0.0f", "? *B : *g.B"))["kind"] == "values"


def test_room_for_results_of_a_large_tile_that_is_too_small_is_found(bench, rungs):
    text = (ROOT / "kernels/include/copying_warps.cuh").read_text()
    start = text.index("sizeof(float) * (T::RING + T::STAGED)")
    one = mutant(Code(text), "copying_warps.cuh", "workspace one smaller", Edit(start, start, "-4 + "))
    fastest = rungs["fastest"][:1]
    unaligned = [case for case in bench.cases_of(fastest[0]) if case.blocks and case.sms == 1 and case.shape.k == 96]
    assert len(unaligned) == 1
    bench.cases[fastest[0].name] = unaligned
    assert bench.emulated(fastest, one)["kind"] == "out of bounds"


def test_what_the_search_for_branches_finds_in_a_rung_is_asked_of_its_mutants(rungs, tmp_path, monkeypatch):
    added, asked, searches = Case(Shape(1, 2, 3)), [], Searches()

    def other_branches(rung, *_):
        asked.append(rung.name)
        return [added]

    monkeypatch.setattr(record_mutants, "other_branches", other_branches)
    for folder in ("one", "other"):
        bench = Bench(configured(), tmp_path / folder, searches)
        assert bench.cases_of(rungs["naive"][0])[-1] == added
    assert asked == ["naive"]


def test_a_mutant_of_the_same_machine_code_is_equivalent_and_one_of_other_code_is_not(bench, rungs):
    tiled = rungs["tiled"][:1]
    assert bench.compared(tiled, in_tiled("k_left > 0", "0 < k_left"))["code"] == "same"
    assert bench.compared(tiled, in_tiled("p < TILE", "p < TILE - 1"))["verdict"] == SURVIVED
    host = in_tiled("0, stream, g);", "0, nullptr, g);")
    assert bench.compared(tiled, host) == {"verdict": SURVIVED, "code": "other"}
    assert bench.compared(tiled, in_tiled("int tx =", "int =")) is None
    text = (ROOT / "kernels/include/launch.cuh").read_text()
    start = text.index("int observed_sms")
    exported = mutant(Code(text), "launch.cuh", "narrowed to 16 bits", Edit(start, start + len("int"), "short"))
    assert bench.compared(tiled, exported) == {"verdict": SURVIVED, "code": "other"}


def test_what_is_the_same_code_in_the_emulator_is_not_run(bench, rungs, monkeypatch):
    monkeypatch.setattr(record_mutants, "emulate_library", lambda *_, **__: pytest.fail("it is run"))
    found = bench.emulated(rungs["tiled"][:1], in_tiled("k_left > 0", "0 < k_left"))
    assert (found["verdict"], found["kind"]) == (SURVIVED, "")


class Tried(Bench):
    """A bench that kills all but the third, which does not compile, and breaks off at the fifth."""

    tried: ClassVar[list[str]] = []

    def emulated(self, rungs, one):
        self.tried.append(one.id)
        if len(self.tried) == 5:
            raise KeyboardInterrupt
        killed = {"verdict": KILLED, "detector": "emulator", "kind": "race", "seconds": 0.1}
        return None if len(self.tried) == 3 else killed

    def emulates(self, rung):
        return True


@pytest.fixture
def recorder(monkeypatch, tmp_path, rungs):
    """Recording of one rung's mutants, eight of them, into a folder of the test; returns the path of the record."""
    monkeypatch.setattr(record_mutants, "FOLDER", tmp_path)
    monkeypatch.setattr(record_mutants, "MUTANTS", 8)
    monkeypatch.setattr(record_mutants, "Bench", Tried)
    monkeypatch.setattr(record_mutants, "ladder", lambda run: {"naive": rungs["naive"]})
    monkeypatch.setattr(record_mutants, "explained", dict)  # nothing, whichever mutants are drawn
    monkeypatch.setattr(Tried, "tried", [])
    return tmp_path / "naive.json"


def test_a_run_that_is_broken_off_loses_nothing_and_the_next_goes_on(recorder, rungs):
    with pytest.raises(KeyboardInterrupt):
        record_mutants.record_emulator(workers=1)
    held = store.read_json(recorder)
    assert (len(held["mutants"]), sum(map(len, held["not_compiled"].values()))) == (3, 1)
    record_mutants.record_emulator(workers=1)
    found = store.read_json(recorder)
    assert found["seed"] == held["seed"]
    assert found["mutants"][:3] == held["mutants"]
    assert len({each["id"] for each in found["mutants"]}) == 8
    assert [one.id for one in drawn(rungs["naive"][0], found["seed"])[:4]] == Tried.tried[:4]
    assert len(Tried.tried) == 10  # the fifth twice
    record_mutants.record_emulator(workers=1)
    assert len(Tried.tried) == 10


def test_several_workers_try_mutants_of_one_rung_at_once(recorder, monkeypatch):
    both = threading.Barrier(2, timeout=60)

    def emulated(self, rungs, one):
        both.wait()
        return {"verdict": KILLED, "detector": "emulator", "kind": "race", "seconds": 0.1}

    monkeypatch.setattr(Tried, "emulated", emulated)
    record_mutants.record_emulator(workers=2)
    assert len({each["id"] for each in store.read_json(recorder)["mutants"]}) == 8


def test_next_is_a_mutant_of_the_rung_of_which_the_fewest_were_tried(recorder, rungs, monkeypatch):
    monkeypatch.setattr(record_mutants, "ladder", lambda run: {name: rungs[name] for name in ("naive", "coalesced")})
    first = Recording("naive", rungs["naive"])
    for one in drawn(rungs["naive"][0], first.record["seed"])[:5]:
        first.keep(one, {"verdict": KILLED, "detector": "emulator", "kind": "", "seconds": 1})
    tried = []

    def emulated(self, rungs, one):
        tried.append(rungs[0].entry)
        return {"verdict": KILLED, "detector": "emulator", "kind": "race", "seconds": 0.1}

    monkeypatch.setattr(Tried, "emulated", emulated)
    record_mutants.record_emulator(workers=1)
    assert tried[:5] == ["coalesced"] * 5
    assert tried.count("coalesced") == 8
    assert tried.count("naive") == 3


def test_a_record_of_other_sources_is_begun_anew_with_a_new_seed(recorder, rungs):
    held = {
        "rung": "naive",
        "seed": 1,
        "where": {},
        "sources": {"naive.cu": "other"},
        "not_compiled": {},
        "mutants": [],
    }
    store.write_json(recorder, held)
    assert Recording("naive", rungs["naive"]).record["seed"] != 1


def test_a_rung_that_the_emulator_cannot_run_has_no_mutants(recorder, monkeypatch):
    monkeypatch.setattr(Tried, "emulate", lambda *_: NEEDS_GPU)
    monkeypatch.setattr(Tried, "emulated", Bench.emulated)
    monkeypatch.setattr(Tried, "emulates", Bench.emulates)
    record_mutants.record_emulator(workers=1)
    assert not recorder.exists()


def test_what_survived_is_tried_again_and_stays_known_for_it(recorder, rungs):
    each = Recording("naive", rungs["naive"])
    one = each.next()
    each.keep(one, {"verdict": SURVIVED, "detector": "", "kind": "", "seconds": 1})
    record_mutants.record_again()
    (entry,) = store.read_json(recorder)["mutants"]
    assert (entry["id"], entry["verdict"], bool(entry["again"])) == (one.id, KILLED, True)


# The record and its page


RECORDS = sorted((ROOT / "tests/mutants").glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_of_the_present_sources_and_every_mutant_can_be_made_from_it(path, rungs):
    each = Recording(path.stem, rungs[path.stem])
    assert store.read_json(path)["sources"] == each.digests, "record them again: make mutants"
    texts = {source.name: source.read_text() for source in record_mutants.sources(each.rungs[0])}
    for entry in each.record["mutants"]:
        one = Mutant.of(entry)
        assert (one.id, one.apply(texts[one.file]) != texts[one.file]) == (entry["id"], True)
        assert entry["verdict"] in (KILLED, SURVIVED, EQUIVALENT)
        assert (entry["verdict"] == KILLED) == bool(entry["detector"] and entry["kind"])


def test_every_recording_has_a_seed_of_its_own():
    seeds = [store.read_json(path)["seed"] for path in RECORDS]
    assert len(set(seeds)) == len(seeds)


def test_the_interval_of_a_share():
    assert wilson(97, 100) == pytest.approx((0.9155, 0.9897), abs=1e-4)
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_an_explanation_is_of_a_survivor_of_one_rung_or_of_all(monkeypatch, tmp_path):
    text = "- speed: slower.\n  mutants: [all 1, naive 2]\n- lacks: nothing.\n  mutants: [tiled 2]\n"
    monkeypatch.setattr(record_mutants, "EXPLAINED", write(tmp_path / "explained.yaml", text))
    told = explained()
    survived = [{"id": number, "verdict": SURVIVED} for number in "123"]
    found = {rung: [explained_verdict(one, why(told, rung, one)) for one in survived] for rung in ("naive", "tiled")}
    assert found == {"naive": [SPEED, SPEED, SURVIVED], "tiled": [SPEED, SURVIVED, SURVIVED]}
    killed = {"id": "1", "verdict": KILLED}
    assert explained_verdict(killed, why(told, "naive", killed)) == KILLED


def test_an_explanation_of_a_mutant_that_is_not_recorded_is_refused(monkeypatch, tmp_path):
    told = write(tmp_path / "explained.yaml", "- equivalent: the same.\n  mutants: [naive 00000000]\n")
    monkeypatch.setattr(record_mutants, "EXPLAINED", told)
    assert "naive 00000000: no such mutant is recorded" in line_of(record_mutants.mutants)


def test_mutants_on_gpus_are_of_the_defaults_of_the_sources(monkeypatch):
    asked = []

    def record_as(name, on_gpu, gpus, **sections):
        run = plan(read_yaml(ROOT / "config/config.yaml") | {"measure": False} | sections)
        asked.append((name, gpus, run.shapes, any(rung.tuned for rung in run.rungs)))

    monkeypatch.setattr(record_mutants, "record_as", record_as)
    record_mutants.record_gpu(1)
    assert asked == [(record_mutants.ON_GPU.name, None, (Shape.parse("1024"),), False)]


def test_mutants_are_seen_on_every_gpu_and_timed_on_the_first(tmp_path, monkeypatch):
    mutants = [{"id": str(number), "verdict": "killed"} for number in range(6)]

    class OnStandIn:
        def __init__(self, run, folder, recording, entry):
            self.entry = entry

        def seen(self, turn):
            with turn:
                time.sleep(0.05)
            return None if self.entry["id"] == "3" else {"detector": "check", "message": "wrong", "wall_s": 1.0}

        def timed(self, references):
            assert {*references, "vectorized"} >= set(run.side_by_side("vectorized")) > {"vectorized"}
            return {"detector": "", "message": "", "wall_s": 2.0}

    gpus = tuple(a_device(uuid=f"GPU-{number}") for number in range(2))
    run = replace(record_mutants.configured(), results=tmp_path, devices=gpus)
    here = SimpleNamespace(entry="naive", record={"mutants": mutants}, rungs=[run.by_name("vectorized")])
    build = SimpleNamespace(record={"nvcc": "1"})
    for name, stand_in in {
        **{"OnGpu": OnStandIn, "ladder": lambda run: {"naive": []}, "Recording": lambda entry, rungs: here},
        **{"compiled": lambda run, folder: {rung.name: build for rung in run.needed}},
        **{"environment": lambda *asked: {"gpu": "one"}, "CORES": 4},
    }.items():
        monkeypatch.setattr(record_mutants, name, stand_in)
    monkeypatch.setattr(recording, "CORES", 4)
    found = {each["id"]: each for each in record_mutants.on_gpu(run, tmp_path, 1e6)["entries"]}
    assert sorted(found) == [entry["id"] for entry in mutants]
    assert found["3"].pop("cases")
    assert found["3"] == {"rung": "naive", "id": "3", "detector": "", "message": "", "wall_s": 2.0, "gpu": "GPU-0"}
    assert {each["gpu"] for each in found.values()} == {"GPU-0", "GPU-1"}
    assert all(each["detector"] == "check" for number, each in found.items() if number != "3")


def test_what_survives_unexplained_is_tried_on_gpus_first_and_the_record_grows_with_each(tmp_path, monkeypatch):
    verdicts = [KILLED, SURVIVED, SURVIVED, SURVIVED, EQUIVALENT]
    mutants = [{"id": str(number), "verdict": verdict} for number, verdict in enumerate(verdicts)]
    told = {"naive 1": {"equivalent": "the same"}, "naive 2": {"speed": "slower"}}
    run = replace(record_mutants.configured(), results=tmp_path, devices=(a_device(),))
    path, grown = run.raw() / record_mutants.ON_GPU.name, []

    class OnStandIn:
        def __init__(self, run, folder, recording, entry):
            self.entry = entry

        def seen(self, turn):
            return None

        def timed(self, references):
            grown.append([each["id"] for each in store.read_record(path)["entries"]] if path.exists() else [])
            return {"detector": "", "message": "", "wall_s": 1.0}

    here = SimpleNamespace(entry="naive", record={"mutants": mutants}, rungs=[run.by_name("naive")])
    for name, stand_in in {
        **{"OnGpu": OnStandIn, "ladder": lambda run: {"naive": []}, "Recording": lambda entry, rungs: here},
        **{"compiled": lambda run, folder: {rung.name: SimpleNamespace(record={}) for rung in run.needed}},
        **{"environment": lambda *asked: a_where(), "explained": lambda: told, "CORES": 2},
    }.items():
        monkeypatch.setattr(record_mutants, name, stand_in)
    monkeypatch.setattr(recording, "CORES", 2)
    record_mutants.on_gpu(run, tmp_path, 1e6)
    assert grown == [[], ["3"], ["3", "2"], ["3", "2", "0"]]
    assert [each["id"] for each in store.read_record(path)["entries"]] == ["3", "2", "0", "1"]

    grown.clear()
    record_mutants.on_gpu(run, tmp_path, 1e6)
    assert not grown
    monkeypatch.setattr(type(run), "cases", lambda self, name="": [])
    record_mutants.on_gpu(run, tmp_path, 1e6)
    assert [(each["id"], "again" in each) for each in store.read_record(path)["entries"]] == [
        *(("0", False), ("3", True), ("2", True), ("1", True))
    ]


def test_a_mutant_is_checked_on_a_gpu_with_drawn_cases_too_until_one_is_wrong(tmp_path, monkeypatch):
    run = record_mutants.configured()
    rung, seen = run.by_name("naive"), []

    def check_rung(made, cases, *rest, until_wrong):
        seen.append((cases, until_wrong))
        return {"status": "failed", "message": "wrong"}

    monkeypatch.setattr(record_mutants, "check_rung", check_rung)
    monkeypatch.setattr(record_mutants.OnGpu, "builds", lambda self: [(rung, a_build(tmp_path / "naive"))])
    for number in ("00000001", "00000001", "00000002"):
        one = record_mutants.OnGpu(run, tmp_path, SimpleNamespace(), {"id": number})
        found = one.seen(nullcontext())
        assert (found["detector"], found["message"]) == ("check", "wrong")
    first, again, other = (cases for cases, _ in seen)
    assert first == again != other
    assert first[: len(run.cases("naive"))] == run.cases("naive")
    assert all(case.drawn for case in first[len(run.cases("naive")) :])
    assert all(until_wrong for _, until_wrong in seen)


def test_what_a_gpu_kills_counts_beside_the_emulator(tmp_path, monkeypatch):
    survivor, other = ({"rung": each["rung"], "id": each["id"]} for each in record_mutants.mutants()["survivors"][:2])
    gpu = {"where": {}, "entries": [survivor | {"detector": "check"}, other | {"detector": ""}]}
    store.write_json(tmp_path / "mutants.json", {"stage": "mutants", **gpu})
    monkeypatch.setattr(record_mutants, "ON_GPU", tmp_path / "mutants.json")
    found = record_mutants.mutants()
    assert found["both"]["killed"] == found["all"]["killed"] + 1
    assert found["both"]["survived"] == found["all"]["survived"] - 1
    assert [each["on_gpu"] and each["on_gpu"]["detector"] for each in found["survivors"][:3]] == ["check", "", None]
