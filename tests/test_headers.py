"""The figures in a tutorial rung's header are those of the build that is measured."""

import re

import doc_numbers
import header_figures
import pandas as pd
import pytest
from conftest import line_of, write
from ladder.show.drawings import PICTURES
from ladder.system.paths import ROOT

NAIVE = (ROOT / "kernels/sgemm/naive.cu").read_text()


def test_every_tutorial_rung_has_its_builds_in_its_header():
    assert {path.stem for path in header_figures.headers()} == set(PICTURES)


@pytest.mark.parametrize(
    ("entry", "builds"),
    [
        ("naive", ["all"]),
        ("tiled", ["before", "TILE=8", "TILE=16", "TILE=32"]),
        ("vectorized", ["before", "1024", "4096"]),
        ("conflict_free", ["before", *(f"LAYOUT={n}, {size}" for n in (1, 2) for size in (1024, 4096))]),
    ],
)
def test_a_header_has_every_build_of_its_rung_beside_that_of_the_rung_before(entry, builds):
    assert [row[0] for row in header_figures.builds_of(entry)] == builds


@pytest.fixture
def tables(monkeypatch):
    """Puts tables of one build in place of the recorded ones; returns the row of kernels, to change it."""
    at = {"rung": "a", "shape": "512", "multiplies": True}
    kernel = {**at, "block_threads": 96, "registers": 40, "blocks_per_sm": 5}
    kernel |= {"static_shared_bytes": 1024, "dynamic_shared_bytes": 512}
    loops = [("inner loop", "512 1024", 0.0625, 0.7777), ("whole", "512", 9, 9), ("inner loop", "4096", 9, 9)]
    code = pd.DataFrame(loops, columns=["part", "launched_at", "shared_loads_per_ffma", "ffma_share"]).assign(rung="a")
    found = {"instructions": code, "paper": pd.DataFrame([{**at, "intensity_global": 21.3333}])}
    helper = {**kernel, "multiplies": False, "registers": 8}
    monkeypatch.setattr(doc_numbers, "table", lambda name, gpu: found.get(name, pd.DataFrame([helper, kernel])))
    return kernel


def test_a_row_has_the_tile_of_its_macros_and_the_numbers_of_the_kernel_that_multiplies(tables):
    macros = {"BM": 64, "BN": 32, "BK": 8, "TM": 4, "OTHER": 1}
    row = header_figures.build_row("all", "a", "512", macros)
    assert row == ("all", "64 x 32 x 8", "4 x 1", "96", "40", "1.5", "5", "15 of 64", "21.33", "0.0625", "77.8 %")
    assert header_figures.build_row("all", "a", "512", {"TILE": 8})[1:3] == ("8 x 8 x 8", "1 x 1")


def test_a_build_that_the_tables_lack_is_one_line(tables):
    tables["shape"] = "1024"
    told = line_of(header_figures.build_row, "all", "a", "512", {"TILE": 8})
    assert "resources.csv: no row with rung=a, shape=512, multiplies=True; name one" in told


def test_a_stale_table_is_written_anew_with_the_words_and_the_code_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(header_figures, "block_of", lambda entry: f"// Builds on a GPU: {entry}\n")
    monkeypatch.setattr(header_figures, "ROOT", tmp_path)
    path = write(tmp_path / "kernels/sgemm/naive.cu", NAIVE)
    write(tmp_path / "kernels/sgemm/fastest.cu", "// a rung without a table\n")
    table = re.search(r"// Builds on .*?(?=^[^/])", NAIVE, re.DOTALL | re.MULTILINE)[0]
    assert header_figures.headers() == {path: NAIVE.replace(table, "// Builds on a GPU: naive\n")}
    path.write_text(2 * NAIVE)
    assert line_of(header_figures.headers).endswith("naive.cu: 2 lines begin with '// Builds on '; leave one")
