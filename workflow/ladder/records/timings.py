"""Time records: NVBench's samples of a rung and its references, by shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ladder.model.shape import Shape
from ladder.records import digests, store
from ladder.records.provenance import made_on, settings_digest
from ladder.system.errors import LadderError


@dataclass(frozen=True)
class Measurement:
    """One kernel at one shape in one process: NVBench's samples and the device's state around them."""

    kernel: str
    shape: Shape
    times_s: np.ndarray
    clocks_hz: np.ndarray
    target_samples: int
    state: Mapping[str, Any]
    file: str = ""  # of the times, in the run's folder


@dataclass(frozen=True)
class ShapeTiming:
    """All that was measured side by side for one rung at one shape: the rung itself, then its references."""

    rung: str
    shape: Shape
    where: Mapping[str, Any]
    measurements: Mapping[str, Measurement]
    run: str = ""  # the folder of the run in its record

    @property
    def own(self) -> Measurement:
        """The rung's own measurement."""
        return self.measurements[self.rung]


BEFORE = " before"  # behind the baseline's name: its measurement before the rung's, in the same process
LAUNCHES = "verified"  # how launches are made since their operands take turns and their results are verified
DISHONEST = "dishonest: "  # begins the failure of a rung that was seen to deceive the measurement
SAMPLING = ("warmup", "iterations", "min_iterations", "budget_s", "reference_budget_s")  # what NVBench is asked for


def timing_digest(settings: Mapping[str, Any]) -> str:
    """What identifies the settings that samples depend on, beside which kernels too; a time limit is none of them."""
    return settings_digest({key: settings[key] for key in ("references", *SAMPLING) if key in settings})


def timed_shapes(path: Path, settings: Mapping[str, Any], where: Mapping[str, Any]) -> set[str]:
    """The shapes whose latest measurement of this build was made with such settings, on this device and software.

    `where` is the environment of a run that is to come; `made_on` says what of it has to agree.
    """
    if not path.exists():
        return set()
    held: set[str] = set()
    wanted = (made_on(where), LAUNCHES, timing_digest(settings))
    for files in store.read_runs(path).values():
        run = store.run_record(files, path)
        if digests.build_of(run["where"]) == digests.build_of(where):
            found = (made_on(run["where"]), run.get("launches"), timing_digest(run["settings"]))
            held = held | set(run["shapes"]) if found == wanted else held - set(run["shapes"])
    return held


def _states(files: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    for benchmark in json.loads(files["nvbench.json"])["benchmarks"]:
        yield from benchmark["states"]


def unfinished(files: Mapping[str, bytes]) -> str:
    """One line that says what NVBench's files lack or what NVBench skipped; empty where they are whole."""
    if "nvbench.json" not in files:
        return "NVBench wrote no results"
    for state in _states(files):
        if state["is_skipped"]:
            return f"NVBench skipped {state['name']}: {state.get('skip_reason', 'it gives no reason')}"
    return ""


def medians_s(files: Mapping[str, bytes]) -> list[float]:
    """The median time of each state, in seconds and in NVBench's order.

    Raises LadderError where NVBench's files are not whole, as `unfinished` says.
    """
    if message := unfinished(files):
        raise LadderError(message)
    return [float(np.median(_times_s(files, _summaries(state)))) for state in _states(files)]


def samples_s(files: Mapping[str, bytes]) -> dict[tuple[str, str], np.ndarray]:
    """The times of each state in seconds, by the values of its axes `kernel` and `shape`."""
    return {_axes(state): _times_s(files, _summaries(state)) for state in _states(files)}


def _axes(state: Mapping[str, Any]) -> tuple[str, str]:
    axes = {axis["name"]: axis["value"] for axis in state["axis_values"]}
    return axes["kernel"], axes["shape"]


def read_time_record(path: Path, build_digest: str | None = None) -> dict[Shape, ShapeTiming]:
    """The latest measurement of each shape in a time record, of one build or of any.

    Raises LadderError where the record is damaged or of another version.
    """
    timings: dict[Shape, ShapeTiming] = {}
    for run, files in store.read_runs(path).items():
        record = store.run_record(files, path)
        if build_digest not in (None, digests.build_of(record["where"])):
            continue
        try:
            measured = list(measurements(files, record))
        except (KeyError, ValueError, StopIteration) as error:
            raise store.damaged(path, error) from None
        for text in record["shapes"]:
            shape = Shape.parse(text)
            beside = {each.kernel: each for each in measured if each.shape == shape}
            timings[shape] = ShapeTiming(record["rung"], shape, record["where"], beside, run)
    return timings


def measurements(files: Mapping[str, bytes], record: Mapping[str, Any]) -> Iterator[Measurement]:
    """What NVBench's files hold, with the device's `states` and the `settings` of the record beside them.

    Raises KeyError, ValueError or StopIteration where they are not whole. States that NVBench skipped have no times.
    """
    device = {(state["kernel"], state["shape"]): state for state in record["states"]}
    for state in _states(files):
        kernel, shape = _axes(state)
        summaries = _summaries(state)
        yield Measurement(
            kernel=kernel,
            shape=Shape.parse(shape),
            times_s=_times_s(files, summaries),
            clocks_hz=_samples(files, summaries["nv/json/freqs-bin:nv/cold/sample_freqs"]),
            target_samples=record["settings"]["iterations"],
            state=device[kernel, shape],
            file=_file(summaries[_TIMES])[0],
        )


def _summaries(state: Mapping[str, Any]) -> dict[str, Any]:
    return {summary["tag"]: summary for summary in state["summaries"]}


def _times_s(files: Mapping[str, bytes], summaries: Mapping[str, Any]) -> np.ndarray:
    return _samples(files, summaries[_TIMES])


_TIMES = "nv/json/bin:nv/cold/sample_times"


def _file(summary: Mapping[str, Any]) -> tuple[str, int]:
    """The file in which NVBench put samples, and how many it holds."""
    data = {item["name"]: item["value"] for item in summary["data"]}
    return data["filename"], int(data["size"])


def _samples(files: Mapping[str, bytes], summary: Mapping[str, Any]) -> np.ndarray:
    """Samples from a file of NVBench's: 32-bit floats, in seconds or hertz."""
    filename, size = _file(summary)
    samples = np.frombuffer(files[filename], "<f4").astype(np.float64)
    if len(samples) != size or not np.isfinite(samples).all() or not (samples > 0).all():
        raise ValueError(f"{filename} holds {len(samples)} samples of which {size} were expected, or some are no times")
    return samples
