"""Rates, shares of cuBLAS and energy of launches back to back, beside the rates of isolated launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ladder.model.shape import Shape
from ladder.records.provenance import ORIGIN, origin
from ladder.records.sustained import Part, Sustained, Window
from ladder.tables.evidence import Evidence
from ladder.tables.statistics import interval, mean_interval
from ladder.tables.timings import headline_shape, speedup

_ENDS = ("", "_ci_low", "_ci_high")
SUSTAINED_COLUMNS = [
    *("rung", "precision", "shape", "m", "n", "k", "seconds", "settled", "settled_after_s", "settled_s", "windows"),
    *("launches", "time_ms"),
    *(f"gflops_sustained{end}" for end in _ENDS),
    "gflops_isolated",
    "reference",
    *(f"share_of_cublas_{mode}{end}" for mode in ("sustained", "isolated") for end in _ENDS),
    "drift_percent",
    *(f"{name}{end}" for name in ("joules_per_product", "gflops_per_watt") for end in _ENDS),
    *("energy_of_cublas", "energy_from", "power_w", "sm_clock_mhz", "temperature_c", "throttle_reasons"),
    *(*ORIGIN, "measured_at"),
]


def sustained_table(evidence: Sequence[Evidence], baseline: str) -> pd.DataFrame:
    """One row a rung and shape that was launched back to back; rungs that are not sound are left out.

    All numbers but those of the shape and `seconds` are of the settled part, and those of energy of its windows whose
    energy is known. Columns: rung, precision, shape, m, n, k,
    seconds (of the rung's launches), settled (whether it settled; if not, the second half counts), settled_after_s,
    settled_s, windows (how many of the settled part, over which intervals are), launches, time_ms (of a launch, mean),
    gflops_sustained and its interval, gflops_isolated (by the median of the table of timings), reference (the baseline
    that was launched before and after the rung, or the rung itself), share_of_cublas_sustained (over the mean of the
    reference before and after) and share_of_cublas_isolated (over the same reference, isolated), each with its
    interval, drift_percent (of the reference's rate, from before to after), joules_per_product and gflops_per_watt with
    their intervals, energy_of_cublas (joules a product over the reference's), energy_from (`counter` or `power`),
    power_w (mean), sm_clock_mhz, temperature_c, throttle_reasons, card, cublas_version, commit, measured_at. What was
    not measured is NaN.
    """
    rows = [
        _row(item, shape, found, item.rung.baselines or (baseline,))
        for item in evidence
        if item.sound
        for shape, found in item.sustained.items()
    ]
    return pd.DataFrame(rows, columns=SUSTAINED_COLUMNS)


def _row(item: Evidence, shape: Shape, found: Sustained, baselines: Sequence[str]) -> dict[str, Any]:
    own, count = found.own.settled, len(found.own.settled)
    seconds = found.own.windows[-1].end_s
    settled_s = seconds - own[0].begin_s
    metered = _metered(found.own)
    joules = np.array([window.energy_j for window in metered])
    row: dict[str, Any] = {
        **{"rung": item.rung.name, "precision": item.rung.precision, "shape": str(shape)},
        **{"m": shape.m, "n": shape.n, "k": shape.k, "seconds": seconds, "windows": count},
        "settled": found.own.settled_from is not None,
        "settled_after_s": math.nan if found.own.settled_from is None else max(0.0, own[0].begin_s),
        "settled_s": settled_s,
        "launches": sum(window.launches for window in own),
        "time_ms": 1e3 * float(np.mean([window.seconds for window in own])),
        **_with_ends("gflops_sustained", mean_interval(_rates(found.own))),
        **_with_ends("joules_per_product", mean_interval(joules)),
        **_with_ends("gflops_per_watt", mean_interval(shape.flop / 1e9 / joules)),
        "energy_from": found.own.energy_from,
        "power_w": float(np.mean(joules / [window.seconds for window in metered])) if metered else math.nan,
        "sm_clock_mhz": float(np.mean([window.sm_clock_mhz for window in own])),
        "temperature_c": own[-1].temperature_c,
        "throttle_reasons": "; ".join(found.own.throttle_reasons),
        **origin([found.where]),
        "measured_at": found.where["measured_at"],
    }
    cublas = _reference(found, baselines)
    return row | _beside(found, cublas) | _isolated(item, shape, cublas) if cublas else row


def _reference(found: Sustained, baselines: Sequence[str]) -> str:
    """The fastest of the baselines that were launched; empty where none was."""
    launched = {**found.references, found.rung: [found.own]}
    rates = {name: np.mean(list(map(_rate, launched[name]))) for name in baselines if name in launched}
    return max(rates, key=rates.__getitem__, default="")


def _rate(part: Part) -> float:
    """Mean GFLOP/s once it has settled."""
    return float(np.mean(_rates(part)))


def _rates(part: Part) -> list[float]:
    """GFLOP/s of each settled window."""
    return [part.shape.flop / 1e9 / window.seconds for window in part.settled]


def _metered(part: Part) -> list[Window]:
    """The settled windows whose energy is known: those that NVML's samples cover."""
    return [window for window in part.settled if not math.isnan(window.energy_j)]


def _with_ends(name: str, values: tuple[float, float, float]) -> dict[str, float]:
    return {f"{name}{end}": value for end, value in zip(_ENDS, values, strict=True)}


def _beside(found: Sustained, cublas: str) -> dict[str, Any]:
    """The rung over its reference, at the mean of the reference's rate before and after.

    The interval is from the lower end of the one over the upper end of the other to the reverse: it holds the ratio at
    least as often as each interval holds its mean.
    """
    if found.rung == cublas:
        itself = _with_ends("share_of_cublas_sustained", (1.0, 1.0, 1.0))
        return {"reference": cublas, **itself, "energy_of_cublas": 1.0}
    parts = found.references[cublas]
    rates = [_rate(part) for part in parts]
    reference, (_, below, above) = np.mean(rates), mean_interval([rate for part in parts for rate in _rates(part)])
    own, low, high = mean_interval(_rates(found.own))
    energies = [mean_interval([window.energy_j for window in _metered(part)])[0] for part in parts]
    energy, *_ = mean_interval([window.energy_j for window in _metered(found.own)])
    return {
        "reference": cublas,
        **_with_ends("share_of_cublas_sustained", (own / reference, low / above, high / below)),
        "drift_percent": 100 * (rates[-1] / rates[0] - 1),
        "energy_of_cublas": energy / np.mean(energies),
    }


def _isolated(item: Evidence, shape: Shape, cublas: str) -> Mapping[str, float]:
    """What the table of timings has of the rung at a shape; nothing where it was not timed there."""
    if shape not in item.timings:
        return {}
    found = {"gflops_isolated": shape.flop / 1e9 / float(np.median(item.timings[shape].own.times_s))}
    if ratio := speedup(item, shape, cublas):
        found |= _with_ends("share_of_cublas_isolated", (ratio[0], *interval(ratio[1])))
    return found


def best_sustained(sustained: pd.DataFrame) -> pd.DataFrame:
    """Of each class of arithmetic the rung with the highest sustained rate beside its reference, at the headline shape.

    `sustained` is the table of that name; libraries are left out.
    """
    at = sustained[sustained["shape"] == headline_shape(sustained)]
    at = at[at["drift_percent"].notna()]
    return at.loc[at.groupby("precision", sort=False)["gflops_sustained"].idxmax()]
