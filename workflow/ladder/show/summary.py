"""What a run says at its end: a line for each rung, what failed, and where to look next."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.build.emulator import NEEDS_GPU
from ladder.model.precision import label, shared_in
from ladder.model.survey import EVERY_PRODUCT
from ladder.show.origin import changed_line, origin_groups, origin_line
from ladder.show.shipped import shipped_line
from ladder.tables.sustained import best_sustained
from ladder.tables.timings import headline_shape

FAILURES = ("does not compile", "unusable", "wrong", "dishonest", "timing failed")  # of Evidence.status


def why_run_fails(rungs: pd.DataFrame) -> str:
    """Which rungs failed or were not checked, in one line; empty where the run is a success."""
    named = {
        "failed": rungs.loc[rungs["status"].isin(FAILURES), "rung"],
        "not checked": rungs.loc[(rungs["status"] == "not checked") & (rungs["role"] == "rung"), "rung"],
    }
    return "; ".join(f"{len(of)} of {len(rungs)} rungs {how}: {', '.join(of)}" for how, of in named.items() if len(of))


def run_summary(
    rungs: pd.DataFrame,
    timings: pd.DataFrame,
    headline: str,
    results: Path | str,
    shipped: pd.DataFrame | None = None,
    sustained: pd.DataFrame | None = None,
    surveyed: pd.DataFrame | None = None,
) -> str:
    """The summary as text: each rung at the shape that stands for the run, the best sustained, the survey, what failed.

    `rungs`, `timings`, `shipped` and `sustained` are the tables of those names, `surveyed` is survey_classes, `results`
    is the folder of what the run derived.
    """
    lines = [headline, ""]
    timings = timings[~timings["rung"].isin(rungs.loc[rungs["role"] == "floor", "rung"])]
    shape = headline_shape(timings)
    if shape:
        at = timings[timings["shape"] == shape]
        beside = {} if shipped is None else dict(shipped.loc[shipped["shape"] == shape, _RATIO].to_numpy())
        lines += [*_table(rungs, at, shape, beside), "", *textwrap.wrap(origin_line(at), 100, break_on_hyphens=False)]
        for group in origin_groups(at):
            lines += textwrap.wrap(group, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        if shipped is not None and (baseline := shipped_line(shipped)):
            lines += ["", *textwrap.wrap(baseline, 100, break_on_hyphens=False)]
    else:
        lines += [f"{row.rung:<24} {row.status:<17} {row.emulation}".rstrip() for row in rungs.itertuples()]
    if shape and (rungs["role"] == "baseline").sum() > 1:
        lines += ["", f"of cuBLAS: {shared_in(rungs)}."]
    if sustained is not None and (best := _sustained(sustained)):
        lines += ["", *textwrap.wrap(best, 100, break_on_hyphens=False)]
    if surveyed is not None and (drawn := _surveyed(surveyed, rungs)):
        lines += ["", *textwrap.wrap(drawn, 100, break_on_hyphens=False)]
    if (rungs["emulation"] != "").any():
        lines += ["", "On a CPU: emulated, the same source passed the check there; needs a GPU, it cannot run there."]
    if restricted := [f"{row.rung} ({row.claims})" for row in rungs.itertuples() if row.claims]:
        lines += ["", f"Restricted, checked and timed only where they say so: {'; '.join(restricted)}"]
    for message, unchecked in rungs[rungs["status"] == NEEDS_GPU].groupby("message"):
        lines += ["", f"Needs a GPU {message}: {', '.join(unchecked['rung'])}"]
    failed = [row for row in rungs.itertuples() if row.message and row.status != NEEDS_GPU]
    if failed:
        lines += ["", "Failed or left out:", *(f"  {row.rung}: {row.status}: {row.message}" for row in failed)]
    unprofiled = [row for row in rungs.itertuples() if row.profile_message and not row.message]
    if unprofiled:
        lines += ["", f"Not profiled: {unprofiled[0].profile_message} ({len(unprofiled)} rungs)"]
    if changed := changed_line(rungs):
        lines += ["", changed]
    took = rungs[["check_wall_s", "time_wall_s", "time_gpu_s"]].dropna().sum()
    if took["time_gpu_s"]:
        lines += [
            "",
            f"Checks took {took['check_wall_s']:.0f} s, timings {took['time_wall_s']:.0f} s, "
            f"of which their samples {took['time_gpu_s']:.0f} s on the GPU",
        ]
    lines += ["", f"Tables: {results}/tables   Figures: {results}/figures   Report: {results}/report.html"]
    return "\n".join(lines) + "\n"


_RATIO = ["rung", "here_over_shipped"]


def _table(rungs: pd.DataFrame, at: pd.DataFrame, shape: str, beside: Mapping[str, float]) -> list[str]:
    told = (rungs["emulation"] != "").any()
    more = f"{'here/shipped':>14}" * bool(beside) + f"{'on a CPU':>14}" * bool(told)
    lines = [heading(f"rung at {shape}", more)]
    timed = {row.rung: row for row in at.itertuples()}
    for rung in rungs.itertuples():
        if rung.role == "floor":
            continue
        row = timed.get(rung.rung)
        name = label(rung.rung, rung.precision, rung.claims)
        text = f"{name:<24}{rung.status:>12}" if row is None else line(name, row)
        ratio = f"{beside[rung.rung]:.3f}" if rung.rung in beside else ""
        text = f"{text:<78}{ratio:>14}" if beside else text
        lines.append((f"{text:<78}{rung.emulation:>14}" if rung.emulation else text).rstrip())
    return lines


def _sustained(sustained: pd.DataFrame) -> str:
    """The fastest rung of each class in launches back to back, in one sentence; empty where none is recorded."""
    parts = [
        f"{label(row.rung, row.precision)} {_percent(row.share_of_cublas_sustained)} of cuBLAS"
        f" ({_percent(row.share_of_cublas_isolated)} isolated), {row.gflops_per_watt:.1f} GFLOP/s a watt"
        for row in best_sustained(sustained).itertuples()
    ]
    return f"Sustained at {headline_shape(sustained)}: {'; '.join(parts)}" if parts else ""


def _surveyed(classes: pd.DataFrame, rungs: pd.DataFrame) -> str:
    """What each rung reaches over all drawn products, in one sentence; empty where no survey is recorded."""
    own = classes[
        (classes["class"] == EVERY_PRODUCT) & classes["rung"].isin(rungs.loc[rungs["role"] == "rung", "rung"])
    ]
    parts = [
        f"{label(row.rung, row.precision)} {_percent(row.geometric_mean)} of cuBLAS (5th percentile"
        f" {_percent(row.percentile_5)}, slower on {row.slower_percent:.0f} %)"
        for row in own.itertuples()
    ]
    return f"Over {own['products'].max()} drawn products: {'; '.join(parts)}" if parts else ""


def heading(label: str, more: str = "") -> str:
    """The head of a table of lines, ruled."""
    head = f"{label:<24}{'time':>12}{'± 95 %':>9}{'GFLOP/s':>10}{'of cuBLAS':>11}{'over naive':>12}{more}"
    return f"{head}\n{'-' * len(head)}"


def line(label: str, row: Any) -> str:
    """A row of the table of timings as a line: median, half its 95 % interval, rate, share of cuBLAS, speedup."""
    spread = 50 * (row.time_ms_ci_high - row.time_ms_ci_low) / row.time_ms_median
    return (
        f"{label:<24}{_milliseconds(row.time_ms_median):>12}{spread:>7.2f} %{row.gflops:>10.0f}"
        f"{_percent(row.speedup_over_cublas):>11}{_times(row.speedup_over_naive):>12}"
    )


def _milliseconds(value: float) -> str:
    return f"{1000 * value:.1f} us" if value < 1 else f"{value:.3f} ms"


def _percent(value: float) -> str:
    return "-" if pd.isna(value) else f"{100 * value:.1f} %"


def _times(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.2f} x"
