"""The figures that say why: roofline, issue slots, instruction mix, occupancy limits, prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ladder.build.occupancy import LIMITS
from ladder.build.sass import CLASSES
from ladder.model.gpu import Gpu
from ladder.model.precision import labelled
from ladder.show.style import DPI, FIXED, PALETTE, PLAIN, TEXT_SIZES, spread, styles
from ladder.tables.timings import headline_shape, largest

WIDTH = 8.0  # inches
SECTOR = 32  # bytes
FIGURES = ("roofline", "issue_slots", "instruction_mix", "occupancy_limits", "prediction")
TENSOR = "HMMA, HGMMA"  # as one part of an inner loop: what tensor cores multiply with
# Uses of issue slots that get a colour of their own; the rest is `other waits`.
_USES = {
    "FFMA": ("FFMA",),
    "tensor cores": ("tensor cores",),
    "other instructions": ("other instructions",),
    "MIO: throttle, short scoreboard": ("mio_throttle", "short_scoreboard"),
    "global: LG, long scoreboard": ("lg_throttle", "long_scoreboard"),
    "barrier": ("barrier", "membar"),
    "dispatch, math pipe": ("dispatch_stall", "math_pipe_throttle"),
    "fixed wait, no instruction": ("wait", "no_instruction", "branch_resolving", "imc_miss"),
    "results of tensor cores": ("gmma", "warpgroup_arrive"),
}


def _canvas(height: float, title: str, caption: str) -> tuple[Figure, Axes]:
    sns.set_theme(style="whitegrid", rc={**FIXED, **TEXT_SIZES})
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontweight="bold")
    figure.text(0.01, 0.008, caption, fontsize=7, color="dimgray")
    return figure, axes


def _margins(figure: Figure, right: float, bottom: float = 0.75) -> None:
    """Room at the right as a share of the width, and below in inches."""
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.24, right=right, top=1 - 0.4 / height, bottom=bottom / height)


_COLORS = {
    "FFMA": "#117733",
    **dict.fromkeys((TENSOR, "tensor cores"), "#332288"),
    **dict.fromkeys(("integer", "other instructions"), "#bbbbbb"),
}


def stack_colors(rows: pd.DataFrame) -> dict[str, str]:
    """Colours of those columns of stacked bars that occur: _COLORS, and the palette's others in order for the rest."""
    rest = (color for color in PALETTE if color not in _COLORS.values())
    colors = {part: _COLORS.get(part) or next(rest) for part in rows.columns}
    return {part: color for part, color in colors.items() if rows.empty or rows[part].max() > 0}


def _bars(rows: pd.DataFrame, title: str, label: str, caption: str, empty: str) -> Figure:
    """Stacked horizontal bars, one a row of `rows` (its index the rung) from those of its columns that occur."""
    figure, axes = _canvas(1.5 + 0.28 * max(4, len(rows)), title, caption)
    left = np.zeros(len(rows))
    for part, color in stack_colors(rows).items():
        values = rows[part].to_numpy(float)
        axes.barh(range(len(rows)), values, left=left, color=color, label=part, edgecolor="white", linewidth=0.4)
        left += values
    axes.set_yticks(range(len(rows)), list(rows.index))
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    if rows.empty:
        axes.text(0.5, 0.5, empty, transform=axes.transAxes, ha="center", color="dimgray")
    else:
        axes.legend(ncols=1, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _margins(figure, right=0.66)
    sns.despine(fig=figure, left=True)
    return figure


def slot_shares(slots: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Percent of the issue slots of each rung at a shape by the uses of _USES and `other waits`; `slots` the table."""
    at = slots[slots["shape"] == shape]
    wide = at.pivot(index="rung", columns="use", values="percent").reindex(list(at["rung"].unique()))
    rows = pd.DataFrame(index=wide.index)
    for name, uses in _USES.items():
        rows[name] = wide[[use for use in uses if use in wide]].sum(axis=1)
    rows["other waits"] = (100 - rows.sum(axis=1)).clip(lower=0)
    return rows


def loop_shares(instructions: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Percent of the instructions of the inner loop that each rung runs at a shape by class, FFMA first.

    `instructions` is the table of that name.
    """
    loops = instructions[instructions["part"] == "inner loop"]
    here = [shape in str(shapes).split() for shapes in loops["launched_at"]]
    loops = loops.loc[np.array(here, dtype=bool)].set_index("rung")
    loops[TENSOR] = loops["HMMA"] + loops["HGMMA"]
    first = ["FFMA", TENSOR, "integer"]
    parts = first + [part for part in (*CLASSES, "other") if part not in (*first, "HMMA", "HGMMA")]
    return loops[parts].div(loops["instructions"], axis=0) * 100


def issue_slots(slots: pd.DataFrame, caption: str) -> Figure:
    """Stacked bars: what the issue slots of each rung hold, at the largest profiled square shape; `slots` the table."""
    shape = largest(list(slots["shape"].unique()))
    rows = slot_shares(slots, shape)
    title = f"Where the issue slots go at {shape}" if shape else "Where the issue slots go"
    label = "% of issue slots (tensor cores: of cycles); empty ones by what warps waited for"
    return _bars(rows, title, label, caption, "No profile is recorded.")


def shapes_of(instructions: pd.DataFrame) -> list[str]:
    """The shapes that the table of instructions names, each once, in its order."""
    return list(dict.fromkeys(shape for shapes in instructions["launched_at"] for shape in str(shapes).split()))


def instruction_mix(instructions: pd.DataFrame, caption: str) -> Figure:
    """Stacked bars: the instructions of each rung's inner loop as compiled, of the kernel of the largest square shape.

    `instructions` is the table of that name.
    """
    shape = largest(shapes_of(instructions))
    rows = loop_shares(instructions, shape)
    best = rows["FFMA"].max() if len(rows) else math.nan
    title = f"FFMAs are at most {best:.0f} % of an inner loop" if len(rows) else "Instructions of the inner loops"
    return _bars(
        rows,
        title,
        "% of the instructions of the inner loop" + (f" at {shape}" if shape else ""),
        caption,
        "No rung has an inner loop.",
    )


def warp_limits(resources: pd.DataFrame, shape: str) -> pd.DataFrame:
    """Warps that an SM holds of each rung at a shape, by rung: `held` at once, and what each of LIMITS alone allows.

    They are those of the kernel that computes the product. Of a rung that takes no shared memory this is no limit, and
    not a number. `resources` is the table of that name.
    """
    main = resources["multiplies"].astype(bool) & resources["blocks_per_sm"].notna()
    at = resources[main & (resources["shape"] == shape)].set_index("rung")
    warps = np.ceil(at["block_threads"].astype(float) / 32)
    found = pd.DataFrame({"held": at["blocks_per_sm"] * warps})
    for limit in LIMITS:
        found[limit] = at[f"block_limit_{limit.replace(' ', '_')}"] * warps
    takes = at["static_shared_bytes"].fillna(0) + at["dynamic_shared_bytes"].fillna(0)
    found["shared memory"] = found["shared memory"].where(takes > 0)
    return found.astype(float)


def occupancy_limits(resources: pd.DataFrame, caption: str) -> Figure:
    """Warps that an SM holds of each rung, and what each resource alone would let it hold; `resources` is the table."""
    shape = largest(list(resources["shape"].unique()))
    at = warp_limits(resources, shape)
    title = "Warps that an SM may hold, by what limits them" + (f", at {shape}" if shape else "")
    figure, axes = _canvas(1.5 + 0.28 * max(4, len(at)), title, caption)
    height = range(len(at))
    axes.barh(height, at["held"], color="#cccccc", label="held at once")
    for limit, marker, color, size in zip(LIMITS, "os^D", PALETTE, (11, 8, 5.5, 3.5), strict=False):
        axes.plot(at[limit], height, marker, color=color, label=f"limit by {limit}", markersize=size)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(1, 1.25 * max([64, *at.max().dropna()]))
    axes.set_yticks(height, list(at.index))
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("warps an SM")
    axes.grid(axis="y", visible=False)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _margins(figure, right=0.72)
    sns.despine(fig=figure, left=True)
    return figure


def prediction(paper: pd.DataFrame, caption: str) -> Figure:
    """Predicted and measured rates by rung at the shape of most measurements, or the largest; `paper` is the table.

    Rungs that it has no ceiling for are left out.
    """
    paper = paper[paper["predicted_gflops"].notna()]
    shape = headline_shape(paper[paper["measured_gflops"].notna()]) or largest(list(paper["shape"].unique()))
    at = paper[paper["shape"] == shape]
    title = f"Measured against the lowest ceiling on paper at {shape}"
    figure, axes = _canvas(1.7 + 0.28 * max(4, len(at)), title, caption)
    height = range(len(at))
    axes.barh(height, at["predicted_gflops"] / 1e3, color="#e4e4e4", edgecolor="dimgray", label="lowest ceiling")
    axes.barh(height, at["measured_gflops"] / 1e3, height=0.45, color=PALETTE[0], label="measured")
    for place, row in enumerate(at.itertuples()):
        share = "" if math.isnan(row.share_of_prediction) else f", {row.share_of_prediction:.0%}"
        end = np.nanmax([row.predicted_gflops, row.measured_gflops]) / 1e3
        text = f"{row.bound_by}{_MARKS[row.wavefronts_from] if row.bound_by == 'load pipe' else ''}{share}"
        axes.text(end + 0.5, place, text, va="center", fontsize=8, color="dimgray", bbox=PLAIN)
    axes.set_yticks(height, list(at["rung"]))
    axes.margins(y=0.01)
    axes.invert_yaxis()
    label = "TFLOP/s; beside the bars what the ceiling is, and the share of it that is measured"
    least = "\n* passes of the load pipe as the code needs at least: there is no profile"
    starred = (at["bound_by"] == "load pipe") & (at["wavefronts_from"] == "code")
    axes.set_xlabel(label + (least if starred.any() else ""), fontsize=9)
    axes.grid(axis="y", visible=False)
    if len(at):
        axes.set_xlim(0, 1.3 * at["predicted_gflops"].max() / 1e3)
        axes.legend(fontsize=8, framealpha=1, edgecolor="white", loc="upper right")
    _margins(figure, right=0.97, bottom=0.95)
    sns.despine(fig=figure, left=True)
    return figure


_MARKS = {"profile": "", "code": "*"}


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
            "l2": SECTOR * (value["l2_sectors"] + value["l2_sectors_written"]) / seconds,
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


def roofline(
    profiles: pd.DataFrame,
    timings: pd.DataFrame,
    rungs: pd.DataFrame,
    gpu: Gpu,
    baseline: str,
    caption: str,
    ladder: Sequence[str] = (),
) -> Figure:
    """Rate against measured intensity, towards L2 and towards DRAM, under the ceilings; a dot a rung and level.

    S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009.
    """
    shape = largest(list(profiles["shape"].unique()))
    figure, axes = _canvas(5.4, f"Roofline at {shape}: L2 filled, DRAM hollow", caption)
    table = rates(profiles, shape) if shape else pd.DataFrame()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP a byte")
    axes.set_ylabel("TFLOP/s")
    if table.empty:
        axes.text(0.5, 0.5, "No profile is recorded.", transform=axes.transAxes, ha="center", color="dimgray")
        return figure
    look = styles(rungs, baseline, ladder)
    ceilings = compute_ceilings(timings, gpu, shape)
    low, high = 0.3, 3000.0
    top = max(ceilings.values()) / 1e12
    for place, (label, value) in enumerate(sorted(ceilings.items(), key=lambda pair: pair[1])):
        axes.axhline(value / 1e12, color="dimgray", linewidth=0.9, linestyle=("-", "--", ":")[place % 3])
        text = f"{label}: {value / 1e12:.1f}"
        axes.text(low * 1.1, top * 1.12 * 1.22**place, text, fontsize=7.5, color="dimgray", va="bottom",
                  bbox=PLAIN)  # fmt: skip
    for label, column, color, side in (("L2", "l2_peak", "#44aa99", "right"), ("DRAM", "dram_peak", "#cc6677", "left")):
        peak = table[column].median()
        if not peak > 0:
            continue
        line = np.array([low, top * 1e12 / peak])
        axes.plot(line, line * peak / 1e12, color=color, linewidth=1.2)
        offset = (-9, 3) if side == "right" else (5, -5)
        at = 2.0 if side == "right" else 1.0
        text, place = f"{label} {peak / 1e12:.1f} TB/s", (at, at * peak / 1e12)
        axes.annotate(text, place, xytext=offset, textcoords="offset points", ha=side, fontsize=8, color=color)
    ends = []
    for name, row in table.iterrows():
        style = look.get(name, {"color": "black", "marker": "o"})
        marker = "X" if style["marker"] == "None" else style["marker"]
        for level, face in (("l2", style["color"]), ("dram", "white")):
            axes.plot(row["flops"] / row[level], row["flops"] / 1e12, marker, color=style["color"],
                      markerfacecolor=face, markersize=6)  # fmt: skip
        ends.append((row["flops"] / 1e12, name, style["color"], marker))
    axes.set_xlim(low, high)
    axes.set_ylim(bottom=min(0.3, table["flops"].min() / 2e12), top=top * 2.4)
    to_axes = axes.transAxes.inverted()
    ends.sort(key=lambda end: (end[0], end[1]))
    heights = spread([to_axes.transform(axes.transData.transform((1, end[0])))[1] for end in ends], 0.042)
    for (_, name, color, marker), y in zip(ends, heights, strict=True):
        axes.plot([1.03], [y], marker, color=color, transform=axes.transAxes, clip_on=False, markersize=5)
        axes.text(1.05, y, name, transform=axes.transAxes, va="center", fontsize=8, color="black")
    axes.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    figure.subplots_adjust(left=0.09, right=0.74, top=0.92, bottom=0.14)
    sns.despine(fig=figure)
    return figure


def _of(rungs: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of these rungs, each rung by its label."""
    return labelled(table[table["rung"].isin(rungs["rung"])], rungs)


def all_figures(
    tables: Mapping[str, pd.DataFrame], gpu: Gpu, baseline: str, caption: str, ladder: Sequence[str]
) -> dict[str, Figure]:
    """Every figure of FIGURES by its name, from the tables by theirs."""
    with mpl.rc_context({**mpl.rcParamsDefault, **FIXED}):
        rungs = tables["rungs"][tables["rungs"]["role"] != "floor"]
        fp32 = rungs[rungs["precision"] == "fp32"]
        return {
            "roofline": roofline(
                _of(fp32, tables["profiles"]), tables["timings"], fp32, gpu, baseline, caption, ladder
            ),
            "issue_slots": issue_slots(_of(rungs, tables["slots"]), caption),
            "instruction_mix": instruction_mix(_of(rungs, tables["instructions"]), caption),
            "occupancy_limits": occupancy_limits(_of(rungs, tables["resources"]), caption),
            "prediction": prediction(tables["paper"], caption),
        }
