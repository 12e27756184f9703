"""All rungs in one plane, product FLOP a byte against the rate, joined in the order of the ladder, under ceilings.

S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pandas as pd

from ladder.model.gpu import Gpu
from ladder.model.precision import TITLES
from ladder.model.shape import Shape
from ladder.show.figures.specification import Axis, Choice, Layer, Specification, apart
from ladder.show.numbers import number
from ladder.show.style import rung_key
from ladder.tables.hardware import class_ceilings, measured_ceilings
from ladder.tables.timings import largest

_SECTOR = 32  # bytes
_LEVELS = {"DRAM": ("dram_bytes_read", "dram_bytes_written", 1), "L2": ("l2_sectors", "l2_sectors_written", _SECTOR)}
_MARGIN = 1.5  # between a mark and the end of its axis
_MARK = {"width": 0.011, "height": 0.021}  # of a mark, as shares of the axes


def intensities(profiles: pd.DataFrame) -> pd.DataFrame:
    """What all kernels of a product took together: one row a rung and profiled shape.

    Columns: rung, shape, tflops (2mnk over the kernels' durations), DRAM and L2 (FLOP for each byte that came from
    there or went there); `profiles` is the table of that name.
    """
    names = ["duration", *(name for read, written, _ in _LEVELS.values() for name in (read, written))]
    rows = profiles[profiles["name"].isin(names)]
    values = rows.assign(value=pd.to_numeric(rows["value"], errors="coerce"))
    found = values.pivot_table("value", ["rung", "shape"], "name", aggfunc="sum", sort=False).reindex(columns=names)
    found = found.dropna().reset_index()
    flop = found["shape"].map(lambda shape: Shape.parse(str(shape)).flop).astype(float)
    return pd.DataFrame(
        {"rung": found["rung"], "shape": found["shape"], "tflops": flop / found["duration"] / 1e3}
        | {
            level: flop / (bytes_ * (found[read] + found[written]))
            for level, (read, written, bytes_) in _LEVELS.items()
        }
    )


def figure(
    profiles: pd.DataFrame,
    rungs: pd.DataFrame,
    hardware: pd.DataFrame | None,
    gpu: Gpu,
    baseline: str,
    ladder: Sequence[str] = (),
) -> Specification:
    """A mark a rung in a panel for each level of memory; the rungs of the FP32 pipe are joined in their order.

    `hardware` is the table of that name; without one the ceilings are the GPU file's, and L2 has none.
    """
    order = {name: place for place, name in enumerate(rungs["rung"])}
    table = intensities(profiles[profiles["rung"].isin(order)])
    table = table.sort_values("rung", key=lambda names: names.map(order), kind="stable")
    shapes = list(dict.fromkeys(table["shape"]))
    if not shapes:
        return Specification("All rungs", "", [], Axis(), Axis(), empty="No profile is recorded.")
    first = largest(shapes)
    key = replace(rung_key(rungs, baseline, ladder), direct=False)
    climbing = rungs.loc[(rungs["precision"] == "fp32") & (rungs["role"] == "rung"), "rung"]
    measured = measured_ceilings(hardware) if hardware is not None else {}
    bandwidths = {"DRAM": measured.get("DRAM", gpu.memory_bandwidth_gb_s), "L2": measured.get("L2")}
    present = set(rungs.loc[rungs["rung"].isin(table["rung"]), "precision"])
    flat = {TITLES[name]: rate / 1e3 for name, rate in class_ceilings(gpu, measured).items() if name in present}
    points, ways, lines, names = [], [], [], []
    x, y = {}, {}
    for level in _LEVELS:
        bandwidth = bandwidths[level]
        slope = bandwidth / 1e3 if bandwidth else None  # TFLOP/s for each FLOP a byte
        roof, bottom = max(flat.values()), table["tflops"].min() / _MARGIN
        left = min([table[level].min(), *([min(flat.values()) / slope] if slope else [])]) / _MARGIN
        x[level] = Axis(f"FLOP of the product for each byte of {level}", "log", limits=(left, table[level].max() * 2))
        y[level] = Axis("TFLOP/s", "log", limits=(bottom, roof * 2.2))
        for shape, rows in table.groupby("shape", sort=False):
            rows = rows.assign(panel=level, intensity=rows[level])
            points.append(rows.assign(at=apart(rows, "intensity", "tflops", x[level], y[level], **_MARK)))
            steps = points[-1][rows["rung"].isin(list(climbing))]
            for way, pair in enumerate(zip(steps.index[:-1], steps.index[1:], strict=True)):
                ways.append(steps.loc[list(pair)].assign(way=f"{way}"))
            ends = (left, 2 * table[level].max())
            drawn, named = _ceilings(level, flat, slope, ends, bottom, points[-1])
            lines += [row | {"panel": level, "shape": shape} for row in drawn]
            names += [row | {"panel": level, "shape": shape} for row in named]
    steps = table[(table["shape"] == first) & table["rung"].isin(list(climbing))]
    hints = {"rung": "rung", "shape": "shape", "intensity": "FLOP a byte", "tflops": "TFLOP/s"}
    source = "the probes' (`snakemake hardware`)" if measured else "the GPU file's"
    return Specification(
        title=_title(steps, first),
        note="Each mark is a rung, as profiled: the FLOP of the product over the bytes that its kernels move, and over"
        " their time. The line joins the rungs of the FP32 pipe in the order of the ladder. For rungs on tensor cores"
        f" only the FLOP of the product count, not those of split numbers. Ceilings are {source}: flat lines are the"
        " rate of each class of arithmetic, slanted ones a bandwidth. Marks that would cover each other are moved"
        " sideways a little.",
        layers=[
            Layer("line", pd.concat([points[0][:0].assign(way=""), *ways]), "at", "tflops", group="way", behind=True),
            Layer("line", pd.DataFrame(lines), "at", "tflops", group="ceiling", color="dimgray"),
            Layer("text", pd.DataFrame(names), "at", "tflops", text="ceiling", offset=(4, 5)),
            Layer("point", pd.concat(points), "at", "tflops", key=key, hints=hints),
        ],
        x=x,
        y=y,
        panels=Choice("panel", "Bytes of", list(_LEVELS), next(iter(_LEVELS))),
        choices=[Choice("shape", "shape", shapes, first)],
        height=4.2,
    )


def _ceilings(
    level: str,
    flat: Mapping[str, float],
    slope: float | None,
    ends: tuple[float, float],
    bottom: float,
    marks: pd.DataFrame,
) -> tuple[list[dict[str, str | float]], list[dict[str, str | float]]]:
    """The ends of the lines of a panel, and where their names stand: rows of ceiling, at (FLOP a byte) and tflops.

    `flat` are the rates of classes in TFLOP/s, `slope` the bandwidth in TFLOP/s for each FLOP a byte, if it is known;
    flat lines run from one of the `ends` to the other, and slanted ones begin no lower than at the `bottom`. Names keep
    off the `marks`, which have columns at and tflops.
    """
    roof = max(flat.values())
    found = {f"{title}, {rate:.0f}": tuple((end, rate) for end in ends) for title, rate in flat.items()}
    if slope:
        start = max(ends[0], bottom / slope)
        found[f"{level}, {number(slope)} TB/s"] = ((start, start * slope), (roof / slope, roof))
    lines = [{"ceiling": name, "at": at, "tflops": height} for name, line in found.items() for at, height in line]
    names = [{"ceiling": name, "at": line[0][0], "tflops": line[0][1] * 1.06} for name, line in found.items()]
    if slope:  # its name stands beside the slanted line, between two flat ones, whose own names are on the left
        steps = sorted([start * slope, roof / 4, *flat.values()])
        heights = [math.sqrt(low * high) for low, high in pairwise(steps)]
        height = min(reversed(heights), key=lambda each: _covered(marks, 1.1 * each / slope, each))
        names[-1] |= {"at": 1.1 * height / slope, "tflops": height / 1.1}
    return lines, names


def _covered(marks: pd.DataFrame, at: float, height: float) -> int:
    """How many marks a name would cover that begins there."""
    beside = marks["at"].between(at / 1.1, 2.2 * at) & marks["tflops"].between(height / 1.4, 1.4 * height)
    return int(beside.sum())


def _title(steps: pd.DataFrame, shape: str) -> str:
    """The message: how far the climb leads in both directions."""
    if len(steps) < 2:
        return "Rate against the FLOP for each byte"
    low, high = steps.iloc[0], steps.loc[steps["tflops"].idxmax()]
    gains = {level: f"{high[level] / low[level]:.2g}" for level in _LEVELS}
    return (
        f"{high['rung']} is {high['tflops'] / low['tflops']:.0f} times as fast as {low['rung']} at {shape}, with"
        f" {gains['L2']} times the FLOP for each byte of L2 and {gains['DRAM']} times for DRAM"
    )
