"""Survey records: times of a rung beside its references on drawn products, times and errors on families of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ladder.model.cases import Case
from ladder.records import digests, store
from ladder.records.provenance import made_on, settings_digest

SURVEY_SAMPLING = ("warmup", "iterations", "min_iterations", "budget_s")  # what NVBench is asked for
SURVEY_SETTINGS = (
    "products",
    "largest",
    "least_flop",
    "most_flop",
    "families",
    "sizes",
    "references",
    *SURVEY_SAMPLING,
)


@dataclass(frozen=True)
class OnData:
    """A kernel on data: seconds of a launch (median), and errors as the accuracy stage has them."""

    seconds: float
    error_normwise: float
    error_componentwise: float


@dataclass(frozen=True)
class Survey:
    """What a record holds: by product and kernel the median seconds of a launch; on each of the data all kernels."""

    rung: str
    seed: int
    products: tuple[tuple[Case, Mapping[str, float]], ...]
    data: tuple[tuple[Mapping[str, Any], Mapping[str, OnData]], ...]  # family, shape, seed, amount
    where: Mapping[str, Any]
    # Of each product by kernel on normal numbers; empty where the record is older than these.
    errors: tuple[Mapping[str, Mapping[str, float]], ...] = ()


def survey_digest(settings: Mapping[str, Any]) -> str:
    """What identifies the settings that a survey depends on, beside its seed."""
    return settings_digest({key: settings[key] for key in SURVEY_SETTINGS})


def survey_held(path: Path, builds: Mapping[str, str], seed: int | None, where: Mapping[str, Any]) -> bool:
    """Whether a record has a survey of these builds by this seed or any, with such settings, device and software.

    `where` is the environment of a run that is to come; `made_on` says what of it has to agree.
    """
    if not path.exists():
        return False
    record = store.read_record(path)
    if record["status"] == "failed" or record["builds"] != dict(builds) or seed not in (None, record["seed"]):
        return False
    found, wanted = ((made_on(each), each["config_digest"]) for each in (record["where"], where))
    return found == wanted


def read_survey(path: Path, build_digest: str | None = None) -> Survey | None:
    """What a record holds, of one build or of any; None where there is no record or it failed.

    Raises LadderError where the record is damaged, of another version, or of another rung, stage or GPU.
    """
    if not path.exists():
        return None
    record = store.read_record(path)
    try:
        if record["status"] != "ok" or build_digest not in (None, digests.build_of(record["where"])):
            return None
        products = tuple(
            (Case.of(each), {name: _seconds(times) for name, times in each["times_us"].items()})
            for each in record["products"]
        )
        data = tuple(
            ({key: each[key] for key in ("family", "shape", "seed", "amount")}, _by_kernel(each["kernels"]))
            for each in record["data"]
        )
        errors = tuple(
            {name: _errors(each) for name, each in one.get("errors", {}).items()} for one in record["products"]
        )
        return Survey(record["rung"], record["seed"], products, data, record["where"], errors)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise store.damaged(path, error) from None


def _by_kernel(recorded: Mapping[str, Any]) -> dict[str, OnData]:
    return {name: OnData(_seconds(found["times_us"]), **_errors(found)) for name, found in recorded.items()}


def _errors(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: found[name] for name in ("error_normwise", "error_componentwise")}


def _seconds(times_us: list[float]) -> float:
    times = np.array(times_us, float)
    if not len(times) or not np.isfinite(times).all() or not (times > 0).all():
        raise ValueError("samples that are no times")
    return float(np.median(times)) / 1e6
