"""Which kernels a rung's host function launches for which products: the table, and what a page says of it."""

from __future__ import annotations

import re

import pytest
from conftest import a_rung, an_evidence
from ladder.config.plan import plan
from ladder.model.survey import PRODUCT_CLASSES
from ladder.show.pages import ways_section
from ladder.tables.files import read_table, write_table
from ladder.tables.ways import plain_name, way_table

WAYS = [
    ("64x64x64", ["void split<4>", "sgemm_split"]),
    ("128x256x512", ["void split<1>", "sgemm_split"]),
    ("1024x1x1024", ["class_0::few_columns"]),
    ("2048x2x512", ["class_1::few_columns"]),
]


@pytest.fixture
def table(tmp_path):
    """The table of a rung that has two ways, of one that has one, and of a library that launches nothing itself."""
    both = [{"shape": shape, "padding": 0, "kernels": kernels} for shape, kernels in WAYS]
    of = {"tiled": both, "naive": both[2:], "cublas": [{**each, "kernels": []} for each in both]}
    made = way_table([an_evidence(name, rung=a_rung(name), inspection={"ways": ways}) for name, ways in of.items()])
    write_table(made, tmp_path / "ways.csv")
    return read_table(tmp_path / "ways.csv")


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [("void sgemm<Tile<1, 2>, 3>", "sgemm"), ("class_1::sgemm_tiled", "sgemm_tiled"), ("scale_kernel", "scale_kernel")],
)
def test_a_kernel_is_named_without_its_type_namespace_and_template_arguments(kernel, plain):
    assert plain_name(kernel) == plain


def test_ways_are_counted_by_class_with_their_builds_and_ends(table):
    assert set(table["rung"]) == {"tiled", "naive"}
    whole = table[(table["rung"] == "tiled") & (table["class"] == "all")].set_index("way")
    assert whole["products"].to_dict() == {"few_columns": 2, "split + sgemm_split": 2}
    assert whole["builds"].to_dict() == {"few_columns": 2, "split + sgemm_split": 2}
    row = whole.loc["few_columns"]
    assert (row["least_side_low"], row["least_side_high"], row["k_low"], row["k_high"]) == (1, 2, 512, 1024)
    assert (row["flop_low"], row["flop_high"]) == (2 * 1024 * 1024, 2 * 2048 * 2 * 512)
    assert row["example"] == "2048x2x512"
    shares = table.groupby(["rung", "class"])["percent"].sum()
    assert shares.to_list() == pytest.approx([100] * len(shares))
    thin = table[(table["rung"] == "tiled") & (table["class"] == "thin: m is 8 n or more")]
    assert thin["way"].to_list() == ["few_columns"]


def test_a_page_has_each_way_with_its_products_and_the_share_of_each_class(table):
    text = "\n".join(ways_section(table[table["rung"] == "tiled"], explained=True))
    assert "| `few_columns` | 2 | 2 | 1 to 2 |" in text
    assert re.search(r"\| thin: m is 8 n or more \| 100 \| 0 \|", text)
    assert "comment of its source" in text
    assert "comment" not in "\n".join(ways_section(table[table["rung"] == "tiled"], explained=False))


def test_a_rung_with_one_way_says_so_in_a_sentence_and_a_library_nothing(table):
    (sentence,) = (line for line in ways_section(table[table["rung"] == "naive"], explained=False)[1:] if line)
    assert sentence.endswith("It is `few_columns` for all of them.")
    assert ways_section(table.iloc[:0], explained=False) == []


def test_the_products_that_are_asked_for_are_in_every_class_and_only_those_that_a_rung_claims():
    made = plan({"gpu": "h100-sxm", "measure": False, "survey": {"products": 3, "seed": 9}})
    products = made.asked_products("fastest")
    assert len(products) > 100  # whatever the survey is set to
    assert products == made.asked_products("tiled_2d")
    assert all(any(map(belongs, products)) for belongs in PRODUCT_CLASSES.values())
