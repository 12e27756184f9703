"""Whether what was measured can be: against what the GPU can do at most, its own clock, and the baseline around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ladder.model.shape import Shape
from ladder.records.timings import Measurement

FLOOR = 0.9  # of the time that reading A and B from memory takes; caches may hold what a flush has left
# How far a launch before which all SMs were held may be from the others, beyond what the baseline's is.
HELD_SHARE, HELD_US = 0.015, 5.0
COLD_SHARE = 0.7  # of a load's cycles before the baseline, before the rung; from the L2 cache it takes less than half
STEADY_SHARE, STEADY_US = 0.1, 3.0  # how much slower or faster the baseline may be after a rung than before it
FEWER = 0.5  # of the samples asked for, where the GPU was busy for less than this share of the budget
BUSY = 0.1


def implausible(
    measured: Sequence[Measurement],
    rung: str,
    steady: str | None,
    before: str,
    ceiling: Sequence[float],
    asked: Mapping[str, Any],
) -> str:
    """What cannot be in the measurements of a rung and its references, in one line; empty where all can.

    `steady` is the baseline that was also measured before the rung, under the name `before`. The ceiling is
    GFLOP/s of the rung's class, at which SM clock in MHz, and GB/s of the memory.
    """
    by = {(each.kernel, each.shape): each for each in measured}
    for (kernel, shape), own in by.items():
        if kernel != rung:
            continue
        baseline = by.get((steady, shape)) if steady else None
        first = by.get((before, shape)) if steady else None
        found = (
            beyond_the_gpu(own, ceiling)
            or _samples(own, asked)
            or (_held(own, baseline) or _cached(own, baseline) if baseline else "")
            or (_changed(steady, first, baseline) if first and baseline else "")
        )
        if found:
            return f"at {shape}: {found}"
    return ""


def floor_s(shape: Shape, bandwidth_gb_s: float) -> float:
    """The seconds that reading A and B once takes, in 4 bytes an element, where no cache holds them."""
    return 4 * (shape.m * shape.k + shape.k * shape.n) / (bandwidth_gb_s * 1e9)


def above_ceiling(shape: Shape, seconds: float, clock_mhz: float, ceiling: Sequence[float]) -> str:
    """What is impossible about the time of a launch, in words; empty where its class reaches that rate.

    The ceiling is GFLOP/s, at which SM clock in MHz; a GPU whose clock was higher may reach more.
    """
    rate, most = shape.flop / 1e9 / seconds, ceiling[0] * max(1.0, clock_mhz / ceiling[1])
    here = f"this class reaches at most {most / 1e3:.4g} here"
    return f"{rate / 1e3:.4g} TFLOP/s is impossible: {here}" if rate > most else ""


def beyond_the_gpu(own: Measurement, ceiling: Sequence[float]) -> str:
    """What is impossible about the fastest sample of a kernel, in words; empty where its class and memory allow it.

    The ceiling is that of `implausible`.
    """
    best, bandwidth_gb_s = float(own.times_s.min()), ceiling[2]
    if found := above_ceiling(own.shape, best, float(own.clocks_hz.max()) / 1e6, ceiling):
        return found
    floor = FLOOR * floor_s(own.shape, bandwidth_gb_s)
    if best < floor:
        return f"{best * 1e6:.4g} us is impossible: reading A and B from memory takes at least {floor * 1e6:.4g}"
    return ""


def _samples(own: Measurement, asked: Mapping[str, Any]) -> str:
    busy = float(own.times_s.sum())
    if len(own.times_s) < FEWER * own.target_samples and busy < BUSY * asked["budget_s"]:
        return (
            f"only {len(own.times_s)} of {own.target_samples} samples came, of {busy:.3g} s in all, within "
            f"{asked['budget_s']:g} s: its host code or its warm-up takes the time of the others"
        )
    return ""


def _held(own: Measurement, baseline: Measurement) -> str:
    """The difference between launches with all SMs held, by the GPU's clock, and the others, by NVBench's."""
    ours, theirs = (each.state.get("launches", {}).get("held_us", []) for each in (own, baseline))
    if not ours or not theirs:
        return ""
    usual = _median_us(own)
    held, theirs_held = (float(np.percentile(each, 25)) for each in (ours, theirs))  # an interrupt makes some longer
    # The clocks count from other points, which the baseline shows. It may also be at another of its own speeds while it
    # is held: a baseline that is faster then says nothing about the rung.
    beyond = held - usual - max(0.0, theirs_held - _median_us(baseline))
    if beyond > HELD_SHARE * usual + HELD_US:
        return (
            f"a launch takes {held:.4g} us by the GPU's clock if nothing can begin before it, and {usual:.4g} us "
            "otherwise: work is done outside of what is timed"
        )
    return ""


def _cached(own: Measurement, baseline: Measurement) -> str:
    """Which of A and B was in the L2 cache when the clock started, by the loads in front of some launches."""
    ours, theirs = (each.state.get("launches", {}).get("load_cycles", []) for each in (own, baseline))
    if not ours or not theirs:
        return ""
    for matrix, cycles, usual in zip("AB", np.median(ours, axis=0), np.median(theirs, axis=0), strict=True):
        if cycles < COLD_SHARE * usual:
            return (
                f"when the clock starts, {matrix} is in the L2 cache: a load from it takes {cycles:.4g} cycles, and "
                f"{usual:.4g} before {baseline.kernel}"
            )
    return ""


def _changed(steady: str | None, first: Measurement, last: Measurement) -> str:
    before, after = _median_us(first), _median_us(last)
    if abs(after - before) > STEADY_SHARE * before + STEADY_US:
        return f"{steady} takes {after:.4g} us after the rung, and took {before:.4g} us before it"
    return ""


def _median_us(each: Measurement) -> float:
    return float(np.median(each.times_s)) * 1e6
