"""Rate, share of cuBLAS and speedup over the naive kernel, over the size of square products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ladder.model.precision import labelled, shared_in
from ladder.show.figures.specification import Axis, Layer, Specification, size_axis
from ladder.show.numbers import percent
from ladder.show.style import behind_panels, families, family_choice, in_panels, rung_key
from ladder.tables.timings import headline_shape, square_rows

# unit -> (column of the table of timings, factor)
BY_SIZE_METRICS = {
    "TFLOP/s": ("gflops", 1e-3),
    "% of cuBLAS": ("speedup_over_cublas", 100),
    "times naive": ("speedup_over_naive", 1),
}
HINTS = {name: name for name in ("rung", "shape", "metric", "value")}
HINTS |= {"low": "95 % from", "high": "95 % to", "time_ms_median": "median, ms"}
HINTS |= {"samples": "samples", "noise_percent": "noise, %"}
IRREGULAR = 1.5  # times the rates of naive at both neighbouring sizes: a speedup over naive says little there


def size_rows(timings: pd.DataFrame, rungs: pd.DataFrame) -> pd.DataFrame:
    """One row a rung, shape and metric: the columns of HINTS, and m, n and k; the floors are left out.

    `timings` and `rungs` are the tables of those names.
    """
    kept = timings[timings["rung"].isin(rungs.loc[rungs["role"] != "floor", "rung"])]
    parts = []
    for metric, (column, factor) in BY_SIZE_METRICS.items():
        ends = {"value": column, "low": f"{column}_ci_low", "high": f"{column}_ci_high"}
        part = kept[["rung", "shape", "m", "n", "k", "time_ms_median", "samples", "noise_percent"]].assign(
            metric=metric
        )
        parts.append(part.assign(**{name: factor * kept[source] for name, source in ends.items()}))
    return pd.concat(parts, ignore_index=True).dropna(subset=["value"])


def best_rung(timings: pd.DataFrame) -> dict[str, Any] | None:
    """The row of the fastest rung at the square size that stands for the run; None without any.

    `timings` has rungs alone, no library. Its speedup over naive is NaN where naive was not timed beside it.
    """
    rows = square_rows(timings).dropna(subset=["gflops", "speedup_over_cublas"])
    rows = rows[rows["shape"] == headline_shape(rows)]
    rows = rows[rows["speedup_over_naive"] != 1]  # the naive kernel is no news
    return None if rows.empty else rows.loc[rows["gflops"].idxmax()].to_dict()


def irregular(timings: pd.DataFrame) -> dict[int, float]:
    """The square sizes at which naive is IRREGULAR times as fast as at the sizes beside them, and how many times.

    Where naive was not timed, there are none. The number is of the neighbour at which naive is faster.
    """
    first = square_rows(timings)
    first = first[first["speedup_over_naive"] == 1].set_index("n")["gflops"]
    times = first / pd.concat([first.shift(1), first.shift(-1)], axis=1).max(axis=1, skipna=False)
    return {int(n): float(value) for n, value in times.items() if value > IRREGULAR}


def share_note(rungs: pd.DataFrame) -> str:
    """Which cuBLAS a share is of. `rungs` is the table of that name."""
    return f"% of cuBLAS is {shared_in(rungs)}, timed in the same process."


def figures(
    timings: pd.DataFrame, rungs: pd.DataFrame, baseline: str, peak_gflops: float, ladder: Sequence[str] = ()
) -> dict[str, Specification]:
    """A figure for each metric, by its file's name: a panel a family, a line a rung, its interval a band.

    The rungs of the other families stand grey behind.
    """
    rungs = rungs[rungs["role"] != "floor"]
    alike = rungs.loc[(rungs["precision"] == "fp32") & (rungs["role"] == "rung"), "rung"]
    best = best_rung(timings[timings["rung"].isin(alike)])
    left_out = irregular(timings)
    timings, rungs = labelled(timings, rungs), labelled(rungs, rungs)
    data = size_rows(timings, rungs)
    data = data[(data["m"] == data["n"]) & (data["n"] == data["k"])].sort_values(["rung", "n"])
    notes = {
        "TFLOP/s": f"The dotted line is the FP32 peak, {peak_gflops / 1e3:.1f} TFLOP/s.",
        "% of cuBLAS": share_note(rungs),
        "times naive": "Speedups are over naive, timed in the same process.",
    }
    if left_out:
        sizes = " and ".join(f"{n} ({value:.1f} times)" for n, value in left_out.items())
        notes["times naive"] += f" Left out: {sizes}, where naive itself is so much faster than at the sizes beside it."
    titles = _titles(best)
    members = families(rungs[rungs["rung"].isin(data["rung"])], baseline)
    first = next((title for title, names in members.items() if best and best["rung"] in names), next(iter(members)))
    found = {}
    for name, metric in zip(("gflops_by_size", "share_of_cublas", "speedup_over_naive"), BY_SIZE_METRICS, strict=True):
        rows = data[data["metric"] == metric]
        if metric == "times naive":
            rows = rows[~rows["n"].isin(list(left_out))]
        log = metric != "% of cuBLAS"
        peak = [{"value": peak_gflops / 1e3, "text": "FP32 peak"}] if metric == "TFLOP/s" else []
        found[name] = Specification(
            title=titles[metric],
            note=notes[metric] + (" Grey: the rungs of the other panels." if len(members) > 1 else ""),
            layers=[
                Layer("rule", pd.DataFrame(peak, columns=["value", "text"]), y="value", text="text"),
                Layer("line", behind_panels(rows, members), "n", "value", group="other", behind=True, printed=True),
                Layer(
                    "line", in_panels(rows, members), "n", "value", key=rung_key(rungs, baseline, ladder), low="low",
                    high="high", hints=HINTS,
                ),
            ],
            x=size_axis(rows["n"]),
            y=Axis(metric, "log" if log else "linear"),
            panels=replace(family_choice(members), first=first),
        )  # fmt: skip
    return found


def _titles(best: Mapping[str, Any] | None) -> dict[str, str]:
    titles = ["Rate by size", "Share of cuBLAS by size", "Speedup over naive by size"]
    if best:
        rung, at = best["rung"], f"at {best['n']}"
        titles[0] = f"{rung} does {best['gflops'] / 1e3:.1f} TFLOP/s {at}, {percent(best['share_of_peak'])} of the peak"
        titles[1] = f"{rung} comes to {percent(best['speedup_over_cublas'])} of cuBLAS {at}"
        if best["speedup_over_naive"] > 0:
            titles[2] = f"{rung} is {best['speedup_over_naive']:.1f} times as fast as naive {at}"
    return dict(zip(BY_SIZE_METRICS, titles, strict=True))
