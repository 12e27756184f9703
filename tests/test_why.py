"""The figures that say why, and every figure of the recorded GPU: no text on another, and the numbers of the tables."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU
from ladder.build.occupancy import LIMITS
from ladder.config.plan import plan
from ladder.show.figures import accuracy, by_size, gpus, gpus_by_size, published, tuning, why
from ladder.show.figures.instruction_mix import loop_shares
from ladder.show.figures.occupancy_limits import warp_limits
from ladder.show.figures.roofline import compute_ceilings, rates
from ladder.show.static import draw
from ladder.show.style import MOST
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from ladder.tables.hardware import measured_ceilings
from matplotlib.text import Text
from pipeline import RECORDED

NAMES = ("intensity", "roofline", "issue_slots", "instruction_mix", "occupancy_limits", "prediction", "predicted")
LINES = ("gflops_by_size", "share_of_cublas", "speedup_over_naive")
OTHERS = ("accuracy", "published", "gpus", "gpus_by_size", "tuning")


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    folder = ROOT / "results" / RECORDED / "tables"
    return {path.stem: read_table(path) for path in folder.glob("*.csv")}


@pytest.fixture(scope="module")
def figures(tables):
    """Every figure of the recorded GPU, and those of all GPUs."""
    run = plan({"gpu": RECORDED, "measure": False})
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    across = read_table(ROOT / "results/across/gpus.csv")
    rungs = tables["rungs"]
    return {
        **why.figures(tables, run.gpu, "cublas", ladder),
        **by_size.figures(tables["timings"], rungs, "cublas", run.gpu.peak_gflops, ladder),
        "accuracy": accuracy.figure(tables["accuracy"], rungs, "cublas", ladder),
        "published": published.figure(tables["published"], list(rungs["rung"])),
        "gpus": gpus.figure(across, "cublas", {}),
        "gpus_by_size": gpus_by_size.figure(across, {}),
        "tuning": tuning.figure(tables["trials"]),
    }


def boxes_of(picture) -> list[tuple[str, object]]:
    """Every text that is seen, and where."""
    seen = []
    for text in picture.findobj(Text):
        if text.get_text() and text.get_visible():
            seen.append((text.get_text(), text.get_window_extent()))
    for axes in picture.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                label = (tick.label1.get_text(), tick.label1.get_window_extent())
                shown = tick.label1.get_visible() and min(low, high) <= tick.get_loc() <= max(low, high)
                seen = [each for each in seen if shown or each[0] != label[0] or each[1].bounds != label[1].bounds]
    return seen


@pytest.mark.parametrize("name", [*NAMES, *LINES, *OTHERS])
def test_every_text_of_a_figure_stands_inside_it_and_on_no_other(figures, name):
    assert_legible(draw(figures[name], "recorded"))


def assert_legible(picture) -> None:
    """Every text stands inside the picture and on no other."""
    frame = picture.get_window_extent()
    seen = boxes_of(picture)
    assert len(seen) > 10
    for text, box in seen:
        assert frame.x0 - 1 <= box.x0 < box.x1 <= frame.x1 + 1, text
        assert frame.y0 - 1 <= box.y0 < box.y1 <= frame.y1 + 1, text
    for (one, first), (other, second) in combinations(seen, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(wide, high) <= 3, f"{one!r} and {other!r}"


@pytest.mark.parametrize("name", LINES)
def test_no_panel_has_more_lines_than_a_reader_can_follow(figures, name):
    figure = figures[name]
    for panel in figure.panels.options:
        rungs = set(figure.rows(figure.layers[-1], panel)["rung"])
        assert "cublas" in rungs
        assert len(rungs) <= MOST + 1


@pytest.mark.parametrize("name", NAMES)
def test_every_mark_stands_inside_its_axes(figures, name):
    for axes in draw(figures[name], "").axes:
        (left, right), (bottom, top) = axes.get_xlim(), sorted(axes.get_ylim())
        marks = [place for each in axes.collections for place in each.get_offsets()]
        marks += [(bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in axes.patches]
        assert marks
        assert all(left <= x <= right * 1.001 and bottom <= y <= top for x, y in marks)


def test_stacked_bars_end_where_the_parts_of_a_rung_add_up(figures, tables):
    axes, _ = draw(figures["issue_slots"], "").axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    at = tables["slots"][tables["slots"]["shape"] == "4096"].set_index(["rung", "use"])["percent"]
    bars = [bar for bar in axes.patches if bar.get_width() > 0]
    for rung in ("naive", "tma"):
        own = [bar for bar in bars if abs(bar.get_y() + bar.get_height() / 2 - names.index(rung)) < 0.1]
        assert max(bar.get_x() + bar.get_width() for bar in own) == pytest.approx(100, abs=0.5)
        assert min(own, key=lambda bar: bar.get_x()).get_width() == pytest.approx(at[rung, "FFMA"], rel=1e-3)


def test_a_rung_without_shared_memory_has_no_limit_by_it(tables):
    found = warp_limits(tables["resources"], "4096")
    assert math.isnan(found.loc["naive", "shared memory"])
    assert found.loc["tiled@TILE=32", "shared memory"] > 0
    assert (found["held"] <= found[list(LIMITS)].min(axis=1)).all()


def test_the_mix_is_of_the_kernel_that_the_shape_launches(tables):
    table = tables["instructions"]
    for shape in ("512", "4096"):
        mix = loop_shares(table, shape)
        assert mix.index.is_unique
        assert mix.sum(axis=1).to_numpy() == pytest.approx(100)
    assert loop_shares(table, "512").loc["tiled_2d", "FFMA"] != loop_shares(table, "4096").loc["tiled_2d", "FFMA"]


def test_without_profiles_the_figures_say_so(tables):
    empty = tables | {
        name: tables[name].iloc[:0] for name in ("profiles", "slots", "instructions", "paper", "predictions")
    }
    found = why.figures(empty, ROUND_GPU, "cublas", [])
    assert tuple(found) == NAMES
    for name in ("roofline", "issue_slots"):
        texts = [text.get_text() for text in draw(found[name], "").axes[0].texts]
        assert texts == ["No profile is recorded."]


def test_the_roofline_takes_rates_and_bytes_from_the_profile(tables):
    profiles = tables["profiles"]
    found = rates(profiles, "2048").loc["tma"]
    own = profiles[(profiles["rung"] == "tma") & (profiles["shape"] == "2048") & profiles["multiplies"]]
    seconds = float(own.set_index("name")["value"]["duration"]) * 1e-9
    assert found["flops"] == pytest.approx(2 * 2048**3 / seconds, rel=0.02)
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


def test_the_figure_of_trials_shows_the_parameters_that_matter_most(tables):
    panels = [panel.split(": ") for panel in tuning.figure(tables["trials"]).panels.options]
    assert len({rung for rung, _ in panels}) == len(panels) == tuning.MOST_PANELS
    assert ["tma", "BN"] in panels


def test_of_parameters_that_change_together_one_is_shown():
    rows = pd.DataFrame({"shape": "64", "share": [100.0, 40.0, 70.0, 30.0]})
    macros = pd.DataFrame({"BM": [1, 2, 1, 2], "BN": [8, 16, 8, 16], "TM": [1, 1, 2, 2], "TN": [4] * 4})
    assert tuning.influences(rows, macros) == [("BM", 60.0, "64"), ("TM", 30.0, "64")]
    assert np.isclose(rows["share"].max(), 100)


def test_the_titles_say_what_the_tables_hold(figures, tables):
    slots, paper, profiles = tables["slots"], tables["paper"], tables["profiles"]
    ffma = slots[(slots["shape"] == "4096") & (slots["use"] == "FFMA") & (slots["rung"] != "ffma")]
    best = ffma.loc[ffma["percent"].idxmax()]
    title = f"{best['rung']} fills {best['percent']:.0f} % of its issue slots with FFMAs at 4096"
    assert figures["issue_slots"].title == title
    shares = paper.loc[paper["shape"] == "8192", "share_of_prediction"].dropna()
    reached = (
        f"Rungs reach {100 * shares.min():.0f} % to {100 * shares.max():.0f} % of their lowest ceiling on paper at 8192"
    )
    assert figures["prediction"].title == reached
    resources = tables["resources"]
    main = resources[(resources["shape"] == "8192") & resources["multiplies"] & resources["blocks_per_sm"].notna()]
    by_registers = main[main["occupancy_limited_by"].str.contains("registers") & (main["occupancy_percent"] < 90)]
    count, every = by_registers["rung"].nunique(), main["rung"].nunique() - 1  # ffma is no rung
    assert figures["occupancy_limits"].title == f"Registers keep {count} of {every} rungs from filling an SM at 8192"
    fp32 = set(tables["rungs"].loc[tables["rungs"]["precision"] == "fp32", "rung"])
    at = rates(profiles[profiles["rung"].isin(fp32)], "4096")
    bandwidths = measured_ceilings(tables["hardware"])  # GB/s
    used = [(at[level.lower()] / bandwidths[level] / 1e9).max() for level in ("L2", "DRAM")]
    assert figures["roofline"].title.startswith(
        f"FP32 rungs take at most {100 * used[0]:.0f} % of L2's bandwidth and {100 * used[1]:.0f} %"
    )
