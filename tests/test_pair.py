"""The whole ladder on two GPUs beside one: the runs, on stand-ins, and what is recorded of them."""

from __future__ import annotations

import os
import shutil
from types import SimpleNamespace

import pytest
import record_pair
from conftest import a_device, a_where, line_of
from ladder.records import store
from ladder.system.errors import LadderError
from pipeline import FEW, FEW_RUNGS, H100, RECORDED, a_machine, copied, environment, finished_run, with_stand_ins
from record_pair import pair, ratio, record_gpu, wall_times
from test_pool import NOT_MEASURED, stays

UUIDS = [f"GPU-{digit * 8}-{os.getpid()}" for digit in "12"]


def test_both_gpus_measure_all_and_then_one_measures_all_again(tmp_path_factory, tmp_path, monkeypatch):
    project = with_stand_ins(copied(finished_run(tmp_path_factory) / "project", tmp_path / "project"))
    notes, compiled = tmp_path / "notes", tmp_path / "compiled"
    notes.mkdir()
    shutil.copytree(project / "build", compiled / "build")
    variables = a_machine(tmp_path / "nvml", *((H100, uuid) for uuid in UUIDS))
    more = {"STAND_IN_NOTES": str(notes), "STAND_IN_SECONDS": "1"}
    for name, value in environment(project, gpu=True, **variables, **more).items():
        monkeypatch.setenv(name, value)
    settings = [*FEW, *NOT_MEASURED, f"gpu={RECORDED}"]
    runs = wall_times(project, compiled, UUIDS, 1, settings, ["--until", "time"])
    assert [run["devices"] for run in runs] == [UUIDS, UUIDS[:1]]
    assert all(run["wall_s"] > 0 for run in runs)
    assert ratio(runs) == runs[0]["wall_s"] / runs[1]["wall_s"]
    timed = sorted((stay for stay in stays(notes) if stay.stage == "time"), key=lambda stay: stay.begin_s)
    assert [stay.rung in FEW_RUNGS for stay in timed] == [True] * 2 * len(FEW_RUNGS)
    assert {stay.uuid for stay in timed[: len(FEW_RUNGS)]} == set(UUIDS)
    assert {stay.uuid for stay in timed[len(FEW_RUNGS) :]} == {UUIDS[0]}
    assert not list(tmp_path.glob("run-?"))
    assert not (project / f"results/{RECORDED}/devices").exists()


def test_a_run_that_fails_is_one_line_and_no_time(tmp_path, monkeypatch):
    program = "import sys; print('gemm-ladder: no GPU: look'); sys.exit(3)"
    monkeypatch.setattr(record_pair.sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec /usr/bin/env python3 -c "{program}"\n')
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "compiled").mkdir()
    with pytest.raises(LadderError, match=r"^pair: no GPU: look$"):
        wall_times(tmp_path, tmp_path / "compiled", UUIDS, 1, [])


def test_runs_on_both_and_on_one_take_turns_in_an_order_that_shares_a_drift(tmp_path, monkeypatch):
    monkeypatch.setattr(record_pair, "snakemake", lambda *given: None)
    (tmp_path / "compiled").mkdir()
    runs = wall_times(tmp_path, tmp_path / "compiled", UUIDS, 2, [])
    assert [len(run["devices"]) for run in runs] == [2, 1, 1, 2]


def test_the_record_says_which_cards_took_how_long_and_the_ratio(tmp_path, monkeypatch, capsys):
    devices = tuple(a_device(uuid=uuid) for uuid in UUIDS)
    gpu = SimpleNamespace(name=RECORDED)
    run = SimpleNamespace(devices=devices, device=devices[0], gpu=gpu, raw=lambda: tmp_path / "raw")
    runs = [{"devices": UUIDS, "begins_at": a_where()["measured_at"], "wall_s": 55.0}]
    runs += [{"devices": UUIDS[:1], "begins_at": a_where()["measured_at"], "wall_s": 100.0}]
    monkeypatch.setattr(record_pair, "planned", lambda name, gpus: run)
    monkeypatch.setattr(record_pair, "snakemake", lambda *given: None)
    monkeypatch.setattr(record_pair, "wall_times", lambda *given: runs)
    record_gpu()
    record = store.read_record(tmp_path / "raw/pair.json")
    assert (record["runs"], record["ratio"]) == (runs, 0.55)
    assert (record["arguments"], record["settings"]) == (["--until", "time"], [f"gpu={RECORDED}", "sizes=[1024,4096]"])
    assert record["where"]["gpu"]["uuid"] == UUIDS[0]
    assert "0.550 of the time of one GPU" in capsys.readouterr().out
    assert pair(tmp_path).startswith("This is not recorded yet")
    (tmp_path / RECORDED).mkdir()
    (tmp_path / "raw").rename(tmp_path / RECORDED / "raw")
    where = record["where"]
    assert pair(tmp_path).splitlines()[2:] == [
        f"| {where['gpu']['name']} | {where['measured_at'][:10]} | 55 s | 100 s | 0.55 |"
    ]


def test_with_one_gpu_there_is_no_pair(monkeypatch):
    one = SimpleNamespace(measuring=True, devices=(a_device(),), gpu=SimpleNamespace(title="NVIDIA H100 SXM5 80 GB"))
    monkeypatch.setattr("recording.plan", lambda config: one)
    assert line_of(record_gpu) == "pair.json: needs 2 GPUs of one kind; of NVIDIA H100 SXM5 80 GB there are 1"
