"""One page a rung, as Markdown: its own words, its numbers, what binds it, its profile and its inner loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.build.inspection import multiplying_kernel
from ladder.build.sass import CLASSES
from ladder.model.precision import TITLES
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import FP32_UNITS, LEAST, TENSOR_CORES
from ladder.tables.timings import headline_shape, largest

LINES = 60  # of an inner loop that a page shows at most
FINDINGS = 4
CHANGED = (
    5.0  # percent of the issue slots by which a finding has to change from one rung to the next to be worth a line
)
# Work that the issue slots hold, or the tensor pipe's cycles: the more of it the better. Finding -> use of the slots.
WORK = {FP32_UNITS: "FFMA", TENSOR_CORES: TENSOR_CORES}
# Nsight Compute's units, by what its numbers grow to: (from, divided by, written).
_UNITS = {
    "ns": ((1e6, 1e6, "ms"), (1e3, 1e3, "us")),
    "hz": ((1e9, 1e9, "GHz"), (1e6, 1e6, "MHz")),
    "byte/s": ((1e12, 1e12, "TB/s"), (1e9, 1e9, "GB/s"), (1e6, 1e6, "MB/s")),
    "byte": ((1e9, 1e9, "GB"), (1e6, 1e6, "MB")),
}


def own_words(rung: Rung) -> str:
    """The comment that a rung's source begins with, as Markdown; empty where there is none."""
    source = ROOT / "kernels" / rung.source
    words = []
    for line in source.read_text().splitlines() if source.is_file() else ():
        if not line.startswith("//"):
            break
        words.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(words)


def number(value: Any) -> str:
    """A value for a table: four digits, thousands apart, empty where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def scaled(value: float, unit: str) -> tuple[float, str]:
    """A value of Nsight Compute's in a unit that reads well: 2.7e6 ns are 2.7 ms, 3e9 sectors 3000 million."""
    for least, factor, written in _UNITS.get(unit, ()):
        if abs(value) >= least:
            return value / factor, written
    if abs(value) >= 1e7:
        return value / 1e6, f"million {unit}".rstrip()
    return value, unit


def by_work(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table with a column `shape` in the order of the work that the shapes are."""
    work = table["shape"].map(lambda shape: Shape.parse(shape).flop)
    return table.iloc[work.argsort(kind="stable")]


def markdown_table(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> list[str]:
    """A Markdown table, a blank line behind it; empty where there are no rows."""
    if not rows:
        return []
    cells = [[number(value).replace("|", "\\|") for value in row] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *cells)] + [""]


def _code(lines: Sequence[str], language: str) -> list[str]:
    """A block of code, its middle left out where it is longer than LINES."""
    if len(lines) > LINES:
        half = LINES // 2
        lines = [*lines[:half], f"... {len(lines) - LINES} lines ...", *lines[-half:]]
    return [f"```{language}", *lines, "```", ""]


def page(rung: Rung, inspection: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> str:
    """The page of a rung; sections whose evidence is missing say so in one line. Equal evidence gives equal bytes."""
    own = {name: table[table["rung"] == rung.name] if "rung" in table else table for name, table in tables.items()}
    row = own["rungs"].iloc[0]
    verdict = [TITLES[row["precision"]], f"status: {row['status']}"] + (
        [f"{row['checked_cases']} cases"] if row["checked_cases"] else []
    )
    verdict += [text for text in (row["determinism"], row["emulation"] and f"on a CPU: {row['emulation']}") if text]
    parts = [f"# {rung.name}: {rung.title}", "", f"Source: `kernels/{rung.source}`; {'; '.join(verdict)}.", ""]
    if isinstance(row["message"], str) and row["message"]:
        parts += [row["message"], ""]
    parts += [own_words(rung), ""]
    parts += _benchmark(own["timings"])
    parts += _good_and_bad(rung, own, tables["diagnosis"], tables["slots"], headline_shape(tables["timings"]))
    parts += _findings(own["diagnosis"])
    parts += _resources(own["resources"], headline_shape(tables["timings"]))
    parts += _paper(own["paper"])
    parts += _hotspots(own["hotspots"])
    parts += _profile(own["profiles"])
    parts += _advice(own["advice"])
    parts += _loop(inspection, own["instructions"])
    return "\n".join(parts).rstrip() + "\n"


def _benchmark(timings: pd.DataFrame) -> list[str]:
    if timings.empty:
        return ["## Benchmark", "", "Nothing is timed.", ""]
    head = [
        "m x n x k",
        "median, ms",
        "95 % from",
        "to",
        "GFLOP/s",
        "of cuBLAS",
        "times naive",
        "times the rung before",
    ]
    rows = [
        (
            item.shape, item.time_ms_median, item.time_ms_ci_low, item.time_ms_ci_high, item.gflops,
            "" if math.isnan(item.speedup_over_cublas) else f"{item.speedup_over_cublas:.1%}",
            item.speedup_over_naive, item.speedup_over_before,
        )
        for item in by_work(timings).itertuples()
    ]  # fmt: skip
    return ["## Benchmark", "", *markdown_table(rows, head)]


def _good_and_bad(
    rung: Rung, own: Mapping[str, pd.DataFrame], diagnosis: pd.DataFrame, slots: pd.DataFrame, shape: str | None
) -> list[str]:
    """What is good and bad: against the rung before and the ceiling on paper at a shape, and what changed since."""
    good, bad = [], []
    timings, paper, findings = own["timings"], own["paper"], own["diagnosis"]
    for item in timings[timings["shape"] == shape].itertuples():
        faster = item.speedup_over_before
        if not math.isnan(faster):
            text = f"{faster:.2f} times as fast as {rung.before} at {shape}."
            (good if item.speedup_over_before_ci_low > 1 else bad).append(text)
    for item in paper[paper["shape"] == shape].itertuples():
        if not math.isnan(item.share_of_prediction):
            text = f"{item.share_of_prediction:.0%} of its lowest ceiling on paper ({item.bound_by}) at {shape}."
            (good if item.share_of_prediction > 0.8 else bad).append(text)
    shape = largest(list(findings["shape"]))
    of = next(iter(findings.loc[findings["shape"] == shape, "of"]), "")
    at = diagnosis[(diagnosis["shape"] == shape) & (diagnosis["of"] == of)]
    at = at.set_index(["rung", "finding"])["slots_percent"]
    now, before = (dict(at.loc[name]) if name in at.index else {} for name in (rung.name, rung.before))
    uses = slots[slots["shape"] == shape].set_index(["rung", "use"])["percent"]
    for use in WORK.values() if before and now else ():
        share, then = (uses.get((name, use), 0.0) for name in (rung.name, rung.before))
        if abs(share - then) >= CHANGED:
            text = f"{use}: {share:.0f} % of {of} at {shape}, {then:.0f} % in {rung.before}."
            (good if share > then else bad).append(text)
    for finding in dict.fromkeys(name for name in (*before, *now) if name not in WORK) if before and now else ():
        then, share = before.get(finding, 0.0), now.get(finding, 0.0)
        words = [_share(finding, shares) for shares in (now, before)]
        text = f"{finding}: {words[0]} of {of} at {shape}, {words[1]} in {rung.before}."
        if abs(share - then) >= CHANGED:
            (good if share < then else bad).append(text)
    kernels = _kernels(own["profiles"], shape)
    others = kernels[~kernels["multiplies"]]
    if len(others) and others["share"].sum() >= LEAST / 100:
        named = ", ".join(f"`{name}`" for name in dict.fromkeys(others["kernel"]))
        bad.append(f"{others['share'].sum():.0%} of the time at {shape} is that of other kernels: {named}.")
    for item in findings[findings["shape"] == shape].head(1).itertuples():
        (good if item.finding in WORK else bad).append(
            f"Bound first by {item.finding}: {item.slots_percent:.0f} % of {of} ({item.evidence})."
        )
    found = []
    for title, lines in (("What is good", good), ("What is bad", bad)):
        if lines:
            found += [f"## {title}", "", *(f"- {line}" for line in lines), ""]
    return found


def _kernels(profiles: pd.DataFrame, shape: str) -> pd.DataFrame:
    """The kernels of a rung's product at a shape, in their order: kernel, multiplies, ms, and share of their time."""
    at = profiles[(profiles["shape"] == shape) & (profiles["name"] == "duration")]
    time = pd.to_numeric(at["value"]) / 1e6
    return at[["kernel", "multiplies"]].astype({"multiplies": bool}).assign(ms=time, share=time / time.sum())


def _share(finding: str, shares: Mapping[str, float]) -> str:
    """The share of a finding in words; one that is not listed took less than LEAST, or was not found at all."""
    if finding in shares:
        return f"{shares[finding]:.0f} %"
    return "none" if finding.startswith("bank conflicts") else f"less than {LEAST:.0f} %"


def _findings(diagnosis: pd.DataFrame) -> list[str]:
    parts = ["## What binds it", ""]
    if diagnosis.empty:
        return [*parts, "There is no profile of this build.", ""]
    for shape, rows in diagnosis.groupby("shape", sort=False):
        parts += [f"At {shape}, by share of {rows['of'].iloc[0]}:", ""]
        for item in rows.head(FINDINGS).itertuples():
            after = ""
            if isinstance(item.next_rung, str) and item.next_rung and not math.isnan(item.next_slots_percent):
                after = f" In {item.next_rung}: {item.next_slots_percent:.0f} %."
            parts.append(f"{item.rank}. **{item.finding}**, {item.slots_percent:.0f} %: {item.evidence}.{after}")
        parts.append("")
    return [*parts, "![Issue slots of all rungs](../figures/issue_slots.svg)", ""]


def _resources(resources: pd.DataFrame, shape: str | None) -> list[str]:
    """What each kernel takes of an SM at a shape, or else at the largest, as compiled, and what limits it."""
    shapes = list(resources["shape"].unique())
    shape = shape if shape in shapes else largest(shapes)
    columns = {
        "kernel": "kernel", "grid": "blocks", "block_threads": "threads a block", "registers": "registers a thread",
        "static_shared_bytes": "static shared, byte", "dynamic_shared_bytes": "dynamic", "stack_bytes": "stack, byte",
        "spill_store_bytes": "spilled, byte", "blocks_per_sm": "blocks an SM", "occupancy_percent": "occupancy, %",
        "occupancy_limited_by": "limited by",
    }  # fmt: skip
    rows = resources.loc[resources["shape"] == shape, list(columns)].to_numpy(object).tolist()
    picture = ["![Warps that an SM holds of each rung](../figures/occupancy_limits.svg)", ""]
    return [f"## Resources at {shape}", "", *markdown_table(rows, list(columns.values())), *picture] if rows else []


def _paper(paper: pd.DataFrame) -> list[str]:
    columns = {
        "shape": "m x n x k", "compute_floor_ms": "compute floor, ms", "memory_floor_ms": "memory floor, ms",
        "global_reads_per_result": "global reads a result", "shared_reads_per_result": "shared reads a result",
        "intensity_global": "FLOP a byte, global", "intensity_shared": "shared", "waves": "waves",
        "tail_percent": "empty in the last, %", "predicted_gflops": "lowest ceiling, GFLOP/s", "bound_by": "which",
        "wavefronts_per_ffma": "load pipe passes an FFMA", "wavefronts_from": "from", "measured_gflops": "measured",
    }  # fmt: skip
    rows = by_work(paper)[list(columns)].to_numpy(object).tolist() if len(paper) else []
    drawn = paper["predicted_gflops"].notna().any()
    picture = ["![Measured against the lowest ceiling on paper](../figures/prediction.svg)", ""] if drawn else []
    return ["## On paper", "", *markdown_table(rows, list(columns.values())), *picture] if rows else []


def _hotspots(hotspots: pd.DataFrame) -> list[str]:
    if hotspots.empty:
        return []
    at = hotspots[hotspots["shape"] == largest(list(hotspots["shape"].unique()))]
    rows = [
        (f"{item.file}:{item.line}", f"{item.percent:.1f} %", item.reason.replace("_", " "), f"`{item.text}`")
        for item in at[at["percent"] >= 0.1].itertuples()
    ]
    return ["## Hot source lines", "", *markdown_table(rows, ["line", "of stalled samples", "mostly", "source"])]


def _profile(profiles: pd.DataFrame) -> list[str]:
    if profiles.empty:
        return []
    shape = largest(list(profiles["shape"].unique()))
    at = profiles[profiles["shape"] == shape]
    kernels = _kernels(profiles, shape)
    at = at[at["multiplies"].astype(bool)]
    parts = [f"## Profile at {shape}", ""]
    if len(kernels) > 1:
        rows = [(item.kernel, item.ms, f"{item.share:.1%}") for item in kernels.itertuples()]
        parts += markdown_table(rows, ["kernel", "ms", "of the time"])
    parts += [f"Of `{at['kernel'].iloc[0]}`{', which computes the product' if len(kernels) > 1 else ''}.", ""]
    parts += ["![Roofline of all rungs](../figures/roofline.svg)", ""]
    for section, rows in at.groupby("section", sort=False):
        metrics = [(item.name, _value(item.value), item.unit) for item in rows.itertuples(index=False)]
        stalls = [(name, value) for name, value, _ in metrics if name.startswith("stall_")]
        values = [
            (name.replace("_", " "), *_scaled(value, unit))
            for name, value, unit in metrics
            if (name, value) not in stalls
        ]
        parts += [f"### {section.capitalize()}", "", *markdown_table(values, ["metric", "value", "unit"])]
        if stalls:
            total = sum(value for _, value in stalls)
            waits = [
                (name.removeprefix("stall_").replace("_", " "), value, f"{value / total:.1%}")
                for name, value in sorted(stalls, key=lambda stall: -stall[1])
                if value >= 0.001 * total
            ]
            parts += markdown_table(waits, ["a warp's state between two instructions", "cycles", "of all"])
    return parts


def _value(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _scaled(value: Any, unit: Any) -> tuple[Any, str]:
    unit = unit if isinstance(unit, str) else ""
    return scaled(value, unit) if isinstance(value, float) else (value, unit)


def _advice(advice: pd.DataFrame) -> list[str]:
    if advice.empty:
        return []
    at = advice[advice["multiplies"].astype(bool) & (advice["shape"] == largest(list(advice["shape"].unique())))]
    at = at[at["estimated_speedup_percent"].notna()].head(5)
    rows = [
        (item.section, item.title or item.rule, f"{item.estimated_speedup_percent:.1f} %") for item in at.itertuples()
    ]
    head = ["section", "rule", "estimated speedup"]
    return ["## Nsight Compute's advice", "", *markdown_table(rows, head)] if rows else []


def _counts(instructions: pd.DataFrame, shape: str) -> list[str]:
    """The inner loop in numbers: instructions by class, loads by width, and what they come to for each FFMA."""
    loops = instructions[instructions["part"] == "inner loop"]
    loops = loops.loc[np.array([shape in str(shapes).split() for shapes in loops["launched_at"]], dtype=bool)]
    if loops.empty:
        return []
    row = loops.iloc[0]
    classes = [(name, row[name]) for name in (*CLASSES, "other") if row[name]]
    widths = [
        (f"{kind} of {bits} bit", row[f"{kind.lower()}_{bits}bit"])
        for kind in ("LDS", "STS", "LDG", "LDGSTS")
        for bits in (32, 64, 128)
        if row[f"{kind.lower()}_{bits}bit"]
    ]
    ratios = (
        [
            ("FFMA, share of the issue slots", f"{row['ffma_share']:.1%}"),
            ("shared loads an FFMA", row["shared_loads_per_ffma"]),
            ("global loads an FFMA", row["global_loads_per_ffma"]),
            ("FFMAs with a register-bank conflict", row["bank_conflicts"]),
            ("operands of FFMAs that are reused", row["reused_operands"]),
        ]
        if not math.isnan(row["ffma_share"])
        else []
    )
    return markdown_table([*classes, *widths, *ratios], ["of the inner loop", "number"])


def _loop(inspection: Mapping[str, Any], instructions: pd.DataFrame) -> list[str]:
    shapes = list(inspection["launches"])
    found = multiplying_kernel(dict(inspection), largest(shapes)) if shapes else None
    if found is None:
        return []
    kernel = found[1]
    code = kernel["code"]
    parts = ["## Inner loop", "", f"Of `{kernel['kernel']}`: {code['loop']['instructions']} instructions.", ""]
    parts += _counts(instructions, largest(shapes))
    parts += ["![Instructions of all inner loops](../figures/instruction_mix.svg)", ""]
    parts += ["SASS:", "", *_code(code["loop_sass"], "asm")]
    if code["loop_ptx"]:
        parts += ["PTX:", "", *_code([line.replace("\t", " ") for line in code["loop_ptx"]], "asm")]
    return parts


def pages_index(rungs: Sequence[Rung], tables: Mapping[str, pd.DataFrame]) -> str:
    """The index of the pages: each rung, its rate at the size of most rungs, and what binds it first."""
    timings, diagnosis = tables["timings"], tables["diagnosis"]
    shape = headline_shape(timings)
    rows = []
    for rung in rungs:
        own_time = timings[(timings["rung"] == rung.name) & (timings["shape"] == shape)]
        rate, share = own_time["gflops"], own_time["speedup_over_cublas"].dropna()
        own = diagnosis[diagnosis["rung"] == rung.name]
        first = own[own["shape"] == largest(list(own["shape"].unique()))].head(1)
        rows.append(
            (
                f"[{rung.name}]({rung.name}.md)",
                rung.title,
                float(rate.iloc[0]) if len(rate) else math.nan,
                f"{share.iloc[0]:.1%}" if len(share) else "",
                f"{first['finding'].iloc[0]}, {first['slots_percent'].iloc[0]:.0f} %" if len(first) else "",
            )
        )
    head = [
        "rung",
        "what it is",
        f"GFLOP/s at {shape}",
        "of cuBLAS",
        "what binds it, of the issue slots or the tensor pipe's cycles",
    ]
    pictures = {
        "roofline": "Roofline", "issue_slots": "Where the issue slots go", "instruction_mix": "Instructions",
        "occupancy_limits": "Occupancy", "prediction": "Prediction",
    }  # fmt: skip
    figures = [line for name, title in pictures.items() for line in (f"![{title}](../figures/{name}.svg)", "")]
    parts = ["# Why is it not faster?", "", *markdown_table(rows, head), *figures, *_side_by_side(tables)]
    return "\n".join(parts).rstrip() + "\n"


def _side_by_side(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The worklogs' table: metrics of Nsight Compute with the rungs as columns, at the largest profiled square."""
    compared = tables["metrics_by_rung"]
    if compared.empty:
        return []
    shape = largest(list(compared["shape"].unique()))
    at = compared[compared["shape"] == shape].drop(columns="shape").fillna({"unit": ""})
    title = f"## Nsight Compute's metrics side by side, at {shape}"
    return [title, "", *markdown_table(at.to_numpy(object).tolist(), list(at.columns))]
