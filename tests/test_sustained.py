"""Launches back to back: how they are queued, when they have settled, what energy they take, what is shown of it."""

import math
import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from conftest import ROUND_GPU, a_build, a_rung, a_timing, a_where, an_evidence, line_of
from ladder.config.plan import plan
from ladder.measure.sustained import meter
from ladder.measure.sustained.stage import sustain_rung
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.sustained import (
    COUNTER,
    POWER,
    Batch,
    energy_source,
    held,
    joules,
    read_dishonest,
    read_sustained,
    settled_from,
    sustained_digest,
    windows,
)
from ladder.show import interactive
from ladder.show.figures import sustained as chart
from ladder.show.pages import page
from ladder.show.static import draw
from ladder.show.summary import run_summary
from ladder.system.process import Outcome
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.statistics import mean_interval
from ladder.tables.sustained import SUSTAINED_COLUMNS, best_sustained, sustained_table

SETTINGS = {"seconds": 3, "most_seconds": 10, "settle_percent": 1}
N = 4096
FLOP = Shape(N, N, N).flop


def batches(times_ms: list[float], launches: int = 10, gap_s: float = 0.0) -> list[Batch]:
    """Batches of launches that take these milliseconds each, one behind the other."""
    found, now = [], 0.0
    for ms in times_ms:
        found.append(Batch(now, now + launches * ms / 1e3, launches))
        now = found[-1].end_s + gap_s
    return found


def samples(seconds: float, watts: float = 500.0, clock: float = 1500, **more) -> dict:
    """What NVML says each 40 ms from just before the launches to just after."""
    at = [round(0.04 * step - 0.02, 4) for step in range(int(seconds / 0.04) + 3)]
    constant = {"power_w": watts, "sm_clock_mhz": clock, "temperature_c": 60, "throttle_reasons": "software power cap"}
    columns = {"energy_j": [1e6 + watts * (time - at[0]) for time in at]}
    columns |= {key: [value] * len(at) for key, value in (constant | more).items()}
    return {"at_s": at, **columns}


def a_part(kernel: str, ms: float, seconds: float = 3.0, watts: float = 500.0, shape: str = "4096", **more) -> dict:
    """A part of a record: launches that all take as long, in batches of 50 ms or of one launch."""
    launches = max(1, round(50 / ms))
    found = batches([ms] * math.ceil(seconds * 1e3 / ms / launches), launches)
    columns = {key: [getattr(batch, key) for batch in found] for key in ("begin_s", "end_s", "launches")}
    took = samples(found[-1].end_s, watts, **more)
    return {"kernel": kernel, "shape": shape, "verified": 9, "batches": columns, "samples": took}


def a_record(rung: str, parts: list[dict], **changes) -> dict:
    """A record of the sustained stage."""
    where = a_where(settings=sustained_digest(SETTINGS))
    builds = dict.fromkeys([rung, "cublas"], "build-1")
    shapes = list(dict.fromkeys(part["shape"] for part in parts)) or ["4096"]
    record = {"stage": "sustained", "rung": rung, "status": "ok", "message": "", "where": where, "builds": builds}
    return {**record, "shapes": shapes, "settings": SETTINGS, "parts": parts} | changes


def beside(rung: str, ms: float, before: float = 2.0, after: float = 2.0, **more) -> list[dict]:
    """The parts of a rung between two of cublas."""
    return [a_part("cublas", before, 1.5), a_part(rung, ms, **more), a_part("cublas", after, 1.5)]


def written(folder, rung: str, parts: list[dict], **changes):
    path = folder / f"results/h100-sxm/raw/sustained/{rung}.json"
    store.write_json(path, a_record(rung, parts, **changes))
    return path


# Queueing


class Stream:
    """Launches on a stream whose clock is counted; notes how often it had nothing to do."""

    def __init__(self, ms: float = 1.0):
        self.launch_s, self.now_s = ms / 1e3, 0.0
        self.idle, self.waiting, self.queued = 0, 0, 0

    def queue(self, launches, renewed=False):
        self.idle += self.queued > 0 and self.waiting == 0
        begin_s, self.now_s = self.now_s, self.now_s + launches * self.launch_s
        self.waiting, self.queued = self.waiting + 1, self.queued + 1
        return Batch(begin_s, self.now_s, launches, renewed)

    def wait(self, batch):
        self.waiting -= 1
        return batch

    def renew(self):
        return self.queue(1, renewed=True)


@pytest.fixture
def sustain():
    from ladder.measure.sustained.worker import sustain

    return sustain


@pytest.mark.parametrize("ms", [0.01, 1.0, 190.0, 900.0])
def test_the_gpu_is_never_idle_and_runs_for_the_least_seconds(sustain, ms):
    stream = Stream(ms)
    found = sustain(stream, 3, 10, lambda ended: True)
    assert stream.idle == 0
    assert stream.waiting == 0
    assert len(found) == stream.queued
    assert 3 <= found[-1].end_s <= 3 + 3 * max(0.05, ms / 1e3) + 1e-9
    assert all(one.end_s == other.begin_s for one, other in pairwise(found))
    new = [index for index, batch in enumerate(found) if batch.renewed]
    assert all(0 < other - one < 10 for one, other in pairwise([0, *new, len(found)]))


def test_it_goes_on_until_it_has_settled_and_no_longer_than_it_may(sustain):
    found = sustain(Stream(), 3, 10, lambda ended: ended[-1].end_s >= 5)
    assert 5 <= found[-1].end_s < 5.2
    found = sustain(Stream(), 3, 10, lambda ended: False)
    assert 10 <= found[-1].end_s < 10.2


def test_a_rung_that_does_less_on_operands_that_it_knows_is_found():
    from ladder.measure.sustained.worker import too_fast

    known, new = batches([1.0] * 50), [Batch(0, 2e-3, 1, renewed=True)] * 5
    assert too_fast(known + new) == "a launch takes 1 ms, and 2 ms where its operands are new"
    assert too_fast(known + [Batch(0, 1.05e-3, 1, renewed=True)] * 5) == ""
    assert too_fast(batches([0.002] * 50) + [Batch(0, 8e-6, 1, renewed=True)] * 5) == ""  # what events take
    assert too_fast(known) == ""


# Windows, and when they have settled


def test_windows_are_as_long_as_the_counter_of_energy_needs_and_hold_every_launch():
    found = windows(batches([1.0] * 101, 50), samples(6))
    assert all(window.end_s - window.begin_s >= 0.5 for window in found)
    assert sum(window.launches for window in found) == 101 * 50
    assert [one.end_s == other.begin_s for one, other in pairwise(found)] == [True] * (len(found) - 1)
    assert [window.seconds for window in found] == pytest.approx([1e-3] * len(found))


def test_what_lies_between_batches_is_in_no_time_of_a_launch():
    found = windows(batches([5.0] * 40, gap_s=0.01), samples(3))
    assert [window.seconds for window in found] == pytest.approx([5e-3] * len(found))
    assert sum(window.end_s - window.begin_s for window in found) > 40 * 0.05


def some(times_ms: list[float], clocks: list[float] | None = None):
    """Windows of half a second whose launches take these times at these clocks."""
    clocks = clocks or [1500] * len(times_ms)
    return [SimpleNamespace(seconds=ms / 1e3, sm_clock_mhz=clock) for ms, clock in zip(times_ms, clocks, strict=True)]


@pytest.mark.parametrize(
    ("times", "clocks", "first"),
    [
        ([1, 1, 1, 1], None, 0),
        ([1, 1.005, 1.009, 1.009], None, 0),
        ([0.9, 0.95, 1, 1.005, 1], None, 2),
        ([1, 1, 1, 1.1], None, None),  # one window is no settled part
        ([1, 1.02, 1.04, 1.06], None, None),
        ([1, 1, 1, 1], [1900, 1700, 1500, 1505], 2),  # the clock falls and times do not show it yet
        ([1, 1, 1], [math.nan] * 3, 0),
        ([1], None, None),
        ([], None, None),
    ],
)
def test_settled_is_what_stays_within_a_percent_to_the_end(times, clocks, first):
    assert settled_from(some(times, clocks), 1) == first


def test_a_slow_drift_has_not_settled_however_small_its_steps():
    assert settled_from(some([1.004**step for step in range(20)]), 1) == 17
    assert settled_from(some([1.004**step for step in range(20)]), 10) == 0


# Energy


def test_energy_is_the_counters_difference_between_its_steps():
    took = {"at_s": [-0.1, 0.4, 0.9, 1.4], "energy_j": [100.0, 300.0, 600.0, 700.0]}
    assert joules(took, 0.4, 0.9) == pytest.approx(300)
    assert joules(took, 0.15, 1.15) == pytest.approx(100 + 300 + 50)
    assert energy_source(took) == COUNTER


def test_without_a_counter_power_is_integrated():
    took = {"at_s": [0.0, 1.0, 3.0], "power_w": [100.0, 300.0, 300.0]}
    assert joules(took, 0, 3) == pytest.approx(200 + 600)
    assert energy_source(took) == POWER


@pytest.mark.parametrize("at", [[], [0.5, 2.0], [-1.0, 0.5]])
def test_energy_that_the_samples_do_not_cover_is_unknown(at):
    assert math.isnan(joules({"at_s": at, "energy_j": [float(time) for time in range(len(at))]}, 0, 1))
    assert math.isnan(joules({"at_s": at}, 0, 1))


def test_the_interval_of_a_mean_is_students():
    # W. S. Gosset, The probable error of a mean, 1908: additional sleep of ten patients; R gives 0.70 to 2.46.
    sleep = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    assert mean_interval(sleep) == pytest.approx((1.58, 0.70, 2.46), abs=5e-3)
    mean, low, high = mean_interval([2.0])
    assert (mean, math.isnan(low), math.isnan(high)) == (2.0, True, True)


# Records


def test_a_record_is_read_back_by_shape(tmp_path):
    parts = beside("tiled", 3.0) + beside("tiled", 0.5, shape="2048")
    for part in parts[3:]:
        part["shape"] = "2048"
    found = read_sustained(written(tmp_path, "tiled", parts), "build-1")
    assert list(found) == [Shape(N, N, N), Shape(2048, 2048, 2048)]
    own = found[Shape(N, N, N)].own
    assert (own.kernel, own.settled_from, own.energy_from) == ("tiled", 0, COUNTER)
    assert own.throttle_reasons == ("software power cap",)
    assert [len(parts) for parts in found[own.shape].references.values()] == [2]
    assert own.settled[0].energy_j == pytest.approx(500 * 3e-3)


def test_a_record_of_another_build_or_of_a_failure_holds_nothing(tmp_path):
    path = written(tmp_path, "tiled", beside("tiled", 3.0))
    assert read_sustained(path, "build-2") == {}
    assert read_sustained(written(tmp_path, "tiled", [], status="failed"), "build-1") == {}
    assert read_sustained(tmp_path / "none.json") == {}


def test_a_record_in_anothers_place_is_refused(tmp_path):
    path = written(tmp_path, "tiled", beside("tiled", 3.0))
    other = path.rename(path.with_name("naive.json"))
    assert "rung: 'tiled', where a record of 'naive' belongs" in line_of(read_sustained, other)
    accuracy = path.parent.with_name("accuracy") / "tiled.json"
    accuracy.parent.mkdir()
    other.rename(accuracy)
    assert "stage: 'sustained', where a record of 'accuracy' belongs" in line_of(store.read_record, accuracy)


def _batches(change):
    return lambda part: change(part["batches"])


def _samples(change):
    return lambda part: change(part["samples"])


DAMAGES = {
    "a batch without its end": _batches(lambda of: of["end_s"].pop()),
    "a batch that takes no time": _batches(lambda of: of["end_s"].__setitem__(0, of["begin_s"][0])),
    "a batch without launches": _batches(lambda of: of["launches"].__setitem__(0, 0)),
    "batches that overlap": _batches(lambda of: of["begin_s"].__setitem__(1, 0.0)),
    "no batches": _batches(lambda of: [of[key].clear() for key in of]),
    "a time that is no number": _batches(lambda of: of["end_s"].__setitem__(0, "soon")),
    "samples of two lengths": _samples(lambda of: of["power_w"].pop()),
    "a counter that falls": _samples(lambda of: of["energy_j"].__setitem__(3, 0.0)),
    "a reading that is no number": _samples(lambda of: of["power_w"].__setitem__(3, None)),
    "no times of samples": _samples(lambda of: of.pop("at_s")),
    "no samples": lambda part: part.pop("samples"),
    "no kernel": lambda part: part.pop("kernel"),
    "another kernel": lambda part: part.update(kernel="naive"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_one_line(tmp_path, damage):
    parts = beside("tiled", 3.0)
    damage(parts[1])
    path = written(tmp_path, "tiled", parts)
    text = line_of(read_sustained, path)
    assert text.startswith(f"{path}: the record is damaged (")
    assert text.endswith("; restore it with git checkout, or delete it to measure again")


def test_what_is_recorded_is_held_for_the_same_builds_shapes_settings_and_device(tmp_path):
    path = written(tmp_path, "tiled", beside("tiled", 3.0))
    builds, where = {"tiled": "build-1", "cublas": "build-1"}, a_where(settings=sustained_digest(SETTINGS))
    assert held(path, builds, ["4096"], where)
    assert not held(path, builds | {"cublas": "build-2"}, ["4096"], where)
    assert not held(path, builds, ["4096", "8192"], where)
    assert not held(path, builds, ["4096"], where | {"gpu": where["gpu"] | {"uuid": "GPU-1"}})
    for key in SETTINGS:
        assert not held(path, builds, ["4096"], a_where(settings=sustained_digest({**SETTINGS, key: 99}))), key
    assert sustained_digest(SETTINGS | {"time_limit_s": 9}) == sustained_digest(SETTINGS)
    assert not held(written(tmp_path, "tiled", [], status="failed"), builds, ["4096"], where)
    assert not held(tmp_path / "none.json", builds, ["4096"], where)


# One attempt


EXPECTED = {"declared": {"tiled": {"precision": "fp32"}}, "ceiling": [1e5, 1500, 3000]}


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Runs the stage with a worker that sends these events and ends like this; the record and the request."""

    def run(*events, outcome=Outcome("ok", "")):  # noqa: B008
        seen = SimpleNamespace(progress=[])

        def worker(module, request, on_event, time_limit_s, log):
            seen.request = request
            for event in events:
                on_event(event)
            return outcome

        monkeypatch.setattr("ladder.measure.sustained.stage.run_worker", worker)
        builds = {name: a_build(tmp_path / name) for name in ("tiled", "cublas")}
        settings = SETTINGS | {"references": ["cublas"], "time_limit_s": 60}
        seen.record = sustain_rung(
            *("tiled", builds, ["4096"], EXPECTED, settings, 0, a_where(), tmp_path / "log"),
            lambda *place: seen.progress.append(place),
        )
        return seen

    return run


def starts(kernel: str) -> dict:
    return {"starts": {"kernel": kernel, "shape": "4096"}}


def found(kernel: str) -> dict:
    return {"dishonest": {"kernel": kernel, "finding": "at 4096: C was not written"}}


def test_a_completed_attempt_is_a_record_that_can_be_read(attempt, tmp_path):
    events = [event for part in beside("tiled", 3.0) for event in (starts(part["kernel"]), {"part": part})]
    seen = attempt(*events)
    assert seen.progress == [("cublas", "4096"), ("tiled", "4096"), ("cublas", "4096")]
    assert {key: seen.request[key] for key in SETTINGS} == SETTINGS
    path = tmp_path / "tiled.json"
    store.write_json(path, {"stage": "sustained", "rung": "tiled", **seen.record})
    assert list(read_sustained(path)) == [Shape(N, N, N)]
    assert seen.record["where"]["wall_s"] >= 0


def test_a_rung_whose_launch_is_wrong_is_dishonest_and_nothing_of_it_counts(attempt, tmp_path):
    seen = attempt(starts("cublas"), {"part": a_part("cublas", 2.0)}, starts("tiled"), found("tiled"))
    assert (seen.record["status"], seen.record["parts"]) == ("dishonest", [])
    assert seen.record["message"] == "at 4096: C was not written"
    path = tmp_path / "tiled.json"
    store.write_json(path, {"stage": "sustained", "rung": "tiled", **seen.record})
    assert read_sustained(path) == {}
    assert read_dishonest(path, "build-1") == seen.record["message"]
    assert read_dishonest(path, "build-2") == ""
    item = an_evidence("tiled", (a_timing("tiled", "4096", {"tiled": [1.0]}),), dishonest_sustained="C is not written")
    assert (item.status, item.message, item.sound) == ("dishonest", "C is not written", False)


def test_a_wrong_launch_of_a_reference_says_nothing_of_the_rung(attempt):
    seen = attempt(starts("cublas"), found("cublas"))
    assert (seen.record["status"], seen.record["message"]) == ("failed", "cublas beside it: at 4096: C was not written")


def test_a_rate_that_no_gpu_reaches_is_dishonest_unless_its_clock_was_higher(attempt):
    for clock, status in ((1500, "dishonest"), (2000, "ok")):
        parts = beside("tiled", 1.2, clock=clock)  # 115 TFLOP/s, where the ceiling is 100 at 1500 MHz
        assert attempt(*({"part": part} for part in parts)).record["status"] == status


def test_a_crash_names_what_was_launched(attempt):
    seen = attempt(starts("tiled"), outcome=Outcome("failed", "crashed: killed by SIGSEGV"))
    assert (seen.record["status"], seen.record["message"]) == ("failed", "tiled at 4096: crashed: killed by SIGSEGV")


# The plan


def test_every_rung_but_the_floors_is_launched_beside_its_cublas_at_4096():
    run = plan({"gpu": "h100-sxm", "measure": False})
    assert set(run.sustained) == {rung.name for rung in run.rungs if rung.role != "floor"}
    assert run.sustained_beside("fastest") == ["fastest", "cublas", "cublas_best"]
    assert run.sustained_beside("cublas_best") == ["cublas_best", "cublas"]
    assert run.sustained_beside("tf32") == ["tf32", "cublas_tf32"]
    assert run.sustained_beside("cublas") == ["cublas", "cublas_best"]
    assert run.sustained_shapes_of("fastest") == [Shape(N, N, N)]


def test_only_the_references_that_are_asked_for_are_launched():
    run = plan({"gpu": "h100-sxm", "measure": False, "sustained": {"references": ["cublas"]}})
    assert run.sustained_beside("fastest") == ["fastest", "cublas"]
    assert run.sustained_beside("cublas") == ["cublas"]


def test_a_shape_that_is_launched_is_checked_unless_that_is_off():
    at = {"gpu": "h100-sxm", "measure": False, "sizes": [128]}
    on, off = (plan({**at, "sustained": {"sizes": [777], "enabled": enabled}}) for enabled in (True, False))
    assert Shape(777, 777, 777) in {case.shape for case in on.cases()}
    assert Shape(777, 777, 777) not in {case.shape for case in off.cases()}
    assert off.sustained == []


# What is shown


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    """cublas at 2 ms, and rungs that share less or more of it sustained than isolated."""
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")

    def item(name, ms, watts, isolated_ms, precision="fp32"):
        parts = [a_part("cublas", 2.0, watts=600)] if name == "cublas" else beside(name, ms, watts=watts)
        found = read_sustained(written(tmp_path, name, parts))
        timing = a_timing(name, "4096", {name: [isolated_ms], "cublas": [2.0]})
        return an_evidence(name, (timing,), rung=a_rung(name, precision=precision), sustained=found)

    return [
        item("cublas", 2.0, 600, 2.0),
        item("naive", 190.0, 350, 190.0),
        item("tiled", 4.0, 500, 4.0),
        item("fastest", 1.9, 500, 1.6),
        item("wgmma_3xfp16", 1.0, 700, 0.5, "3xfp16"),
    ]


def test_shares_and_energy_are_those_of_the_settled_windows(evidence):
    table = sustained_table(evidence, "cublas")
    assert list(table.columns) == SUSTAINED_COLUMNS
    row = table.set_index("rung").loc["fastest"]
    assert row["share_of_cublas_sustained"] == pytest.approx(2.0 / 1.9)
    assert row["share_of_cublas_isolated"] == pytest.approx(2.0 / 1.6)
    assert row["gflops_sustained"] == pytest.approx(FLOP / 1e9 / 1.9e-3)
    assert row["gflops_isolated"] == pytest.approx(FLOP / 1e9 / 1.6e-3)
    assert row["joules_per_product"] == pytest.approx(500 * 1.9e-3)
    assert row["gflops_per_watt"] == pytest.approx(FLOP / 1e9 / (500 * 1.9e-3))
    assert row["gflops_per_watt"] == pytest.approx(row["gflops_sustained"] / row["power_w"])
    assert row["energy_of_cublas"] == pytest.approx(1.9 / 2.0)  # cublas takes 500 W beside the rung
    assert (row["settled"], row["settled_after_s"], row["drift_percent"]) == (True, 0, pytest.approx(0))
    assert row["seconds"] >= 3
    assert (row["reference"], row["energy_from"], row["throttle_reasons"]) == ("cublas", COUNTER, "software power cap")
    itself = table.set_index("rung").loc["cublas"]
    assert (itself["share_of_cublas_sustained"], itself["energy_of_cublas"]) == (1, 1)


def test_a_window_that_the_samples_do_not_cover_leaves_the_energy_of_the_others(tmp_path):
    parts = beside("tiled", 2.0, watts=400)
    for part in parts:
        part["samples"]["at_s"][-1] = part["samples"]["at_s"][-2] = part["batches"]["end_s"][-1] - 1e-3
    item = an_evidence("tiled", sustained=read_sustained(written(tmp_path, "tiled", parts)), timings=TIMED)
    windows_of_it = item.sustained[Shape.parse("4096")].own.windows
    assert [math.isnan(window.energy_j) for window in windows_of_it[-2:]] == [False, True]
    (row,) = sustained_table([item], "cublas").to_dict("records")
    assert row["joules_per_product"] == pytest.approx(400 * 2e-3)
    assert row["power_w"] == pytest.approx(400)
    assert row["energy_of_cublas"] == pytest.approx(400 / 500)
    for part in parts:
        del part["samples"]["energy_j"], part["samples"]["power_w"]
    item = an_evidence("tiled", sustained=read_sustained(written(tmp_path, "tiled", parts)), timings=TIMED)
    (row,) = sustained_table([item], "cublas").to_dict("records")
    assert all(math.isnan(row[key]) for key in ("joules_per_product", "gflops_per_watt", "power_w", "energy_of_cublas"))


def test_the_meter_waits_for_a_sample_from_after_it_was_asked(monkeypatch):
    counted, begun = iter(range(10**6)), threading.Event()

    def state(device):
        begun.set()
        time.sleep(0.1)  # so that a sample is begun before it is asked for, and ends after that
        return {"power_w": 1.0}

    monkeypatch.setattr(meter.nvml, "energy_j", lambda device: next(counted))
    monkeypatch.setattr(meter.nvml, "state", state)
    asked = meter.Meter(0)
    try:
        for _ in range(3):
            begun.clear()
            begun.wait()
            asked_s = time.monotonic()
            number = asked.wait()
            assert asked.samples[number]["at_s"] >= asked_s
    finally:
        asked.close()


def test_what_the_clock_does_before_it_has_settled_does_not_count(tmp_path):
    part = a_part("tiled", 2.0)
    cold, warm = batches([1.5] * 20, 25), batches([2.0] * 60, 25)
    begin = cold[-1].end_s
    found = cold + [Batch(begin + each.begin_s, begin + each.end_s, each.launches) for each in warm]
    part["batches"] = {key: [getattr(batch, key) for batch in found] for key in ("begin_s", "end_s", "launches")}
    part["samples"] = samples(found[-1].end_s)
    path = written(tmp_path, "tiled", [a_part("cublas", 2.0), part, a_part("cublas", 2.0)])
    (row,) = sustained_table([an_evidence("tiled", sustained=read_sustained(path), timings=TIMED)], "cublas").to_dict(
        "records"
    )
    assert 0.5 < row["settled_after_s"] < 1.6
    assert row["time_ms"] == pytest.approx(2.0)
    assert row["share_of_cublas_sustained"] == pytest.approx(1.0)


TIMED = (a_timing("tiled", "4096", {"tiled": [2.0]}),)


def test_a_reference_that_drifts_counts_with_its_mean_and_is_told(tmp_path):
    path = written(tmp_path, "tiled", beside("tiled", 2.0, before=1.9, after=2.1))
    row = sustained_table([an_evidence("tiled", TIMED, sustained=read_sustained(path))], "cublas").iloc[0]
    assert row["share_of_cublas_sustained"] == pytest.approx(2 / (2.0 / 1.9 + 2.0 / 2.1))
    assert row["drift_percent"] == pytest.approx(100 * (1.9 / 2.1 - 1))
    assert row["share_of_cublas_sustained_ci_low"] < row["share_of_cublas_sustained"]
    assert row["share_of_cublas_sustained_ci_high"] > row["share_of_cublas_sustained"]


@pytest.mark.parametrize(("name", "ms", "share"), [("cublas", 2.2, 2 / 2.2), ("best", 1.8, 1.0), ("naive", 4, 0.5)])
def test_the_reference_is_the_fastest_baseline_that_was_launched(tmp_path, name, ms, share):
    other = "cublas" if name == "best" else "best"
    parts = [a_part(other, 2.0, 1.5), a_part(name, ms), a_part(other, 2.0, 1.5)]
    item = an_evidence(
        name,
        (a_timing(name, "4096", {name: [ms], other: [2.0]}),),
        rung=a_rung(name, baselines=("cublas", "best")),
        sustained=read_sustained(written(tmp_path, name, parts)),
    )
    row = sustained_table([item], "cublas").iloc[0]
    assert row["reference"] == "best"
    assert row[["share_of_cublas_sustained", "share_of_cublas_isolated"]].tolist() == pytest.approx([share] * 2)


def test_what_never_settles_counts_with_its_second_half_and_says_so(tmp_path):
    part = a_part("tiled", 2.0)
    found = batches([2.0 * 1.002**step for step in range(60)], 25)
    part["batches"] = {key: [getattr(batch, key) for batch in found] for key in ("begin_s", "end_s", "launches")}
    part["samples"] = samples(found[-1].end_s)
    path = written(tmp_path, "tiled", [part])
    row = sustained_table([an_evidence("tiled", TIMED, sustained=read_sustained(path))], "cublas").iloc[0]
    assert not row["settled"]
    assert math.isnan(row["settled_after_s"])
    assert row["settled_s"] < 0.6 * row["seconds"]
    assert math.isnan(row["share_of_cublas_sustained"])


def test_no_row_is_of_a_rung_that_is_not_sound(evidence):
    item = an_evidence("tiled", TIMED, sustained=evidence[2].sustained, timing_failure="it hung")
    assert sustained_table([item], "cublas").empty


@pytest.fixture
def tables(evidence, tmp_path):
    """The tables by way of files."""
    for name, table in all_tables(evidence, ROUND_GPU, "cublas", "naive").items():
        write_table(table, tmp_path / f"{name}.csv")
    return {path.stem: read_table(path) for path in tmp_path.glob("*.csv")}


def test_the_figure_has_both_modes_by_name_and_the_energy_of_the_sustained_one(tables, tmp_path):
    figure = chart.figure(tables["sustained"], tables["rungs"])
    assert figure.title == "fastest sustains 105.3 % of cuBLAS (125.0 % isolated) at 4096, with 0.95 times its energy"
    _, layer = figure.layers
    rows = layer.data.set_index(["panel", "mode", "rung"])["value"]
    assert rows["% of cuBLAS", "sustained", "fastest"] == pytest.approx(100 * 2 / 1.9, rel=1e-4)
    assert rows["% of cuBLAS", "isolated", "wgmma_3xfp16 (3xFP16)"] == pytest.approx(400)
    assert set(layer.data.loc[layer.data["panel"] != "% of cuBLAS", "mode"]) == {"sustained"}
    picture = draw(figure, "Recorded on an invented GPU.")
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["sustained", "isolated"]


def test_the_report_has_a_chart_for_each_panel(tables):
    charts = interactive.charts(chart.figure(tables["sustained"], tables["rungs"]))
    assert list(charts) == ["% of cuBLAS", "J a product", "GFLOP/s a watt"]
    assert interactive.legend(chart.figure(tables["sustained"], tables["rungs"]))[""][0]["name"] == "sustained"


def test_without_rows_the_figure_says_so(tables):
    figure = chart.figure(tables["sustained"].iloc[:0], tables["rungs"])
    assert figure.empty in [text.get_text() for text in draw(figure, "").axes[0].texts]


def test_the_best_of_each_class_is_in_the_summary(tables):
    assert list(best_sustained(tables["sustained"])["rung"]) == ["fastest", "wgmma_3xfp16"]
    text = run_summary(tables["rungs"], tables["timings"], "", "results", sustained=tables["sustained"])
    said = " ".join(text.split())
    assert "Sustained at 4096: fastest 105.3 % of cuBLAS (125.0 % isolated), 144.7 GFLOP/s a watt; wgmma" in said
    assert "Sustained" not in run_summary(tables["rungs"], tables["timings"], "", "results")


def test_a_page_has_what_was_launched_back_to_back_or_says_that_nothing_is_recorded(tables):
    inspection = {"launches": {}, "kernels": []}
    text = page(a_rung("fastest"), inspection, tables)
    section = text.partition("## Sustained")[2].partition("\n## ")[0]
    assert "105.3 %" in section
    assert "../../raw/sustained/fastest.json" in section
    del tables["sustained"]
    assert "No launches back to back are recorded for this rung." in page(a_rung("fastest"), inspection, tables)


def test_its_record_is_among_the_records_of_the_rung(tables):
    rows = tables["records"]
    found = rows[(rows["stage"] == "sustained") & (rows["rung"] == "fastest")]
    assert list(found[["shape", "file", "key"]].itertuples(index=False, name=None)) == [
        ("4096", "raw/sustained/fastest.json", "parts")
    ]
