"""Tuning: what is legal, the search with its record, what is chosen, the tuned file and the builds by size."""

import gzip
import json
import math
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from conftest import KERNELS, REPOSITORY, ROUND_GPU, a_build, a_rung, a_where, time_run, write
from ladder.build import compile
from ladder.build.compile import Build, build
from ladder.build.library import Library
from ladder.build.resources import resource_report
from ladder.config import gpus, plan, sources
from ladder.config.kernels import read_kernels
from ladder.config.sources import source_digest
from ladder.config.space import Space, constants, defaults, evaluate
from ladder.config.tuned import Tuned, odd_shapes, read_tuned, size_classes, tuned_text, with_tuned
from ladder.measure.tune import stage as tune_stage
from ladder.measure.tune.stage import Search, round_settings
from ladder.model.rung import TunedClass, parse_variant
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.trials import FINAL, SCREEN, Record
from ladder.show.figures import tuning
from ladder.show.static import draw
from ladder.system import nvml
from ladder.system.errors import LadderError
from ladder.system.process import Outcome
from ladder.tables.trials import choose, recorded_on, trial_table
from pipeline import RECORDED, contents, copy_project, snakemake, started, wait_for

S1, S4 = Shape.parse("1024"), Shape.parse("4096")
LIMITS = {
    "shared_memory_per_sm_kib": 100,
    "shared_memory_per_block_kib": 64,
    "registers_per_sm": 65536,
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 16,
}
SOURCE = """\
#include "gemm.cuh"
#ifndef BM
#define BM 128
#endif
#ifndef TM
#define TM 8
#endif
#ifndef LAYOUT
#define LAYOUT 2
#endif
constexpr int THREADS = BM / TM * 16;  // of a block
constexpr size_t SHARED_BYTES = sizeof(float) * BM * (LAYOUT == 1 ? 8 : 16);
static_assert(BM % TM == 0, "the thread tiles must cover the block tile");
#if LAYOUT == 1
static_assert(BM % 32 == 0,
              "the permutations must stay inside a row");
constexpr int PITCH = BM;
#elif LAYOUT == 2
constexpr int PITCH = BM + 4;
#endif
inline int inside() {
  constexpr int THREADS = 7;
  static_assert(THREADS == 8, "not at file scope");
  return THREADS;
}
__global__ void __launch_bounds__(THREADS, 2) kernel() {}
"""


def a_gpu(**limits):
    return type(ROUND_GPU)(**{**vars(ROUND_GPU), "limits": {**LIMITS, **limits}})


def a_space(**changes) -> Space:
    values = {"parameters": {"BM": (32, 128), "TM": (8,)}, "legal": (), "threads": "THREADS", "registers": "0"}
    return Space(**{"shared_bytes": "0", **values, **changes})


# What is legal


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("7 % 4 == 3 && !(2 > 3)", 1),
        ("X != 0 && 8 % X == 0", 0),
        ("sizeof(float) * 3", 12),
        ("1 == 2 ? 5 : 1 == 1 ? 6 : 7", 6),
        ("2 * (X == 0 ? 5 : 6)", 10),
        ("(6 & (6 - 1)) == 4", 1),
        ("1 << 4 | 1", 17),
    ],
)
def test_expressions_mean_what_they_mean_in_cpp(expression, value):
    assert evaluate(expression, {"X": 0}) == value


@pytest.mark.parametrize(
    "expression", ["Y", "8 % X", "__import__('os')", "X.real", "'a'", "1 +", "1 ? 2", "f(1)", "2 ** 9"]
)
def test_what_is_no_integral_expression_is_refused(expression):
    with pytest.raises(ValueError, match="cannot be evaluated"):
        evaluate(expression, {"X": 0})


def test_a_sources_macros_constants_and_asserts_are_read_from_it():
    assert defaults(SOURCE) == {"BM": 128, "TM": 8, "LAYOUT": 2}
    names, failed = constants(SOURCE, {"BM": 128, "TM": 8, "LAYOUT": 2})
    assert (names["THREADS"], names["SHARED_BYTES"], names["PITCH"], names["MIN_BLOCKS"]) == (256, 8192, 132, 2)
    assert failed == []


def test_the_asserts_of_the_branch_that_is_compiled_count():
    assert constants(SOURCE, {"BM": 40, "TM": 8, "LAYOUT": 2})[1] == []
    assert constants(SOURCE, {"BM": 40, "TM": 8, "LAYOUT": 1})[1] == ["the permutations must stay inside a row"]
    assert constants(SOURCE, {"BM": 40, "TM": 0, "LAYOUT": 2})[1] == ["the thread tiles must cover the block tile"]


@pytest.mark.parametrize(
    ("space", "macros", "limits", "why"),
    [
        ({}, {"BM": 128, "TM": 8}, {}, ""),
        ({}, {"BM": 128, "TM": 7}, {}, "the thread tiles must cover the block tile"),
        ({}, {"BM": 1024, "TM": 8}, {}, "2048 threads a block"),
        ({"legal": ("BM < 100",)}, {"BM": 128, "TM": 8}, {}, "not BM < 100"),
        ({"registers": "TM * 32"}, {"BM": 128, "TM": 8}, {}, "at least 256 registers for each of 2 x 256 threads"),
        ({"registers": "129"}, {"BM": 128, "TM": 8}, {}, "at least 129 registers for each of 2 x 256 threads"),
        ({"registers": "128"}, {"BM": 128, "TM": 8}, {}, ""),
        ({"registers": "64"}, {"BM": 128, "TM": 8}, {"registers_per_sm": 32768}, ""),
        ({"registers": "65"}, {"BM": 128, "TM": 8}, {"registers_per_sm": 32768}, "at least 65 registers"),
        ({"shared_bytes": "65537"}, {"BM": 128, "TM": 8}, {}, "65537 bytes of shared memory for each of 2 blocks"),
        ({"shared_bytes": "65536"}, {"BM": 128, "TM": 8}, {}, "65536 bytes of shared memory for each of 2 blocks"),
        ({"shared_bytes": "50176"}, {"BM": 128, "TM": 8}, {}, ""),
    ],
)
def test_a_combination_beyond_the_source_the_declaration_or_the_gpu_is_illegal(space, macros, limits, why):
    found = a_space(**space).why_illegal(SOURCE, macros, a_gpu(**limits))
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_the_defaults_are_tried_first_even_where_they_are_not_declared():
    combinations = list(a_space(parameters={"BM": (32, 64), "TM": (8,)}).combinations(SOURCE))
    assert combinations == [{"BM": 128, "TM": 8}, {"BM": 32, "TM": 8}, {"BM": 64, "TM": 8}]


@pytest.mark.parametrize("name", ["h100-sxm", "t4", "rtx-3090"])
def test_every_declared_space_has_legal_combinations_on_every_kind_of_gpu(name):
    ladder = read_kernels(REPOSITORY / "config/kernels.yaml")
    gpu = gpus.read_gpu(name)
    applying = [rung for rung in ladder.values() if float(rung.compute_capability) <= float(gpu.compute_capability)]
    entries = dict.fromkeys(rung.entry for rung in applying if rung.tune)
    assert entries
    for entry in entries:
        trials = tune_stage.trial_rungs(entry, ladder, gpu)
        assert len({trial.name for trial in trials}) == len(trials) >= 2, entry
        if name == "h100-sxm":
            assert trials[0].name == tune_stage.default_trial(entry, ladder)


def test_what_the_asserts_refuse_the_compiler_refuses(nvcc, tmp_path):
    ladder = read_kernels(REPOSITORY / "config/kernels.yaml")
    gpu = gpus.read_gpu("h100-sxm")
    rung = a_rung("warp_tiled@WN=32", source=ladder["warp_tiled"].source)
    failed = constants((REPOSITORY / "kernels" / rung.source).read_text(), {**defaults_of(rung), "WN": 32})[1]
    record = build(rung, gpu, nvcc, ["-O0", "-std=c++17"], tmp_path / "wrong")
    assert record["status"] == "failed"
    assert failed[0] in record["log"]


def defaults_of(rung):
    return defaults((REPOSITORY / "kernels" / rung.source).read_text())


@pytest.mark.parametrize(
    ("tune", "problem"),
    [
        ({"parameters": {"XX": [1]}}, "tiled.tune: XX is no macro with a default in the source; known: BM, TM, LAYOUT"),
        ({"parameters": {"BM": [3]}, "legal": ["BM == 1"]}, "tiled.tune: no combination is legal on Round GPU"),
        ({"parameters": {"BM": [32]}, "legal": ["ZZ"]}, "tiled.tune: 'ZZ' cannot be evaluated"),
        ({"parameters": {"BM": []}}, "tiled.tune.parameters.BM: [] has too few entries"),
        ({"parameters": {"BM": ["a"]}}, "tiled.tune.parameters.BM[0]: 'a' is not of type integer"),
        ({"parameter": {}}, "tiled.tune.parameter: unknown key; did you mean parameters?"),
    ],
)
def test_a_declaration_that_cannot_be_is_one_line(project, tune, problem):
    write(project / "kernels/tiled.cu", SOURCE)
    kernels = {**KERNELS, "tiled": {**KERNELS["tiled"], "tune": tune}}
    path = write(project / "config/kernels.yaml", json.dumps(kernels))
    with pytest.raises(LadderError) as caught:
        tune_stage.trial_rungs("tiled", read_kernels(path), ROUND_GPU)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# The search and its record

TIMES = {"t@BM=1": 4e-3, "t@BM=2": 2e-3, "t@BM=3": 3e-3, "t@BM=4": 5e-3}
SETTINGS = round_settings({"iterations": 3, "budget_s": 0.1, "final_budget_s": 0.2}, {"warmup": 2, "iterations": 6})


class Machine:
    """A worker that answers as `ladder.measure.tune.worker` does, with these times and these faults."""

    def __init__(self, monkeypatch, times, wrong=(), crashing=()):
        self.times, self.wrong, self.crashing, self.requests = times, wrong, crashing, []
        monkeypatch.setattr(tune_stage, "run_worker", self.work)

    def work(self, module, request, on_event, time_limit_s, log):
        self.requests.append(request)
        sound = []
        for name in request["libraries"]:
            on_event({"starts": {"kernel": name}})
            if name in self.crashing:
                return Outcome("failed", self.crashing[name])
            on_event({"checked": {"kernel": name, "verdict": "4: too far off" if name in self.wrong else "pass"}})
            sound += [] if name in self.wrong else [name]
        samples = {
            (name, shape): [self.times.get(name, 1e-3)] * request["iterations"]
            for shape in request["shapes"]
            for name in sound
        }
        files = time_run("t", samples)
        states = json.loads(files.pop("record.json"))["states"]
        on_event({"states": states})
        for name, content in files.items():
            write(tune_stage.Path(request["folder"]) / name, "").write_bytes(content)
        return Outcome("ok", "")

    @property
    def measured(self):
        return [list(request["libraries"])[1:] for request in self.requests]


@pytest.fixture
def search(tmp_path):
    def make(**changes):
        builds, compiled = {}, {}
        for name in TIMES:
            builds[name] = a_build(tmp_path / name, rung=name, build_digest=f"build of {name}")
            compiled[name] = builds[name].record
        values = {
            "entry": "t",
            "builds": builds,
            "compiled": compiled,
            "baseline": "cublas",
            "baseline_build": Build(tmp_path / "cublas"),
            "cases": [{"shape": "3"}],
            "shapes": ["1024", "4096"],
            "settings": SETTINGS,
            "final_cases": [{"shape": "4096"}],
            "finalists": 1,
            "default": "t@BM=1",
            "variants": [{}],
            "batch": 3,
            "device": 0,
            "time_limit_s": 5,
            "where": lambda compiled, digest: {**a_where(), "config_digest": digest},
            "log": tmp_path / "log",
            "progress": lambda text: None,
        }
        return Search(**{**values, **changes})

    return make


@pytest.fixture
def path(tmp_path):
    return tmp_path / "raw/t.json.gz"


def test_every_trial_is_screened_and_the_best_and_the_default_are_timed_again(monkeypatch, search, path):
    machine = Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    assert machine.measured == [["t@BM=1", "t@BM=2", "t@BM=3"], ["t@BM=4"], ["t@BM=1", "t@BM=2"]]
    assert [request["iterations"] for request in machine.requests] == [3, 3, 6]
    assert machine.requests[0]["cases"] == [{"shape": "3"}]
    assert machine.requests[2]["cases"] == [{"shape": "4096"}]
    record = Record.read(path, "t")
    assert len(record.batches) == 3
    assert record.trials["t@BM=2", FINAL]["times_s"] == {"1024": [0.002] * 6, "4096": [0.002] * 6}


def test_each_variant_has_finalists_of_its_own(monkeypatch, search, path):
    machine = Machine(monkeypatch, TIMES)
    search(variants=[{"BM": "3"}, {"BM": "4"}]).run(Record.read(path, "t"))
    assert machine.measured[-1] == ["t@BM=1", "t@BM=3", "t@BM=4"]


def test_a_finished_search_measures_nothing_again_and_keeps_its_bytes(monkeypatch, search, path):
    Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    before = path.read_bytes()
    machine = Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    assert machine.measured == []
    assert path.read_bytes() == before


def test_a_killed_search_keeps_its_batches_and_goes_on_after_them(monkeypatch, search, path):
    machine = Machine(monkeypatch, TIMES)
    work = machine.work

    def killed(*arguments):
        if len(machine.requests) == 1:
            raise KeyboardInterrupt
        return work(*arguments)

    monkeypatch.setattr(tune_stage, "run_worker", killed)
    with pytest.raises(KeyboardInterrupt):
        search().run(Record.read(path, "t"))
    kept = Record.read(path, "t").trials
    assert [name for name, _ in kept] == ["t@BM=1", "t@BM=2", "t@BM=3"]
    machine = Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    assert machine.measured[0] == ["t@BM=4"]
    assert {key: Record.read(path, "t").trials[key]["times_s"] for key in kept} == {
        key: trial["times_s"] for key, trial in kept.items()
    }


@pytest.mark.parametrize("change", ["build", "settings", "cases"])
def test_what_was_measured_of_another_build_or_otherwise_is_measured_again(monkeypatch, search, path, change):
    Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    machine = Machine(monkeypatch, TIMES)
    changed = {
        "build": {"compiled": {n: {**m, "build_digest": "new"} for n, m in search().compiled.items()}},
        "settings": {"settings": {**SETTINGS, SCREEN: {**SETTINGS[SCREEN], "iterations": 4}}},
        "cases": {"cases": [{"shape": "5"}]},
    }[change]
    search(**changed).run(Record.read(path, "t"))
    assert sum(map(len, machine.measured)) >= 4


def test_a_wrong_trial_is_not_timed_and_not_chosen(monkeypatch, search, path):
    Machine(monkeypatch, TIMES, wrong={"t@BM=2"})
    search().run(Record.read(path, "t"))
    record = Record.read(path, "t")
    wrong = record.trials["t@BM=2", SCREEN]
    assert (wrong["status"], wrong["message"], wrong["times_s"]) == ("wrong", "4: too far off", {})
    assert [name for name, stage in record.trials if stage == FINAL] == ["t@BM=1", "t@BM=3"]


def test_a_crashing_trial_is_noted_and_the_others_of_its_batch_go_on(monkeypatch, search, path):
    machine = Machine(monkeypatch, TIMES, wrong={"t@BM=1"}, crashing={"t@BM=2": "crashed: killed by SIGSEGV"})
    search().run(Record.read(path, "t"))
    record = Record.read(path, "t")
    assert record.trials["t@BM=2", SCREEN]["status"] == "failed"
    assert record.trials["t@BM=2", SCREEN]["message"] == "crashed: killed by SIGSEGV"
    assert record.trials["t@BM=1", SCREEN]["status"] == "wrong"
    assert machine.measured[:2] == [["t@BM=1", "t@BM=2", "t@BM=3"], ["t@BM=3"]]
    assert record.trials["t@BM=3", FINAL]["status"] == "ok"


def test_a_trial_that_does_not_compile_is_recorded_and_not_run(monkeypatch, search, path):
    machine = Machine(monkeypatch, TIMES)
    compiled = search().compiled
    compiled = {**compiled, "t@BM=3": {**compiled["t@BM=3"], "status": "failed", "message": "ptxas error"}}
    search(compiled=compiled).run(Record.read(path, "t"))
    assert Record.read(path, "t").trials["t@BM=3", SCREEN]["status"] == "does not compile"
    assert all("t@BM=3" not in names for names in machine.measured)


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ({"wrong": {"cublas"}}, "tune: cublas: 4: too far off"),
        ({"crashing": {"cublas": "crashed: killed by SIGABRT"}}, "tune: t: cublas: crashed: killed by SIGABRT"),
        ({"crashing": {"t@BM=2": "out of GPU memory (x)"}}, "tune: t: t@BM=2: out of GPU memory (x)"),
    ],
)
def test_what_is_no_trials_fault_ends_the_search_in_one_line(monkeypatch, search, path, faults, problem):
    Machine(monkeypatch, TIMES, **faults)
    with pytest.raises(LadderError, match="^" + problem.replace("(", r"\(").replace(")", r"\)")):
        search().run(Record.read(path, "t"))


def test_trials_that_left_the_space_leave_the_record(monkeypatch, search, path):
    Machine(monkeypatch, TIMES)
    search().run(Record.read(path, "t"))
    fewer = {name: made for name, made in search().builds.items() if name != "t@BM=4"}
    search(builds=fewer, compiled={name: made.record for name, made in fewer.items()}).run(Record.read(path, "t"))
    assert {name for name, _ in Record.read(path, "t").trials} == set(fewer)


def test_a_damaged_record_is_one_line_and_stays(path):
    store.write_json(path, {"entry": "t", "batches": [{}], "trials": []})
    before = path.read_bytes()
    with pytest.raises(LadderError, match="the record is damaged"):
        Record.read(path, "t")
    path.write_bytes(gzip.compress(b"{"))
    with pytest.raises(LadderError, match="the record is damaged"):
        Record.read(path, "t")
    assert path.read_bytes() != before


def test_what_is_compiled_already_is_not_compiled_again(project, tmp_path, monkeypatch):
    made = []

    def fake(rung, gpu, nvcc, flags, folder):
        made.append(rung.name)
        digest = compile.build_digest(rung, gpu, nvcc, flags)
        return a_build(folder, build_digest=digest).record

    monkeypatch.setattr(tune_stage, "build", fake)
    rungs = [a_rung(f"tiled@TILE={value}", source="tiled.cu") for value in (8, 16)]
    nvcc = SimpleNamespace(version="13.0")
    for _ in range(2):
        tune_stage.build_trials(rungs, ROUND_GPU, nvcc, [], tmp_path / "trials", 2)
    assert sorted(made) == ["tiled@TILE=16", "tiled@TILE=8"]
    write(project / "kernels/tiled.cu", "changed")
    tune_stage.build_trials(rungs, ROUND_GPU, nvcc, [], tmp_path / "trials", 2)
    assert len(made) == 4


# What is chosen


@pytest.fixture
def recorded(monkeypatch, search, path):
    Machine(monkeypatch, TIMES)
    search(finalists=2).run(Record.read(path, "t"))
    return Record.read(path, "t")


def digests(record):
    return {name: trial["source_digest"] for (name, _), trial in record.trials.items()}


def test_the_fastest_of_each_size_is_chosen(recorded):
    for shape, time in {"1024": 9e-3, "4096": 1e-3}.items():
        recorded.trials["t@BM=2", FINAL]["times_s"][shape] = [time] * 6
    found = choose([recorded], {"t": a_rung("t")}, [S4, S1], digests(recorded))
    assert found.sizes == (S1, S4)
    assert found.rungs == {"t": {S1: {"BM": 3}, S4: {"BM": 2}}}


def test_a_variant_keeps_its_own_macros_and_gets_the_best_of_the_rest(recorded):
    for trial in list(recorded.trials):
        renamed = trial[0].replace("BM", "LAYOUT=1,BM" if "1" in trial[0] else "LAYOUT=2,BM")
        recorded.trials[renamed, trial[1]] = recorded.trials.pop(trial)
    ladder = {name: a_rung(name) for name in ("t@LAYOUT=1", "t@LAYOUT=2")}
    found = choose([recorded], ladder, [S1], digests(recorded))
    assert found.rungs == {"t@LAYOUT=1": {S1: {"BM": 1}}, "t@LAYOUT=2": {S1: {"BM": 2}}}


def test_a_variant_whose_macros_are_all_there_is_is_not_tuned(recorded):
    assert choose([recorded], {"t@BM=2": a_rung("t@BM=2")}, [S1], digests(recorded)).rungs == {}


def test_trials_of_changed_sources_and_failed_trials_are_not_chosen(recorded):
    changed = {**digests(recorded), "t@BM=2": "other"}
    assert choose([recorded], {"t": a_rung("t")}, [S1], changed).rungs == {"t": {S1: {"BM": 3}}}
    recorded.trials["t@BM=3", FINAL]["status"] = "wrong"
    assert choose([recorded], {"t": a_rung("t")}, [S1], changed).rungs == {"t": {S1: {"BM": 1}}}


def test_every_trial_stands_in_the_table_with_the_round_that_decides(recorded):
    best = choose([recorded], {"t": a_rung("t")}, [S1, S4], digests(recorded))
    table = trial_table([recorded], best, {**digests(recorded), "t@BM=4": "other"}).set_index(["trial", "shape"])
    assert len(table) == 8
    row = table.loc["t@BM=2", "4096"]
    assert (row["round"], row["samples"], row["chosen_for"], row["source"]) == ("final", 6, "t", "current")
    assert row["speedup_over_cublas"] == pytest.approx(0.5)
    assert row["gflops"] == pytest.approx(2 * 4096**3 / 2e-3 / 1e9)
    assert row["time_ms"] == pytest.approx(2)
    assert tuple(table.loc["t@BM=4", "1024"][["round", "chosen_for", "source"]]) == ("screen", "", "changed since")


def test_a_trial_that_failed_has_one_row_without_numbers(monkeypatch, search, path):
    Machine(monkeypatch, TIMES, wrong={"t@BM=4"})
    search().run(Record.read(path, "t"))
    table = trial_table([Record.read(path, "t")], Tuned((S1,), {}), {})
    row = table[table["trial"] == "t@BM=4"]
    assert row[["status", "message"]].values.tolist() == [["wrong", "4: too far off"]]
    assert row["gflops"].isna().all()


def test_the_figure_has_axes_for_each_parameter_that_was_varied(recorded):
    table = trial_table([recorded], Tuned((S1,), {}), {})
    assert recorded_on([recorded]) == "Recorded on NVIDIA H100 80GB HBM3, 2026-01-02."
    figure = tuning.figure(table)
    assert figure.panels.options == ["t: BM"]
    (axes,) = draw(figure, recorded_on([recorded])).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3", "4"]
    best = [line for line in axes.lines if len(line.get_xdata()) == 4]
    assert list(best[0].get_ydata()) == pytest.approx([50, 100, 200 / 3, 40])
    assert figure.title == "The worst value of BM costs t 60 % of its rate at 1024"


# The tuned file, and builds by size


def test_a_tuned_file_is_read_as_it_was_written(tmp_path):
    choice = Tuned((S1, S4), {"t": {S1: {"BM": 64, "TM": 4}, S4: {"BM": 128, "TM": 8}}})
    path = write(tmp_path / "round.yaml", tuned_text("round", choice))
    assert read_tuned(path) == choice
    assert tuned_text("round", read_tuned(path)) == path.read_text()
    assert yaml.safe_load(tuned_text("round", Tuned((S1,), {}))) == {"sizes": [1024], "rungs": {}}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"sizes": [1024], "rungs": {"t": {"2048": {"BM": 1}}}}, "rungs.t: has not the sizes 1024"),
        ({"sizes": [1024], "rungs": {"u": {"1024": {"BM": 1}}}}, "rungs.u: is no rung"),
        ({"sizes": [1024], "rungs": {"t": {"1024": {"BM": "x"}}}}, "rungs.t.1024.BM: 'x' is not of type integer"),
        ({"sizes": [0], "rungs": {}}, "sizes[0]: 0 is less than 1"),
        ({"rungs": {}}, "'sizes' is a required property"),
    ],
)
def test_a_tuned_file_that_cannot_be_is_one_line(tmp_path, document, problem):
    path = write(tmp_path / "round.yaml", json.dumps(document))
    with pytest.raises(LadderError) as caught:
        with_tuned({"t": a_rung("t")}, path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_uses_the_tuned_file_of_its_gpu_unless_told_not_to(project, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index=0: None)
    text = tuned_text("h100-sxm", Tuned((S1,), {"coalesced": {S1: {"BM": 64}}}))
    write(project / "config/tuned/h100-sxm.yaml", text)
    write(project / "kernels/coalesced.cu", "#define BM 4\n")
    assert plan.plan({}).ladder["coalesced"].tuned == (TunedClass(math.inf, {"BM": "64"}),)
    assert plan.plan({}).ladder["coalesced"].parameters == "BM=64"
    assert plan.plan({"kernels": ["coalesced"]}).by_name("coalesced").tuned
    assert plan.plan({"kernels": ["coalesced@BM=8"]}).by_name("coalesced@BM=8").tuned == ()
    assert plan.plan({"tune": {"use": False}}).ladder["coalesced"].tuned == ()
    assert plan.plan({"gpu": "t4"}).ladder["coalesced"].tuned == ()


def test_classes_meet_at_the_geometric_mean_and_equal_neighbours_are_one():
    a, b = {"BM": 64}, {"BM": 128}
    classes = size_classes((S1, S4), {S1: a, S4: b})
    assert [each.macros for each in classes] == [{"BM": "64"}, {"BM": "128"}]
    assert classes[0].below_flop == pytest.approx(2 * 2048**3)
    assert classes[1].below_flop == math.inf
    rung = a_rung("t@LAYOUT=1", tuned=classes)
    assert rung.macros_at(Shape.parse("2047")) == {"LAYOUT": "1", "BM": "64"}
    assert rung.macros_at(Shape.parse("2048")) == {"LAYOUT": "1", "BM": "128"}
    assert a_rung("t@BM=1").macros_at(S1) == {"BM": "1"}
    assert size_classes((S1, S4), {S1: a, S4: a}) == (TunedClass(math.inf, {"BM": "64"}),)


def test_every_class_is_checked_with_every_case_at_an_odd_shape(project, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index=0: None)
    text = tuned_text("h100-sxm", Tuned((S1, S4), {"naive": {S1: {"BM": 64}, S4: {"BM": 8}}}))
    write(project / "config/tuned/h100-sxm.yaml", text)
    cases = [{"alpha": 1, "beta": 0}, {"alpha": 2, "beta": 1, "padding": 3}]
    run = plan.plan({"kernels": ["naive"], "sizes": [8], "check": {"shapes": [1], "cases": cases}})
    (shape,) = odd_shapes(run.by_name("naive").tuned)
    assert shape.m % 2 == shape.n % 2 == shape.k % 2 == 1
    assert shape.flop > run.by_name("naive").tuned[0].below_flop
    assert [case["padding"] for case in run.cases() if case["shape"] == str(shape)] == [0, 3]


def test_one_class_is_the_same_code_as_the_variant_with_its_macros():
    one = a_rung("tiled_2d", tuned=(TunedClass(math.inf, {"BM": "64", "BN": "64"}),))
    assert source_digest(one) == source_digest(a_rung("tiled_2d@BM=64,BN=64"))
    assert source_digest(one) != source_digest(a_rung("tiled_2d"))


def test_a_rung_tuned_for_two_classes_starts_the_kernel_of_each(nvcc, tmp_path):
    classes = (TunedClass(2 * 100**3, {"TILE": "8"}), TunedClass(math.inf, {"TILE": "16"}))
    rung = a_rung("tiled", tuned=classes)
    record = build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-O1", "-std=c++17"], tmp_path / "tiled")
    assert record["status"] == "ok", record["message"]
    library = Library(tmp_path / "tiled/library.so")
    blocks = {n: library.launches(Shape(n, n, n), 132)[0] for n in (99, 100)}
    assert {n: launch.block for n, launch in blocks.items()} == {99: (8, 8, 1), 100: (16, 16, 1)}
    assert {launch.kernel for launch in blocks.values()} <= set(resource_report(record["log"]))
    assert source_digest(rung) != source_digest(a_rung("tiled", tuned=(classes[1],)))


def test_a_variants_own_macros_hold_in_every_class():
    text = sources.by_size(
        a_rung("conflict_free@LAYOUT=1", tuned=(TunedClass(5, {"BM": "64"}), TunedClass(math.inf, {"BM": "128"})))
    )
    assert text.count("#define LAYOUT 1") == text.count("#undef LAYOUT") == 2


def test_names_of_trials_are_names_of_variants():
    for name in tune_stage.trial_rungs("tiled", read_kernels(REPOSITORY / "config/kernels.yaml"), a_gpu()):
        assert parse_variant(name.name)[0] == "tiled"


# The whole stage


@pytest.fixture
def copy(tmp_path):
    """The project with one small space and nothing recorded."""
    folder = copy_project(tmp_path / "project", records=False)
    entry = {
        "title": "the second",
        "source": "sgemm/coalesced.cu",
        "before": "naive",
        "tune": {"parameters": {"BM": [4, 8], "BN": [32, 33]}, "threads": "BM * BN", "legal": ["BN % 32 == 0"]},
    }
    kernels = yaml.safe_load((folder / "config/kernels.yaml").read_text())
    kept = {name: kernels[name] for name in ("cublas", "naive")}
    write(folder / "config/kernels.yaml", yaml.safe_dump({**kept, "coalesced": entry}, sort_keys=False))
    shutil.rmtree(folder / "config/tuned", ignore_errors=True)  # of other spaces
    return folder


def test_without_a_gpu_recorded_trials_become_a_table_and_a_figure(copy, monkeypatch, search):
    shutil.rmtree(copy / f"results/{RECORDED}/raw/trials", ignore_errors=True)
    run = snakemake(copy, [], "tune")
    assert run.status != 0
    assert run.errors == ["tune: no trial is recorded for NVIDIA H100 SXM5 80 GB; run it on a machine with that GPU"]

    source = a_rung("coalesced")
    path = copy / f"results/{RECORDED}/raw/trials/coalesced.json.gz"
    times = {f"coalesced@BM={rows},BN=32": rows * 1e-3 for rows in (4, 8)}
    Machine(monkeypatch, times)
    compiled = {
        name: {**search().compiled["t@BM=1"], "source_digest": source_digest(a_rung(name, source=source.source))}
        for name in times
    }
    builds = {name: Build(copy / name) for name in times}
    search(entry="coalesced", builds=builds, compiled=compiled).run(Record.read(path, "coalesced"))
    before = contents(copy / "config")
    run = snakemake(copy, [], "tune")
    assert run.status == 0, run.output
    table = pd.read_csv(copy / f"results/{RECORDED}/tables/trials.csv")
    assert set(table["trial"]) == set(times)
    assert set(table["source"]) == {"current"}
    assert (copy / f"results/{RECORDED}/figures/tuning.svg").stat().st_size > 1000
    assert contents(copy / "config") == before, "a machine without a GPU chooses nothing"
    made = contents(copy / f"results/{RECORDED}")
    (copy / f"results/{RECORDED}/tables/trials.csv").unlink()
    run = snakemake(copy, [], f"results/{RECORDED}/tables/trials.csv")
    assert run.status == 0, run.output
    assert contents(copy / f"results/{RECORDED}") == made


# Python runs this first in each of its processes: of the workers of a search the second waits until it is killed.
HALT = """
import pathlib, signal, sys

if "ladder.measure.tune.worker" in sys.orig_argv:
    with pathlib.Path({path!r}).open("a") as file:
        file.write("started\\n")
    if pathlib.Path({path!r}).read_text().count("started") == 2:
        signal.pause()
"""


@pytest.mark.gpu
@pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")
def test_a_killed_search_on_a_gpu_goes_on_and_later_runs_build_what_it_chose(copy, tmp_path):
    config = [
        "kernels=[coalesced]",
        "tune_sizes=[256,512]",
        "sizes=[256]",
        "tune={batch: 1}",
        "profile={enabled: false}",
    ]

    workers = tmp_path / "workers"
    write(tmp_path / "first/sitecustomize.py", HALT.format(path=str(workers)))
    with started(copy, config, "tune", gpu=True, PYTHONPATH=str(tmp_path / "first")) as process:
        wait_for(lambda: (workers.exists() and workers.read_text().count("started") == 2) or process.poll() is not None)
        assert process.poll() is None, (copy / "run.log").read_text()
    (path,) = copy.glob("results/*/raw/trials/*.gz")
    kept = Record.read(path, "coalesced").trials
    assert len(kept) == 1
    run = snakemake(copy, config, "tune", gpu=True)
    assert run.status == 0, run.output
    record = Record.read(path, "coalesced")
    assert {name for name, _ in record.trials} == {"coalesced@BM=4,BN=32", "coalesced@BM=8,BN=32"}
    assert {trial["status"] for trial in record.trials.values()} == {"ok"}
    assert all(record.trials[key]["batch"] == trial["batch"] for key, trial in kept.items())
    (file,) = (copy / "config/tuned").iterdir()
    (classes,) = read_tuned(file).rungs.values()
    assert set(classes) == {Shape.parse("256"), Shape.parse("512")}
    run = snakemake(copy, config, "--until", "check", gpu=True)
    assert run.status == 0, run.output
    (check,) = copy.glob("results/*/raw/check/coalesced.json")
    assert store.read_json(check)["status"] == "pass"
