"""The diagnosis agrees with what the SGEMM worklogs found by hand, on profiles recorded on an H100 at 2048."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from conftest import a_rung, an_evidence
from ladder.model.metrics import METRICS
from ladder.records import store
from ladder.tables import diagnosis
from ladder.tables.diagnosis import RULES, Limit, Profile, diagnose, multiplying_profile, slot_uses, top_lines
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
    return {limit.rule: limit.percent for limit in diagnose(profile(name))}


def limit_of(rule, of: Profile) -> Limit | None:
    return next(rule(of), None)


QUEUE = "MIO queue (shared memory)"


@pytest.mark.parametrize(
    ("name", "first", "more_than"),
    [("naive", "uncoalesced global loads", 80), ("tiled@TILE=16", QUEUE, 30), ("tiled@TILE=32", QUEUE, 30)],
)
def test_the_first_limit_is_what_the_worklogs_found(name, first, more_than):
    limits = found(name)
    assert next(iter(limits)) == first
    assert limits[first] > more_than


def test_a_rung_is_relieved_of_what_it_mends():
    assert found("tiled_2d").get(QUEUE, 0) < found("tiled@TILE=32")[QUEUE] / 3
    assert found("vectorized")["bank conflicts in shared loads"] > 20
    assert "bank conflicts in shared stores" in found("vectorized")
    for name in ("conflict_free@LAYOUT=1", "conflict_free@LAYOUT=2"):
        assert not [rule for rule in found(name) if rule.startswith("bank conflicts")]


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_the_uses_of_the_issue_slots_add_up_and_shares_of_something_else_are_listed_behind_theirs(name):
    assert sum(slot_uses(profile(name)).values()) == pytest.approx(100)
    own, limits = profile(name).share_of, diagnose(profile(name))
    order = [(limit.of != own, -limit.percent) for limit in limits]
    assert order == sorted(order)
    assert all(0 <= limit.percent <= 100 for limit in limits)
    assert {limit.of for limit in limits} <= {own, diagnosis.LOAD_PIPE, diagnosis.TIME}
    assert {limit.rule for limit in limits if limit.of == diagnosis.LOAD_PIPE} == {
        limit.rule for limit in limits if limit.rule.startswith("bank conflicts")
    }
    assert all(any(letter.isdigit() for letter in limit.evidence) for limit in limits)


def test_every_rule_cites_its_source_or_names_its_stall():
    for rule in RULES:
        assert rule.__doc__, rule.__name__


def test_bandwidth_and_tail_are_found_where_they_bind():
    assert limit_of(diagnosis.bandwidth, profile("naive")) is None
    assert "90 %" in limit_of(diagnosis.bandwidth, changed("naive", dram_throughput=90.0)).evidence
    half = changed("naive", sm_active_cycles=50.0, sm_elapsed_cycles=100.0)
    assert limit_of(diagnosis.tail, half).percent == 50


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
    assert 60 < first.percent < 100
    assert sum(each.percent for each in others) < 100 - first.percent + 10  # the tail is not the pipe's


def test_a_rung_of_mma_is_bound_by_latency_and_what_it_issues_beside_its_products():
    shares = found("mma_3xtf32")
    assert list(shares)[:2] == ["fixed latencies and instruction fetch", "addresses, guards and other instructions"]
    assert diagnosis.TENSOR_CORES not in shares


def on_tensor_cores(busy: float) -> Profile:
    """A recorded profile whose tensor pipes were so busy, and whose warps waited for them most."""
    return changed("conflict_free@LAYOUT=1", tensor_pipe_active=busy, stall_gmma=30.0)


def test_where_tensor_cores_multiply_their_pipe_is_what_counts():
    busy = diagnose(on_tensor_cores(85.0))
    assert (busy[0].rule, busy[0].percent) == ("tensor cores", 85.0)
    idle = diagnose(on_tensor_cores(30.0))
    assert idle[0].rule == "results of tensor cores"
    assert idle[0].percent < 70
    for share in (85.0, 30.0):
        used = slot_uses(on_tensor_cores(share))
        assert used["tensor cores"] == share
        assert used["FFMA"] == 0
        assert sum(used.values()) == pytest.approx(100)
    assert on_tensor_cores(30.0).share_of != profile("naive").share_of


def test_a_rung_whose_fp32_units_work_in_most_cycles_is_bound_by_them():
    name = "tiled@TILE=32"
    assert limit_of(diagnosis.fp32_units, changed(name, fma_pipe_active=75.0)) is None
    busy = changed(name, fma_pipe_active=80.0)
    assert limit_of(diagnosis.fp32_units, busy).percent == pytest.approx(slot_uses(busy)["FFMA"])
    assert limit_of(diagnosis.fp32_units, changed(name, fma_pipe_active=80.0, tensor_pipe_active=85.0)) is None
    assert next(iter(shares("fastest", "4096"))) == diagnosis.FP32_UNITS


@pytest.mark.parametrize("name", ["conflict_free@LAYOUT=1", "conflict_free@LAYOUT=2", "warp_tiled"])
def test_many_small_causes_do_not_outrank_the_pipe_that_works_in_most_cycles(name):
    """Warps of these rungs wait for shared memory in 0.0 to 0.3 of 4.8 cycles, and FP32 units work in 72 %."""
    first, second, *_ = diagnose(Profile.of(now(name, "4096")))
    assert (first.rule, first.of) == (diagnosis.FP32_UNITS, diagnosis.SLOTS)
    assert 70 < first.percent < 75
    assert second.percent < diagnosis.LARGE


def test_a_large_cause_outranks_fp32_units_that_work_in_less_than_three_quarters_of_the_cycles():
    assert next(iter(shares("double_buffered", "4096"))) == QUEUE  # warps wait 1.2 of 4.7 cycles for shared memory
    assert next(iter(shares("vectorized", "4096"))) == "barriers"


def test_fp32_units_are_no_limit_of_a_kernel_whose_load_pipe_is_busier_or_that_multiplies_in_few_cycles():
    metrics = now("conflict_free@LAYOUT=1", "4096")["metrics"]
    assert limit_of(diagnosis.fp32_units, Profile(metrics | counters(load_pipe_busy=72.0))) is None
    assert (
        limit_of(diagnosis.fp32_units, Profile(metrics | counters(fma_pipe_active=49.0, load_pipe_busy=20.0))) is None
    )


def test_the_evidence_of_a_queue_tells_slots_of_accesses_from_slots_that_waits_leave_empty():
    of = Profile.of(now("conflict_free@LAYOUT=1", "4096"))
    queue = limit_of(diagnosis.mio_queue, of)
    taken, lost = of.issued * of.shared / 100, of.lost_to("mio_throttle", "short_scoreboard")
    assert queue.percent == pytest.approx(taken + lost)
    assert f"These take {taken:.0f} % of the issue slots, and the waits leave {lost:.0f} % empty." in queue.evidence
    assert lost < taken


def test_the_work_of_the_next_rung_is_told_however_little_it_is():
    rungs = [a_rung("tma"), a_rung("naive", before="tma")]
    profiles = [store.read_json(RAW / "tma.json.xz")["shapes"], RECORDED["naive"]]
    table = diagnosis_table([an_evidence(rung=r, profiles=p) for r, p in zip(rungs, profiles, strict=True)])
    row = table[(table["rung"] == "tma") & (table["shape"] == "2048")].set_index("finding").loc[diagnosis.FP32_UNITS]
    assert row["next_slots_percent"] == pytest.approx(slot_uses(profile("naive"))["FFMA"])
    assert row["next_slots_percent"] > 0


def test_a_warp_that_waits_for_busy_tensor_cores_is_not_why_they_idle():
    throttled = Profile(changed("mma_3xtf32", stall_math_pipe_throttle=50.0).metrics)
    assert slot_uses(throttled) == pytest.approx(slot_uses(Profile(kernel("mma_3xtf32")["metrics"])))
    assert limit_of(diagnosis.dispatch, changed("tiled@TILE=32", stall_math_pipe_throttle=50.0)).percent > 20


def test_a_limit_names_its_stalls_the_longest_first_and_leaves_out_what_is_next_to_nothing():
    cycles = {"short_scoreboard": 2.0, "mio_throttle": 17.4, "wait": 1.01, "imc_miss": 0.01, "selected": 1.0}
    cycles = {f"stall_{reason}": count for reason, count in cycles.items()}
    waiting = changed("tiled@TILE=32", **cycles)
    told = limit_of(diagnosis.mio_queue, waiting).evidence
    assert all(text in told for text in ("19.4", f"{sum(waiting.stalls.values()):.1f}", "mio throttle 17.4"))
    assert told.index("mio throttle") < told.index("short scoreboard")
    fixed = changed("tiled@TILE=32", **cycles, stall_no_instruction=0, stall_branch_resolving=0)
    told = limit_of(diagnosis.dependencies, fixed).evidence
    assert "wait)" in told
    assert "imc miss" not in told


def test_what_accesses_global_memory_is_no_overhead():
    without = profile("naive")
    seen = changed("naive", global_loads=0.25 * without.get("executed_instructions"))
    assert (without.global_, seen.global_) == (0, 25)
    moved = seen.issued / 4
    shares = [
        [limit_of(rule, each).percent for rule in (diagnosis.uncoalesced, diagnosis.overhead)]
        for each in (without, seen)
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
    assert sum(slot_uses(lost).values()) == pytest.approx(100)
    assert "75 %" in limit_of(diagnosis.dependencies, lost).evidence


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
    assert set(table["of"]) >= {diagnosis.SLOTS, diagnosis.TENSOR_PIPE}
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
    record = store.read_json(RAW / f"{name}.json.xz")
    return multiplying_profile(record["shapes"][shape]["kernels"])


def shares(name: str, shape: str) -> dict[str, float]:
    return {limit.rule: limit.percent for limit in diagnose(Profile.of(now(name, shape)))}


@pytest.mark.parametrize("shape", ["2048", "4096"])
def test_the_recorded_ladder_shows_what_the_worklogs_found(shape):
    assert next(iter(shares("naive", shape))) == "uncoalesced global loads"
    assert "uncoalesced global loads" not in shares("coalesced", shape)
    assert {*list(shares("coalesced", shape))[:2]} >= {"global loads (queue and latency)"}
    for name in ("tiled@TILE=8", "tiled@TILE=16", "tiled@TILE=32", "tiled_1d"):
        assert next(iter(shares(name, shape))) == QUEUE
    assert shares("tiled_2d", shape)[QUEUE] < shares("tiled_1d", shape)[QUEUE] / 3
    conflicts = [
        sum(share for rule, share in shares(name, shape).items() if rule.startswith("bank conflicts"))
        for name in ("vectorized", "conflict_free@LAYOUT=1", "conflict_free@LAYOUT=2")
    ]
    assert conflicts[0] > 5
    assert conflicts[1:] == [0, 0]


@pytest.mark.parametrize("path", sorted(RAW.glob("*wgmma*.json.xz")), ids=lambda path: path.name.split(".")[0])
def test_recorded_rungs_of_wgmma_are_bound_by_their_tensor_cores(path):
    record = store.read_json(path)
    for shape in record["shapes"]:
        assert next(iter(shares(record["rung"], shape))) == diagnosis.TENSOR_CORES


@pytest.mark.parametrize("path", sorted(RAW.glob("*.json.xz")), ids=lambda path: path.name.split(".")[0])
def test_every_recorded_profile_has_hot_lines_with_a_reason_but_cublas(path):
    record = store.read_json(path)
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
    assert (first["rung"], first["finding"], first["of"]) == ("naive", "uncoalesced global loads", diagnosis.SLOTS)
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
