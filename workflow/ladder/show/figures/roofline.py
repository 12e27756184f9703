"""Rate against measured intensity towards L2 and towards DRAM, under the ceilings.

S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ladder.model.gpu import Gpu
from ladder.show.figures.specification import Axis, Choice, Key, Layer, Specification
from ladder.show.style import families, family_choice, in_panels, rung_key
from ladder.tables.timings import largest

_SECTOR = 32  # bytes
LOW, HIGH = 0.3, 3000.0  # FLOP a byte
LEVELS = {"L2": "o", "DRAM": "^"}


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
    gpu: Gpu,
    baseline: str,
    ladder: Sequence[str] = (),
) -> Specification:
    """Two points a rung, one for each level of memory, in panels of families; `rungs` are those of FP32 alone."""
    points, lines, names = [], [], []
    for shape in profiles["shape"].unique():
        table = rates(profiles, shape)
        table = table[table.index.isin(rungs["rung"])]
        if len(table):
            points += _points(table, shape)
            for found, into in zip(_ceilings(table, timings, gpu, shape), (lines, names), strict=True):
                into += found
    columns = ["shape", "intensity", "tflops"]
    dots = pd.DataFrame(points, columns=["rung", "level", *columns])
    texts = pd.DataFrame(names, columns=["ceiling", *columns])
    shapes = list(dots["shape"].unique())
    shown = rungs[rungs["rung"].isin(dots["rung"])]
    members = families(shown, baseline)
    first = largest(shapes)
    at = rates(profiles[profiles["rung"].isin(rungs["rung"])], first) if first else pd.DataFrame()
    used = {level: (at[level] / at[f"{level}_peak"]).max() for level in ("l2", "dram") if first}
    bottom, top = 0.5 * dots["tflops"].min(), 1.4 * texts["tflops"].max()
    hints = {name: name for name in ("rung", "shape", "level")} | {"intensity": "FLOP a byte", "tflops": "TFLOP/s"}
    key = rung_key(rungs, baseline, ladder)
    decades = {float(f"1e{power}"): f"{float(f'1e{power}'):g}" for power in range(-3, 4)}
    return Specification(
        title=f"FP32 rungs take at most {used['l2']:.0%} of L2's bandwidth and {used['dram']:.0%} of DRAM's at {first}"
        if first
        else "Roofline",
        note="Rate against the FLOP done for each byte that comes from L2 (circles) and from DRAM (triangles), as"
        " profiled. The slanted lines are those bandwidths, the flat ones FP32 ceilings."
        + " Grey: the rungs of the other panels." * (len(members) > 1),
        layers=[
            Layer("point", dots[columns], "intensity", "tflops", behind=True),
            Layer(
                "line", pd.DataFrame(lines, columns=["ceiling", *columns]), "intensity", "tflops", group="ceiling",
                color="dimgray",
            ),
            Layer("text", texts, "intensity", "tflops", text="ceiling", offset=(2, -11)),
            Layer(
                "point", in_panels(dots, members), "intensity", "tflops", key=key,
                symbols=Key("level", {}, LEVELS), hints=hints,
            ),
        ],
        x=Axis("FLOP a byte", "log", {x: text for x, text in decades.items() if LOW <= x <= HIGH}, (LOW, HIGH)),
        y=Axis(
            "TFLOP/s", "log", {y: text for y, text in decades.items() if shapes and bottom <= y <= top},
            (bottom, top) if shapes else (None, None),
        ),
        panels=family_choice(members),
        choices=[Choice("shape", "Shape", shapes, first)],
        empty="No profile is recorded.",
    )  # fmt: skip


def _points(table: pd.DataFrame, shape: str) -> list[dict[str, Any]]:
    return [
        {"rung": name, "shape": shape, "level": level, "intensity": row["flops"] / row[level.lower()],
         "tflops": row["flops"] / 1e12}
        for name, row in table.iterrows()
        for level in LEVELS
    ]  # fmt: skip


def _ceilings(table: pd.DataFrame, timings: pd.DataFrame, gpu: Gpu, shape: str) -> tuple[list[dict], list[dict]]:
    """The lines of the ceilings at a shape, and their names in places that are free."""
    flat = {label: value / 1e12 for label, value in compute_ceilings(timings, gpu, shape).items()}
    top = max(flat.values())
    lines, names = [], []
    for label, value in flat.items():
        lines += [{"shape": shape, "ceiling": label, "intensity": x, "tflops": value} for x in (LOW, HIGH)]
    for level in LEVELS:
        slope = table[f"{level.lower()}_peak"].median() / 1e12
        if slope > 0:
            name = f"{level} {slope:.1f} TB/s"
            ends = (LOW, top / slope)
            lines += [{"shape": shape, "ceiling": name, "intensity": x, "tflops": x * slope} for x in ends]
            names.append({"shape": shape, "ceiling": name, "intensity": LOW, "tflops": LOW * slope})
    # The flat ceilings lie too close for names in their places: these stand in a column above, the highest first.
    for place, (label, value) in enumerate(sorted(flat.items(), key=lambda pair: pair[1]), 1):
        text = f"{label}: {value:.1f} TFLOP/s"
        names.append({"shape": shape, "ceiling": text, "intensity": LOW, "tflops": 1.35 * top * 1.6**place})
    return lines, names
