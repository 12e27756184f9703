"""The log of performance work stands on records."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from ladder.model.shape import Shape
from ladder.records.timings import read_time_record
from ladder.tables.experiments import experiment_table
from ladder.tables.files import read_table

ROOT = Path(__file__).resolve().parents[1]
LOG = (ROOT / "docs/performance.md").read_text()
RECORDS = sorted((ROOT / "results/h100-sxm/raw/experiments").glob("*.zip"))

FIGURE = re.compile(r"`(\S+)` (\d+\.\d+)(?: at (\d+(?:x\d+x\d+)?))?")  # of a rung or a variant, in TFLOP/s


def decimals(figure: str) -> int:
    return len(figure.split(".")[1])


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
        figures = FIGURE.findall(text)
        assert figures, f"{experiment}: no figure to compare"
        for kernel, figure, shape in figures:
            measured = table.loc[(experiment, kernel, shape or "4096"), "gflops"] / 1e3
            assert round(measured, decimals(figure)) == float(figure), f"{experiment}: {kernel} at {shape or 4096}"


def test_the_figures_of_the_ladder_are_those_of_the_table_of_timings_to_two_percent():
    table = read_table(ROOT / "results/h100-sxm/tables/timings.csv").set_index(["rung", "shape"])
    ladder = LOG.split("## The ladder", 1)[1].split("\n## ", 1)[0]
    figures = FIGURE.findall(ladder)
    assert len(figures) > 3
    for rung, figure, shape in figures:
        measured = table.loc[(rung, shape or "4096"), "gflops"] / 1e3
        assert float(figure) == pytest.approx(measured, rel=0.02), f"{rung} at {shape or 4096}"


def test_what_the_log_says_of_large_and_of_split_products_is_in_the_table_of_timings():
    table = read_table(ROOT / "results/h100-sxm/tables/timings.csv").set_index(["rung", "shape"])
    text = LOG.split("### Large products", 1)[1]
    figures = FIGURE.findall(text.replace("\n", " "))
    shares = re.findall(r"^\| (\d+) \| `(\w+)` \| (\d\.\d\d) \| \d\.\d\d \|$", text, re.M)
    assert len(figures) == 5
    assert len(shares) > 5
    for rung, figure, shape in figures:
        assert round(table.loc[(rung, shape or "4096"), "gflops"] / 1e3, decimals(figure)) == float(figure)
    for shape, rung, share in shares:
        assert round(table.loc[(rung, shape), "speedup_over_cublas"], 2) == float(share)
    for shape, share in zip(
        ("2048", "4096", "8192"), re.search(r"are (.+), (.+) and (.+) of", text).groups(), strict=True
    ):
        assert round(table.loc[("mma_3xtf32", shape), "speedup_over_cublas"], 2) == float(share)


def test_the_cycles_of_tf32_at_the_power_limit_are_recorded():
    record = read_time_record(ROOT / "results/h100-sxm/raw/time/tf32.zip")[Shape(8192, 8192, 8192)].measurements
    cycles = {name: np.median(np.multiply(found.times_s, found.clocks_hz)) for name, found in record.items()}
    said = r"are (\d+) and (\d+) samples, .* between ([\d.]+) and ([\d.]+) GHz.* `tf32` takes (0\.\d+) of `cublas_tf32`"
    *samples, low, high, share = map(float, re.search(said, LOG.replace("\n", " ")).groups())
    assert samples == [len(record[name].times_s) for name in ("tf32", "cublas_tf32")]
    measured = np.concatenate([found.clocks_hz for found in record.values()]) / 1e9
    assert [low, high] == [round(measured.min(), 2), round(measured.max(), 2)]
    assert round(cycles["tf32"] / cycles["cublas_tf32"], 2) == share


def test_shares_are_of_the_baseline_measured_beside(table):
    assert (table.xs("cublas", level="kernel")["share_of_baseline"] == 1.0).all()
    row = table.loc[("order_of_fmas", "ac@ORD=2", "4096")]
    cublas = table.loc[("order_of_fmas", "cublas", "4096")]
    assert row["share_of_baseline"] == pytest.approx(cublas["time_ms_median"] / row["time_ms_median"])


def test_the_rates_of_mma_sync_in_the_log_are_recorded():
    record = json.loads((ROOT / "results/h100-sxm/raw/experiments/mma_rate.json").read_text())
    keys = ("chains", "warps_of_scheduler", "fma_beside", "integer_beside", "cycles_of_mma")
    recorded = [tuple(row[key] for key in keys) for row in record["rates"]]
    logged = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \|$", LOG, re.M)
    assert logged
    for *numbers, cycles in logged:
        assert (*map(int, numbers), float(cycles)) in recorded


def test_the_rates_by_operands_in_the_log_are_recorded():
    record = json.loads((ROOT / "results/h100-sxm/raw/experiments/mma_operands.json").read_text())
    keys = ("neighbours_share", "fma_beside", "cycles_of_mma", "ns_of_mma")
    recorded = [tuple(row[key] for key in keys) for row in record["rates"]]
    logged = re.findall(r"^\| (nothing|[AB] in \w+) \| (\d) \| ([\d.]+) \| ([\d.]+) \|$", LOG, re.M)
    assert len(logged) > 5
    for share, fma, cycles, ns in logged:
        assert (share, int(fma), float(cycles), float(ns)) in recorded


def test_the_errors_of_large_products_in_the_log_are_recorded():
    table = read_table(ROOT / "results/h100-sxm/tables/accuracy.csv").set_index(["rung", "m", "k", "family"])
    errors = table["error_normwise"]
    logged = re.findall(r"^\| (\d+) \| (0\.\d+) \| (0\.\d+) \| (0\.\d+) \|$", LOG, re.M)
    assert len(logged) == 3
    for k, *shares in logged:
        for family, share in zip(("normal", "positive", "wide_range"), shares, strict=True):
            at = (2048, int(k), family)
            assert round(errors["mma_3xtf32", *at] / errors["cublas", *at], 2) == float(share)


def test_no_split_rung_errs_more_than_cublas():
    table = read_table(ROOT / "results/h100-sxm/tables/accuracy.csv")
    errors = table.pivot_table(index=["m", "k", "family"], columns="rung", values="error_normwise")
    shares = errors[["mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16"]].div(errors["cublas"], axis=0)
    assert len(shares) == 33
    assert (shares <= 1.002).all(axis=None)
    times = table.pivot_table(index=["m", "k", "family"], columns="rung", values="time_ms")
    taken = times[["mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16"]].div(times["cublas"], axis=0).round(2)
    three = r"(\d\.\d\d), (\d\.\d\d) and (\d\.\d\d)"
    logged = re.search(rf"the three take {three} of .* for normal numbers {three}\.", " ".join(LOG.split()))
    found = [*taken.loc[1024, 4096, "wide_range"], *taken.loc[1024, 4096, "normal"]]
    assert list(map(float, logged.groups())) == found
