"""Tuning: what is tried, the search with its record, what is chosen, the tuned file and the builds by size."""

import dataclasses
import gzip
import json
import math
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from conftest import KERNELS, REPOSITORY, ROUND_GPU, a_build, a_device, a_rung, a_where, line_of, time_run, write
from ladder.build import compile
from ladder.build.compile import Build, build
from ladder.build.library import Library
from ladder.build.resources import resource_report
from ladder.config import gpus, plan, sources
from ladder.config.kernels import read_kernels
from ladder.config.search_space import SearchSpace, defaults
from ladder.config.sources import source_digest
from ladder.config.tuned_file import Tuned, odd_shapes, read_tuned, size_classes, tuned_text, with_tuned
from ladder.measure.tune import stage as tune_stage
from ladder.measure.tune.stage import Search, round_settings
from ladder.model.expressions import evaluate
from ladder.model.rung import TunedClass, parse_variant
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.trials import FINAL, SCREEN, Record
from ladder.show.figures import tuning
from ladder.show.static import draw
from ladder.system import nvml
from ladder.system.process import Outcome
from ladder.tables.trials import choose, trial_table, trials_recorded_on, with_earlier
from pipeline import RECORDED, contents, copy_project, snakemake, started, wait_for

S1, S4 = Shape.parse("1024"), Shape.parse("4096")
BOTH = {"t": [S1, S4]}  # the sizes of an entry
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
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif
#define FIXED 4
"""


def a_gpu(**limits):
    return type(ROUND_GPU)(**{**vars(ROUND_GPU), "limits": {**LIMITS, **limits}})


@pytest.fixture
def combinations(project):
    """The combinations of the parameters of SOURCE, under a declaration, on a GPU with these limits."""

    def found(gpu=None, **tune):
        write(project / "kernels/sgemm/t.cu", SOURCE)
        declared = {
            "parameters": {"BM": [32, 128], "TM": [8]},
            "restrictions": [],
            "shared_bytes": "0",
            "sizes": [],
            **tune,
        }
        return SearchSpace.of(a_rung("t", tune=declared)).combinations(gpu or a_gpu())

    return found


# What is tried

MACROS = ("macro", "with a default in the source")  # what the names of an expression are


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 // 2 + 7 % 4 - 1", 5),
        ("-X + 3 * (4 - 2)", 6),
        ("X == 0 and not 2 > 3 or 1 // X", 1),
        ("X != 0 and 8 % X == 0", 0),
        ("1 <= X + 1 < 2", 1),
        ("max(X, 3, min(5, 4))", 4),
        ("X == 0 and Y == 2 or X == 1 and Y == 1", 1),
    ],
)
def test_expressions_mean_what_they_mean_in_python(expression, value):
    assert evaluate(expression, {"X": 0, "Y": 2}, *MACROS) == value


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("Z == 1", "'Z == 1': Z is no macro with a default in the source; known: X"),
        ("8 % X", "'8 % X': divides by zero where X=0; test for it first, with `and`"),
        ("X && 1", "'X && 1': is no Python expression; it may hold whole numbers, macros, + - * // %, comparisons,"),
        ("1 +", "'1 +': is no Python expression"),
        ("X / 2", "'X / 2': Div has no place in it; it may hold whole numbers, macros, + - * // %"),
        ("2 ** 9", "'2 ** 9': Pow has no place in it"),
        ("X << 9", "'X << 9': LShift has no place in it"),
        ("X.real", "'X.real': X.real has no place in it"),
        ("'a'", "'a' has no place in it"),
        ("1.5 < X", "1.5 has no place in it"),
        ("X is None", "has no place in it"),
        ("abs(X)", "'abs(X)': abs(X) has no place in it"),
        ("max(X, key=1)", "has no place in it"),
        ("[].append(X)", "has no place in it"),
        ("X[0]", "'X[0]': X[0] has no place in it"),
        ("(lambda: X)()", "has no place in it"),
        ("min(X)", "it may hold whole numbers"),
        ("min > X", "it may hold whole numbers"),
        ("__import__('os')", "has no place in it"),
    ],
)
def test_whatever_else_an_expression_holds_is_refused_with_the_remedy(expression, problem):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        evaluate(expression, {"X": 0}, *MACROS)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_macros_that_a_source_lets_be_overridden_are_read_from_it():
    assert defaults(SOURCE) == {"BM": 128, "TM": 8, "MIN_BLOCKS": 2}


def test_the_defaults_are_tried_first_even_where_they_are_not_declared(combinations):
    found = combinations(parameters={"BM": [32, 64], "TM": [8]})
    assert found == [{"BM": 128, "TM": 8}, {"BM": 32, "TM": 8}, {"BM": 64, "TM": 8}]


def test_a_combination_is_tried_where_every_restriction_is_true(combinations):
    parameters = {"BM": [32, 64, 128], "TM": [4, 8, 16]}
    found = combinations(parameters=parameters, restrictions=["BM // TM == 8", "BM * MIN_BLOCKS > 64"])
    assert found == [{"BM": 64, "TM": 8}, {"BM": 128, "TM": 16}]


@pytest.mark.parametrize(
    ("shared_bytes", "limits", "tried"),
    [
        ("1024 * BM", {}, [32]),  # 100 KiB of an SM for two blocks of 32 + 1 KiB, not for two of 128 + 1 KiB
        ("49 * 1024", {}, [128, 32]),
        ("49 * 1024 + 1", {}, []),
        ("49 * 1024 + 1", {"shared_memory_per_sm_kib": 228}, [128, 32]),
    ],
)
def test_a_combination_is_tried_where_the_gpu_has_its_shared_memory(combinations, shared_bytes, limits, tried):
    assert [macros["BM"] for macros in combinations(a_gpu(**limits), shared_bytes=shared_bytes)] == tried


def test_without_the_macro_one_block_in_an_sm_is_enough(combinations, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SOURCE", SOURCE.replace("MIN_BLOCKS", "OTHER"))
    assert len(combinations(shared_bytes="99 * 1024")) == 2
    assert not combinations(shared_bytes="99 * 1024 + 1")


def test_a_gpu_of_unknown_limits_has_the_shared_memory_that_every_block_has(combinations):
    assert len(combinations(ROUND_GPU, shared_bytes="48 * 1024")) == 2
    assert not combinations(ROUND_GPU, shared_bytes="48 * 1024 + 1")


def tiled_of(ladder):
    """The first rung of the entry `tiled`."""
    return next(rung for rung in ladder.values() if rung.entry == "tiled")


@pytest.mark.parametrize("name", ["h100-sxm", "t4", "rtx-3090"])
def test_every_declared_space_has_combinations_on_every_kind_of_gpu(name):
    ladder = read_kernels(REPOSITORY / "config/kernels.yaml")
    gpu = gpus.read_gpu(name)
    applying = [rung for rung in ladder.values() if float(rung.compute_capability) <= float(gpu.compute_capability)]
    templates = {rung.entry: rung for rung in applying if rung.tune}
    assert templates
    for entry, template in templates.items():
        trials = tune_stage.trial_rungs(template, gpu)
        assert len({trial.name for trial in trials}) == len(trials) >= 2, entry
        if name == "h100-sxm":
            assert trials[0].name == tune_stage.default_trial(template)


def of_warp_tiled(*warp_columns):
    source = read_kernels(REPOSITORY / "config/kernels.yaml")["warp_tiled"].source
    return [a_rung(f"warp_tiled@WN={columns}", source=source) for columns in warp_columns]


def test_what_a_static_assert_forbids_the_compiler_refuses_before_it_makes_any_code(nvcc, tmp_path):
    rungs, gpu = of_warp_tiled(64, 32), gpus.read_gpu("h100-sxm")
    good, refused = tune_stage.build_trials(rungs, gpu, nvcc, ["-O0", "-std=c++17"], tmp_path, 2).values()
    assert (good["status"], refused["status"]) == ("ok", "failed")
    assert "static assertion failed" in refused["message"]
    assert "ptxas" in good["log"]
    assert "ptxas" not in refused["log"]


def test_where_the_compiler_refuses_every_combination_one_line_says_why(nvcc, tmp_path):
    of = of_warp_tiled(32), gpus.read_gpu("h100-sxm"), nvcc, ["-std=c++17"], tmp_path, 1
    head = "tune: the compiler refuses all 1 combinations; warp_tiled@WN=32: kernels/sgemm/warp_tiled.cu"
    assert line_of(tune_stage.build_trials, *of).startswith(head)


@pytest.mark.parametrize(
    ("tune", "problem"),
    [
        (
            {"parameters": {"XX": [1]}},
            "config/kernels.yaml: tiled.tune: XX is no macro with a default in the source; known: BM, TM, MIN_BLOCKS",
        ),
        (
            {"parameters": {"BM": [3]}, "restrictions": ["BM == 1"]},
            "tiled.tune: its restrictions leave no combination on Round GPU; widen the parameters",
        ),
        (
            {"parameters": {"BM": [32]}, "restrictions": ["BM > 1", "ZZ > 1"]},
            "config/kernels.yaml: tiled.tune: 'ZZ > 1': ZZ is no macro with a default in the source",
        ),
        ({"parameters": {"BM": [32]}, "restrictions": ["BM && TM"]}, "tiled.tune: 'BM && TM': is no Python expression"),
        ({"parameters": {"BM": [32]}, "shared_bytes": "4 * FIXED"}, "'4 * FIXED': FIXED is no macro with a default"),
        ({"parameters": {"TM": [0]}, "restrictions": ["BM % TM == 0"]}, "divides by zero where BM=128, TM=0"),
        ({"parameters": {"BM": [1]}, "restrictions": [1]}, "tiled.tune.restrictions[0]: 1 is not of type string"),
        ({"parameters": {"BM": []}}, "tiled.tune.parameters.BM: [] has too few entries"),
        ({"parameters": {"BM": ["a"]}}, "tiled.tune.parameters.BM[0]: 'a' is not of type integer"),
        ({"parameters": {"BM": [1]}, "sizes": [0]}, "tiled.tune.sizes[0]: 0 is less than 1"),
        (
            {"parameters": {"BM": [1]}, "sizes": [64, "1kx2"]},
            "config/kernels.yaml: tiled.tune.sizes[1]: '1kx2' is neither a positive integer nor MxNxK; write 1024",
        ),
        ({"parameter": {}}, "tiled.tune.parameter: unknown key; did you mean parameters?"),
    ],
)
def test_a_declaration_that_cannot_be_is_one_line(project, tune, problem):
    write(project / "kernels/tiled.cu", SOURCE)
    kernels = {**KERNELS, "tiled": {**KERNELS["tiled"], "tune": tune}}
    path = write(project / "config/kernels.yaml", json.dumps(kernels))
    assert problem in line_of(lambda: tune_stage.trial_rungs(tiled_of(read_kernels(path)), ROUND_GPU))


# The search and its record

TIMES = {"t@BM=1": 4e-3, "t@BM=2": 2e-3, "t@BM=3": 3e-3, "t@BM=4": 5e-3}
DECLARED = {"deterministic": True, "subnormals": "flushed", "precision": "tf32"}
SETTINGS = round_settings({"iterations": 3, "budget_s": 0.1, "final_budget_s": 0.2}, {"warmup": 2, "iterations": 6})


class Machine:
    """A worker that answers as `ladder.measure.tune.worker.main` does, with these times and these faults."""

    def __init__(self, monkeypatch, times, wrong=(), crashing=(), broken=()):
        self.times, self.wrong, self.crashing, self.broken, self.requests = times, wrong, crashing, broken, []
        monkeypatch.setattr(tune_stage, "run_worker", self.work)

    def work(self, module, request, on_event, time_limit_s, log):
        self.requests.append(request)
        sound = []
        for name in request["libraries"]:
            on_event({"starts": {"kernel": name}})
            if name in self.crashing:
                return Outcome("failed", self.crashing[name])
            if name in self.broken:
                return Outcome("broken", self.broken[name])
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
            "declared": DECLARED,
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
    return tmp_path / "raw/trials/t.json.gz"


@pytest.fixture
def searched(monkeypatch, search, path):
    """Searches, or goes on, with a machine of these faults; returns the machine and the record."""

    def run(faults=None, **changes):
        machine = Machine(monkeypatch, TIMES, **(faults or {}))
        search(**changes).run(Record.read(path, "t"))
        return machine, Record.read(path, "t")

    return run


def test_every_trial_is_screened_and_the_best_and_the_default_are_timed_again(searched):
    machine, record = searched()
    assert machine.measured == [["t@BM=1", "t@BM=2", "t@BM=3"], ["t@BM=4"], ["t@BM=1", "t@BM=2"]]
    assert [request["iterations"] for request in machine.requests] == [3, 3, 6]
    assert machine.requests[0]["cases"] == [{"shape": "3"}]
    assert all(request["held_to"] == DECLARED for request in machine.requests)
    assert machine.requests[2]["cases"] == [{"shape": "4096"}]
    assert len(record.batches) == 3
    assert record.trials["t@BM=2", FINAL]["times_s"] == {"1024": [0.002] * 6, "4096": [0.002] * 6}


def test_each_variant_has_finalists_of_its_own(searched):
    machine, _ = searched(variants=[{"BM": "3"}, {"BM": "4"}])
    assert machine.measured[-1] == ["t@BM=1", "t@BM=3", "t@BM=4"]


def test_a_finished_search_measures_nothing_again_and_keeps_its_bytes(searched, path):
    searched()
    before = path.read_bytes()
    assert searched()[0].measured == []
    assert path.read_bytes() == before


def test_a_killed_search_keeps_its_batches_and_goes_on_after_them(monkeypatch, search, searched, path):
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
    machine, record = searched()
    assert machine.measured[0] == ["t@BM=4"]
    assert all(record.trials[key]["times_s"] == trial["times_s"] for key, trial in kept.items())


@pytest.mark.parametrize("change", ["build", "settings", "cases"])
def test_what_was_measured_of_another_build_or_otherwise_is_measured_again(search, searched, change):
    searched()
    changed = {
        "build": {"compiled": {n: {**m, "build_digest": "new"} for n, m in search().compiled.items()}},
        "settings": {"settings": {**SETTINGS, SCREEN: {**SETTINGS[SCREEN], "iterations": 4}}},
        "cases": {"cases": [{"shape": "5"}]},
    }[change]
    assert sum(map(len, searched(**changed)[0].measured)) >= 4


def test_a_wrong_trial_is_not_timed_and_not_chosen(searched):
    _, record = searched({"wrong": {"t@BM=2"}})
    wrong = record.trials["t@BM=2", SCREEN]
    assert (wrong["status"], wrong["message"], wrong["times_s"]) == ("wrong", "4: too far off", {})
    assert [name for name, stage in record.trials if stage == FINAL] == ["t@BM=1", "t@BM=3"]


def test_a_crashing_trial_is_noted_and_the_others_of_its_batch_go_on(searched):
    machine, record = searched({"wrong": {"t@BM=1"}, "crashing": {"t@BM=2": "crashed: killed by SIGSEGV"}})
    assert record.trials["t@BM=2", SCREEN]["status"] == "failed"
    assert record.trials["t@BM=2", SCREEN]["message"] == "crashed: killed by SIGSEGV"
    assert record.trials["t@BM=1", SCREEN]["status"] == "wrong"
    assert machine.measured[:2] == [["t@BM=1", "t@BM=2", "t@BM=3"], ["t@BM=3"]]
    assert record.trials["t@BM=3", FINAL]["status"] == "ok"


def test_a_trial_that_does_not_compile_is_recorded_and_not_run(search, searched):
    compiled = search().compiled
    compiled = {**compiled, "t@BM=3": {**compiled["t@BM=3"], "status": "failed", "message": "ptxas error"}}
    machine, record = searched(compiled=compiled)
    assert record.trials["t@BM=3", SCREEN]["status"] == "does not compile"
    assert all("t@BM=3" not in names for names in machine.measured)


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ({"wrong": {"cublas"}}, "tune: cublas: 4: too far off"),
        ({"crashing": {"cublas": "crashed: killed by SIGABRT"}}, "tune: t: cublas: crashed: killed by SIGABRT"),
        ({"broken": {"t@BM=2": "out of GPU memory (x)"}}, "tune: t: t@BM=2: out of GPU memory (x)"),
    ],
)
def test_what_is_no_trials_fault_ends_the_search_in_one_line(searched, faults, problem):
    assert line_of(searched, faults).startswith(problem)


def test_trials_that_left_the_space_leave_the_record(search, searched):
    searched()
    fewer = {name: made for name, made in search().builds.items() if name != "t@BM=4"}
    _, record = searched(builds=fewer, compiled={name: made.record for name, made in fewer.items()})
    assert {name for name, _ in record.trials} == set(fewer)


def test_a_damaged_record_is_one_line_and_stays(path):
    store.write_json(path, {"entry": "t", "batches": [{}], "trials": []})
    before = path.read_bytes()
    assert "the record is damaged" in line_of(Record.read, path, "t")
    assert path.read_bytes() == before
    path.write_bytes(gzip.compress(b"{"))
    assert "the record is damaged" in line_of(Record.read, path, "t")


@pytest.mark.parametrize(("language", "by"), [("cuda", []), ("triton", ["triton 3"])])
def test_what_is_compiled_already_is_not_compiled_again(project, tmp_path, monkeypatch, language, by):
    made = []

    def fake(rung, gpu, nvcc, flags, folder):
        made.append(rung.name)
        digest = compile.build_digest(rung, gpu, nvcc, [*flags, *by])
        return a_build(folder, build_digest=digest).record

    monkeypatch.setattr(tune_stage, "build", fake)
    monkeypatch.setattr(tune_stage, "why_no_compiler", lambda language: "")
    monkeypatch.setattr(tune_stage, "compiler_version", lambda language: f"{language} 3")
    rungs = [a_rung(f"tiled@TILE={value}", source="tiled.cu", language=language) for value in (8, 16)]
    nvcc = SimpleNamespace(version="13.0")
    for _ in range(2):
        tune_stage.build_trials(rungs, ROUND_GPU, nvcc, [], tmp_path / "trials", 2)
    assert sorted(made) == ["tiled@TILE=16", "tiled@TILE=8"]
    write(project / "kernels/tiled.cu", "changed")
    tune_stage.build_trials(rungs, ROUND_GPU, nvcc, [], tmp_path / "trials", 2)
    assert len(made) == 4


# What is chosen


@pytest.fixture
def recorded(searched):
    return searched(finalists=2)[1]


def digests(record):
    return {name: trial["source_digest"] for (name, _), trial in record.trials.items()}


def test_the_fastest_of_each_size_is_chosen(recorded):
    for shape, time in {"1024": 9e-3, "4096": 1e-3}.items():
        recorded.trials["t@BM=2", FINAL]["times_s"][shape] = [time] * 6
    found = choose([recorded], {"t": a_rung("t")}, BOTH, digests(recorded))
    assert found == {"t": {S1: {"BM": 3}, S4: {"BM": 2}}}


@pytest.mark.parametrize("sizes", [[S1], [S4], [S1, S4], []])
def test_each_entry_is_chosen_for_at_its_own_sizes_of_those_that_are_recorded(recorded, sizes):
    ladder = {name: a_rung(name) for name in ("u", "t")}
    other = dataclasses.replace(recorded, entry="u")
    shapes = {"t": [Shape.parse("64"), *sizes], "u": [S1]}
    found = choose([recorded, other], ladder, shapes, digests(recorded))
    assert {name: list(classes) for name, classes in found.items()} == {"u": [S1], **({"t": sizes} if sizes else {})}


def test_a_variant_keeps_its_own_macros_and_gets_the_best_of_the_rest(recorded):
    for trial in list(recorded.trials):
        renamed = trial[0].replace("BM", "LAYOUT=1,BM" if "1" in trial[0] else "LAYOUT=2,BM")
        recorded.trials[renamed, trial[1]] = recorded.trials.pop(trial)
    ladder = {name: a_rung(name) for name in ("t@LAYOUT=1", "t@LAYOUT=2")}
    found = choose([recorded], ladder, {"t": [S1]}, digests(recorded))
    assert found == {"t@LAYOUT=1": {S1: {"BM": 1}}, "t@LAYOUT=2": {S1: {"BM": 2}}}


def test_a_variant_whose_macros_are_all_there_is_is_not_tuned(recorded):
    assert choose([recorded], {"t@BM=2": a_rung("t@BM=2")}, BOTH, digests(recorded)) == {}


def test_trials_of_changed_sources_and_failed_trials_are_not_chosen(recorded):
    changed = {**digests(recorded), "t@BM=2": "other"}
    assert choose([recorded], {"t": a_rung("t")}, {"t": [S1]}, changed) == {"t": {S1: {"BM": 3}}}
    recorded.trials["t@BM=3", FINAL]["status"] = "wrong"
    assert choose([recorded], {"t": a_rung("t")}, {"t": [S1]}, changed) == {"t": {S1: {"BM": 1}}}


def test_every_trial_stands_in_the_table_with_the_round_that_decides(recorded):
    best = choose([recorded], {"t": a_rung("t")}, BOTH, digests(recorded))
    table = trial_table([recorded], best, {**digests(recorded), "t@BM=4": "other"}).set_index(["trial", "shape"])
    assert len(table) == 8
    row = table.loc["t@BM=2", "4096"]
    assert (row["round"], row["samples"], row["chosen_for"], row["source"]) == ("final", 6, "t", "current")
    assert row["speedup_over_cublas"] == pytest.approx(0.5)
    assert row["gflops"] == pytest.approx(2 * 4096**3 / 2e-3 / 1e9)
    assert row["time_ms"] == pytest.approx(2)
    assert tuple(table.loc["t@BM=4", "1024"][["round", "chosen_for", "source"]]) == ("screen", "", "changed since")


def test_a_trial_that_failed_has_one_row_without_numbers(searched):
    table = trial_table([searched({"wrong": {"t@BM=4"}})[1]], {}, {})
    row = table[table["trial"] == "t@BM=4"]
    assert row[["status", "message"]].values.tolist() == [["wrong", "4: too far off"]]
    assert row["gflops"].isna().all()


def test_the_figure_has_axes_for_each_parameter_that_was_varied(recorded):
    table = trial_table([recorded], {}, {})
    assert trials_recorded_on([recorded]) == "Recorded on NVIDIA H100 80GB HBM3, 2026-01-02."
    figure = tuning.figure(table)
    assert figure.panels.options == ["t: BM"]
    (axes,) = draw(figure, trials_recorded_on([recorded])).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3", "4"]
    best = [line for line in axes.lines if len(line.get_xdata()) == 4]
    assert list(best[0].get_ydata()) == pytest.approx([50, 100, 200 / 3, 40])
    assert figure.title == "The worst value of BM costs t 60 % of its rate at 1024"


# The tuned file, and builds by size


def test_a_tuned_file_is_read_as_it_was_written(tmp_path):
    own = {Shape.parse("64x512x8"): {"BM": 8}, Shape.parse("2048"): {"BM": 32}, S4: {"BM": 16}}
    choice = Tuned((S1, S4), {"t": {S1: {"BM": 64, "TM": 4}, S4: {"BM": 128, "TM": 8}}, "u": own})
    path = write(tmp_path / "round.yaml", tuned_text("round", choice))
    assert read_tuned(path) == choice
    assert tuned_text("round", read_tuned(path)) == path.read_text()
    assert yaml.safe_load(tuned_text("round", Tuned((S1,), {}))) == {"sizes": [1024], "rungs": {}}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"sizes": [1024], "rungs": {"t": {}}}, "rungs.t: {} has no entries; it should be: a mapping of each size"),
        ({"sizes": [1024], "rungs": {"t": {"2k": {"BM": 1}}}}, "rungs.t: '2k' is not valid; it should be: a positive"),
        ({"sizes": [1024], "rungs": {"u": {"1024": {"BM": 1}}}}, "rungs.u: is no rung"),
        ({"sizes": [1024], "rungs": {"t": {"1024": {"BM": "x"}}}}, "rungs.t.1024.BM: 'x' is not of type integer"),
        ({"sizes": [0], "rungs": {}}, "sizes[0]: 0 is less than 1"),
        ({"rungs": {}}, "'sizes' is a required property"),
    ],
)
def test_a_tuned_file_that_cannot_be_is_one_line(tmp_path, document, problem):
    path = write(tmp_path / "round.yaml", json.dumps(document))
    assert problem in line_of(with_tuned, {"t": a_rung("t")}, path)


def test_a_run_uses_the_tuned_file_of_its_gpu_unless_told_not_to(project, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index=0: None)
    text = tuned_text("h100-sxm", Tuned((S1,), {"coalesced": {S1: {"BM": 64}}}))
    write(project / "config/tuned/h100-sxm.yaml", text)
    write(project / "kernels/coalesced.cu", "#ifndef BM\n#define BM 4\n#endif\n")
    assert plan.plan({}).ladder["coalesced"].tuned == (TunedClass(math.inf, {"BM": "64"}),)
    assert plan.plan({}).ladder["coalesced"].parameters == "BM=64"
    assert plan.plan({"kernels": ["coalesced"]}).by_name("coalesced").tuned
    assert plan.plan({"kernels": ["coalesced@BM=8"]}).by_name("coalesced@BM=8").tuned == ()
    assert plan.plan({"tune": {"use": False}}).ladder["coalesced"].tuned == ()
    assert plan.plan({"gpu": "t4"}).ladder["coalesced"].tuned == ()


def test_a_device_of_the_users_own_has_its_own_tuned_file_and_the_one_that_ships_stays(project, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index=0: a_device())
    write(project / "kernels/coalesced.cu", "#ifndef BM\n#define BM 4\n#endif\n")
    shipped, own = plan.plan({"records": "shipped"}), plan.plan({})
    assert shipped.tuned_path == "config/tuned/h100-sxm.yaml"
    assert own.tuned_path == f"results/h100-sxm/devices/{a_device().folder}/tuned/h100-sxm.yaml"
    for run, value in ((shipped, 64), (own, 128)):
        text = tuned_text("h100-sxm", Tuned((S1,), {"coalesced": {S1: {"BM": value}}}))
        write(project / run.tuned_path, text)
    assert plan.plan({"records": "shipped"}).ladder["coalesced"].parameters == "BM=64"
    assert plan.plan({}).ladder["coalesced"].parameters == "BM=128"


@pytest.mark.parametrize("records", ["shipped", "auto"])
def test_another_ladder_of_the_project_has_a_tuned_file_of_its_own_that_ours_does_not_read(
    project, monkeypatch, records
):
    monkeypatch.setattr(nvml, "present", lambda index=0: a_device())
    write(project / "kernels/coalesced.cu", SOURCE)
    write(project / "kernels/mine/mine.cu", SOURCE)
    mine = {**KERNELS["coalesced"], "source": "mine.cu", "tune": {"parameters": {"BM": [32]}}, "before": "coalesced"}
    write(project / "kernels/mine/kernels.yaml", json.dumps({"mine": mine}))
    ours, other = {"records": records}, {"records": records, "ladder": "kernels/mine/kernels.yaml"}
    own = f"results/h100-sxm/devices/{a_device().folder}/kernels/mine/tuned/h100-sxm.yaml"
    wanted = {"shipped": "kernels/mine/tuned/h100-sxm.yaml", "auto": own}
    assert plan.plan(other).tuned_path == wanted[records]
    for run, name, value in ((plan.plan(ours), "coalesced", 64), (plan.plan(other), "mine", 128)):
        write(project / run.tuned_path, tuned_text("h100-sxm", Tuned((S1,), {name: {S1: {"BM": value}}})))
    assert "mine" not in plan.plan(ours).ladder
    both = plan.plan(other).ladder
    assert (both["coalesced"].parameters, both["mine"].parameters) == ("BM=64", "BM=128")


def test_classes_meet_at_the_geometric_mean_and_equal_neighbours_are_one():
    a, b = {"BM": 64}, {"BM": 128}
    classes = size_classes({S4: b, S1: a})
    assert [each.macros for each in classes] == [{"BM": "64"}, {"BM": "128"}]
    assert classes[0].below_flop == pytest.approx(2 * 2048**3)
    assert classes[1].below_flop == math.inf
    rung = a_rung("t@LAYOUT=1", tuned=classes)
    assert rung.macros_at(Shape.parse("2047")) == {"LAYOUT": "1", "BM": "64"}
    assert rung.macros_at(Shape.parse("2048")) == {"LAYOUT": "1", "BM": "128"}
    assert a_rung("t@BM=1").macros_at(S1) == {"BM": "1"}
    assert size_classes({S1: a, S4: a}) == (TunedClass(math.inf, {"BM": "64"}),)


def test_the_classes_of_a_rung_are_of_its_own_sizes_and_in_rising_order(project):
    write(project / "kernels/sgemm/t.cu", SOURCE)
    own = {"4096": {"BM": 3}, "1024": {"BM": 1}, "2048": {"BM": 2}}
    path = write(project / "round.yaml", json.dumps({"sizes": [512, 1024], "rungs": {"t": own, "u": {"64": {}}}}))
    ladder = with_tuned({name: a_rung(name, source="sgemm/t.cu") for name in "tu"}, path)
    assert [each.macros["BM"] for each in ladder["t"].tuned] == ["1", "2", "3"]
    ends = [(each.below_flop / 2) ** (1 / 3) for each in ladder["t"].tuned]
    assert ends == pytest.approx([math.sqrt(1024 * 2048), math.sqrt(2048 * 4096), math.inf])
    assert ladder["u"].tuned == (TunedClass(math.inf, {}),)


@pytest.mark.parametrize(
    ("own", "claims", "tuned"),
    [
        ({}, {}, [64, 512]),
        ({"sizes": []}, {}, [64, 512]),
        ({"sizes": [256, 96, "128x512x128"]}, {}, [96, "128x512x128", 256]),
        ({"sizes": [256, 96]}, {"n": "n % 128 == 0"}, [256]),
        ({"sizes": [96]}, {"n": "n % 128 == 0"}, []),
        ({}, {"n": 7}, []),
    ],
)
def test_a_rung_is_searched_at_the_sizes_that_it_declares_else_at_tune_sizes(project, monkeypatch, own, claims, tuned):
    monkeypatch.setattr(nvml, "present", lambda index=0: None)
    write(project / "kernels/late.cu", SOURCE)
    late = {**KERNELS["coalesced"], "source": "late.cu", "tune": {"parameters": {"BM": [32]}, **own}, "claims": claims}
    write(project / "config/kernels.yaml", json.dumps({**KERNELS, "late": late}))
    run = plan.plan({"tune_sizes": [512, 64], "sizes": [7, 128]})
    assert run.tune_shapes_of("late") == [Shape.parse(size) for size in tuned]
    assert run.tuned_entries == (["late"] if tuned else [])
    key = "config/kernels.yaml: late.tune.sizes, 96 " if own.get("sizes") else "tune_sizes, 64, 512 "
    assert [key in line for line in run.not_tuned] == ([] if tuned else [True])


def test_of_an_earlier_tuned_file_rungs_stay_that_were_not_searched_again():
    ladder = {name: a_rung(name) for name in ("t@A=1", "t@A=2", "u", "v")}
    earlier = {"v": {S1: {"BM": 1}}, "t@A=2": {S4: {"BM": 2}}, "gone": {S1: {"BM": 3}}, "u": {S1: {"BM": 4}}}
    best = {"t@A=1": {S1: {"BM": 5}}}
    found = with_earlier(best, earlier, ["t"], ladder)
    assert list(found.items()) == [(name, {**earlier, **best}[name]) for name in ("t@A=1", "u", "v")]


def test_every_class_is_checked_with_every_case_at_an_odd_shape(project, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index=0: None)
    text = tuned_text("h100-sxm", Tuned((S1, S4), {"naive": {S1: {"BM": 64}, S4: {"BM": 8}}}))
    write(project / "config/tuned/h100-sxm.yaml", text)
    write(project / "kernels/naive.cu", "#ifndef BM\n#define BM 4\n#endif\n")
    cases = [{"alpha": 1, "beta": 0}, {"alpha": 2, "beta": 1, "padding": 3}]
    run = plan.plan({"kernels": ["naive"], "sizes": [8], "check": {"shapes": [1], "cases": cases}})
    (shape,) = odd_shapes(run.by_name("naive").tuned)
    assert shape.m % 2 == shape.n % 2 == shape.k % 2 == 1
    assert shape.flop > run.by_name("naive").tuned[0].below_flop
    assert [case.padding for case in run.cases() if case.shape == shape] == [0, 3]


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
    for name in tune_stage.trial_rungs(tiled_of(read_kernels(REPOSITORY / "config/kernels.yaml")), a_gpu()):
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
        "tune": {"parameters": {"BM": [4, 8], "BN": [32, 33]}, "restrictions": ["BN % 32 == 0"]},
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
    table = pd.read_csv(copy / f"results/{RECORDED}/all/tables/trials.csv")
    assert set(table["trial"]) == set(times)
    assert set(table["source"]) == {"current"}
    assert (copy / f"results/{RECORDED}/all/figures/tuning.svg").stat().st_size > 1000
    assert contents(copy / "config") == before, "a machine without a GPU chooses nothing"
    made = contents(copy / f"results/{RECORDED}")
    (copy / f"results/{RECORDED}/all/tables/trials.csv").unlink()
    run = snakemake(copy, [], f"results/{RECORDED}/all/tables/trials.csv")
    assert run.status == 0, run.output
    assert contents(copy / f"results/{RECORDED}") == made


# Python runs this first in each of its processes: of the workers of a search the second waits until it is killed.
HALT = """
import pathlib, signal, sys

if "ladder.measure.worker" in sys.orig_argv:
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
    (path,) = copy.glob("results/*/devices/*/raw/trials/*.gz")
    kept = Record.read(path, "coalesced").trials
    assert len(kept) == 1
    run = snakemake(copy, config, "tune", gpu=True)
    assert run.status == 0, run.output
    record = Record.read(path, "coalesced")
    assert {name for name, _ in record.trials} == {"coalesced@BM=4,BN=32", "coalesced@BM=8,BN=32"}
    assert {trial["status"] for trial in record.trials.values()} == {"ok"}
    assert all(record.trials[key]["batch"] == trial["batch"] for key, trial in kept.items())
    (file,) = copy.glob("results/*/devices/*/tuned/*.yaml")
    (classes,) = read_tuned(file).rungs.values()
    assert set(classes) == {Shape.parse("256"), Shape.parse("512")}
    run = snakemake(copy, config, "--until", "check", gpu=True)
    assert run.status == 0, run.output
    (check,) = copy.glob("results/*/devices/*/raw/check/coalesced.json")
    assert store.read_json(check)["status"] == "pass"
