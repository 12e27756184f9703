"""The tables: every number computed by hand on a few samples, and the same bytes for the same evidence."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_case, a_check, a_rung, a_timing, a_where, an_evidence
from ladder.model.metrics import METRICS, RATIOS
from ladder.model.shape import Shape
from ladder.tables import code, files, statistics
from ladder.tables.checks import check_table
from ladder.tables.code import resource_table
from ladder.tables.every import all_tables, environment_table
from ladder.tables.files import read_table, write_table
from ladder.tables.profiles import advice_table, profile_table
from ladder.tables.rungs import rung_table
from ladder.tables.statistics import bootstrap_medians, interval
from ladder.tables.timings import geomean_table, headline_shape, speedup, timing_table

SAMPLES = {"tiled": [2.0, 4.0, 3.0, 9.0, 1.0], "cublas": [1.0, 1.5, 2.0], "naive": [30.0], "coalesced": [6.0, 6.0]}


def tiled(*timings, **changes):
    """The third rung, which coalesced comes before."""
    return an_evidence("tiled", timings, rung=a_rung("tiled", before="coalesced"), **changes)


def timing_row(item, gpu=ROUND_GPU) -> dict:
    table = timing_table([item], gpu, "cublas", "naive")
    assert len(table) == 1
    return table.iloc[0].to_dict()


# Timings


def test_a_timing_row_has_the_statistics_of_its_samples():
    row = timing_row(tiled(a_timing("tiled", "512", SAMPLES)))
    assert (row["rung"], row["shape"], row["m"], row["n"], row["k"]) == ("tiled", "512", 512, 512, 512)
    assert (row["samples"], row["target_samples"]) == (5, 50)
    expected = {"mean": 3.8, "median": 3.0, "min": 1.0, "q1": 2.0, "q3": 4.0}
    assert {name: row[f"time_ms_{name}"] for name in expected} == pytest.approx(expected)
    # squares of the distances from 3.8: 3.24 + 0.04 + 0.64 + 27.04 + 7.84, over n - 1
    assert row["noise_percent"] == pytest.approx(100 * math.sqrt(38.8 / 4) / 3.8)
    assert row["sm_clock_mhz"] == 1500
    assert (row["temperature_c"], row["power_w"], row["throttle_reasons"]) == (50, 300.0, "")
    assert (row["before"], row["measured_at"]) == ("coalesced", a_where()["measured_at"])


def test_a_rate_is_the_products_operations_over_the_median_time():
    row = timing_row(tiled(a_timing("tiled", "512", SAMPLES)))
    gflops = 2 * 512**3 / 3.0e-3 / 1e9
    assert row["gflops"] == pytest.approx(gflops)
    assert row["share_of_peak"] == pytest.approx(gflops / 25600)
    assert row["gflops_ci_low"] == pytest.approx(2 * 512**3 / (row["time_ms_ci_high"] * 1e-3) / 1e9)
    assert row["gflops_ci_high"] == pytest.approx(2 * 512**3 / (row["time_ms_ci_low"] * 1e-3) / 1e9)


def test_the_rate_of_a_product_that_is_not_square_counts_its_own_operations():
    row = timing_row(tiled(a_timing("tiled", "10x20x30", SAMPLES)))
    assert row["gflops"] == pytest.approx(2 * 10 * 20 * 30 / 3.0e-3 / 1e9)


def test_speedups_are_ratios_of_medians_measured_beside_the_rung():
    row = timing_row(tiled(a_timing("tiled", "512", SAMPLES)))
    assert row["speedup_over_cublas"] == pytest.approx(1.5 / 3)
    assert row["speedup_over_naive"] == pytest.approx(30 / 3)
    assert row["speedup_over_before"] == pytest.approx(6 / 3)


def test_a_speedup_is_over_the_reference_of_the_same_process_and_no_other_records():
    naive = an_evidence("naive", (a_timing("naive", "512", {"naive": [1000.0]}),))
    cublas = an_evidence("cublas", (a_timing("cublas", "512", {"cublas": [1000.0]}),))
    table = timing_table([naive, cublas, tiled(a_timing("tiled", "512", SAMPLES))], ROUND_GPU, "cublas", "naive")
    row = table.set_index("rung").loc["tiled"]
    assert row["speedup_over_naive"] == pytest.approx(10)
    assert row["speedup_over_cublas"] == pytest.approx(0.5)


def test_a_share_is_of_the_fastest_of_the_baselines_that_were_measured_beside_the_rung():
    beside = {"tiled": [3.0], "cublas": [1.5], "best": [1.2]}
    item = an_evidence(
        "tiled",
        tuple(a_timing("tiled", size, beside | more) for size, more in (("512", {}), ("1024", {"best": [1.8]}))),
        rung=a_rung("tiled", baselines=("cublas", "best", "another")),
    )
    table = timing_table([item], ROUND_GPU, "cublas", "naive").set_index("shape")
    assert table["baseline"].to_dict() == {"512": "best", "1024": "cublas"}
    assert table["speedup_over_cublas"].to_dict() == pytest.approx({"512": 0.4, "1024": 0.5})
    assert table["speedup_over_default"].to_dict() == pytest.approx({"512": 0.5, "1024": 0.5})  # of its first library
    mean = geomean_table([item], "cublas", "naive").set_index("over").loc["cublas"]
    assert (mean["baseline"], mean["shapes"]) == ("best; cublas", 2)
    assert mean["speedup"] == pytest.approx(0.2**0.5)


def test_a_baseline_may_be_slower_than_the_best_of_its_class():
    rung = a_rung("cublas", baselines=("cublas", "best"))
    row = timing_row(an_evidence("cublas", (a_timing("cublas", "512", {"cublas": [2.0], "best": [1.5]}),), rung=rung))
    assert (row["baseline"], row["speedup_over_cublas"]) == ("best", 0.75)


def test_a_reference_that_was_not_measured_beside_the_rung_gives_no_speedup():
    naive = an_evidence("naive", (a_timing("naive", "512", {"naive": [30.0]}),))
    item = tiled(a_timing("tiled", "512", {"tiled": [3.0], "cublas": [1.5]}))
    row = timing_table([naive, item], ROUND_GPU, "cublas", "naive").set_index("rung").loc["tiled"]
    assert row["speedup_over_cublas"] == 0.5
    for column in ("naive", "before"):
        assert math.isnan(row[f"speedup_over_{column}"])
        assert math.isnan(row[f"speedup_over_{column}_ci_low"])


def test_a_rung_is_exactly_as_fast_as_itself():
    item = an_evidence("naive", (a_timing("naive", "512", {"naive": [1.0, 2.0, 9.0], "cublas": [1.0]}),))
    row = timing_row(item)
    assert [row[f"speedup_over_naive{end}"] for end in ("", "_ci_low", "_ci_high")] == [1, 1, 1]
    assert math.isnan(row["speedup_over_before"])


def test_the_interval_of_a_speedup_holds_it():
    row = timing_row(tiled(a_timing("tiled", "512", SAMPLES)))
    assert row["speedup_over_cublas_ci_low"] <= row["speedup_over_cublas"] <= row["speedup_over_cublas_ci_high"]
    # 1.0 / 9.0 and 2.0 / 1.0 are the smallest and the largest ratio of any two samples
    assert 1 / 9 <= row["speedup_over_cublas_ci_low"] < row["speedup_over_cublas_ci_high"] <= 2


def test_the_empty_kernel_has_a_time_and_no_rate():
    item = an_evidence("empty", (a_timing("empty", "512", {"empty": [0.002, 0.004]}),))
    row = timing_row(item)
    assert row["time_ms_median"] == pytest.approx(0.003)
    for column in ("gflops", "share_of_peak", "speedup_over_cublas", "speedup_over_naive"):
        assert math.isnan(row[column])


def test_a_single_sample_has_no_noise_and_an_interval_of_itself():
    row = timing_row(tiled(a_timing("tiled", "512", {"tiled": [3.0]})))
    assert math.isnan(row["noise_percent"])
    assert row["time_ms_ci_low"] == row["time_ms_ci_high"] == 3.0


def test_throttle_reasons_are_joined():
    reasons = ["software power cap", "hardware thermal"]
    row = timing_row(tiled(a_timing("tiled", "512", SAMPLES, throttle_reasons=reasons)))
    assert row["throttle_reasons"] == "software power cap; hardware thermal"


UNSOUND = {
    "wrong": {"check": a_check("failed", "4: NaN")},
    "not checked yet": {"check": None},
    "timing failed": {"timing_failure": "it hung"},
    "not compiled": {"inspection": {"status": "failed", "message": "error"}},
    "does not apply": {"inspection": {"status": "does not apply", "message": "needs 10.0"}},
}


@pytest.mark.parametrize("changes", UNSOUND.values(), ids=UNSOUND)
def test_a_rung_that_failed_has_no_row_among_timings_and_geomeans(changes):
    item = tiled(a_timing("tiled", "512", SAMPLES), **changes)
    sound = an_evidence("naive", (a_timing("naive", "512", {"naive": [1.0], "cublas": [1.0]}),))
    assert list(timing_table([item, sound], ROUND_GPU, "cublas", "naive")["rung"]) == ["naive"]
    assert set(geomean_table([item, sound], "cublas", "naive")["rung"]) == {"naive"}


@pytest.mark.parametrize("make", [lambda: timing_table([], ROUND_GPU, "cublas", "naive"), lambda: check_table([])])
def test_a_table_of_nothing_has_its_columns(make, tmp_path):
    table = make()
    assert (len(table), "rung" in table.columns) == (0, True)
    write_table(table, tmp_path / "table.csv")
    assert list(read_table(tmp_path / "table.csv").columns) == list(table.columns)


# Intervals


def test_bootstrapped_medians_depend_on_the_samples_and_the_key_alone():
    samples = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    first = bootstrap_medians(samples, "tiled 512")
    assert (first == bootstrap_medians(samples.copy(), "tiled 512")).all()
    assert not (first == bootstrap_medians(samples, "tiled 1024")).all()
    assert len(first) == statistics.RESAMPLES
    assert set(first) <= set(samples)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 2, 5, 50])
def test_the_interval_of_a_median_contains_it(seed, count):
    samples = np.random.default_rng(seed).lognormal(size=count)
    low, high = interval(bootstrap_medians(samples, "key"))
    assert samples.min() <= low <= np.median(samples) <= high <= samples.max()


def test_the_interval_leaves_out_the_same_share_at_both_ends():
    assert interval(np.arange(1001.0)) == (25, 975)


# Geometric means


def measured(*sizes: str, factor=lambda shape: 2.0):
    """Tiled beside its references at each size; cublas takes `factor` times as long as tiled."""
    timings = []
    for size in sizes:
        timings.append(a_timing("tiled", size, {"tiled": [1.0], "cublas": [factor(size)], "coalesced": [4.0]}))
    return tiled(*timings)


def test_a_geomean_is_over_the_square_sizes_from_512_up():
    factors = {"256": 100.0, "511": 100.0, "512": 2.0, "1024": 8.0, "1000": 4.0, "512x512x1024": 100.0}
    table = geomean_table([measured(*factors, factor=factors.get)], "cublas", "naive").set_index("over")
    assert table.loc["cublas", "shapes"] == 3
    assert table.loc["cublas", "speedup"] == pytest.approx((2 * 8 * 4) ** (1 / 3))
    assert table.loc["before", "speedup"] == pytest.approx(4)
    assert "naive" not in table.index


def test_geomeans_of_all_rungs_are_over_the_sizes_that_the_most_rungs_have():
    more, alike, fewer = measured("512", "1024", "8192"), measured("512", "1024"), measured("1024")
    items = [more, alike, measured("512", "1024"), fewer]
    table = geomean_table(items, "cublas", "naive")
    assert set(table["sizes"]) == {"1024"}
    table = geomean_table([more, alike], "cublas", "naive")
    assert set(table["sizes"]) == {"512;1024"}
    assert len(table[table["over"] == "cublas"]) == 2


def test_the_interval_of_a_geomean_holds_it():
    timings = [a_timing("tiled", size, SAMPLES) for size in ("512", "1024")]
    table = geomean_table([tiled(*timings)], "cublas", "naive").set_index("over")
    assert list(table.index) == ["naive", "cublas", "before"]
    assert (table["ci_low"] <= table["speedup"]).all()
    assert (table["speedup"] <= table["ci_high"]).all()
    assert table.loc["cublas", "ci_low"] < table.loc["cublas", "ci_high"]


def test_a_rung_without_large_squares_has_no_geomean():
    assert geomean_table([measured("256", "512x512x511")], "cublas", "naive").empty


def test_the_empty_kernel_has_no_geomean():
    item = an_evidence("empty", (a_timing("empty", "512", {"empty": [1.0], "cublas": [1.0]}),))
    assert geomean_table([item], "cublas", "naive").empty


def test_a_speedup_comes_with_a_thousand_bootstrapped_ones():
    item = tiled(a_timing("tiled", "512", SAMPLES))
    ratio, values = speedup(item, Shape(512, 512, 512), "cublas")
    assert (ratio, len(values)) == (0.5, statistics.RESAMPLES)
    assert speedup(item, Shape(512, 512, 512), None) is None


# The other tables


def test_the_table_of_rungs_says_how_each_fared(monkeypatch):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
    items = [
        tiled(a_timing("tiled", "512", SAMPLES), check=a_check(cases=[a_case(), a_case("5")]), profiles={}),
        an_evidence("naive", check=a_check("failed", "4: NaN", cases=[a_case(verdict="NaN")])),
        an_evidence("coalesced", check=None, profile_failure="ncu: not found"),
    ]
    table = rung_table(items).set_index("rung")
    columns = ["status", "message", "checked_cases", "timed_shapes", "source", "profile_message"]
    assert table.loc["tiled", columns].tolist() == ["ok", "", 2, 1, "current", ""]
    assert table.loc["naive", columns].tolist() == ["wrong", "4: NaN", 1, 0, "current", ""]
    assert table.loc["coalesced", columns].tolist() == ["not recorded", "", 0, 0, "", "ncu: not found"]
    assert table.loc["tiled", "measured_at"] == a_where()["measured_at"]
    assert table.loc["coalesced", "measured_at"] == ""
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-2")
    assert rung_table(items).set_index("rung").loc["tiled", "source"] == "changed since"


def test_the_table_of_rungs_says_what_the_measurements_cost(monkeypatch):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")

    def at(shape, **where):
        timing = a_timing("tiled", shape, {"tiled": [1000.0, 3000.0], "cublas": [500.0]})
        return replace(timing, where={**timing.where, **where})

    first, second = {"measured_at": "t1", "wall_s": 10.0}, {"measured_at": "t2", "wall_s": 3.5}
    check = a_check()
    check["where"] = {**check["where"], "wall_s": 7.25}
    costs = ["check_wall_s", "time_wall_s", "time_gpu_s"]
    table = rung_table([tiled(at("512", **first), at("1024", **first), at("2048", **second), check=check)])
    assert table.loc[0, costs].tolist() == [7.25, 13.5, 13.5]
    older = rung_table([tiled(at("512", **first), at("1024"))])  # a record that does not say
    assert older.loc[0, costs].isna().tolist() == [True, True, False]
    assert rung_table([an_evidence("coalesced", check=None)]).loc[0, costs].isna().all()


def test_the_table_of_checks_has_each_error_beside_its_bound():
    cases = [a_case("4x5x6", error_componentwise=1.234e-9, error_normwise=2.004e-9, bound_normwise=5.004e-7)]
    cases.append(a_case("4x5x0", verdict="NaN", error_componentwise=None, family="normal"))
    table = check_table([an_evidence(check=a_check("failed", cases=cases)), an_evidence("coalesced", check=None)])
    assert table["shape"].tolist() == ["4x5x6", "4x5x0"]
    assert table["verdict"].tolist() == ["pass", "NaN"]
    u = 2.0**-24
    assert table["bound_componentwise"].tolist() == pytest.approx([9 * u / (1 - 9 * u), 3 * u / (1 - 3 * u)])
    assert table["bound_normwise"].tolist() == [5e-7, 5e-7]
    assert table["family"].tolist() == ["uniform", "normal"]
    assert table["error_normwise"].tolist() == [2e-9, 2e-9]
    assert table["error_componentwise"][0] == 1.23e-9
    assert math.isnan(table["error_componentwise"][1])


def test_the_table_of_checks_has_what_the_sanitizer_found():
    tools = [
        {"tool": "memcheck", "verdict": "pass", "message": ""},
        {"tool": "racecheck", "verdict": "failed", "message": "Race reported; tiled.cu:30"},
    ]
    sanitized = {"cases": [a_case("1"), a_case("64"), a_case("1")], "tools": tools}
    table = check_table([an_evidence(check=a_check(cases=[a_case("4")]), sanitized=sanitized)])
    assert list(table["by"]) == ["check", "memcheck", "racecheck"]
    assert list(table["shape"]) == ["4", "1 64", "1 64"]
    assert list(table["verdict"]) == ["pass", "pass", "failed: Race reported; tiled.cu:30"]
    assert table["padding"].isna().tolist() == [False, True, True]


def test_the_table_of_resources_joins_each_launch_with_its_kernel():
    resources = {key: index for index, key in enumerate(code.RESOURCES, start=1)}
    inspection = {
        "status": "ok",
        "message": "",
        "nvcc": "13.0.88",
        "architecture": "sm_90a",
        "kernels": [{"symbol": "_Z1a", "kernel": "a", **resources}],
        "launches": {
            "512": [
                {"symbol": "_Z1a", "grid": [3, 2, 1], "block": [32, 4, 2], "dynamic_shared_bytes": 100},
                {"symbol": "_Z1b", "grid": [1, 1, 1], "block": [64, 1, 1], "dynamic_shared_bytes": 0},
            ],
            "0": [],
        },
    }
    table = resource_table([an_evidence(inspection=inspection)])
    assert table["shape"].tolist() == ["512", "512"]
    assert table["grid"].tolist() == ["3x2x1", "1x1x1"]
    assert table["block_threads"].tolist() == [256, 64]
    assert table["kernel"].tolist() == ["a", ""]
    assert table.loc[0, list(code.RESOURCES)].tolist() == [1, 2, 3, 4, 5]
    assert table["dynamic_shared_bytes"].tolist() == [100, 0]
    assert pd.isna(table.loc[1, "registers"])


def profiles(**metrics):
    advice = [
        {"section": "s", "rule": "r1", "title": "small", "message": "m", "estimated_speedup_percent": 5.0},
        {"section": "s", "rule": "r2", "title": "none", "message": "m", "estimated_speedup_percent": None},
        {"section": "s", "rule": "r3", "title": "large", "message": "m", "estimated_speedup_percent": 50.0},
    ]
    return {"512": {"where": a_where(), "kernels": [{"kernel": "a", "metrics": metrics, "advice": advice}]}}


def test_the_table_of_profiles_has_the_metrics_that_have_a_section_and_every_stall():
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {
        "gpu__time_duration.sum": [1500, "ns"],
        stall.format("wait"): [0.5, "inst"],
        stall.format("barrier"): [2, "inst"],
        "another.sum": [1, ""],
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": [36, "sector"],
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": [8, ""],
        "derived__memory_l2_theoretical_sectors_global_excessive": [64, "byte"],
    }
    table = profile_table([an_evidence(profiles=profiles(**metrics))]).set_index("name")
    assert table.loc["duration", ["section", "value", "unit"]].tolist() == ["speed of light", 1500, "ns"]
    assert table.loc["stall_barrier", ["section", "value"]].tolist() == ["warp state", 2]
    named = [each.name for each in METRICS.values() if each.section]
    assert list(table.index) == [*named, "stall_barrier", "stall_wait", *(each.name for each in RATIOS)]
    assert table.loc["sectors_per_global_load_request", ["section", "value"]].tolist() == ["memory tables", 4.5]
    assert pd.isna(table.loc["wavefronts_per_shared_load", "value"])
    assert pd.isna(table.loc["ipc_active", "value"])
    assert table.loc["global_excessive_sectors", ["value", "unit"]].tolist() == [64, "sector"]


def test_advice_stands_by_its_estimated_speedup():
    table = advice_table([an_evidence(profiles=profiles())])
    assert table["title"].tolist() == ["large", "small", "none"]
    assert table["estimated_speedup_percent"].tolist()[:2] == [50, 5]


def test_the_environment_has_each_value_once_and_several_joined():
    later = a_check()
    later["where"] = a_where(measured_at="2026-02-01T00:00:00+00:00") | {"gpu": {"name": "Another"}}
    items = [an_evidence(), an_evidence("coalesced", check=later), an_evidence("tiled")]
    table = environment_table(items, ROUND_GPU).set_index("property")["value"]
    assert table["gpu_file.peak_gflops"] == "25600"
    assert table["recorded.gpu.name"] == "Another; NVIDIA H100 80GB HBM3"
    assert table["recorded.compile.nvcc"] == "13.0.88"
    assert table["recorded.first"] == "2026-01-02T03:04:05+00:00"
    assert table["recorded.last"] == "2026-02-01T00:00:00+00:00"


# On disk


def test_tables_read_back_as_they_were_written_to_six_digits(tmp_path, monkeypatch):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
    items = [
        tiled(a_timing("tiled", "512", SAMPLES), a_timing("tiled", "10x20x30", SAMPLES)),
        an_evidence("naive", (a_timing("naive", "512", {"naive": [1.0]}),)),
        an_evidence("coalesced", check=a_check("failed", 'a "message", with ; all\tof it')),
    ]
    for name, table in all_tables(items, ROUND_GPU, "cublas", "naive").items():
        path = tmp_path / f"{name}.csv"
        write_table(table, path)
        back = read_table(path)
        assert list(back.columns) == list(table.columns)
        assert len(back) == len(table)
        for column in set(files.TEXT_COLUMNS) & set(table.columns):
            assert back[column].tolist() == table[column].fillna("").tolist(), (name, column)
        if name == "timings":
            for column in ("gflops", "time_ms_median", "speedup_over_cublas", "share_of_peak"):
                assert back[column].tolist() == pytest.approx(table[column].tolist(), rel=1e-5, nan_ok=True)


def test_equal_evidence_gives_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")

    def written(folder):
        items = [tiled(a_timing("tiled", "512", SAMPLES), check=a_check(cases=[a_case()]), profiles=profiles())]
        for name, table in all_tables(items, ROUND_GPU, "cublas", "naive").items():
            write_table(table, folder / f"{name}.csv")
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    first = written(tmp_path / "1")
    assert first == written(tmp_path / "2")
    assert set(first) == {
        f"{name}.csv"
        for name in (
            *("rungs", "timings", "geomeans", "checks", "resources", "instructions", "paper", "profiles", "advice"),
            *("predictions", "prediction_fit", "memory", "levers", "hot_instructions", "executed", "ways"),
            *("metrics_by_rung", "slots", "diagnosis", "hotspots", "environment", "records", "samples", "sustained"),
        )
    }
    assert first["timings.csv"].endswith(b"\n")
    assert b"\r" not in first["timings.csv"]


def test_a_table_of_rungs_as_columns_reads_back_as_numbers(tmp_path):
    write_table(pd.DataFrame({"metric": ["time"], "cublas": [0.5], "naive": [2.0]}), tmp_path / "metrics.csv")
    assert read_table(tmp_path / "metrics.csv")[["cublas", "naive"]].to_numpy().tolist() == [[0.5, 2.0]]


# The shape that stands for a run


def timed_at(**shapes: list[str]) -> pd.DataFrame:
    rows = [(rung, shape, *vars(Shape.parse(shape)).values()) for rung, names in shapes.items() for shape in names]
    return pd.DataFrame(rows, columns=["rung", "shape", "m", "n", "k"])


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"naive": ["512", "1024"], "tiled": ["512", "1024"]}, "1024"),
        ({"naive": ["512", "1024"], "tiled": ["512", "1024", "8192"]}, "1024"),
        ({"naive": ["512", "64x8192x8192"], "tiled": ["64x8192x8192"]}, "512"),
        ({"naive": ["64x8192x8192", "8x8x64"]}, "64x8192x8192"),
        ({}, None),
    ],
)
def test_a_run_is_summed_up_at_the_largest_square_that_most_rungs_have(shapes, expected):
    assert headline_shape(timed_at(**shapes)) == expected


def test_where_times_are_explained_the_headline_is_of_a_shape_that_was_profiled():
    timings = timed_at(naive=["512", "1024", "8192"], tiled=["512", "1024", "8192"])
    assert headline_shape(timings) == headline_shape(timings, pd.DataFrame({"shape": ["64"]})) == "8192"
    assert headline_shape(timings, pd.DataFrame({"shape": ["512", "1024"]})) == "1024"
