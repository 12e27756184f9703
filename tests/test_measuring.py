"""The effects that docs/measuring.md names are those of the record."""

from __future__ import annotations

import numpy as np
import record_measuring
from ladder import records


def test_the_page_shows_the_effects_of_the_record():
    text = record_measuring.PAGE.read_text()
    assert text == record_measuring.with_effects(text, records.read_json(record_measuring.RECORD))


def test_the_record_has_every_effect_of_every_rung():
    record = records.read_json(record_measuring.RECORD)
    for rung in record_measuring.RUNGS:
        assert {item["n"] for item in record["l2"] if item["rung"] == rung} == set(record_measuring.SIZES)
        assert {item["inputs"] for item in record["inputs"] if item["rung"] == rung} == {"uniform", "zeros", "ones"}
        assert sum(item["rung"] == rung for item in record["warm_up"]) == record_measuring.PROCESSES
    every = [item["ms"] for item in (*record["l2"], *record["inputs"])]
    assert all(min(times) > 0 and np.median(times) < 100 for times in every)
    assert record["where"]["measured_at"]
