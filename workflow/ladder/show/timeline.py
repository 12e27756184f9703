"""The ladder from its first rung to its last: one paragraph and one picture a step, every number from the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ladder.model.rung import Rung
from ladder.show.drawings import picture
from ladder.show.explanation import PROMISES, Abbreviated, limit_in_words, metrics_of, promised_against
from ladder.show.numbers import number, percent
from ladder.show.pages import markdown_table
from ladder.tables.predictions import FFMAS, error_table
from ladder.tables.tensor_cores import TENSOR_FITTED
from ladder.tables.timings import headline_shape


def timeline(rungs: Sequence[Rung], tables: Mapping[str, pd.DataFrame]) -> str:
    """The page as Markdown; rungs without a time are left out, and nothing stands there where none has one."""
    shape = headline_shape(tables["timings"], tables["profiles"])
    at = {name: table[table["shape"] == shape] if "shape" in table else table for name, table in tables.items()}
    times = at["timings"].set_index("rung")
    steps = [rung for rung in rungs if rung.role == "rung" and rung.name in times.index]
    parts = ["# The ladder, step by step", ""]
    if not steps:
        return "\n".join([*parts, "No times are recorded.", ""])
    fastest = times.loc[[rung.name for rung in steps if rung.precision == "fp32"], "gflops"]
    baseline = times["gflops"].get("cublas", float("nan")) / 1e3
    parts += [
        f"All numbers are of m = n = k = {shape}. The first rung reaches {fastest.iloc[0] / 1e3:.2f} TFLOP/s, the"
        f" fastest with FP32 units {fastest.max() / 1e3:.1f}; cuBLAS has {baseline:.1f}.",
        "",
    ]
    for rung in steps:
        parts += [f"## {rung.name}", "", " ".join(_told(rung, at)), "", *_seen(rung, at["slots"])]
    return "\n".join([*parts, *_memory(at), *_predictions(tables)]).rstrip() + "\n"


def _seen(rung: Rung, slots: pd.DataFrame) -> list[str]:
    """The drawing of what a block does; for a rung without one, the figure of the issue slots, if it is in that."""
    found = picture(rung)
    shown = ["![Where the issue slots go](../figures/issue_slots.svg)", ""]
    return found or (shown if rung.name in set(slots["rung"]) else [])


def _told(rung: Rung, at: Mapping[str, pd.DataFrame]) -> list[str]:
    """A paragraph: what is new, what it gained, which promised number fell, what limits it now, what to try."""
    row = at["timings"].set_index("rung").loc[rung.name]
    told = [f"The idea: {rung.title}."]
    told.append(f"It runs at {row['gflops'] / 1e3:.2f} TFLOP/s, {percent(row['speedup_over_cublas'], 1)} of cuBLAS")
    if not pd.isna(row["speedup_over_before"]):
        ends = f"{row['speedup_over_before_ci_low']:.2f} to {row['speedup_over_before_ci_high']:.2f}"
        told[-1] += f" and {row['speedup_over_before']:.2f} times `{rung.before}` (95 % interval: {ends})"
    told[-1] += "."
    then, now = (metrics_of(at["profiles"], name) for name in (promised_against(rung), rung.name))
    both = [name for name in PROMISES.get(rung.entry, ()) if name in then and name in now]
    told += [f"{_name(name)}: {Abbreviated(then[name]):n} before, {Abbreviated(now[name]):n} now." for name in both[:1]]
    limits = at["diagnosis"][at["diagnosis"]["rung"] == rung.name]
    told += [limit_in_words(limit) for _, limit in limits.head(1).iterrows()]
    for lever in at["levers"][at["levers"]["rung"] == rung.name].head(1).itertuples():
        told.append(f"The model expects the largest gain, {lever.predicted_gain:.2f} times, from {lever.lever}.")
    return [*told, f"[All of it](<{rung.name}.md>)."]


def _name(metric: str) -> str:
    words = metric.replace("_", " ")
    return words[0].upper() + words[1:]


def _memory(at: Mapping[str, pd.DataFrame]) -> list[str]:
    """What DRAM and L2 move for each rung, cuBLAS among them."""
    memory = at["memory"]
    if memory.empty:
        return []
    rows = [
        (
            *(row.rung, f"{row.dram_over_minimum:.1f}", f"{row.l2_over_minimum:.0f}"),
            *(f"{row.l1_hit_rate:.0f} %", f"{row.l2_hit_rate:.0f} %", f"{row.dram_throughput:.1f} %"),
        )
        for row in memory.itertuples()
    ]
    head = ["rung", "DRAM bytes over the least", "bytes from L2 over the least", "L1 hits", "L2 hits", "DRAM busy"]
    words = [
        "The least is each matrix moved once. If DRAM works at a small share of its peak, it does not limit the rung.",
        "The limit then lies before DRAM: the load/store pipe, or warps that wait.",
    ]
    return ["## What memory moves", "", *words, "", *markdown_table(rows, head)]


def _predictions(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Predicted and measured rates of every rung and size, and what was fitted."""
    table, fitted = tables["predictions"], tables["prediction_fit"]
    if table.empty:
        return []
    sizes = sorted(table["n"].unique())
    by_size = table.set_index(["rung", "n"])
    rows = []
    for rung in dict.fromkeys(table["rung"]):
        cells = []
        for n in sizes:
            found = by_size.loc[(rung, n)] if (rung, n) in by_size.index else None
            if found is None:
                cells.append("")
                continue
            measured = f"{found['measured_gflops'] / 1e3:.1f}" if found["timed"] else "not timed"
            cells.append(f"{found['predicted_gflops'] / 1e3:.1f} / {measured}")
        rows.append((rung, *cells))
    numbers = [
        (row.unit_of, row.parameter, row.value, f"{number(row.lowest)} to {number(row.highest)}", row.unit, row.meaning)
        for row in fitted.itertuples()
    ]
    return [
        "## Predicted and measured",
        "",
        f"TFLOP/s, predicted / measured. The median error is {table['error_percent'].abs().median():.1f} %.",
        "The model predicts each rung after a fit to the times of the other rungs of its unit, the FP32 units or the",
        "tensor cores. There, a number that the few times leave open stays near what it would be without losses.",
        "Launch and FP32 peak are measured (`empty`, `ffma`). If neither a profile nor the threads'",
        "addresses give the passes of the load/store pipe, they are the fewest that the code needs.",
        *_rates(table),
        "",
        *markdown_table(_errors(table), ["multiplied by", "rungs", "predictions", "median error", "largest error"]),
        *markdown_table(rows, ["rung", *map(str, sizes)]),
        *markdown_table(numbers, ["of", "fitted", "value", "without one rung", "unit", "meaning"]),
        "![Predicted and measured rates](../figures/predicted.svg)",
        "",
    ]


def _rates(predictions: pd.DataFrame) -> list[str]:
    """Where the rates of the tensor cores are from; nothing where no rung on them is predicted."""
    sources = set(predictions.loc[predictions["by"] != FFMAS, "counted_from"])
    if not sources:
        needed = len(TENSOR_FITTED)
        return [f"No rung on tensor cores is predicted: that takes more than {needed} times of other such rungs."]
    if sources == {"probes"}:
        return ["The rates of mma.sync and wgmma are measured ([how](hardware.md))."]
    return ["This GPU has no hardware record, so the rates of mma.sync and wgmma are those that NVIDIA states."]


def _errors(predictions: pd.DataFrame) -> list[tuple[str, int, int, str, str]]:
    return [
        (row.by, row.rungs, row.predictions, f"{row.median_error_percent:.1f} %", f"{row.largest_error_percent:.0f} %")
        for row in error_table(predictions).itertuples()
    ]
