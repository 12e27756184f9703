"""One page a rung, as Markdown: its own words, its numbers, what limits it, its profile and its inner loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.build.inspection import multiplying_kernel
from ladder.build.sass import CLASSES
from ladder.model.metrics import METRICS, RATIOS, STALLS
from ladder.model.precision import TITLES
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.diagnosis import FP32_UNITS, LEAST, SLOTS, TENSOR_CORES, TENSOR_PIPE
from ladder.tables.paper import default_macros
from ladder.tables.timings import headline_shape, largest

LINES = 60  # of an inner loop that a page shows at most
LISTED = 4  # limits of a rung that a page lists, of those that are shares of the same
CHANGED = 5.0  # percent by which a share has to change from one rung to the next to be worth a line
# Work that the issue slots hold, or the tensor pipe's cycles: the more of it the better. Limit -> use of the slots.
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
    """A Markdown table without its empty columns, a blank line behind it; nothing where there are no rows."""
    cells = [[number(value).replace("|", "\\|") for value in row] for row in rows]
    columns = [(title, "---", *column) for title, *column in zip(head, *cells, strict=True) if any(column)]
    return ["| " + " | ".join(line) + " |" for line in zip(*columns, strict=True)] + [""] if columns else []


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
    verdict = [f"arithmetic: {TITLES[row['precision']]}", f"status: {row['status']}"] + (
        [f"checked in {row['checked_cases']} cases"] if row["checked_cases"] else []
    )
    verdict += [text for text in (row["determinism"], row["emulation"] and f"on a CPU: {row['emulation']}") if text]
    shape = headline_shape(tables["timings"])
    parts = [f"# {rung.name}: {rung.title}", "", f"Source: `kernels/{rung.source}`; {'; '.join(verdict)}.", ""]
    if isinstance(row["message"], str) and row["message"]:
        parts += [row["message"], ""]
    parts += [own_words(rung), ""]
    parts += _parameters(rung)
    parts += _benchmark(own["timings"])
    parts += _against(rung, tables, shape)
    parts += _limits(own["diagnosis"])
    parts += _resources(own["resources"], shape)
    parts += _paper(own["paper"])
    parts += _hotspots(own["hotspots"])
    parts += _profile(own["profiles"])
    parts += _advice(own["advice"])
    parts += _loop(inspection, own["instructions"])
    return "\n".join(parts).rstrip() + "\n"


def _parameters(rung: Rung) -> list[str]:
    """The macros that the rung is built with, for each class of products that it is tuned for."""
    macros = default_macros(rung) | rung.macros
    classes = [("all", macros)] if not rung.tuned else []
    for each in rung.tuned:
        products = "all others" if math.isinf(each.below_flop) else f"below {each.below_flop:.2g} FLOP"
        classes.append((products, macros | each.macros))
    names = list(dict.fromkeys(name for _, values in classes for name in values))
    rows = [(products, *(values.get(name) for name in names)) for products, values in classes]
    return ["## Parameters of the build", "", *markdown_table(rows, ["products", *names])] if names else []


def _benchmark(timings: pd.DataFrame) -> list[str]:
    if timings.empty:
        return ["## Benchmark", "", "No times are recorded.", ""]
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


def _against(rung: Rung, tables: Mapping[str, pd.DataFrame], shape: str | None) -> list[str]:
    """How much faster than the rung before, at a shape, and which shares of its time changed."""
    timings = tables["timings"]
    parts = []
    for item in timings[(timings["rung"] == rung.name) & (timings["shape"] == shape)].itertuples():
        if not math.isnan(faster := item.speedup_over_before):
            interval = f"{item.speedup_over_before_ci_low:.2f} to {item.speedup_over_before_ci_high:.2f}"
            parts += [f"At {shape} it is {faster:.2f} times as fast (95 % interval: {interval}).", ""]
    parts += _changes(rung, tables["slots"], tables["diagnosis"])
    return [f"## Against `{rung.before}`", "", *parts] if parts else []


def _changes(rung: Rung, slots: pd.DataFrame, diagnosis: pd.DataFrame) -> list[str]:
    """What takes another share than in the rung before, at the largest profiled shape.

    Only shares of the same are compared: not those of the issue slots with those of the tensor pipe's cycles.
    """
    shape = largest(list(slots.loc[slots["rung"] == rung.name, "shape"]))
    uses, limits = ({}, {}), ({}, {})  # of the rung before, of this one: use or limit -> (percent, of what)
    for place, name in enumerate((rung.before, rung.name)):
        own = slots[(slots["rung"] == name) & (slots["shape"] == shape)].set_index("use")["percent"]
        if own.empty:
            return []
        of = TENSOR_PIPE if own.get(TENSOR_CORES) else SLOTS
        uses[place].update({use: (own.get(use, 0.0), of) for use in WORK.values()})
        own = diagnosis[(diagnosis["rung"] == name) & (diagnosis["shape"] == shape) & ~diagnosis["finding"].isin(WORK)]
        limits[place].update({item.finding: (item.slots_percent, item.of) for item in own.itertuples()})
    alike = uses[0]["FFMA"][1] == uses[1]["FFMA"][1]
    rows = []
    for (before, after), good in ((uses, 1), (limits, -1)):
        for what in {**before, **after}:
            of = (after.get(what) or before[what])[1]
            then, now = (side.get(what, (0.0, of))[0] for side in (before, after))
            if abs(now - then) >= CHANGED and (alike or of not in (SLOTS, TENSOR_PIPE)):
                texts = (f"{share:.0f} %" if share or good > 0 else _few(what) for share in (then, now))
                rows.append((what, *texts, of, "better" if good * (now - then) > 0 else "worse"))
    return markdown_table(rows, [f"at {shape}", f"`{rung.before}`", f"`{rung.name}`", "share of", "which is"])


def _kernels(profiles: pd.DataFrame, shape: str) -> pd.DataFrame:
    """The kernels of a rung's product at a shape, in their order: kernel, multiplies, ms, and share of their time."""
    at = profiles[(profiles["shape"] == shape) & (profiles["name"] == "duration")]
    time = pd.to_numeric(at["value"]) / 1e6
    return at[["kernel", "multiplies"]].astype({"multiplies": bool}).assign(ms=time, share=time / time.sum())


def _few(limit: str) -> str:
    """What is said of a limit that is not listed: its share is less than LEAST, or it was not found at all."""
    return "none" if limit.startswith("bank conflicts") else f"less than {LEAST:.0f} %"


def _limits(diagnosis: pd.DataFrame) -> list[str]:
    """What limits a rung: the first limit in a sentence, all in a table by shape, and the evidence of each."""
    parts = ["## What limits it", ""]
    if diagnosis.empty:
        return [*parts, "This build has no profile.", ""]
    shapes = list(by_work(diagnosis)["shape"].unique())
    shape = largest(shapes)
    at = diagnosis[diagnosis["shape"] == shape]
    first = at.iloc[0]
    listed = pd.concat([at[at["of"] == first["of"]].head(LISTED), at[at["of"] != first["of"]]])
    if first["finding"] in WORK:
        parts += [f"{first['evidence'].rstrip('.')} at {shape}; it is the first limit.", ""]
    else:
        parts += [f"The first limit at {shape} is: {first['finding']}.", ""]
    shares = diagnosis.set_index(["shape", "finding"])["slots_percent"].map("{:.0f} %".format)
    rows = []
    for item in listed.itertuples():
        by_shape = [shares.get((each, item.finding), _few(item.finding)) for each in shapes]
        after = "" if math.isnan(item.next_slots_percent) else f"{item.next_slots_percent:.0f} %"
        rows.append((item.finding, *by_shape, after, item.of))
    head = ["limit", *(f"at {each}" for each in shapes), f"at {shape} in `{first['next_rung']}`", "share of"]
    parts += markdown_table(rows, head)
    told = listed[listed["evidence"] != first["evidence"]] if first["finding"] in WORK else listed
    parts += [f"- {item.finding}: {item.evidence}" for item in told.itertuples()]
    return [*parts, "", "![Issue slots of all rungs](../figures/issue_slots.svg)", ""]


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
    at = resources[resources["shape"] == shape]
    if at.empty:
        return []
    compiler = f"Compiled by nvcc {at['nvcc'].iloc[0]} for {at['architecture'].iloc[0]}."
    table = markdown_table(at[list(columns)].to_numpy(object).tolist(), list(columns.values()))
    picture = "![Warps that an SM holds of each rung](../figures/occupancy_limits.svg)"
    return [f"## Resources at {shape}", "", compiler, "", *table, picture, ""]


def _paper(paper: pd.DataFrame) -> list[str]:
    """What the product needs and the rung's tiles read, at each shape; then the lowest ceiling of each.

    Where a profile has counted the passes of the load/store pipe at some shapes, ceilings are of these alone: what the
    code needs at least is another number.
    """
    if paper.empty:
        return []
    needs = {
        "shape": "m x n x k", "compute_floor_ms": "compute floor, ms", "memory_floor_ms": "memory floor, ms",
        "global_reads_per_result": "global reads a result", "shared_reads_per_result": "shared reads a result",
        "intensity_global": "FLOP a byte, global", "intensity_shared": "FLOP a byte, shared", "waves": "waves",
        "tail_percent": "empty in the last wave, %",
    }  # fmt: skip
    ceilings = {
        "shape": "m x n x k", "wavefronts_per_ffma": "passes an FFMA", "predicted_gflops": "lowest ceiling, GFLOP/s",
        "bound_by": "that of", "measured_gflops": "measured, GFLOP/s", "share_of_prediction": "share of the ceiling",
    }  # fmt: skip
    paper = by_work(paper)
    parts = ["## On paper", "", *markdown_table(paper[list(needs)].to_numpy(object).tolist(), list(needs.values()))]
    limited = paper[paper["predicted_gflops"].notna()]
    profiled = limited[limited["wavefronts_from"] == "profile"]
    if len(limited):
        counted = "as the profile counted them" if len(profiled) else "the fewest that the code needs"
        rows = (profiled if len(profiled) else limited)[list(ceilings)].to_numpy(object).tolist()
        rows = [(*row, "" if math.isnan(share) else f"{share:.0%}") for *row, share in rows]
        parts += [f"Ceilings, with the passes of the load/store pipe {counted}:", ""]
        parts += markdown_table(rows, list(ceilings.values()))
        parts += ["![Measured against the lowest ceiling on paper](../figures/prediction.svg)", ""]
    return parts


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
    name, more = at["kernel"].iloc[0], ", which computes the product" if len(kernels) > 1 else ""
    parts += [f"Nsight Compute's metrics of `{name}`{more}.", ""]
    parts += ["![Roofline of all rungs](../figures/roofline.svg)", ""]
    meanings = {each.name: each.meaning for each in (*METRICS.values(), *RATIOS)}
    for section, rows in at.groupby("section", sort=False):
        values = [(item.name, _value(item.value), item.unit) for item in rows.itertuples(index=False)]
        plain = [
            (name.replace("_", " "), _scaled(value, unit), meanings[name])
            for name, value, unit in values
            if name in meanings
        ]
        parts += [f"### {section.capitalize()}", "", *markdown_table(plain, ["metric", "value", "what it is"])]
        stalls = [(name.removeprefix("stall_"), value) for name, value, _ in values if name not in meanings]
        total = sum(value for _, value in stalls)
        waits = [
            (reason.replace("_", " "), value, f"{value / total:.1%}", STALLS.get(reason))
            for reason, value in sorted(stalls, key=lambda stall: -stall[1])
            if value >= 0.001 * total
        ]
        head = ["a warp's state between two instructions", "cycles", "of all", "what it waits for"]
        parts += markdown_table(waits, head)
    return parts


def _value(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _scaled(value: Any, unit: Any) -> str:
    """A value of a table of profiles with its unit, as text."""
    unit = unit if isinstance(unit, str) else ""
    value, unit = scaled(value, unit) if isinstance(value, float) and value == value else (value, unit)
    return f"{number(value)} {unit}".rstrip() if number(value) else ""


def _advice(advice: pd.DataFrame) -> list[str]:
    if advice.empty:
        return []
    at = advice[advice["multiplies"].astype(bool) & (advice["shape"] == largest(list(advice["shape"].unique())))]
    at = at[at["estimated_speedup_percent"].notna()].head(5)
    rows = [
        (
            item.section,
            item.title if isinstance(item.title, str) else item.rule,
            f"{item.estimated_speedup_percent:.1f} %",
        )
        for item in at.itertuples()
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
    parts = [
        "## Inner loop",
        "",
        f"The inner loop of `{kernel['kernel']}` has {code['loop']['instructions']} instructions.",
        "",
    ]
    parts += _counts(instructions, largest(shapes))
    parts += ["![Instructions of all inner loops](../figures/instruction_mix.svg)", ""]
    parts += ["SASS:", "", *_code(code["loop_sass"], "asm")]
    if code["loop_ptx"]:
        parts += ["PTX:", "", *_code([line.replace("\t", " ") for line in code["loop_ptx"]], "asm")]
    return parts


def pages_index(rungs: Sequence[Rung], tables: Mapping[str, pd.DataFrame]) -> str:
    """The index of the pages: each rung, its rate at the size of most rungs, and what limits it first."""
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
                "".join(f"{item.finding}, {item.slots_percent:.0f} % of {item.of}" for item in first.itertuples()),
            )
        )
    head = ["rung", "what it is", f"GFLOP/s at {shape}", "of cuBLAS", "first limit"]
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
