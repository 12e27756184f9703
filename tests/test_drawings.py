"""The drawings of the tutorial's rungs: what they say of threads and banks is what kernels do and what was measured."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from emulator import Case, compile_rung, run
from ladder.build.library import Library
from ladder.config.kernels import read_kernels
from ladder.config.tuned_file import tuned_file, with_tuned
from ladder.model.layouts import LAYOUTS, Access, Layout, global_passes, layout_of, pieces, sectors
from ladder.model.rung import Rung, TunedClass
from ladder.model.shape import Shape
from ladder.show import drawings
from ladder.show.drawings import PICTURES, constants_of, drawing, is_drawn, picture, title
from ladder.show.pages import page
from ladder.show.report import render
from ladder.show.style import PALETTE
from ladder.system.paths import ROOT
from ladder.tables.paper import default_macros
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from pipeline import RECORDED
from test_banks import copies

SVG = "{http://www.w3.org/2000/svg}"
ALL = read_kernels(ROOT / "config" / "kernels.yaml")
LADDER = {name: rung for name, rung in ALL.items() if is_drawn(rung)}
TUNED = {name: rung for name, rung in with_tuned(ALL, tuned_file(RECORDED)).items() if is_drawn(rung)}
# A rung that stores this in place of each of its results: the thread that computed it.
PROBE = """
#include "gemm.cuh"
__device__ inline void store_thread(const Gemm& g, int row, int col, float) {{
  g.C[row * g.ldc + col] = static_cast<float>(threadIdx.y * blockDim.x + threadIdx.x);
}}
#define store_result store_thread
#include "{source}"
"""
# Where a row of shared memory keeps an element of A or B.
PLACES = {
    "conflict_free": """
extern "C" int place_A(int p, int row) { return p * PITCH_A + at_A<1>(p, row); }
extern "C" int place_B(int p, int col) { return p * PITCH_B + at_B(col); }
"""
} | dict.fromkeys(
    ("warp_tiled", "double_buffered", "async_copy"),
    """
extern "C" int place_A(int p, int row) { return p * PITCH_A + row; }
extern "C" int place_B(int p, int col) { return p * BN + col; }
""",
)


def with_last_class(rung: Rung, index: int) -> Rung:
    """The rung with the tuned macros of one class for all products."""
    return replace(rung, tuned=(TunedClass(float("inf"), rung.tuned[index].macros),))


BUILDS = {
    **{f"{name} by default": rung for name, rung in LADDER.items()},
    **{
        f"{name} as tuned, {index}": with_last_class(rung, index)
        for name, rung in TUNED.items()
        for index in range(len(rung.tuned))
    },
}


def layout(rung: Rung) -> Layout:
    found = layout_of(rung.entry, constants_of(rung))
    assert found is not None
    return found


def test_every_rung_of_the_tutorial_is_drawn_and_no_other():
    tutorial = ["naive", "coalesced", "tiled", "tiled_1d", "tiled_2d", "vectorized", "conflict_free", "warp_tiled"]
    assert list(PICTURES) == list(LAYOUTS) == [*tutorial, "double_buffered", "async_copy", "tma"]
    assert {rung.entry for rung in LADDER.values()} == set(PICTURES)
    assert picture(ALL["fastest"]) == []


@pytest.mark.parametrize("rung", BUILDS.values(), ids=list(BUILDS))
def test_every_result_of_a_tile_has_one_owner_and_every_thread_as_many(rung):
    constants, found = constants_of(rung), layout(rung)
    tile = (constants["TILE"],) * 2 if rung.entry == "tiled" else (constants["BM"], constants["BN"])
    assert found.tile[:2] == tile
    owners = Counter(found.owner(row, col) for row in range(tile[0]) for col in range(tile[1]))
    assert sorted(owners) == list(range(found.threads))
    assert set(owners.values()) == {constants.get("TM", 1) * constants.get("TN", 1)}
    assert sum(owners.values()) == tile[0] * tile[1]
    if "WM" in constants:
        assert pieces(found.of_warp(0)) == [(0, 0, constants["WM"], constants["WN"])]


@pytest.mark.parametrize("rung", [rung for rung in TUNED.values() if rung.entry != "tma"], ids=lambda rung: rung.name)
def test_owners_and_places_are_those_of_the_kernel_in_the_emulator(rung, tmp_path):
    """All but those of `tma`, whose tensor maps the emulator does not have."""
    source, constants, found = tmp_path / "probe.cu", constants_of(rung), layout(rung)
    text = PROBE.format(source=ROOT / "kernels" / rung.source) + PLACES.get(rung.entry, "")
    source.write_text(text)
    macros = {name: str(value) for name, value in constants.items()}
    error = compile_rung(source, tmp_path / "probe.so", macros)
    assert not error, error
    library = Library(tmp_path / "probe.so")
    bm, bn, bk = found.tile
    content, _, _ = run(library, Case(bm, bn, bk or 8, gaps=(0, 0, 1)), seed=1)  # an odd ldc: no vectors are stored
    owners = np.frombuffer(content, np.float32).reshape(bm, bn)
    assert owners.tolist() == [[found.owner(row, col) for col in range(bn)] for row in range(bm)]
    if rung.entry in PLACES:
        places = {"A": library.functions.place_A, "B": library.functions.place_B}
        for name, end in (("A", bm), ("B", bn)):
            assert found.used[name] == {places[name](p, index) for p in range(bk) for index in range(end)}
        for name, (p, index) in drawn_elements(found).items():
            assert found.access(name).words[-1] == places[name[-1]](p, index), name


def drawn_elements(found: Layout) -> dict[str, tuple[int, int]]:
    """Of the accesses of warp 0's last lane the first element: its step along k, its row or column."""
    last = found.owned[31][0]
    row, step = max(found.loads["A"])
    first = step if len(found.loads["A"]) == 32 else step - 3  # copied one by one or by vector
    return {"load of A": (0, last[0]), "load of B": (0, last[1]), "store of A": (first, row)}


def conflicts(found: Layout, kind: str) -> int:
    """Of the loads or the stores of a block for one tile the turns that are too many."""
    return found.warps * sum(each.conflicts * each.times for each in found.accesses if each.name.startswith(kind))


@pytest.mark.parametrize("tile", [(128, 128, 8, 8, 8), (64, 128, 16, 8, 4), (128, 128, 16, 16, 4)], ids=str)
def test_conflicts_are_those_that_the_test_of_banks_counts_for_a_whole_block(tile):
    constants = dict(zip(("BM", "BN", "BK", "TM", "TN"), tile, strict=True))
    bm, bn, _, _, _ = tile
    counted = copies(tile, 4, 4, lambda _, p, row: p * bm + row, lambda p, col: p * bn + col)
    vectorized = layout_of("vectorized", constants)
    for name, number in counted.items():
        access = vectorized.access(name.replace("stores", "store").replace("loads", "load"))
        assert vectorized.warps * access.conflicts * access.times == number, name
    for number in (1, 2):
        found = layout_of("conflict_free", constants | {"LAYOUT": number})
        assert {access.degree for access in found.accesses} == {1}


def test_degrees_of_the_vectorized_rung_are_those_that_its_head_names():
    found = layout_of("vectorized", {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8})
    assert {access.name: access.degree for access in found.accesses} == {
        "load of A": 1,
        "load of B": 2,
        "store of A": 2,
        "store of B": 1,
    }
    assert layout_of("vectorized", {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}).access("store of A").degree == 4


def test_a_bank_that_is_asked_for_one_word_by_several_threads_takes_one_turn():
    same, apart = (Access("load of A", tuple(step * lane for lane in range(32)), (0,) * 32, 1, 1) for step in (0, 32))
    assert (same.degree, same.conflicts) == (1, 0)
    assert (apart.degree, apart.conflicts) == (32, 31)


@pytest.mark.parametrize("name", [name for name, rung in TUNED.items() if layout(rung).accesses])
def test_accesses_and_conflicts_are_as_many_as_were_measured(name):
    """Counters of Nsight Compute; where no layout conflicts, they still count up to 0.2 of a turn an instruction."""
    table = pd.read_csv(ROOT / "results" / RECORDED / "tables" / "profiles.csv", dtype=str)
    at = table[(table["rung"] == name) & (table["shape"] == "4096")].set_index("name")["value"]
    measured, found = (
        at.map(lambda value: float(value) if re.match(r"[\d.e+]+$", str(value)) else None),
        layout(TUNED[name]),
    )
    tiles = 4096**3 / np.prod(found.tile)
    for kind in ("load", "store"):
        instructions = measured[f"shared_{kind}s"]
        if instructions == 0:  # asynchronous copies are other instructions
            assert name in ("async_copy", "tma")
            continue
        own = found.warps * sum(each.times for each in found.accesses if each.name.startswith(kind))
        assert instructions == pytest.approx(tiles * own, rel=1e-3), kind
        difference = measured[f"shared_{kind}_conflicts"] - tiles * conflicts(found, kind)
        assert abs(difference) < 0.2 * instructions, kind


def test_pairs_of_lanes_that_ask_for_one_address_share_a_pass():
    def load(words: Iterable[int], width: int = 4) -> int:
        return Access("load of A", tuple(words), (0,) * 32, width, 1).passes

    assert load([0] * 32, 1) == load([0] * 32, 2) == 1
    assert load([0] * 32) == 2  # 512 bytes, of 64 lanes' worth a pass
    assert (
        load(4 * (lane // 2) for lane in range(32)) == load(4 * (lane // 4 * 2 + lane % 2) for lane in range(32)) == 2
    )
    assert load(4 * (lane // 16) for lane in range(32)) == 2
    assert load(4 * (lane % 16) for lane in range(32)) == load(4 * lane for lane in range(32)) == 4
    assert load(range(32), 1) == load(range(0, 32 * 32, 32), 1) - 31 == 1


def test_lines_of_global_memory_are_looked_up_four_at_a_time():
    assert global_passes(range(32)) == 1
    assert global_passes(range(128)) == 4
    assert global_passes(range(0, 32 * 4096, 4096)) == 32  # of one bank
    assert global_passes(range(0, 32 * 4095, 4095)) == 8  # of all banks, in 32 lines


@pytest.mark.parametrize("n", [2048, 4096])
@pytest.mark.parametrize("name", TUNED)
def test_passes_of_loads_by_addresses_are_as_many_as_were_measured(name, n):
    """Those of shared loads within 1 %; with stores and global loads within 15 %, as they wait for one another too."""
    rung, shape = TUNED[name], Shape(n, n, n)
    macros = default_macros(rung) | rung.macros_at(shape)
    found = layout_of(rung.entry, {key: int(value) for key, value in macros.items()})
    table = pd.read_csv(ROOT / "results" / RECORDED / "tables" / "profiles.csv", dtype=str)
    at = table[(table["rung"] == name) & (table["shape"] == str(n)) & (table["multiplies"] == "True")]
    measured = at.set_index("name")["value"]
    loads = [access for access in found.accesses if access.name.startswith("load")]
    if loads:
        each = found.warps * sum(access.passes * access.times for access in loads)
        assert n**3 / np.prod(found.tile) * each == pytest.approx(float(measured["shared_load_wavefronts"]), rel=0.01)
    paper = pd.read_csv(ROOT / "results" / RECORDED / "tables" / "paper.csv", dtype=str)
    (row,) = paper[(paper["rung"] == name) & (paper["shape"] == str(n))].to_dict("records")
    assert row["wavefronts_from"] == "profile"
    assert found.passes_per_ffma(n, n) == pytest.approx(float(row["wavefronts_per_ffma"]), rel=0.15)


def test_measured_conflicts_fall_from_vectorized_to_conflict_free_as_drawn():
    drawn = {name: conflicts(layout(TUNED[name]), "store") for name in ("vectorized", "conflict_free@LAYOUT=2")}
    diagnosis = pd.read_csv(ROOT / "results" / RECORDED / "tables" / "diagnosis.csv")
    found = set(diagnosis.loc[diagnosis["finding"] == "bank conflicts in shared stores", "rung"])
    assert {name for name, number in drawn.items() if number} == found & set(drawn) == {"vectorized"}


def test_sectors_are_those_that_the_heads_of_the_first_rungs_name():
    naive, coalesced = (layout(LADDER[name]).loads for name in ("naive", "coalesced"))
    assert [len(sectors(naive[name])) for name in ("A", "B")] == [32, 1]
    assert [len(sectors(coalesced[name])) for name in ("A", "B")] == [1, 4]
    assert {len(words) for words in sectors(coalesced["B"]).values()} == {8}


@pytest.mark.parametrize(("stages", "tiles"), [(2, 8), (3, 9), (4, 12)])
def test_a_buffer_holds_one_tile_at_a_time_and_is_filled_before_it_is_multiplied(stages, tiles):
    bars = drawings.buffered_in_stages(tiles, stages)
    for row in range(stages):
        ordered = sorted((bar for bar in bars if bar.row == row), key=lambda bar: bar.begin)
        assert [bar.action for bar in ordered] == [drawings.PALE_COPY, drawings.MULTIPLY] * (len(ordered) // 2)
        assert all(earlier.end <= later.begin for earlier, later in pairwise(ordered))
    for time in range(tiles - stages):
        at = Counter(bar.action for bar in bars if bar.begin <= time + 0.5 < bar.end)
        assert at == {drawings.MULTIPLY: 1, drawings.PALE_COPY: stages - 1}


def test_two_buffers_are_stored_to_in_turn_while_the_other_is_multiplied():
    bars = drawings.buffered_in_registers(6, 8)
    stores = [bar for bar in bars if bar.action == drawings.STORE]
    products = [bar for bar in bars if bar.action == drawings.MULTIPLY]
    assert [bar.begin for bar in products] == list(range(6))
    for store, product, busy in zip(stores[1:], products[1:], products, strict=False):
        assert store.row == product.row != busy.row
        assert busy.begin < store.begin < store.end == busy.end == product.begin


def texts(svg: str) -> list[tuple[float, float, float, float, str]]:
    """Every text of a drawing in DejaVu Sans, the widest of the usual fonts: left, top, right, bottom, words."""
    found = []

    def visit(element: ET.Element, down: float, inherited: dict[str, str]) -> None:
        inherited = inherited | element.attrib
        if moved := re.match(r"translate\(0 (.*)\)", element.get("transform", "")):
            down += float(moved[1])
        if element.tag == f"{SVG}text":
            size = float(inherited["font-size"])
            font = FontProperties(family="DejaVu Sans", weight=inherited.get("font-weight", "normal"))
            width = TextPath((0, 0), element.text, size=size, prop=font).get_extents().x1
            x, y = float(element.get("x")), down + float(element.get("y"))
            left = x - width * {"start": 0, "middle": 0.5, "end": 1}[inherited.get("text-anchor", "start")]
            found.append((left, y - 0.73 * size, left + width, y, element.text))
        for child in element:
            visit(child, down, {key: value for key, value in inherited.items() if key not in ("x", "y", "transform")})

    visit(ET.fromstring(svg), 0, {})
    return found


@pytest.mark.parametrize("rung", BUILDS.values(), ids=list(BUILDS))
def test_no_text_of_a_drawing_meets_another_or_leaves_it(rung):
    svg = drawing(rung.entry, constants_of(rung))
    found = texts(svg)
    height = float(ET.fromstring(svg).get("viewBox").split()[3])
    assert len(found) > 10
    assert [
        words
        for left, top, right, bottom, words in found
        if left < 0 or right > drawings.ACROSS or top < 0 or bottom > height
    ] == []
    meeting = [
        (one[4], other[4])
        for one, other in combinations(found, 2)
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]
    assert meeting == []


@pytest.mark.parametrize("rung", TUNED.values(), ids=lambda rung: rung.name)
def test_a_drawing_is_xml_says_its_message_and_is_the_same_bytes_each_time(rung):
    constants = constants_of(rung)
    svg = drawing(rung.entry, constants)
    assert svg == drawing(rung.entry, dict(reversed(constants.items())))
    root = ET.fromstring(svg)
    said = title(rung.entry, constants)
    assert root.find(f"{SVG}title").text == said
    assert said.startswith(f"{rung.entry}: ")
    assert " ".join(text[4] for text in texts(svg)).replace("\u00a0", " ").startswith(said)
    assert "nan" not in svg


@pytest.mark.parametrize("name", TUNED)
def test_a_drawing_follows_every_macro_of_its_tile(name):
    rung = TUNED[name]
    constants = constants_of(rung)
    svg = drawing(rung.entry, constants)
    for macro in set(constants) & {"TILE", "BM", "BN", "BK", "STAGES"}:
        changed = drawing(rung.entry, constants | {macro: 2 * constants[macro]})
        assert changed != svg, macro
        assert layout_of(rung.entry, constants | {macro: 2 * constants[macro]}) is not None, macro
    side = "TILE" if rung.entry == "tiled" else "BM"
    assert f"{2 * constants[side]} rows" in drawing(rung.entry, constants | {side: 2 * constants[side]})


def test_the_layout_of_the_conflict_free_rung_is_the_one_drawn():
    reordered, padded = (drawing("conflict_free", constants_of(LADDER[f"conflict_free@LAYOUT={n}"])) for n in (1, 2))
    assert "gap: words that hold nothing" in padded
    assert "gap: words that hold nothing" not in reordered
    assert "order" in title("conflict_free", constants_of(LADDER["conflict_free@LAYOUT=1"]))


def test_a_title_names_the_conflict_that_its_constants_make():
    constants = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
    assert "2 words" in title("vectorized", constants)
    assert "4 words" in title("vectorized", constants | {"BK": 16})
    assert "no bank conflict" in title("conflict_free", constants | {"LAYOUT": 2})


def test_constants_are_the_largest_class_of_the_tuned_build_or_the_sources_own():
    assert constants_of(TUNED["vectorized"]) == {
        "BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8,
    } | {name: int(value) for name, value in TUNED["vectorized"].tuned[-1].macros.items()}  # fmt: skip
    assert constants_of(LADDER["tiled@TILE=8"]) == {"TILE": 8}
    assert constants_of(LADDER["tma"])["STAGES"] == 4


@pytest.mark.parametrize(
    ("name", "macros"),
    [
        ("vectorized", {"BM": "100"}),
        ("vectorized", {"TM": "0"}),
        ("vectorized", {"BM": "wide"}),
        ("async_copy", {"STAGES": "1"}),
        ("tma", {"STAGES": "many"}),
        ("conflict_free@LAYOUT=1", {"LAYOUT": "3"}),
    ],
    ids=str,
)
def test_constants_that_make_no_tile_are_said_in_the_drawing(name, macros):
    rung = replace(LADDER[name], macros=macros)
    svg = drawing(rung.entry, constants_of(rung))
    assert "no tile that can be drawn" in ET.fromstring(svg).find(f"{SVG}title").text
    assert "no tile that can be drawn" in picture(rung)[0]


def test_the_colours_are_those_of_the_figures():
    names = "OF_A OF_B WARP THREAD COPY STORE MULTIPLY ONE_TURN TWO_TURNS MORE_TURNS"
    assert {getattr(drawings, name) for name in names.split()} <= set(PALETTE)


def test_lines_keep_products_and_assignments_together():
    assert drawings.wrapped("a block computes BM x BN = 64 x 128 results", 10, 100) == [
        "a block computes",
        "BM\u00a0x\u00a0BN\u00a0=\u00a064\u00a0x\u00a0128",
        "results",
    ]


def test_a_page_shows_the_drawing_with_the_constants_of_its_build(recorded_material):
    rung = TUNED["async_copy"]
    text = page(rung, {"launches": {}, "kernels": []}, recorded_material.tables)
    words, shown, _ = text.partition(f"![{title('async_copy', constants_of(rung))}](../drawings/async_copy.svg)\n\n")
    assert shown
    assert "## " not in words
    assert f"BN={rung.tuned[-1].macros['BN']}, " in text[len(words) :].splitlines()[2]


def test_the_report_shows_the_drawing_of_a_rung_inside_itself(recorded_material, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "drawings").mkdir()
    rungs = [rung for rung in recorded_material.rungs if rung.name in ("conflict_free@LAYOUT=1", "tiled_2d", "fastest")]
    for rung in rungs:
        (tmp_path / "pages" / f"{rung.name}.md").write_text(
            page(rung, {"launches": {}, "kernels": []}, recorded_material.tables)
        )
    name = "conflict_free@LAYOUT=1"
    (tmp_path / "drawings" / f"{name}.svg").write_text(drawing("conflict_free", constants_of(TUNED[name])))
    text = render(replace(recorded_material, rungs=rungs, results=tmp_path))
    (image,) = re.findall(r'<img class="drawing"[^>]*>', text)
    assert 'src="data:image/svg+xml;base64,' in image
    assert f'alt="{title("conflict_free", constants_of(TUNED[name]))}"'.replace("'", "&#x27;") in image.replace(
        "'", "&#x27;"
    )
    assert "../drawings/" not in text
