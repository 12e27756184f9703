"""The diagnosis agrees with what the SGEMM worklogs found by hand, on profiles recorded on an H100 at 2048."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from conftest import a_rung, an_evidence
from ladder.model.metrics import METRICS
from ladder.tables import diagnosis
from ladder.tables.diagnosis import RULES, Profile, diagnose, multiplying_profile, slots, top_lines
from ladder.tables.profiles import diagnosis_table, followers, hotspot_table, rung_comparison, slot_table

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data" / "profiles.json.gz").read_bytes()))


def kernel(name: str) -> dict:
    return multiplying_profile(RECORDED[name]["2048"]["kernels"])


def profile(name: str) -> Profile:
    return Profile.of(kernel(name))


def counters(**values: float) -> dict[str, list]:
    """Metrics as a record has them, of their values by our names; `stall_wait` is a stall."""
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    return {
        METRICS[name].counter if name in METRICS else stall.format(name.removeprefix("stall_")): [value, ""]
        for name, value in values.items()
    }


def changed(name: str, **values: float) -> Profile:
    """A recorded profile with other values of some metrics, without its samples."""
    return Profile(kernel(name)["metrics"] | counters(**values))


def found(name: str) -> dict[str, float]:
    return {finding.rule: finding.slots_percent for finding in diagnose(profile(name))}


def test_naive_is_bound_by_its_uncoalesced_loads():
    first = diagnose(profile("naive"))[0]
    assert first.rule == "uncoalesced global loads"
    assert first.slots_percent > 80
    assert "16.5 sectors a load request" in first.evidence


@pytest.mark.parametrize("name", ["tiled@TILE=16", "tiled@TILE=32"])
def test_shared_memory_tiling_is_bound_by_the_mio_queue(name):
    assert diagnose(profile(name))[0].rule == "MIO queue (shared memory)"


def test_2d_tiling_relieves_the_mio_queue():
    queue = "MIO queue (shared memory)"
    assert found("tiled_2d").get(queue, 0) < found("tiled@TILE=32")[queue] / 3


def test_bank_conflicts_of_the_vectorized_rung_are_found_and_those_of_the_conflict_free_rung_are_gone():
    assert found("vectorized")["bank conflicts in shared loads"] > 20
    assert "bank conflicts in shared stores" in found("vectorized")
    for name in ("conflict_free@LAYOUT=1", "conflict_free@LAYOUT=2"):
        assert not [rule for rule in found(name) if rule.startswith("bank conflicts")]


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_the_uses_of_the_issue_slots_add_up_to_all_of_them(name):
    assert sum(slots(profile(name)).values()) == pytest.approx(100)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_findings_are_ranked_and_say_numbers(name):
    findings = diagnose(profile(name))
    shares = [finding.slots_percent for finding in findings]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 100 for share in shares)
    assert all(any(letter.isdigit() for letter in finding.evidence) for finding in findings)


def test_every_rule_cites_its_source_or_names_its_stall():
    for rule in RULES:
        assert rule.__doc__, rule.__name__


def test_bandwidth_and_tail_are_found_where_they_bind():
    assert diagnosis.bandwidth(profile("naive")) is None
    assert "90 %" in diagnosis.bandwidth(changed("naive", dram_throughput=90.0)).evidence
    half = changed("naive", sm_active_cycles=50.0, sm_elapsed_cycles=100.0)
    assert diagnosis.tail(half).slots_percent == 50


def test_of_several_kernels_the_one_that_multiplies_is_shown_however_short_it_is():
    def one(name: str, ns: float, **opcodes: int) -> dict:
        return {"kernel": name, "metrics": counters(duration=ns), "opcodes": opcodes}

    split, product, unused = one("split", 9, FFMA=7, FMUL=9), one("product", 5, HGMMA=3), one("other way", 1, IMAD=5)
    assert multiplying_profile([split, product, unused])["kernel"] == "product"
    assert multiplying_profile([one("first", 1, FFMA=8), one("sum", 5, FFMA=4)])["kernel"] == "first"
    assert multiplying_profile([one("short", 1), one("long", 2)])["kernel"] == "long"


def test_a_rung_of_wgmma_is_bound_by_its_tensor_cores():
    assert kernel("wgmma_3xtf32")["kernel"] == "sgemm_split"
    first, *others = diagnose(profile("wgmma_3xtf32"))
    assert first.rule == diagnosis.TENSOR_CORES
    assert 60 < first.slots_percent < 100
    assert sum(each.slots_percent for each in others) < 100 - first.slots_percent + 10  # the tail is not the pipe's


def test_a_rung_of_mma_is_bound_by_latency_and_what_it_issues_beside_its_products():
    shares = found("mma_3xtf32")
    assert list(shares)[:2] == ["fixed latencies and instruction fetch", "addresses, guards and other instructions"]
    assert diagnosis.TENSOR_CORES not in shares


def on_tensor_cores(busy: float) -> Profile:
    """A recorded profile whose tensor pipes were so busy, and whose warps waited for them most."""
    return changed("conflict_free@LAYOUT=1", tensor_pipe_active=busy, stall_gmma=30.0)


def test_where_tensor_cores_multiply_their_pipe_is_what_counts():
    busy = diagnose(on_tensor_cores(85.0))
    assert (busy[0].rule, busy[0].slots_percent) == ("tensor cores", 85.0)
    idle = diagnose(on_tensor_cores(30.0))
    assert idle[0].rule == "results of tensor cores"
    assert idle[0].slots_percent < 70
    for share in (85.0, 30.0):
        used = slots(on_tensor_cores(share))
        assert used["tensor cores"] == share
        assert used["FFMA"] == 0
        assert sum(used.values()) == pytest.approx(100)
    assert on_tensor_cores(30.0).slots != profile("naive").slots


def test_a_rung_whose_fp32_units_work_in_most_cycles_is_bound_by_them():
    name = "conflict_free@LAYOUT=1"
    assert diagnosis.fp32_units(changed(name, fma_pipe_active=75.0)) is None
    busy = changed(name, fma_pipe_active=80.0)
    assert diagnosis.fp32_units(busy).slots_percent == pytest.approx(slots(busy)["FFMA"])
    assert diagnosis.fp32_units(changed(name, fma_pipe_active=80.0, tensor_pipe_active=85.0)) is None
    assert next(iter(shares("fastest", "4096"))) == diagnosis.FP32_UNITS


def test_the_work_of_the_next_rung_is_told_however_little_it_is():
    rungs = [a_rung("tma"), a_rung("naive", before="tma")]
    profiles = [json.loads(gzip.decompress((RAW / "tma.json.gz").read_bytes()))["shapes"], RECORDED["naive"]]
    table = diagnosis_table([an_evidence(rung=r, profiles=p) for r, p in zip(rungs, profiles, strict=True)])
    row = table[(table["rung"] == "tma") & (table["shape"] == "2048")].set_index("finding").loc[diagnosis.FP32_UNITS]
    assert row["next_slots_percent"] == pytest.approx(slots(profile("naive"))["FFMA"])
    assert row["next_slots_percent"] > 0


def test_a_warp_that_waits_for_busy_tensor_cores_is_not_why_they_idle():
    throttled = Profile(changed("mma_3xtf32", stall_math_pipe_throttle=50.0).metrics)
    assert slots(throttled) == pytest.approx(slots(Profile(kernel("mma_3xtf32")["metrics"])))
    assert diagnosis.dispatch(changed("tiled@TILE=32", stall_math_pipe_throttle=50.0)).slots_percent > 20


def test_a_finding_names_its_stalls_the_longest_first_and_leaves_out_what_is_next_to_nothing():
    cycles = {"short_scoreboard": 2.0, "mio_throttle": 17.4, "wait": 1.01, "imc_miss": 0.01, "selected": 1.0}
    cycles = {f"stall_{reason}": count for reason, count in cycles.items()}
    waiting = changed("tiled@TILE=32", **cycles)
    total = sum(waiting.stalls.values())
    of = f"of {total:.1f} cycles between two instructions of a warp"
    assert diagnosis.mio_queue(waiting).evidence.startswith(f"19.4 {of}: mio throttle (17.4), short scoreboard (2.0); ")
    fixed = changed("tiled@TILE=32", **cycles, stall_no_instruction=0, stall_branch_resolving=0)
    assert diagnosis.dependencies(fixed).evidence.startswith(
        f"1.0 {of.replace(f'{total:.1f}', f'{sum(fixed.stalls.values()):.1f}')}: wait; "
    )


def test_what_accesses_global_memory_is_no_overhead():
    without = profile("naive")
    seen = changed("naive", global_loads=0.25 * without.get("executed_instructions"))
    assert (without.global_, seen.global_) == (0, 25)
    moved = seen.issued / 4
    shares = [
        [rule(each).slots_percent for rule in (diagnosis.uncoalesced, diagnosis.overhead)] for each in (without, seen)
    ]
    assert shares[1] == pytest.approx([shares[0][0] + moved, shares[0][1] - moved])


def test_a_rung_is_followed_by_the_variant_that_others_build_on():
    rungs = [
        a_rung("naive"), a_rung("tiled@TILE=8", before="naive"), a_rung("tiled@TILE=32", before="naive"),
        a_rung("tiled_1d", before="tiled@TILE=32"), a_rung("other", before="naive"), a_rung("last", before="other"),
    ]  # fmt: skip
    assert followers(rungs) == {"naive": "tiled@TILE=32", "tiled@TILE=32": "tiled_1d", "other": "last"}


def test_warps_that_only_copy_keep_no_slot_empty():
    waiting = kernel("tiled@TILE=32") | {
        "loop": {"selected": 50, "not_selected": 9, "no_instructions": 30, "barrier": 10}
    }
    lost = Profile.of(waiting)
    assert lost.lost_to("no_instruction") == pytest.approx(0.75 * lost.empty)
    assert lost.lost_to("mio_throttle") == 0
    assert sum(slots(lost).values()) == pytest.approx(100)
    assert "75% of the waits in the loop that multiplies" in diagnosis.dependencies(lost).evidence


def test_a_rung_whose_shares_are_of_something_else_is_not_set_beside_it():
    rungs = [a_rung("naive"), a_rung("tiled@TILE=16", before="naive")]
    tensor = {
        "2048": {
            **RECORDED["tiled@TILE=16"]["2048"],
            "kernels": [{**kernel("tiled@TILE=16"), "metrics": on_tensor_cores(50.0).metrics}],
        }
    }
    profiles = [RECORDED["naive"], tensor]
    table = diagnosis_table([an_evidence(rung=r, profiles=p) for r, p in zip(rungs, profiles, strict=True)])
    assert list(table["of"].unique()) == ["the issue slots", "the tensor pipe's cycles"]
    assert table.loc[table["rung"] == "naive", "next_slots_percent"].isna().all()


def test_hot_lines_are_those_with_most_stalled_samples_and_their_reason():
    lines = top_lines(kernel("naive"))
    assert lines[0]["file"] == "kernels/sgemm/naive.cu"
    assert lines[0]["reason"] == "lg_throttle"
    assert "g.B[p * g.ldb + col]" in lines[0]["text"]
    assert len(lines) <= 10
    assert lines[0]["percent"] > 90


def test_a_record_without_lines_has_none():
    older = {key: value for key, value in kernel("naive").items() if key not in ("lines", "instructions", "opcodes")}
    assert top_lines(older) == []


RAW = Path(__file__).resolve().parents[1] / "results" / "h100-sxm" / "raw" / "profile"


def now(name: str, shape: str) -> dict:
    """The main kernel of a recorded profile of the rungs as they stand."""
    record = json.loads(gzip.decompress((RAW / f"{name}.json.gz").read_bytes()))
    return multiplying_profile(record["shapes"][shape]["kernels"])


def shares(name: str, shape: str) -> dict[str, float]:
    return {finding.rule: finding.slots_percent for finding in diagnose(Profile.of(now(name, shape)))}


@pytest.mark.parametrize("shape", ["2048", "4096"])
def test_the_recorded_ladder_shows_what_the_worklogs_found(shape):
    queue = "MIO queue (shared memory)"
    assert next(iter(shares("naive", shape))) == "uncoalesced global loads"
    assert "uncoalesced global loads" not in shares("coalesced", shape)
    assert {*list(shares("coalesced", shape))[:2]} >= {"global loads (queue and latency)"}
    for name in ("tiled@TILE=8", "tiled@TILE=16", "tiled@TILE=32", "tiled_1d"):
        assert next(iter(shares(name, shape))) == queue
    assert shares("tiled_2d", shape)[queue] < shares("tiled_1d", shape)[queue] / 3
    conflicts = [
        sum(share for rule, share in shares(name, shape).items() if rule.startswith("bank conflicts"))
        for name in ("vectorized", "conflict_free@LAYOUT=1", "conflict_free@LAYOUT=2")
    ]
    assert conflicts[0] > 5
    assert conflicts[1:] == [0, 0]


@pytest.mark.parametrize("path", sorted(RAW.glob("*wgmma*.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_recorded_rungs_of_wgmma_are_bound_by_their_tensor_cores(path):
    record = json.loads(gzip.decompress(path.read_bytes()))
    for shape in record["shapes"]:
        assert next(iter(shares(record["rung"], shape))) == diagnosis.TENSOR_CORES


@pytest.mark.parametrize("path", sorted(RAW.glob("*.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_every_recorded_profile_has_hot_lines_with_a_reason_but_cublas(path):
    record = json.loads(gzip.decompress(path.read_bytes()))
    assert {"2048", "4096"} <= set(record["shapes"])
    for profile_of in record["shapes"].values():
        lines = top_lines(multiplying_profile(profile_of["kernels"]))
        if record["rung"].startswith("cublas"):
            continue
        assert lines, record["rung"]
        assert any(line["file"].startswith("kernels/") and line["text"] for line in lines)
        assert all(line["reason"] for line in lines)
        assert sum(line["percent"] for line in lines) > 60


def items() -> list:
    names = ["naive", "tiled@TILE=16", "vectorized"]
    rungs = [a_rung("naive"), a_rung("tiled@TILE=16", before="naive"), a_rung("vectorized")]
    return [an_evidence(rung=rung, profiles=RECORDED[name]) for rung, name in zip(rungs, names, strict=True)]


def test_tables_hold_the_findings_and_what_becomes_of_them_in_the_next_rung():
    table = diagnosis_table(items())
    first = table.iloc[0]
    assert (first["rung"], first["rank"], first["finding"]) == ("naive", 1, "uncoalesced global loads")
    assert (first["next_rung"], first["next_slots_percent"]) == ("tiled@TILE=16", 0)
    last = table[table["rung"] == "vectorized"].iloc[0]
    assert last["next_rung"] == ""
    assert math.isnan(last["next_slots_percent"])
    assert slot_table(items()).groupby("rung")["percent"].sum().to_list() == pytest.approx([100] * 3)
    assert hotspot_table(items())["rung"].nunique() == 3


def test_the_comparison_has_rungs_as_columns():
    table = rung_comparison(items()).set_index("metric")
    assert list(table.columns) == ["shape", "unit", "naive", "tiled@TILE=16", "vectorized"]
    assert table.loc["time", "naive"] > table.loc["time", "tiled@TILE=16"] > table.loc["time", "vectorized"]
    assert table.loc["bank conflicts, shared loads", "naive"] == 0
