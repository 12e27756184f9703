"""Errors against k: what is measured of a rung, the table and the figure."""

import numpy as np
import pandas as pd
import pytest
from conftest import a_build
from ladder.build.library import Library
from ladder.config.documents import schema
from ladder.measure.accuracy.stage import measure_accuracy
from ladder.measure.accuracy.worker import inputs_of, measure
from ladder.measure.devices import EmulatedDevice
from ladder.model.shape import Shape
from ladder.show.figures import accuracy
from ladder.show.figures.accuracy import FAMILY_TITLES
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.tables.accuracy import ACCURACY_COLUMNS, accuracy_table, changed_since

SETTINGS = {"products": [{"size": 16, "k": [64]}], "families": ["normal"], "time_limit_s": 10}


@pytest.fixture(scope="module")
def naive(for_the_emulator):
    return Library(for_the_emulator(ROOT / "kernels/sgemm/naive.cu"))


@pytest.mark.parametrize("family", FAMILY_TITLES)
def test_the_errors_are_those_of_the_product(naive, family):
    shape = Shape(16, 24, 100)
    found = measure(EmulatedDevice(1, 60), naive, shape, family)
    inputs = inputs_of(family, shape, 0)
    rounding = (inputs.A @ inputs.B - inputs.A.astype(np.float64) @ inputs.B).std()  # another order of the same sums
    assert 0 < found["error_normwise"] < 100 * 2**-24
    assert 0 < found["error_componentwise"] < 103
    assert rounding > 0
    assert (found["m"], found["n"], found["k"], found["family"], found["time_ms"]) == (16, 24, 100, family, None)


def test_a_coarser_product_has_the_larger_error(for_the_emulator, source_of, naive):
    shape, device = Shape(24, 16, 128), EmulatedDevice(1, 60)
    coarse = Library(for_the_emulator(source_of("one_input_in_tf32")))
    assert (
        measure(device, coarse, shape, "normal")["error_normwise"]
        > 100 * (measure(device, naive, shape, "normal")["error_normwise"])
    )


def test_every_rung_is_given_the_same_inputs():
    shape = Shape(8, 8, 8)
    one, other = (inputs_of("positive", shape, 3) for _ in range(2))
    assert (one.A == other.A).all()
    assert one.A.min() >= 0
    assert one.B.max() < 1


def test_the_configuration_knows_the_families():
    families = schema("config")["properties"]["accuracy"]["properties"]["families"]
    assert families["items"]["enum"] == families["default"] == list(FAMILY_TITLES)


def test_nothing_is_measured_of_a_rung_that_did_not_pass_its_check(tmp_path):
    failed = {"status": "failed", "message": "wrong at 3x3x3"}
    record = measure_accuracy(a_build(tmp_path / "naive"), failed, SETTINGS, 0, dict, tmp_path / "log")
    assert record == {"status": "failed", "message": "its check failed: wrong at 3x3x3", "points": []}


def test_a_record_of_another_source_is_told_from_one_of_the_present():
    records = {name: {"where": {"compile": {"source_digest": digest}}} for name, digest in (("a", "1"), ("b", "2"))}
    assert changed_since(records, {"a": "1", "b": "3"}) == ["b"]


def a_point(family: str, size: int, k: int, error: float, time: float) -> dict:
    same = {"m": size, "n": size, "error_componentwise": 2.0}
    return {"family": family, "k": k, "error_normwise": error, "time_ms": time, **same}


@pytest.fixture
def table():
    records = {
        name: {
            "points": [
                a_point(family, size, k, error * k * size / 64, time * size / 64)
                for size in (64, 128)
                for family in FAMILY_TITLES
                for k in (64, 4096)
            ]
        }
        for name, error, time in (("cublas", 1e-9, 0.3), ("mma_3xtf32", 5e-10, 0.2))
    }
    return accuracy_table(records, {"cublas": "fp32", "mma_3xtf32": "3xtf32"})


def test_the_table_names_the_class_of_each_rung(table):
    assert list(table.columns) == ACCURACY_COLUMNS
    assert len(table) == 24
    assert set(zip(table["rung"], table["precision"], strict=True)) == {("cublas", "fp32"), ("mma_3xtf32", "3xtf32")}


def test_the_figure_draws_errors_against_k_and_against_time_with_classes_named(table):
    rungs = pd.DataFrame(
        {"rung": ["cublas", "mma_3xtf32"], "precision": ["fp32", "3xtf32"], "role": ["baseline", "rung"]}
    )
    figure = accuracy.figure(table, rungs, "cublas", ["mma_3xtf32"])
    assert figure.title == "Rungs of 3xTF32 err at most 0.50 times as much as cublas"
    picture = draw(figure, "caption")
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["cublas", "mma_3xtf32 (3xTF32)"]
    columns = len(FAMILY_TITLES) + 1
    assert len(picture.axes) == 2 * columns
    for of_size, size in ((picture.axes[:columns], 64), (picture.axes[columns:], 128)):
        assert of_size[0].get_title(loc="left") == f"m = n = {size}, normal"
        by = size / 64
        errors = sorted(list(line.get_ydata()) for line in of_size[0].lines)
        assert errors == [
            pytest.approx([3.2e-8 * by, 2.048e-6 * by]),
            pytest.approx([6.4e-8 * by, 4.096e-6 * by]),
        ]
        beside = sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in of_size[-1].lines)
        assert beside == [
            pytest.approx((0.2 * by, 2.048e-6 * by)),
            pytest.approx((0.3 * by, 4.096e-6 * by)),
        ]


def test_without_records_the_figure_says_so():
    rungs = pd.DataFrame({"rung": ["cublas"], "precision": ["fp32"], "role": ["baseline"]})
    figure = accuracy.figure(accuracy_table({}, {}), rungs, "cublas", [])
    assert figure.title == "No accuracy is recorded"
    assert figure.empty in [text.get_text() for text in draw(figure, "").axes[0].texts]
