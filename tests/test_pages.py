"""Pages and figures that say why: made from tables alone, equal evidence gives equal bytes, gaps are said."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from conftest import ROUND_GPU, a_rung, a_timing, a_where, an_evidence, write
from ladder.config.kernels import read_kernels
from ladder.model.rung import TunedClass
from ladder.show.numbers import number
from ladder.show.pages import by_work, markdown_table, memory_costs, own_words, page, pages_index, scaled
from ladder.show.timeline import timeline
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import Profile
from ladder.tables.every import all_tables
from ladder.tables.files import read_table, write_table
from ladder.tables.hardware import HARDWARE_COLUMNS
from ladder.tables.paper import passes_by_shape
from ladder.tables.rungs import rung_table
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
            place = {"file": "kernels/sgemm/naive.cu", "text": "sum += a[p] * b[p];"}
            kernel["code"]["loop_lines"] = [
                {**place, "line": line, "instructions": line, "mix": {"LDG": 1, "FFMA": line - 1}}
                for line in range(2, 14)
            ]
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


def section(text: str, title: str) -> str:
    """What stands below a heading of a page, to the next heading of its kind."""
    return text.split(f"\n## {title}")[1].split("\n## ")[0]


def rows_of(text: str, head: str) -> list[dict[str, str]]:
    """The rows of the Markdown table whose first column has this head, by the heads of their columns."""
    lines = text[text.index(f"| {head} |") :].split("\n\n")[0].splitlines()
    titles, _, *rows = (line[2:-2].split(" | ") for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_times_of_two_cards_stand_with_their_cards(made):
    tables, inspection = made
    at = tables["timings"][tables["timings"]["rung"] == "naive"]
    other = at.assign(shape="2048", card="NVIDIA H100 80GB HBM3, GPU-1")
    text = page(a_rung("naive"), inspection, {**tables, "timings": pd.concat([at, other])})
    assert [row["card"] for row in rows_of(text, "m x n x k")] == ["GPU-0", "GPU-1"]
    assert "These numbers come from 2 cards: " in section(text, "Benchmark")


def test_a_page_has_the_words_the_numbers_the_limits_and_the_inner_loop(made):
    tables, inspection = made
    text = page(a_rung("naive"), inspection, tables)
    assert text == page(a_rung("naive"), inspection, tables)
    assert own_words(a_rung("naive")) in text
    assert rows_of(text, "m x n x k")[0]["median, ms"] == "4"
    assert rows_of(text, "limit")[0]["limit"] == "uncoalesced global loads"
    assert rows_of(text, "line")[0]["line"] == "kernels/sgemm/naive.cu:22"
    assert "... 40 lines ..." in text
    assert "fma.rn.f32" in text
    lines = rows_of(text, "source line of the inner loop")
    assert [row["instructions"] for row in lines] == [str(count) for count in range(13, 3, -1)]
    assert lines[0]["source line of the inner loop"] == "kernels/sgemm/naive.cu:13"
    assert lines[0]["of which"] == "12 FFMA, 1 LDG"
    counted = {row["of the inner loop"] for row in rows_of(text, "of the inner loop")}
    assert {"FFMA, share of the issue slots", "FFMAs whose three operands are in one register bank"} <= counted
    assert any(name.startswith("LDS of ") for name in counted)


def test_a_page_prints_the_parameters_of_its_build(project):
    write(project / "kernels/sgemm/tiled.cu", "#ifndef BM\n#define BM 8\n#endif\n#ifndef BN\n#define BN 32\n#endif\n")
    tables = {name: table.iloc[:0] for name, table in all_tables([], ROUND_GPU, "cublas", "naive").items()}
    tables["rungs"] = rung_table([an_evidence("tiled@BN=64")])
    classes = (TunedClass(1.7e10, {"BM": "16"}), TunedClass(math.inf, {"BM": "128"}))

    def built(**changes):
        text = page(a_rung("tiled@BN=64", **changes), {"launches": {}}, tables)
        return [(row["products"], row["BM"], row["BN"]) for row in rows_of(text, "products")]

    assert built() == [("all", "8", "64")]
    assert built(tuned=classes[1:]) == [("all others", "128", "64")]
    assert built(tuned=classes) == [("below 1.7e+10 FLOP", "16", "64"), ("all others", "128", "64")]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([], []),
        ([("a", "", 1.0), ("b|c", math.nan, None)], ["| x | z |", "| --- | --- |", "| a | 1 |", "| b\\|c |  |", ""]),
    ],
)
def test_a_table_leaves_out_its_empty_columns(rows, lines):
    assert markdown_table(rows, ["x", "y", "z"]) == lines


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
    (row,) = rows_of(section(a_page(recorded, "tiled@TILE=32"), "Resources at 4096"), "kernel")
    assert row["registers a thread"] == "32"
    assert row["occupancy, %"] == "100"
    assert row["limited by"]


def test_each_ceiling_says_what_its_passes_are_from(recorded):
    ceilings = section(a_page(recorded, "naive"), "On paper").partition("Ceilings")[2]
    rows = {row["m x n x k"]: row for row in rows_of(ceilings, "m x n x k")}
    assert rows["4096"]["counted from"] == "profile"
    # 32 rows of A begin in one bank where their length is a multiple of 32, else in 32; L1 looks up four lines at once
    assert (rows["4096"]["passes an FFMA"], rows["4095"]["passes an FFMA"]) == ("33.01", "9.009")
    assert rows["4095"]["counted from"] == "profile at 4096, addresses"


def changes(recorded, name: str) -> dict[str, tuple[str, ...]]:
    """What a page says has changed since the rung before: there, here, of what, and whether that is better."""
    rows = rows_of(section(a_page(recorded, name), "Against"), "at 4096")
    return {row.pop("at 4096"): tuple(row.values()) for row in rows}


def test_a_page_says_what_changed_from_the_rung_before(recorded):
    slots = "the issue slots"
    found = changes(recorded, "tiled_2d")
    assert found["MIO queue (shared memory)"][2:] == (slots, "better")
    assert found["FFMA"][2:] == (slots, "better")
    assert found["bank conflicts in shared loads"][::2] == ("none", "the load/store pipe's cycles")
    assert changes(recorded, "conflict_free@LAYOUT=1")["bank conflicts in shared stores"][1::2] == ("none", "better")
    then, now, of, verdict = changes(recorded, "coalesced")["uncoalesced global loads"]
    assert (int(then.split()[0]) > 90, now, of, verdict) == (True, "less than 3 %", slots, "better")


def test_shares_are_compared_with_shares_of_the_same_alone(recorded):
    assert changes(recorded, "wgmma_3xtf32")["tensor cores"][2:] == ("the tensor pipe's cycles", "better")
    own = {"FFMA", "tensor cores", *recorded["diagnosis"].query("of == 'the issue slots'")["finding"]}
    text = section(a_page(recorded, "mma_3xtf32"), "Against")  # a rung on FP32 units is before it
    assert not own & {line.split(" | ")[0].strip("| ") for line in text.splitlines()}


def test_a_page_of_a_rung_on_tensor_cores_says_what_limits_it_and_what_its_other_kernels_cost(made):
    profiles = {"2048": RECORDED["wgmma_3xtf32"]["2048"] | {"where": a_where()}}
    item = an_evidence("naive", inspection=made[1], profiles=profiles)
    text = page(a_rung("naive"), made[1], all_tables([item], ROUND_GPU, "cublas", "naive"))
    first, *others = rows_of(text, "limit")
    assert (first["limit"], first["share of"]) == ("tensor cores", "the tensor pipe's cycles")
    assert others[-1]["share of"] == "the kernel's time"
    (other,) = (row for row in rows_of(section(text, "Profile"), "kernel") if row["kernel"] == "split_lines")
    assert 0 < float(other["of the time"].rstrip("%")) < 50
    advice = section(text, "Nsight Compute's advice")
    assert "CPIStall" in advice or "Barrier Stalls" in advice
    assert "Occupancy" not in advice  # that is advice on split_lines


def test_a_page_shows_the_stalls_most_first_and_no_empty_ones(recorded):
    rows = rows_of(a_page(recorded, "tiled@TILE=32"), "a warp's state between two instructions")
    cycles = [float(row["cycles"].replace(",", "")) for row in rows]
    assert rows[0]["a warp's state between two instructions"] == "mio throttle"
    assert cycles == sorted(cycles, reverse=True)
    assert min(cycles) > 0
    assert all(row["what it waits for"] for row in rows)


def test_every_metric_of_a_page_says_what_it_is(recorded):
    rows = [
        row
        for text in section(a_page(recorded, "naive"), "Profile").split("### ")[1:]
        for row in rows_of(text, "metric")
    ]
    named = {name.replace("_", " ") for name in recorded["profiles"]["name"] if not name.startswith("stall_")}
    assert {row["metric"] for row in rows} == named
    assert all(row["what it is"] for row in rows)


def test_the_index_sets_the_rungs_side_by_side(recorded):
    ladder = read_kernels(ROOT / "config/kernels.yaml")
    text = pages_index([rung for rung in ladder.values() if rung.role != "floor"], recorded)
    head = next(line for line in text.splitlines() if line.startswith("| metric | unit |"))
    profiled = set(recorded["profiles"]["rung"])
    assert {"naive", "coalesced", "tiled@TILE=32"} <= profiled
    assert {cell.strip() for cell in head.split("|")} == {"", "metric", "unit", *profiled}
    assert "| stall MIO throttle | cycles |" in text


def test_the_index_and_the_timeline_show_no_picture_of_profiles_that_there_are_none_of(recorded):
    rungs = [rung for rung in read_kernels(ROOT / "config/kernels.yaml").values() if rung.role == "rung"]
    bare = recorded | {name: recorded[name].iloc[:0] for name in ("profiles", "slots")}
    pictures = ("figures/intensity", "figures/roofline", "figures/issue_slots")
    assert all(name in pages_index(rungs, recorded) for name in pictures)
    assert not any(name in pages_index(rungs, bare) for name in pictures)
    assert "figures/issue_slots" in timeline(rungs, recorded)
    assert "figures/issue_slots" not in timeline(rungs, bare)


def test_a_page_says_what_each_memory_costs_from_the_nearest_to_the_farthest():
    rows = rows_of("\n".join(memory_costs(read_table(ROOT / "results/h200-sxm/tables/hardware.csv"))), "memory")
    assert [row["memory"] for row in rows] == ["shared memory", "L1", "L2", "DRAM"]
    cycles = [int(row["cycles from a load to its data"]) for row in rows]
    assert cycles == sorted(cycles)
    assert memory_costs(pd.DataFrame(columns=HARDWARE_COLUMNS)) == []


def test_a_page_without_records_says_so(made):
    text = page(a_rung("coalesced"), {"launches": {}, "kernels": []}, made[0])
    for title in ("Benchmark", "All limits"):
        assert section(text, title).strip().count("\n") == 0, title


def test_the_index_links_every_page(made):
    text = pages_index([a_rung("naive"), a_rung("coalesced")], made[0])
    naive, coalesced = rows_of(text, "rung")
    assert (naive["rung"], coalesced["rung"]) == ("[naive](naive.md)", "[coalesced](coalesced.md)")
    assert naive["first limit"].startswith("uncoalesced global loads, ")
    assert not coalesced["first limit"]


@pytest.fixture(scope="module")
def recorded():
    """The tables of the recorded GPU."""
    return {path.stem: read_table(path) for path in (ROOT / "results" / RECORDED_GPU / "tables").glob("*.csv")}


def test_a_profile_says_how_often_the_load_pipe_works_for_an_uncoalesced_load():
    profile = Profile(RECORDED["naive"]["2048"]["kernels"][0]["metrics"])
    # A warp's FFMA needs one element of B, the same for all lanes, and 32 of A that lie in 32 lines.
    assert profile.wavefronts_per_ffma(132) == pytest.approx(33, rel=0.01)


def test_a_shape_without_a_profile_has_the_passes_of_the_nearest_and_what_its_addresses_change():
    least = {"1024": (33.0, "addresses"), "4095": (9.0, "addresses"), "4096": (33.0, "addresses")}
    assert passes_by_shape({"4096": (33.5, "profile")}, least) == {
        "1024": (33.5, "profile at 4096, addresses"),
        "4095": (9.5, "profile at 4096, addresses"),
        "4096": (33.5, "profile"),
    }
    assert passes_by_shape({}, least) == least


def test_the_largest_shape_is_the_largest_square():
    assert largest(["512", "4096", "64x8192x8192"]) == "4096"
    assert largest([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1,234"), (0.12345, "0.1235"), (56.0123, "56.01"), (1.443e-7, "1.44e-7"), (148480, "148,480"),
        (0, "0"), (float("nan"), ""), (None, ""), ("x", "x"),
    ],
)  # fmt: skip
def test_numbers_have_four_digits(value, text):
    assert number(value) == text
