"""Whether a change made rungs slower: a decision from ratios of two builds that were timed in turn.

One process times both builds of a rung in blocks, so that each ratio of a process has one clock, one card and one
driver. Processes are what is replicated: between them addresses, inputs, temperature and order change. First few
processes of every rung are looked through. Where a row might have changed, new processes alone decide about it. So only
the rows that are decided about count as multiple comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ladder.model.shape import Shape
from ladder.records.timings import Measurement, ShapeTiming

BLOCKS = "abbabaab"  # of a and b, within a process: a drift, linear or quadratic, is the same for both
SCREENED, CONFIRMED = 3, 12  # processes
SUSPECT = 0.4  # percent of change in the screened processes, from which a row is tested
NEGLIGIBLE = 0.25  # percent: a smaller change is none, for the same code at another address may differ so much
ERRORS = 0.01  # the chance that any row of a whole comparison is called different where nothing changed
NOTICED = 1.0  # percent: `same` says that a change of so much is excluded
REGRESSION_COLUMNS = [
    *("rung", "shape", "m", "n", "k", "verdict", "processes", "time_ms_before", "time_ms"),
    *("change_percent", "change_percent_low", "change_percent_high", "confidence_percent"),
]


def aliases(process: int) -> list[str]:
    """The blocks of a process in their order, `before.0`, `after.0`, ...; every second process begins with `after`."""
    names = {"a": "before", "b": "after"} if process % 2 == 0 else {"a": "after", "b": "before"}
    return [f"{names[letter]}.{BLOCKS[:place].count(letter)}" for place, letter in enumerate(BLOCKS)]


def observed(timings: Mapping[Shape, ShapeTiming], after: str = "after", before: str = "before") -> pd.DataFrame:
    """What one process says of a rung: a row a shape with shape, time_ms_before, time_ms and change.

    Times are medians over the medians of blocks; change is the mean over pairs of blocks of the logarithm of their
    ratio, after over before.
    """
    rows = []
    for shape, timing in timings.items():
        medians = {
            side: np.array([np.median(each.times_s) for name, each in _blocks(timing) if name == side])
            for side in (before, after)
        }
        change = float(np.mean(np.log(medians[after])) - np.mean(np.log(medians[before])))
        rows.append((str(shape), *(1e3 * float(np.median(medians[side])) for side in (before, after)), change))
    return pd.DataFrame(rows, columns=["shape", "time_ms_before", "time_ms", "change"])


def _blocks(timing: ShapeTiming) -> list[tuple[str, Measurement]]:
    return [(name.rpartition(".")[0], each) for name, each in timing.measurements.items()]


def suspects(screened: pd.DataFrame) -> list[tuple[str, str]]:
    """The rungs and shapes whose mean change is SUSPECT or more, of rows with rung, shape and change (a logarithm)."""
    means = 100 * screened.groupby(["rung", "shape"], sort=False)["change"].mean().abs()
    return list(means.index[means >= SUSPECT])


def decided(screened: pd.DataFrame, confirmed: pd.DataFrame) -> pd.DataFrame:
    """The verdict on each rung and shape, with REGRESSION_COLUMNS.

    Both tables have a row a process, rung and shape with the columns of `observed`; `confirmed` holds new processes of
    the suspects. `slower` and `faster` are rows whose interval there lies beyond NEGLIGIBLE; the intervals of suspects
    hold all together with probability 1 - ERRORS. Others are `same` where their interval is within NOTICED, else
    `undecided`.
    """
    tested = suspects(screened)
    rows = []
    for (rung, text), first in screened.groupby(["rung", "shape"], sort=False):
        suspect = (rung, text) in tested
        level = 1 - ERRORS / len(tested) if suspect else 0.95
        of = confirmed[(confirmed["rung"] == rung) & (confirmed["shape"] == text)] if suspect else first
        low, high = _interval(of["change"].to_numpy(), level)
        shape = Shape.parse(str(text))
        if suspect and (low > NEGLIGIBLE or high < -NEGLIGIBLE):
            verdict = "slower" if low > NEGLIGIBLE else "faster"
        else:
            verdict = "same" if low > -NOTICED and high < NOTICED else "undecided"
        rows.append(
            (
                *(rung, str(shape), shape.m, shape.n, shape.k, verdict, len(of)),
                *(of[column].median() for column in ("time_ms_before", "time_ms")),
                *(_percent(of["change"].mean()), low, high, 100 * level),
            )
        )
    return pd.DataFrame(rows, columns=REGRESSION_COLUMNS)


def _percent(change: float) -> float:
    return 100 * math.expm1(change)


def _interval(changes: Sequence[float] | np.ndarray, level: float) -> tuple[float, float]:
    """The interval of the mean of changes, in percent; without two processes it is all numbers."""
    if len(changes) < 2:
        return -math.inf, math.inf
    half = t_quantile((1 + level) / 2, len(changes) - 1) * np.std(changes, ddof=1) / math.sqrt(len(changes))
    mean = np.mean(changes)
    return _percent(mean - half), _percent(mean + half)


def t_quantile(probability: float, degrees: int) -> float:
    """The quantile, above one half, of Student's t distribution with so many degrees of freedom.

    Its distribution function is integrated over the angle whose tangent is t / sqrt(degrees).
    """
    angles = np.linspace(0, math.pi / 2, 20001)[:-1]
    density = np.cos(angles) ** (degrees - 1)
    area = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    whole = area[-1] + density[-1] / 4  # up to the right angle
    return math.sqrt(degrees) * math.tan(float(np.interp((2 * probability - 1) * whole, area, angles)))
