"""Medians with their bootstrap intervals."""

from __future__ import annotations

from functools import cache

import numpy as np

from ladder.records import store

RESAMPLES = 1000
CONFIDENCE = 95  # percent


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
