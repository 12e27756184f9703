"""The records of trials as a table, and the errors of split rungs that the performance log reports."""

from pathlib import Path

import pytest
from ladder.tables.experiments import experiment_table
from ladder.tables.files import read_table

ROOT = Path(__file__).resolve().parents[1]
RECORDS = sorted((ROOT / "results/h100-sxm/raw/experiments").glob("*.zip"))
SPLIT = ["mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16"]


@pytest.fixture(scope="module")
def table():
    return experiment_table(RECORDS, "cublas").set_index(["experiment", "kernel", "shape"])


def test_every_record_is_in_the_table(table):
    assert set(table.index.get_level_values("experiment")) == {path.stem for path in RECORDS}


def test_shares_are_of_the_baseline_measured_beside(table):
    assert (table.xs("cublas", level="kernel")["share_of_baseline"] == 1.0).all()
    row = table.loc[("order_of_fmas", "ac@ORD=2", "4096")]
    cublas = table.loc[("order_of_fmas", "cublas", "4096")]
    assert row["share_of_baseline"] == pytest.approx(cublas["time_ms_median"] / row["time_ms_median"])


def test_no_split_rung_errs_more_than_cublas():
    accuracy = read_table(ROOT / "results/h100-sxm/tables/accuracy.csv")
    errors = accuracy.pivot_table(index=["m", "k", "family"], columns="rung", values="error_normwise")
    shares = errors[SPLIT].div(errors["cublas"], axis=0)
    assert len(shares) == 33
    assert (shares <= 1.002).all(axis=None)
