"""What a record says it is of, its stage, rung and device, beside the place where it lies; a reader refuses a stranger.

The place is the path: results/GPU/raw/STAGE/NAME for the records that ship, results/GPU/devices/DEVICE/raw/STAGE/NAME
for those of a device of the user's own, where DEVICE is the beginning of its UUID, several such joined by `+`, or a
name that the user chose for any number of GPUs, as `cluster` is for those of a batch system. NAME is the rung's, or an
entry's of trials or an experiment's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ladder.model.gpu import slug
from ladder.system.errors import LadderError
from ladder.system.paths import GPU_FILES, shown

# What tells the stages of records apart that do not name theirs: the first of which a record has all keys.
_KEYS = {
    "sanitize": {"rung", "tools"},
    "accuracy": {"rung", "points"},
    "survey": {"rung", "products", "data"},
    "sustained": {"rung", "parts"},
    "profile": {"rung", "failure"},
    "time": {"rung", "states"},
    "trials": {"entry", "batches"},
    "faults": {"entries"},
    "measuring": {"warm_up"},
    "errors": {"points"},
    "check": {"cases"},
}
DEVICES = "devices"  # the folder in results/GPU that holds one for each device of the user's own
# The key of the name, where it is not the rung's; the record of a whole GPU has none, whichever rung it measures.
_NAMES = {"trials": "entry", "experiments": "experiment", "regression": "name"}


@dataclass(frozen=True)
class RecordPlace:
    """Where a record belongs: its stage, its name, the GPU's folder in results and the device's in that.

    Each is empty where all are welcome.
    """

    stage: str = ""
    name: str = ""
    gpu: str = ""
    device: str = ""

    @classmethod
    def of(cls, path: Path) -> RecordPlace:
        """The place that a path is; all are welcome outside a folder `raw`, and every GPU outside `results`."""
        raw = next((folder for folder in path.parents if folder.name == "raw"), None)
        if raw is None:
            return cls()
        name = path.name.partition(".")[0]
        stage = name if path.parent == raw else path.parent.name
        device = raw.parent.name if raw.parent.parent.name == DEVICES else ""
        of_gpu = raw.parents[2] if device else raw.parent
        return cls(stage, name, of_gpu.name if of_gpu.parent.name == "results" else "", device)


def require(path: Path, record: Mapping[str, Any], place: RecordPlace) -> None:
    """Raise LadderError where what a record says of its stage, its name or a device is not what its place asks for."""
    name = _NAMES.get(place.stage, "rung")
    if place.stage == "experiments" and "stage" not in record:  # docs/trials.md names two of another GPU
        place = replace(place, gpu="")
    uuids = [gpu.get("uuid", "") for gpu in devices_of(record)]
    strangers = [uuid for uuid in uuids if not uuid.startswith(_beginnings(place.device))]
    for key, said, expected in [
        ("stage", _stage(record, place.stage), place.stage),
        (name, record.get(name, place.name), place.name),
        *(("gpu", gpu["name"], place.gpu) for gpu in devices_of(record) if not _belongs(gpu["name"], place.gpu)),
        *(("device", uuid, place.device) for uuid in strangers),
    ]:
        if expected and said != expected:
            raise LadderError(
                f"{shown(path)}: {key}: {said!r}, where a record of {expected!r} belongs; "
                "restore it with git checkout, or delete it to measure again"
            )


def names_devices(folder: str) -> bool:
    """Whether a folder of `devices` says which GPUs its records are of; others take those of any GPU of their kind."""
    return folder.startswith("GPU-")


def _beginnings(folder: str) -> tuple[str, ...]:
    """How the UUIDs of a folder's GPUs begin."""
    return tuple(folder.split("+")) if names_devices(folder) else ("",)


def _stage(record: Mapping[str, Any], expected: str) -> str:
    old = next((stage for stage, keys in _KEYS.items() if keys <= record.keys()), "unknown")
    return record.get("stage") or (expected if (old, expected) == ("time", "experiments") else old)


def devices_of(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """NVML's descriptions of the devices that a record was made on: its own, its shapes' or its batches'."""
    yield from (where["gpu"] for where in places_of(record))


def places_of(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Where the parts of a record were made, as `ladder.records.provenance.environment` says it."""
    shapes = record.get("shapes")
    parts = [record, *(shapes.values() if isinstance(shapes, Mapping) else ()), *record.get("batches", ())]
    yield from (part["where"] for part in parts if part.get("where"))


@cache
def _belongs(device: str, gpu: str) -> bool:
    """Whether a device's records go to a GPU's folder: its GPU file's or, where that has none, that of its own name."""
    file = GPU_FILES / f"{gpu}.yaml"
    if not gpu or not file.exists():
        return not gpu or slug(device) == gpu
    try:
        return re.search(yaml.safe_load(file.read_text())["match"]["name"], device) is not None
    except (yaml.YAMLError, re.error, KeyError, TypeError):
        return True  # `ladder.config.gpus` says what is wrong with the file
