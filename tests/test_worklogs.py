"""Where each item of the public worklogs is answered: everything that docs/worklogs.yaml names is there."""

from __future__ import annotations

import pytest
import worklogs
from conftest import line_of
from hand_occupancy import held
from ladder.config.documents import read_yaml
from ladder.config.gpus import names, read_gpu
from ladder.config.plan import plan
from ladder.show.explanation import explanation
from ladder.show.timeline import timeline
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from pipeline import RECORDED

ITEMS = [item for items in read_yaml(worklogs.ITEMS).values() for item in items]
TABLES = ROOT / "results" / RECORDED / "tables"


def named(kind: str) -> set[str]:
    return {name for item in ITEMS for each, name in worklogs.answers(item[2]) if each == kind}


def test_every_item_of_five_worklogs_has_an_answer_that_is_there():
    found = worklogs.worklogs()
    assert len(found["logs"]) == 5
    assert found["number"] == len(ITEMS) > 121
    assert all(found["kinds"].values())


def test_sections_that_answer_are_on_the_pages(recorded_material):
    rungs = ["tiled@TILE=16", "vectorized", "tiled_1d", "tiled@TILE=32", "conflict_free@LAYOUT=1"]
    texts = [(recorded_material.results / "pages" / f"{rung}.md").read_text() for rung in rungs]
    titles = {line.lstrip("# ") for text in texts for line in text.splitlines() if line.startswith("##")}
    assert named("page") <= titles


def test_sections_of_the_timeline_that_answer_are_there():
    tables = {path.stem: read_table(path) for path in TABLES.glob("*.csv")}
    rungs = [rung for rung in plan({"gpu": RECORDED, "measure": False}).rungs if rung.role == "rung"]
    titles = {line.lstrip("# ") for line in timeline(rungs, tables).splitlines() if line.startswith("##")}
    assert named("timeline") <= titles
    assert explanation(rungs[0], tables)


@pytest.mark.parametrize(
    "answer", ["timings.no_such", "metric:no_such", "rung:no_such", "published:none", "docs/none.md", "some:thing"]
)
def test_an_answer_that_is_not_there_is_named(answer, tmp_path, monkeypatch):
    (tmp_path / "worklogs.yaml").write_text(f'"A log":\n  - [finding, "it is so", "{answer}"]\n')
    monkeypatch.setattr(worklogs, "ITEMS", tmp_path / "worklogs.yaml")
    assert "it is so" in line_of(worklogs.worklogs)


def test_every_published_metric_and_kernel_stands_in_the_comparison():
    quantities = set(read_table(TABLES / "published.csv")["quantity"])
    assert {{"time": "time, ms"}.get(name, name) for name in named("published")} <= quantities


@pytest.mark.parametrize(
    ("gpu", "threads", "registers", "shared", "warps", "limit"),
    [
        ("rtx-a4500", 1024, 37, 8192, 32, "warps and registers"),
        ("t4", 256, 39, 2048, 32, "warps"),
        ("t4", 256, 128, 32768, 16, "registers and shared memory"),
        ("h100-sxm", 256, 127, 16384, 16, "registers"),
        ("v100", 32, 16, 0, 32, "blocks"),
    ],
)
def test_occupancy_by_hand_is_the_lowest_limit(gpu, threads, registers, shared, warps, limit):
    result = held(read_gpu(gpu), threads, registers, shared)
    assert (result.warps, result.limited_by) == (warps, limit)


def test_occupancy_by_hand_is_that_of_cudas_own_calculator():
    rows = read_table(TABLES / "resources.csv")
    rows = rows[rows["multiplies"].astype(bool) & rows["blocks_per_sm"].notna() & rows["registers"].notna()]
    for row in rows.itertuples():
        shared = row.static_shared_bytes + row.dynamic_shared_bytes
        assert held(read_gpu(RECORDED), row.block_threads, int(row.registers), shared).blocks == row.blocks_per_sm


def test_every_gpu_file_has_the_limits_that_occupancy_needs():
    assert all(read_gpu(name).limits for name in names())
