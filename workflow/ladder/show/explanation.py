"""Why a rung is not faster, in sentences made from its evidence, and what to try.

In this order: the limit and how we know it; the chain of its causes; what to try and what the model predicts; what the
next rung did and gained; what Nsight Compute advises, and whether it came true there; what the rung promised. The words
are in workflow/data/explanations.yaml, each claim with its source; every number is the tables'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ladder.model.metrics import METRICS, RATIOS, STALLS
from ladder.model.rung import Rung
from ladder.show.numbers import number, percent
from ladder.tables.diagnosis import FP32_UNITS, TENSOR_CORES
from ladder.tables.predictions import FFMAS
from ladder.tables.timings import largest

_DATA = yaml.safe_load((Path(__file__).parents[2] / "data" / "explanations.yaml").read_text(encoding="utf-8"))
WHY_CHAINS: Mapping[str, Mapping] = _DATA["why"]
PROMISES: Mapping[str, Sequence[str]] = _DATA["promises"]
PROMISED_AGAINST: Mapping[str, str] = _DATA["promised_against"]
NSIGHT: Mapping[str, Mapping[str, str]] = _DATA["nsight"]
WORTH = 1.02  # a predicted gain below which a lever is not named
LITTLE = 0.02  # a change of less than this share is none
ADVISED = 4  # pieces of Nsight Compute's advice that a page quotes
_MARKUP = re.compile(r"@(?:section|url):([^:@]*):[^@]*@")
_MEANINGS = {each.name: each.meaning for each in (*METRICS.values(), *RATIOS)}
_MEANINGS |= {
    f"stall_{name}": f"cycles between two instructions in which a warp waits for {what}"
    for name, what in STALLS.items()
}


def explanation(rung: Rung, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The section of a rung's page as lines of Markdown; without a profile of this build what the code alone says."""
    profiles = tables["profiles"]
    own = profiles[profiles["rung"] == rung.name]
    if own.empty or tables["diagnosis"][tables["diagnosis"]["rung"] == rung.name].empty:
        return _without_profile(rung, tables)
    shape = largest(list(own["shape"]))
    at = {name: table[table["shape"] == shape] if "shape" in table else table for name, table in tables.items()}
    values = metrics_of(at["profiles"], rung.name)
    first = at["diagnosis"][at["diagnosis"]["rung"] == rung.name].iloc[0]
    parts = [f"## Why it is not faster at {shape}, and what to try", ""]
    return parts + _sections(
        ("What limits it, and how we know", _limit(first, at)),
        ("Why", _why(first, values)),
        ("What to try", _levers(rung.name, at)),
        ("What the next rung did", _next(first, at)),
        ("What Nsight Compute advises", _nsight(first, at, values)),
        ("What it promised", _promised(rung, at)),
        ("Conflicts that are none", _no_conflicts(values)),
        ("Conflicts that cost passes", _conflicts(values)),
        ("What the inner loop loads", _loads(rung, tables["instructions"], shape)),
        ("Why two barriers", _barriers(rung.name, tables["instructions"], shape, values)),
        ("Memory traffic", _memory(rung, at)),
        ("Executed instructions", _executed(rung.name, at, tables["instructions"], shape)),
        ("Occupancy by hand", _occupancy(rung.name, at)),
    )


def _sections(*sections: tuple[str, Iterator[str]]) -> list[str]:
    """Each title with its lines; one without lines is left out."""
    written = [(title, list(lines)) for title, lines in sections]
    return [line for title, lines in written if lines for line in (f"### {title}", "", *lines, "")]


def _without_profile(rung: Rung, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What to try, by the model, and what the code says; nothing where the rung has no prediction."""
    predicted = _of(tables["predictions"], rung.name)
    if predicted.empty:
        return []
    shape = largest(list(predicted["shape"]))
    at = {name: table[table["shape"] == shape] if "shape" in table else table for name, table in tables.items()}
    said = "No profile of this build is recorded here, so nothing measured says what limits it. The model says:"
    return [
        *(f"## What to try at {shape}", "", said, "", *_levers(rung.name, at), ""),
        *_sections(
            ("What the inner loop loads", _loads(rung, tables["instructions"], shape)),
            ("Why two barriers", _barriers(rung.name, tables["instructions"], shape, {})),
            ("Occupancy by hand", _occupancy(rung.name, at)),
        ),
    ]


def metrics_of(profiles: pd.DataFrame, rung: str) -> dict[str, float]:
    """Every number of the profile of a rung's kernel that multiplies, by our name; `profiles` are of one shape."""
    rows = profiles[(profiles["rung"] == rung) & profiles["multiplies"].astype(bool)]
    values = pd.to_numeric(rows["value"], errors="coerce")
    return dict(zip(rows["name"], values, strict=True))


def _limit(first: pd.Series, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    yield limit_in_words(first)
    busy = first["finding"] in (FP32_UNITS, TENSOR_CORES)  # a pipe: waits do not show that limit
    for line in _of(at["hotspots"], first["rung"]).head(1).itertuples():
        waits = STALLS.get(line.reason, line.reason.replace("_", " "))
        most = "Of the waits that are left, most samples" if busy else "Most stalled samples"
        yield f"{most}, {line.percent:.0f} %, are at `{line.file}:{line.line}`: `{line.text.strip()}`."
        yield f"Its warps wait mostly for {waits}."
    for line in _of(at["hot_instructions"], first["rung"]).head(0 if busy else 1).itertuples():
        waits = STALLS.get(line.reason, line.reason.replace("_", " "))
        yield f"The single instruction with most of them, {line.percent:.0f} %, is `{line.sass}`; it waits for {waits}."


def limit_in_words(limit: pd.Series) -> str:
    """The limit, its share and its evidence; of a pipe that works the evidence is the share."""
    share = f", {limit['slots_percent']:.0f} % of {limit['of']}" * (limit["finding"] not in (FP32_UNITS, TENSOR_CORES))
    return f"The first limit: {limit['finding']}{share}. {limit['evidence']}"


def _of(table: pd.DataFrame, rung: str) -> pd.DataFrame:
    return table[table["rung"] == rung]


def _why(first: pd.Series, values: Mapping[str, float]) -> Iterator[str]:
    chain = WHY_CHAINS.get(first["finding"])
    if chain:
        yield from (f"{place}. {_filled(text, values)}" for place, text in enumerate(chain["chain"], 1))
        yield ""
        yield f"({chain['source']}.)"


def signed(percent: float) -> str:
    """A whole number with its sign; 0 without one."""
    return f"{round(percent):+d}" if round(percent) else "0"


def _filled(text: str, values: Mapping[str, float]) -> str:
    return text.format_map({name: Abbreviated(values.get(name, float("nan"))) for name in _MEANINGS})


class Abbreviated(float):
    """A number that a format `n` writes out: 2,684 million."""

    def __format__(self, how: str) -> str:
        if how != "n":
            return super().__format__(how)
        return f"{self / 1e6:,.0f} million" if self >= 1e7 else number(float(self))


def _levers(rung: str, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    levers = _of(at["levers"], rung)
    worth = levers[levers["predicted_gain"] >= WORTH]
    for row in worth.itertuples():
        yield f"- {row.lever}: {row.predicted_gain:.2f} times as fast, by the model ({row.change})."
    if len(levers) and worth.empty:
        yield "The model knows no lever that gains 2 %."
    for row in _of(at["predictions"], rung).itertuples():
        yield ""
        measured = "it was not timed"
        if row.timed:
            measured = f"{row.measured_gflops / 1e3:.3g} were measured (error {signed(row.error_percent)} %)"
        yield (
            f"The model, fitted to the other rungs, predicts {row.predicted_gflops / 1e3:.3g} TFLOP/s; {measured}. It"
            " expects"
            f" {number(row.busy_ms)} ms of {_work(row)}{_prepass(row.prepass_ms)} and {number(row.waiting_ms)} ms of"
            " waits that no other warp hides."
        )


def _work(row: Any) -> str:
    return f"work at the ceiling of the {row.bound_by}" if row.by == FFMAS else "products on the tensor cores"


def _prepass(ms: float) -> str:
    return f", {number(ms)} ms for the kernels before the one that multiplies," if ms else ""


def _next(first: pd.Series, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    name = successor(first, at)
    if not name:
        library = (_of(at["rungs"], first["rung"])["role"] == "baseline").any()
        why = "it is a library that rungs are compared with" if library else "it is an end of the ladder"
        yield f"No rung follows `{first['rung']}`: {why}."
        return
    faster = gained(first["rung"], name, at)
    title = _of(at["rungs"], name)["title"].iloc[0]
    if faster is None:
        yield f"`{name}`: {title}. It has no time of this size."
        return
    yield f"`{name}`: {title}. It is {faster:.2f} times as fast."
    if not pd.isna(first["next_slots_percent"]):
        yield (
            f"The limit of this rung ({first['finding']}) takes {first['next_slots_percent']:.0f} % of {first['of']}"
            f" there, instead of {first['slots_percent']:.0f} %."
        )
    levers = _of(at["levers"], first["rung"])
    if len(levers):
        top = levers.iloc[0]
        yield f"The largest predicted gain here was {top['predicted_gain']:.2f} times, for {top['lever']}."


def successor(first: pd.Series, at: Mapping[str, pd.DataFrame]) -> str:
    """The rung that follows; for a variant that no rung builds on, the one that follows its sibling. May be empty."""
    own = at["diagnosis"]
    same = own["rung"].str.partition("@")[0] == first["rung"].partition("@")[0]
    names = [name for name in (first["next_rung"], *own.loc[same, "next_rung"]) if isinstance(name, str) and name]
    return next((name for name in names if name.partition("@")[0] != first["rung"].partition("@")[0]), "")


def gained(rung: str, then: str, at: Mapping[str, pd.DataFrame]) -> float | None:
    """How many times as fast a rung is as another; None where one was not timed at the shape.

    As timed in one process where the second builds on the first, else both over the default library of their class.
    """
    own, after = (_of(at["timings"], name) for name in (rung, then))
    beside = after.loc[after["before"] == rung, "speedup_over_before"].dropna()
    if len(beside):
        return float(beside.iloc[0])
    shares = [each["speedup_over_default"].dropna() for each in (own, after)]
    return None if any(each.empty for each in shares) else float(shares[1].iloc[0] / shares[0].iloc[0])


def rule_key(rule: str, title: object) -> str:
    """The name of a piece of Nsight Compute's advice in NSIGHT: its rule, and its title where it has one."""
    return f"{rule} {title}" if isinstance(title, str) and title else str(rule)


def _nsight(first: pd.Series, at: Mapping[str, pd.DataFrame], values: Mapping[str, float]) -> Iterator[str]:
    """Its words, its estimate, and what became of it on the next rung; then where our first limit is another."""
    advice = at["advice"][at["advice"]["multiplies"].astype(bool) & at["advice"]["estimated_speedup_percent"].notna()]
    own = _of(advice, first["rung"]).head(ADVISED)
    name = successor(first, at)
    after = {rule_key(row.rule, row.title): row.estimated_speedup_percent for row in _of(advice, name).itertuples()}
    faster = gained(first["rung"], name, at)
    for row in own.itertuples():
        key = rule_key(row.rule, row.title)
        yield f"- Estimated gain {row.estimated_speedup_percent:.1f} %: “{words_of(row.message)}”"
        if faster is not None:
            saved = 100 * (1 - 1 / faster)
            left = f"it estimates {after[key]:.1f} % there" if key in after else "it does not give this advice there"
            became = came_true(row.estimated_speedup_percent, saved, after.get(key, 0.0))
            yield f"  In `{name}` the time changes by {signed(-saved)} %, and {left}: the estimate {became}."
    for row in own.head(1).itertuples():
        known = NSIGHT.get(rule_key(row.rule, row.title), {})
        yield ""
        says = known.get("finding")
        if says == first["finding"]:
            yield f"Its largest estimate is about our first limit: {says}."
        else:
            yield f"Its largest estimate is not about our first limit, {first['finding']}."
            yield f"It is about what we call {says}." if says else _filled(known.get("why", ""), values)


def came_true(estimate: float, saved: float, left: float) -> str:
    """Whether an estimate came true on the next rung, which took `saved` percent less time and has `left` to gain.

    It did where the time fell by nine tenths of it and no more than half of it is left; in part where either is so.
    """
    fell, gone = saved >= 0.9 * estimate, left <= estimate / 2
    return "came true" if fell and gone else "came true in part" if fell or gone else "did not come true"


def words_of(message: str) -> str:
    """The first two sentences of Nsight Compute's message, without its markup for links."""
    text = _MARKUP.sub(r"\1", str(message)).strip()
    return " ".join(re.split(r"(?<=[.!?]) (?=[A-Z])", text)[:2])


def promised_against(rung: Rung) -> str:
    """The rung that promises are held to: the one before; of a rung that builds on none the one that the data name."""
    return rung.before or PROMISED_AGAINST.get(rung.entry, "")


def _promised(rung: Rung, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What should fall against the rung before, and whether it did."""
    against = promised_against(rung)
    then, now = (metrics_of(at["profiles"], name) for name in (against, rung.name))
    for name in PROMISES.get(rung.entry, ()) if then and now else ():
        before, after = then.get(name, float("nan")), now.get(name, float("nan"))
        if pd.isna(before) or pd.isna(after):
            continue
        change = after / before - 1 if before else float(after > 0)
        held = "unchanged" if abs(change) < LITTLE or before == after else "kept" if change < 0 else "worse"
        numbers = f"{Abbreviated(before):n} in `{against}`, {Abbreviated(after):n} here"
        yield f"- {name.replace('_', ' ')} ({_MEANINGS[name]}): {numbers}. {_HELD[held]}"


_HELD = {
    "kept": "The promise is kept.",
    "unchanged": "The promise is not kept: it is unchanged.",
    "worse": "The promise is not kept: it is worse.",
}


def _no_conflicts(values: Mapping[str, float]) -> Iterator[str]:
    """Where the counters report bank conflicts and no address makes one."""
    for access in ("load", "store"):
        reported = values.get(f"shared_{access}_conflicts", 0.0)
        share = reported / values[f"shared_{access}_wavefronts"] if reported else 0.0
        if reported and not values.get("shared_excessive_wavefronts", 1.0):
            yield (
                f"Nsight Compute counts {number(reported)} bank conflicts in shared {access}s, {percent(share, 1)} of"
                " their passes. These are waits for the pipe, no conflicts: the addresses need no pass in excess."
            )


def _conflicts(values: Mapping[str, float]) -> Iterator[str]:
    """How many passes the addresses make necessary."""
    excess, passes = values.get("shared_excessive_wavefronts", 0.0), values.get("shared_wavefronts", 0.0)
    if excess and passes:
        yield (
            f"{Abbreviated(excess):n} of the {Abbreviated(passes):n} passes for shared memory"
            f" ({percent(excess / passes, 1)}) are in excess: lanes of a warp ask for different addresses of one bank,"
            f" and the pipe serves these one after the other.{_passes_of(values)}"
        )


def _passes_of(values: Mapping[str, float]) -> str:
    each = {access: values.get(f"wavefronts_per_shared_{access}", float("nan")) for access in ("load", "store")}
    said = " and ".join(
        f"{passes:.2f} passes for each {access}" for access, passes in each.items() if not pd.isna(passes)
    )
    return f" On average there are {said}." if said else ""


def _loop_of(rung: str, instructions: pd.DataFrame, shape: str) -> pd.Series | None:
    loops = instructions[(instructions["rung"] == rung) & (instructions["part"] == "inner loop")]
    loops = loops[[shape in str(shapes).split() for shapes in loops["launched_at"]]]
    return None if loops.empty else loops.iloc[0]


def _loads(rung: Rung, instructions: pd.DataFrame, shape: str) -> Iterator[str]:
    """Loads of the inner loop by width beside its FFMAs, and whether the compiler joined some into wider ones."""
    loop, before = (_loop_of(name, instructions, shape) for name in (rung.name, rung.before or ""))
    if loop is None or pd.isna(loop["ffma_share"]):
        return
    for kind, memory in (("LDS", "shared"), ("LDG", "global")):
        widths = {bits: loop[f"{kind.lower()}_{bits}bit"] for bits in (32, 64, 128)}
        if not sum(widths.values()):
            continue
        by_width = " and ".join(f"{count:.0f} of {bits} bit" for bits, count in widths.items() if count)
        text = f"For {loop['FFMA']:.0f} FFMAs the loop has these loads from {memory} memory: {by_width}. These are"
        text += f" {number(loop[f'{memory}_loads_per_ffma'])} loads for each FFMA"
        if before is not None and not pd.isna(before["ffma_share"]):
            text += f", and {number(before[f'{memory}_loads_per_ffma'])} in `{rung.before}`"
        yield f"{text}."
    yield (
        f"A thread loads {number(loop['load_bytes_per_ffma'])} bytes for each FFMA, in at least"
        f" {number(loop['wavefronts_per_ffma'])} passes of the load/store pipe for a warp."
    )


def _barriers(rung: str, instructions: pd.DataFrame, shape: str, values: Mapping[str, float]) -> Iterator[str]:
    """What each of the two barriers of a loop prevents that fills tiles by loads and stores, and what they cost."""
    loop = _loop_of(rung, instructions, shape)
    if loop is None or loop["BAR"] != 2 or not loop["STS"] or loop["LDGSTS"]:
        return
    yield (
        "Without the barrier after the tiles are filled, a warp reads elements that another warp has not stored yet."
        " Without the barrier after they are read, a warp stores the next tile while another still reads this one."
        " The check finds both faults (docs/two-barriers.md)."
    )
    if values:
        yield _filled(
            "At the barriers a warp waits {stall_barrier:.1f} of {warp_cycles_per_instruction:.1f} cycles.", values
        )


def _memory(rung: Rung, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What memory moves, and what that is against the rung before."""
    rows = _of(at["memory"], rung.name)
    for row in rows.itertuples():
        yield (
            f"DRAM moves {row.dram_over_minimum:.1f} times the bytes of the three matrices, and the SMs read"
            f" {row.l2_over_minimum:.0f} times these bytes from L2. L1 holds {row.l1_hit_rate:.0f} % of the requested"
            f" sectors, and L2 {row.l2_hit_rate:.0f} % of the others."
        )
        if row.dram_throughput < 50:
            yield (
                f"DRAM works at {row.dram_throughput:.1f} % of its peak, so it does not limit the rung. The limit lies"
                " before DRAM."
            )
    then, now = (metrics_of(at["profiles"], name) for name in (rung.before or "", rung.name))
    ratios = [now.get(name, 0) / then[name] if then.get(name) else 0 for name in _COMPARED]
    rates = [each.get(name, math.nan) for name in ("dram_throughput", "l1_hit_rate") for each in (then, now)]
    if rows.empty or not all(ratios) or any(map(math.isnan, [*ratios, *rates])):
        return
    (fewer, sectors, moved, time), (before, after, held_there, held) = ratios, rates
    yield (
        f"Compared with `{rung.before}` (100 %), warps ask for {percent(fewer, 1)} of the global loads, L2 delivers"
        f" {percent(sectors, 1)} of the sectors and DRAM {percent(moved, 1)} of the bytes. L1 holds {held:.0f} % of the"
        f" requested sectors here, and {held_there:.0f} % there."
    )
    if after > before and moved < 1:
        yield (
            f"DRAM is nevertheless busier, {after:.1f} % instead of {before:.1f} % of its peak, because the product"
            f" takes {percent(time)} of the time."
        )


_COMPARED = ("global_load_requests", "l2_sectors", "dram_bytes_read", "duration")  # with the rung before


def _executed(rung: str, at: Mapping[str, pd.DataFrame], instructions: pd.DataFrame, shape: str) -> Iterator[str]:
    """The executed mix beside that of the code of the inner loop."""
    executed, loop = _of(at["executed"], rung), _loop_of(rung, instructions, shape)
    if executed.empty or loop is None:
        return
    yield "| class | executed by warps | of all executed | of the inner loop's code |"
    yield "| --- | --- | --- | --- |"
    for row in executed.itertuples():
        kind = row[executed.columns.get_loc("class") + 1]
        static = percent(loop[kind] / loop["instructions"], 1)
        yield f"| {kind} | {number(row.executed)} | {row.percent:.1f} % | {static} |"


def _occupancy(rung: str, at: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """The limits of blocks on an SM, one a line, and the lowest."""
    rows = _of(at["resources"], rung)
    for row in rows[rows["multiplies"].astype(bool) & rows["blocks_per_sm"].notna()].itertuples():
        warps = -(-row.block_threads // 32)
        shared = row.static_shared_bytes + row.dynamic_shared_bytes
        yield f"- A block has {row.block_threads} threads, so {warps} warps: {_blocks(row.block_limit_warps)}."
        yield f"- A thread takes {row.registers:.0f} registers: {_blocks(row.block_limit_registers)}."
        yield f"- A block takes {number(shared)} bytes of shared memory: {_blocks(row.block_limit_shared_memory)}."
        yield f"- An SM holds at most {_blocks(row.block_limit_blocks)}."
        held = f"{_blocks(row.blocks_per_sm)}, {row.blocks_per_sm * warps:.0f} warps"
        yield f"- The lowest is {held}: {row.occupancy_percent:.0f} % of the SM."


def _blocks(count: float) -> str:
    return f"{count:.0f} block" + "s" * (count != 1)
