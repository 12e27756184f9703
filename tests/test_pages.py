"""Pages and figures that say why: made from tables alone, equal evidence gives equal bytes, gaps are said."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, a_timing, a_where, an_evidence
from ladder.config.kernels import read_kernels
from ladder.show.pages import by_work, index, number, own_words, page, scaled
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import Profile
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.paper import load_pipe_wavefronts
from ladder.tables.timings import largest
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


def test_a_page_has_the_words_the_numbers_the_findings_and_the_inner_loop(made):
    tables, inspection = made
    text = page(a_rung("naive"), inspection, tables)
    assert text == page(a_rung("naive"), inspection, tables)
    for expected in (
        "one thread computes one element of C",
        "| 1024 | 4 | 4 | 4 |",
        "1. **uncoalesced global loads**",
        "### Warp state",
        "kernels/sgemm/naive.cu:22",
        "lg throttle",
        "... 40 lines ...",
        "fma.rn.f32",
    ):
        assert expected in text, expected


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
    return page(ladder[name], {"launches": {}, "kernels": []}, recorded)


def test_a_page_has_the_resources_and_what_limits_them(recorded):
    text = a_page(recorded, "tiled@TILE=32").split("## Resources at 4096")[1].split("##")[0]
    head, _, row = (line.split(" | ") for line in text.strip().splitlines()[:3])
    assert dict(zip(head, row, strict=True))["registers a thread"] == "32"
    assert re.search(r"\| 100 \| .*(warps|registers).* \|", text)


def test_a_page_counts_the_inner_loop(made):
    tables, inspection = made
    text = page(a_rung("naive"), inspection, tables)
    assert "| FFMA, share of the issue slots | " in text
    assert re.search(r"\| LDS of \d+ bit \| \d+ \|", text)
    assert "| FFMAs with a register-bank conflict | " in text


def test_a_page_says_what_changed_from_the_rung_before(recorded):
    text = a_page(recorded, "tiled_2d")
    good, bad = text.split("## What is good")[1].split("## What binds it")[0].split("## What is bad")
    assert re.search(r"MIO queue \(shared memory\): \d+ % of the issue slots at 4096, \d+ % in tiled_1d\.", good)
    assert "Bound first by" in bad
    conflict_free = a_page(recorded, "conflict_free@LAYOUT=1")
    assert re.search(
        r"bank conflicts in shared stores: none of the issue slots at 4096, \d+ % in vectorized", conflict_free
    )


def test_more_work_than_in_the_rung_before_is_good(recorded):
    good = a_page(recorded, "tiled_2d").split("## What is good")[1].split("## What is bad")[0]
    assert re.search(r"- FFMA: 5\d % of the issue slots at 4096, 3\d % in tiled_1d\.", good)
    tables = dict(recorded)
    slots = tables["slots"] = tables["slots"].copy()
    before = (slots["rung"] == "mma_3xtf32") & (slots["shape"] == "4096") & (slots["use"] == "tensor cores")
    assert before.sum() == 1
    slots.loc[before, "percent"] = 41.0
    good = a_page(tables, "wgmma_3xtf32").split("## What is good")[1].split("## What is bad")[0]
    assert re.search(r"- tensor cores: \d+ % of the tensor pipe's cycles at 4096, 41 % in mma_3xtf32\.", good)
    assert "less than 3 % in mma_3xtf32" not in re.findall(r".*tensor cores: .*", good)[0]


def test_a_page_says_that_coalesced_loads_are_what_naive_lacked(recorded):
    text = a_page(recorded, "coalesced")
    assert re.search(r"uncoalesced global loads: less than 3 % of the issue slots at 4096, 9\d % in naive", text)


def test_a_page_of_a_rung_on_tensor_cores_says_what_binds_it_and_what_its_other_kernels_cost(made):
    profiles = {"2048": RECORDED["wgmma_3xtf32"]["2048"] | {"where": a_where()}}
    item = an_evidence("naive", inspection=made[1], profiles=profiles)
    text = page(a_rung("naive"), made[1], all_tables([item], ROUND_GPU, "cublas", "naive"))
    good, bad = text.split("## What is good")[1].split("## What is bad")
    assert "`; FP32; status: ok" in text
    assert re.search(r"Bound first by tensor cores: \d+ % of the tensor pipe's cycles", good)
    assert re.search(r"\d+% of the time at 2048 is that of other kernels: `split_lines`\.", bad)
    assert "by share of the tensor pipe's cycles" in text
    assert re.search(r"\| split_lines \| [\d.]+ \| \d+\.\d% \|", text)
    assert "Of `sgemm_split`, which computes the product." in text
    advice = text.split("## Nsight Compute's advice")[1].split("## ")[0]
    assert "CPIStall" in advice or "Barrier Stalls" in advice
    assert "Occupancy" not in advice  # that is advice on split_lines


def test_a_page_shows_the_stalls_most_first_and_no_empty_ones(recorded):
    table = a_page(recorded, "tiled@TILE=32").split("| a warp's state between two instructions |")[1].split("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    cycles = [float(row[1].replace(",", "")) for row in rows]
    assert rows[0][0] == "| mio throttle"
    assert cycles == sorted(cycles, reverse=True)
    assert min(cycles) > 0


def test_the_index_sets_the_rungs_side_by_side(recorded):
    ladder = read_kernels(ROOT / "config/kernels.yaml")
    text = index([rung for rung in ladder.values() if rung.role != "floor"], recorded)
    head = next(line for line in text.splitlines() if line.startswith("| metric | unit |"))
    profiled = set(recorded["profiles"]["rung"])
    assert {"naive", "coalesced", "tiled@TILE=32"} <= profiled
    assert {cell.strip() for cell in head.split("|")} == {"", "metric", "unit", *profiled}
    assert "| stall MIO throttle | cycles |" in text


def test_a_page_without_records_says_so(made):
    text = page(a_rung("coalesced"), {"launches": {}, "kernels": []}, made[0])
    assert "Nothing is timed." in text
    assert "There is no profile of this build." in text


@pytest.mark.parametrize("gpu", sorted(path.parent.name for path in ROOT.glob("results/*/pages")))
def test_the_pages_that_git_keeps_have_the_words_of_the_sources_as_they_are(gpu):
    rungs = [rung for rung in read_kernels(ROOT / "config" / "kernels.yaml").values() if rung.role != "floor"]
    for rung in rungs:
        text = (ROOT / "results" / gpu / "pages" / f"{rung.name}.md").read_text()
        assert f"\n{own_words(rung)}\n" in text, f"{rung.name}: make run ARGS='--config gpu={gpu}'"


def test_the_index_links_every_page(made):
    text = index([a_rung("naive"), a_rung("coalesced")], made[0])
    assert "[naive](naive.md)" in text
    assert "uncoalesced global loads" in text
    assert "[coalesced](coalesced.md)" in text


@pytest.fixture(scope="module")
def recorded():
    """The tables of the recorded GPU."""
    return {path.stem: read_table(path) for path in (ROOT / "results" / RECORDED_GPU / "tables").glob("*.csv")}


def test_a_profile_says_how_often_the_load_pipe_works_for_an_uncoalesced_load():
    profile = Profile(RECORDED["naive"]["2048"]["kernels"][0]["metrics"])
    # A warp's FFMA needs one element of B, the same for all lanes, and 32 of A that lie in 32 lines.
    assert profile.wavefronts_per_ffma(132) == pytest.approx(33, rel=0.01)
    assert load_pipe_wavefronts(None, 33.0) == {"wavefronts_per_ffma": 33.0, "wavefronts_from": "profile"}


def test_the_largest_shape_is_the_largest_square():
    assert largest(["512", "4096", "64x8192x8192"]) == "4096"
    assert largest([]) == ""


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (0.12345, "0.1235"), (float("nan"), ""), ("x", "x")])
def test_numbers_of_pages_are_short(value, text):
    assert number(value) == text
