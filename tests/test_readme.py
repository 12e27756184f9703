"""README and docs are made from their templates and the recorded tables, and name what there is."""

from pathlib import Path

import doc_numbers
import pandas as pd
import pytest
from conftest import write
from doc_cases import emulated, power_of_2
from ladder.model.cases import EMULATED_ALONE, EMULATED_BLOCKS
from ladder.system.errors import LadderError
from record_faults import corpus

ROOT = Path(__file__).resolve().parents[1]


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pictures_and_files_that_a_page_names_exist(page):
    outside_of_code = "".join(page.read_text().split("\n```")[::2])
    for target in (part.split(")")[0] for part in outside_of_code.split("](")[1:]):
        assert target.startswith("https://") or (page.parent / target.split("#")[0]).exists(), target


def test_the_index_names_every_page():
    index = (ROOT / "docs/README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


# The numbers


@pytest.fixture
def tables(monkeypatch):
    """Puts tables in place of those of each GPU, by their names."""
    return lambda **tables: monkeypatch.setattr(doc_numbers, "table", lambda name, gpu=doc_numbers.GPU: tables[name])


def timings(*rows: tuple[str, str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["rung", "shape", "gflops", "speedup_over_cublas"])


def test_a_share_is_that_of_the_rung_and_size_asked_for(tables):
    tables(timings=timings(("a", "4096", 55960, 1.084), ("a", "512", 1000, 0.5), ("b", "4096", 1, 0.1)))
    assert (doc_numbers.percent_of_cublas("a"), doc_numbers.percent_of_cublas("a", 512)) == ("108 %", "50 %")
    with pytest.raises(KeyError):
        doc_numbers.percent_of_cublas("a", 1024)


def test_a_share_is_that_on_the_gpu_asked_for(monkeypatch):
    found = {"one": timings(("a", "4096", 1, 1.0)), "two": timings(("a", "4096", 1, 0.5))}
    monkeypatch.setattr(doc_numbers, "table", lambda name, gpu: found[gpu])
    assert [doc_numbers.percent_of_cublas("a", gpu=gpu) for gpu in found] == ["100 %", "50 %"]


def test_slower_sizes_are_those_at_which_any_rung_is_slower_in_the_order_of_numbers(tables):
    rows = [("a", "1024", 1, 1.2), ("a", "512", 1, 0.9), ("a", "64x8x8", 1, 0.99), ("b", "1024", 1, 0.8)]
    found = timings(*rows, ("b", "512", 1, 1.1), ("c", "256", 1, 0.1))
    tables(timings=found.assign(speedup_over_cublas_ci_high=found["speedup_over_cublas"] + 0.02))
    assert doc_numbers.slower_sizes(["a", "b"]) == "512, 1024 (80 % to 90 % of cuBLAS)"


def test_the_slowest_shape_of_a_family_is_that_of_the_largest_ratio_not_of_the_largest_time(tables):
    rows = [("cublas", "wide", 1, 1.0), ("a", "wide", 1, 3.0), ("cublas", "wide", 2, 4.0), ("a", "wide", 2, 8.0)]
    rows += [("cublas", "normal", 1, 1.0), ("a", "normal", 1, 9.0)]
    accuracy = pd.DataFrame(rows, columns=["rung", "family", "k", "time_ms"]).assign(m=64, n=64)
    tables(accuracy=accuracy)
    assert doc_numbers.slowest("a", "wide") == "3.0"


def test_each_rung_of_the_ladder_stands_in_the_table_once_with_its_fastest_variant():
    rows = doc_numbers.ladder_rows()
    assert [row["entry"] for row in rows][:3] == ["naive", "coalesced", "tiled"]
    assert {row["rung"] for row in rows} >= {"tiled@TILE=32", "fastest"}
    assert not {row["entry"] for row in rows} & {"empty", "ffma", "cublas", "cublas_tf32"}


def test_the_ladder_of_a_gpu_says_what_is_older_than_its_source_and_what_is_not_timed(monkeypatch):
    rows = [("cublas", "baseline", "current"), ("a", "rung", "current"), ("b", "rung", "changed since")]
    rows += [("c", "rung", "current"), ("d", "rung", "changed since"), ("e", "rung", "changed since")]
    rungs = pd.DataFrame(rows, columns=["rung", "role", "source"])
    timed = timings(("cublas", "8192", 1, 1), ("a", "4096", 1, 1), ("b", "512", 1, 1), ("d", "64x9999x8", 1, 1))
    monkeypatch.setattr(doc_numbers, "table", lambda name, gpu: {"rungs": rungs, "timings": timed}[name])
    assert doc_numbers.ladder_state("h100") == {"earlier": "`b` and `d`", "untimed": "`c` and `e`", "largest": "4096"}


def test_names_in_words_have_commas_and_one_and():
    assert [doc_numbers.in_words(names) for names in ("", "a", "ab", "abc")] == [
        "",
        "`a`",
        "`a` and `b`",
        "`a`, `b` and `c`",
    ]


def test_a_rung_without_a_time_at_4096_stands_in_the_table_as_not_recorded(tables):
    tables(timings=timings(("naive", "4096", 600, 0.01), ("naive", "512", 300, 0.005), ("fastest", "512", 1000, 0.9)))
    rows = {row["entry"]: row for row in doc_numbers.ladder_rows()}
    told = ("rung", "rate", "share", "lowest")
    assert [rows["naive"][key] for key in told] == ["naive", "0.60", "1 %", "0 % at 512"]
    assert [rows["fastest"][key] for key in told] == ["fastest", *["not recorded"] * 3]


def test_errors_are_counted_by_shape_and_compared_at_the_same_shape(tmp_path, monkeypatch):
    points = """{"schema_version": 1, "points": [
        {"family": "positive", "m": 8, "n": 8, "k": [1, 2], "errors_normwise": {"cublas": [2, 4], "a": [3, 4]}},
        {"family": "normal", "m": 8, "n": 8, "k": [1, 2], "errors_normwise": {"cublas": [2, 4], "a": [1, 5]}}]}"""
    write(tmp_path / "h100-sxm/raw/errors.json", points)
    monkeypatch.setattr(doc_numbers, "RESULTS", tmp_path)
    assert doc_numbers.largest_errors() == {"shapes": 2, "families": 2, "positive": "1.50", "others": "1.25"}


def test_the_faults_that_are_counted_are_those_of_the_corpus():
    found = corpus()
    total, seeds = found["total"], found["seeds"]
    assert total["faults"] == len(list((ROOT / "tests/faults").glob("*.patch"))) >= total["caught"] >= total["emulator"]
    assert total["tried"] >= total["check"] >= total["sanitizer"] > 0
    assert sum(row["faults"] for row in found["classes"]) == total["faults"]
    assert seeds["products"] > len(seeds["kernels"]) > len(seeds["alarms"])


# The cases of the emulator


def test_the_shapes_of_which_some_blocks_run_are_named_by_their_number_of_blocks():
    told = emulated()
    assert told["some_blocks"][EMULATED_BLOCKS] == ["256x128x1024", "2097153x3x2", "3x2097153x2"]
    assert {blocks for blocks in told["some_blocks"] if blocks < EMULATED_BLOCKS} == {
        case.blocks for case in EMULATED_ALONE if case.blocks
    }
    assert (told["alone"], told["limits"]["blocks"]) == (len(EMULATED_ALONE), EMULATED_BLOCKS)


def test_a_limit_that_is_no_power_of_two_is_told():
    assert [power_of_2(value) for value in (1, 2, 1 << 25)] == ["2^0", "2^1", "2^25"]
    for value in (0, 3):
        with pytest.raises(LadderError, match=f"^{value} is no power of 2"):
            power_of_2(value)
