"""The README's figure: the numbers of the tables, few lines, and labels that can be read."""

import pytest
from ladder.show.figures import overview
from ladder.show.figures.overview import ACCURATE, ERROR, FAMILY, FASTER, SIZE, SPEED
from ladder.system.paths import ROOT
from ladder.tables.files import read_table

TABLES = ROOT / "results/h100-sxm/tables"


@pytest.fixture(scope="module")
def tables():
    """The recorded tables of timings, rungs and errors."""
    return [read_table(TABLES / f"{name}.csv") for name in ("timings", "rungs", "accuracy")]


def lines(figure, panel) -> dict[str, list[float]]:
    """The values of each line of a panel."""
    (layer,) = figure.layers
    return {name: list(rows["value"]) for name, rows in figure.rows(layer, panel).groupby("rung", sort=False)}


def test_each_line_shows_the_numbers_of_its_rung(tables):
    timings, _, accuracy = tables
    figure = overview.figure(*tables, "cublas")
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])].sort_values("n")
    shares = lines(figure, SPEED)
    assert set(shares) == {"cublas", *FASTER}
    for name in FASTER:
        assert shares[name] == list(100 * square.loc[square["rung"] == name, "speedup_over_cublas"].dropna()), name
    assert set(shares["cublas"]) == {100}
    of_size = accuracy[(accuracy["m"] == SIZE) & (accuracy["family"] == FAMILY)]
    errors = lines(figure, ERROR)
    assert set(errors) == {"cublas", *ACCURATE}
    for name in errors:
        assert errors[name] == list(of_size.loc[of_size["rung"] == name, "error_normwise"]), name


def test_rungs_that_are_not_recorded_are_left_out(tables):
    timings, rungs, accuracy = (table[table["rung"].isin(["cublas", "naive", "fastest"])] for table in tables)
    few = overview.figure(timings, rungs, accuracy, "cublas")
    assert (set(lines(few, SPEED)), set(lines(few, ERROR))) == ({"cublas", "fastest"}, {"cublas"})
