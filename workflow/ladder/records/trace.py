"""Records as a portable trace, one JSON document (workflow/schemas/trace.schema.json), and records made from one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.timings import measurements
from ladder.system.errors import LadderError

FORMAT = {"trace": "gemm-ladder", "version": 1}
_CHECK = ("status", "message", "runs", "identical", "declared", "cases")
_SUMMARIES = {"times": "nv/json/bin:nv/cold/sample_times", "freqs": "nv/json/freqs-bin:nv/cold/sample_freqs"}


def trace_of(raw: Path, gpu: str, rungs: Iterable[Rung]) -> dict[str, Any]:
    """The trace of what a folder of raw records holds of these rungs: the latest measurement of each shape.

    Rungs without a record are left out. Raises LadderError where a record is damaged.
    """
    environments: list[Mapping[str, Any]] = []

    def place(where: Mapping[str, Any]) -> int:
        if where not in environments:
            environments.append(where)
        return environments.index(where)

    found = []
    for rung in rungs:
        check, timings = _check(raw / f"check/{rung.name}.json", place), _timings(raw / f"time/{rung.name}.zip", place)
        if check or timings:
            own = {"name": rung.name, "title": rung.title, "role": rung.role, "precision": rung.precision}
            found.append({**own, "claims": dict(rung.claims), "check": check, "timings": timings})
    return {**FORMAT, "gpu": gpu, "environments": environments, "rungs": found}


def _check(path: Path, place: Any) -> dict[str, Any] | None:
    record = store.read_record(path) if path.exists() else {}
    if "where" not in record:  # it was not checked: it did not compile, or does not apply
        return None
    return {"environment": place(record["where"]), **{key: record[key] for key in _CHECK if key in record}}


def _timings(path: Path, place: Any) -> list[dict[str, Any]]:
    latest: dict[Shape, dict[str, Any]] = {}
    for files in store.read_runs(path).values() if path.exists() else ():
        record = store.run_record(files, path)
        try:
            measured = list(measurements(files, record))
        except (KeyError, ValueError, StopIteration) as error:
            raise store.damaged(path, error) from None
        for shape in map(Shape.parse, record["shapes"]):
            latest[shape] = {
                **{"shape": str(shape), "m": shape.m, "n": shape.n, "k": shape.k},
                **{"environment": place(record["where"]), "settings": record["settings"]},
                **{"launches": record.get("launches"), "side_by_side": []},
            }
            for each in (each for each in measured if each.shape == shape):
                device = {key: value for key, value in each.state.items() if key not in ("kernel", "shape")}
                samples = {"samples_s": _shortest(each.times_s), "clocks_hz": _shortest(each.clocks_hz)}
                latest[shape]["side_by_side"].append({"kernel": each.kernel, **samples, "device": device})
    return [latest[shape] for shape in sorted(latest)]


def _shortest(values: np.ndarray) -> list[float]:
    """32-bit floats as the shortest decimals that are read as the same 32-bit floats."""
    return [float(str(value)) for value in values.astype(np.float32)]


def records_of(trace: Mapping[str, Any], results: Path) -> dict[Path, dict[str, bytes] | dict[str, Any]]:
    """The records that hold what a valid trace says, by their paths in a folder of results: results/GPU/raw.

    A check record is a mapping to be written as JSON, a time record the members of an archive. Raises LadderError where
    an environment is named that the trace lacks, samples and clocks are not as many, or a rung stands there twice.
    """
    raw, made = results / trace["gpu"] / "raw", {}
    names = [rung["name"] for rung in trace["rungs"]]
    for index, rung in enumerate(trace["rungs"]):
        name, at = rung["name"], f"rungs[{index}]"
        if (first := names.index(name)) != index:
            raise LadderError(f"{at}.name: {name!r} is that of rungs[{first}] too; leave one of them out")
        if check := rung["check"]:
            where = _environment(trace, check["environment"], f"{at}.check")
            claims = {"claims": rung["claims"]} if rung.get("claims") else {}
            kept = {key: check[key] for key in _CHECK if key in check}
            made[raw / f"check/{name}.json"] = {"stage": "check", "rung": name, "where": where, **kept, **claims}
        members: dict[str, bytes] = {}
        for timings in _runs(rung["timings"]).values():
            for place, timing in enumerate(timings):
                _environment(trace, timing["environment"], f"{at}.timings[{place}]")
            where = trace["environments"][timings[0]["environment"]]
            folder = f"{where['measured_at'].replace(':', '-')}{'+' * _later(members, where)}"
            members |= {f"{folder}/{file}": content for file, content in _files(name, timings, where, at).items()}
        if members:
            made[raw / f"time/{name}.zip"] = members
    return made


def write_records(made: Mapping[Path, Any]) -> None:
    """Write records where none are: all, or none where one cannot be written.

    Raises LadderError, before it writes any, where one is there already.
    """
    if there := [path for path in made if path.exists()]:
        more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
        raise LadderError(f"{there[0]}: is there already{more}; import into an empty folder")
    try:
        for path, content in made.items():
            if path.suffix == ".zip":
                store.write_archive(path, content)
            else:
                store.write_json(path, content)
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def _environment(trace: Mapping[str, Any], place: int, at: str) -> Mapping[str, Any]:
    if place >= len(trace["environments"]):
        raise LadderError(f"{at}.environment: {place}: the trace has {len(trace['environments'])} environments")
    return trace["environments"][place]


def _runs(timings: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The timings that one process made: of one environment, with the same settings."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for timing in timings:
        key = json.dumps([timing["environment"], timing["settings"], timing.get("launches")], sort_keys=True)
        runs.setdefault(key, []).append(timing)
    return runs


def _later(members: Mapping[str, bytes], where: Mapping[str, Any]) -> int:
    """How many runs of the same second there are already."""
    begins = where["measured_at"].replace(":", "-")
    return len({name.partition("/")[0] for name in members if name.startswith(begins)})


def _files(name: str, timings: list[Mapping[str, Any]], where: Mapping[str, Any], at: str) -> dict[str, bytes]:
    """The files of a run: NVBench's samples and what of its JSON our readers use, and record.json."""
    files: dict[str, bytes] = {}
    states, device = [], []
    for timing in timings:
        for each in timing["side_by_side"]:
            if len(each["samples_s"]) != len(each["clocks_hz"]):
                raise LadderError(
                    f"{at}: {timing['shape']}: {each['kernel']}: samples_s and clocks_hz differ in length"
                )
            axes = [_datum("kernel", "string", each["kernel"]), _datum("shape", "string", timing["shape"])]
            summaries = []
            for kind, values in (("times", each["samples_s"]), ("freqs", each["clocks_hz"])):
                file = f"nvbench.json-{kind}/{len(states)}.bin"
                files[file] = np.array(values, "<f4").tobytes()
                data = [_datum("filename", "string", file), _datum("size", "int64", str(len(values)))]
                summaries.append({"tag": _SUMMARIES[kind], "name": "Samples", "data": data})
            label = f"kernel={each['kernel']} shape={timing['shape']}"
            states.append({"name": label, "is_skipped": False, "axis_values": axes, "summaries": summaries})
            device.append({"kernel": each["kernel"], "shape": timing["shape"], **each.get("device", {})})
    record = {
        **{"schema_version": store.SCHEMA_VERSION, "stage": "time", "rung": name},
        **({"launches": timings[0]["launches"]} if timings[0].get("launches") else {}),
        **{"shapes": [timing["shape"] for timing in timings], "settings": timings[0]["settings"]},
        **{"where": where, "states": device},
    }
    nvbench = {"benchmarks": [{"name": "sgemm", "states": states}]}
    return files | {"nvbench.json": store.to_json(nvbench).encode(), "record.json": store.to_json(record).encode()}


def _datum(name: str, kind: str, value: str) -> dict[str, str]:
    return {"name": name, "type": kind, "value": value}
