"""Pages and figures that say why: made from tables alone, equal evidence gives equal bytes, gaps are said."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, a_timing, a_where, an_evidence, write
from ladder.build.occupancy import LIMITS
from ladder.config.gpus import read_gpu
from ladder.config.kernels import read_kernels
from ladder.model.metrics import value_of
from ladder.model.rung import TunedClass
from ladder.show.pages import by_work, markdown_table, number, own_words, page, pages_index, scaled
from ladder.show.style import save
from ladder.show.why import FIGURES, all_figures, compute_ceilings, issue_slots, loop_shares, rates, warp_limits
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import Profile
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.paper import load_pipe_wavefronts
from ladder.tables.rungs import rung_table
from ladder.tables.timings import largest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from pipeline import RECORDED as RECORDED_GPU
from test_diagnosis import RECORDED
from test_inspection import an_inspection


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tables, read back, of a rung with a profile and of one with nothing recorded; and an inspection."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
    inspection = an_inspection()
    for kernel in inspection["kernels"]:
        if kernel["code"]:
            kernel["code"] |= {"loop_sass": [f"{i:04x}  FFMA" for i in range(100)], "loop_ptx": ["fma.rn.f32"]}
    times = a_timing("naive", "1024", {"naive": [4.0], "cublas": [1.0]})
    items = [
        an_evidence("naive", (times,), inspection=inspection, profiles=RECORDED["naive"]),
        an_evidence("coalesced", check=None),
    ]
    folder = tmp_path_factory.mktemp("tables")
    for name, table in all_tables(items, ROUND_GPU, "cublas", "naive").items():
        write_table(table, folder / f"{name}.csv")
    monkeypatch.undo()
    return {path.stem: read_table(path) for path in folder.iterdir()}, inspection


def section(text: str, title: str) -> str:
    """What stands below a heading of a page, to the next heading of its kind."""
    return text.split(f"\n## {title}")[1].split("\n## ")[0]


def rows_of(text: str, head: str) -> list[dict[str, str]]:
    """The rows of the Markdown table whose first column has this head, by the heads of their columns."""
    lines = text[text.index(f"| {head} |") :].split("\n\n")[0].splitlines()
    titles, _, *rows = (line[2:-2].split(" | ") for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_a_page_has_the_words_the_numbers_the_limits_and_the_inner_loop(made):
    tables, inspection = made
    text = page(a_rung("naive"), inspection, tables)
    assert text == page(a_rung("naive"), inspection, tables)
    assert own_words(a_rung("naive")) in text
    assert rows_of(text, "m x n x k")[0]["median, ms"] == "4"
    assert rows_of(text, "limit")[0]["limit"] == "uncoalesced global loads"
    assert rows_of(text, "line")[0]["line"] == "kernels/sgemm/naive.cu:22"
    assert "... 40 lines ..." in text
    assert "fma.rn.f32" in text
    counted = {row["of the inner loop"] for row in rows_of(text, "of the inner loop")}
    assert {"FFMA, share of the issue slots", "FFMAs with a register-bank conflict"} <= counted
    assert any(name.startswith("LDS of ") for name in counted)


def test_a_page_prints_the_parameters_of_its_build(project):
    write(project / "kernels/sgemm/tiled.cu", "#ifndef BM\n#define BM 8\n#endif\n#ifndef BN\n#define BN 32\n#endif\n")
    tables = {name: table.iloc[:0] for name, table in all_tables([], ROUND_GPU, "cublas", "naive").items()}
    tables["rungs"] = rung_table([an_evidence("tiled@BN=64")])
    classes = (TunedClass(1.7e10, {"BM": "16"}), TunedClass(math.inf, {"BM": "128"}))

    def built(**changes):
        text = page(a_rung("tiled@BN=64", **changes), {"launches": {}}, tables)
        return [(row["products"], row["BM"], row["BN"]) for row in rows_of(text, "products")]

    assert built() == [("all", "8", "64")]
    assert built(tuned=classes[1:]) == [("all others", "128", "64")]
    assert built(tuned=classes) == [("below 1.7e+10 FLOP", "16", "64"), ("all others", "128", "64")]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([], []),
        ([("a", "", 1.0), ("b|c", math.nan, None)], ["| x | z |", "| --- | --- |", "| a | 1 |", "| b\\|c |  |", ""]),
    ],
)
def test_a_table_leaves_out_its_empty_columns(rows, lines):
    assert markdown_table(rows, ["x", "y", "z"]) == lines


def test_shapes_stand_in_the_order_of_their_work():
    table = pd.DataFrame({"shape": ["4096", "128", "64x64x1", "1000"], "value": range(4)})
    assert list(by_work(table)["shape"]) == ["64x64x1", "128", "1000", "4096"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2.6e6, "ns", (2.6, "ms")),
        (1.98e9, "hz", (1.98, "GHz")),
        (3.4e11, "byte/s", (340, "GB/s")),
        (2.5e9, "sector", (2500, "million sector")),
        (1280.0, "byte/cycle", (1280, "byte/cycle")),
        (12.5, "%", (12.5, "%")),
    ],
)
def test_metrics_have_units_that_read_well(value, unit, expected):
    number, written = scaled(value, unit)
    assert number == pytest.approx(expected[0])
    assert written == expected[1]


def a_page(recorded, name: str) -> str:
    """The page of a recorded rung, without an inspection."""
    ladder = read_kernels(ROOT / "config/kernels.yaml")
    return page(ladder[name], {"launches": {}, "kernels": []}, recorded[1])


def test_a_page_has_the_resources_and_what_limits_them(recorded):
    (row,) = rows_of(section(a_page(recorded, "tiled@TILE=32"), "Resources at 4096"), "kernel")
    assert row["registers a thread"] == "32"
    assert row["occupancy, %"] == "100"
    assert row["limited by"]


def test_ceilings_are_of_one_way_of_counting(recorded):
    paper = recorded[1]["paper"]
    naive = paper[paper["rung"] == "naive"]
    assert set(naive["wavefronts_from"]) == {"profile", "code"}
    profiled = [row["m x n x k"] for row in rows_of(section(a_page(recorded, "naive"), "On paper"), "m x n x k")]
    assert set(profiled) == set(naive["shape"])
    ceilings = section(a_page(recorded, "naive"), "On paper").partition("Ceilings")[2]
    assert {row["m x n x k"] for row in rows_of(ceilings, "m x n x k")} == {"2048", "4096"}
    unprofiled = paper.assign(wavefronts_from="code")
    ceilings = section(a_page((None, recorded[1] | {"paper": unprofiled}), "naive"), "On paper").partition("Ceilings")[
        2
    ]
    assert {row["m x n x k"] for row in rows_of(ceilings, "m x n x k")} == set(naive["shape"])


def changes(recorded, name: str) -> dict[str, tuple[str, ...]]:
    """What a page says has changed since the rung before: there, here, of what, and whether that is better."""
    rows = rows_of(section(a_page(recorded, name), "Against"), "at 4096")
    return {row.pop("at 4096"): tuple(row.values()) for row in rows}


def test_a_page_says_what_changed_from_the_rung_before(recorded):
    slots = "the issue slots"
    found = changes(recorded, "tiled_2d")
    assert found["MIO queue (shared memory)"][2:] == (slots, "better")
    assert found["FFMA"][2:] == (slots, "better")
    assert found["bank conflicts in shared loads"][::2] == ("none", "the load/store pipe's cycles")
    assert changes(recorded, "conflict_free@LAYOUT=1")["bank conflicts in shared stores"][1::2] == ("none", "better")
    then, now, of, verdict = changes(recorded, "coalesced")["uncoalesced global loads"]
    assert (int(then.split()[0]) > 90, now, of, verdict) == (True, "less than 3 %", slots, "better")


def test_shares_are_compared_with_shares_of_the_same_alone(recorded):
    assert changes(recorded, "wgmma_3xtf32")["tensor cores"][2:] == ("the tensor pipe's cycles", "better")
    own = {"FFMA", "tensor cores", *recorded[1]["diagnosis"].query("of == 'the issue slots'")["finding"]}
    text = section(a_page(recorded, "mma_3xtf32"), "Against")  # a rung on FP32 units is before it
    assert not own & {line.split(" | ")[0].strip("| ") for line in text.splitlines()}


def test_a_page_of_a_rung_on_tensor_cores_says_what_limits_it_and_what_its_other_kernels_cost(made):
    profiles = {"2048": RECORDED["wgmma_3xtf32"]["2048"] | {"where": a_where()}}
    item = an_evidence("naive", inspection=made[1], profiles=profiles)
    text = page(a_rung("naive"), made[1], all_tables([item], ROUND_GPU, "cublas", "naive"))
    first, *others = rows_of(text, "limit")
    assert (first["limit"], first["share of"]) == ("tensor cores", "the tensor pipe's cycles")
    assert others[-1]["share of"] == "the kernel's time"
    (other,) = (row for row in rows_of(section(text, "Profile"), "kernel") if row["kernel"] == "split_lines")
    assert 0 < float(other["of the time"].rstrip("%")) < 50
    advice = section(text, "Nsight Compute's advice")
    assert "CPIStall" in advice or "Barrier Stalls" in advice
    assert "Occupancy" not in advice  # that is advice on split_lines


def test_a_page_shows_the_stalls_most_first_and_no_empty_ones(recorded):
    rows = rows_of(a_page(recorded, "tiled@TILE=32"), "a warp's state between two instructions")
    cycles = [float(row["cycles"].replace(",", "")) for row in rows]
    assert rows[0]["a warp's state between two instructions"] == "mio throttle"
    assert cycles == sorted(cycles, reverse=True)
    assert min(cycles) > 0
    assert all(row["what it waits for"] for row in rows)


def test_every_metric_of_a_page_says_what_it_is(recorded):
    rows = [
        row
        for text in section(a_page(recorded, "naive"), "Profile").split("### ")[1:]
        for row in rows_of(text, "metric")
    ]
    named = {name.replace("_", " ") for name in recorded[1]["profiles"]["name"] if not name.startswith("stall_")}
    assert {row["metric"] for row in rows} == named
    assert all(row["what it is"] for row in rows)


def test_the_index_sets_the_rungs_side_by_side(recorded):
    ladder = read_kernels(ROOT / "config/kernels.yaml")
    text = pages_index([rung for rung in ladder.values() if rung.role != "floor"], recorded[1])
    head = next(line for line in text.splitlines() if line.startswith("| metric | unit |"))
    profiled = set(recorded[1]["profiles"]["rung"])
    assert {"naive", "coalesced", "tiled@TILE=32"} <= profiled
    assert {cell.strip() for cell in head.split("|")} == {"", "metric", "unit", *profiled}
    assert "| stall MIO throttle | cycles |" in text


def test_a_page_without_records_says_so(made):
    text = page(a_rung("coalesced"), {"launches": {}, "kernels": []}, made[0])
    for title in ("Benchmark", "What limits it"):
        assert section(text, title).strip().count("\n") == 0, title


def test_the_index_links_every_page(made):
    text = pages_index([a_rung("naive"), a_rung("coalesced")], made[0])
    naive, coalesced = rows_of(text, "rung")
    assert (naive["rung"], coalesced["rung"]) == ("[naive](naive.md)", "[coalesced](coalesced.md)")
    assert naive["first limit"].startswith("uncoalesced global loads, ")
    assert not coalesced["first limit"]


def test_every_figure_is_drawn_and_equal_evidence_gives_equal_bytes(made, tmp_path):
    for folder in ("1", "2"):
        for name, figure in all_figures(made[0], ROUND_GPU, "cublas", "recorded", ["naive", "coalesced"]).items():
            save(figure, [tmp_path / folder / f"{name}.svg"])
    first = {path.name: path.read_bytes() for path in (tmp_path / "1").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "2").iterdir()}
    assert len(first) == 5


@pytest.fixture(scope="module")
def recorded():
    """The figures of the recorded GPU, laid out."""
    gpu, folder = read_gpu(RECORDED_GPU), ROOT / "results" / RECORDED_GPU / "tables"
    tables = {path.stem: read_table(path) for path in folder.glob("*.csv")}
    figures = all_figures(tables, gpu, "cublas", "recorded", [])
    for figure in figures.values():
        FigureCanvasAgg(figure).draw()
    return figures, tables


@pytest.mark.parametrize("name", FIGURES)
def test_every_text_and_mark_of_a_figure_stands_inside_it(recorded, name):
    figure = recorded[0][name]
    (axes,) = figure.axes
    frame = figure.get_window_extent()
    ticks = {label for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels(which="both")}
    texts = [text for text in figure.findobj(Text) if text.get_text() and text not in ticks]
    texts += axes.get_yticklabels() if name != "roofline" else []
    boxes = {text.get_text(): text.get_window_extent() for text in texts}
    assert [text for text, box in boxes.items() if box.x0 < 0 or box.x1 > frame.x1 - 3 or box.y0 < -2] == []
    low, high = axes.get_xlim()
    clipped = [line for line in axes.lines if line.get_transform() == axes.transData]
    places = np.concatenate([np.atleast_1d(line.get_xdata()).astype(float) for line in clipped] or [np.array([low])])
    assert np.nanmin(places) >= low * (1 - 1e-9)
    assert np.nanmax(places) <= high * (1 + 1e-9)


def test_a_rung_without_shared_memory_has_no_limit_by_it(recorded):
    found = warp_limits(recorded[1]["resources"], "4096")
    assert math.isnan(found.loc["naive", "shared memory"])
    assert found.loc["tiled@TILE=32", "shared memory"] > 0
    assert (found["held"] <= found[list(LIMITS)].min(axis=1)).all()


def test_the_mix_is_of_the_kernel_that_the_shape_launches(recorded):
    table = recorded[1]["instructions"]
    for shape in ("512", "4096"):
        mix = loop_shares(table, shape)
        assert mix.index.is_unique
        assert mix.sum(axis=1).to_numpy() == pytest.approx(100)
    assert loop_shares(table, "512").loc["tiled_2d", "FFMA"] != loop_shares(table, "4096").loc["tiled_2d", "FFMA"]


def test_a_profile_says_how_often_the_load_pipe_works_for_an_uncoalesced_load():
    profile = Profile(RECORDED["naive"]["2048"]["kernels"][0]["metrics"])
    # A warp's FFMA needs one element of B, the same for all lanes, and 32 of A that lie in 32 lines.
    assert profile.wavefronts_per_ffma(132) == pytest.approx(33, rel=0.01)
    assert load_pipe_wavefronts(None, 33.0) == {"wavefronts_per_ffma": 33.0, "wavefronts_from": "profile"}


def test_without_profiles_the_figures_say_so(made, tmp_path):
    empty = made[0] | {name: made[0][name].iloc[:0] for name in ("profiles", "slots", "instructions", "paper")}
    assert len(all_figures(empty, ROUND_GPU, "cublas", "recorded", [])) == 5
    texts = [text.get_text() for text in issue_slots(empty["slots"], "").axes[0].texts]
    assert texts == ["No profile is recorded."]


def test_the_roofline_takes_rates_and_bytes_from_the_profile(made):
    found = rates(made[0]["profiles"], "2048").loc["naive"]
    metrics = RECORDED["naive"]["2048"]["kernels"][0]["metrics"]
    flop = 2 * 2048**3
    assert found["flops"] == pytest.approx(flop / (value_of(metrics, "duration") * 1e-9), rel=0.02)
    assert 2e12 < found["dram_peak"] < 4e12


def test_ceilings_are_the_gpu_files_the_measured_clocks_and_the_ffma_kernels():
    timings = pd.DataFrame(
        {
            "rung": ["naive", "ffma"],
            "shape": ["1000", "1000"],
            "sm_clock_mhz": [500.0, 500.0],
            "m": [1000] * 2,
            "n": [1000] * 2,
            "k": [1000] * 2,
            "time_ms_median": [1.0, 0.1],
        }
    )
    found = compute_ceilings(timings, ROUND_GPU, "1000")
    assert list(found.values()) == pytest.approx([25.6e12, 12.8e12, 20e12])


def test_the_largest_shape_is_the_largest_square():
    assert largest(["512", "4096", "64x8192x8192"]) == "4096"
    assert largest([]) == ""


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (0.12345, "0.1235"), (float("nan"), ""), ("x", "x")])
def test_numbers_of_pages_are_short(value, text):
    assert number(value) == text
