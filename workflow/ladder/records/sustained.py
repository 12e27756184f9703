"""Sustained records: batches of launches back to back for seconds, and what NVML said of the GPU meanwhile.

A record has parts: for each shape the rung once, its references before and after it. All times of a part are in seconds
from when its first launch was queued.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ladder.model.shape import Shape
from ladder.records import digests, store
from ladder.records.provenance import made_on, settings_digest

WINDOW_S = 0.5  # NVML counts energy in steps of up to 0.1 s
LEAST_WINDOWS = 2  # of a settled part
COUNTER, POWER = "counter", "power"  # what energy is read from
SUSTAINING = ("seconds", "most_seconds", "settle_percent")  # the settings that the process is given


@dataclass(frozen=True)
class Batch:
    """Launches that were queued together: how many, and from when to when the GPU ran them."""

    begin_s: float
    end_s: float
    launches: int
    renewed: bool = False  # one launch, on operands that have just been drawn


@dataclass(frozen=True)
class Window:
    """Successive batches that took WINDOW_S or more: the seconds and joules of a launch, and the state of the GPU.

    `energy_j` is that of the board in all of the window, over its launches; what NVML cannot tell is NaN.
    """

    begin_s: float
    end_s: float
    launches: int
    seconds: float
    energy_j: float
    sm_clock_mhz: float
    temperature_c: float


@dataclass(frozen=True)
class Part:
    """One kernel, launched back to back at one shape."""

    kernel: str
    shape: Shape
    windows: tuple[Window, ...]
    settled_from: int | None  # the window from which on nothing changed; None where it never settled
    energy_from: str
    throttle_reasons: tuple[str, ...]  # all that NVML named once it had settled

    @property
    def settled(self) -> tuple[Window, ...]:
        """The windows that count: the settled ones; where it never settled, the second half."""
        first = len(self.windows) // 2 if self.settled_from is None else self.settled_from
        return self.windows[first:]


@dataclass(frozen=True)
class Sustained:
    """What was measured in one process at one shape: the rung, and each reference before and after it."""

    rung: str
    own: Part
    references: Mapping[str, Sequence[Part]]
    where: Mapping[str, Any]


def settled_from(windows: Sequence[Window], percent: float) -> int | None:
    """The first window from which on the time of a launch and the SM clock stay within so many percent; None if none.

    At least LEAST_WINDOWS have to stay so. A clock that NVML cannot tell is not looked at.
    """
    for first in range(len(windows) - LEAST_WINDOWS + 1):
        rest = windows[first:]
        if all(_spread(values) <= percent / 100 for values in ([w.seconds for w in rest], _known(rest))):
            return first
    return None


def _known(windows: Sequence[Window]) -> list[float]:
    return [window.sm_clock_mhz for window in windows if not math.isnan(window.sm_clock_mhz)]


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values) - 1 if values else 0.0


def windows(batches: Sequence[Batch], samples: Mapping[str, Sequence[Any]]) -> list[Window]:
    """Batches joined to windows of WINDOW_S or more; what is left over at the end belongs to the last.

    `samples` are as in a record: `at_s`, and lists as long of energy_j, power_w, sm_clock_mhz and temperature_c.
    """
    groups: list[list[Batch]] = [[]]
    for batch in batches:
        if groups[-1] and groups[-1][-1].end_s - groups[-1][0].begin_s >= WINDOW_S:
            groups.append([])
        groups[-1].append(batch)
    if len(groups) > 1 and groups[-1][-1].end_s - groups[-1][0].begin_s < WINDOW_S:
        last = groups.pop()
        groups[-1] += last
    return [_window(group, samples) for group in groups if group]


def _window(batches: Sequence[Batch], samples: Mapping[str, Sequence[Any]]) -> Window:
    begin, end = batches[0].begin_s, batches[-1].end_s
    launches = sum(batch.launches for batch in batches)
    return Window(
        begin_s=begin,
        end_s=end,
        launches=launches,
        seconds=sum(batch.end_s - batch.begin_s for batch in batches) / launches,
        energy_j=joules(samples, begin, end) / launches,
        sm_clock_mhz=_mean(samples, "sm_clock_mhz", begin, end),
        temperature_c=_mean(samples, "temperature_c", begin, end),
    )


def energy_source(samples: Mapping[str, Sequence[Any]]) -> str:
    """COUNTER where NVML has a counter of energy, else POWER."""
    return COUNTER if "energy_j" in samples else POWER


def joules(samples: Mapping[str, Sequence[Any]], begin_s: float, end_s: float) -> float:
    """The joules that the board took from begin to end: the counter's difference, or the integral of its power.

    The counter is read when it has just changed; between two readings it is taken to rise evenly. NaN where NVML tells
    neither, or where no reading is from before the begin or from after the end.
    """
    at = np.array(samples["at_s"], float)
    if energy_source(samples) == COUNTER:
        total = np.array(samples["energy_j"], float)
    elif "power_w" in samples and len(at):
        power = np.array(samples["power_w"], float)
        total = np.concatenate([[0.0], np.cumsum(np.diff(at) * (power[1:] + power[:-1]) / 2)])
    else:
        return math.nan
    if not len(at) or at[0] > begin_s or at[-1] < end_s:
        return math.nan
    first, last = np.interp([begin_s, end_s], at, total)
    return float(last - first)


def _mean(samples: Mapping[str, Sequence[Any]], key: str, begin_s: float, end_s: float) -> float:
    pairs = zip(samples["at_s"], samples.get(key, ()), strict=False)
    values = [value for at, value in pairs if begin_s <= at <= end_s]
    return float(np.mean(values)) if values else math.nan


def held(path: Path, builds: Mapping[str, str], shapes: Sequence[str], where: Mapping[str, Any]) -> bool:
    """Whether a record has these shapes, measured of these builds with such settings on this device and software.

    `where` is the environment of a run that is to come; `made_on` says what of it has to agree.
    """
    if not path.exists():
        return False
    record = store.read_record(path)
    if record["status"] == "failed" or (record["shapes"], record["builds"]) != (list(shapes), dict(builds)):
        return False
    found, wanted = ((made_on(each), each["config_digest"]) for each in (record["where"], where))
    return found == wanted


def sustained_digest(settings: Mapping[str, Any]) -> str:
    """What identifies the settings that a measurement depends on, beside its shapes and references."""
    return settings_digest({key: settings[key] for key in SUSTAINING})


def read_sustained(path: Path, build_digest: str | None = None) -> dict[Shape, Sustained]:
    """What a record holds by shape, of one build or of any; empty where there is no record or it failed.

    Raises LadderError where the record is damaged, of another version, or of another rung, stage or GPU.
    """
    if not path.exists():
        return {}
    record = store.read_record(path)
    try:
        if record["status"] != "ok" or build_digest not in (None, digests.build_of(record["where"])):
            return {}
        parts = [_part(part, record["settings"]["settle_percent"]) for part in record["parts"]]
        found = {}
        for shape in map(Shape.parse, record["shapes"]):
            of_shape = [part for part in parts if part.shape == shape]
            (own,) = (part for part in of_shape if part.kernel == record["rung"])
            others = dict.fromkeys(part.kernel for part in of_shape if part is not own)
            references = {name: [part for part in of_shape if part.kernel == name] for name in others}
            found[shape] = Sustained(record["rung"], own, references, record["where"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise store.damaged(path, error) from None
    return found


def read_dishonest(path: Path, build_digest: str) -> str:
    """Which launch of a build did not compute its product, as a record says it; empty where none is known."""
    record = store.read_record(path) if path.exists() else {}
    wrong = record.get("status") == "dishonest" and digests.build_of(record["where"]) == build_digest
    return record["message"] if wrong else ""


def _part(recorded: Mapping[str, Any], settle_percent: float) -> Part:
    """Raises KeyError, ValueError or TypeError where what is recorded cannot be."""
    samples = recorded["samples"]
    columns = zip(*(recorded["batches"][key] for key in ("begin_s", "end_s", "launches")), strict=True)
    batches = [Batch(*row) for row in columns]
    times = [time for batch in batches for time in (batch.begin_s, batch.end_s)]
    if not times or not all(math.isfinite(time) for time in times) or sorted(times) != times:
        raise ValueError(f"the batches of {recorded['kernel']} have no times that follow each other")
    if any(batch.launches < 1 or batch.end_s <= batch.begin_s for batch in batches):
        raise ValueError(f"a batch of {recorded['kernel']} has no launches or takes no time")
    readings = {key: samples[key] for key in samples if key != "throttle_reasons"}
    if any(len(values) != len(samples["at_s"]) for values in samples.values()):
        raise ValueError(f"the samples of {recorded['kernel']} are not of one length")
    if not all(math.isfinite(value) for values in readings.values() for value in values):
        raise ValueError(f"a sample of {recorded['kernel']} is no number")
    for key in {"at_s", "energy_j"} & readings.keys():
        if sorted(readings[key]) != list(readings[key]):
            raise ValueError(f"{key} of {recorded['kernel']} falls")
    found = windows(batches, samples)
    first = settled_from(found, settle_percent)
    part = Part(recorded["kernel"], Shape.parse(recorded["shape"]), tuple(found), first, energy_source(samples), ())
    begin = part.settled[0].begin_s
    named = zip(samples["at_s"], samples.get("throttle_reasons", ()), strict=False)
    reasons = sorted({reason for at, text in named if at >= begin for reason in text.split("; ") if reason})
    return Part(part.kernel, part.shape, part.windows, first, part.energy_from, tuple(reasons))
