"""Pages that explain: the order of what they say, promises that were not kept, advice that came true or not."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from ladder.config.plan import plan
from ladder.model.metrics import METRICS, RATIOS, STALLS
from ladder.show.explanation import (
    NSIGHT,
    PROMISED_AGAINST,
    PROMISES,
    WHY_CHAINS,
    came_true,
    explanation,
    gained,
    metrics_of,
    promised_against,
    rule_key,
    words_of,
)
from ladder.show.timeline import timeline
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import RULES, TENSOR_CORES
from ladder.tables.files import read_table
from pipeline import RECORDED

ORDER = [
    "What limits it, and how we know",
    "Why",
    "What to try",
    "What the next rung did",
    "What Nsight Compute advises",
    "What it promised",
]
KNOWN = {*METRICS, *(ratio.name for ratio in RATIOS), *(f"stall_{name}" for name in STALLS)}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {path.stem: read_table(path) for path in (ROOT / "results" / RECORDED / "tables").glob("*.csv")}


@pytest.fixture(scope="module")
def rungs():
    return {rung.name: rung for rung in plan({"gpu": RECORDED, "measure": False}).rungs if rung.role == "rung"}


@pytest.fixture(scope="module")
def pages(tables, rungs):
    return {name: "\n".join(explanation(rung, tables)) for name, rung in rungs.items()}


@pytest.mark.parametrize("name", ["tiled@TILE=16", "vectorized", "tiled_1d", "tiled@TILE=32"])
def test_a_page_answers_in_one_order(pages, name):
    titles = re.findall(r"^### (.+)$", pages[name], re.MULTILINE)
    assert [title for title in titles if title in ORDER] == ORDER


def test_every_rung_with_a_profile_is_explained_without_a_number_that_is_missing(pages, tables):
    profiled = set(tables["profiles"]["rung"])
    for name, text in pages.items():
        assert text or name not in profiled
        assert "nan" not in re.findall(r"\w+", text)


def test_a_promise_that_was_not_kept_is_said(tables, rungs):
    lines = explanation(rungs["conflict_free@LAYOUT=1"], tables)
    held = {line[2:].partition(" (")[0]: line for line in lines if "The promise is" in line}
    assert held["shared load wavefronts"].endswith("it is unchanged.")
    assert held["shared store wavefronts"].endswith("The promise is kept.")
    assert held["sectors per global store request"].endswith("it is worse.")


@pytest.mark.parametrize("name", ["mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16", "tf32"])
def test_a_rung_on_tensor_cores_is_held_to_its_promises(pages, tables, rungs, name):
    """Against the rung before; `tf32`, which builds on none, against the three products of `wgmma_3xtf32`."""
    against = promised_against(rungs[name])
    assert against == (rungs[name].before or "wgmma_3xtf32")
    then, now = (metrics_of(tables["profiles"].query("shape == '4096'"), each) for each in (against, name))
    for promised in PROMISES[name]:
        (line,) = (line for line in pages[name].splitlines() if line.startswith(f"- {promised.replace('_', ' ')} ("))
        assert f"in `{against}`" in line
        assert ("The promise is kept." in line) == (now[promised] < 0.98 * then[promised])


@pytest.mark.parametrize(("name", "role"), [("cublas", "library"), ("fastest", "end"), ("tf32", "end"), ("tma", "end")])
def test_a_page_of_what_no_rung_follows_says_so_in_one_sentence(tables, name, role):
    every = {rung.name: rung for rung in plan({"gpu": RECORDED, "measure": False}).rungs}
    text = "\n".join(explanation(every[name], tables))
    (said,) = re.findall(r"### What the next rung did\n\n(.+)\n", text)
    assert said.startswith(f"No rung follows `{name}`: it is a")
    assert role in said
    assert text.count("No rung follows") == 1


def test_the_gain_of_the_next_rung_is_of_times_of_one_process_or_over_one_library(tables):
    at = {"timings": tables["timings"].query("shape == '4096'")}
    times = at["timings"].set_index("rung")
    assert gained("tiled_2d", "vectorized", at) == times.loc["vectorized", "speedup_over_before"]
    apart = gained("tiled@TILE=16", "tiled_1d", at)  # which was timed beside TILE=32
    assert apart == pytest.approx(
        times.loc["tiled_1d", "speedup_over_default"] / times.loc["tiled@TILE=16", "speedup_over_default"]
    )
    assert gained("tiled_2d", "unknown", at) is None


def test_conflicts_without_excess_passes_are_called_none(pages, tables):
    at = tables["profiles"][tables["profiles"]["shape"] == "4096"]
    for name, text in pages.items():
        values = metrics_of(at, name)
        none = values.get("shared_excessive_wavefronts") == 0 and (values["shared_load_conflicts"] > 0)
        assert ("### Conflicts that are none\n" in text) >= none


@pytest.mark.parametrize("name", ["tiled@TILE=16", "vectorized", "tiled_1d", "tiled@TILE=32"])
def test_a_page_says_what_the_worklogs_say_of_loads_barriers_and_memory(pages, tables, name):
    titles = re.findall(r"^### (.+)$", pages[name], re.MULTILINE)
    assert {"What the inner loop loads", "Why two barriers", "Memory traffic", "Occupancy by hand"} <= set(titles)
    loops = tables["instructions"].query("part == 'inner loop' and rung == @name")
    own = loops[["4096" in shapes.split() for shapes in loops["launched_at"]]].iloc[0]
    assert f"For {own['FFMA']:.0f} FFMAs" in pages[name]
    assert f"{own['lds_128bit']:.0f} of 128 bit" in pages[name]


def test_dram_that_is_busier_with_fewer_bytes_is_explained_by_the_time(pages, tables):
    at = tables["profiles"][tables["profiles"]["shape"] == "4096"]
    then, now = metrics_of(at, "tiled@TILE=32"), metrics_of(at, "tiled_1d")
    assert now["dram_bytes_read"] < then["dram_bytes_read"]
    assert (now["dram_throughput"] > then["dram_throughput"]) == ("nevertheless busier" in pages["tiled_1d"])


COMPARED = ["global_load_requests", "l2_sectors", "dram_bytes_read", "dram_throughput", "duration"]


@pytest.mark.parametrize("name", COMPARED)
def test_what_a_profile_has_not_counted_is_not_compared_with_the_rung_before(tables, rungs, name):
    fewer = tables | {"profiles": tables["profiles"][tables["profiles"]["name"] != name]}
    compared = "Compared with `tiled@TILE=32`"
    assert compared in "\n".join(explanation(rungs["tiled_1d"], tables))
    assert compared not in "\n".join(explanation(rungs["tiled_1d"], fewer))


def test_the_work_of_a_rung_on_tensor_cores_is_not_said_to_be_of_another_ceiling(tables, rungs):
    waits = tables["predictions"].assign(bound_by="issue slots")
    said = {name: "\n".join(explanation(rungs[name], tables | {"predictions": waits})) for name in ("tf32", "tiled_2d")}
    assert " ms of products on the tensor cores" in said["tf32"]
    assert " ms of work at the ceiling of the issue slots" in said["tiled_2d"]


def test_conflicts_that_cost_passes_are_told_from_those_that_are_none(pages, tables):
    at = tables["profiles"][tables["profiles"]["shape"] == "4096"]
    for name, text in pages.items():
        excess = metrics_of(at, name).get("shared_excessive_wavefronts", 0)
        assert ("### Conflicts that cost passes" in text) == (excess > 0)


def test_a_page_without_a_profile_says_what_the_model_and_the_code_say(tables, rungs):
    bare = tables | {
        name: tables[name].iloc[:0] for name in ("profiles", "diagnosis", "hotspots", "memory", "executed")
    }
    text = "\n".join(explanation(rungs["vectorized"], bare))
    assert text.startswith("## What to try at ")
    assert "No profile of this build is recorded here" in text
    assert "times as fast, by the model" in text
    assert "### Occupancy by hand" in text
    assert "nan" not in re.findall(r"\w+", text)
    assert explanation(rungs["vectorized"], bare | {"predictions": tables["predictions"].iloc[:0]}) == []


def test_what_is_promised_and_why_are_metrics_and_findings_that_we_have(rungs):
    assert {name for names in PROMISES.values() for name in names} <= KNOWN
    assert set(PROMISES) | set(PROMISED_AGAINST) == {rung.entry for rung in rungs.values()} - {"naive"}
    assert set(PROMISED_AGAINST.values()) <= set(rungs)
    for chain in WHY_CHAINS.values():
        fields = {name for text in chain["chain"] for name in re.findall(r"\{(\w+):", text)}
        assert fields <= KNOWN
        assert chain["source"].startswith("NVIDIA, ")


def test_no_number_stands_in_the_words_of_explanations():
    allowed = {"FP32", "L1", "L2", "32"}
    for chain in WHY_CHAINS.values():
        for text in chain["chain"]:
            assert set(re.findall(r"\w*\d\w*", re.sub(r"\{[^}]*\}", "", text))) <= allowed, text


def test_every_first_limit_of_the_record_has_a_chain_of_causes(tables):
    first = tables["diagnosis"].drop_duplicates(["rung", "shape"])
    assert set(first["finding"]) <= set(WHY_CHAINS)
    assert len(RULES) >= len(WHY_CHAINS) - 2
    assert TENSOR_CORES in WHY_CHAINS


def test_every_largest_estimate_of_nsight_compute_has_a_meaning_here(tables):
    advice = tables["advice"][tables["advice"]["multiplies"] & tables["advice"]["estimated_speedup_percent"].notna()]
    top = advice.drop_duplicates(["rung", "shape"])
    keys = {rule_key(row.rule, row.title) for row in top.itertuples() if not row.rung.startswith("cublas")}
    assert keys <= set(NSIGHT)


@pytest.mark.parametrize(
    ("estimate", "saved", "left", "expected"),
    [
        (50.0, 60.0, 0.0, "came true"),
        (50.0, 60.0, 40.0, "came true in part"),
        (50.0, 10.0, 0.0, "came true in part"),
        (50.0, -5.0, 45.0, "did not come true"),
    ],
)
def test_an_estimate_came_true_where_the_time_fell_and_it_is_no_longer_made(estimate, saved, left, expected):
    assert came_true(estimate, saved, left) == expected


def test_nsights_words_are_its_first_two_sentences_without_links():
    message = "It waits 2.1 cycles. See the @url:Guide:https://docs.nvidia.com/x@ for more. A third one."
    assert words_of(message) == "It waits 2.1 cycles. See the Guide for more."


def test_the_timeline_has_a_paragraph_and_a_picture_for_each_rung_that_was_timed(tables, rungs):
    text = timeline(list(rungs.values()), tables)
    timed = set(tables["timings"].loc[tables["timings"]["shape"] == "4096", "rung"])
    steps = text.split("\n## What memory moves")[0].split("\n## ")[1:]
    assert [step.partition("\n")[0] for step in steps] == [name for name in rungs if name in timed]
    without = {step.partition("\n")[0] for step in steps if "![" not in step}
    assert without.isdisjoint(tables["slots"]["rung"])  # which have a profile


def test_a_run_without_records_has_a_timeline_that_says_so(tables, rungs):
    empty = {name: table.iloc[:0] for name, table in tables.items()}
    assert "No times are recorded." in timeline(list(rungs.values()), empty)
    assert explanation(next(iter(rungs.values())), empty) == []


def test_dram_traffic_is_over_the_bytes_of_three_matrices(tables):
    memory = tables["memory"].set_index(["rung", "shape"])
    profiles = tables["profiles"]
    own = profiles[(profiles["rung"] == "tiled@TILE=32") & (profiles["shape"] == "4096") & profiles["multiplies"]]
    values = own.set_index("name")["value"]
    moved = float(values["dram_bytes_read"]) + float(values["dram_bytes_written"])
    assert memory.loc[("tiled@TILE=32", "4096"), "dram_over_minimum"] == pytest.approx(moved / (12 * 4096**2), rel=1e-4)


def test_the_executed_mix_is_of_all_that_warps_executed(tables):
    executed = tables["executed"].groupby(["rung", "shape"])["percent"].sum()
    assert executed.to_numpy() == pytest.approx(100, abs=0.01)


def test_large_counts_are_written_out(pages, tables):
    at = tables["profiles"][tables["profiles"]["shape"] == "4096"]
    counts = {name: metrics_of(at, name).get("shared_loads", 0) for name in pages}
    told = [name for name, text in pages.items() if f" {counts[name] / 1e6:,.0f} million loads from shared" in text]
    assert told
    assert all(re.search(r"\de[+]\d", text) is None for text in pages.values())
