"""One page a rung, as Markdown: its own words, its numbers, what limits it, its profile and its inner loop."""

from __future__ import annotations

import ast
import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ladder.build.inspection import multiplying_kernel
from ladder.build.sass import CLASSES
from ladder.config.sources import source_of_rung, source_text
from ladder.model.metrics import METRICS, RATIOS, STALLS
from ladder.model.precision import TITLES
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.model.survey import EVERY_PRODUCT
from ladder.show.drawings import picture
from ladder.show.explanation import explanation
from ladder.show.numbers import number, percent
from ladder.show.origin import origin_columns, origin_line
from ladder.system.paths import shown
from ladder.tables.diagnosis import FP32_UNITS, LEAST, SLOTS, TENSOR_CORES, TENSOR_PIPE
from ladder.tables.hardware import tensor_table
from ladder.tables.paper import default_macros
from ladder.tables.survey import SLOWER_BELOW
from ladder.tables.timings import headline_shape, largest

LINES = 60  # of an inner loop that a page shows at most
CHOICE = "Which kernel computes a product"  # how the comment of a rung's source begins what decides its way
TOP_LINES = 10  # of its source that a page lists
LISTED = 4  # limits of a rung that a page lists, of those that are shares of the same
_share = partial(percent, decimals=1)
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
    source = source_of_rung(rung)
    if source.suffix == ".py" and source.is_file():
        return ast.get_docstring(ast.parse(source_text(rung))) or ""
    words = []
    for line in source_text(rung).splitlines() if source.is_file() else ():
        if not line.startswith("//"):
            break
        words.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(words)


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


def _columns(frame: pd.DataFrame, heads: Mapping[str, str], **formats: Callable[[Any], str]) -> list[str]:
    """A Markdown table of these columns of a frame, under these heads; numbers in a format of their own where given."""
    texts = {name: frame[name].map(form, na_action="ignore") for name, form in formats.items()}
    return markdown_table(frame.assign(**texts)[list(heads)].to_numpy(object).tolist(), list(heads.values()))


def _code(lines: Sequence[str], language: str) -> list[str]:
    """A block of code, its middle left out where it is longer than LINES."""
    if len(lines) > LINES:
        half = LINES // 2
        lines = [*lines[:half], f"... {len(lines) - LINES} lines ...", *lines[-half:]]
    return [f"```{language}", *lines, "```", ""]


def _picture(name: str, title: str) -> list[str]:
    return [f"![{title}](../figures/{name}.svg)", ""]


def page(rung: Rung, inspection: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> str:
    """The page of a rung; sections whose evidence is missing say so in one line. Equal evidence gives equal bytes."""
    own = {name: table[table["rung"] == rung.name] if "rung" in table else table for name, table in tables.items()}
    row = own["rungs"].iloc[0]
    claims = [f"restricted, no full SGEMM: {row['claims']}"] if row["claims"] else []
    verdict = [f"arithmetic: {TITLES[row['precision']]}", *claims, f"status: {row['status']}"] + (
        [f"checked in {row['checked_cases']} cases"] if row["checked_cases"] else []
    )
    verdict += [text for text in (row["determinism"], row["emulation"] and f"on a CPU: {row['emulation']}") if text]
    shape = headline_shape(tables["timings"], tables["profiles"])
    parts = [f"# {rung.name}: {rung.title}", "", f"Source: `{shown(source_of_rung(rung))}`; {'; '.join(verdict)}.", ""]
    if isinstance(row["message"], str) and row["message"]:
        parts += [row["message"], ""]
    parts += [own_words(rung), "", *picture(rung)]
    parts += _parameters(rung)
    parts += _benchmark(own["timings"])
    parts += _sustained(own.get("sustained"))
    parts += _survey(own)
    parts += ways_section(own["ways"], CHOICE in own_words(rung))
    parts += _against(rung, tables, shape)
    if isinstance(row["profile_message"], str) and row["profile_message"]:
        parts += [f"The profile: {row['profile_message']}.", ""]
    parts += explanation(rung, tables)
    parts += _limits(own["diagnosis"])
    parts += _resources(own["resources"], shape, inspection.get("compiler", ""))
    parts += _paper(own["paper"], "hardware" in tables)
    if "hardware" in tables:
        parts += memory_costs(tables["hardware"])
        parts += _tensor(tensor_table(tables["hardware"], own["instructions"], own["timings"], rung.precision))
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
    heads = {
        "shape": "m x n x k", "time_ms_median": "median, ms", "time_ms_ci_low": "95 % from", "time_ms_ci_high": "to",
        "tflops": "TFLOP/s", "speedup_over_cublas": "of cuBLAS", "speedup_over_naive": "times naive",
        "speedup_over_before": "times the rung before",
    }  # fmt: skip
    apart = origin_columns(timings)
    rows = by_work(timings.assign(tflops=timings["gflops"] / 1e3, **apart))
    table = _columns(rows, heads | {title: title for title in apart}, speedup_over_cublas=_share)
    rung = timings["rung"].iloc[0]
    source = f"Samples: [raw/time/{rung}.zip](../../raw/time/{rung}.zip)."
    return ["## Benchmark", "", f"{origin_line(timings)} {source}", "", *table]


def _sustained(sustained: pd.DataFrame | None) -> list[str]:
    """Launches back to back beside isolated ones, and their energy."""
    if sustained is None or sustained.empty:
        return ["## Sustained", "", "No launches back to back are recorded for this rung.", ""]
    row = sustained.iloc[0]
    heads = {
        "shape": "m x n x k", "sustained": "TFLOP/s, sustained", "isolated": "TFLOP/s, isolated",
        "share_of_cublas_sustained": "of cuBLAS, sustained", "share_of_cublas_isolated": "of cuBLAS, isolated",
        "joules_per_product": "J a product", "gflops_per_watt": "GFLOP/s a watt",
        "energy_of_cublas": "energy of cuBLAS's", "power_w": "W", "sm_clock_mhz": "SM MHz",
        "throttle_reasons": "throttled by",
    }  # fmt: skip
    rates = {mode: sustained[f"gflops_{mode}"] / 1e3 for mode in ("sustained", "isolated")}
    shares = {name: _share for name in heads if name.startswith("share")}
    table = _columns(by_work(sustained.assign(**rates)), heads, **shares, energy_of_cublas="{:.2f} times".format)
    source = f"Batches and samples: [raw/sustained/{row['rung']}.json](../../raw/sustained/{row['rung']}.json)."
    words = "Launches back to back until clock and power have settled; isolated launches have a flushed L2 cache."
    return [
        "## Sustained",
        "",
        f"{words} {source}",
        "",
        *table,
        *_picture("sustained", "Sustained launches of all rungs"),
    ]


def ways_section(ways: pd.DataFrame, explained: bool) -> list[str]:
    """Which kernels the host function launches for which drawn products; nothing where it launches none itself."""
    whole = ways[ways["class"] == EVERY_PRODUCT]
    if whole.empty:
        return []
    total = whole["products"].sum()
    asked = (
        f"For {total} products drawn at random, as a survey draws them, its host function was asked what it launches."
    )
    title = ["## Which way each product takes", ""]
    if len(whole) == 1:
        return [*title, f"{asked} It is `{whole['way'].iloc[0]}` for all of them.", ""]
    builds = whole.assign(
        way="`" + whole["way"] + "`",
        least_side=_ends(whole, "least_side"), k=_ends(whole, "k"), flop=_ends(whole, "flop"),
    )  # fmt: skip
    heads = {
        "way": "kernels, in their order", "products": "products", "builds": "builds of them",
        "least_side": "smaller of m and n", "k": "k", "flop": "FLOP", "example": "for example",
    }  # fmt: skip
    why = " Why, and at which limits, says the comment of its source above." if explained else ""
    text = f"{asked} No GPU is needed for that.{why} The second table has how many percent of each class go each way."
    shares = ways.pivot_table("percent", "class", "way", sort=False).reindex(columns=list(whole["way"])).fillna(0)
    rows = [
        (name, *(f"{share:.0f}" for share in row)) for name, row in zip(shares.index, shares.to_numpy(), strict=True)
    ]
    parts = [*title, text, "", *_columns(builds, heads)]
    return [*parts, *markdown_table(rows, ["products", *(f"`{way}`" for way in shares.columns)])]


def _ends(frame: pd.DataFrame, name: str) -> list[str]:
    lows, highs = frame[f"{name}_low"], frame[f"{name}_high"]
    return [f"{number(low)} to {number(high)}" for low, high in zip(lows, highs, strict=True)]


def _survey(own: Mapping[str, pd.DataFrame]) -> list[str]:
    """Shares of cuBLAS on drawn products by class, and on kinds of data; nothing where no survey is recorded."""
    classes, data = own.get("survey_classes"), own.get("survey_data")
    if classes is None or data is None or classes.empty:
        return []
    heads = {
        "class": "products", "products": "how many", "geometric_mean": "of cuBLAS, geometric mean",
        "percentile_5": "5th percentile", "lowest": "lowest", "lowest_at": "at",
        "slower_percent": f"below {SLOWER_BELOW:g} of cuBLAS, %", "below_1_percent": "below 1, %",
        "memory_bound": "bound by memory", "share_of_bandwidth": "of the DRAM bandwidth, their median",
        "largest_times_error_of_cublas": "largest error over cuBLAS's", "largest_share_of_bound": "of the bound",
    }  # fmt: skip
    shares = dict.fromkeys(("geometric_mean", "percentile_5", "lowest", "share_of_bandwidth"), _share)
    name, seed = classes["rung"].iloc[0], classes["seed"].iloc[0]
    source = f"Samples: [raw/survey/{name}.json.gz](../../raw/survey/{name}.json.gz), seed {seed}."
    parts = ["## Products and data that nobody chose", "", f"Products drawn at random, by class. {source}", ""]
    parts += [*_columns(classes, heads, **shares), *_picture("survey", "Share of cuBLAS on drawn products")]
    parts += _picture("survey_bandwidth", "Share of the DRAM bandwidth on products bound by memory")
    if data.empty:
        return parts
    square = [str(Shape(*row)) for row in zip(data["m"], data["n"], data["k"], strict=True)]
    heads = {
        "family": "data", "shape": "m x n x k", "share_of_cublas": "of cuBLAS on the same data",
        "error_normwise": "relative error", "times_error_of_cublas": "times cuBLAS's error",
    }  # fmt: skip
    frame = data.assign(shape=square, family=data["family"].str.replace("_", " "))
    return [*parts, *_columns(frame, heads, share_of_cublas=_share), *_picture("survey_data", "Share by data")]


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
    slots, diagnosis = (table[table["shape"] == shape] for table in (slots, diagnosis))
    then, now = (
        _shares(slots[slots["rung"] == name], diagnosis[diagnosis["rung"] == name]) for name in (rung.before, rung.name)
    )
    if not then or not now:
        return []
    alike = then["FFMA"][1] == now["FFMA"][1]
    rows = []
    for what, (_, of, good) in {**then, **now}.items():
        shares = [side[what][0] if what in side else 0.0 for side in (then, now)]
        change = shares[1] - shares[0]
        if abs(change) >= CHANGED and (alike or of not in (SLOTS, TENSOR_PIPE)):
            texts = (f"{share:.0f} %" if share or good > 0 else _few(what) for share in shares)
            rows.append((what, *texts, of, "better" if good * change > 0 else "worse"))
    return markdown_table(rows, [f"at {shape}", f"`{rung.before}`", f"`{rung.name}`", "share of", "which is"])


def _shares(slots: pd.DataFrame, diagnosis: pd.DataFrame) -> dict[str, tuple[float, str, int]]:
    """Percent, of what, and 1 where more of it is better, else -1: of the work in a rung's slots and of its limits."""
    if slots.empty:
        return {}
    uses = slots.set_index("use")["percent"]
    of = TENSOR_PIPE if uses.get(TENSOR_CORES) else SLOTS
    limits = diagnosis[~diagnosis["finding"].isin(WORK)]
    return {use: (uses.get(use, 0.0), of, 1) for use in WORK.values()} | {
        item.finding: (item.slots_percent, item.of, -1) for item in limits.itertuples()
    }


def _few(limit: str) -> str:
    """What is said of a limit that is not listed: its share is less than LEAST, or it was not found at all."""
    return "none" if limit.startswith("bank conflicts") else f"less than {LEAST:.0f} %"


def _limits(diagnosis: pd.DataFrame) -> list[str]:
    """What limits a rung: all limits in a table by shape, and the evidence of each but the first, told before."""
    if diagnosis.empty:
        return ["## All limits", "", "This build has no profile.", ""]
    shapes = list(by_work(diagnosis)["shape"].unique())
    shape = largest(shapes)
    at = diagnosis[diagnosis["shape"] == shape]
    first = at.iloc[0]
    listed = pd.concat([at[at["of"] == first["of"]].head(LISTED), at[at["of"] != first["of"]]])
    shares = diagnosis.set_index(["shape", "finding"])["slots_percent"].map("{:.0f} %".format)
    rows = []
    for item in listed.itertuples():
        by_shape = [shares.get((each, item.finding), _few(item.finding)) for each in shapes]
        after = "" if math.isnan(item.next_slots_percent) else f"{item.next_slots_percent:.0f} %"
        rows.append((item.finding, *by_shape, after, item.of))
    head = ["limit", *(f"at {each}" for each in shapes), f"at {shape} in `{first['next_rung']}`", "share of"]
    told = [f"- {item.finding}: {item.evidence}" for item in listed[1:].itertuples()]
    return [
        "## All limits",
        "",
        *markdown_table(rows, head),
        *([*told, ""] if told else []),
        *_picture("issue_slots", "Issue slots of all rungs"),
    ]


def _resources(resources: pd.DataFrame, shape: str | None, by: str) -> list[str]:
    """What each kernel takes of an SM at a shape, or else at the largest, as compiled, and what limits it."""
    shapes = list(resources["shape"].unique())
    shape = shape if shape in shapes else largest(shapes)
    at = resources[resources["shape"] == shape]
    if at.empty:
        return []
    heads = {
        "kernel": "kernel", "grid": "blocks", "block_threads": "threads a block", "registers": "registers a thread",
        "static_shared_bytes": "static shared, byte", "dynamic_shared_bytes": "dynamic", "stack_bytes": "stack, byte",
        "spill_store_bytes": "spilled, byte", "blocks_per_sm": "blocks an SM", "occupancy_percent": "occupancy, %",
        "occupancy_limited_by": "limited by",
    }  # fmt: skip
    nvcc = f"nvcc {at['nvcc'].iloc[0]}"
    compilers = f"{by}, and its host code by {nvcc}," if by not in ("", nvcc) else nvcc
    compiler = f"Compiled by {compilers} for {at['architecture'].iloc[0]}."
    picture = _picture("occupancy_limits", "Warps that an SM holds of each rung")
    return [f"## Resources at {shape}", "", compiler, "", *_columns(at, heads), *picture]


def _paper(paper: pd.DataFrame, probed: bool) -> list[str]:
    """What the product needs and the rung's tiles read, at each shape; then the lowest ceiling of each.

    `probed` says that FFMA rate and DRAM bandwidth are the probes', and not the GPU file's.
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
        "shape": "m x n x k", "wavefronts_per_ffma": "passes an FFMA", "wavefronts_from": "counted from",
        "predicted_gflops": "lowest ceiling, TFLOP/s", "bound_by": "that of",
        "measured_gflops": "measured, TFLOP/s", "share_of_prediction": "share of the ceiling",
    }  # fmt: skip
    paper = by_work(paper)
    paper = paper.assign(**{name: paper[name] / 1e3 for name in ("predicted_gflops", "measured_gflops")})
    source = "measured ([how](hardware.md))" if probed else "of the GPU file"
    parts = ["## On paper", "", f"The FP32 peak and the DRAM bandwidth are {source}.", "", *_columns(paper, needs)]
    limited = paper[paper["predicted_gflops"].notna()]
    if len(limited):
        parts += ["Ceilings, with the passes of the load/store pipe:", ""]
        parts += _columns(limited, ceilings, share_of_prediction=percent)
        parts += _picture("prediction", "Measured against the lowest ceiling on paper")
    return parts


_NEAREST_FIRST = {"shared memory": "load, 4 bytes a thread, 1-way", "L1": "", "L2": "", "DRAM": ""}  # plain latency


def memory_costs(hardware: pd.DataFrame) -> list[str]:
    """What one access costs in each memory, and what an SM reads from it in a cycle, as the probes measured them."""
    rows = []
    for of, how in _NEAREST_FIRST.items():
        part = hardware[(hardware["of"] == of) & hardware["value"].notna()]
        latency = part[(part["kind"] == "latency") & part["how"].str.startswith(how or "load")]
        loads = part[(part["kind"] == "bandwidth") & part["how"].str.startswith("load,")]
        if len(latency) and len(loads):
            rows.append((of, f"{latency['value'].iloc[0]:.0f}", f"{loads['value'].max():.0f}"))
    heads = ["memory", "cycles from a load to its data", "bytes that an SM loads in a cycle, at most"]
    said = "What each memory costs, [as measured](hardware.md). A warp's load of 4 bytes a thread is 128 bytes."
    return [said, "", *markdown_table(rows, heads)] if rows else []


def _tensor(table: pd.DataFrame) -> list[str]:
    """What the measured rate of tensor cores allows, at each shape; nothing where they compute no product."""
    if table.empty:
        return []
    heads = {
        "shape": "m x n x k", "by": "by", "ceiling_tflops": "ceiling, TFLOP/s", "tflops": "measured, TFLOP/s",
        "share_of_ceiling": "share of the ceiling",
    }  # fmt: skip
    how = (
        "The ceiling is the [measured](hardware.md) rate of the tensor cores at the SM clock of these launches, divided"
        " by the number of products that the rung computes on them for one product in FP32."
    )
    return ["## Tensor cores", "", how, "", *_columns(by_work(table), heads, share_of_ceiling=percent)]


def _hotspots(hotspots: pd.DataFrame) -> list[str]:
    if hotspots.empty:
        return []
    at = hotspots[(hotspots["shape"] == largest(list(hotspots["shape"]))) & (hotspots["percent"] >= 0.1)]
    at = at.assign(place=at["file"] + ":" + at["line"].map(str), reason=at["reason"].str.replace("_", " "))
    heads = {"place": "line", "percent": "of stalled samples", "reason": "mostly", "text": "source"}
    return ["## Hot source lines", "", *_columns(at, heads, percent="{:.1f} %".format, text="`{}`".format)]


def _profile(profiles: pd.DataFrame) -> list[str]:
    """The kernels of a rung's product, and every metric of the one that computes it, by section, with its meaning."""
    if profiles.empty:
        return []
    shape = largest(list(profiles["shape"]))
    at = profiles[profiles["shape"] == shape]
    kernels = at[at["name"] == "duration"].assign(ms=lambda table: pd.to_numeric(table["value"]) / 1e6)
    at = at[at["multiplies"].astype(bool)]
    rung = at["rung"].iloc[0]
    parts = [f"## Profile at {shape}", "", f"From [raw/profile/{rung}.json.xz](../../raw/profile/{rung}.json.xz).", ""]
    if len(kernels) > 1:
        kernels = kernels.assign(share=kernels["ms"] / kernels["ms"].sum())
        parts += _columns(kernels, {"kernel": "kernel", "ms": "ms", "share": "of the time"}, share=_share)
    more = ", which computes the product" if len(kernels) > 1 else ""
    parts += [f"Nsight Compute's metrics of `{at['kernel'].iloc[0]}`{more}.", ""]
    parts += _picture("roofline", "Roofline of all rungs")
    meanings = {each.name: each.meaning for each in (*METRICS.values(), *RATIOS)}
    for section, rows in at.groupby("section", sort=False):
        known = rows["name"].isin(meanings)
        metrics = [
            (item.name.replace("_", " "), _with_unit(item.value, item.unit), meanings[item.name])
            for item in rows[known].itertuples(index=False)
        ]
        parts += [f"### {section.capitalize()}", "", *markdown_table(metrics, ["metric", "value", "what it is"])]
        parts += _stalls(rows[~known].set_index("name")["value"].astype(float))
    return parts


def _stalls(cycles: pd.Series) -> list[str]:
    """What a warp does between two instructions, the longest first, but for what is next to nothing."""
    rows = [
        (reason.replace("_", " "), value, _share(value / cycles.sum()), STALLS.get(reason))
        for reason, value in cycles.rename(lambda name: name.removeprefix("stall_"))
        .sort_values(ascending=False, kind="stable")
        .items()
        if value >= 0.001 * cycles.sum()
    ]
    return markdown_table(rows, ["a warp's state between two instructions", "cycles", "of all", "what it waits for"])


def _with_unit(value: Any, unit: Any) -> str:
    """A value of the table of profiles with its unit, as text; empty where it has none."""
    unit = unit if isinstance(unit, str) else ""
    with contextlib.suppress(TypeError, ValueError):
        value, unit = scaled(float(value), unit)
    return f"{number(value)} {unit}".rstrip() if number(value) else ""


def _advice(advice: pd.DataFrame) -> list[str]:
    if advice.empty:
        return []
    at = advice[advice["multiplies"].astype(bool) & (advice["shape"] == largest(list(advice["shape"])))]
    at = at[at["estimated_speedup_percent"].notna()].head(5).assign(rule=at["title"].fillna(at["rule"]))
    heads = {"section": "section", "rule": "rule", "estimated_speedup_percent": "estimated speedup"}
    table = _columns(at, heads, estimated_speedup_percent="{:.1f} %".format)
    return ["## Nsight Compute's advice", "", *table] if table else []


def _counts(instructions: pd.DataFrame, shape: str) -> list[str]:
    """The inner loop in numbers: instructions by class, loads by width, and what they come to for each FFMA."""
    loops = instructions[instructions["part"] == "inner loop"]
    loops = loops.loc[np.array([shape in str(shapes).split() for shapes in loops["launched_at"]], dtype=bool)]
    if loops.empty:
        return []
    row = loops.iloc[0]
    counts = {name: row[name] for name in (*CLASSES, "other")}
    counts |= {
        f"{kind} of {bits} bit": row[f"{kind.lower()}_{bits}bit"]
        for kind in ("LDS", "STS", "LDG", "LDGSTS")
        for bits in (32, 64, 128)
    }
    rows = [(name, count) for name, count in counts.items() if count]
    if not math.isnan(row["ffma_share"]):
        rows += [
            ("FFMA, share of the issue slots", _share(row["ffma_share"])),
            ("shared loads an FFMA", row["shared_loads_per_ffma"]),
            ("global loads an FFMA", row["global_loads_per_ffma"]),
            ("FFMAs whose three operands are in one register bank", row["bank_conflicts"]),
            ("operands of FFMAs that are reused", row["reused_operands"]),
        ]
    return markdown_table(rows, ["of the inner loop", "number"])


def _loop(inspection: Mapping[str, Any], instructions: pd.DataFrame) -> list[str]:
    shapes = list(inspection["launches"])
    found = multiplying_kernel(dict(inspection), largest(shapes)) if shapes else None
    if found is None:
        return []
    kernel, code = found[1], found[1]["code"]
    size = f"The inner loop of `{kernel['kernel']}` has {code['loop']['instructions']} instructions."
    parts = ["## Inner loop", "", size, ""]
    parts += _counts(instructions, largest(shapes))
    parts += _picture("instruction_mix", "Instructions of all inner loops")
    parts += _source_lines(code["loop_lines"])
    parts += ["SASS:", "", *_code(code["loop_sass"], "asm")]
    if code["loop_ptx"]:
        parts += ["PTX:", "", *_code([line.replace("\t", " ") for line in code["loop_ptx"]], "asm")]
    return parts


def _source_lines(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The source lines that most instructions of the inner loop are of, most first, and what these are."""
    most = sorted(lines, key=lambda line: -line["instructions"])[:TOP_LINES]
    rows = []
    for line in most:
        kinds = sorted(line["mix"].items(), key=lambda item: -item[1])
        mix = ", ".join(f"{count} {kind}" for kind, count in kinds)
        rows.append((f"{line['file']}:{line['line']}", line["instructions"], mix, line["text"] and f"`{line['text']}`"))
    return markdown_table(rows, ["source line of the inner loop", "instructions", "of which", "source"])


def pages_index(rungs: Sequence[Rung], tables: Mapping[str, pd.DataFrame]) -> str:
    """The index of the pages: each rung, its rate at the size of most rungs, and what limits it first."""
    timings, diagnosis = tables["timings"], tables["diagnosis"]
    shape = headline_shape(timings, tables["profiles"])
    index = pd.DataFrame(
        {
            "rung": [rung.name for rung in rungs],
            "page": [f"[{rung.name}]({rung.name}.md)" for rung in rungs],
            "title": [rung.title for rung in rungs],
            "limit": [_first_limit(diagnosis[diagnosis["rung"] == rung.name]) for rung in rungs],
        }
    )
    timings = timings[(timings["shape"] == shape) & timings["rung"].isin(index["rung"])]
    apart = origin_columns(timings)
    times = timings[["rung", "gflops", "speedup_over_cublas"]].join(apart)
    heads = {
        "page": "rung", "title": "what it is", "tflops": f"TFLOP/s at {shape}", "speedup_over_cublas": "of cuBLAS",
        "limit": "first limit",
    }  # fmt: skip
    heads |= {title: title for title in apart}
    index = index.merge(times, how="left").assign(tflops=lambda rows: rows["gflops"] / 1e3)
    table = _columns(index, heads, speedup_over_cublas=_share)
    pictures = {
        "intensity": "All rungs", "roofline": "Roofline", "issue_slots": "Where the issue slots go",
        "instruction_mix": "Instructions",
        "occupancy_limits": "Occupancy", "prediction": "Prediction",
    }  # fmt: skip
    needed = {"intensity": "profiles", "roofline": "profiles", "issue_slots": "slots"}  # else the figure is empty
    drawn = {name: title for name, title in pictures.items() if name not in needed or len(tables[needed[name]])}
    figures = [line for name, title in drawn.items() for line in _picture(name, title)]
    parts = [
        "# Why is it not faster?",
        "",
        "[The ladder, step by step](timeline.md) has a paragraph for each rung.",
        *(
            ["[What the GPU does at most](hardware.md) has its latencies, bandwidths and rates."]
            * ("hardware" in tables)
        ),
        "",
        origin_line(timings),
        "",
        *table,
        *figures,
        *_side_by_side(tables["metrics_by_rung"]),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _first_limit(diagnosis: pd.DataFrame) -> str:
    """What limits a rung first at its largest profiled shape; empty where it has no profile."""
    first = diagnosis[diagnosis["shape"] == largest(list(diagnosis["shape"]))].head(1)
    return "".join(f"{item.finding}, {item.slots_percent:.0f} % of {item.of}" for item in first.itertuples())


def _side_by_side(compared: pd.DataFrame) -> list[str]:
    """The worklogs' table: metrics of Nsight Compute with the rungs as columns, at the largest profiled square."""
    if compared.empty:
        return []
    shape = largest(list(compared["shape"]))
    at = compared[compared["shape"] == shape].drop(columns="shape").fillna({"unit": ""})
    title = f"## Nsight Compute's metrics side by side, at {shape}"
    return [title, "", *markdown_table(at.to_numpy(object).tolist(), list(at.columns))]
