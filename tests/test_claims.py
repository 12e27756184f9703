"""Rungs that compute less than SGEMM: what they claim is checked and timed, and nothing else; they are told apart."""

import math

import pytest
import yaml
from conftest import asked, line_of
from ladder.config import plan
from ladder.config.kernels import read_kernels
from ladder.model.cases import EMULATED_PROBES, MANY_ELEMENTS, probes
from ladder.model.claims import claimed, claimed_cases, claimed_shapes, in_words
from ladder.model.precision import label
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.rungs import rung_table

CASES = [asked("7"), asked("31x33x32", alpha=-1.25, beta=0.75, padding=3), asked("128", beta=1), asked("0x5x7")]


@pytest.mark.parametrize(
    ("claims", "cases"),
    [
        ({}, CASES),
        ({"beta": 0}, [asked("7"), asked("31x33x32", alpha=-1.25, padding=3), asked("128"), asked("0x5x7")]),
        (
            {"n": "n % 128 == 0", "beta": 0},
            [
                *(asked("7x128x7"), asked("31x128x32", alpha=-1.25, padding=3), asked("128"), asked("0x128x7")),
            ],
        ),
        (
            {"lda": "lda % 4 == 0", "alpha": 1},
            [
                *(asked("7", padding=(1, 0, 0)), asked("31x33x32", beta=0.75, padding=(4, 3, 3))),
                *(asked("128", beta=1), asked("0x5x7", padding=(1, 0, 0))),
            ],
        ),
        ({"k": "k > 0 and k <= n"}, [asked("7"), CASES[1], asked("128", beta=1)]),
        ({"k": 9}, [asked("7x7x9"), asked("31x33x9", alpha=-1.25, beta=0.75, padding=3), asked("128x128x9", beta=1)]),
        ({"m": "m > 5000"}, []),
    ],
)
def test_cases_are_moved_to_the_next_that_are_claimed(claims, cases):
    found = claimed_cases(claims, CASES)
    assert found[: len(cases)] == cases
    assert len(found) == len(cases) + (claims == {"k": 9})  # 0x5x9 too


@pytest.mark.parametrize(
    ("claims", "products"),
    [
        (
            {"m": "m % 32 == 0", "n": "n % 64 == 0", "k": "k % 32 == 0", "lda": "lda == k"},
            ["140032x140032x32", "65536x65536x32", "65792x65344x32", "33554528x64x32", "32x33554560x32"],
        ),
        (
            {"ldb": "ldb % 16 == 0"},
            ["140003x140004x4", "65536x65536x4", "65789x65284x4", "33554497x3x4", "3x33554497x4"],
        ),
        ({"m": "m == n", "k": "k == n"}, []),
    ],
)
def test_the_probe_with_the_largest_matrices_asks_for_products_that_are_claimed(claims, products):
    found = claimed_cases(claims, probes(EMULATED_PROBES))
    assert [str(case.shape) for case in found if case.probe == MANY_ELEMENTS] == products
    assert all(claimed(claims, case) for case in found)


def test_the_shapes_to_be_timed_are_left_out_and_not_moved():
    shapes = [Shape(100, 100, 100), Shape(256, 128, 64)]
    assert claimed_shapes({"n": "n % 128 == 0", "beta": 0}, shapes) == shapes[1:]
    assert claimed_shapes({"beta": 1}, shapes) == []


@pytest.fixture
def ladder(tmp_path, monkeypatch):
    """Puts `mine`, as naive with these claims, into a ladder of its own; gives its file."""

    def make(claims, entry="mine"):
        entries = yaml.safe_load((ROOT / "config/kernels.yaml").read_text())
        mine = {"title": "an idea", "source": "sgemm/naive.cu", "before": "naive"}
        entries[entry] = {**entries.get(entry, mine), "claims": claims}
        after = {"title": "another", "source": "sgemm/naive.cu", "before": "mine"}
        file = tmp_path / "kernels.yaml"
        file.write_text(yaml.safe_dump({**entries, **({"after": after} if entry == "mine" else {})}, sort_keys=False))
        monkeypatch.setattr(plan, "KERNELS", file)
        return file

    return make


@pytest.mark.parametrize(
    ("claims", "entry", "message"),
    [
        ({"n": "n % 0 == 0"}, "mine", "mine.claims.n: 'n % 0 == 0': divides by zero"),
        ({"n": "size > 3"}, "mine", "mine.claims.n: 'size > 3': size is no number of a product; known: m, n, k"),
        ({"n": "__import__('os')"}, "mine", """mine.claims.n: "__import__('os')": """),
        ({"n": "n %"}, "mine", "mine.claims.n: 'n %': is no Python expression"),
        ({"rows": 4}, "mine", "mine.claims: 'rows' "),
        ({"n": True}, "mine", "mine.claims.n: "),
        ({"n": [1, 2]}, "mine", "mine.claims.n: "),
        ({"beta": 0}, "cublas", "cublas.claims: a baseline claims nothing"),
        ({"beta": 0}, "naive", "naive.claims: others are compared with the first rung"),
    ],
)
def test_bad_claims_are_one_line_with_file_key_and_remedy(ladder, claims, entry, message):
    assert message in line_of(read_kernels, ladder(claims, entry))


def test_a_rung_is_checked_timed_and_profiled_where_it_claims_and_stands_beside_no_other(ladder):
    ladder({"n": "n % 128 == 0", "beta": 0})
    run = plan.plan({"sizes": [96, 128, "64x256x64"], "kernels": ["mine", "after"], "profile": {"sizes": [96, 128]}})
    assert list(map(str, run.timed("mine"))) == ["128", "64x256x64"]
    assert list(map(str, run.timed("after"))) == ["96", "128", "64x256x64"]
    assert list(map(str, run.profile_shapes_of("mine"))) == ["128"]
    for cases in (run.cases("mine"), run.emulated_cases("mine"), run.sanitizer_cases("mine")):
        assert cases
        assert all(case.shape.n % 128 == 0 and case.beta == 0 for case in cases)
    assert run.cases("after") == run.cases()
    assert run.side_by_side("mine") == ["mine", "cublas", "cublas_best", "naive"]
    assert run.side_by_side("after") == ["after", "cublas", "cublas_best", "naive"]


@pytest.mark.parametrize(
    ("claims", "sizes", "tuned"),
    [
        ({}, [96, 128], ["96", "128"]),
        ({"n": "n % 128 == 0"}, [96, 128], ["128"]),
        ({"n": "n % 128 == 0"}, [96, 100], []),
    ],
)
def test_a_rung_is_tuned_where_it_claims_and_named_where_it_claims_nothing(ladder, claims, sizes, tuned):
    ladder(claims, "tiled_2d")
    run = plan.plan({"kernels": ["tiled_2d"], "sizes": [128], "tune_sizes": sizes})
    assert list(map(str, run.tune_shapes_of("tiled_2d"))) == tuned
    assert run.tuned_entries == (["tiled_2d"] if tuned else [])
    assert [line.partition(":")[0] for line in run.not_tuned] == ([] if tuned else ["tiled_2d"])


@pytest.mark.parametrize("scalar", [math.inf, math.nan, -2.5])
def test_a_condition_on_a_scalar_moves_cases_whose_scalar_is_no_number(scalar):
    cases = [asked("8", beta=scalar), asked("8", alpha=scalar)]
    assert claimed_cases({"beta": "beta == 0", "alpha": "alpha >= 1 and alpha < 5"}, cases) == [asked("8")]


def test_cases_move_to_the_next_claimed_number_and_gaps_stay_as_they_are():
    moved = claimed_cases({"k": "lda % 16 == 0"}, [asked("5x6x7", padding=3), asked("5x6x14", padding=(2, 0, 0))])
    assert moved == [asked("5x6x13", padding=3), asked("5x6x14", padding=(2, 0, 0))]
    assert claimed_cases({"lda": "lda == k"}, [asked("8"), asked("8", padding=1)]) == [asked("8")]


def test_sizes_of_which_a_rung_claims_none_are_one_line(ladder):
    ladder({"n": "n % 128 == 0"})
    told = line_of(plan.plan, {"sizes": [96], "kernels": ["mine"]})
    assert "sizes: mine claims none of them (n % 128 = 0); add one" in told


@pytest.mark.parametrize(
    ("claims", "name"),
    [({"beta": 1}, "beta"), ({"beta": 0, "alpha": 2}, "alpha"), ({"alpha": "alpha > 1", "n": "n % 4 == 0"}, "alpha")],
)
def test_a_claim_that_leaves_out_how_rungs_are_timed_is_one_line(ladder, claims, name):
    ladder(claims)
    told = line_of(plan.plan, {"sizes": [128], "kernels": ["mine"]})
    assert f"mine.claims.{name}: " in told
    assert "leaves out how rungs are timed, at alpha = 1" in told


def test_a_restricted_rung_is_told_apart_by_title_label_and_table(ladder, monkeypatch):
    from conftest import an_evidence

    mine = read_kernels(ladder({"n": "n % 128 == 0", "beta": 0}))["mine"]
    assert mine.title == "an idea (restricted: n % 128 = 0, beta = 0)"
    assert label("mine", "fp32", in_words(mine.claims)) == "mine (restricted)"
    assert label("mine", "tf32", "beta = 0") == "mine (TF32, restricted)"
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
    item = an_evidence("mine")
    object.__setattr__(item, "rung", mine)
    assert rung_table([item])["claims"].tolist() == ["n % 128 = 0, beta = 0"]
