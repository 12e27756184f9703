"""Rate against measured intensity towards L2 and towards DRAM, under the ceilings.

S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from ladder.model.gpu import Gpu
from ladder.show.figures.specification import Axis, Choice, Layer, Specification, apart
from ladder.show.numbers import percent
from ladder.show.style import families, rung_key
from ladder.tables.hardware import measured_ceilings
from ladder.tables.timings import largest

_SECTOR = 32  # bytes
LEVELS = ("L2", "DRAM")
_MARGIN = 1.3  # between a mark and the end of its axis


def rates(profiles: pd.DataFrame, shape: str) -> pd.DataFrame:
    """What the roofline draws of each rung at a shape, by rung.

    Columns: flops (a second), dram and l2 (bytes a second), dram_peak and l2_peak (bytes a second), from the table of
    profiles; of several kernels of one product the one that computes it. Where that does no FFMAs a rung is left out,
    for a rate of zero has no place on a logarithmic axis.
    """
    at = profiles[profiles["multiplies"].astype(bool) & (profiles["shape"] == shape)]
    found = {}
    for rung, kernel in at.groupby("rung", sort=False):
        value = pd.to_numeric(kernel.set_index("name")["value"], errors="coerce")
        seconds = value["duration"] * 1e-9
        if not value["ffma_per_cycle"] > 0:
            continue
        found[rung] = {
            "flops": 2 * value["ffma_per_cycle"] * value["sm_frequency"],
            "dram": (value["dram_bytes_read"] + value["dram_bytes_written"]) / seconds,
            "l2": _SECTOR * (value["l2_sectors"] + value["l2_sectors_written"]) / seconds,
            "dram_peak": value["dram_peak"] * value["dram_frequency"],
            "l2_peak": value["l2_peak"] * value["sm_frequency"],
        }
    return pd.DataFrame.from_dict(found, orient="index")


def compute_ceilings(timings: pd.DataFrame, gpu: Gpu, shape: str) -> dict[str, float]:
    """FP32 ceilings in FLOP/s by label: the GPU file's, at the clocks measured at a shape, and the FFMA kernel's."""
    found = {f"GPU file, {gpu.sm_clock_mhz:g} MHz": gpu.peak_gflops * 1e9}
    clocks = timings.loc[timings["shape"] == shape, "sm_clock_mhz"].dropna()
    if len(clocks):
        clock = clocks.median()
        found[f"measured clock, {clock:.0f} MHz"] = gpu.peak_gflops * 1e9 * clock / gpu.sm_clock_mhz
    own = timings[timings["rung"] == "ffma"]
    if len(own):
        row = own.loc[own["n"].idxmax()]
        found["FFMAs in registers, timed"] = 2 * row["m"] * row["n"] * row["k"] / row["time_ms_median"] * 1e3
    return found


def figure(
    profiles: pd.DataFrame,
    timings: pd.DataFrame,
    rungs: pd.DataFrame,
    hardware: pd.DataFrame | None,
    gpu: Gpu,
    baseline: str,
    ladder: Sequence[str] = (),
) -> Specification:
    """A point a rung, in a panel for each family and level of memory; `rungs` are those of FP32 alone.

    `hardware` is the table of that name; a bandwidth that it lacks is the highest of which Nsight Compute knows.
    """
    tables = {shape: rates(profiles, shape) for shape in profiles["shape"].unique()}
    tables = {shape: table[table.index.isin(rungs["rung"])] for shape, table in tables.items()}
    tables = {shape: table for shape, table in tables.items() if len(table)}
    measured = measured_ceilings(hardware) if hardware is not None else {}
    for table, level in product(tables.values(), LEVELS):
        table[f"{level.lower()}_peak"] = 1e9 * measured.get(level, table[f"{level.lower()}_peak"].median() / 1e9)
    source = "as the probes measured it" if measured else "that Nsight Compute knows of"
    key = replace(rung_key(rungs, baseline, ladder), direct=False)
    first = largest(list(tables))
    if not first:
        return Specification("Roofline", "", [], Axis(), Axis(), empty="No profile is recorded.")
    flat = {shape: compute_ceilings(timings, gpu, shape) for shape in tables}
    members = families(rungs[rungs["rung"].isin(set().union(*(table.index for table in tables.values())))], baseline)
    points, lines, names, x, y = [], [], [], {}, {}
    for family, inside in members.items():
        for level in LEVELS:
            panel = f"{level}: {family.removeprefix('FP32: ')}"
            at = {shape: _points(table[table.index.isin(inside)], level) for shape, table in tables.items()}
            slope = {shape: table[f"{level.lower()}_peak"].iloc[0] / 1e12 for shape, table in tables.items()}
            every = pd.concat(at.values())
            roof = max(value for each in flat.values() for value in each.values()) / 1e12
            left = min(every["intensity"].min(), roof / max(slope.values())) / _MARGIN
            right, bottom = every["intensity"].max() * _MARGIN, every["tflops"].min() / _MARGIN
            top = roof * (roof / bottom) ** 0.6  # above the roof stand the names of the lines
            x[panel], y[panel] = (
                Axis("FLOP a byte", "log", limits=(left, right)), Axis("TFLOP/s", "log", limits=(bottom, top))
            )  # fmt: skip
            for shape, rows in at.items():
                here = {"panel": panel, "shape": shape}
                points.append(rows.assign(**here, at=apart(rows, "intensity", "tflops", x[panel], y[panel])))
                rise = slope[shape]
                start = max(left, bottom / rise)
                ceilings = [(f"{level}, {rise:.1f} TB/s", [(start, start * rise), (roof / rise, roof)])]
                for name, rate in flat[shape].items():
                    height = rate / 1e12
                    ceilings.append((f"{height:.1f}: {name}", [(left, height), (right, height)]))
                for place, (name, ends) in enumerate(ceilings):
                    lines += [here | {"ceiling": name, "at": end, "tflops": height} for end, height in ends]
                    height = top * (bottom / top) ** (0.05 + 0.085 * place)
                    names.append(here | {"ceiling": name, "at": left, "tflops": height})
    hints = {name: name for name in ("rung", "shape")} | {"intensity": "FLOP a byte", "tflops": "TFLOP/s"}
    used = {level: (tables[first][level] / tables[first][f"{level}_peak"]).max() for level in ("l2", "dram")}
    return Specification(
        title=f"FP32 rungs take at most {percent(used['l2'])} of L2's bandwidth"
        f" and {percent(used['dram'])} of DRAM's at {first}",
        note="The rate of each rung and its FLOP for each byte from L2 (left) and from DRAM (right), as profiled. The"
        f" slanted line is the bandwidth {source}, the flat ones are FP32 ceilings. Marks that would cover each other"
        " are moved sideways a little.",
        layers=[
            Layer("line", pd.DataFrame(lines), "at", "tflops", group="ceiling", color="dimgray"),
            Layer("text", pd.DataFrame(names), "at", "tflops", text="ceiling", offset=(4, -3)),
            Layer("point", pd.concat(points), "at", "tflops", key=key, hints=hints),
        ],
        x=x,
        y=y,
        panels=Choice("panel", "Panel", list(x), next(iter(x))),
        choices=[Choice("shape", "shape", list(tables), first)],
        columns=2,
        height=2.6,
    )


def _points(table: pd.DataFrame, level: str) -> pd.DataFrame:
    return pd.DataFrame(
        {"rung": table.index, "intensity": table["flops"] / table[level.lower()], "tflops": table["flops"] / 1e12}
    )
