"""Medians with their bootstrap intervals, and means of few values with Student's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ladder.records import store

RESAMPLES = 1000
CONFIDENCE = 95  # percent
# Quantiles of Student's t for a two-sided interval of CONFIDENCE percent, from 1 degree of freedom up.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def bootstrap_medians(samples: np.ndarray, key: str) -> np.ndarray:
    """Medians of RESAMPLES samples drawn with replacement; the draws depend on the key alone.

    B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (percentile intervals).
    """
    return _bootstrapped(samples.astype(float).tobytes(), key)


@cache
def _bootstrapped(samples: bytes, key: str) -> np.ndarray:
    values = np.frombuffer(samples)
    random = np.random.default_rng(int(store.digest(key), 16))
    medians = np.median(random.choice(values, (RESAMPLES, len(values))), axis=1)
    medians.setflags(write=False)
    return medians


def interval(values: np.ndarray) -> tuple[float, float]:
    """The percentile interval that holds CONFIDENCE percent of the bootstrapped values."""
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of a few values and its CONFIDENCE percent interval by Student's t; NaN ends for fewer than two."""
    found = np.asarray(values, float)
    mean = float(found.mean()) if len(found) else np.nan
    if len(found) < 2:
        return mean, np.nan, np.nan
    half = _T[min(len(found) - 1, len(_T)) - 1] * float(found.std(ddof=1)) / np.sqrt(len(found))
    return mean, mean - half, mean + half


@dataclass(frozen=True)
class Interval:
    """A positive number and the ends between which it lies."""

    low: float
    value: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """A number without a spread."""
        return cls(value, value, value)

    @classmethod
    def of_text(cls, text: str) -> Interval:
        """A number as somebody wrote it: `4000-6000` is a range, `<5` lies between 0 and 5, `3.5` in 3.45 to 3.55."""
        if text.startswith("<"):
            return cls(0.0, float(text[1:]), float(text[1:]))
        if "-" in text.lstrip("-"):
            low, high = map(float, text.split("-"))
            return cls(low, (low + high) / 2, high)
        mantissa, _, exponent = text.partition("e")
        half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        return cls(float(text) - half, float(text), float(text) + half)

    def over(self, other: Interval) -> Interval:
        """The ratio of two, whose spreads have nothing to do with each other: relative halves add as squares."""
        value = self.value / other.value
        return Interval.around(value, float(np.hypot(self.relative, other.relative)))

    def scaled(self, factor: float) -> Interval:
        """Times a number without a spread."""
        return Interval(self.low * factor, self.value * factor, self.high * factor)

    @property
    def relative(self) -> float:
        """Half the spread over the value."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0

    @classmethod
    def around(cls, value: float, relative: float) -> Interval:
        """A value and its relative half spread."""
        return cls(value * (1 - relative), value, value * (1 + relative))

    @classmethod
    def geometric_mean(cls, values: Sequence[Interval]) -> Interval:
        """Of values whose spreads have nothing to do with each other."""
        mean = float(np.exp(np.mean([np.log(each.value) for each in values])))
        return cls.around(mean, float(np.sqrt(sum(each.relative**2 for each in values))) / len(values))
