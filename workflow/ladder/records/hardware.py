"""The hardware record: what the probes of kernels/floor/hardware.cu took, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.records import digests, store
from ladder.records.provenance import made_on

KINDS = ("latency", "bandwidth", "rate")


@dataclass(frozen=True)
class Probed:
    """One probe: `blocks` blocks did `count` accesses (latency), bytes (bandwidth) or FLOP (rate) each.

    A sample's `cycles` are those of a block, the mean of all; its `ns` are from the first block's begin to the last
    one's end. Of launches there are no cycles.
    """

    of: str
    kind: str
    how: str
    count: float
    blocks: int
    cycles: tuple[float, ...]
    ns: tuple[float, ...]


@dataclass(frozen=True)
class Hardware:
    """What a record holds: the probes that have samples, and where they were made."""

    probes: tuple[Probed, ...]
    where: Mapping[str, Any]


def hardware_held(path: Path, build_digest: str, where: Mapping[str, Any]) -> bool:
    """Whether a record has all probes of this build, measured on this device and software.

    `where` is the environment of a run that is to come; `made_on` says what of it has to agree.
    """
    if not path.exists():
        return False
    record = store.read_record(path)
    whole = record["status"] == "ok" and digests.build_of(record["where"]) == build_digest
    return whole and made_on(record["where"]) == made_on(where)


def read_hardware(path: Path) -> Hardware | None:
    """What a record holds; None where there is none.

    Raises LadderError where the record is damaged, of another version, or of another stage or GPU.
    """
    if not path.exists():
        return None
    record = store.read_record(path)
    try:
        return Hardware(tuple(_probed(each) for each in record["probes"] if each["ns"]), record["where"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise store.damaged(path, error) from None


def _probed(each: Mapping[str, Any]) -> Probed:
    """Raises KeyError, ValueError or TypeError where what is recorded cannot be."""
    cycles, ns = (tuple(map(float, each[key])) for key in ("cycles", "ns"))
    named = f"{each['of']}, {each['how']}"
    if not all(math.isfinite(value) and value > 0 for value in (*cycles, *ns, each["count"], each["blocks"])):
        raise ValueError(f"a sample of {named} is no time")
    if len(cycles) not in (0, len(ns)) or each["kind"] not in KINDS:
        raise ValueError(f"{named} is of kind {each['kind']!r} and has {len(cycles)} and {len(ns)} samples")
    return Probed(each["of"], each["kind"], each["how"], float(each["count"]), int(each["blocks"]), cycles, ns)
