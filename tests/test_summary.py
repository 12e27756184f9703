"""What a run says at its end, for rungs that are right, wrong, or do not compile."""

from dataclasses import replace

import pytest
from conftest import ROUND_GPU, a_check, a_rung, a_timing, a_where, an_evidence
from ladder.show.summary import run_summary, why_run_fails
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.rungs import rung_table

LAST = "Tables: results/round/tables   Figures: results/round/figures   Report: results/round/report.html\n"
BROKEN = {"status": "failed", "message": 'kernels/sgemm/tiled.cu(3): error: expected a ";"'}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """The summary of the evidence, by way of tables on disk."""
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")

    def tell(*items):
        made = all_tables(items, ROUND_GPU, "cublas", "naive")
        for name in ("timings", "rungs"):
            write_table(made[name], tmp_path / f"{name}.csv")
        rungs, timings = read_table(tmp_path / "rungs.csv"), read_table(tmp_path / "timings.csv")
        return run_summary(rungs, timings, "measuring on Round GPU", "results/round")

    return tell


TIMES = {"cublas": [1.0], "naive": [40.0], "coalesced": [8.0], "tiled": [0.5]}


def good(name: str, *sizes: str, times=TIMES, **changes):
    shapes = sizes or ("512", "1024", "4096x4096x4095")
    return an_evidence(name, tuple(a_timing(name, size, times) for size in shapes), rung=a_rung(name), **changes)


def test_each_rung_has_its_time_rate_and_speedups_at_the_largest_square(told):
    lines = told(good("cublas"), good("naive"), good("tiled")).splitlines()
    gflops = 2 * 1024**3 / 1e9
    assert lines[:7] == [
        "measuring on Round GPU",
        "",
        "rung at 1024                    time   ± 95 %   GFLOP/s  of cuBLAS  over naive",
        "-" * 78,
        f"cublas                      1.000 ms   0.00 %{gflops / 1e-3:>10.0f}    100.0 %     40.00 x",
        f"naive                      40.000 ms   0.00 %{gflops / 40e-3:>10.0f}      2.5 %      1.00 x",
        f"tiled                       500.0 us   0.00 %{gflops / 0.5e-3:>10.0f}    200.0 %     80.00 x",
    ]
    origin = ["All of these numbers come from one card and one commit: NVIDIA H100 80GB HBM3 (GPU-0), cuBLAS not"]
    assert lines[7:] == ["", *origin, "recorded, commit 000000000000, 2026-01-02.", "", LAST.strip()]


def test_where_rungs_come_from_several_days_and_commits_the_summary_says_which_from_which(told):
    where = a_where(measured_at="2026-01-03T00:00:00+00:00")
    where["software"] = where["software"] | {"git_commit": "d" * 40}
    item = good("tiled")
    later = tuple(replace(timing, where=where) for timing in item.timings.values())
    lines = told(good("cublas"), good("naive"), an_evidence("tiled", later, rung=item.rung)).splitlines()
    assert "  000000000000, 2026-01-02: cublas, naive" in lines
    assert "  dddddddddddd, 2026-01-03: tiled" in lines


def test_a_class_with_a_baseline_of_its_own_is_said_to_be_compared_with_that(told):
    mine = an_evidence("mine", rung=a_rung("mine", role="baseline", precision="tf32"))
    assert "of cuBLAS: of mine for TF32, of cublas for every other class." in told(good("cublas"), mine).splitlines()
    assert "of cuBLAS: " not in told(good("cublas"), good("naive"))


def test_the_spread_is_half_the_interval_of_the_median(told):
    text = told(good("naive", "512", times={"naive": [1.0, 1.0, 1.0, 1.0, 1.0, 1.2] * 20}))
    assert "1.000 ms   0.00 %" in text
    text = told(good("naive", "512", times={"naive": [0.9, 1.1] * 2}))
    assert "1.000 ms  10.00 %" in text


def test_where_no_square_was_timed_the_largest_shape_stands_for_it(told):
    assert "rung at 10x20x31 " in told(good("naive", "10x20x30", "10x20x31"))


def test_a_reference_that_was_not_measured_is_a_dash(told):
    (line,) = [line for line in told(good("naive", "512", times={"naive": [1.0]})).splitlines() if "1.000 ms" in line]
    assert line.split()[-3:] == ["-", "1.00", "x"]


def test_a_wrong_rung_stands_without_numbers_and_is_told_with_the_reason(told):
    text = told(good("naive"), good("tiled", check=a_check("failed", "127: NaN or infinity at row 3, column 0")))
    assert "tiled                          wrong\n" in text
    assert "\nFailed or left out:\n  tiled: wrong: 127: NaN or infinity at row 3, column 0\n" in text
    assert "naive:" not in text


def test_a_rung_that_does_not_compile_is_told_with_the_compilers_words(told):
    text = told(good("naive"), good("tiled", inspection=BROKEN | {"nvcc": "", "kernels": [], "launches": {}}))
    assert "tiled                   does not compile\n" in text
    assert f"\nFailed or left out:\n  tiled: does not compile: {BROKEN['message']}\n" in text


def test_what_the_measurements_took_is_told_where_the_records_say_it(told):
    def costly(name):
        timing = a_timing(name, "512", {"naive": [2000.0], "tiled": [1000.0]})
        timing = replace(timing, where={**timing.where, "wall_s": 20.0})
        check = a_check()
        return an_evidence(name, (timing,), check={**check, "where": {**check["where"], "wall_s": 5.0}})

    told_of = "\nChecks took 10 s, timings 40 s, of which their samples 6 s on the GPU\n"
    assert told_of in told(costly("naive"), costly("tiled"))
    assert "Checks took" not in told(good("naive"))


def test_a_rung_whose_timing_failed_is_told(told):
    text = told(good("naive"), good("tiled", timing_failure="tiled at 128: no progress for 120 s; stopped"))
    assert "  tiled: timing failed: tiled at 128: no progress for 120 s; stopped\n" in text


def test_a_rung_that_does_not_apply_is_left_out_with_the_reason(told):
    inspection = {"status": "does not apply", "message": "needs compute capability 9.0; T4 has 7.5"}
    text = told(good("naive"), an_evidence("tma", inspection=inspection | {"kernels": [], "launches": {}}))
    assert "  tma: does not apply: needs compute capability 9.0; T4 has 7.5\n" in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"check": a_check("failed", "4: NaN")}, "1 of 2 rungs failed: tiled"),
        ({"inspection": {"status": "does not apply", "message": "needs 9.0"}}, ""),
        ({"check": None}, ""),
        (
            {"check": None, "emulated": {"status": "needs a GPU", "message": "a.cu:3: inline PTX", "cases": []}},
            "1 of 2 rungs not checked: tiled",
        ),
    ],
)
def test_a_run_fails_where_a_rung_failed_or_was_not_checked(changes, why):
    assert why_run_fails(rung_table([good("naive"), an_evidence("tiled", **changes)])) == why


def test_a_rung_that_was_not_checked_is_told_with_what_to_write_instead(told):
    emulated = {"status": "needs a GPU", "message": "a.cu:3: inline PTX; write it in CUDA C++", "cases": []}
    text = told(good("naive"), an_evidence("tiled", check=None, emulated=emulated))
    assert "  tiled: not checked: a.cu:3: inline PTX; write it in CUDA C++\n" in text


def test_what_passed_on_another_gpu_is_told_in_one_line_and_fails_no_run(told):
    needs = {"check": None, "emulated": {"status": "needs a GPU", "message": "inline PTX", "cases": []}}
    items = [good("naive"), *(an_evidence(name, passed_on="t4", **needs) for name in ("coalesced", "tiled"))]
    assert why_run_fails(rung_table(items)) == ""
    text = told(*items)
    assert "passed its check on t4: coalesced, tiled\n" in text
    assert "Failed or left out" not in text


def test_the_empty_kernel_is_no_line_of_the_table(told):
    text = told(an_evidence("empty", (a_timing("empty", "512", {"empty": [0.002]}),)), good("naive", "512"))
    assert "empty" not in text


def test_what_only_the_empty_kernel_is_timed_at_sums_up_nothing(told):
    floor = an_evidence("empty", (a_timing("empty", "128", {"empty": [0.002]}),))
    text = told(floor, good("naive", "128", "512"))
    assert "rung at 512 " in text


def test_where_nothing_is_timed_each_rung_stands_with_its_status(told):
    text = told(an_evidence("naive", check=None), an_evidence("tiled", check=a_check("failed", "4: NaN")))
    assert text.splitlines()[2:4] == ["naive                    not recorded", "tiled                    wrong"]
    assert text.endswith(LAST)


def test_why_rungs_were_not_profiled_is_told_once(told):
    failed = {"profile_failure": "ncu: not found"}
    text = told(
        good("naive", **failed), good("tiled", **failed), good("cublas", check=a_check("failed", "x"), **failed)
    )
    assert text.count("Not profiled: ncu: not found (2 rungs)\n") == 1


def test_records_of_other_sources_are_told(told, monkeypatch):
    items = [good("naive"), good("tiled")]
    assert "Recorded from other sources" not in told(*items)
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: {"naive": "source-1"}.get(rung.name, "x"))
    assert "Recorded from other sources than the present ones: tiled.\n" in told(*items)


def test_nothing_wrong_tells_of_nothing_wrong(told):
    text = told(good("cublas"), good("naive"))
    for words in ("Failed", "Not profiled", "Recorded from"):
        assert words not in text
    assert text.endswith("\n\n" + LAST)
