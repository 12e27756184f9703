"""The record of errors from shape to shape, and the table of it in the performance log."""

import pytest
import record_errors
import record_measuring
from ladder.config.plan import plan
from ladder.records.store import read_json
from ladder.show.figures.accuracy import FAMILIES
from record_errors import KS, PAGE, RECORD, ROUNDING, SIZES, SPLIT, TITLES, above, shares, table, with_table


def a_record(split, cublas):
    errors = {name: [split] * len(KS) for name in SPLIT} | {"cublas": [cublas] * len(KS)}
    points = [
        {"family": family, "m": m, "n": n, "k": list(KS), "errors_normwise": errors}
        for family in TITLES
        for m, n in SIZES
    ]
    return {"where": {"gpu": {"name": "a GPU"}, "measured_at": "2026-01-02T03:04:05"}, "points": points}


def test_the_log_shows_the_record():
    text = PAGE.read_text()
    assert text == with_table(text, read_json(RECORD)), "write it anew with: python tests/record_errors.py page"


def test_errors_above_their_limits_are_counted():
    lines = table(a_record(3e-7, 2e-7))
    count = len(SIZES) * len(KS)
    assert f"| normal | 1 |{f' {count}, 1.50 |' * 3}" in lines
    assert f"| uniform in [0, 1) | 1.5 |{' 0, 1.50 |' * 3}" in lines


@pytest.mark.parametrize("rung", SPLIT)
@pytest.mark.parametrize("family", TITLES)
def test_no_split_rung_errs_more_than_it_may(rung, family):
    record = read_json(RECORD)
    assert len(shares(record, family, rung)) == len(SIZES) * len(KS)
    assert not above(record, family, rung)


@pytest.mark.parametrize("rung", SPLIT)
@pytest.mark.parametrize("size", [1024, 2048, 4096])
def test_at_the_sizes_of_its_targets_no_split_rung_errs_more_than_cublas(rung, size):
    record = read_json(RECORD)
    for family in FAMILIES:
        found = {at: share for at, share in shares(record, family, rung).items() if at[:2] == (size, size)}
        assert len(found) == len(KS)
        assert all(share <= 1 + ROUNDING for share in found.values())


def test_where_no_gpu_is_measured_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr("sys.argv", ["record_errors.py", "gpu"])
    monkeypatch.setattr(record_measuring, "plan", lambda config: plan(config | {"measure": False}))
    before = RECORD.read_bytes()
    with pytest.raises(SystemExit, match="run where `nvidia-smi` lists a GPU"):
        record_errors.main()
    assert RECORD.read_bytes() == before
