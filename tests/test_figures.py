"""The figures: labels that stay apart, one look a rung, and the same bytes for the same tables."""

from dataclasses import replace
from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, a_timing, an_evidence
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder.model.shape import Shape
from ladder.show import interactive
from ladder.show.dark import PAGE, for_both, on_dark
from ladder.show.figures import by_size
from ladder.show.figures.by_size import best_rung, irregular
from ladder.show.figures.specification import Axis, Key, Layer, Specification, apart, one_of, size_axis
from ladder.show.static import draw, save, spread
from ladder.show.style import MOST, families, rung_key
from ladder.system.paths import ROOT
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.timings import square_rows
from matplotlib.colors import to_rgb
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
    return pd.DataFrame({"rung": names, "role": [roles.get(name, "rung") for name in names], "precision": "fp32"})


def test_variants_share_their_entrys_colour_and_differ_in_their_markers():
    key = rung_key(rungs_of("cublas", "naive", "tiled@T=8", "coalesced", "tiled@T=16", "tiled@T=32"), "cublas")
    tiled = [f"tiled@T={tile}" for tile in (8, 16, 32)]
    assert len({key.colors[name] for name in tiled}) == 1
    assert len({key.markers[name] for name in tiled}) == 3
    assert len({key.colors[name] for name in ("naive", "tiled@T=8", "coalesced")}) == 3


def test_the_baseline_is_black_and_dashed_and_takes_no_colour_from_the_rungs():
    key = rung_key(rungs_of("naive", "cublas"), "cublas")
    assert (key.colors["cublas"], bool(key.dashes["cublas"])) == ("black", True)
    assert (key.colors["naive"] != "black", bool(key.dashes["naive"])) == (True, False)
    assert key.colors["naive"] == rung_key(rungs_of("naive"), "cublas").colors["naive"]


def test_a_floor_in_the_table_changes_no_colour():
    with_floor = rung_key(rungs_of("empty", "cublas", "other", "naive"), "cublas", ["naive"])
    assert with_floor == rung_key(rungs_of("cublas", "other", "naive"), "cublas", ["naive"])


def test_rungs_of_one_colour_differ_in_line_and_marker():
    key = rung_key(rungs_of(*(f"rung{index}" for index in range(20))), "cublas")
    names = [name for name in key.colors if name != "cublas"]
    assert len(names) == 20
    for one, other in combinations(names, 2):
        if key.colors[one] == key.colors[other]:
            assert key.markers[one] != key.markers[other]
            assert key.dashes[one] != key.dashes[other]


def test_no_two_rungs_have_marker_and_dash_in_common():
    variants = [f"tiled@T={tile}" for tile in range(5)]
    key = rung_key(rungs_of("cublas", "naive", *variants, *(f"rung{index}" for index in range(20))), "cublas")
    marks = {name: (key.markers[name], key.dashes[name]) for name in key.colors}
    assert len(marks) == 27
    assert len(set(marks.values())) == 27


def test_families_keep_fp32_apart_from_tensor_cores_and_hold_no_more_rungs_than_a_reader_can_follow():
    rungs = rungs_of("cublas", "first", *(f"rung{index}" for index in range(MOST)), "last", "fast")
    rungs.loc[rungs["rung"] == "last", "precision"] = "tf32"
    found = families(rungs, "cublas")
    assert list(found) == ["FP32: first to rung2", "FP32: rung3 to fast", "Tensor cores: last"]
    assert all(names[-1] == "cublas" and len(names) <= MOST + 1 for names in found.values())
    assert [name for names in found.values() for name in names[:-1]] == [
        *("first", *(f"rung{index}" for index in range(MOST)), "fast"),
        "last",
    ]


def test_the_lines_of_one_panel_have_a_colour_each():
    rungs = rungs_of("cublas", *(f"rung{index}" for index in range(24)))
    key = rung_key(rungs, "cublas")
    for names in families(rungs, "cublas").values():
        assert len({key.colors[name] for name in names}) == len(names)


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
def specified(tmp_path_factory):
    """Specifies every figure of the evidence as the pipeline does: from tables on disk."""
    tmp_path = tmp_path_factory.mktemp("tables")

    def specify(items):
        made = all_tables(items, ROUND_GPU, "cublas", "naive")
        for name in ("timings", "rungs"):
            write_table(made[name], tmp_path / f"{name}.csv")
        timings, rungs = (read_table(tmp_path / f"{name}.csv") for name in ("timings", "rungs"))
        return by_size.figures(timings, rungs, "cublas", ROUND_GPU.peak_gflops)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ladder.tables.evidence.source_digest", lambda rung: "source-1")
        yield specify


@pytest.fixture(scope="module")
def figures(specified):
    """Every figure of the evidence."""
    return specified(evidence())


def lines_of(figure: Specification) -> dict:
    """The line of each rung in the picture of a figure with one panel, by its name."""
    (axes,) = draw(figure, CAPTION).axes
    key = figure.layers[-1].key
    return {
        name: line
        for name in key.colors
        for line in axes.lines
        if (to_rgb(line.get_color()), line.get_marker()) == (to_rgb(key.colors[name]), key.markers[name])
        and line.get_transform() == axes.transData
    }


def places(line) -> tuple[float, ...]:
    """Where the points of a line stand, from the left."""
    return tuple(float(place) for place in np.round(line.get_xdata(), 6))


def texts_of(picture) -> list[str]:
    return [text.get_text() for place in (picture, *picture.axes) for text in place.texts]


def test_every_figure_is_drawn_with_a_line_and_a_label_for_each_rung(figures):
    assert list(figures) == NAMES
    for figure in figures.values():
        assert set(lines_of(figure)) == {"cublas", "naive", "coalesced", "tiled"}
        texts = texts_of(draw(figure, CAPTION))
        assert {"cublas", "naive", "coalesced", "tiled", CAPTION, figure.title} <= set(texts)
        assert figure.note.replace("\n", " ") in [text.replace("\n", " ") for text in texts]


def sizes_of(figure: Specification) -> list[str]:
    return [label.get_text() for label in draw(figure, CAPTION).axes[0].get_xticklabels()]


def test_only_square_products_stand_on_the_axis_of_sizes_each_at_its_place(figures):
    for figure in figures.values():
        assert sizes_of(figure) == ["512", "1024"]
        assert {places(line) for line in lines_of(figure).values()} == {(512, 1024)}


def test_sizes_that_lie_side_by_side_share_a_tick_that_names_both():
    assert list(size_axis([4096, 512, 4095, 512]).ticks.values()) == ["512", "4095\n4096"]
    assert list(size_axis([128, 256, 512, 1024, 8192], apart=4).ticks.values()) == ["128", "512", "8192"]
    assert size_axis([]).ticks == {}


def test_a_rung_that_was_not_timed_at_every_size_stands_at_those_it_was(specified):
    items = evidence()
    items[-1] = an_evidence("tiled", (items[-1].timings[Shape(1024, 1024, 1024)],), rung=items[-1].rung)
    lines = lines_of(specified(items)["gflops_by_size"])
    assert places(lines["tiled"]) == (1024,)
    assert places(lines["naive"]) == (512, 1024)


def test_the_empty_kernel_takes_no_colour_from_the_rungs(figures, specified):
    without = specified(evidence()[1:])["gflops_by_size"]
    assert without.layers[-1].key == figures["gflops_by_size"].layers[-1].key


def test_the_figures_show_the_numbers_of_the_tables(figures):
    rate = 2 * 512**3 / (2.0 * 1.05 * 1e-3) / 1e12
    assert lines_of(figures["gflops_by_size"])["tiled"].get_ydata()[0] == pytest.approx(rate, rel=1e-5)
    assert lines_of(figures["share_of_cublas"])["tiled"].get_ydata() == pytest.approx([50, 50])
    assert lines_of(figures["share_of_cublas"])["cublas"].get_ydata() == pytest.approx([100, 100])
    assert lines_of(figures["speedup_over_naive"])["tiled"].get_ydata() == pytest.approx([20, 20])


def test_each_title_says_the_figures_message(figures):
    rate = 2 * 1024**3 / (4.0 * 1.05 * 1e-3) / 1e12
    assert [figure.title for figure in figures.values()] == [
        f"tiled does {rate:.1f} TFLOP/s at 1024, {100 * rate / 25.6:.0f} % of the peak",
        "tiled comes to 50 % of cuBLAS at 1024",
        "tiled is 20.0 times as fast as naive at 1024",
    ]


def test_the_peak_is_a_reference_line_inside_the_figure_of_rates(figures):
    (axes,) = draw(figures["gflops_by_size"], CAPTION).axes
    assert any(list(line.get_ydata()) == [25.6, 25.6] for line in axes.lines)
    assert axes.get_ylim()[1] > 25.6
    assert "25.6 TFLOP/s" in figures["gflops_by_size"].note


def test_the_share_of_cublas_names_the_baseline_of_a_class_that_has_its_own(specified):
    items = evidence(("512",))
    assert "cuBLAS is of cublas," in specified(items)["share_of_cublas"].note
    mine = an_evidence("mine", rung=a_rung("mine", role="baseline", precision="tf32"))
    assert "cuBLAS is of mine for TF32, of cublas for" in specified([*items, mine])["share_of_cublas"].note


def test_labels_of_lines_that_end_together_stand_apart(specified):
    picture = draw(specified(evidence(("512",)))["share_of_cublas"], CAPTION)
    boxes = sorted((text.get_window_extent() for text in picture.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(above.y0 >= below.y1 - 2 for below, above in pairwise(boxes))


def test_the_longest_label_stands_inside_the_figure(specified):
    items = evidence()
    name = "tiled@" + ",".join(f"MACRO{index}={index}" for index in range(4))
    timings = [
        a_timing(name, size, {name: [2.0, 2.2], "cublas": [1.0, 1.1], "naive": [40.0, 44.0]})
        for size in ("512", "1024")
    ]
    figure = specified([*items[:-1], an_evidence(name, tuple(timings), rung=a_rung(name))])["share_of_cublas"]
    picture = draw(figure, CAPTION)
    ends = [text.get_window_extent().x1 for text in picture.axes[0].texts]
    assert len(ends) == 4
    assert max(ends) < picture.get_window_extent().x1


def test_the_other_families_lie_in_grey_behind_and_widen_no_axis():
    rows = pd.DataFrame({"rung": ["a", "a", "b", "b"], "n": [1, 2, 1, 8], "value": [1.0, 2.0, 50.0, 90.0]})
    key = Key("rung", {"a": "#332288"}, {"a": "o"}, direct=True)
    own = Layer("line", rows[:2], "n", "value", key=key)
    alone = Specification("title", "", [own], Axis(), Axis())
    both = replace(alone, layers=[Layer("line", rows, "n", "value", group="rung", behind=True), own])
    (first,), (second,) = draw(alone, "").axes, draw(both, "").axes
    assert (first.get_xlim(), first.get_ylim()) == (second.get_xlim(), second.get_ylim())
    grey = [line for line in second.lines if list(line.get_ydata()) == [50.0, 90.0]]
    assert len({to_rgb(line.get_color()) for line in grey}) == 1
    assert np.ptp(to_rgb(grey[0].get_color())) == 0


def test_behind_each_familys_lines_lie_those_of_all_other_families_in_grey_on_paper_alone():
    tables = [read_table(ROOT / f"results/h100-sxm/tables/{name}.csv") for name in ("timings", "rungs")]
    for figure in by_size.figures(*tables, "cublas", 66900.0).values():
        grey, own = figure.layers[1:]
        assert (grey.behind, own.behind) == (True, False)
        for panel in figure.panels.options:
            rungs = set(figure.rows(own, panel)["rung"])
            assert 1 < len(rungs) <= MOST + 1
            assert set(figure.rows(grey, panel)["other"]) == set(own.data["rung"]) - rungs
        charts = interactive.charts(figure).values()
        drawn = [row for chart in charts for rows in chart["datasets"].values() for row in rows]
        assert drawn
        assert not any("other" in row for row in drawn)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=2, max_size=20))
def test_marks_are_moved_sideways_until_none_covers_another(places):
    rows = pd.DataFrame(places, columns=["x", "y"])
    axis = Axis(scale="log", limits=(1, 1000))
    moved = np.log(apart(rows, "x", "y", axis, axis, width=0.02, height=0.04)) / np.log(1000)
    heights = np.log(rows["y"]) / np.log(1000)
    for one, other in combinations(range(len(rows)), 2):
        assert abs(heights[one] - heights[other]) >= 0.04 or abs(moved[one] - moved[other]) >= 0.019
    assert moved[0] == pytest.approx(np.log(rows["x"][0]) / np.log(1000))


def test_a_picture_has_other_colours_where_its_reader_prefers_dark_pages():
    svg = for_both('<svg a="b"><path style="fill: #ffffff; stroke: #332288"/><rect fill="#000000"/></svg>')
    head, _, body = svg.partition("</style>")[0].partition("{")
    assert head == '<svg a="b"><style>@media screen and (prefers-color-scheme: dark)'
    for name, color in (("fill", "#ffffff"), ("stroke", "#332288"), ("fill", "#000000")):
        assert f'[style*="{name}: {color}"],[{name}="{color}"]{{{name}:{on_dark(color)}!important}}' in body
    assert on_dark("#ffffff") == PAGE
    assert sum(to_rgb(on_dark("#000000"))) > 2.5


def test_marks_of_one_name_stand_one_below_the_other():
    rows = pd.DataFrame({"rung": ["a"] * 3 + ["b"], "limit": ["x", "y", "z", "x"], "warps": [8.0] * 4})
    key = Key("limit", {"x": "#332288", "y": "#cc6677", "z": "#117733"}, {"x": "o", "y": "s", "z": "D"})
    layer = Layer("point", rows, "warps", "rung", key=key, dodge=True)
    picture = draw(Specification("", "", [layer], Axis(), Axis(scale="names", names=["a", "b"])), "")
    (axes,) = picture.axes
    places = np.concatenate([marks.get_offsets() for marks in axes.collections])
    inches = sorted(axes.transData.transform(places)[:, 1] / picture.dpi)
    assert min(above - below for below, above in pairwise(inches)) >= 5.5 / 72  # a mark's height
    assert list(places[:, 1].round()) == [0, 0, 0, 1]


def test_one_figure_with_a_choice_holds_the_rows_and_notes_of_all(figures):
    merged = one_of("Metric", figures)
    assert merged.choices[0].options == NAMES
    for whole, *parts in zip(merged.layers, *(figure.layers for figure in figures.values()), strict=True):
        assert len(whole.data) == sum(len(part.data) for part in parts)
        for name, part in zip(NAMES, parts, strict=True):
            shown = whole.data[whole.data["figure"] == name].drop(columns="figure")
            pd.testing.assert_frame_equal(shown, part.data, check_dtype=False)
    lines = merged.note.split("\n")
    assert len(lines) == len(set(lines))
    assert all(set(figure.note.split("\n")) <= set(lines) for figure in figures.values())


def test_speedups_are_left_out_where_naive_itself_is_out_of_line(figures, specified):
    assert "Left out" not in figures["speedup_over_naive"].note
    found = specified(evidence(("512", "1000", "1024", "2048")))  # all but 1024 in one time: 1000 is faster than both
    assert set(found["speedup_over_naive"].layers[-1].data["n"]) == {512, 1024, 2048}
    assert "Left out: 1000 (" in found["speedup_over_naive"].note
    assert set(found["gflops_by_size"].layers[-1].data["n"]) == {512, 1000, 1024, 2048}


def test_naive_is_out_of_line_only_beside_both_neighbours():
    rows = timings(
        *(("naive", n, n, n, rate, 1.0, 0.1) for n, rate in ((256, 9.0), (512, 3.0), (1000, 6.0), (1024, 3.0)))
    )
    assert irregular(rows) == {1000: pytest.approx(2.0)}


def test_a_wrong_rung_is_not_drawn(specified):
    items = evidence()
    wrong = an_evidence(
        "tiled", tuple(items[-1].timings.values()), check={"status": "failed", "message": "", "cases": []}
    )
    for figure in specified([*items[:-1], wrong]).values():
        assert "tiled" not in lines_of(figure)
        assert "coalesced" in lines_of(figure)


def test_nothing_timed_still_draws_every_figure_and_says_so(specified, tmp_path):
    figures = specified([an_evidence(name, check=None) for name in ("cublas", "naive")])
    assert list(figures) == NAMES
    for name, figure in figures.items():
        assert lines_of(figure) == {}
        assert figure.empty in texts_of(draw(figure, CAPTION))
        assert not any(axes.axison for axes in draw(figure, CAPTION).axes), "ticks of nothing"
        save(draw(figure, CAPTION), [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"])
    titles = [figure.title for figure in figures.values()]
    assert titles == ["Rate by size", "Share of cuBLAS by size", "Speedup over naive by size"]


def test_a_single_size_is_drawn(specified, tmp_path):
    figure = specified(evidence(("512",)))["gflops_by_size"]
    save(draw(figure, CAPTION), [tmp_path / "figure.png"])
    assert sizes_of(figure) == ["512"]
    assert places(lines_of(figure)["tiled"]) == (512,)


def test_the_same_tables_give_the_same_bytes_whatever_the_readers_own_settings(figures, specified, tmp_path):
    endings = ("svg", "png")
    with mpl.rc_context({"svg.hashsalt": "other", "svg.fonttype": "none", "font.family": "monospace"}):
        for name, figure in specified(evidence()).items():
            save(draw(figure, CAPTION), [tmp_path / f"2/{name}.{ending}" for ending in endings])
    for name, figure in figures.items():
        save(draw(figure, CAPTION), [tmp_path / f"1/{name}.{ending}" for ending in endings])
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in "12")
    assert first == second
    assert len(first) == len({content for content in first.values() if len(content) > 1000}) == 6


@pytest.fixture(scope="module")
def picture(figures):
    return draw(figures["gflops_by_size"], CAPTION)


def test_a_saved_figure_says_nothing_of_when_and_with_what_it_was_made(picture, tmp_path):
    save(picture, [tmp_path / "1.svg", tmp_path / "1.png"])
    assert "<dc:date>" not in (tmp_path / "1.svg").read_text()
    assert b"matplotlib" not in (tmp_path / "1.png").read_bytes().lower()


def test_few_colours_leave_greys_grey(picture, tmp_path):
    save(picture, [tmp_path / "few.png"])
    picture.savefig(tmp_path / "all.png")
    drawn, saved = (np.asarray(Image.open(tmp_path / name).convert("RGB"), int) for name in ("all.png", "few.png"))
    grey = np.ptp(drawn, axis=2) <= 2
    assert grey.mean() > 0.5
    assert np.ptp(saved[grey], axis=1).max() <= 6
    assert np.abs(drawn - saved).mean() < 1
    assert len(Image.open(tmp_path / "few.png").getcolors()) <= 256


# What the titles are made of


def timings(*rows) -> pd.DataFrame:
    columns = ["rung", "m", "n", "k", "gflops", "speedup_over_naive", "speedup_over_cublas"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(shape=[f"{row.m}x{row.n}x{row.k}" for row in table.itertuples()])


def test_the_best_rung_is_the_fastest_at_the_largest_square_but_not_naive():
    table = timings(
        ("naive", 1024, 1024, 1024, 100.0, 1.0, 0.1),
        ("tiled", 1024, 1024, 1024, 500.0, 5.0, 0.5),
        ("coalesced", 512, 512, 512, 700.0, 7.0, 0.7),
        ("coalesced", 4096, 4096, 1, 800.0, 8.0, 0.8),
    )
    assert best_rung(table)["rung"] == "tiled"
    assert best_rung(table.assign(speedup_over_naive=float("nan")))["rung"] == "tiled"
    assert best_rung(table[table["rung"] == "naive"]) is None
    assert best_rung(timings()) is None


def test_no_library_is_told_as_the_best_rung(specified):
    rungs = {"cublas": [1.0], "best": [0.5], "tiled": [2.0], "naive": [9.0]}
    roles = {"cublas": "baseline", "best": "baseline"}
    items = [
        an_evidence(
            name,
            (a_timing(name, "512", rungs),),
            rung=a_rung(name, role=roles.get(name, "rung"), baselines=tuple(roles)),
        )
        for name in rungs
    ]
    assert specified(items)["share_of_cublas"].title == "tiled comes to 25 % of cuBLAS at 512"


def test_square_rows_are_sorted_by_rung_and_size():
    table = timings(("b", 2, 2, 2, 1, 1, 1), ("a", 4, 4, 4, 1, 1, 1), ("a", 2, 2, 2, 1, 1, 1), ("a", 2, 2, 3, 1, 1, 1))
    assert [(row.rung, row.n) for row in square_rows(table).itertuples()] == [("a", 2), ("a", 4), ("b", 2)]


def test_intervals_are_drawn_as_bands():
    rows = pd.DataFrame({"rung": ["a"] * 2, "n": [2, 4], "value": [5.0, 6.0], "low": [4.0, 5.0], "high": [7.0, 8.0]})
    layer = Layer("line", rows, "n", "value", key=Key("rung", {"a": "#332288"}), low="low", high="high")
    (axes,) = draw(Specification("title", "", [layer], Axis(), Axis()), "").axes
    (band,) = axes.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(2, 4), (2, 7), (4, 5), (4, 8)} <= corners
