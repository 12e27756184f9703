"""The log of performance work stands on records."""

import re
from pathlib import Path

import pytest
from ladder.experiments import experiment_table

ROOT = Path(__file__).resolve().parents[1]
LOG = (ROOT / "docs/performance.md").read_text()
RECORDS = sorted((ROOT / "results/h100-sxm/raw/experiments").glob("*.zip"))


@pytest.fixture(scope="module")
def table():
    return experiment_table(RECORDS, "cublas").set_index(["experiment", "kernel", "shape"])


def test_the_log_names_every_record_and_no_other():
    named = set(re.findall(r"^\| `(\w+)` \|", LOG, re.M))
    assert named == {path.stem for path in RECORDS}


def test_every_figure_of_the_log_of_trials_is_in_its_record(table):
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", LOG, re.M)
    assert rows
    for experiment, text in rows:
        figures = re.findall(r"`(\S+)` (\d+\.\d+)(?: at (\d+(?:x\d+x\d+)?))?", text)
        assert figures, f"{experiment}: no figure to compare"
        for kernel, figure, shape in figures:
            measured = table.loc[(experiment, kernel, shape or "4096"), "gflops"] / 1e3
            digits = len(figure.split(".")[1])
            assert round(measured, digits) == float(figure), f"{experiment}: {kernel} at {shape or 4096}"


def test_shares_are_of_the_baseline_measured_beside(table):
    assert (table.xs("cublas", level="kernel")["share_of_baseline"] == 1.0).all()
    row = table.loc[("order_of_fmas", "ac@ORD=2", "4096")]
    cublas = table.loc[("order_of_fmas", "cublas", "4096")]
    assert row["share_of_baseline"] == pytest.approx(cublas["time_ms_median"] / row["time_ms_median"])
