"""Time records: what NVBench wrote is read back sample by sample, the latest of each shape, or not at all."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import REPOSITORY, a_build, a_where, line_of, time_run
from ladder.config.plan import plan
from ladder.measure.time.plausible import floor_s, implausible
from ladder.measure.time.stage import time_rung
from ladder.measure.worker import WORKER
from ladder.model.shape import Shape
from ladder.records import store, timings
from ladder.records.timings import DISHONEST, Measurement, read_time_record, timed_shapes
from ladder.system.process import Outcome
from pipeline import RECORDED

S128, S256 = Shape(128, 128, 128), Shape(256, 256, 256)
TAKEN = {"warmup": 5, "iterations": 50}  # of `conftest.time_run`
MORNING, NOON = "2026-01-02T08:00:00+00:00", "2026-01-02T12:00:00+00:00"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "time/tiled.zip"


def test_every_sample_is_read_back_beside_its_references(path):
    samples = {
        ("tiled", "128"): [1e-3, 2e-3, 3e-3],
        ("cublas", "128"): [0.5e-3, 0.25e-3],
        ("tiled", "31x33x32"): [4e-3],
        ("cublas", "31x33x32"): [5e-3],
    }
    store.add_run(path, time_run("tiled", samples, clocks_hz=1.25e9))
    found = read_time_record(path)
    assert list(found) == [S128, Shape(31, 33, 32)]
    of_128 = found[S128]
    assert (of_128.rung, of_128.shape, list(of_128.measurements)) == ("tiled", S128, ["tiled", "cublas"])
    assert of_128.own.times_s == pytest.approx([1e-3, 2e-3, 3e-3], rel=1e-7)
    assert of_128.measurements["cublas"].times_s == pytest.approx([0.5e-3, 0.25e-3], rel=1e-7)
    assert of_128.own.clocks_hz.tolist() == [1.25e9] * 3
    assert (of_128.own.target_samples, of_128.own.state["after"]["power_w"]) == (50, 131.5)
    assert of_128.where == a_where()
    assert found[Shape(31, 33, 32)].own.times_s == pytest.approx([4e-3], rel=1e-7)


@pytest.mark.parametrize("order", [(MORNING, NOON), (NOON, MORNING)])
def test_the_latest_run_wins_shape_by_shape_whatever_was_added_first(path, order):
    runs = {
        MORNING: time_run("tiled", {("tiled", "128"): [1e-3], ("tiled", "256"): [2e-3]}, measured_at=MORNING),
        NOON: time_run("tiled", {("tiled", "256"): [9e-3], ("tiled", "512"): [3e-3]}, measured_at=NOON),
    }
    for when in order:
        store.add_run(path, runs[when])
    found = read_time_record(path)
    medians = {shape.n: float(np.median(timings.own.times_s)) for shape, timings in found.items()}
    assert medians == pytest.approx({128: 1e-3, 256: 9e-3, 512: 3e-3}, rel=1e-6)
    assert {shape.n: timings.where["measured_at"] for shape, timings in found.items()} == {
        128: MORNING,
        256: NOON,
        512: NOON,
    }


def test_references_are_of_the_same_process_as_the_rung(path):
    store.add_run(path, time_run("tiled", {("tiled", "128"): [1e-3], ("cublas", "128"): [2e-3]}, measured_at=MORNING))
    later = {("tiled", "128"): [3e-3], ("tiled", "256"): [3e-3]}
    store.add_run(path, time_run("tiled", later, measured_at=NOON))
    assert list(read_time_record(path)[S128].measurements) == ["tiled"]


def test_a_record_of_attempts_alone_holds_no_timings(path):
    store.conclude_timing(path, "it hung", "build-1")
    assert read_time_record(path) == {}
    assert timed_shapes(path, TAKEN, a_where()) == set()


def damage(**changes):
    """A run in which one file is changed (None takes it away)."""
    files = time_run("tiled", {("tiled", "128"): [1e-3, 2e-3]})
    for name, change in changes.items():
        file = {"times": "nvbench.json-bin/0.bin", "clocks": "nvbench.json-freqs-bin/0.bin"}.get(name, "nvbench.json")
        if change is None:
            del files[file]
        else:
            files[file] = change(files[file])
    return files


def no_state(content: bytes) -> bytes:
    document = json.loads(content)
    document["benchmarks"][0]["states"][0]["summaries"] = []
    return json.dumps(document).encode()


DAMAGES = {
    "samples cut inside one": {"times": lambda content: content[:-1]},
    "samples cut between two": {"times": lambda content: content[:-4]},
    "clocks cut": {"clocks": lambda content: content[:-4]},
    "one sample too many": {"times": lambda content: content + content[:4]},
    "a NaN among samples": {"times": lambda content: np.array([np.nan, 1e-3], "<f4").tobytes()},
    "a sample of no time": {"times": lambda content: np.array([0, 1e-3], "<f4").tobytes()},
    "a negative sample": {"times": lambda content: np.array([-1e-3, 1e-3], "<f4").tobytes()},
    "no sample file": {"times": None},
    "no document": {"document": None},
    "half a document": {"document": lambda content: content[: len(content) // 2]},
    "no summaries": {"document": no_state},
}


@pytest.mark.parametrize("changes", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_time_record_is_one_line_and_is_left_as_it_is(path, changes):
    store.add_run(path, damage(**changes))
    before = path.read_bytes()
    text = line_of(read_time_record, path)
    assert text.startswith(f"{path}: the record is damaged (")
    assert text.endswith("; restore it with git checkout, or delete it to measure again")
    assert path.read_bytes() == before


def test_samples_that_are_missing_are_counted(path):
    store.add_run(path, damage(times=lambda content: content[:-4]))
    assert "nvbench.json-bin/0.bin holds 1 samples of which 2 were expected" in line_of(read_time_record, path)


# What is held already


def test_a_shape_is_held_only_for_the_same_build_and_settings(path):
    store.add_run(path, time_run("tiled", {("tiled", "128"): [1e-3]}, measured_at=MORNING))
    assert timed_shapes(path, TAKEN, a_where()) == {"128"}
    for key in TAKEN:
        assert timed_shapes(path, {**TAKEN, key: 9}, a_where()) == set(), key
    assert timed_shapes(path, {**TAKEN, "references": ["cublas"]}, a_where()) == set()
    assert timed_shapes(path, TAKEN, a_where("build-2")) == set()


def test_another_time_limit_of_the_watchdog_measures_nothing_again(path):
    store.add_run(path, time_run("tiled", {("tiled", "128"): [1e-3]}, settings="as it was taken over all settings"))
    assert timed_shapes(path, {**TAKEN, "time_limit_s": 9}, a_where()) == {"128"}


@pytest.fixture
def recorded_time():
    """A time record of this repository, where its latest run was made, and what was timed beside the rung."""
    path = REPOSITORY / f"results/{RECORDED}/raw/time/naive.zip"
    run = store.run_record(list(store.read_runs(path).values())[-1], path)
    return path, run["where"], run["settings"]["references"]


def test_what_is_recorded_is_held_by_a_run_of_the_same_build(recorded_time):
    path, where, references = recorded_time
    settings = plan({"gpu": RECORDED, "timing": {"time_limit_s": 9, "references": references}}).settings["timing"]
    assert timed_shapes(path, settings, where)
    assert not timed_shapes(path, {**settings, "iterations": 9}, where)


def test_shapes_are_held_over_several_runs(path):
    store.add_run(path, time_run("tiled", {("tiled", "128"): [1e-3]}, measured_at=MORNING))
    store.add_run(path, time_run("tiled", {("tiled", "256"): [1e-3]}, measured_at=NOON, build="build-2"))
    assert timed_shapes(path, TAKEN, a_where()) == {"128"}
    assert timed_shapes(path, TAKEN, a_where("build-2")) == {"256"}


def test_nothing_is_held_where_there_is_no_record(path):
    assert timed_shapes(path, TAKEN, a_where()) == set()


# One attempt


SETTINGS = {"warmup": 5, "iterations": 50, "min_iterations": 5, "budget_s": 5, "reference_budget_s": 1}


EXPECTED = {
    "declared": {
        "tiled": {"role": "rung", "precision": "fp32", "claims": {}},
        "cublas": {"role": "baseline", "precision": "fp32", "claims": {}},
    },
    "ceiling": (1e5, 1980, 3350),
}


@pytest.fixture
def attempt(path, tmp_path, monkeypatch):
    """Runs the time stage with a worker that sends these events, leaves these files and ends like this."""

    def run(outcome=Outcome("ok", ""), files=None, events=(), names=("tiled", "cublas")):  # noqa: B008
        seen = SimpleNamespace(progress=[])

        def worker(module, request, on_event, time_limit_s, log):
            seen.module, seen.request, seen.time_limit_s = module, request, time_limit_s
            for event in events:
                on_event(event)
            for name, content in (files or {}).items():
                file = timings.Path(request["folder"]) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return outcome

        monkeypatch.setattr("ladder.measure.time.stage.run_worker", worker)
        seen.message = time_rung(
            names[0],
            {name: a_build(tmp_path / name) for name in names},
            ["128"],
            EXPECTED,
            SETTINGS | {"time_limit_s": 120},
            0,
            a_where(),
            path,
            tmp_path / "log",
            lambda *place: seen.progress.append(place),
        )
        return seen

    return run


def measured() -> tuple[dict[str, bytes], list[dict]]:
    """The files that NVBench leaves, and the states that the worker sends."""
    files = time_run("tiled", {("tiled", "128"): [1e-3] * 50, ("cublas", "128"): [2e-3] * 50})
    record = json.loads(files.pop("record.json"))
    return files, record["states"]


def test_a_completed_attempt_is_added_to_the_record(attempt, path):
    files, states = measured()
    starts = [{"starts": {"kernel": kernel, "shape": "128"}} for kernel in ("tiled", "cublas")]
    seen = attempt(files=files, events=[*starts, {"states": states}])
    assert seen.message == ""
    assert seen.progress == [("tiled", "128"), ("cublas", "128")]
    assert (seen.module, seen.time_limit_s) == (WORKER, 120)
    assert {key: seen.request[key] for key in SETTINGS} == SETTINGS
    assert list(seen.request["libraries"]) == ["tiled", "cublas"]
    assert (seen.request["stage"], seen.request["steady"]) == ("time", "cublas")
    assert read_time_record(path)[S128].measurements["cublas"].times_s == pytest.approx([2e-3] * 50, rel=1e-6)
    ((_, run),) = store.read_runs(path).items()
    assert {name: content for name, content in run.items() if name != "record.json"} == files
    record = json.loads(run["record.json"])
    assert 0 <= record["where"]["wall_s"] < 60
    assert record["builds"] == dict.fromkeys(("tiled", "cublas"), "build-1")


def test_a_library_without_another_one_beside_it_is_timed(attempt, path):
    files = time_run("cublas", {("cublas", "128"): [1e-3] * 50, ("tiled", "128"): [2e-3] * 50})
    states = json.loads(files.pop("record.json"))["states"]
    seen = attempt(files=files, events=[{"states": states}], names=("cublas", "tiled"))
    assert (seen.message, seen.request["steady"]) == ("", None)
    assert list(store.read_runs(path))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "crashed: killed by SIGSEGV"),
        ([{"starts": {"kernel": "cublas", "shape": "128"}}], "cublas at 128: crashed: killed by SIGSEGV"),
    ],
)
def test_a_failed_attempt_names_what_was_measured_and_adds_nothing(attempt, path, events, message):
    store.add_run(path, time_run("tiled", {("tiled", "256"): [1e-3]}, measured_at=MORNING))
    before = path.read_bytes()
    assert attempt(Outcome("failed", "crashed: killed by SIGSEGV"), measured()[0], events).message == message
    assert path.read_bytes() == before


def test_what_nvbench_skipped_fails_the_attempt(attempt, path):
    files, _ = measured()
    document = json.loads(files["nvbench.json"])
    document["benchmarks"][0]["states"][1] |= {"is_skipped": True, "skip_reason": "deadlock"}
    files["nvbench.json"] = json.dumps(document).encode()
    assert attempt(files=files).message == "NVBench skipped Device=0 kernel=cublas shape=128: deadlock"
    assert not path.exists()


@pytest.mark.parametrize(
    ("kernel", "blamed"),
    [("tiled", True), ("cublas", True), ("naive", False)],
)
def test_what_the_launches_of_a_rung_did_is_its_failure_and_no_time(attempt, path, kernel, blamed):
    finding = {"kernel": kernel, "finding": "at 128: C was wrong"}
    message = attempt(files=measured()[0], events=[{"dishonest": finding}]).message
    assert message.startswith(DISHONEST) == blamed
    assert "at 128: C was wrong" in message
    assert (kernel in message) == (kernel != "tiled")
    assert not path.exists()


def test_samples_that_are_not_what_nvbench_wrote_are_dishonest(attempt, path):
    files, states = measured()
    digests = {name: store.digest(content) for name, content in files.items()}
    files["nvbench.json-bin/0.bin"] = files["nvbench.json-bin/0.bin"][::-1]
    message = attempt(files=files, events=[{"states": states, "written": digests}]).message
    assert message.startswith(DISHONEST)
    assert "nvbench.json-bin/0.bin" in message
    assert not path.exists()


def test_samples_of_launches_that_were_not_verified_are_taken_again(path):
    files = time_run("tiled", {("tiled", "128"): [1e-3]})
    record = json.loads(files["record.json"])
    del record["launches"]
    store.add_run(path, {**files, "record.json": json.dumps(record).encode()})
    assert list(read_time_record(path)) == [S128], "they are shown until then"
    assert timed_shapes(path, TAKEN, a_where()) == set()


# What cannot be


SHAPE = Shape(1024, 1024, 1024)
CEILING = (66_900, 1980, 3350)


def a_measurement(kernel, us, held_us=(), samples=50, clock_mhz=1980, load_cycles=()):
    launches = {"launches": {"held_us": list(held_us), "load_cycles": list(load_cycles)}}
    return Measurement(kernel, SHAPE, np.full(samples, us * 1e-6), np.full(samples, clock_mhz * 1e6), 50, launches)


def found(own, before=None, after=None):
    measured = [own, before or a_measurement("cublas before", 63), after or a_measurement("cublas", 63, [66] * 4)]
    return implausible(measured, "mine", "cublas", "cublas before", CEILING, SETTINGS)


def test_a_sound_measurement_is_plausible():
    assert found(a_measurement("mine", 50, [53] * 4)) == ""
    assert found(a_measurement("mine", 50, [53, 53, 53, 200])) == "", "one of them was interrupted"
    assert found(a_measurement("mine", 50)) == "", "an older record has none that were held"
    slower = a_measurement("cublas", 1288, [1263] * 4)  # as cuBLAS was at 3072 on an H100, which has two speeds there
    assert found(a_measurement("mine", 418.6, [417.5] * 4), slower, slower) == ""


@pytest.mark.parametrize(
    ("cycles", "word"),
    [
        ((700, 690), ""),
        ((560, 900), ""),
        ((300, 700), "A is in the L2 cache: a load from it takes 300 cycles, and 700 before cublas"),
        ((700, 310), "B is in the L2 cache"),
    ],
)
def test_operands_that_are_in_the_cache_when_the_clock_starts_are_named(cycles, word):
    own = a_measurement("mine", 50, load_cycles=[cycles, cycles, cycles, (10, 10)])
    usual = a_measurement("cublas", 63, load_cycles=[(700, 700)] * 4)
    message = found(own, after=usual)
    assert word in message
    assert bool(word) == bool(message)
    assert found(own) == "", "an older record has no such launches"


@pytest.mark.parametrize(
    ("own", "word"),
    [
        (a_measurement("mine", 30, [33] * 4), "TFLOP/s is impossible"),
        (a_measurement("mine", 1, [4] * 4), "impossible"),
        (a_measurement("mine", 40, [80] * 4), "outside of what is timed"),
        (a_measurement("mine", 50, [53] * 4, samples=5), "only 5 of 50 samples"),
    ],
)
def test_what_a_rung_cannot_have_done_is_named_with_its_numbers(own, word):
    assert word in found(own)


def test_a_baseline_that_changed_is_named():
    assert "cublas takes 80 us after the rung" in found(a_measurement("mine", 50), after=a_measurement("cublas", 80))
    assert "took 80 us before it" in found(a_measurement("mine", 50), before=a_measurement("cublas before", 80))


def test_a_clock_above_that_of_the_gpus_file_raises_the_ceiling():
    own = 2 * 1024**3 / 67.5e12 * 1e6
    assert "impossible" in found(a_measurement("mine", own, clock_mhz=1980))
    assert found(a_measurement("mine", own, clock_mhz=2010)) == ""


def test_reading_the_operands_bounds_a_time_from_below():
    shape = Shape(64, 64, 1 << 20)
    assert floor_s(shape, 1000) == pytest.approx(2 * 4 * 64 * (1 << 20) / 1e12)
    fast = Measurement("mine", shape, np.full(50, 0.5 * floor_s(shape, 3350)), np.full(50, 1.98e9), 50, {})
    assert "reading A and B" in implausible([fast], "mine", None, "", (1e9, 1980, 3350), SETTINGS)
