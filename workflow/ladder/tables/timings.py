"""Times, rates and speedups of each rung and shape, and their geometric means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.model.gpu import Gpu
from ladder.model.shape import Shape
from ladder.records.provenance import ORIGIN, origin
from ladder.tables.evidence import Evidence
from ladder.tables.statistics import RESAMPLES, bootstrap_medians, interval

WORKLOG_MINIMUM = 512  # the worklogs quote the geometric mean over square sizes from here up


def largest(shapes: Sequence[str]) -> str:
    """The square shape with most work among shapes as text; the first of all where none is square."""
    square = [shape for shape in shapes if "x" not in str(shape)]
    return str(max(square, key=int)) if square else next(iter(shapes), "")


def headline_shape(timings: pd.DataFrame, profiles: pd.DataFrame | None = None) -> str | None:
    """The shape that a run is summed up at: the largest of those that the most rungs were timed at, squares first.

    Takes rung and shape of the table of timings; None where it is empty. What explains times gives the table of
    profiles, too: only shapes that were profiled count then, unless none was.
    """
    if profiles is not None and (profiled := timings["shape"].isin(set(profiles["shape"]))).any():
        timings = timings[profiled]
    square = timings[~timings["shape"].astype(str).str.contains("x")]
    rungs = (timings if square.empty else square).groupby("shape")["rung"].nunique()
    return max(rungs.index, key=lambda shape: (rungs[shape], Shape.parse(str(shape)).flop)) if len(rungs) else None


def square_rows(timings: pd.DataFrame) -> pd.DataFrame:
    """The rows of square products, by rung and size; other shapes have no place on an axis of sizes."""
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])]
    return square.sort_values(["rung", "n"])


def timing_table(evidence: Sequence[Evidence], gpu: Gpu, baseline: str, first: str) -> pd.DataFrame:
    """One row a rung and shape: the summary of its samples, rates, and speedups measured side by side.

    Columns: rung, precision (the class that it claims), shape, m, n, k, samples, target_samples,
    time_ms_{mean,median,min,q1,q3,ci_low,ci_high}, noise_percent (standard deviation over mean), gflops,
    gflops_ci_low, gflops_ci_high, share_of_peak (of the FP32 units, for the class fp32 alone),
    speedup_over_{naive,cublas,default,before} each with _ci_low and _ci_high (cublas is the fastest baseline of the
    rung's class, default its first one, as cublasSgemm is of FP32, which publications compare with; NaN where the other
    was not measured beside it), baseline (the name of the fastest; empty where there is none), before,
    sm_clock_mhz (median), throttle_reasons, temperature_c, power_w, card, cublas_version, commit, measured_at.
    """
    rows = []
    for item in evidence:
        if not item.sound:
            continue
        for shape in item.timings:
            rows.append(_timing_row(item, shape, gpu, _references(item, shape, baseline, first)))
    return pd.DataFrame(rows, columns=TIMING_COLUMNS)


_RATIOS = ("naive", "cublas", "before")
_DEFAULT = "default"
_ENDS = ("", "_ci_low", "_ci_high")
TIMING_COLUMNS = [
    *("rung", "precision", "shape", "m", "n", "k", "samples", "target_samples"),
    *(f"time_ms_{statistic}" for statistic in ("mean", "median", "min", "q1", "q3", "ci_low", "ci_high")),
    *("noise_percent", "gflops", "gflops_ci_low", "gflops_ci_high", "share_of_peak"),
    *(f"speedup_over_{other}{end}" for other in (*_RATIOS, _DEFAULT) for end in _ENDS),
    *("baseline", "before", "sm_clock_mhz", "throttle_reasons", "temperature_c", "power_w", *ORIGIN, "measured_at"),
]


def _references(item: Evidence, shape: Shape, baseline: str, first: str) -> dict[str, str | None]:
    """What a rung is compared with at a shape, by _RATIOS; of its class's baselines the fastest that ran beside it."""
    beside = item.timings[shape].measurements
    libraries = item.rung.baselines or (baseline,)
    medians = {name: np.median(beside[name].times_s) for name in libraries if name in beside}
    fastest = min(medians, key=medians.__getitem__, default=None)
    return {"naive": first, "cublas": fastest, "before": item.rung.before, _DEFAULT: libraries[0]}


def _timing_row(item: Evidence, shape: Shape, gpu: Gpu, references: Mapping[str, str | None]) -> dict[str, Any]:
    timing = item.timings[shape]
    own = timing.own
    times = own.times_s * 1e3
    low, high = interval(bootstrap_medians(times, f"{item.rung.name} {shape}"))
    rate = shape.flop / 1e6  # GFLOP/s from milliseconds
    computes = item.rung.role != "floor"
    state = own.state["after"]
    row: dict[str, Any] = {
        "rung": item.rung.name,
        "precision": item.rung.precision,
        "shape": str(shape),
        **{"m": shape.m, "n": shape.n, "k": shape.k},
        "samples": len(times),
        "target_samples": own.target_samples,
        "time_ms_mean": times.mean(),
        "time_ms_median": np.median(times),
        "time_ms_min": times.min(),
        "time_ms_q1": np.percentile(times, 25),
        "time_ms_q3": np.percentile(times, 75),
        "time_ms_ci_low": low,
        "time_ms_ci_high": high,
        "noise_percent": 100 * times.std(ddof=1) / times.mean() if len(times) > 1 else np.nan,
        "baseline": (references["cublas"] if computes else None) or "",
        "before": item.rung.before,
        "sm_clock_mhz": np.median(own.clocks_hz) / 1e6,
        "throttle_reasons": "; ".join(state.get("throttle_reasons", [])),
        "temperature_c": state.get("temperature_c"),
        "power_w": state.get("power_w"),
        **origin([timing.where]),
        "measured_at": timing.where["measured_at"],
    }
    if computes:
        row |= {
            "gflops": rate / np.median(times),
            "gflops_ci_low": rate / high,
            "gflops_ci_high": rate / low,
            "share_of_peak": rate / np.median(times) / gpu.peak_gflops if item.rung.precision == "fp32" else np.nan,
        }
    for label, other in references.items() if computes else ():
        ratio = speedup(item, shape, other)
        if ratio is not None:
            low, high = interval(ratio[1])
            column = f"speedup_over_{label}"
            row |= {column: ratio[0], f"{column}_ci_low": low, f"{column}_ci_high": high}
    return row


def speedup(item: Evidence, shape: Shape, other: str | None) -> tuple[float, np.ndarray] | None:
    """The ratio of medians, other / rung, both measured in the rung's process, and its bootstrapped values.

    None where the other was not measured there.
    """
    timing = item.timings[shape]
    if other not in timing.measurements:
        return None
    own, reference = timing.own.times_s, timing.measurements[other].times_s
    key = f"{item.rung.name} {shape}"
    ratios = bootstrap_medians(reference, f"{key} {other}") / bootstrap_medians(own, key)
    if other == item.rung.name:
        ratios = np.ones(RESAMPLES)
    return float(np.median(reference) / np.median(own)), ratios


def geomean_table(evidence: Sequence[Evidence], baseline: str, first: str) -> pd.DataFrame:
    """One row a rung and reference: the geometric mean of its speedups over square sizes from 512 up.

    The sizes are the same for all rungs: those that the most rungs were timed at (`common_sizes`). A rung without one
    of them has no row.

    Columns: rung, precision, over (naive, cublas or before), baseline (the names of those it is over, joined by `; `),
    shapes (how many), sizes (apart by `;`), speedup, ci_low, ci_high, card, cublas_version, commit, measured_at (the
    latest).
    """
    rows = []
    timed = [item for item in evidence if item.sound and item.rung.role != "floor"]
    square = common_sizes([list(item.timings) for item in timed])
    sizes = ";".join(map(str, square))
    for item in timed:
        if not square or not set(square) <= set(item.timings):
            continue
        references = {shape: _references(item, shape, baseline, first) for shape in square}
        for label in _RATIOS:
            others = {shape: of[label] for shape, of in references.items()}
            found = {shape: ratio for shape, of in others.items() if (ratio := speedup(item, shape, of)) is not None}
            ratios, places = list(found.values()), [item.timings[shape].where for shape in found]
            if len(ratios) < len(square):
                continue
            low, high = interval(np.exp(np.mean([np.log(values) for _, values in ratios], axis=0)))
            mean = float(np.exp(np.mean([np.log(value) for value, _ in ratios])))
            latest = max(place["measured_at"] for place in places)
            names = "; ".join(dict.fromkeys(str(others[shape]) for shape in found))
            values = (item.rung.name, item.rung.precision, label, names, len(ratios), sizes, mean, low, high)
            rows.append((*values, *origin(places).values(), latest))
    columns = ["rung", "precision", "over", "baseline", "shapes", "sizes", "speedup", "ci_low", "ci_high"]
    columns += [*ORIGIN, "measured_at"]
    return pd.DataFrame(rows, columns=columns)


def common_sizes(timed: Sequence[Sequence[Shape]]) -> list[Shape]:
    """The square shapes from WORKLOG_MINIMUM up that the most rungs were timed at, in the order of their size.

    `timed` has the shapes of each rung. A size is kept where as many rungs have it as have the most frequent one.
    """
    counts = Counter(s for shapes in timed for s in shapes if s.m == s.n == s.k and s.n >= WORKLOG_MINIMUM)
    most = max(counts.values(), default=0)
    return sorted((shape for shape, count in counts.items() if count == most), key=lambda shape: shape.n)
