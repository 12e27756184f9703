"""The record of errors from shape to shape: its limits, and what the performance log counts in it."""

import pytest
import write_docs
from ladder.records.store import read_json, write_json
from ladder.show.figures.accuracy import FAMILY_TITLES
from record_errors import KS, RECORD, ROUNDING, SIZES, SPLIT, TITLES, above, shares

COUNT = len(SIZES) * len(KS)


def a_record(split, cublas):
    errors = {name: [split] * len(KS) for name in SPLIT} | {"cublas": [cublas] * len(KS)}
    points = [
        {"family": family, "m": m, "n": n, "k": list(KS), "errors_normwise": errors}
        for family in TITLES
        for m, n in SIZES
    ]
    return {"where": {"gpu": {"name": "a GPU"}, "measured_at": "2026-01-02T03:04:05"}, "points": points}


def test_errors_above_their_limits_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(write_docs, "RESULTS", tmp_path)
    write_json(tmp_path / "h100-sxm/raw/errors.json", a_record(3e-7, 2e-7))
    found = write_docs.errors()
    families = {family["title"]: family for family in found["families"]}
    assert found["shapes"] == COUNT
    assert found["rungs"] == SPLIT
    assert families["normal"]["above"] == [COUNT] * 3
    assert families["uniform in [0, 1)"]["above"] == [0] * 3
    assert families["normal"]["largest"] == pytest.approx([1.5] * 3)


@pytest.mark.parametrize("rung", SPLIT)
@pytest.mark.parametrize("family", TITLES)
def test_no_split_rung_errs_more_than_it_may(rung, family):
    record = read_json(RECORD)
    assert len(shares(record, family, rung)) == COUNT
    assert not above(record, family, rung)


@pytest.mark.parametrize("rung", SPLIT)
@pytest.mark.parametrize("size", [1024, 2048, 4096])
def test_at_the_sizes_of_its_targets_no_split_rung_errs_more_than_cublas(rung, size):
    record = read_json(RECORD)
    for family in FAMILY_TITLES:
        found = {at: share for at, share in shares(record, family, rung).items() if at[:2] == (size, size)}
        assert len(found) == len(KS)
        assert all(share <= 1 + ROUNDING for share in found.values())
