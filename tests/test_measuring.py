"""The effects that docs/measuring.md names are those of the record."""

from __future__ import annotations

import os

import numpy as np
import record_measuring
from conftest import a_where
from ladder.records.store import read_json
from record_measuring import FIRST, PROCESSES, RECORD, RUNGS, SIZES, effects, in_a_new_process

STATE = {"power_w": 500.0, "sm_clock_mhz": 1980, "temperature_c": 40}


def a_record() -> dict:
    """A record in which a flush costs a tenth, the first launch takes twice as long, and zeros save a fifth."""
    kinds = {"uniform": 1.0, "zeros": 0.8, "ones": 0.9}
    cold = {**STATE, "power_w": 250.0}
    return {
        "where": a_where(),
        "warm_up": [{"rung": rung, "n": 1024, "launches_ms": [2.0] + [1.0] * (FIRST - 1)} for rung in RUNGS],
        "l2": [
            {"rung": rung, "n": n, "flushed": flushed, "ms": [1.0 if flushed else 0.9]}
            for rung in RUNGS
            for n in SIZES
            for flushed in (True, False)
        ],
        "inputs": [
            {"rung": rung, "inputs": kind, "ms": [time], "state": cold if kind == "zeros" else STATE}
            for rung in RUNGS
            for kind, time in kinds.items()
        ],
        "sustained": {
            "rung": "cublas",
            "n": 4096,
            "seconds": [
                {"after_s": 0.0, "ms": 1.0, "state": STATE},
                {"after_s": 6.0, "ms": 1.05, "state": {**STATE, "sm_clock_mhz": 1800, "temperature_c": 60}},
            ],
        },
    }


def test_effects_are_told_as_measured(monkeypatch):
    monkeypatch.setattr(record_measuring, "read_record", lambda path: a_record())
    text = effects()
    assert "-10.0 % at 512" in text
    assert "the first 2.0 to 2.0 times as long, the second +0.0 %" in text
    assert "-20.0 % with zeros (250 W instead of 500 W)" in text
    assert "the time +5.0 %, SM clock 1980 to 1800 MHz, 40 to 60 °C" in text


def test_the_record_has_every_effect_of_every_rung():
    record = read_json(RECORD)
    for rung in RUNGS:
        assert {item["n"] for item in record["l2"] if item["rung"] == rung} == set(SIZES)
        assert {item["inputs"] for item in record["inputs"] if item["rung"] == rung} == {"uniform", "zeros", "ones"}
        assert sum(item["rung"] == rung for item in record["warm_up"]) == PROCESSES
    every = [item["ms"] for item in (*record["l2"], *record["inputs"])]
    assert all(min(times) > 0 and np.median(times) < 100 for times in every)
    assert record["where"]["measured_at"]


def test_first_launches_are_those_of_processes_of_their_own():
    assert len({os.getpid(), in_a_new_process(os.getpid), in_a_new_process(os.getpid)}) == 3
