"""Every GPU that has records beside the others: the table, the figures, and the target that makes them."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from conftest import a_check, a_device, a_rung, a_where, line_of, time_run
from ladder.config import gpus
from ladder.config.plan import plan
from ladder.model.shape import Shape
from ladder.records import store
from ladder.show.figures import cards as cards_figure
from ladder.show.figures import gpus as gpus_figure
from ladder.show.figures import gpus_by_size
from ladder.show.static import draw, save
from ladder.system.paths import ROOT
from ladder.tables.across import ACROSS_COLUMNS, across_table, caption, common_size
from ladder.tables.cards import CARDS_COLUMNS, cards_table
from ladder.tables.files import read_table, write_table
from pipeline import FEW, FEW_RUNGS, RECORDED, contents, copy_project, snakemake

RUNGS = [a_rung(name) for name in ("empty", "cublas", "naive", "tiled")]


def where_on(device: dict, **more):
    place = a_where(**more)
    return {**place, "gpu": device}


def record(results, name, rung, times, *, device=None, status="pass", source="source-1", day="2026-01-02"):
    """A check and a time record of a rung on a GPU; `times` has the milliseconds of each (kernel, shape)."""
    device = vars(a_device()) if device is None else device
    raw = results / name / "raw"
    place = where_on(device, measured_at=f"{day}T03:04:05+00:00")
    place["compile"] = {**place["compile"], "source_digest": source}
    (raw / "check").mkdir(parents=True, exist_ok=True)
    (raw / "time").mkdir(exist_ok=True)
    store.write_json(raw / "check" / f"{rung}.json", {"rung": rung, **a_check(status), "where": place})
    files = time_run(rung, {key: [value / 1e3] * 5 for key, value in times.items()})
    content = json.loads(files["record.json"]) | {"where": place}
    store.add_run(raw / "time" / f"{rung}.zip", {**files, "record.json": json.dumps(content).encode()})


def beside(rung, shape, own, cublas=1.0, naive=10.0):
    return {(rung, shape): own, ("cublas", shape): cublas, ("naive", shape): naive}


@pytest.fixture
def results(tmp_path):
    """Two GPUs with a file and one without; the second is twice as fast."""
    folder = tmp_path / "results"
    for name, factor, title in (("h100-sxm", 1.0, "NVIDIA H100 80GB HBM3"), ("h200-sxm", 0.5, "NVIDIA H200")):
        device, tiled = vars(a_device(title)), beside("tiled", "512", 2 * factor, factor) | beside("tiled", "1024", 4.0)
        record(folder, name, "naive", {("naive", "512"): 10 * factor, ("cublas", "512"): factor}, device=device)
        record(folder, name, "tiled", tiled, device=device)
    own = vars(a_device("NVIDIA Own Card", cores=12800, sm_clock_mhz=1000))
    record(folder, "own-card", "tiled", beside("tiled", "512", 8.0), device=own, source="source-2", day="2026-02-03")
    (folder / "across").mkdir()
    return folder


def table_of(results, shapes=None):
    return across_table(results, RUNGS, shapes, "cublas", "naive")


def test_a_device_of_the_users_own_stands_beside_what_ships_under_a_name_of_its_own(results):
    shipped, own = table_of(results), results / "h100-sxm/devices"
    record(own, "GPU-0", "tiled", beside("tiled", "512", 3.0))
    table = across_table(results, RUNGS, None, "cublas", "naive", [own / "GPU-0/raw"])
    here = table["gpu"] == "h100-sxm GPU-0"
    assert list(table.loc[here, "time_ms_median"]) == pytest.approx([3.0])
    assert table[~here].reset_index(drop=True).equals(shipped)
    assert table_of(results).equals(shipped)


def test_cards_of_one_name_are_compared_where_they_measured_the_same_build_at_the_same_size(results):
    assert cards_table(results, {"tiled"}).empty
    own = results / "h100-sxm/devices"
    second, third = (vars(a_device("NVIDIA H100 80GB HBM3", uuid=f"GPU-{digit * 8}-1")) for digit in "bc")
    slower = beside("tiled", "512", 2.5) | beside("tiled", "2048", 9.0)
    record(own, "GPU-bbbbbbbb", "tiled", slower, device=second)
    record(own, "GPU-cccccccc", "tiled", beside("tiled", "1024", 4.0), device=third)
    table = cards_table(results, {"tiled"})
    assert list(table.columns) == CARDS_COLUMNS
    at = {(row.shape, row.card): row for row in table.itertuples()}
    assert set(at) == {("512", "GPU-0"), ("512", "GPU-bbbbbbbb"), ("1024", "GPU-0"), ("1024", "GPU-cccccccc")}
    assert at["512", "GPU-bbbbbbbb"].time_ms_median == pytest.approx(2.5)
    assert at["512", "GPU-bbbbbbbb"].over_cards == pytest.approx((2.5 / 2.0) ** 0.5)
    assert at["512", "GPU-0"].over_cards == pytest.approx((2.0 / 2.5) ** 0.5)
    assert set(cards_table(results, {"tiled"}, [Shape.parse("1024")])["shape"]) == {"1024"}


def test_the_figure_of_cards_shows_those_that_share_enough_and_says_how_far_they_are_apart():
    rows = [
        {"gpu": "h100-sxm", "card": card, "shape": str(size), "over_cards": over + size / 1e4}
        for card, over in (("GPU-a", 0.99), ("GPU-b", 1.01))
        for size in range(-2, 3)
    ]
    rows += [{"gpu": "h200-sxm", "card": card, "shape": "1", "over_cards": 1.0} for card in ("GPU-c", "GPU-d")]
    figure = cards_figure.figure(pd.DataFrame(rows))
    assert figure.title == "Medians of cards of one name are apart by 2.00 % (h100-sxm, 2 cards)"
    (axes,) = draw(figure, "").axes
    assert [x for x, _ in axes.collections[0].get_offsets()] == pytest.approx([-1.0, 1.0])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["GPU-a (5)", "GPU-b (5)"]
    nothing = cards_figure.figure(pd.DataFrame(columns=CARDS_COLUMNS))
    assert nothing.title == "No two cards of one name share 5 rungs and sizes of the same build"
    assert nothing.empty in [text.get_text() for text in draw(nothing, "").axes[0].texts]


def test_each_rung_shape_and_gpu_is_a_row_with_rate_and_shares(results):
    table = table_of(results)
    assert list(table.columns) == ACROSS_COLUMNS
    assert [tuple(row) for row in table[["rung", "shape", "gpu"]].itertuples(index=False)] == [
        ("naive", "512", "h100-sxm"),
        ("naive", "512", "h200-sxm"),
        ("tiled", "512", "h100-sxm"),
        ("tiled", "512", "h200-sxm"),
        ("tiled", "512", "own-card"),
        ("tiled", "1024", "h100-sxm"),
        ("tiled", "1024", "h200-sxm"),
    ]
    tiled = table[(table["rung"] == "tiled") & (table["shape"] == "512")].set_index("gpu")
    rate = 2 * 512**3 / 1e6
    assert tiled["gflops"].tolist() == pytest.approx([rate / 2, rate / 1, rate / 8])
    assert tiled["share_of_cublas"].tolist() == pytest.approx([0.5, 0.5, 0.125])
    assert tiled["speedup_over_naive"].tolist() == pytest.approx([5, 10, 1.25])
    peaks = [gpus.read_gpu("h100-sxm").peak_gflops, gpus.read_gpu("h200-sxm").peak_gflops, 12800 * 2]
    assert (tiled["gflops"] / tiled["share_of_peak"]).tolist() == pytest.approx(peaks)
    assert tiled["device"].tolist()[2] == "NVIDIA Own Card"
    assert tiled["source_digest"].tolist() == ["source-1", "source-1", "source-2"]


def test_only_the_shapes_asked_for_are_rows(results):
    assert set(table_of(results, [Shape.parse("1024")])["shape"]) == {"1024"}


def test_a_rung_that_is_wrong_on_one_gpu_is_shown_on_the_others_only(results):
    device = vars(a_device("NVIDIA H200"))
    record(results, "h200-sxm", "tiled", beside("tiled", "512", 1.0), device=device, status="failed")
    rows = table_of(results)
    assert list(rows.loc[rows["rung"] == "tiled", "gpu"].unique()) == ["h100-sxm", "own-card"]


def test_nothing_recorded_is_one_line(tmp_path):
    told = "no GPU has records of these rungs and sizes; make some on a GPU: make run"
    assert line_of(table_of, tmp_path) == f"{tmp_path.name}: {told}"


def test_the_size_of_the_figure_is_the_one_of_most_gpus_then_of_most_rungs(results):
    assert common_size(table_of(results)) == 512
    shutil.rmtree(results / "own-card")
    assert common_size(table_of(results)) == 512, "naive is at 512 alone"
    tiled = table_of(results).query("rung == 'tiled'")
    assert common_size(tiled) == 1024, "the largest of equals"
    assert common_size(tiled.iloc[:0]) is None


def test_the_caption_says_which_gpus_their_drivers_when_and_which_sources_differ(results):
    driver = a_device().driver
    assert caption(table_of(results)).splitlines() == [
        f"h100-sxm: NVIDIA H100 80GB HBM3, driver {driver}, 2026-01-02",
        f"h200-sxm: NVIDIA H200, driver {driver}, 2026-01-02",
        f"own-card: NVIDIA Own Card, driver {driver}, 2026-02-03",
        "Not of the same source on all: tiled",
    ]


def test_the_title_names_the_best_rung_of_each_gpu(results):
    assert gpus_figure.figure(table_of(results), "cublas", {}).title == (
        "The best FP32 rung at 512: tiled 0.3 TFLOP/s on h200-sxm, tiled 0.1 TFLOP/s on h100-sxm, "
        "tiled 0.0 TFLOP/s on own-card"
    )


def test_each_gpus_points_stand_at_its_values(results):
    table = table_of(results)
    figure = gpus_figure.figure(table, "cublas", {})
    picture = draw(figure, "")
    at = table[(table["n"] == 512) & (table["rung"] == "tiled")].sort_values("gpu")
    metrics = {"gflops": 1e-3, "share_of_cublas": 100, "share_of_peak": 100}
    for axes, (column, factor) in zip(picture.axes, metrics.items(), strict=True):
        points = [tuple(place) for each in axes.collections[:1] for place in each.get_offsets()]
        own = sorted((y, x) for x, y in points if abs(y - figure.axes("FP32: TFLOP/s")[1].names.index("tiled")) < 0.5)
        assert [x for _, x in own] == pytest.approx(list(factor * at[column]))


def test_rungs_on_tensor_cores_have_panels_and_axes_of_their_own_and_their_class_in_their_label(results):
    table = table_of(results)
    fast = {"rung": "split", "precision": "3xtf32", "share_of_cublas": 3.3, "share_of_peak": float("nan")}
    figure = gpus_figure.figure(pd.concat([table, table.assign(**fast)], ignore_index=True), "cublas", {})
    shown = {panel: figure.axes(panel)[1].names for panel in figure.panels.options}
    of_fp32 = ["FP32: TFLOP/s", "FP32: % of cuBLAS", "FP32: % of FP32 peak"]
    assert {panel for panel, names in shown.items() if names == ["naive", "tiled"]} == set(of_fp32)
    assert {panel for panel, names in shown.items() if names == ["split (3xTF32)"]} == set(shown) - set(of_fp32)
    assert list(shown) == [*of_fp32, "Tensor cores: TFLOP/s", "Tensor cores: % of cuBLAS"]
    at = {axes.get_title(loc="left"): axes for axes in draw(figure, "").axes}
    assert at["FP32: % of cuBLAS"].get_xlim()[1] < 330 < at["Tensor cores: % of cuBLAS"].get_xlim()[1]


def test_every_gpu_has_a_line_in_each_rungs_panel(results):
    picture = draw(gpus_by_size.figure(table_of(results), {}), "")
    panels = {axes.get_title(loc="left"): axes for axes in picture.axes}
    assert list(panels) == ["naive", "tiled"]
    assert len({line.get_color() for line in panels["tiled"].lines}) == 3


def test_a_restricted_rung_is_told_apart_in_both_figures(results):
    claims = {"tiled": "beta = 0"}
    both = gpus_figure.figure(table_of(results), "cublas", claims), gpus_by_size.figure(table_of(results), claims)
    assert both[0].axes("FP32: TFLOP/s")[1].names == ["naive", "tiled (restricted)"]
    assert both[1].panels.options == ["naive", "tiled (restricted)"]


def test_shapes_that_are_no_squares_leave_a_table_and_empty_figures(tmp_path):
    record(tmp_path, "h100-sxm", "tiled", beside("tiled", "8x16x32", 1.0))
    table = table_of(tmp_path)
    assert len(table) == 1
    figure = gpus_figure.figure(table, "cublas", {})
    assert figure.title == "No rung is recorded at a square size"
    for empty in (figure, gpus_by_size.figure(table, {})):
        assert empty.empty in [text.get_text() for text in draw(empty, "").axes[0].texts]


def test_equal_records_give_equal_bytes(results, tmp_path):
    made = []
    for name in "12":
        folder = tmp_path / name
        folder.mkdir()
        table = table_of(results)
        write_table(table, folder / "gpus.csv")
        save(draw(gpus_figure.figure(table, "cublas", {}), ""), [folder / "gpus.svg", folder / "gpus.png"])
        save(draw(gpus_by_size.figure(table, {}), ""), [folder / "by_size.svg"])
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]


def test_what_git_keeps_is_of_the_records_that_git_keeps(tmp_path):
    run = plan({"gpu": RECORDED})
    table = across_table(ROOT / "results", run.rungs, None, run.baseline.name, run.first.name)
    write_table(table, tmp_path / "gpus.csv")
    kept = ROOT / "results/across/gpus.csv"
    assert (tmp_path / "gpus.csv").read_bytes() == kept.read_bytes(), "make run ARGS=evidence"
    named = {rung.name for rung in run.rungs if rung.role != "floor"}
    write_table(cards_table(ROOT / "results", named), tmp_path / "cards.csv")
    assert (tmp_path / "cards.csv").read_bytes() == kept.with_name("cards.csv").read_bytes(), "make run ARGS=evidence"


def test_the_target_sets_two_gpus_side_by_side_and_leaves_their_results_alone(tmp_path):
    project = copy_project(tmp_path / "project")
    for stage, ending in (("check", "json"), ("time", "zip")):
        folder = Path("results/h200-sxm/raw") / stage
        (project / folder).mkdir(parents=True)
        for rung in FEW_RUNGS:
            shutil.copy(ROOT / folder / f"{rung}.{ending}", project / folder)
    before = contents(project / "results")
    run = snakemake(project, FEW, "across")
    assert run.status == 0, run.output
    after = contents(project / "results")
    made = {"gpus.csv", "gpus.svg", "gpus.png", "gpus_by_size.svg", "gpus_by_size.png"}
    made |= {"cards.csv", "cards.svg", "cards.png"}
    assert set(after) - set(before) == {f"across/selected/{name}" for name in made}
    assert {name: after[name] for name in before} == before
    table = read_table(project / "results/across/selected/gpus.csv")
    assert set(table["gpu"]) == {RECORDED, "h200-sxm"}
    both = table[table["rung"] == "naive"].pivot(index="shape", columns="gpu", values="gflops")
    assert list(both.index) == ["1024", "512"]
    assert list(both[RECORDED] == both["h200-sxm"]) == [False, False]
    assert "Nothing to be done" in snakemake(project, FEW, "across").output
