"""What a busy neighbour does to a measurement: blocks in their order, and the record in words, on stand-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import record_neighbour
import recording
from conftest import a_build, a_device, a_where, line_of, time_run
from ladder.records import store
from ladder.system import nvml
from record_neighbour import BLOCKS, BUSY, RESTS, RUNGS, SIZES, busy, effects, on_two_gpus, show

OWN, NEIGHBOUR = a_device(uuid=f"GPU-aaaaaaaa-{os.getpid()}"), a_device(uuid=f"GPU-bbbbbbbb-{os.getpid()}")
RUN = SimpleNamespace(
    devices=(OWN, NEIGHBOUR), device=OWN, settings={"timing": {"iterations": 5}}, expected=lambda names: {}
)


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Two GPUs of which nothing is asked but states; a time is a tenth longer, the clock lower, while the load runs."""
    running = tmp_path / "running"
    load = f"import os, time\nopen({str(running)!r}, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'])\n"
    monkeypatch.setattr(record_neighbour, "LOAD", load + "print('busy', flush=True)\ntime.sleep(60)")
    monkeypatch.setattr(
        record_neighbour, "checked_builds", lambda run, rungs: {r: a_build(tmp_path / r) for r in rungs}
    )
    monkeypatch.setattr(record_neighbour, "environment", lambda *given: a_where())
    monkeypatch.setattr(nvml, "state", lambda index: {"power_w": 600.0 if running.exists() else 70.0, "index": index})
    loaded = []

    def time_rung(rung, builds, shapes, expected, settings, device, where, record, log, progress):
        loaded.append(running.read_text() if running.exists() else "")
        slower = 1.1 if running.exists() else 1.0
        times = {(rung, shape): [slower * 1e-3] * 5 for shape in shapes}
        store.add_run(record, time_run(rung, times, clocks_hz=1.5e9 if running.exists() else 1.9e9))
        return ""

    stop = record_neighbour.process.stop

    def stopped(process):
        stop(process)
        running.unlink()

    monkeypatch.setattr(record_neighbour, "time_rung", time_rung)
    monkeypatch.setattr(record_neighbour.process, "stop", stopped)
    return loaded


def test_the_neighbour_is_busy_in_its_blocks_and_rests_in_the_others(stand_ins):
    record = on_two_gpus(RUN)
    assert stand_ins == [NEIGHBOUR.uuid if state == BUSY else "" for state in BLOCKS for _ in RUNGS]
    assert len(record["blocks"]) == len(BLOCKS) * len(RUNGS) * len(SIZES)
    for row in record["blocks"]:
        loaded = row["neighbour"] == BUSY
        assert row["ms"] == pytest.approx([1.1 if loaded else 1.0] * 5)
        assert row["sm_clock_mhz"] == pytest.approx(1500 if loaded else 1900)
        assert row["neighbour_state"]["power_w"] == (600.0 if loaded else 70.0)
    assert record["beside"] == {"name": NEIGHBOUR.name, "uuid": NEIGHBOUR.uuid}
    assert json.loads(store.to_json(record)) == record


def test_the_record_in_words_says_change_clock_and_power(stand_ins):
    record = on_two_gpus(RUN)
    rows = [line for line in effects(record).splitlines() if line.startswith("| `")]
    assert len(rows) == len(RUNGS) * len(SIZES)
    assert (
        rows[0] == f"| `{RUNGS[0]}` at {SIZES[0]} | +10.00 % ± 0.00 % | 1900 to 1500 MHz | 132 to 132 W | 70 to 600 W |"
    )
    for row in record["blocks"]:
        row["state"] = {}
        row["ms"] = [ms * (1 + row["block"] / 100) for ms in row["ms"]]
    told = effects(record).splitlines()[4].split("|")
    assert told[4].strip() == "-"
    low, high = told[2].replace("%", "").split("±")
    assert float(low) == pytest.approx(10, abs=float(high))


def test_blocks_alternate_so_that_a_drift_is_in_both_alike():
    places = {state: [i for i, each in enumerate(BLOCKS) if each == state] for state in (RESTS, BUSY)}
    assert sum(places[RESTS]) == sum(places[BUSY])


def test_a_load_that_ends_by_itself_is_one_line_and_no_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(record_neighbour, "LOAD", "raise SystemExit('no GPU of that UUID')")
    line = "GPU-bbbbbbbb: the neighbour's load ended by itself: no GPU of that UUID"
    assert line_of(busy(NEIGHBOUR.uuid, tmp_path / "log").__enter__) == line


def test_the_load_ends_with_the_block(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    program = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nprint('busy', flush=True)\n"
    monkeypatch.setattr(record_neighbour, "LOAD", program + "time.sleep(60)")
    with busy(NEIGHBOUR.uuid, tmp_path / "log"):
        assert Path(f"/proc/{pid.read_text()}").exists()
    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_with_one_gpu_there_is_nothing_to_compare(monkeypatch):
    one = SimpleNamespace(measuring=True, devices=(OWN,), gpu=SimpleNamespace(title="NVIDIA H100 SXM5 80 GB"))
    monkeypatch.setattr(recording, "plan", lambda config: one)
    assert line_of(record_neighbour.record_gpu) == (
        "neighbour.json: needs 2 GPUs of one kind; of NVIDIA H100 SXM5 80 GB there are 1"
    )


def test_without_a_record_the_command_says_how_to_make_one():
    if not (record_neighbour.plan({"gpu": "h100-sxm"}).raw() / record_neighbour.RECORD).exists():
        assert line_of(show).endswith(
            "neighbour.json: there is none; record it on two GPUs: python tools neighbour gpu"
        )
