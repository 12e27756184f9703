"""Errors against k: what is measured of a rung, the table and the figure."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import a_build, a_where, line_of, time_run
from ladder.build.library import Library
from ladder.config.documents import schema
from ladder.measure.accuracy.stage import measure_accuracy
from ladder.measure.accuracy.worker import Exact, inputs_of, measure, measure_all, product_of
from ladder.measure.devices import EmulatedDevice
from ladder.measure.nvbench import WARMUP_SHARE
from ladder.model.shape import Shape
from ladder.show.figures import accuracy
from ladder.show.figures.accuracy import FAMILY_TITLES
from ladder.show.origin import changed_line
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.system.process import Outcome
from ladder.tables.accuracy import ACCURACY_COLUMNS, accuracy_table, clocks

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


def test_a_product_with_gaps_between_rows_has_the_errors_of_the_same_product_without_and_leaves_the_gaps_alone(naive):
    device, inputs = EmulatedDevice(1, 60), inputs_of("normal", Shape(9, 11, 40), 3)
    exact = Exact.of(device, inputs.A, inputs.B)
    A, B = (device.put(matrix.ravel()).reshape(matrix.shape) for matrix in (inputs.A, inputs.B))
    tight, apart = (product_of(device, naive, A, B, "it", gaps) for gaps in ((0, 0, 0), (3, 4, 5)))
    assert exact.errors_of(apart.C) == exact.errors_of(tight.C)
    assert exact.errors_of(apart.C)["error_componentwise"] > 0
    operands = apart.call.operands
    assert (operands.lda, operands.ldb, operands.ldc) == (43, 15, 16)
    whole = np.lib.stride_tricks.as_strided(apart.C, (9, 16), apart.C.strides)
    assert np.isnan(whole[:, 11:]).all()
    assert (apart.A == inputs.A).all()


def test_a_coarser_product_has_the_larger_error(for_the_emulator, source_of, naive):
    shape, device = Shape(24, 16, 128), EmulatedDevice(1, 60)
    coarse = Library(for_the_emulator(source_of("one_input_in_tf32")))
    assert (
        measure(device, coarse, shape, "normal")["error_normwise"]
        > 100 * (measure(device, naive, shape, "normal")["error_normwise"])
    )


PRODUCTS = [("normal", Shape(16, 24, 100)), ("positive", Shape(8, 8, 8))]


class OneGpu(EmulatedDevice):
    """The emulator where a GPU is expected."""

    number = 3


@pytest.fixture
def nvbench(monkeypatch):
    """NVBench without a GPU: each state launches once on stream 7 and takes as many milliseconds as `times_ms` says."""
    from ladder.measure import nvbench

    seen = SimpleNamespace(times_ms=[[3.0, 1.0, 2.0], [0.5]], options={}, skipped=[], limits=[])

    class State(SimpleNamespace):
        def get_string(self, axis):
            return {"product": self.place}[axis]

        def exec(self, launch, batched):
            stream = SimpleNamespace(addressof=lambda: 7)
            launch(SimpleNamespace(get_stream=lambda: stream))

        def skip(self, reason):
            seen.skipped.append(reason)

        def add_element_count(self, count, name):
            assert (count, name) == (Shape.parse(self.place.split()[1]).flop, "FLOP")

        def __getattr__(self, name):
            assert name.startswith("set_")
            return lambda value: seen.limits.append((name, value))

    class Benchmark(SimpleNamespace):
        def set_name(self, name):
            return self

        def add_string_axis(self, name, values):
            seen.places = values

    def register(function):
        seen.function = function
        return Benchmark()

    def run_all_benchmarks(arguments):
        options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        file = nvbench.Path(options.pop("--jsonbin"))
        seen.options = options
        for place in seen.places:
            seen.function(State(place=place))
        times = {
            (place, "8"): [ms / 1e3 for ms in each] for place, each in zip(seen.places, seen.times_ms, strict=True)
        }
        for name, content in time_run("naive", times).items():
            (file.parent / name).parent.mkdir(exist_ok=True)
            (file.parent / name).write_bytes(content)

    fake = SimpleNamespace(register=register, run_all_benchmarks=run_all_benchmarks)
    monkeypatch.setattr(nvbench, "nvbench", fake)
    return seen


class Spy:
    """A library whose launches are noted, with what lies in A at that time."""

    def __init__(self, library):
        self.library, self.functions, self.launches = library, library.functions, []
        self.workspace_bytes = library.workspace_bytes

    def queue(self, shape, alpha, beta, operands, workspace, stream):
        A = (np.ctypeslib.ctypes.c_float * (shape.m * shape.k)).from_address(operands.A)
        self.launches.append((shape, operands, stream, np.array(A).reshape(shape.m, shape.k)))
        return self.library.queue(shape, alpha, beta, operands, workspace, stream)


def test_nvbench_times_the_operands_whose_errors_are_measured(naive, nvbench):
    library, found = Spy(naive), []
    points = measure_all(OneGpu(1, 60), library, PRODUCTS, lambda point: found.append(dict(point)))
    assert [point["time_ms"] for point in points] == [2.0, 0.5]
    assert found == [{**point, "time_ms": None} for point in points]
    assert [(point["family"], point["k"]) for point in points] == [("normal", 100), ("positive", 8)]
    assert points[0]["error_normwise"] == measure(OneGpu(1, 60), naive, PRODUCTS[0][1], "normal")["error_normwise"]
    computed, timed = library.launches[0::2], library.launches[1::2]
    assert [launch[2] for launch in timed] == [7, 7]
    for one, other in zip(computed, timed, strict=True):
        assert one[:2] == other[:2]
        assert (one[3] == other[3]).all()


def test_nvbench_is_asked_for_what_the_time_stage_asks_for_by_default(naive, nvbench):
    measure_all(OneGpu(1, 60), naive, PRODUCTS, lambda point: None)
    timing = {name: of["default"] for name, of in schema("config")["properties"]["timing"]["properties"].items()}
    assert nvbench.options == {
        "--devices": "3",
        "--stopping-criterion": "sample-count",
        "--target-samples": str(timing["iterations"]),
        "--cold-warmup-runs": str(timing["warmup"]),
    }
    budget, least = timing["budget_s"], timing["min_iterations"]
    limits = [
        ("set_timeout", budget),
        ("set_cold_max_warmup_walltime", WARMUP_SHARE * budget),
        ("set_min_samples", least),
    ]
    assert nvbench.limits == 2 * limits


def test_after_a_product_that_fails_no_other_is_measured(naive, nvbench, monkeypatch):
    monkeypatch.setattr(OneGpu, "compute", lambda *given: "out of bounds")
    told = line_of(measure_all, OneGpu(1, 60), naive, PRODUCTS, lambda point: None)
    assert told == "normal 16x24x100: out of bounds"
    assert nvbench.skipped == ["normal 16x24x100: out of bounds", "an earlier product failed"]


def test_the_record_has_the_time_of_each_product_and_its_clock(tmp_path, monkeypatch):
    def worker_of(module, request, on_event, time_limit_s, log):
        for k in (64, 128):
            on_event({"point": {"k": k, "time_ms": None}})
        on_event({"times_ms": [0.25, 0.5]})
        return Outcome("ok", "")

    monkeypatch.setattr("ladder.measure.accuracy.stage.run_worker", worker_of)
    made = a_build(tmp_path / "naive")
    record = measure_accuracy(made, None, SETTINGS, 0, dict, tmp_path / "log")
    assert record["points"] == [{"k": 64, "time_ms": 0.25}, {"k": 128, "time_ms": 0.5}]
    assert clocks({"naive": record}) == "NVBench"


def test_the_caption_names_the_clock_of_each_rung():
    old, new, nothing = {"points": [{}]}, {"points": [{}], "clock": "nvbench"}, {"points": []}
    assert clocks({"a": old, "b": old, "c": nothing}) == "CUDA events"
    assert clocks({"a": old, "b": new, "c": new}) == "CUDA events (a) and NVBench (b, c)"
    assert clocks({"c": nothing}) == ""


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


def a_point(family: str, size: int, k: int, error: float, time: float) -> dict:
    same = {"m": size, "n": size, "error_componentwise": 2.0}
    return {"family": family, "k": k, "error_normwise": error, "time_ms": time, **same}


@pytest.fixture
def table():
    records = {
        name: {
            "where": a_where(),
            "points": [
                a_point(family, size, k, error * k * size / 64, time * size / 64)
                for size in (64, 128)
                for family in FAMILY_TITLES
                for k in (64, 4096)
            ],
        }
        for name, error, time in (("cublas", 1e-9, 0.3), ("mma_3xtf32", 5e-10, 0.2))
    }
    present = {name: record["where"]["compile"]["source_digest"] for name, record in records.items()}
    return accuracy_table(records, {"cublas": "fp32", "mma_3xtf32": "3xtf32"}, {**present, "mma_3xtf32": "another"})


def test_the_table_names_the_class_of_each_rung(table):
    assert list(table.columns) == ACCURACY_COLUMNS
    assert len(table) == 24
    assert set(zip(table["rung"], table["precision"], strict=True)) == {("cublas", "fp32"), ("mma_3xtf32", "3xtf32")}


def test_errors_of_a_source_that_has_changed_since_stay_and_say_so(table):
    assert table.groupby("rung")["source"].unique().str.join("").to_dict() == {
        "cublas": "current",
        "mma_3xtf32": "changed since",
    }
    assert changed_line(table) == "Recorded from other sources than the present ones: mma_3xtf32."
    assert changed_line(table[table["rung"] == "cublas"]) == ""


def test_the_figure_draws_errors_against_k_and_against_time_with_classes_named(table):
    rungs = pd.DataFrame(
        {"rung": ["cublas", "mma_3xtf32"], "precision": ["fp32", "3xtf32"], "role": ["baseline", "rung"]}
    )
    figure = accuracy.figure(table, rungs, "cublas", ["mma_3xtf32"])
    assert figure.title == "The error of 3xTF32 is at most 0.50 times that of cublas"
    picture = draw(figure, "caption")
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["cublas", "mma_3xtf32 (3xTF32)"]
    assert [axes.get_title(loc="left") for axes in picture.axes[:1]] == ["normal"]
    assert len(picture.axes) == len(FAMILY_TITLES) + 1
    errors = sorted(list(line.get_ydata()) for line in picture.axes[0].lines)
    assert errors == [pytest.approx([3.2e-8, 2.048e-6]), pytest.approx([6.4e-8, 4.096e-6])]
    beside = sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in picture.axes[-1].lines)
    assert beside == [pytest.approx((0.2, 2.048e-6)), pytest.approx((0.3, 4.096e-6))]
    assert figure.choices[0].options == ["64", "128"]


def test_without_records_the_figure_says_so():
    rungs = pd.DataFrame({"rung": ["cublas"], "precision": ["fp32"], "role": ["baseline"]})
    figure = accuracy.figure(accuracy_table({}, {}, {}), rungs, "cublas", [])
    assert figure.title == "No accuracy is recorded"
    assert figure.empty in [text.get_text() for text in draw(figure, "").axes[0].texts]
