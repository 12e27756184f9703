"""The README's figure: the numbers of the tables, few lines, and labels that can be read."""

import pytest
from ladder.model.precision import name_of
from ladder.show.dark import PAGE, darken, on_dark
from ladder.show.figures import overview
from ladder.show.figures.overview import ACCURATE, ERROR, FAMILY, FASTER, SIZE, SPEED, TENSOR_SPEED
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from matplotlib.colors import to_hex

TABLES = ROOT / "results/h100-sxm/tables"


@pytest.fixture(scope="module")
def tables():
    """The recorded tables of timings, rungs and errors."""
    return [read_table(TABLES / f"{name}.csv") for name in ("timings", "rungs", "accuracy")]


def lines(figure, panel) -> dict[str, list[float]]:
    """The values of each line of a panel, by the rung's name."""
    (layer,) = figure.layers
    return {name_of(name): list(rows["value"]) for name, rows in figure.rows(layer, panel).groupby("rung", sort=False)}


def test_each_line_shows_the_numbers_of_its_rung(tables):
    timings, _, accuracy = tables
    figure = overview.figure(*tables, "cublas")
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])].sort_values("n")
    for panel, names in FASTER.items():
        shares = lines(figure, panel)
        assert set(shares) == {"cublas", *names}
        for name in shares:
            assert shares[name] == list(100 * square.loc[square["rung"] == name, "speedup_over_cublas"].dropna()), name
    of_size = accuracy[(accuracy["m"] == SIZE) & (accuracy["family"] == FAMILY)]
    errors = lines(figure, ERROR)
    assert set(errors) == {"cublas", *ACCURATE}
    for name in errors:
        assert errors[name] == list(of_size.loc[of_size["rung"] == name, "error_normwise"]), name


def test_rungs_that_are_not_recorded_are_left_out(tables):
    timings, rungs, accuracy = (table[table["rung"].isin(["cublas", "naive", "fastest"])] for table in tables)
    few = overview.figure(timings, rungs, accuracy, "cublas")
    assert (set(lines(few, SPEED)), set(lines(few, ERROR))) == ({"cublas", "fastest"}, {"cublas"})
    assert set(lines(few, TENSOR_SPEED)) == {"cublas"}


def test_rungs_of_fp32_and_of_tensor_cores_share_no_panel_of_speed(tables):
    precision = tables[1].set_index("rung")["precision"]
    assert [set(precision[list(FASTER[panel])] == "fp32") for panel in (SPEED, TENSOR_SPEED)] == [{True}, {False}]
    (layer,) = overview.figure(*tables, "cublas").layers
    assert "wgmma_3xfp16 (3xFP16)" in set(layer.data["rung"])


def test_on_a_dark_page_the_picture_has_its_places_and_other_colours(tables):
    light, dark = (draw(overview.figure(*tables, "cublas"), "words") for _ in range(2))
    assert darken(dark) is dark
    for before, after in zip(light.axes, dark.axes, strict=True):
        assert (to_hex(before.get_facecolor()), to_hex(after.get_facecolor())) == ("#ffffff", PAGE)
        assert to_hex(after.title.get_color()) == on_dark(to_hex(before.title.get_color()))
        for one, other in zip(before.lines, after.lines, strict=True):
            assert list(one.get_ydata()) == list(other.get_ydata())
            assert to_hex(other.get_color()) == on_dark(to_hex(one.get_color()))
    assert to_hex(dark.get_facecolor()) == PAGE
