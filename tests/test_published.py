"""What others published beside what is measured here."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from ladder.config.gpus import names, read_gpu
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.model.metrics import METRICS, RATIOS, STALLS
from ladder.show.figures import published as published_figure
from ladder.show.published_page import published_page
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.tables.files import read_table, write_table
from ladder.tables.published import (
    ALONE,
    CONTRADICTS,
    OF_CUBLAS,
    OVER_BEFORE,
    OVER_NAIVE,
    PUBLISHED_FIGURES,
    SAID_OF,
    Here,
    compare_published,
    findings,
    judged,
    read_metrics,
    read_published,
    verdict_words,
)
from ladder.tables.statistics import Interval

TABLES = ROOT / "results" / "h100-sxm" / "tables"
GPU = read_gpu("h100-sxm")


@pytest.fixture(scope="module")
def published():
    return read_published()


@pytest.fixture(scope="module")
def here():
    """What is recorded of one GPU."""
    return Here(
        GPU,
        **{name: read_table(TABLES / f"{name}.csv") for name in ("timings", "profiles", "paper", "trials", "advice")},
    )


@pytest.fixture(scope="module")
def compared(here):
    return compare_published(here)


def test_a_run_without_a_published_size_has_an_empty_figure_and_no_warning(recwarn, here):
    tables = {name: getattr(here, name).iloc[:0] for name in ("timings", "profiles", "paper", "trials")}
    nothing = compare_published(replace(here, **tables))
    assert nothing.empty
    assert findings(nothing) == []
    draw(published_figure.figure(nothing, ["naive"]), "")
    assert not recwarn.list


def row(table: pd.DataFrame, publication: str, rung: str) -> pd.Series:
    found = table[(table["publication"] == publication) & (table["rung"] == rung)]
    return found.iloc[-1]


def test_every_figure_has_a_source_a_kind_and_a_gpu():
    table = pd.read_csv(PUBLISHED_FIGURES)
    assert table["source"].str.len().min() > 10
    assert set(table["kind"]) == {"measured", "rounded", "expected"}
    assert set(table["gpu_file"]) <= set(names())


def test_every_rung_that_is_named_is_one_of_ours(published):
    ours = {rung.name for rung in read_kernels(KERNELS).values()}
    assert set(published["rung"]) - {""} <= ours
    assert {each["rung"] for each in read_metrics()[1]} <= ours


def test_what_is_not_given_follows_from_the_rates(published):
    warp = row(published, "siboehm", "warp_tiled")
    assert warp["share_of_cublas"].value == 0.937  # given
    assert warp["speedup_over_naive"].value == pytest.approx(21779.3 / 309.0)
    assert warp["speedup_over_before"].value == pytest.approx(21779.3 / 18237.3)
    assert row(published, "A4500 worklog", "tiled_1d")["share_of_cublas"].value == pytest.approx(5547.98 / 12789.50)
    naive = published[(published["publication"] == "worklog, iteration 1") & (published["kernel"] == "naive")].iloc[0]
    assert naive["share_of_cublas"].value == pytest.approx(0.1862 / 1.7578)


def test_rates_and_times_of_different_kinds_are_never_mixed(published):
    tiled = row(published, "A100 notes", "tiled@TILE=32")
    assert tiled["speedup_over_naive"] is None  # naive has a rate, this rung a time
    assert tiled["speedup_over_before"].value == pytest.approx(49 / 30)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("3.5", 3.45, 3.55), ("3", 2.5, 3.5), ("20-30", 20, 30), ("<5", 0, 5), ("5.0e9", 4.95e9, 5.05e9)],
)
def test_a_number_that_somebody_wrote_has_the_spread_of_its_last_digit(text, low, high):
    found = Interval.of_text(text)
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        ((3, 3.5, 4), 1.31, "the same direction"),
        ((3, 3.5, 4), 3.2, "agrees"),
        ((3, 3.5, 4), 0.7, "opposite"),
        ((0.9, 0.92, 0.93), 1.08, "opposite"),
        ((0.9, 0.92, 0.93), 0.8, "the same direction"),
        ((1.49, 1.5, 1.51), 1.485, "agrees"),
        ((1.49, 1.5, 1.51), 1.0, "opposite"),
    ],
)
def test_a_step_is_judged_by_its_magnitude(there, here, expected):
    assert judged(OVER_BEFORE, Interval(*there), Interval.exactly(here)) == expected


def test_a_number_that_is_no_step_has_no_direction():
    assert judged(OF_CUBLAS, Interval.exactly(0.5), Interval.exactly(2.0)) == "outside"


def test_each_kernel_is_compared_at_its_sizes_with_the_rung_that_it_is(compared):
    """Iteration 1 is over 512 to 4096 in doublings, and the naive kernels of T4 and A4500 are `coalesced` by share."""
    times = read_table(TABLES / "timings.csv").set_index(["rung", "shape"])

    def mean(rung, column="speedup_over_default"):
        return math.prod(times.loc[(rung, n), column] for n in ("512", "1024", "2048", "4096")) ** 0.25

    rows = compared[(compared["publication"] == "worklog, iteration 1") & (compared["rung"] == "tiled@TILE=16")]
    share, naive = (rows[rows["quantity"] == what].iloc[0] for what in (OF_CUBLAS, OVER_NAIVE))
    assert share["here"] == pytest.approx(mean("tiled@TILE=16"), rel=1e-4)
    assert times.loc[("tiled@TILE=16", "512"), "before"] == "coalesced"
    assert naive["here"] == pytest.approx(mean("tiled@TILE=16", "speedup_over_before"), rel=1e-4)
    assert naive["compared_with"] == "coalesced"
    conflicts = compared[(compared["quantity"] == "shared_load_conflicts") & (compared["published"] == 33584000)]
    assert list(conflicts["rung"]) == ["tiled_2d"]
    assert list(conflicts["verdict"]) == ["agrees"]


def test_a_step_between_two_kernels_that_are_one_rung_here_has_no_counterpart(compared):
    rows = compared[(compared["verdict"] == ALONE) & (compared["quantity"] == OVER_NAIVE)]
    assert list(rows["kernel"]) == ["row coalesce"]
    assert rows["here"].isna().all()


def test_every_number_that_does_not_agree_has_a_reason_with_measured_numbers(compared):
    rest = compared[~compared["verdict"].isin(["agrees", ALONE])]
    assert set(rest["verdict"]) <= set(SAID_OF)
    assert rest["reason"].str.contains(r"\d").all(), rest.loc[~rest["reason"].str.contains(r"\d"), "quantity"]


def test_kernels_with_published_tiles_are_compared_with_trials_of_these_tiles(compared, here):
    steps = compared[(compared["rung"] == "tiled_1d@BM=64,BN=64,BK=8,TM=8") & (compared["quantity"] == OVER_BEFORE)]
    assert set(steps["publication"]) == {"siboehm", "A100 notes"}
    trial = here.trials[here.trials["trial"] == steps["rung"].iloc[0]].set_index("shape")["speedup_over_cublas"]
    tiled = here.timings.set_index(["rung", "shape"])["speedup_over_default"]
    assert steps["here"].to_numpy() == pytest.approx(trial["4096"] / tiled["tiled@TILE=32", "4096"])


@pytest.fixture
def timed():
    """Two rungs at 2048: `tiled_2d` beside a slow cuBLAS and a fast best, `vectorized` beside the same and before."""
    ratios = {"cublas": (0.5, 0.8), "default": (0.6, 0.9), "naive": (9.0, 13.0), "before": (np.nan, 1.4)}
    frame = {"rung": ["tiled_2d", "vectorized"], "shape": ["2048"] * 2, "before": ["tiled_1d", "tiled_2d"]}
    frame |= {"gflops": [1e4, 1.5e4], "time_ms_median": [2.0, 1.5]}
    for name, values in ratios.items():
        frame |= {f"speedup_over_{name}{end}": values for end in ("", "_ci_low", "_ci_high")}
    return Here(GPU, pd.DataFrame(frame), pd.DataFrame(), pd.DataFrame())


def test_shares_are_of_cublas_sgemm_as_publications_have_them_not_of_the_faster_library(timed):
    assert timed.share_of_cublas("tiled_2d", "2048").value == 0.6


def test_a_step_is_of_one_process_where_both_were_timed_in_it_else_over_one_library(timed):
    assert timed.step("vectorized", "tiled_2d", "2048").value == 1.4
    apart = replace(timed, timings=timed.timings.assign(before="naive"))
    assert apart.step("vectorized", "tiled_2d", "2048").value == pytest.approx(0.9 / 0.6)
    assert timed.step("vectorized", "tiled_1d", "2048") is None


def test_a_kernel_with_published_tiles_is_a_step_over_the_one_before_with_its_published_tiles(compared, here):
    """The trials of the ladder as published, one over the other, and the reason names both."""
    trials = here.trials[here.trials["shape"].astype(str) == "4096"].set_index("trial")["speedup_over_cublas"]
    steps = compared[(compared["quantity"] == OVER_BEFORE) & (compared["publication"] == "siboehm")]
    steps = steps[steps["rung"].str.contains("@BM") & steps["compared_with"].str.contains("@BM")]
    assert [name.partition("@")[0] for name in steps["rung"]] == ["tiled_2d", "vectorized", "warp_tiled"]
    for row in steps.itertuples():
        assert row.here == pytest.approx(trials[row.rung] / trials[row.compared_with])
        assert all(f"`{name.partition('@')[0]}` has" in row.reason for name in (row.rung, row.compared_with))


def test_a_variant_with_published_tiles_that_is_timed_as_a_rung_is_compared_as_one(here):
    """Its records are taken where they are there: time and share of the peak too, and no trial."""
    name = "vectorized@BM=128,BN=128,BK=8,TM=8,TN=8"
    own = here.timings[here.timings["rung"] == "vectorized"].assign(rung=name)
    table = compare_published(replace(here, timings=pd.concat([here.timings, own]), trials=here.trials.iloc[:0]))
    rows = table[(table["rung"] == name) & (table["publication"] == "siboehm")].set_index("quantity")["here"]
    tuned = table[(table["rung"] == "vectorized") & (table["publication"] == "siboehm")].set_index("quantity")["here"]
    assert rows.to_dict() == tuned.to_dict()
    assert {OF_CUBLAS, OVER_BEFORE, "share of the FP32 peak"} <= set(rows.index)


def test_a_profile_of_the_published_tiles_is_compared_instead_of_the_tuned_rungs(here):
    (each,) = (one for one in read_metrics()[1] if "trial" in one)
    own = here.profiles[here.profiles["rung"] == each["rung"]].assign(rung=each["trial"])
    table = compare_published(replace(here, profiles=pd.concat([here.profiles, own])))
    rows = table[(table["kernel"] == each["kernel"]) & (table["publication"] == each["publication"])]
    assert each["trial"] in set(rows.loc[rows["quantity"] == "static_shared", "rung"])
    loads = rows[rows["quantity"] == "shared_load_conflicts"]
    assert list(loads["rung"]) == ["tiled_2d"]  # its shared loads are those, whatever its tiles


def test_published_metrics_have_our_names_and_reasons_without_numbers_of_their_own():
    reasons, sets = read_metrics()
    ours = {*METRICS, *(ratio.name for ratio in RATIOS)} | {f"stall_{name}" for name in STALLS}
    ours |= {f"share_of_stall_{name}" for name in STALLS}
    for each in sets:
        assert {metric[0] for metric in each["metrics"]} <= ours
        assert {metric[2] for metric in each["metrics"] if len(metric) > 2} <= set(reasons)
    allowed = {"FP32", "FP64", "L1", "L2", "16"}  # names, and the bytes of one vector access
    for template in reasons.values():
        words = re.sub(r"\{[^}]*\}", "", template)
        assert set(re.findall(r"\w*\d\w*", words)) <= allowed, template


def test_every_published_metric_of_a_profile_is_compared(compared):
    for each in read_metrics()[1]:
        rows = compared[(compared["publication"] == each["publication"]) & (compared["kernel"] == each["kernel"])]
        rows = rows[rows["verdict"] != CONTRADICTS]
        named = [metric[0] for metric in each["metrics"]]
        assert sorted(rows.loc[rows["quantity"].isin(named), "quantity"]) == sorted(named)


def test_estimates_of_nsight_compute_stand_beside_ours_or_are_said_to_have_no_counterpart(compared, here):
    rows = compared[compared["quantity"].str.startswith("estimate of Nsight in %: ")]
    assert len(rows) == 12
    advice = here.advice[here.advice["shape"] == "2048"].set_index(["rung", "title"])["estimated_speedup_percent"]
    found = rows.set_index(["rung", "quantity"])
    row = found.loc["tiled_2d", "estimate of Nsight in %: Shared Load Bank Conflicts"]
    assert row["here"] == advice["tiled_2d", "Shared Load Bank Conflicts"].max()
    missing = found.loc["conflict_free@LAYOUT=1", "estimate of Nsight in %: Shared Store Bank Conflicts"]
    assert (missing["verdict"], math.isnan(missing["here"])) == (ALONE, True)
    assert "does not advise" in missing["reason"]
    assert set(compared.loc[compared["quantity"] == "FP32 to FP64 peak", "here"]) == {2.0}


def test_numbers_on_paper_stand_beside_those_of_our_tiles(compared, here):
    rows = compared.set_index(["rung", "quantity"])
    assert rows.loc[("tiled@TILE=32", "intensity_global"), "verdict"] == "agrees"
    assert rows.loc[("coalesced", "intensity_global"), "here"] == 0.25
    assert rows.loc[("tiled@TILE=32", "global_reads_per_result"), "published"] == 4096 / 16
    shared = rows.loc[("tiled_1d", "shared_reads_per_result")]
    assert (shared["published"], shared["verdict"]) == (9 * 4096 / 8, "outside")
    own = here.paper[here.paper["rung"] == "tiled_1d"].assign(rung="tiled_1d@BM=64,BN=64,BK=8,TM=8")
    table = compare_published(replace(here, paper=pd.concat([here.paper, own.assign(shared_reads_per_result=4608.0)])))
    found = table[(table["quantity"] == "shared_reads_per_result") & table["rung"].str.startswith("tiled_1d")]
    assert found[["rung", "verdict"]].to_numpy().tolist() == [["tiled_1d@BM=64,BN=64,BK=8,TM=8", "agrees"]]


def test_the_tutorials_memory_table_stands_beside_the_probes_of_a_gpu_that_has_them(here):
    probes = read_table(ROOT / "results/h200-sxm/tables/hardware.csv")
    table = compare_published(replace(here, hardware=probes))
    rows = table[table["kernel"] == "the memory hierarchy"].set_index("quantity")
    assert len(rows) == 10
    of = probes.set_index(["of", "kind", "how"])
    row = rows.loc["latency of DRAM in cycles"]
    assert row["here"] == of.loc[("DRAM", "latency", "load, 8 bytes, one thread"), "value"]
    assert (row["verdict"], row["published"]) == ("outside", 300)
    own = of.loc[("shared memory", "bandwidth", "load, 4 bytes a thread, 1-way"), "whole"]
    assert rows.loc["bandwidth of shared memory in TB/s", "here"] == pytest.approx(own / 1e3)
    assert rows["reason"].str.contains(r"\d").all()
    assert compare_published(here).query("kernel == 'the memory hierarchy'").empty


def test_what_a_publication_says_twice_with_two_numbers_is_named(compared):
    rows = compared[compared["verdict"] == CONTRADICTS].set_index("published")
    assert set(rows.index) == {3.5, 1.35, 17.6}
    assert f"{430 / 49:.2g} times" in rows.loc[3.5, "reason"]
    assert "17.4" in rows.loc[17.6, "reason"]
    assert rows["here"].isna().all()


def test_a_written_table_reads_the_same(tmp_path, compared):
    write_table(compared, tmp_path / "published.csv")
    again = read_table(tmp_path / "published.csv")
    assert findings(again) == findings(compared) != []
    assert verdict_words(again) == verdict_words(compared)


def test_findings_say_by_how_much_the_largest_step_differs(compared):
    line = next(line for line in findings(compared) if line.startswith("tutorial"))
    step = compared[(compared["publication"] == "tutorial, example 03") & (compared["quantity"] == OVER_BEFORE)]
    top = step.loc[step["published"].idxmax()]
    assert f"{top['published']:.2f} x there and {top['here']:.2f} x here" in line
    assert f"{1 / top['times_as_much']:.3g} times less" in line


def test_the_recorded_run_is_compared_with_every_publication(compared):
    assert set(compared["publication"]) == set(pd.read_csv(PUBLISHED_FIGURES)["publication"])


def test_the_figure_has_a_mark_for_each_published_and_each_measured_number(compared):
    rungs = list(read_table(TABLES / "rungs.csv")["rung"])
    figure = published_figure.figure(compared, rungs)
    marks = figure.layers[0].data
    shown = compared[compared["rung"].isin(rungs)].dropna(subset=["here"])
    for panel, factor in published_figure.PANELS.items():
        there = marks[(marks["panel"] == panel) & ~marks["who"].str.startswith("here")]
        here = marks[(marks["panel"] == panel) & marks["who"].str.startswith("here")]
        rows = shown[shown["quantity"] == panel]
        assert sorted(there["value"]) == pytest.approx(sorted(factor * rows["published"]))
        measured = rows.drop_duplicates(["rung", "sizes", "compared_with"])["here"]
        assert sorted(here["value"]) == pytest.approx(sorted(factor * measured))
    key = figure.layers[0].key
    assert len({(key.colors[who], key.markers[who]) for who in set(marks["who"])}) == marks["who"].nunique()


def test_the_page_has_every_number_and_each_reason_once_a_kernel(compared):
    text = published_page(compared)
    assert text.count("\n| ") == len(compared) + 2 * len(compared.groupby(["publication", "gpu", "kernel", "rung"]))
    for (_, _, _), rows in compared.groupby(["publication", "gpu", "kernel"]):
        assert all(reason in text for reason in set(rows["reason"]) - {""})
