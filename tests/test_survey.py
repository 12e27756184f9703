"""Products and data that nobody chose: how they are drawn, what is recorded of them, and what is shown."""

import math
from dataclasses import replace
from functools import partial
from itertools import product as every
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_build, a_rung, a_where, line_of, time_run
from ladder.config.documents import schema
from ladder.config.plan import plan
from ladder.measure.survey.data import DATA_FAMILIES, draw_data, drawn_amount
from ladder.measure.survey.stage import drawn, survey_rung
from ladder.model.bounds import UNIT_ROUNDOFF, componentwise_bound
from ladder.model.shape import Shape
from ladder.model.survey import GAPS, MULTIPLES, PRODUCT_CLASSES, draw_products, drawn_seed
from ladder.records import store
from ladder.records.survey import read_survey, survey_digest, survey_held
from ladder.show import interactive
from ladder.show.figures import survey as chart
from ladder.show.static import draw
from ladder.system.process import Outcome
from ladder.tables.files import read_table, write_table
from ladder.tables.survey import ARITHMETIC, LAUNCH, MEMORY, Least, class_table, data_table, survey_table

LIMITS = (1e6, 6e11)
LEAST = Least(ROUND_GPU, 0.0)
DEFAULTS = plan({"gpu": "h100-sxm", "measure": False}).settings["survey"]
SETTINGS = {**DEFAULTS, "products": 6, "largest": 300, "sizes": ["64"], "families": ["normal", "sparse"]}
EXPECTED = {
    "declared": {"tiled": {"precision": "fp32", "claims": {}}, "cublas": {"precision": "fp32", "claims": {}}},
    "ceiling": [1e5, 1500, 3000],
}


# Draws


def test_a_seed_draws_the_same_products_and_another_seed_others():
    first, again, other = (draw_products(50, 2000, LIMITS, seed) for seed in (1, 1, 2))
    assert first == again
    assert not set(first) & set(other)


@pytest.mark.parametrize("seed", range(3))
def test_products_keep_their_limits_and_their_shares_of_multiples_and_gaps(seed):
    products = draw_products(320, 9400, LIMITS, seed)
    assert len(set(products)) == 320
    assert all(LIMITS[0] <= case.shape.flop <= LIMITS[1] for case in products)
    sides = np.array([(case.shape.m, case.shape.n, case.shape.k) for case in products])
    assert sides.min() >= 1
    assert sides.max() <= 9400
    assert (sides % 16 == 0).all(axis=1).mean() == pytest.approx(MULTIPLES, abs=0.08)
    assert np.mean([any(case.paddings) for case in products]) == pytest.approx(GAPS)


@pytest.mark.parametrize("title", PRODUCT_CLASSES)
def test_every_class_has_products_in_every_draw_and_some_products_outside(title):
    for seed in range(5):
        count = sum(map(PRODUCT_CLASSES[title], draw_products(320, 9400, LIMITS, seed)))
        assert count >= 10
        assert count < 320 or title == "all"


def test_limits_that_leave_too_few_products_are_one_line():
    settings = {**SETTINGS, "largest": 16, "least_flop": 1e9}
    assert line_of(drawn, settings, {}, 1).startswith("survey: 6 shapes up to 16 with 1e+09 to 6e+11 FLOP cannot be")


def test_a_rung_with_claims_gets_the_products_that_it_claims():
    products, data = drawn({**SETTINGS, "products": 40, "sizes": ["64", "65"]}, {"n": "n % 16 == 0"}, 3)
    assert 0 < len(products) < 40
    assert all(case.shape.n % 16 == 0 for case in products)
    assert {each["shape"] for each in data} == {"64"}


# Data


@pytest.mark.parametrize("family", DATA_FAMILIES)
def test_data_are_finite_and_their_own_by_seed(family):
    shape = Shape(96, 80, 200)
    (A, B), again, other = (draw_data(family, shape, seed) for seed in (1, 1, 2))
    assert (A.shape, B.shape, A.dtype, B.dtype) == ((96, 200), (200, 80), np.float32, np.float32)
    assert np.isfinite(A).all()
    assert np.isfinite(B).all()
    assert np.isfinite(A.astype(np.float64) @ B.astype(np.float64)).all()
    assert (again[0] == A).all()
    assert (again[1] == B).all()
    assert (other[0] != A).any()


def test_the_families_are_what_their_words_say():
    shape = Shape(256, 192, 300)
    of = {family: draw_data(family, shape, 7) for family in DATA_FAMILIES}
    amount = drawn_amount(7)
    assert (of["sparse"][0] == 0).mean() == pytest.approx(0.5 + 0.49 * amount, abs=0.02)
    assert of["softmax"][0].sum(axis=1) == pytest.approx(np.ones(256), abs=1e-5)
    assert 0.2 < (of["relu"][0] == 0).mean() < 0.8
    assert of["relu"][0].min() == 0
    blocks = of["zero_blocks"][0][:256, :256].reshape(4, 64, 4, 64)
    assert set(np.unique((blocks == 0).all(axis=(1, 3)))) <= {True, False}
    assert (blocks == 0).mean() == pytest.approx((blocks == 0).all(axis=(1, 3)).mean())
    assert (of["integers"][1] == np.rint(of["integers"][1])).all()
    values = np.linalg.svd(of["power_law"][0].astype(np.float64), compute_uv=False)
    assert values[192:].max() < 1e-5 * values[0]
    columns = abs(of["outlier_columns"][0]).max(axis=0)
    assert (columns > 50 * np.median(columns)).sum() == 1
    scaled = of["scaled_k"][0][0] * of["scaled_k"][1][:, 0]
    assert abs(scaled).max() < 100  # the scales of A and B take each other back
    assert abs(of["far_apart"][0]).max() < 1e-18 < 1e18 < abs(of["far_apart"][1]).max()


def test_the_configuration_knows_the_families():
    families = schema("config")["properties"]["survey"]["properties"]["families"]
    assert families["items"]["enum"] == families["default"] == list(DATA_FAMILIES)


# One attempt


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Runs the stage with a worker that writes these times (kernel, number) and sends the errors of data."""

    def run(slow=1.0, error=1e-7, times=None, before=(), outcome=Outcome("ok", ""), of_products=None):  # noqa: B008
        def worker(module, request, on_event, time_limit_s, log):
            seen.request = request
            for event in before:
                on_event(event)
            numbers = range(len(request["products"]) + len(request["data"]))
            found = {
                (kernel, str(number)): times or [1e-3 * (slow if kernel == "tiled" else 1.0)] * 3
                for number, kernel in every(numbers, request["libraries"])
            }
            for name, content in time_run("tiled", found).items():
                path = tmp_path.joinpath(request["folder"], name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            for number, kernel in every(numbers, request["libraries"]):
                values = {"error_normwise": error, "error_componentwise": 3.0}
                if number < len(request["products"]):
                    values = {"error_normwise": 2e-7 if kernel == "tiled" else 1e-7, "error_componentwise": 2.0}
                    values |= (of_products or {}) if kernel == "tiled" else {}
                on_event({"errors": {"kernel": kernel, "name": str(number), **values}})
            return outcome

        seen = SimpleNamespace()
        monkeypatch.setattr("ladder.measure.survey.stage.run_worker", worker)
        builds = {name: a_build(tmp_path / name) for name in ("tiled", "cublas")}
        place = (0, a_where(settings=survey_digest(SETTINGS)), tmp_path / "log", lambda kernel, at: None)
        seen.record = survey_rung("tiled", builds, EXPECTED, SETTINGS, 5, *place)
        return seen

    return run


def written(tmp_path, record, name="tiled"):
    """The record of a rung in its place."""
    path = tmp_path / f"raw/survey/{name}.json.gz"
    store.write_json(path, {"stage": "survey", "rung": name, **record})
    return path


def test_every_product_and_all_data_are_measured_beside_the_libraries(attempt, tmp_path):
    seen = attempt(slow=2.0)
    assert seen.record["status"] == "ok", seen.record["message"]
    assert [each["times_us"].keys() for each in seen.record["products"]] == [{"tiled", "cublas"}] * 6
    found = read_survey(written(tmp_path, seen.record), "build-1")
    products, data = drawn(SETTINGS, {}, 5)
    read = [case for case, _ in found.products]
    assert [(case.shape, case.paddings) for case in read] == [(case.shape, case.paddings) for case in products]
    assert [each["family"] for each, _ in found.data] == [each["family"] for each in data]
    assert found.products[0][1] == {"tiled": pytest.approx(2e-3), "cublas": pytest.approx(1e-3)}
    assert found.data[0][1]["cublas"].error_normwise == 1e-7
    assert found.seed == 5


def test_a_rate_that_cannot_be_and_a_result_that_is_no_number_are_dishonest(attempt):
    record = attempt(times=[1e-12]).record
    assert (record["status"], record["products"], record["data"]) == ("dishonest", [], [])
    assert "is impossible" in record["message"]
    record = attempt(error=float("nan")).record
    assert (record["status"], record["message"]) == ("dishonest", "on normal at 64 C was NaN or infinite")


def test_drawn_products_whose_errors_are_above_the_bound_or_no_numbers_are_dishonest(attempt):
    record = attempt(of_products={"error_componentwise": 1e6}).record
    assert (record["status"], record["products"]) == ("dishonest", [])
    assert "times the bound of fp32" in record["message"]
    record = attempt(of_products={"error_normwise": float("nan")}).record
    assert (record["status"], record["products"]) == ("dishonest", [])
    assert record["message"].endswith("C was NaN or infinite")


def test_each_drawn_product_has_a_seed_of_its_own_for_its_errors_that_the_surveys_seed_gives(attempt):
    first, again = attempt().request["product_seeds"], attempt().request["product_seeds"]
    assert first == again
    assert len(set(first)) == len(first) == 6


def test_the_seed_of_a_run_is_another_each_time_unless_it_is_configured():
    assert drawn_seed(7) == 7
    assert len({drawn_seed("new") for _ in range(20)}) > 1


def test_what_is_seen_in_a_library_does_not_blame_the_rung(attempt):
    event = {"dishonest": {"kernel": "cublas", "finding": "C was wrong"}}
    record = attempt(before=[event]).record
    assert (record["status"], record["message"]) == ("failed", "cublas beside it: C was wrong")
    record = attempt(before=[{"dishonest": {"kernel": "tiled", "finding": "C was wrong"}}]).record
    assert (record["status"], record["message"]) == ("dishonest", "C was wrong")


def test_a_failure_names_kernel_and_product(attempt):
    starts = {"starts": {"kernel": "tiled", "shape": "3x4x5"}}
    record = attempt(before=[starts], outcome=Outcome("failed", "it crashed")).record
    assert (record["status"], record["message"]) == ("failed", "tiled at 3x4x5: it crashed")


def test_a_record_is_held_for_the_same_builds_settings_device_and_seed(attempt, tmp_path):
    path = written(tmp_path, attempt().record)
    builds, where = {"tiled": "build-1", "cublas": "build-1"}, a_where(settings=survey_digest(SETTINGS))
    assert survey_held(path, builds, None, where)
    assert survey_held(path, builds, 5, where)
    assert not survey_held(path, builds, 6, where)
    assert not survey_held(path, builds | {"cublas": "build-2"}, None, where)
    assert not survey_held(path, builds, None, a_where(settings=survey_digest({**SETTINGS, "largest": 99})))
    assert not survey_held(tmp_path / "none.json.gz", builds, None, where)
    assert survey_digest({**SETTINGS, "time_limit_s": 9, "seed": 3}) == survey_digest(SETTINGS)


def test_a_record_in_anothers_place_and_a_damaged_one_are_one_line(attempt, tmp_path):
    record = attempt().record
    path = written(tmp_path, record)
    other = path.rename(path.with_name("naive.json.gz"))
    assert "rung: 'tiled', where a record of 'naive' belongs" in line_of(read_survey, other)
    record["products"][0]["times_us"]["tiled"] = [0.0]
    assert "samples that are no times" in line_of(read_survey, written(tmp_path, record))


# Tables


@pytest.fixture
def tables(attempt, tmp_path):
    """The three tables of two rungs: `tiled` takes twice as long as cuBLAS, `fast` half as long."""
    surveys = {}
    for name, slow in (("tiled", 2.0), ("fast", 0.5)):
        record = attempt(slow=slow).record
        of_products = [each[what] for each in record["products"] for what in ("times_us", "errors")]
        for kernels in [*of_products, *(each["kernels"] for each in record["data"])]:
            kernels[name] = kernels.pop("tiled")
        surveys[name] = read_survey(written(tmp_path, record, name))
    classes, libraries = dict.fromkeys(surveys, "fp32"), dict.fromkeys(surveys, ("cublas",))
    present = {"tiled": surveys["tiled"].where["compile"]["source_digest"], "fast": "another"}
    made = {name: make(surveys, classes, libraries, present) for name, make in MAKERS.items()}
    for name, table in made.items():
        write_table(table, tmp_path / f"{name}.csv")
    return {name: read_table(tmp_path / f"{name}.csv") for name in made}


MAKERS = {
    "survey": partial(survey_table, least=LEAST),
    "survey_classes": partial(class_table, least=LEAST),
    "survey_data": data_table,
}


def test_shares_are_of_the_faster_library_by_product_class_and_family(tables):
    shares = tables["survey"].groupby("rung")["share_of_cublas"].unique()
    assert shares["tiled"] == pytest.approx([0.5])
    assert shares["fast"] == pytest.approx([2.0])
    whole = tables["survey_classes"].query("`class` == 'all'").set_index("rung")
    assert whole.loc["tiled", ["products", "geometric_mean", "lowest", "slower_percent"]].tolist() == [6, 0.5, 0.5, 100]
    assert whole.loc["fast", "slower_percent"] == 0
    data = tables["survey_data"].set_index(["rung", "family"])
    assert data.loc[("fast", "sparse"), "share_of_cublas"] == pytest.approx(2.0)
    assert data.loc[("fast", "sparse"), "times_error_of_cublas"] == pytest.approx(1.0)


def test_a_survey_of_a_source_that_has_changed_since_stays_and_says_so(tables):
    for table in tables.values():
        sources = table.groupby("rung")["source"].unique().str.join("").to_dict()
        assert sources == {"tiled": "current", "fast": "changed since"}


def test_the_least_bandwidth_counts_each_matrix_once(tables):
    row = tables["survey"].iloc[0]
    words = row.m * row.k + row.k * row.n + row.m * row.n
    assert row.least_gb_s == pytest.approx(4 * words / 1e3 / row.time_us, rel=1e-5)


@pytest.mark.parametrize(
    ("shape", "precision", "expected"),
    [
        (Shape(4096, 4096, 4096), "fp32", ARITHMETIC),
        (Shape(9000, 1, 9000), "fp32", MEMORY),  # 2 operations for each 4 bytes of A
        (Shape(640, 640, 64), "fp32", ARITHMETIC),  # 21 operations a byte, and the GPU has 10 for each
        (Shape(640, 640, 64), "tf32", MEMORY),  # tensor cores have more
        (Shape(64, 1, 64), "fp32", LAUNCH),  # 17 KB in 17 ns
    ],
)
def test_a_product_is_bound_by_what_takes_longest_at_least(shape, precision, expected):
    gpu = replace(ROUND_GPU, measured_gflops=1e4, memory_bandwidth_gb_s=1e3)
    assert Least(gpu, 1e-6).bound_by(shape, precision) == expected


def test_the_least_times_are_those_of_the_probes_and_of_the_empty_kernel_where_these_are_recorded():
    probes = pd.DataFrame([{"of": "DRAM", "kind": "bandwidth", "how": "load", "whole": 777.0}])
    timings = pd.DataFrame({"rung": ["empty", "empty", "naive"], "time_ms_median": [0.004, 0.003, 9.0]})
    found = Least.of(ROUND_GPU, probes, timings)
    assert (found.gpu.memory_bandwidth_gb_s, found.launch_s) == (777.0, pytest.approx(3e-6))
    assert Least.of(ROUND_GPU, None, timings.iloc[2:]) == Least(ROUND_GPU, 0.0)


def test_the_share_of_the_dram_bandwidth_is_told_of_products_bound_by_memory_by_class(attempt, tmp_path):
    surveys = {"tiled": read_survey(written(tmp_path, attempt().record))}
    asked = (surveys, {"tiled": "fp32"}, {"tiled": ("cublas",)}, {})
    slow = Least(replace(ROUND_GPU, memory_bandwidth_gb_s=0.01), 0.0)  # so little that every product is bound by it
    table, classes = survey_table(*asked, least=slow), class_table(*asked, least=slow).set_index("class")
    assert table["share_of_bandwidth"].to_list() == pytest.approx(list(table["least_gb_s"] / 0.01))
    assert classes.loc["all", "memory_bound"] == 6
    assert classes.loc["all", "share_of_bandwidth"] == pytest.approx(table["share_of_bandwidth"].median())
    none = Least(replace(ROUND_GPU, memory_bandwidth_gb_s=1e9), 0.0)
    table, classes = survey_table(*asked, least=none), class_table(*asked, least=none).set_index("class")
    assert set(table["bound_by"]) == {ARITHMETIC}
    assert table["share_of_bandwidth"].isna().all()
    assert classes.loc["all", "memory_bound"] == 0
    assert math.isnan(classes.loc["all", "share_of_bandwidth"])


def test_products_below_the_libraries_speed_are_counted_beside_those_that_are_slower_by_more_than_noise(
    attempt, tmp_path
):
    surveys = {"tiled": read_survey(written(tmp_path, attempt(slow=1 / 0.99).record))}
    row = class_table(surveys, {"tiled": "fp32"}, {"tiled": ("cublas",)}, {}, least=LEAST).iloc[0]
    assert (row["slower_percent"], row["below_1_percent"]) == (0, 100)


def test_errors_of_drawn_products_stand_beside_cublas_and_the_bound_of_their_class(tables, attempt, tmp_path):
    row = tables["survey"].query("rung == 'tiled'").iloc[0]
    assert (row.error_normwise, row.error_of_cublas, row.times_error_of_cublas) == pytest.approx((2e-7, 1e-7, 2))
    assert row.share_of_bound == pytest.approx(2 * UNIT_ROUNDOFF / componentwise_bound(int(row.k)), rel=1e-5)
    shares = tables["survey"].groupby("rung")["share_of_bound"].max()
    whole = tables["survey_classes"].query("`class` == 'all'").set_index("rung")
    assert whole["largest_share_of_bound"].to_dict() == pytest.approx(shares.to_dict())
    assert whole.loc["tiled", "largest_times_error_of_cublas"] == pytest.approx(2)


def test_a_record_that_is_older_than_the_errors_of_products_has_none(attempt, tmp_path):
    record = attempt().record
    for each in record["products"]:
        del each["errors"]
    surveys = {"tiled": read_survey(written(tmp_path, record))}
    for make in (survey_table, class_table):
        table = make(surveys, {"tiled": "fp32"}, {"tiled": ("cublas",)}, {}, least=LEAST)
        found = [name for name in table if "error" in name or name.endswith("of_bound")]
        assert found
        assert table[found].isna().all(axis=None)


# Figures


@pytest.fixture
def rungs():
    """The table of rungs, as far as figures read it."""
    names = ("cublas", "tiled", "fast")
    return pd.DataFrame([{"rung": a_rung(name).name, "precision": "fp32", "role": a_rung(name).role} for name in names])


def test_the_figures_name_the_worst_and_draw(tables, rungs):
    products = chart.products(tables["survey"], tables["survey_classes"], rungs)
    assert products.title == "fast: 200 % of cuBLAS over 6 drawn products, slower on 0 %"
    assert list(products.panels.options) == ["tiled", "fast"]
    texts = products.layers[1].data
    assert texts.groupby("rung").size().tolist() == [chart.WORST] * 2
    data = chart.on_data(tables["survey_data"], rungs, "cublas")
    assert data.title == "The lowest: tiled reaches 50 % of cuBLAS on normal at 64"
    reached = chart.reached_bandwidth(tables["survey"], tables["survey_classes"], rungs)
    marks, shown = reached.layers[0].data, tables["survey"].dropna(subset="share_of_bandwidth")
    assert sorted(marks["reached"]) == pytest.approx(sorted(100 * shown["share_of_bandwidth"]))
    assert reached.title.startswith("fast: ")
    for figure in (products, data, reached):
        draw(figure, "caption")
        assert interactive.charts(figure)


def test_without_a_survey_the_figures_say_so(tables, rungs):
    nothing = {name: table.iloc[:0] for name, table in tables.items()}
    for figure in (
        chart.products(nothing["survey"], nothing["survey_classes"], rungs),
        chart.on_data(nothing["survey_data"], rungs, "cublas"),
        chart.reached_bandwidth(nothing["survey"], nothing["survey_classes"], rungs),
    ):
        assert figure.empty.startswith("No ")
        draw(figure, "caption")


def test_a_rung_whose_libraries_were_left_out_has_times_and_no_share(attempt, tmp_path):
    record = attempt().record
    of_products = [each[what] for each in record["products"] for what in ("times_us", "errors")]
    for kernels in [*of_products, *(each["kernels"] for each in record["data"])]:
        del kernels["cublas"]
    surveys = {"tiled": read_survey(written(tmp_path, record, "tiled"))}
    made = {name: make(surveys, {"tiled": "fp32"}, {"tiled": ("cublas",)}, {}) for name, make in MAKERS.items()}
    assert made["survey"]["share_of_cublas"].isna().all()
    assert (made["survey"]["time_us"] > 0).all()
    assert made["survey_classes"].empty
    assert made["survey_data"]["times_error_of_cublas"].isna().all()
