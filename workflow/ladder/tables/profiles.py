"""What Nsight Compute measured: named metrics, advice, hot lines, issue slots, findings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ladder.build.sass import CLASSES, class_of
from ladder.model.metrics import COMPARED, METRICS, RATIOS, stall_counters
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.tables.diagnosis import (
    FP32_UNITS,
    TENSOR_CORES,
    Profile,
    diagnose,
    multiplying_profile,
    slot_uses,
    top_lines,
)
from ladder.tables.evidence import Evidence


def _profiled(evidence: Sequence[Evidence]) -> Iterator[tuple[str, str, list[dict[str, Any]], Mapping[str, Any]]]:
    """Each rung and shape with a profile: its kernels, and the one of them that computes the product."""
    for item in evidence:
        for shape, profile in item.profiles.items():
            yield item.rung.name, shape, profile["kernels"], multiplying_profile(profile["kernels"])


def profile_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape, kernel and metric of Nsight Compute that has a section, the stalls and RATIOS last.

    Columns: rung, shape, kernel, multiplies (whether it is the one of the product's kernels that computes it), section,
    name (ours), metric (Nsight Compute's), value, unit.
    """
    rows = [
        (rung, shape, kernel["kernel"], kernel is main, *row)
        for rung, shape, kernels, main in _profiled(evidence)
        for kernel in kernels
        for row in _metric_rows(kernel["metrics"])
    ]
    columns = ["rung", "shape", "kernel", "multiplies", "section", "name", "metric", "value", "unit"]
    return pd.DataFrame(rows, columns=columns)


def _metric_rows(metrics: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Section, name, metric, value and unit of all that the table of profiles has of one kernel."""
    for each in METRICS.values():
        if each.section:
            yield each.section, each.name, each.counter, metrics.get(each.counter, (None,))[0], each.unit
    for reason, counter in stall_counters(metrics).items():
        yield "warp state", f"stall_{reason}", counter, *metrics[counter]
    for each in RATIOS:
        over, under = METRICS[each.over], METRICS[each.under]
        counts = [metrics.get(part.counter, (0,))[0] for part in (over, under)]
        value = counts[0] / counts[1] if counts[1] else None
        yield over.section, each.name, f"{over.counter} / {under.counter}", value, ""


def advice_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a piece of Nsight Compute's advice, by its estimated speedup.

    Columns: rung, shape, kernel, multiplies (whether it is the one of the product's kernels that computes it), section,
    rule, title, estimated_speedup_percent (may be empty), message.
    """
    rows = [
        {"rung": rung, "shape": shape, "kernel": kernel["kernel"], "multiplies": kernel is main, **advice}
        for rung, shape, kernels, main in _profiled(evidence)
        for kernel in kernels
        for advice in sorted(kernel["advice"], key=lambda advice: -(advice["estimated_speedup_percent"] or 0))
    ]
    columns = ["rung", "shape", "kernel", "multiplies", "section", "rule", "title"]
    return pd.DataFrame(rows, columns=[*columns, "estimated_speedup_percent", "message"])


def hotspot_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and source line: the ten lines at which most stalled warps were sampled.

    Columns: rung, shape, place (of the ten), file, line, samples, percent (of all stalled samples), reason (the first),
    text. No rows for profiles that were recorded without their lines.
    """
    rows = [
        {"rung": rung, "shape": shape, "place": place, **line}
        for rung, shape, _, main in _profiled(evidence)
        for place, line in enumerate(top_lines(main), 1)
    ]
    columns = ["rung", "shape", "place", "file", "line", "samples", "percent", "reason", "text"]
    return pd.DataFrame(rows, columns=columns)


def hot_instruction_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and shape: the instruction of the product's kernel at which most stalled warps were sampled.

    Columns: rung, shape, sass, file, line, percent (of all stalled samples of instructions), reason (the first).
    """
    rows = []
    for rung, shape, _, main in _profiled(evidence):
        hot = top_lines({"lines": main.get("instructions", ())}, 1)
        rows += [{"rung": rung, "shape": shape, **{name: each.get(name) for name in _HOT}} for each in hot]
    return pd.DataFrame(rows, columns=["rung", "shape", *_HOT])


_HOT = ("sass", "file", "line", "percent", "reason")


def executed_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and class of instructions: how many warps executed, from the profile's opcodes.

    Columns: rung, shape, class (`ladder.build.sass.CLASSES`, or other), executed, percent (of all executed). No rows
    for profiles that were recorded without their opcodes.
    """
    rows = []
    for rung, shape, _, main in _profiled(evidence):
        counts: Counter[str] = Counter()
        for opcode, count in (main.get("opcodes") or {}).items():
            counts[class_of(opcode)] += count
        total = sum(counts.values())
        ordered = ((name, counts[name]) for name in (*CLASSES, "other") if counts[name])
        rows += [(rung, shape, name, count, 100 * count / total) for name, count in ordered]
    return pd.DataFrame(rows, columns=["rung", "shape", "class", "executed", "percent"])


def memory_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung and shape with a profile: what memory moves for the product, over the least that it needs.

    Columns: rung, shape, dram_over_minimum (bytes from and to DRAM over each matrix moved once), l1_hit_rate,
    l2_hit_rate, dram_throughput (percent), l2_over_minimum (bytes that the SMs read from L2, likewise).
    """
    rows = []
    for rung, text, kernels, main in _profiled(evidence):
        shape = Shape.parse(text)
        least = 4 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
        each = [Profile.of(kernel) for kernel in kernels]
        moved = sum(one.get("dram_bytes_read") + one.get("dram_bytes_written") for one in each)
        read = sum(32 * one.get("l2_sectors") for one in each)
        rates = [Profile.of(main).get(name) for name in ("l1_hit_rate", "l2_hit_rate", "dram_throughput")]
        rows.append((rung, text, moved / least, *rates, read / least))
    columns = ["rung", "shape", "dram_over_minimum", "l1_hit_rate", "l2_hit_rate", "dram_throughput"]
    return pd.DataFrame(rows, columns=[*columns, "l2_over_minimum"])


def slot_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and use of the issue slots (`ladder.tables.diagnosis.slot_uses`).

    Columns: rung, shape, use (FFMA, tensor cores, other instructions, or the stall reason of empty slots), percent.
    """
    rows = [
        (rung, shape, use, percent)
        for rung, shape, _, main in _profiled(evidence)
        for use, percent in slot_uses(Profile.of(main)).items()
    ]
    return pd.DataFrame(rows, columns=["rung", "shape", "use", "percent"])


def followers(rungs: Sequence[Rung]) -> dict[str, str]:
    """The rung that follows each: the first whose `before` it is; of its variants the one that others build on."""
    found: dict[str, Rung] = {}
    built_on = {rung.before for rung in rungs}
    for rung in rungs:
        first = found.setdefault(rung.before, rung)
        if first.entry == rung.entry and first.name not in built_on and rung.name in built_on:
            found[rung.before] = rung
    return {before: rung.name for before, rung in found.items() if before}


def diagnosis_table(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """One row a rung, shape and limit, in the order of `ladder.tables.diagnosis.diagnose`.

    Columns: rung, shape, finding, slots_percent, of (what that is a share of), evidence (sentences), next_rung
    (`followers`; empty where none is), next_slots_percent (the same finding there, however small; 0 where its rule does
    not apply, empty where that rung has no profile of this shape or its shares are of something else).
    """
    profiles = {(rung, shape): Profile.of(main) for rung, shape, _, main in _profiled(evidence)}
    following = followers([item.rung for item in evidence])
    rows = []
    for (name, shape), profile in profiles.items():
        follower = following.get(name, "")
        after = profiles.get((follower, shape))
        then = None if after is None or after.share_of != profile.share_of else _shares(after)
        for limit in diagnose(profile):
            next_percent = math.nan if then is None else then.get(limit.rule, 0.0)
            rows.append((name, shape, limit.rule, limit.percent, limit.of, limit.evidence, follower, next_percent))
    columns = ["rung", "shape", "finding", "slots_percent", "of", "evidence", "next_rung", "next_slots_percent"]
    return pd.DataFrame(rows, columns=columns)


def _shares(profile: Profile) -> dict[str, float]:
    """The percent that each limit takes, however few they are, and the work that slots hold."""
    works = slot_uses(profile)
    shares = {limit.rule: limit.percent for limit in diagnose(profile, least=0.0)}
    return shares | {FP32_UNITS: works["FFMA"], TENSOR_CORES: works[TENSOR_CORES]}


_FACTORS = {"ms": 1e-6, "million": 1e-6}  # from Nsight Compute's nanoseconds and counts


def rung_comparison(evidence: Sequence[Evidence]) -> pd.DataFrame:
    """The worklogs' table: one row a shape and metric of Nsight Compute, one column a rung.

    Columns: shape, metric, unit, then the rungs that have a profile, in climbing order. Stalls are cycles that a warp
    waits for each instruction that it issues. Of several kernels of one product the one that computes it counts.
    """
    columns: dict[str, dict[tuple[str, str, str], float]] = {}
    for rung, shape, _, main in _profiled(evidence):
        column, profile = columns.setdefault(rung, {}), Profile.of(main)
        stalls = {f"stall_{reason}": cycles for reason, cycles in profile.stalls.items()}
        for label, name, unit in COMPARED:
            value = profile.get(name) if name in METRICS else stalls.get(name, math.nan)
            column[shape, label, unit] = value * _FACTORS.get(unit, 1)
    keys = list(dict.fromkeys(key for column in columns.values() for key in column))
    table = pd.DataFrame(keys, columns=["shape", "metric", "unit"])
    for name, column in columns.items():
        table[name] = [column.get(key, math.nan) for key in keys]
    return table
