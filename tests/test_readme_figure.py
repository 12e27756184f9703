"""The README's figure: the numbers of the tables, few lines, and labels that can be read."""

from itertools import combinations

import pytest
from ladder.show.overview import ACCURATE, FAMILY, FASTER, SIZE, overview
from ladder.show.style import save
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

TABLES = ROOT / "results/h100-sxm/tables"
CAPTION = "Recorded on a GPU, once"


@pytest.fixture(scope="module")
def tables():
    """The recorded tables of timings, rungs and errors."""
    return [read_table(TABLES / f"{name}.csv") for name in ("timings", "rungs", "accuracy")]


@pytest.fixture(scope="module")
def figure(tables):
    """The figure of all that is recorded."""
    return overview(*tables, "cublas", CAPTION)


def drawn(axes) -> set[tuple]:
    """The heights of each line of a panel."""
    return {tuple(float(f"{y:.4g}") for y in line.get_ydata()) for line in axes.lines}


def test_each_line_shows_the_numbers_of_its_rung(figure, tables):
    timings, _, accuracy = tables
    left, right = figure.axes
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])].sort_values("n")
    for name in FASTER:
        shares = 100 * square.loc[square["rung"] == name, "speedup_over_cublas"].dropna()
        assert tuple(float(f"{share:.4g}") for share in shares) in drawn(left), name
    of_size = accuracy[(accuracy["m"] == SIZE) & (accuracy["family"] == FAMILY)].sort_values("k")
    for name in ("cublas", *ACCURATE):
        errors = of_size.loc[of_size["rung"] == name, "error_normwise"]
        assert tuple(float(f"{error:.4g}") for error in errors) in drawn(right), name
    assert (100.0, 100.0) in drawn(left)


def test_no_panel_has_more_than_seven_lines(figure):
    assert [len(axes.lines) for axes in figure.axes] == [len(FASTER) + 1, len(ACCURATE) + 1]
    assert max(len(axes.lines) for axes in figure.axes) <= 7


def texts_of(figure) -> list[tuple[str, object]]:
    """Every text that can be seen, with its box in pixels."""
    FigureCanvasAgg(figure).draw()
    found = list(figure.texts)
    for axes in figure.axes:
        found += [*axes.texts, axes.xaxis.label, axes._left_title]
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [(text.get_text(), Text.get_window_extent(text)) for text in found if text.get_text()]


def test_every_text_stands_inside_the_figure_and_on_no_other(figure):
    texts = texts_of(figure)
    assert {"cublas", *FASTER, *ACCURATE, CAPTION} <= {text for text, _ in texts}
    whole = figure.get_window_extent()
    assert [text for text, box in texts if not (whole.x0 < box.x0 and box.x1 < whole.x1)] == []
    assert [(a, b) for (a, one), (b, other) in combinations(texts, 2) if one.overlaps(other)] == []


def test_rungs_that_are_not_recorded_are_left_out(tables, tmp_path):
    timings, rungs, accuracy = (table[table["rung"].isin(["cublas", "naive", "fastest"])] for table in tables)
    few = overview(timings, rungs, accuracy, "cublas", CAPTION)
    assert [len(axes.lines) for axes in few.axes] == [2, 1]
    assert [text.get_text() for axes in few.axes for text in axes.texts] == ["cublas", "fastest", "cublas"]
    none = overview(timings[timings["rung"] == "naive"], rungs, accuracy[:0], "cublas", CAPTION)
    assert [len(axes.lines) for axes in none.axes] == [1, 0]
    save(none, [tmp_path / "none.svg", tmp_path / "none.png"])
    assert (tmp_path / "none.png").stat().st_size > 1000
