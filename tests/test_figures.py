"""The figures: labels that stay apart, one look a rung, and the same bytes for the same tables."""

from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, a_timing, an_evidence
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder.model.shape import Shape
from ladder.show.by_size import all_figures, best_rung, by_size, square_rows
from ladder.show.style import LABEL_GAP, save, spread, styles
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from matplotlib.colors import to_rgb, to_rgba
from PIL import Image

NAMES = ["gflops_by_size", "share_of_cublas", "speedup_over_naive"]
CAPTION = "Recorded on a GPU, once"

gaps = st.floats(1e-3, 0.05)
small_gaps = st.floats(1e-3, 0.01)


def heights_between(low: float, high: float):
    return st.lists(st.floats(low, high), max_size=20).map(sorted)


# Labels


@settings(max_examples=100, deadline=None)
@given(heights_between(-0.5, 1.5), gaps)
def test_spread_heights_keep_their_number_order_and_gap_and_stay_inside(heights, gap):
    placed = spread(heights, gap)
    assert len(placed) == len(heights)
    assert all(above - below >= gap - 1e-9 for below, above in pairwise(placed))
    assert all(-1e-9 <= height <= 1 for height in placed)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=15), small_gaps, st.floats(0, 0.05))
def test_heights_that_are_apart_already_stay_exactly_where_they_are(steps, gap, start):
    heights = [start]
    for step in steps:
        heights.append(heights[-1] + gap * (1.001 + step))
    assert spread(heights, gap) == heights


@settings(max_examples=100, deadline=None)
@given(heights_between(0.4, 0.6), small_gaps)
def test_heights_with_room_around_stay_centred_on_where_they_were(heights, gap):
    assert sum(spread(heights, gap)) == pytest.approx(sum(heights), abs=1e-8)


@settings(max_examples=100, deadline=None)
@given(heights_between(-0.5, 1.5), gaps)
def test_spreading_twice_moves_nothing_more(heights, gap):
    once = spread(heights, gap)
    assert spread(once, gap) == pytest.approx(once, abs=1e-8)


@pytest.mark.parametrize(
    ("heights", "placed"),
    [
        ([], []),
        ([0.5, 0.5, 0.875], [0.375, 0.625, 0.875]),
        ([0.25, 0.5], [0.25, 0.5]),
        ([1.0, 1.0], [0.75, 1.0]),
        ([0.0, 0.0], [0.0, 0.25]),
        ([0.0, 0.75, 1.0, 1.0], [0.0, 0.5, 0.75, 1.0]),
    ],
)
def test_labels_that_collide_move_as_little_as_needed(heights, placed):
    assert spread(heights, 0.25) == placed


# Looks


def rungs_of(*names: str) -> pd.DataFrame:
    roles = {"empty": "floor", "cublas": "baseline"}
    return pd.DataFrame({"rung": names, "role": [roles.get(name, "rung") for name in names]})


def test_variants_share_their_entrys_colour_and_differ_in_their_markers():
    look = styles(rungs_of("cublas", "naive", "tiled@T=8", "coalesced", "tiled@T=16", "tiled@T=32"), "cublas")
    tiled = [look[f"tiled@T={tile}"] for tile in (8, 16, 32)]
    assert len({style["color"] for style in tiled}) == 1
    assert len({style["marker"] for style in tiled}) == 3
    assert len({look[name]["color"] for name in ("naive", "tiled@T=8", "coalesced")}) == 3


def test_the_baseline_is_black_dashed_and_without_markers():
    look = styles(rungs_of("naive", "cublas"), "cublas")
    assert look["cublas"] == {"color": "black", "marker": "None", "linestyle": "--"}
    assert look["naive"]["color"] != "black"
    assert look["naive"]["linestyle"] == "-"


def test_the_baseline_takes_no_colour_from_the_rungs():
    assert styles(rungs_of("naive", "cublas"), "cublas")["naive"] == styles(rungs_of("naive"), "cublas")["naive"]


def test_twenty_entries_look_different():
    look = styles(rungs_of(*(f"rung{index}" for index in range(20))), "cublas")
    del look["cublas"]
    assert len({(style["color"], style["linestyle"], style["marker"]) for style in look.values()}) == 20


def test_rungs_of_one_colour_differ_in_line_face_and_marker():
    look = styles(rungs_of(*(f"rung{index}" for index in range(20))), "cublas")
    del look["cublas"]
    for one, other in combinations(look.values(), 2):
        if one["color"] == other["color"]:
            assert one["marker"] != other["marker"]
            assert one["linestyle"] != other["linestyle"]


# Drawing


def evidence(sizes=("512", "1024", "100x200x300")):
    """Four rungs and the empty kernel, timed side by side; tiled is half as fast as cublas."""
    before = {"coalesced": "naive", "tiled": "coalesced"}
    times = {"cublas": 1.0, "naive": 40.0, "coalesced": 8.0, "tiled": 2.0}
    items = [an_evidence("empty", (a_timing("empty", "512", {"empty": [0.002]}),))]
    for name in times:
        factors = {size: (2.0 if size == "1024" else 1.0) for size in sizes}
        timings = [
            a_timing(name, size, {kernel: [time * factor, time * factor * 1.1] for kernel, time in times.items()})
            for size, factor in factors.items()
        ]
        items.append(an_evidence(name, tuple(timings), rung=a_rung(name, before=before.get(name))))
    return items


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Draws every figure of the evidence as the pipeline does: from tables on disk."""
    tmp_path = tmp_path_factory.mktemp("tables")

    def draw(items):
        made = all_tables(items, ROUND_GPU, "cublas", "naive")
        for name in ("timings", "rungs"):
            write_table(made[name], tmp_path / f"{name}.csv")
        timings, rungs = (read_table(tmp_path / f"{name}.csv") for name in ("timings", "rungs"))
        return all_figures(timings, rungs, "cublas", ROUND_GPU.peak_gflops, CAPTION)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
        yield draw


@pytest.fixture(scope="module")
def figures(drawn):
    """Every figure of the evidence, to be looked at."""
    return drawn(evidence())


def lines_of(figure) -> dict:
    """The line of each rung in a figure by its name."""
    (axes,) = figure.axes
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def texts_of(figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_every_figure_is_drawn_with_a_line_and_a_label_for_each_rung(figures):
    assert list(figures) == NAMES
    for figure in figures.values():
        assert set(lines_of(figure)) == {"cublas", "naive", "coalesced", "tiled"}
        assert {"cublas", "naive", "coalesced", "tiled"} <= set(texts_of(figure))
        assert CAPTION in [text.get_text() for text in figure.texts]


def sizes_of(figure) -> list[str]:
    (axes,) = figure.axes
    return [label.get_text() for label in axes.get_xticklabels()]


def test_only_square_products_stand_on_the_axis_of_sizes_each_at_its_place(figures):
    for figure in figures.values():
        assert sizes_of(figure) == ["512", "1024"]
        assert {tuple(line.get_xdata()) for line in lines_of(figure).values()} == {(0, 1)}


def test_a_rung_that_was_not_timed_at_every_size_stands_at_those_it_was(drawn):
    items = evidence()
    items[-1] = an_evidence("tiled", (items[-1].timings[Shape(1024, 1024, 1024)],), rung=items[-1].rung)
    figure = drawn(items)["gflops_by_size"]
    assert tuple(lines_of(figure)["tiled"].get_xdata()) == (1,)
    assert tuple(lines_of(figure)["naive"].get_xdata()) == (0, 1)


def test_a_rung_has_one_colour_in_every_figure(figures):
    for name in ("cublas", "naive", "coalesced", "tiled"):
        assert len({to_rgb(lines_of(figure)[name].get_color()) for figure in figures.values()}) == 1
    colours = [to_rgb(line.get_color()) for line in lines_of(figures["gflops_by_size"]).values()]
    assert len(set(colours)) == 4


def test_the_empty_kernel_takes_no_colour_from_the_rungs(figures, drawn):
    without = drawn(evidence()[1:])["gflops_by_size"]
    for name, line in lines_of(figures["gflops_by_size"]).items():
        assert lines_of(without)[name].get_color() == line.get_color()


def test_the_figures_show_the_numbers_of_the_tables(figures):
    rate = 2 * 512**3 / (2.0 * 1.05 * 1e-3) / 1e12
    assert lines_of(figures["gflops_by_size"])["tiled"].get_ydata()[0] == pytest.approx(rate, rel=1e-5)
    assert lines_of(figures["share_of_cublas"])["tiled"].get_ydata() == pytest.approx([50, 50])
    assert lines_of(figures["share_of_cublas"])["cublas"].get_ydata() == pytest.approx([100, 100])
    assert lines_of(figures["speedup_over_naive"])["tiled"].get_ydata() == pytest.approx([20, 20])


def test_each_title_says_the_figures_message(figures):
    titles = [figure.axes[0].get_title(loc="left") for figure in figures.values()]
    rate = 2 * 1024**3 / (4.0 * 1.05 * 1e-3) / 1e12
    assert titles == [
        f"tiled does {rate:.1f} TFLOP/s at 1024, {rate / 25.6:.0%} of the peak",
        "tiled comes to 50% of cuBLAS at 1024",
        "tiled is 20.0 times as fast as naive at 1024",
    ]


def test_the_peak_is_a_reference_line_inside_the_figure_of_rates(figures):
    figure = figures["gflops_by_size"]
    assert "FP32 peak 25.6 TFLOP/s" in texts_of(figure)
    assert figure.axes[0].get_ylim()[1] > 25.6
    assert any(list(line.get_ydata()) == [25.6, 25.6] for line in figure.axes[0].lines)


def test_the_share_of_cublas_names_the_baseline_of_a_class_that_has_its_own(drawn):
    items = evidence(("512",))
    assert drawn(items)["share_of_cublas"].axes[0].get_ylabel() == "% of cuBLAS"
    mine = an_evidence("mine", rung=a_rung("mine", role="baseline", precision="tf32"))
    label = drawn([*items, mine])["share_of_cublas"].axes[0].get_ylabel()
    assert label == "% of cuBLAS (TF32: of mine)"


def test_the_label_of_the_axis_stands_inside_the_figure_clear_of_the_numbers_beside_it(figures):
    for figure in figures.values():
        (axes,) = figure.axes
        label = axes.yaxis.label.get_window_extent()
        numbers = [text.get_window_extent().x0 for text in axes.get_yticklabels() if text.get_text()]
        assert 0 < label.x0 < label.x1 < min(numbers) - 2
        assert figure.get_window_extent().y0 < label.y0 < label.y1 < figure.get_window_extent().y1


def test_labels_of_lines_that_end_together_stand_apart(drawn):
    figure = drawn(evidence(("512",)))["share_of_cublas"]
    (axes,) = figure.axes
    heights = sorted(text.get_position()[1] for text in axes.texts)
    assert len(heights) == 4
    assert all(above - below >= LABEL_GAP - 1e-9 for below, above in pairwise(heights))


def test_the_figure_is_wide_enough_for_the_longest_label_and_the_axes_stay_as_they_are(drawn, figures):
    items = evidence()
    name = "tiled@" + ",".join(f"MACRO{index}={index}" for index in range(8))
    timings = [
        a_timing(name, size, {name: [2.0, 2.2], "cublas": [1.0, 1.1], "naive": [40.0, 44.0]})
        for size in ("512", "1024")
    ]
    figure = drawn([*items[:-1], an_evidence(name, tuple(timings), rung=a_rung(name))])["share_of_cublas"]
    (axes,) = figure.axes
    ends = [text.get_window_extent().x1 for text in axes.texts]
    assert len(ends) == 4
    assert max(ends) < figure.get_window_extent().x1
    wide = figures["share_of_cublas"]
    inches = [each.axes[0].get_position().width * each.get_figwidth() for each in (figure, wide)]
    assert inches[0] == pytest.approx(inches[1])
    assert figure.get_figwidth() > wide.get_figwidth()


def test_a_wrong_rung_is_not_drawn(drawn):
    items = evidence()
    wrong = an_evidence(
        "tiled", tuple(items[-1].timings.values()), check={"status": "failed", "message": "", "cases": []}
    )
    for figure in drawn([*items[:-1], wrong]).values():
        assert "tiled" not in lines_of(figure)
        assert "coalesced" in lines_of(figure)


def test_nothing_timed_still_draws_every_figure(drawn, tmp_path):
    figures = drawn([an_evidence(name, check=None) for name in ("cublas", "naive")])
    assert list(figures) == NAMES
    for name, figure in figures.items():
        assert lines_of(figure) == {}
        save(figure, [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"])
    titles = [figure.axes[0].get_title(loc="left") for figure in figures.values()]
    assert titles == ["Rate by size", "Share of cuBLAS by size", "Speedup over naive by size"]


def test_a_single_size_is_drawn(drawn, tmp_path):
    figures = drawn(evidence(("512",)))
    save(figures["gflops_by_size"], [tmp_path / "figure.png"])
    assert sizes_of(figures["gflops_by_size"]) == ["512"]
    assert tuple(lines_of(figures["gflops_by_size"])["tiled"].get_xdata()) == (0,)


def test_the_same_tables_give_the_same_bytes_whatever_the_readers_own_settings(figures, drawn, tmp_path):
    with mpl.rc_context({"svg.hashsalt": "other", "svg.fonttype": "none", "font.family": "monospace"}):
        again = drawn(evidence())
        for name in NAMES:
            save(again[name], [tmp_path / f"2/{name}.{ending}" for ending in ("svg", "png")])
    for name in NAMES:
        save(figures[name], [tmp_path / f"1/{name}.{ending}" for ending in ("svg", "png")])
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in "12")
    assert first == second
    assert len(first) == len({content for content in first.values() if len(content) > 1000}) == 6


def test_saving_a_figure_twice_gives_the_same_bytes(figures, tmp_path):
    paths = [tmp_path / f"{n}.{ending}" for n in (1, 2) for ending in ("svg", "png")]
    save(figures["share_of_cublas"], paths)
    assert paths[0].read_bytes() == paths[2].read_bytes()
    assert paths[1].read_bytes() == paths[3].read_bytes()


def test_a_saved_figure_says_nothing_of_when_and_with_what_it_was_made(figures, tmp_path):
    save(figures["gflops_by_size"], [tmp_path / "1.svg", tmp_path / "1.png"])
    assert "<dc:date>" not in (tmp_path / "1.svg").read_text()
    assert b"matplotlib" not in (tmp_path / "1.png").read_bytes().lower()


def test_few_colours_leave_greys_grey(figures, tmp_path):
    figure = figures["gflops_by_size"]
    save(figure, [tmp_path / "few.png"])
    figure.savefig(tmp_path / "all.png")
    drawn, saved = (np.asarray(Image.open(tmp_path / name).convert("RGB"), int) for name in ("all.png", "few.png"))
    grey = np.ptp(drawn, axis=2) <= 2
    assert grey.mean() > 0.5
    assert np.ptp(saved[grey], axis=1).max() <= 6
    assert np.abs(drawn - saved).mean() < 1
    assert len(Image.open(tmp_path / "few.png").getcolors()) <= 256


def test_no_grid_line_crosses_the_name_of_the_peak(figures):
    (text,) = [text for text in figures["gflops_by_size"].axes[0].texts if text.get_text().startswith("FP32 peak")]
    assert text.get_bbox_patch().get_facecolor() == to_rgba("white")
    line = figures["gflops_by_size"].axes[0].transData.transform((0, 25.6))[1]
    assert text.get_window_extent().y0 > line


# What the titles are made of


def timings(*rows) -> pd.DataFrame:
    columns = ["rung", "m", "n", "k", "gflops", "speedup_over_naive", "speedup_over_cublas"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(shape=[f"{row.m}x{row.n}x{row.k}" for row in table.itertuples()])


def test_the_best_rung_is_the_fastest_but_the_baseline_at_the_largest_square():
    table = timings(
        ("cublas", 1024, 1024, 1024, 900.0, 9.0, 1.0),
        ("naive", 1024, 1024, 1024, 100.0, 1.0, 0.1),
        ("tiled", 1024, 1024, 1024, 500.0, 5.0, 0.5),
        ("coalesced", 512, 512, 512, 700.0, 7.0, 0.7),
        ("coalesced", 4096, 4096, 1, 800.0, 8.0, 0.8),
    )
    assert best_rung(table, "cublas")["rung"] == "tiled"
    assert best_rung(table.assign(speedup_over_naive=float("nan")), "cublas")["rung"] == "tiled"
    assert best_rung(table[table["rung"] == "cublas"], "cublas") is None
    assert best_rung(timings(), "cublas") is None


def test_square_rows_are_sorted_by_rung_and_size():
    table = timings(("b", 2, 2, 2, 1, 1, 1), ("a", 4, 4, 4, 1, 1, 1), ("a", 2, 2, 2, 1, 1, 1), ("a", 2, 2, 3, 1, 1, 1))
    assert [(row.rung, row.n) for row in square_rows(table).itertuples()] == [("a", 2), ("a", 4), ("b", 2)]


def test_intervals_are_drawn_as_bands():
    table = timings(("naive", 2, 2, 2, 1, 5.0, 1), ("naive", 4, 4, 4, 1, 6.0, 1))
    table["speedup_over_naive_ci_low"], table["speedup_over_naive_ci_high"] = [4.0, 5.0], [7.0, 8.0]
    figure = by_size(
        table, rungs_of("naive"), "cublas", "speedup_over_naive", "title", "label", CAPTION, references={}, log=False
    )
    (band,) = figure.axes[0].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(0, 4), (0, 7), (1, 5), (1, 8)} <= corners
