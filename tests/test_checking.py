"""The check stage: which cases there are, what is wrong in each, and what the record says of them all."""

import json
import math
import pickle
import threading
import time

import numpy as np
import pytest
from conftest import a_build, a_case, a_check, a_where, asked
from ladder.build.compile import build
from ladder.build.library import Library
from ladder.config import gpus
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS, plan
from ladder.measure.check import judge
from ladder.measure.check import worker as check_worker
from ladder.measure.check.in_common import passing
from ladder.measure.check.stage import check_rung
from ladder.measure.devices import EmulatedDevice
from ladder.measure.worker import WORKER
from ladder.model.cases import GPU_ALONE, OTHER_ARGUMENTS, Case, all_cases
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.checks import held_cases, merge_check
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.system.process import Outcome

# Cases


@pytest.mark.parametrize("name", ["mma_3xtf32", "tf32", "wgmma_3xfp16"])
def test_on_a_gpu_products_with_rests_reach_the_kernels_for_large_ones(tmp_path, nvcc, name):
    rung = read_kernels(KERNELS)[name]
    assert build(rung, gpus.read_gpu("h100-sxm"), nvcc, ["-O1", "-std=c++17"], tmp_path / name)["status"] == "ok"
    library = Library(tmp_path / name / "library.so")

    def kernels(cases):
        launches = (library.launches(case.shape, 132, case.paddings) for case in cases)
        return {launch.kernel for each in launches for launch in each}

    large = [case for case in GPU_ALONE if min(case.shape.m, case.shape.n, case.shape.k) > 1000]
    assert kernels(large) > kernels([asked("4096")]) > kernels([])
    assert all(side % 16 for case in large for side in (case.shape.m, case.shape.n, case.shape.k))
    assert kernels(large[1:]) == kernels([asked("4096")])
    assert len({case.family for case in large}) >= 4


def test_every_shape_is_crossed_with_every_case_and_what_is_timed_is_added_as_it_is_timed():
    other = {"alpha": 2, "padding": 3}
    assert all_cases([Shape(7, 7, 7), Shape(1, 2, 0)], [{}, other], [Shape(128, 128, 128)]) == [
        *(asked("7"), asked("7", **other)),
        *(asked("1x2x0"), asked("1x2x0", **other)),
        asked("128"),
    ]


def test_a_timed_shape_that_is_checked_already_is_not_checked_twice():
    timed = [Shape(7, 7, 7), Shape(8, 8, 8)]
    assert all_cases([Shape(7, 7, 7)], [{"alpha": 1.0}], timed) == [asked("7"), asked("8")]
    assert len(all_cases([Shape(7, 7, 7)], [{"beta": 1}], timed)) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "31x33x32"),
        ({"alpha": -1.25, "beta": 0.75, "padding": 3}, "31x33x32, alpha -1.25, beta 0.75, padding 3"),
        ({"alpha": 0, "offset": 1}, "31x33x32, alpha 0, offset 1"),
        ({"padding": (1, 0, 0), "family": "normal"}, "31x33x32, padding [1, 0, 0], inputs normal"),
        ({"beta": math.inf, "drawn": 5, "probe": "refuses"}, "31x33x32, beta inf, drawn by seed 5, probe refuses"),
    ],
)
def test_a_case_is_described_by_what_is_not_plain_about_it(changes, words):
    assert str(asked("31x33x32", **changes)) == words


@pytest.mark.parametrize(
    ("case", "record"),
    [
        (asked("7"), {"alpha": 1, "beta": 0, "padding": 0, "offset": 0, "family": "uniform"}),
        (
            asked("7", alpha=-0.5, offset=(0, 1, 0), family="normal", sms=1, blocks=4),
            {"alpha": -0.5, "beta": 0, "padding": 0, "offset": [0, 1, 0], "family": "normal", "sms": 1, "blocks": 4},
        ),
        (
            asked("7", alpha=math.nan, beta=-math.inf, drawn=9, probe="refuses"),
            {
                **{"alpha": "nan", "beta": "-inf", "padding": 0, "offset": 0, "family": "uniform"},
                **{"drawn": 9, "probe": "refuses"},
            },
        ),
    ],
)
def test_a_case_reads_back_from_its_record_whatever_else_stands_there(case, record):
    assert case.as_record() == {"shape": "7", **record}
    assert Case.of(json.loads(json.dumps(case.as_record() | {"seed": 5, "verdict": "pass"}))) == case
    assert Case.of({"shape": "7"}) == asked("7")
    assert pickle.loads(pickle.dumps(case)) == case  # as the jobs of a run get it


# The verdict over all cases


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Checks a rung with a worker that sends these events and ends like this."""

    def check(events, outcome=Outcome("ok", ""), made=None):  # noqa: B008
        def worker(module, request, on_event, time_limit_s, log):
            assert (module, time_limit_s) == (WORKER, 60)
            assert request["cases"] == [asked("7").as_record()]
            for event in events:
                on_event(event)
            return outcome

        monkeypatch.setattr("ladder.measure.check.stage.run_worker", worker)
        check.progress = []
        made = made or a_build(tmp_path / "naive")
        return check_rung(
            made,
            [asked("7")],
            0,
            60,
            lambda compiled: a_where(),
            tmp_path / "log",
            lambda *at: check.progress.append(at),
        )

    return check


def events_of(*cases):
    return [event for case in cases for event in ({"starts": {"shape": case["shape"]}}, {"case": case})]


def test_a_rung_passes_when_every_case_does(checked):
    cases = [a_case("7"), a_case("8")]
    record = checked(events_of(*cases))
    assert 0 <= record["where"].pop("wall_s") < 60
    assert record == {
        **{"status": "pass", "message": "", "where": a_where()},
        **{"declared": {}, "runs": 1, "identical": True, "cases": cases},
    }
    assert checked.progress == [(0, asked("7")), (1, asked("8"))]


def test_processes_share_the_cases_and_one_has_all_large_products(tmp_path, monkeypatch):
    shares = []

    def worker(module, request, on_event, time_limit_s, log):
        shares.append([case["shape"] for case in request["cases"]])
        for event in events_of(*(a_case(shape) for shape in shares[-1])):
            on_event(event)
        return Outcome("ok", "")

    monkeypatch.setattr("ladder.measure.check.stage.run_worker", worker)
    cases = [asked(shape) for shape in ("7", "4096", "8", "9", "8192x8192x1", "10", "11")]
    made, log = a_build(tmp_path / "naive"), tmp_path / "log"
    record = check_rung(made, cases, 0, 60, lambda compiled: a_where(), log, lambda *_: None, workers=3)
    assert sorted(shares) == [["4096", "8192x8192x1"], ["7", "9", "11"], ["8", "10"]]
    assert [case["shape"] for case in record["cases"]] == [str(case.shape) for case in cases]
    assert record["status"] == "pass"


@pytest.mark.parametrize("until_wrong", [False, True])
def test_what_one_process_finds_ends_the_others_if_a_check_is_asked_for_no_more(tmp_path, monkeypatch, until_wrong):
    begun, found = threading.Event(), threading.Event()

    def worker(module, request, on_event, time_limit_s, log):
        assert request["until_wrong"] == until_wrong
        first, second = (case["shape"] for case in request["cases"])
        if first == "7":
            assert begun.wait(10)
            for event in events_of(a_case("7", "NaN")):
                on_event(event)
            found.set()
        else:
            for event in events_of(a_case("8")):
                on_event(event)
            begun.set()
            assert found.wait(10)
            time.sleep(0.1)  # until the process that found it has ended
            for event in events_of(a_case(second)):
                on_event(event)
        return Outcome("ok", "")

    monkeypatch.setattr("ladder.measure.check.stage.run_worker", worker)
    cases = [asked(shape) for shape in ("7", "8", "9", "10")]
    made, rest = a_build(tmp_path / "naive"), (tmp_path / "log", lambda *_: None)
    record = check_rung(made, cases, 0, 60, lambda _: a_where(), *rest, workers=2, until_wrong=until_wrong)
    assert record["status"] == "failed"
    assert [case["shape"] for case in record["cases"]] == ["7", "8"] + ["10"] * (not until_wrong)


def test_the_first_wrong_case_is_told_and_the_others_are_counted(checked):
    wrong = [a_case("8", "wrote into A or B", alpha=2), a_case("9", "NaN")]
    record = checked(events_of(a_case("7"), *wrong))
    assert record["status"] == "failed"
    assert record["message"] == "8x8x8, alpha 2: wrote into A or B; 1 of 3 cases pass, all with k <= 7"
    assert len(record["cases"]) == 3
    assert checked(events_of(wrong[1]))["message"] == "9x9x9: NaN"


def test_a_worker_that_crashed_is_told_with_the_case_it_was_at(checked):
    crash = Outcome("failed", "crashed: killed by SIGSEGV")
    record = checked([*events_of(a_case("7")), {"starts": {"shape": "8", "beta": 2}}], crash)
    assert (record["status"], record["message"]) == ("failed", "8x8x8, beta 2: crashed: killed by SIGSEGV")
    assert [case["shape"] for case in record["cases"]] == ["7"]


WARNS = """\
ptxas info    : 0 bytes gmem
kernels/own.cu(36): warning #940-D: missing return statement at end of non-void function "run"
  }
  ^
kernels/own.cu(40): warning #177-D: variable "x" was declared but never referenced
"""


def test_what_fails_is_told_with_what_nvcc_warned_of(checked, tmp_path):
    made = a_build(tmp_path / "own", log=WARNS)
    told = '; nvcc warns: kernels/own.cu(36): missing return statement at end of non-void function "run"'
    crash = Outcome("failed", "crashed: killed by SIGSEGV")
    assert checked([{"starts": {"shape": "8"}}], crash, made)["message"] == f"8x8x8: crashed: killed by SIGSEGV{told}"
    assert checked(events_of(a_case("7")), made=made)["message"] == ""


def test_a_worker_that_never_started_a_case_is_told(checked):
    record = checked([], Outcome("failed", "no progress for 60 s; stopped"))
    assert (record["status"], record["message"], record["cases"]) == ("failed", "no progress for 60 s; stopped", [])


@pytest.mark.parametrize(("events", "case"), [([], ""), ([{"starts": {"shape": "8"}}], "8x8x8: ")])
def test_a_full_gpu_is_an_error_and_no_verdict(checked, events, case):
    message = "out of GPU memory (1 GiB asked for); free the GPU or take smaller sizes"
    with pytest.raises(LadderError) as caught:
        checked([*events_of(a_case("7")), *events] if events else [], Outcome("broken", message))
    assert str(caught.value).startswith(f"check: naive: {case}not checked: {message}")


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([], "failed"),
        ([{"starts": {"shape": "7"}}], "failed"),
        (events_of(a_case("8")), "failed"),
        ([{"starts": {"shape": "7"}}, {"left_out": asked("7").as_record()}], "pass"),
        (events_of(a_case("7")), "pass"),
    ],
)
def test_only_a_rung_with_an_answer_to_every_case_that_was_asked_for_passes(checked, events, status):
    assert checked(events)["status"] == status


def test_a_wrong_case_is_told_before_a_crash_behind_it(checked):
    record = checked(events_of(a_case("7", "NaN")), Outcome("failed", "crashed"))
    assert record["message"] == "7x7x7: NaN"


@pytest.mark.parametrize("status", ["failed", "does not apply"])
def test_a_rung_that_did_not_compile_is_not_checked(checked, tmp_path, status):
    made = a_build(tmp_path / "broken", status=status, message="a.cu(3): error")
    assert checked([{"unexpected": 1}], made=made) == {"status": status, "message": "a.cu(3): error", "cases": []}


# Records of earlier runs


def merged(tmp_path, earlier, record):
    if earlier is not None:
        store.write_json(tmp_path / "check.json", earlier)
    return merge_check(tmp_path / "check.json", record)


def test_cases_that_this_run_did_not_ask_for_are_kept(tmp_path):
    old = [a_case("7", seed=1), a_case("8", seed=1), a_case("7", seed=1, alpha=2)]
    new = [a_case("7", seed=2), a_case("9", seed=2)]
    record = merged(tmp_path, a_check(cases=old), a_check(cases=new))
    assert record == a_check(cases=[*new, old[1], old[2]])


def test_drawn_cases_give_way_to_those_of_another_seed_and_stay_beside_those_of_their_own(tmp_path):
    old = [a_case("7"), a_case("8", drawn=1), a_case("9", drawn=2)]
    kept = merged(tmp_path, a_check(cases=old), a_check(cases=[a_case("10", drawn=2)]))
    assert [case["shape"] for case in kept["cases"]] == ["10", "7", "9"]
    kept = merged(tmp_path, a_check(cases=old), a_check(cases=[a_case("10")]))
    assert [case["shape"] for case in kept["cases"]] == ["10", "7", "8", "9"]


def test_a_rung_that_was_checked_in_parts_took_the_time_of_both_and_is_as_deterministic_as_the_worse(tmp_path):
    old, new = a_check(cases=[a_case("7")]), a_check(cases=[a_case("8")])
    old |= {"identical": False, "where": old["where"] | {"wall_s": 1.5}}
    new |= {"identical": True, "where": new["where"] | {"wall_s": 2.0}}
    record = merged(tmp_path, old, new)
    assert (record["where"]["wall_s"], record["identical"]) == (3.5, False)
    again = a_check(cases=[a_case("7"), a_case("8")]) | {"where": new["where"]}
    assert merged(tmp_path, old, again)["where"]["wall_s"] == 2.0


DECLARED = {"deterministic": True, "precision": "fp32"}


def held(tmp_path, changes, where=None, cases=()):
    earlier = a_check(cases=[a_case("7"), *cases]) | {"runs": 5, "declared": DECLARED} | changes
    store.write_json(tmp_path / "check.json", earlier)
    return held_cases(tmp_path / "check.json", where or a_where(), 5, DECLARED)


def test_a_record_holds_the_cases_that_passed_in_it(tmp_path):
    assert held_cases(tmp_path / "check.json", a_where(), 5, DECLARED) == set()
    assert held(tmp_path, {}) == {asked("7")}
    assert held(tmp_path, {}, cases=[a_case("8", drawn=3)]) == {asked("7"), asked("8", drawn=3)}


@pytest.mark.parametrize(
    "changes",
    [{"status": "failed"}, {"runs": 1}, {"declared": DECLARED | {"precision": "tf32"}}, {"declared": None}],
    ids=["failed", "fewer runs", "declared otherwise", "before declarations were recorded"],
)
def test_a_record_of_another_check_spares_nothing(tmp_path, changes):
    assert held(tmp_path, changes) == set()


@pytest.mark.parametrize("key", ["compile", "gpu", "software"])
def test_a_record_of_another_build_gpu_or_software_spares_nothing(tmp_path, key):
    where = a_where()
    assert held(tmp_path, {}, where | {key: where[key] | {"other": "x"}}) == set()


@pytest.mark.parametrize(
    ("earlier", "record"),
    [
        (None, a_check(cases=[a_case("7")])),
        (a_check(cases=[a_case("8")], build="build-2"), a_check(cases=[a_case("7")])),
        (a_check("failed", "8: NaN", cases=[a_case("8", "NaN")]), a_check(cases=[a_case("7")])),
        (a_check(cases=[a_case("8")]), a_check("failed", "7x7x7: NaN", cases=[a_case("7", "NaN")])),
        (
            a_check(cases=[a_case("8")]) | {"declared": {"precision": "tf32"}},
            a_check(cases=[a_case("7")]) | {"declared": {"precision": "fp32"}},
        ),
        ({"status": "does not apply", "message": "", "cases": []}, a_check(cases=[a_case("7")])),
        (a_check(cases=[a_case("8")]), {"status": "failed", "message": "a.cu(3): error", "cases": []}),
    ],
    ids=[
        "no record",
        "another build",
        "earlier failed",
        "this failed",
        "declared otherwise",
        "did not apply",
        "did not compile",
    ],
)
def test_nothing_is_kept_of_what_does_not_belong_together(tmp_path, earlier, record):
    assert merged(tmp_path, earlier, record) == record


# What the cases that pass have in common

CASES = [
    asked(shape, **values)
    for shape in ("1", "16", "31x33x32", "64x20x48", "40x97x17", "130")
    for values in ({}, {"beta": 1}, {"alpha": -1, "beta": 0.5}, {"padding": 3}, {"offset": 1}, {"family": "normal"})
]


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        (lambda case: case.beta == 0, "24 of 36 cases pass, all with beta = 0"),
        (lambda case: case.shape.k % 16 == 0, "18 of 36 cases pass, all with k % 16 = 0"),
        (lambda case: case.shape.n > 33, "12 of 36 cases pass, all with n > 33"),
        (lambda case: case.padding == 0, "30 of 36 cases pass, all with padding = 0"),
        (lambda case: case.family == "normal", "6 of 36 cases pass, all with normal inputs"),
        (lambda case: case.shape.m % 2 == 0 and case.beta == 0, "16 of 36 cases pass, all with beta = 0 and m % 2 = 0"),
        (
            lambda case: case.shape.k <= 17 or case.beta == 0,
            "30 of 36 cases pass; all with beta != 0 and k > 17 fail",
        ),
        (
            lambda case: case.beta == 0 or case in CASES[1::12] + CASES[8::12],
            "30 of 36 cases pass, among them all with beta = 0",
        ),
        (lambda case: False, "none of 36 cases passes"),
        (lambda case: case in CASES[5::7], "5 of 36 cases pass"),
    ],
)
def test_what_the_cases_that_pass_have_in_common_is_told(passes, text):
    passed = [case for case in CASES if passes(case)]
    assert passing(passed, [case for case in CASES if case not in passed]) == text


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        (lambda case: case.beta == 0, "beta = 0"),
        (lambda case: case.alpha == 1, "alpha = 1"),
        (lambda case: (case.alpha, case.beta) == (1, 0), "alpha = 1 and beta = 0"),
        (lambda case: not case.paddings[0], "lda = k"),
        (lambda case: not case.paddings[1], "ldb = n"),
        (lambda case: not case.paddings[2], "ldc = n"),
        (lambda case: case.shape.k % 4 == 0, "k % 4 = 0"),
    ],
    ids=["beta", "alpha", "both", "lda", "ldb", "ldc", "rest of k"],
)
def test_a_probe_that_calls_with_other_arguments_hides_no_condition(passes, text):
    """A rung ignores an argument: probes with other arguments fail, and of the other cases some pass all the same."""
    asked_for = plan(read_yaml(ROOT / "config/config.yaml")).emulated_cases("naive")
    hiding = [case for case in asked_for if case.probe != OTHER_ARGUMENTS and not passes(case)][::9]
    passed = [case for case in asked_for if case.probe != OTHER_ARGUMENTS and (passes(case) or case in hiding)]
    failed = [case for case in asked_for if case not in passed]
    assert {case.probe for case in failed} >= {"", OTHER_ARGUMENTS}
    assert passing(passed, failed).endswith(f", among them all with {text}")


def test_probes_count_where_nothing_else_fails():
    cases = [asked("16"), asked("16", probe="capture"), asked("9x8x7"), asked("9x8x7", probe="capture")]
    passed = [case for case in cases if not case.probe]
    assert passing(passed, [case for case in cases if case.probe]) == "2 of 4 cases pass"


def test_each_leading_dimension_is_told_apart():
    cases = [asked(shape, padding=each) for shape in ("16", "9x8x7") for each in ((3, 0, 0), (0, 3, 0), (0, 0, 3), 0)]
    passed = [case for case in cases if not case.paddings[1]]
    text = "6 of 8 cases pass, all with ldb = n"
    assert passing(passed, [case for case in cases if case not in passed]) == text


def test_cases_without_a_product_tell_nothing_of_a_kernel_that_fails():
    nothing = [asked("1", alpha=0), asked("4x4x0"), asked("0x4x4")]
    failed = [asked("1"), asked("8")]
    assert passing(nothing, failed) == "none of 2 cases with a product passes"
    assert passing([*nothing, asked("16")], failed) == "1 of 3 cases with a product pass, all with k % 16 = 0"
    assert passing(failed, nothing[:1]) == "2 of 3 cases pass, all with alpha != 0"


# One case: the judgement, with NumPy in the place of CuPy

ON_CPU = EmulatedDevice(threads=1, time_limit_s=30)


def problem(shape: Shape, alpha=1.0, beta=0.0, seed=0):
    """Inputs of a case, and its product in float64."""
    random = np.random.default_rng(seed)
    A, B, C = (random.uniform(-1, 1, size).astype(np.float32) for size in shape_of(shape))
    right = alpha * (A.astype(np.float64) @ B) + (beta * C.astype(np.float64) if beta else 0)
    return A, B, C, right


def shape_of(shape: Shape) -> list[tuple[int, int]]:
    return [(shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n)]


SQUARE = Shape(33, 17, 100)


@pytest.mark.parametrize("alpha", [1, -1.25, 0])
@pytest.mark.parametrize("beta", [0, 0.75])
@pytest.mark.parametrize("shape", [SQUARE, Shape(5, 7, 0), Shape(1, 1, 1)], ids=str)
def test_a_rounded_product_passes(shape, alpha, beta):
    A, B, C, right = problem(shape, alpha, beta)
    found = judge.case_error(shape, alpha, beta, A, B, C, right.astype(np.float32))
    assert found["verdict"] == "pass"
    assert 0 <= found["error_normwise"] < 1e-7


@pytest.mark.parametrize("panel_bytes", [8 * 17, 8 * 17 * 10, 1 << 28])
def test_the_errors_do_not_depend_on_the_panels(monkeypatch, panel_bytes):
    A, B, C, right = problem(SQUARE, 2.0, -1.0)
    whole = judge.case_error(SQUARE, 2.0, -1.0, A, B, C, right.astype(np.float32))
    monkeypatch.setattr(judge, "PANEL_BYTES", panel_bytes)
    found = judge.case_error(SQUARE, 2.0, -1.0, A, B, C, right.astype(np.float32))
    assert found["error_normwise"] == pytest.approx(whole["error_normwise"], rel=1e-3)
    assert found["error_componentwise"] == whole["error_componentwise"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("panel_bytes", [8 * 17 * 10, 1 << 28])
def test_a_nan_where_a_number_belongs_is_told_with_its_place(monkeypatch, value, panel_bytes):
    monkeypatch.setattr(judge, "PANEL_BYTES", panel_bytes)
    A, B, C, right = problem(SQUARE)
    result = right.astype(np.float32)
    result[25, 3] = value
    found = judge.case_error(SQUARE, 1, 0, A, B, C, result)
    assert found == {"verdict": f"NaN or infinity at row 25, column 3, instead of {right[25, 3]:.9g}"}


def test_a_beta_of_minus_zero_is_told_and_a_plain_case_is_its_shape_alone():
    assert str(Case(Shape(7, 8, 9), beta=-0.0)) == "7x8x9, beta -0"
    assert str(Case(Shape(7, 8, 9), alpha=1.0, beta=0.0)) == "7x8x9"


def test_one_wrong_element_is_told():
    A, B, C, right = problem(SQUARE)
    result = right.astype(np.float32)
    result[32, 16] *= np.float32(1.001)
    found = judge.case_error(SQUARE, 1, 0, A, B, C, result)
    assert "exceeds the bound of an FP32 product" in found["verdict"]
    assert found["error_componentwise"] > found["error_normwise"] > 0


@pytest.mark.parametrize(("wrong_alpha", "wrong_beta"), [(1.0, 0.75), (2.0, 0.0), (2.0, 1.0), (0.0, 0.75)])
def test_scalars_that_are_ignored_are_told(wrong_alpha, wrong_beta):
    A, B, C, _ = problem(SQUARE)
    result = (wrong_alpha * (A.astype(np.float64) @ B) + wrong_beta * C).astype(np.float32)
    found = judge.case_error(SQUARE, 2.0, 0.75, A, B, C, result)
    assert "exceeds the bound of an FP32 product" in found["verdict"]


def test_arithmetic_in_tf32_is_told_by_the_norm():
    shape = Shape(32, 32, 4096)
    A, B, C, _ = problem(shape)

    def tf32(values):
        bits = values.view(np.uint32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)

    found = judge.case_error(shape, 1, 0, A, B, C, (tf32(A) @ tf32(B)).astype(np.float32))
    assert "exceeds that of FP32 rounding" in found["verdict"]
    assert 1e-4 < found["error_normwise"] < 1e-3


def test_anything_but_zero_where_nothing_was_summed_is_told():
    shape = Shape(5, 7, 0)
    A, B, C, right = problem(shape)
    result = right.astype(np.float32)
    result[0, 0] = 1e-30
    found = judge.case_error(shape, 1, 0, A, B, C, result)
    assert "exceeds the bound of an FP32 product" in found["verdict"]


def test_a_verdict_is_json():
    A, B, C, right = problem(Shape(5, 7, 0))
    for result in (right, right + 1):
        found = judge.case_error(Shape(5, 7, 0), 1, 0, A, B, C, result.astype(np.float32))
        assert json.loads(json.dumps(found, allow_nan=False)) == found


# Guards


def guarded(values=None):
    """A 3 x 4 matrix with two gap columns, one float behind the boundary."""
    return check_worker.buffer(ON_CPU, values, 3, 4, padding=2, offset=1)


def test_a_guarded_matrix_lies_between_nans():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = guarded(values)
    assert (made.ld, made.start % 64, made.matrix.tolist()) == (6, 1, values.tolist())
    assert np.isnan(made.memory).sum() == len(made.memory) - 12
    assert made.start >= check_worker.GUARD <= len(made.memory) - made.start - 3 * 6


def test_a_matrix_that_must_not_be_read_holds_nans():
    assert np.isnan(guarded().matrix).all()


def test_a_matrix_without_columns_has_a_leading_dimension_of_one():
    assert check_worker.buffer(ON_CPU, None, 3, 0, 0, 0).ld == 1


def test_an_untouched_matrix_is_known():
    made = guarded()
    assert not made.touched()
    assert not made.touched_outside()


def test_a_write_into_the_elements_is_known_from_one_outside():
    made = guarded()
    made.matrix[...] = 1
    assert made.touched()
    assert not made.touched_outside()


@pytest.mark.parametrize("place", [-1, -check_worker.GUARD, 4, 5, 16, 18, 18 + check_worker.GUARD - 1])
@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_write_into_a_gap_or_a_guard_is_known_even_of_a_nan(place, value):
    made = guarded()
    made.memory[made.start + place] = value
    assert made.touched_outside()
    assert made.touched()


@pytest.mark.parametrize("runs", [1, 5])
def test_drawn_cases_are_computed_twice_on_a_gpu_and_the_longest_sum_once(tmp_path, monkeypatch, runs):
    asked_for = {}

    def worker(module, request, on_event, time_limit_s, log):
        asked_for.update(zip([case["shape"] for case in request["cases"]], request["runs"], strict=True))
        for event in events_of(*(a_case(case["shape"]) for case in request["cases"])):
            on_event(event)
        return Outcome("ok", "")

    monkeypatch.setattr("ladder.measure.check.stage.run_worker", worker)
    cases = [asked("7"), asked("8", drawn=3), asked("1x1x16777217"), asked("2x3x2097217")]
    made, rest = a_build(tmp_path / "naive"), (tmp_path / "log", lambda *_: None)
    check_rung(made, cases, 0, 60, lambda _: a_where(), *rest, runs, workers=2)
    assert asked_for == {"7": runs, "8": min(runs, 2), "1x1x16777217": 1, "2x3x2097217": runs}
