"""What a rung should reach by the model, and what each lever should gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from ladder.config.plan import plan
from ladder.show.figures import predicted
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from ladder.tables.predictions import LARGEST, LEVERS, SMALLEST, Machine, Work, fit, loads_ahead, time_ms
from pipeline import RECORDED

TABLES = ROOT / "results" / RECORDED / "tables"
MACHINE = Machine(sms=100, lanes=128, warps=64, peak_gflops=50000.0, launch_ms=0.003, clock_khz=2e6)
WORK = Work(flop=1e11, blocks=400, held=2, warps=8, issue=0.8, passes=0.2, steps=100, ahead=False)


@pytest.fixture(scope="module")
def predictions() -> pd.DataFrame:
    return read_table(TABLES / "predictions.csv")


def test_half_of_the_predictions_are_within_a_tenth_and_no_rate_is_above_its_ceiling(predictions):
    assert predictions["error_percent"].abs().median() < 10
    assert (predictions["predicted_gflops"] <= predictions["ceiling_gflops"]).all()
    assert (predictions["measured_gflops"] <= predictions["ceiling_gflops"]).all()


def test_every_rung_of_ffmas_is_predicted_at_every_size_that_it_was_timed_at(predictions):
    paper = read_table(TABLES / "paper.csv")
    sizes = pd.to_numeric(paper["shape"], errors="coerce")
    timed = paper[
        sizes.between(SMALLEST, LARGEST) & paper["measured_gflops"].notna() & paper["predicted_gflops"].notna()
    ]
    assert set(zip(timed["rung"], timed["shape"], strict=True)) == set(
        zip(predictions["rung"], predictions["shape"], strict=True)
    )


def test_the_rate_of_a_rung_does_not_enter_its_own_prediction():
    cases = [(replace(WORK, flop=flop, ahead=ahead), 1.0) for flop in (1e10, 1e11, 1e12) for ahead in (False, True)]
    known = np.array([1.1, 1000.0, 400.0])
    cases = [(work, time_ms(work, MACHINE, known)) for work, _ in cases]
    assert fit(cases, MACHINE) == pytest.approx(known)


def test_the_terms_of_the_predicted_time_follow_from_blocks_ceiling_and_warps():
    busy, waits, ahead = WORK.terms(MACHINE)
    assert WORK.rounds(MACHINE) == (2, 0)
    assert busy == pytest.approx(1e11 / (50000e6 * 0.8))
    assert waits == pytest.approx(100 * 2 * (1 - 16 / 64) / 2e6)
    assert ahead == 0
    bound = replace(WORK, passes=1.0)
    assert bound.ceiling(MACHINE) == pytest.approx(0.25)


def test_too_few_times_determine_no_fit():
    assert fit([(WORK, 1.0)] * 3, MACHINE) is None
    assert fit([(WORK, 1.0)] * 8, MACHINE) is None  # one equation
    assert fit([(WORK, 1.0), (replace(WORK, ahead=True), 1.0)] * 2, MACHINE) is None


def test_rungs_that_build_on_double_buffered_load_ahead():
    rungs = plan({"gpu": RECORDED, "measure": False}).rungs
    found = loads_ahead(rungs)
    assert {"double_buffered", "async_copy", "tma", "fastest"} <= found
    assert not found & {"naive", "tiled@TILE=32", "vectorized", "warp_tiled"}


@pytest.mark.parametrize("place", range(len(LEVERS)))
def test_no_lever_makes_a_product_slower(place):
    fitted = np.array([1.1, 1000.0, 400.0])
    bound = replace(WORK, passes=1.0, blocks=450)
    changed = [lever[2](bound, 0.5, MACHINE) for lever in LEVERS][place]
    assert changed is None or time_ms(changed, MACHINE, fitted) <= time_ms(bound, MACHINE, fitted)


def test_the_measured_ceilings_are_those_of_the_floors():
    run = plan({"gpu": RECORDED, "measure": False})
    timings = read_table(TABLES / "timings.csv")
    machine = Machine.of(run.gpu, timings)
    assert machine.peak_gflops < run.gpu.peak_gflops
    assert machine.launch_ms == timings.loc[timings["rung"] == "empty", "time_ms_median"].max()
    assert Machine.of(run.gpu, timings.iloc[:0]).peak_gflops == run.gpu.peak_gflops


def test_the_figure_has_a_mark_for_each_prediction_and_says_the_median_error(predictions):
    figure = predicted.figure(predictions, list(predictions["rung"].unique()))
    assert len(figure.layers[-1].data) == len(predictions)
    assert f"{predictions['error_percent'].abs().median():.0f} %" in figure.title
