"""The record of errors from shape to shape, and the table of it in the performance log."""

import pytest
import record_errors
import record_measuring
from ladder.accuracy import FAMILIES
from ladder.plan import plan
from ladder.records import read_json
from record_errors import KS, PAGE, RECORD, SIZES, SPLIT, shares, table, with_table


def a_record(split, cublas):
    errors = {name: [split] * len(KS) for name in SPLIT} | {"cublas": [cublas] * len(KS)}
    points = [
        {"family": family, "m": m, "n": n, "k": list(KS), "errors_normwise": errors}
        for family in FAMILIES
        for m, n in SIZES
    ]
    return {"where": {"gpu": {"name": "a GPU"}, "measured_at": "2026-01-02T03:04:05"}, "points": points}


def test_the_log_shows_the_record():
    text = PAGE.read_text()
    assert text == with_table(text, read_json(RECORD)), "write it anew with: python tests/record_errors.py page"


def test_errors_above_their_limits_are_counted_and_those_of_wide_ranges_shown_by_shape():
    lines = table(a_record(3e-7, 2e-7))
    count = len(SIZES) * len(KS)
    assert f"| normal | 1 |{f' {count}, 1.50 |' * 3}" in lines
    assert f"| uniform in [0, 1) | 1.5 |{' 0, 1.50 |' * 3}" in lines
    assert f"| 512 x 512 |{' 1.50 |' * len(KS)}" in lines
    assert not any(line.startswith("| 512 x") for line in table(a_record(2e-7, 2e-7)))


@pytest.mark.parametrize("rung", SPLIT)
@pytest.mark.parametrize("size", [1024, 2048, 4096])
def test_at_the_sizes_of_its_targets_no_split_rung_errs_more_than_cublas(rung, size):
    record = read_json(RECORD)
    for family in FAMILIES:
        found = shares(record, family, rung)
        assert len([at for at in found if at[:2] == (size, size)]) == len(KS)
        assert all(share <= 1 + record_errors.ROUNDING for at, share in found.items() if at[:2] == (size, size))


def test_sums_in_the_tensor_core_err_more_than_they_may_of_wide_ranges_alone():
    """Or by less than a twentieth. Sums up to 576 are FP32 multiply-adds."""
    record = read_json(RECORD)
    for rung in SPLIT:
        for family, limit in (("normal", 1), ("positive", 1.5)):
            found = [share for (_, _, k), share in shares(record, family, rung).items() if k > 576]
            assert len(found) == len(SIZES) * (len(KS) - 1)
            assert max(found) < 1.05 * limit


def test_of_wide_ranges_the_rung_that_looks_for_them_seldom_errs_more_than_cublas():
    found = shares(read_json(RECORD), "wide_range", "wgmma_3xfp16").values()
    assert sum(share > 1 + record_errors.ROUNDING for share in found) < 0.03 * len(found)


def test_where_no_gpu_is_measured_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr("sys.argv", ["record_errors.py", "gpu"])
    monkeypatch.setattr(record_measuring, "plan", lambda config: plan(config | {"measure": False}))
    before = RECORD.read_bytes()
    with pytest.raises(SystemExit, match="run where `nvidia-smi` lists a GPU"):
        record_errors.main()
    assert RECORD.read_bytes() == before
