"""What others published beside what is measured here."""

from __future__ import annotations

import pandas as pd
import pytest
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.show.figures import published as published_figure
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.tables.files import read_table, write_table
from ladder.tables.published import DATA, compare_published, findings, read_published

TABLES = ROOT / "results" / "h100-sxm" / "tables"


@pytest.fixture(scope="module")
def published():
    return read_published()


def test_a_run_without_a_published_size_has_an_empty_figure_and_no_warning(recwarn):
    nothing = compare_published(*(read_table(TABLES / f"{name}.csv").iloc[:0] for name in ("timings", "geomeans")))
    assert nothing.empty
    draw(published_figure.figure(nothing, ["naive"]), "")
    assert not recwarn.list


def row(table: pd.DataFrame, publication: str, rung: str) -> pd.Series:
    found = table[(table["publication"] == publication) & (table["rung"] == rung)]
    return found.iloc[-1]


def test_every_figure_has_a_source_and_a_kind():
    table = pd.read_csv(DATA)
    assert table["source"].str.len().min() > 10
    assert set(table["kind"]) == {"measured", "rounded", "expected"}


def test_every_rung_that_is_named_is_one_of_ours(published):
    ours = {rung.name for rung in read_kernels(KERNELS).values()}
    assert set(published["rung"]) - {""} <= ours


def test_what_is_not_given_follows_from_the_rates(published):
    warp = row(published, "siboehm", "warp_tiled")
    assert warp["share_of_cublas"] == 0.937  # given
    assert warp["speedup_over_naive"] == pytest.approx(21779.3 / 309.0)
    assert warp["speedup_over_before"] == pytest.approx(21779.3 / 18237.3)
    assert row(published, "A4500 worklog", "tiled_1d")["share_of_cublas"] == pytest.approx(5547.98 / 12789.50)


def test_rates_and_times_of_different_kinds_are_never_mixed(published):
    tiled = row(published, "A100 notes", "tiled@TILE=32")
    assert pd.isna(tiled["speedup_over_naive"])  # naive has a rate, this rung a time
    assert tiled["speedup_over_before"] == pytest.approx(49 / 30)


def timings(speedups: dict[str, float], n: int = 4096) -> pd.DataFrame:
    rows = [
        {"rung": rung, "m": n, "n": n, "k": n, "speedup_over_naive": value, "speedup_over_cublas": value / 100}
        for rung, value in speedups.items()
    ]
    return pd.DataFrame(rows)


NO_MEANS = pd.DataFrame(columns=["rung", "over", "speedup"])


def test_a_step_that_goes_the_same_way_is_confirmed_and_one_that_does_not_is_said():
    table = compare_published(timings({"naive": 1, "coalesced": 8, "tiled@TILE=32": 6}), NO_MEANS)
    siboehm = table[table["publication"] == "siboehm"].set_index("rung")
    assert siboehm["verdict"].to_dict() == {"naive": "", "coalesced": "confirmed", "tiled@TILE=32": "the other way"}
    assert siboehm.loc["tiled@TILE=32", "step"] == pytest.approx(0.75)
    text = next(line for line in findings(table) if line.startswith("siboehm"))
    assert "2 of 3 pairs of rungs stand in the order that it found, but not tiled@TILE=32 before coalesced." in text
    assert "coalesced to tiled@TILE=32 is 1.50 x there, but 0.75 x here." in text


def test_geometric_means_are_compared_with_geometric_means():
    means = pd.DataFrame(
        {"rung": ["tiled@TILE=16"] * 2, "over": ["naive", "cublas"], "speedup": [12.0, 0.2]},
    )
    table = compare_published(timings({"naive": 1}).iloc[:0], means)
    assert list(table["sizes"]) == ["512+"]
    assert table.loc[0, "share_of_cublas"] == 0.2


def test_without_measurements_there_is_nothing_to_compare():
    table = compare_published(timings({"naive": 1}).iloc[:0], NO_MEANS)
    assert table.empty
    assert findings(table) == []


def test_a_written_table_reads_the_same_where_all_sizes_are_numbers(tmp_path):
    table = compare_published(timings({"naive": 1, "coalesced": 8, "tiled@TILE=32": 6}), NO_MEANS)
    write_table(table, tmp_path / "published.csv")
    assert findings(read_table(tmp_path / "published.csv")) == findings(table) != []


def test_the_recorded_run_is_compared_with_every_publication():
    table = compare_published(read_table(TABLES / "timings.csv"), read_table(TABLES / "geomeans.csv"))
    assert set(table["publication"]) == set(pd.read_csv(DATA)["publication"])


def test_the_figure_has_a_mark_for_each_published_and_each_measured_number():
    table = compare_published(read_table(TABLES / "timings.csv"), read_table(TABLES / "geomeans.csv"))
    rungs = list(read_table(TABLES / "rungs.csv")["rung"])
    figure = published_figure.figure(table, rungs)
    marks = figure.layers[0].data
    shown = table[table["rung"] != "cublas"]
    for panel, (column, factor) in published_figure.PANELS.items():
        there = marks[(marks["panel"] == panel) & ~marks["who"].str.startswith("here")]
        here = marks[(marks["panel"] == panel) & marks["who"].str.startswith("here")]
        assert sorted(there["value"]) == pytest.approx(sorted(factor * shown[f"published_{column}"].dropna()))
        measured = shown.drop_duplicates(["rung", "sizes"])[column].dropna()
        assert sorted(here["value"]) == pytest.approx(sorted(factor * measured))
    key = figure.layers[0].key
    assert len({(key.colors[who], key.markers[who]) for who in set(marks["who"])}) == marks["who"].nunique()
