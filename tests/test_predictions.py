"""What a rung should reach by the model, and what each lever should gain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, an_evidence
from ladder.build.occupancy import LIMITS
from ladder.config.plan import plan
from ladder.model.shape import Shape
from ladder.show.figures import predicted
from ladder.show.timeline import timeline
from ladder.system.paths import ROOT
from ladder.tables.code import paper_table, resource_table
from ladder.tables.files import read_table
from ladder.tables.hardware import HARDWARE_COLUMNS
from ladder.tables.predictions import (
    LARGEST,
    LEVERS,
    SMALLEST,
    TENSOR_LEVERS,
    Machine,
    Model,
    Work,
    all_works,
    error_table,
    fit,
    loads_ahead,
    prediction_table,
    time_ms,
    works,
)
from ladder.tables.tensor_cores import TensorRates, TensorWork, tensor_works
from pipeline import RECORDED
from test_diagnosis import counters
from test_inspection import an_inspection

TABLES = ROOT / "results" / RECORDED / "tables"
MACHINE = Machine(sms=100, lanes=128, warps=64, peak_gflops=50000.0, launch_ms=0.003, clock_khz=2e6)
WORK = Work(flop=1e11, blocks=400, held=2, warps=8, issue=0.8, passes=0.2, steps=100, ahead=False)
TENSOR = TensorWork(
    flop=1e11, products=3, rate=300e3, dram_gb_s=1000.0, tiles=250, held=1, warps=8, slots=0.001, kernels=2,
    prepass_bytes=1e6, by="mma.sync", source="probes", fastest=400e3,
)  # fmt: skip


@pytest.fixture(scope="module")
def predictions() -> pd.DataFrame:
    return read_table(TABLES / "predictions.csv")


def test_half_of_the_predictions_of_each_unit_are_within_a_tenth_and_no_rate_is_above_its_ceiling(predictions):
    assert (error_table(predictions)["median_error_percent"] < 10).all()
    assert (predictions["predicted_gflops"] <= predictions["ceiling_gflops"]).all()
    timed = predictions[predictions["timed"]]
    assert (timed["measured_gflops"] <= timed["ceiling_gflops"]).all()


def test_every_rung_is_predicted_at_every_square_that_it_was_timed_at(predictions):
    timings, rungs = read_table(TABLES / "timings.csv"), read_table(TABLES / "rungs.csv").set_index("rung")
    square = (timings["m"] == timings["n"]) & (timings["n"] == timings["k"]) & timings["n"].between(SMALLEST, LARGEST)
    timed = timings[square & timings["rung"].isin(rungs.index[rungs["role"] == "rung"])]
    found = predictions[predictions["timed"]]
    assert len(timed) > 120
    assert set(zip(timed["rung"], timed["shape"], strict=True)) == set(zip(found["rung"], found["shape"], strict=True))


def test_every_rung_is_predicted_at_the_same_sizes_and_what_was_not_timed_is_named_so(predictions):
    sizes = predictions.groupby("rung")["n"].agg(set)
    assert all(of_rung == sizes["naive"] for of_rung in sizes)
    assert (min(sizes["naive"]), max(sizes["naive"])) == (SMALLEST, LARGEST)
    largest = predictions["n"] == LARGEST
    unknown = {"timed": False, "measured_gflops": np.nan, "error_percent": np.nan}
    tables = {path.stem: read_table(path) for path in TABLES.glob("*.csv")}
    rungs = [rung for rung in plan({"gpu": RECORDED, "measure": False}).rungs if rung.role == "rung"]
    for table, count in ((predictions, 0), (predictions.copy(), largest.sum())):
        if count:
            table.loc[largest, list(unknown)] = list(unknown.values())
        assert timeline(rungs, tables | {"predictions": table}).count(" / not timed") == count


def test_a_product_that_was_not_timed_is_predicted_from_others_of_its_rung_and_of_all():
    known = np.array([1.1, 1000.0, 400.0])
    works = {
        (f"rung_{n}", str(size)): replace(WORK, flop=n * size**3 / 4, ahead=n % 2 == 0)
        for n in range(1, 8)
        for size in (2048, LARGEST)
    }
    times = {key: time_ms(work, MACHINE, known) for key, work in works.items() if key != ("rung_3", str(LARGEST))}
    table = prediction_table(Model(MACHINE, works, times)).set_index(["rung", "n"])
    missing = table.loc[("rung_3", LARGEST)]
    assert not missing["timed"]
    assert np.isnan(missing[["measured_gflops", "error_percent"]].astype(float)).all()
    work = works["rung_3", str(LARGEST)]
    assert missing["predicted_gflops"] == pytest.approx(work.flop / time_ms(work, MACHINE, known) / 1e6, rel=1e-3)
    assert table.drop(("rung_3", LARGEST))["timed"].all()


def test_the_median_error_is_said_for_each_unit_and_for_all():
    rows = [("a", "FFMA", -10.0), ("b", "FFMA", 20.0), ("c", "wgmma", 4.0), ("d", "wgmma", np.nan)]
    table = pd.DataFrame(rows, columns=["rung", "by", "error_percent"])
    found = error_table(table.assign(timed=table["error_percent"].notna())).set_index("by")
    assert found["median_error_percent"].to_dict() == {"FFMA": 15.0, "wgmma": 4.0, "all": 10.0}
    assert found["largest_error_percent"].to_dict() == {"FFMA": 20.0, "wgmma": 4.0, "all": 20.0}
    assert found.loc["all", "rungs"] == 3
    assert error_table(pd.DataFrame(columns=["rung", "by", "error_percent", "timed"])).empty


def test_the_time_on_tensor_cores_is_that_of_the_sm_with_most_tiles():
    multiplying, waiting, rounds, moved = TENSOR.terms(MACHINE)
    assert TENSOR.rounds(MACHINE) == (2, 1)
    assert multiplying == pytest.approx(3 * 3e11 / 250 / 3e9)  # three tiles of three products at 3 TFLOP/s an SM
    assert waiting == pytest.approx(3 * 3e11 / 250 * 0.001 / 4 / 2e6 / 2)  # two warps a scheduler
    assert rounds == pytest.approx(3 / 2e6)
    assert moved == pytest.approx(1e-3)
    assert TENSOR.launches_ms(MACHINE) == pytest.approx(0.006)
    assert TENSOR.ceilings(MACHINE)["tensor cores"] == pytest.approx(100e3)
    assert replace(TENSOR, slots=1.0).bound_by(MACHINE) == "issue slots"
    assert replace(TENSOR, prepass_bytes=1e10).ceiling_gflops(MACHINE) == pytest.approx(1e4)


def test_the_rates_are_the_probes_and_without_them_those_that_nvidia_states():
    rows = [("wgmma", "rate", "TF32", 400.0), ("wgmma", "rate", "TF32, copies beside", 300.0), ("L2", "rate", "x", 1.0)]
    probed = pd.DataFrame(rows, columns=["of", "kind", "how", "whole"])
    found = TensorRates.of(ROUND_GPU, probed)
    assert (found.source, found.gflops) == ("probes", {("wgmma", "TF32"): 400e3})
    stated = TensorRates.of(ROUND_GPU, pd.DataFrame(columns=HARDWARE_COLUMNS))
    assert stated.source == "GPU file"
    assert stated.gflops["wgmma", "FP16"] == 2 * stated.gflops["mma.sync", "TF32"]


def test_a_gpu_whose_rates_nobody_states_predicts_nothing_on_tensor_cores():
    unknown = replace(ROUND_GPU, compute_capability="99.0")
    rates = TensorRates.of(unknown, pd.DataFrame(columns=HARDWARE_COLUMNS))
    assert rates.gflops == {}
    assert not tensor_works([an_item({"2048": [a_launch("main", 32, 1024)]})], [Shape.parse("2048")], rates)


def a_profile(passes: float, cores: int) -> dict:
    """Of a kernel that makes so many passes of the load/store pipe an FFMA, one in each cycle on half of all SMs."""
    ffmas = 0.5 * cores / ROUND_GPU.fp32_lanes_per_sm / passes * 32
    metrics = counters(load_pipe_busy=50.0, ffma_per_cycle=ffmas)
    return {"where": {"gpu": {"cores": cores}}, "kernels": [{"kernel": "kernel_a", "metrics": metrics}]}


def test_passes_that_another_gpu_counted_are_of_its_sms():
    other = {"1024": a_profile(0.5, 60 * ROUND_GPU.fp32_lanes_per_sm)}
    item = an_evidence(inspection=an_inspection(), counted=other, counted_on="small")
    (row,) = paper_table([item], ROUND_GPU).itertuples()
    assert (row.wavefronts_per_ffma, row.wavefronts_from) == (pytest.approx(0.5), "profile on small")


def test_the_source_of_passes_is_that_of_the_nearest_profile():
    shapes = ("1024", "2048", "4096", "8192")
    launch = an_inspection()["launches"]["1024"][1]
    launch["occupancy"] = {"blocks": 2, "percent": 50.0, "limited_by": [], "block_limits": dict.fromkeys(LIMITS, 2)}
    inspection = an_inspection() | {"launches": {shape: [launch] for shape in shapes}}
    cores = ROUND_GPU.sms * ROUND_GPU.fp32_lanes_per_sm
    profiles = {"profiles": {"1024": a_profile(0.5, cores)}, "counted": {"8192": a_profile(0.25, cores)}}
    items = [an_evidence("split_k", inspection=inspection, counted_on="other", **profiles)]
    found = works(items, paper_table(items, ROUND_GPU), resource_table(items))
    passes = {text: (work.passes, work.source) for (_, text), work in found.items()}
    here, there = pytest.approx(0.5), pytest.approx(0.25)
    assert passes == {
        "1024": (here, "profile"),
        "2048": (here, "profile at 1024, code"),
        "4096": (there, "profile on other at 8192, code"),
        "8192": (there, "profile on other"),
    }


def an_item(launches: dict) -> object:
    """A rung whose kernel `main` multiplies TF32 by mma.sync, 100 instructions for 10 of these."""
    mix = {"HGMMA": 0, "HMMA": 10, "FFMA": 0}
    loop = {"instructions": 100, "mix": mix}
    sass = ["0000  HMMA.1688.F32.TF32 R4, R8, R12, R4"] * 10
    code = {"whole": loop, "loop": loop, "loop_sass": sass}
    kernels = [{"symbol": "main", "kernel": "main", "code": code}, {"symbol": "split", "kernel": "split", "code": None}]
    inspection = {"status": "ok", "message": "", "kernels": kernels, "launches": launches}
    inspection |= {"workspace_bytes": dict.fromkeys(launches, 5000)}
    return an_evidence(rung=a_rung("naive", precision="3xtf32"), inspection=inspection)


def a_launch(symbol: str, grid: int, tiles: int | None) -> dict:
    return {"symbol": symbol, "grid": [grid, 1, 1], "block": [64, 1, 1], "tiles": tiles, "occupancy": {"blocks": 2}}


def test_the_work_of_a_rung_on_tensor_cores_follows_from_its_launches_and_its_loop():
    rates = TensorRates({("mma.sync", "TF32"): 100e3, ("wgmma", "TF32"): 200e3}, 1000.0, "probes")
    launches = {
        "1024": [a_launch("split", 9, 9), a_launch("main", 32, None)],
        "2048": [a_launch("main", 32, 1024)],
    }
    shapes = [Shape.parse(text) for text in launches]
    found = tensor_works([an_item(launches)], shapes, rates)
    small, large = found["naive", "1024"], found["naive", "2048"]
    assert (large.tiles, small.tiles) == (1024, 256)  # where they are not known, as many results each as elsewhere
    assert (large.prepass_bytes, small.prepass_bytes) == (0, 2 * 4 * 1024**2 + 5000)
    assert large.slots == pytest.approx(100 / (10 * 2 * 16 * 8 * 8))
    assert (large.products, large.rate, large.fastest, large.warps, large.kernels) == (3, 100e3, 200e3, 2, 1)
    assert not tensor_works([an_item(launches)], shapes, TensorRates({("wgmma", "TF32"): 1.0}, 1000.0, "probes"))


def test_a_pre_pass_reads_its_inputs_once_from_dram_where_they_fit_in_l2():
    launches = {"1024": [a_launch("split", 9, 9), a_launch("split", 9, 9), a_launch("main", 32, 256)]}
    inputs = 2 * 4 * 1024**2
    for l2_bytes, reads in ((inputs, 1), (inputs - 1, 2)):
        rates = TensorRates({("mma.sync", "TF32"): 100e3}, 1000.0, "probes", l2_bytes)
        (work,) = tensor_works([an_item(launches)], [Shape.parse("1024")], rates).values()
        assert work.prepass_bytes == reads * inputs + 5000


def test_a_kernel_that_read_little_when_it_was_profiled_reads_no_inputs_at_any_size():
    launches = {text: [a_launch("look", 9, 9), a_launch("main", 32, 256)] for text in ("1024", "2048")}
    rates = TensorRates({("mma.sync", "TF32"): 100e3}, 1000.0, "probes")
    inputs = 2 * 4 * 1024**2
    for read, counted in ((0.4 * inputs, 0), (0.6 * inputs, 1)):
        kernels = [{"kernel": name, "metrics": counters(dram_bytes_read=read)} for name in ("look", "main")]
        item = replace(an_item(launches), profiles={"1024": {"where": {}, "kernels": kernels}})
        found = tensor_works([item], [Shape.parse("2048")], rates)
        assert found["naive", "2048"].prepass_bytes == counted * 4 * inputs + 5000


def test_a_pre_pass_leaves_no_more_than_the_parts_of_its_numbers_whatever_workspace_is_asked_for():
    launches = {"1024": [a_launch("split", 9, 9), a_launch("main", 32, 256)]}
    item = an_item(launches)
    large = replace(item, inspection={**item.inspection, "workspace_bytes": {"1024": 10**9}})
    rates = TensorRates({("mma.sync", "TF32"): 100e3}, 1000.0, "probes")
    (work,) = tensor_works([large], [Shape.parse("1024")], rates).values()
    assert work.prepass_bytes == 2 * 4 * 1024**2 + 2 * 4 * 2 * 1024**2  # read once; two parts of four bytes a number


def test_a_rung_that_launches_the_kernel_of_another_has_the_work_of_that_one():
    launches = {"2048": [a_launch("main", 32, 1024)]}
    item = an_item(launches)
    other = replace(item, rung=a_rung("chooses"))  # of no precision that tensor cores have: it has no work of its own
    slower = replace(other, inspection={**item.inspection, "launches": {"2048": [a_launch("main", 64, 1024)]}})
    rates = [("mma.sync", "rate", "TF32", 100.0), ("wgmma", "rate", "TF32", 200.0)]
    hardware = pd.DataFrame(rates, columns=["of", "kind", "how", "whole"])
    paper = pd.DataFrame(columns=["predicted_gflops"])
    resources = pd.DataFrame(columns=["rung", "shape", "block_threads", "multiplies"])
    found = all_works([item, other], ROUND_GPU, paper, resources, hardware)
    assert found["chooses", "2048"] == replace(found["naive", "2048"], of="naive")
    assert ("chooses", "2048") not in all_works([item, slower], ROUND_GPU, paper, resources, hardware)


def test_the_time_of_a_rung_that_launches_the_kernel_of_another_is_in_no_fit():
    known = np.array([1.1, 1000.0, 400.0])
    works = {(f"rung_{n}", "2048"): replace(WORK, flop=1e10 * n, ahead=n % 2 == 0) for n in range(1, 8)}
    times = {key: time_ms(work, MACHINE, known) for key, work in works.items()}
    works["chooses", "2048"] = replace(works["rung_1", "2048"], of="rung_1")
    times["chooses", "2048"] = 1e6
    times["rung_1", "2048"] = 1e6
    model = Model(MACHINE, works, times)
    for rung in ("chooses", "rung_1"):
        assert model.numbers(rung, works[rung, "2048"]) == pytest.approx(known)


def test_what_few_times_leave_open_stays_near_what_is_expected():
    expected = np.array(TENSOR.expected)[:, 0]
    cases = [replace(TENSOR, flop=flop, prepass_bytes=flop / 1e5) for flop in (1e10, 2e10, 4e10, 8e10, 16e10)]
    cases = [replace(work, tiles=tiles) for work, tiles in zip(cases, (50, 150, 250, 450, 850), strict=True)]
    ideal = [(work, time_ms(work, MACHINE, expected)) for work in cases]
    assert fit(ideal, MACHINE) == pytest.approx(expected, abs=1e-9)
    slower = [(work, time_ms(work, MACHINE, np.array([1.3, 1.0, 0.0, 1.0]))) for work in cases]
    found = fit(slower, MACHINE)
    assert 1 < found[0] < 1.3  # products and other instructions grow alike, so both take of what is lost
    assert found[1] > 1
    times = [time_ms(work, MACHINE, found) / time for work, time in slower]
    assert times == pytest.approx([1.0] * len(times), abs=0.05)


def test_no_fitted_number_is_negative():
    cases = [(replace(WORK, flop=flop, ahead=ahead), 1.0) for flop in (1e10, 1e11, 1e12) for ahead in (False, True)]
    cases = [(work, time_ms(work, MACHINE, np.array([1.1, 1000.0, -50.0]))) for work, _ in cases]
    found = fit(cases, MACHINE)
    assert (found >= 0).all()
    assert found[2] == 0


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
    assert bound.ceiling_gflops(MACHINE) == pytest.approx(100 * 2 * 32 * 2)  # an FFMA of a warp a cycle, at 2 GHz
    assert bound.bound_by(MACHINE) == "load pipe"


def test_too_few_times_determine_no_fit():
    assert fit([(WORK, 1.0)] * 3, MACHINE) is None
    assert fit([(WORK, 1.0)] * 8, MACHINE) is None  # one equation
    assert fit([(WORK, 1.0), (replace(WORK, ahead=True), 1.0)] * 2, MACHINE) is None


def test_rungs_that_build_on_double_buffered_load_ahead():
    rungs = plan({"gpu": RECORDED, "measure": False}).rungs
    found = loads_ahead(rungs)
    assert {"double_buffered", "async_copy", "tma", "fastest"} <= found
    assert not found & {"naive", "tiled@TILE=32", "vectorized", "warp_tiled"}


@pytest.mark.parametrize("place", range(len(TENSOR_LEVERS)))
def test_no_lever_makes_a_product_on_tensor_cores_slower(place):
    fitted = np.array([1.0, 1.4, 10000.0, 2.0])
    changed = TENSOR_LEVERS[place][2](TENSOR, math.inf, MACHINE)
    assert time_ms(changed, MACHINE, fitted) < time_ms(TENSOR, MACHINE, fitted)


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
    empty = timings[timings["rung"] == "empty"].set_index("m")["time_ms_median"]
    assert machine.launch_ms == empty[empty.index.max()]
    assert Machine.of(run.gpu, timings.iloc[:0]).peak_gflops == run.gpu.peak_gflops


def test_the_figure_has_a_mark_for_each_prediction_and_says_the_median_error(predictions):
    figure = predicted.figure(predictions, list(predictions["rung"].unique()))
    assert len(figure.layers[-1].data) == predictions["timed"].sum() == len(predictions)
    few = predictions.assign(timed=predictions["timed"] & (predictions["n"] < LARGEST))
    assert len(predicted.figure(few, list(few["rung"].unique())).layers[-1].data) == few["timed"].sum() < len(few)
    assert f"{predictions['error_percent'].abs().median():.0f} %" in figure.title
