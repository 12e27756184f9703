"""The page of the GPU's parts: latencies, bandwidths and rates as its probes measured them, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ladder.show.numbers import number, percent
from ladder.show.pages import markdown_table

_CHAIN = ("shared memory", "L1", "L2", "DRAM")  # from the nearest memory to the farthest
_FIRST = {"shared memory": "load, 4 bytes a thread, 1-way"}  # of several latencies, the plain one


def hardware_page(table: pd.DataFrame) -> str:
    """The page as Markdown; `table` is that of `ladder.tables.hardware.hardware_table`."""
    row = table.iloc[0]
    parts = ["# What the GPU does at most", ""]
    parts += [
        f"Measured on {row['card']} at {row['measured_at']} by the probes of `kernels/floor/hardware.cu`: the median of"
        " each, with its 95 % interval. Cycles are of an SM's clock. The ceilings on paper and the predictions take the"
        " rates of FFMAs and of tensor cores and the DRAM bandwidth from here.",
        "",
    ]
    parts += [f"- {sentence}" for sentence in findings_of(table)] + [""]
    for (of, kind), rows in table.groupby(["of", "kind"], sort=False):
        parts += [f"## {of[0].upper()}{of[1:]}, {kind}", "", *_table(rows)]
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: pd.DataFrame) -> list[str]:
    units = [str(rows[column].dropna().iloc[0]) if rows[column].notna().any() else "" for column in _UNITS]
    heads = ["how", f"{units[0]}", "95 % interval", f"{units[1]}", "95 % interval", "of the GPU file"]
    cells = [
        (
            row.how,
            _rounded(row.value),
            _between(row.value_ci_low, row.value_ci_high),
            _rounded(row.whole),
            _between(row.whole_ci_low, row.whole_ci_high),
            percent(row.share_of_gpu_file),
        )
        for row in rows.itertuples()
    ]
    return markdown_table(cells, heads)


_UNITS = ("value_unit", "whole_unit")


def _rounded(value: float) -> str:
    return "" if pd.isna(value) else number(float(f"{value:.4g}"))


def _between(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"{_rounded(low)} to {_rounded(high)}"


def findings_of(table: pd.DataFrame) -> Iterator[str]:
    """What the numbers say, in sentences; of what was not measured nothing."""

    def at(of: str, kind: str, how: str, column: str = "value") -> float | None:
        rows = table[(table["of"] == of) & (table["kind"] == kind) & (table["how"] == how)]
        return None if rows.empty or pd.isna(rows[column].iloc[0]) else float(rows[column].iloc[0])

    plain = "load, 8 bytes, one thread"
    waits = {of: at(of, "latency", _FIRST.get(of, plain)) for of in _CHAIN}
    found = [f"{cycles:.0f} for {of}" for of, cycles in waits.items() if cycles]
    if len(found) > 1:
        yield f"A load that nothing hides takes so many cycles: {', '.join(found)}."
    lines = [at("L2", "latency", "one line a sample, one thread", f"value_percentile_{p}") for p in (10, 90)]
    if all(lines):
        near, far = lines
        yield (
            f"From one SM the nearest tenth of L2's lines is at most {near:.0f} cycles away, the farthest at least"
            f" {far:.0f}: {far / near:.2f} times."
        )
    one, all_lanes = (at("shared memory", "latency", f"load, 4 bytes a thread, {ways}-way") for ways in (1, 32))
    if one and all_lanes:
        yield f"Each further lane on a bank makes a load of shared memory {(all_lanes - one) / 31:.1f} cycles longer."
    rate, wait = at("DRAM", "bandwidth", "load, 16 bytes a thread"), waits["DRAM"]
    if rate and wait:
        yield (
            f"DRAM gives an SM {rate:.1f} bytes a cycle, so {rate * wait / 1024:.0f} KiB have to be on their way to"
            f" each SM to keep it busy for the {wait:.0f} cycles of a load."
        )
    alone = at("FFMA", "rate", "FP32")
    for every in (8, 16, 32):
        beside = at("FFMA", "rate", f"FP32, a 16-byte shared load every {every}")
        if alone and beside:
            yield (
                f"FFMAs reach {percent(beside / alone)} of their rate with a 16-byte load from shared memory for every"
                f" {every}."
            )
    for kind in ("TF32", "FP16", "BF16"):
        warps, groups = (at(of, "rate", kind, "whole") for of in ("mma.sync", "wgmma"))
        if warps and groups:
            yield f"{kind} by `mma.sync` reaches {percent(warps / groups)} of `wgmma`'s {groups:.0f} TFLOP/s."
