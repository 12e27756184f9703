"""All that is known of the rungs of a run, read from the records: what tables, figures and the summary start from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.build.compile import NO_COMPILER, NOT_APPLICABLE
from ladder.build.emulator import EMULATED, NEEDS_GPU, NOT_EMULATED
from ladder.build.inspection import UNUSABLE
from ladder.config.sources import source_digest
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.digests import build_of, source_of
from ladder.records.profiles import read_profiles
from ladder.records.sustained import Sustained, read_dishonest, read_sustained
from ladder.records.timings import DISHONEST, ShapeTiming, read_time_record
from ladder.system.paths import shown

NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Evidence:
    """One rung: its inspection, and its records where there are any."""

    rung: Rung
    inspection: Mapping[str, Any]
    check: Mapping[str, Any] | None
    timings: Mapping[Shape, ShapeTiming]
    timing_failure: str = ""
    profiles: Mapping[str, Any] = field(default_factory=dict)
    counted: Mapping[str, Any] = field(default_factory=dict)  # of shapes without a profile: those of another GPU
    counted_on: str = ""  # which GPU that is
    profile_failure: str = ""
    sanitized: Mapping[str, Any] | None = None
    sustained: Mapping[Shape, Sustained] = field(default_factory=dict)
    dishonest_sustained: str = ""  # which launch of those back to back did not compute its product
    emulated: Mapping[str, Any] | None = None
    passed_on: str = ""  # a GPU on which the present source passed its check

    @property
    def sound(self) -> bool:
        """Whether the rung's numbers may be shown: it compiled here, and its recorded check passed."""
        return self.status == "ok" or (self.rung.role == "floor" and self.status == NOT_CHECKED)

    @property
    def status(self) -> str:
        """`ok`, `not recorded`, `needs a GPU`, `does not apply`, `no compiler`, or what failed.

        A rung without a record that cannot be checked here either is `not checked`, or `needs a GPU` where its source
        passed on another one. A floor is `not checked` too.
        """
        if self.inspection["status"] == NOT_APPLICABLE:
            return NOT_APPLICABLE
        if self.inspection["status"] == NO_COMPILER and self.check is None:
            return NO_COMPILER
        if self.inspection["status"] not in ("ok", NO_COMPILER):
            return UNUSABLE if self.inspection["status"] == UNUSABLE else "does not compile"
        if self.rung.role == "floor":
            return "timing failed" if self.timing_failure else NOT_CHECKED if self.timings else "not recorded"
        if self.emulation == "wrong":
            return "wrong"
        if self.check is None:
            no_emulator = self.rung.language != "cuda"  # whose source no one could write so that it is checked here
            if self.rung.role != "rung" or no_emulator or not _unchecked_by(self.emulated):
                return "not recorded"
            return NEEDS_GPU if self.passed_on else NOT_CHECKED
        if self.check["status"] != "pass":
            return "wrong"
        if self.dishonest_sustained:
            return "dishonest"
        if self.timing_failure:
            return "dishonest" if self.timing_failure.startswith(DISHONEST) else "timing failed"
        return "ok" if self.timings else "not recorded"

    @property
    def emulation(self) -> str:
        """`emulated` where the source passed the check on a CPU; `wrong`, `needs a GPU`, `not emulated`, or empty."""
        status = (self.emulated or {}).get("status", "")
        return "wrong" if status == "failed" else status if status in (EMULATED, NEEDS_GPU, NOT_EMULATED) else ""

    @property
    def determinism(self) -> str:
        """`5 runs alike`, or `declared not to be`; empty where the record does not say or the check failed."""
        if not self.check or self.check["status"] != "pass" or "runs" not in self.check:
            return ""
        return f"{self.check['runs']} runs alike" if self.check["identical"] else "declared not to be"

    @property
    def message(self) -> str:
        """What failed, in one line; empty where nothing did."""
        if self.inspection["status"] != "ok" and not (self.inspection["status"] == NO_COMPILER and self.check):
            return self.inspection["message"]
        if self.emulation == "wrong":
            return f"in the emulator: {self.emulated['message']}"
        if self.rung.role == "rung" and self.status == NOT_CHECKED:
            return self.emulated["message"]
        if self.status == NEEDS_GPU:
            return f"to be checked here; the same source passed its check on {self.passed_on}"
        if self.status == "wrong":
            return self.check["message"]
        return self.dishonest_sustained or self.timing_failure.removeprefix(DISHONEST)

    @property
    def source_is_current(self) -> bool | None:
        """Whether the records are of the source as it stands now; None where there are none."""
        where = (self.check or {}).get("where") or self._timing_where
        return source_of(where) == source_digest(self.rung) if where else None

    @property
    def _timing_where(self) -> Mapping[str, Any] | None:
        return next((timing.where for timing in self.timings.values()), None)

    @property
    def check_wall_s(self) -> float:
        """Seconds that the process of the recorded check took; NaN where its record does not say."""
        return ((self.check or {}).get("where") or {}).get("wall_s", math.nan)

    @property
    def time_wall_s(self) -> float:
        """Seconds that the processes of the recorded timings took; NaN where there are none or one does not say."""
        took = {
            where["measured_at"]: where.get("wall_s", math.nan) for where in (t.where for t in self.timings.values())
        }
        return sum(took.values()) if took else math.nan

    @property
    def time_gpu_s(self) -> float:
        """Seconds on the GPU of all recorded samples, the references' included and the warm-up left out."""
        return sum(float(m.times_s.sum()) for timing in self.timings.values() for m in timing.measurements.values())

    @property
    def places(self) -> list[Mapping[str, Any]]:
        """Where and when each record of this rung was made."""
        check = [self.check["where"]] if self.check and self.check.get("where") else []
        timed = [timing.where for timing in self.timings.values()]
        sustained = [found.where for found in self.sustained.values()]
        return check + timed + sustained + [profile["where"] for profile in self.profiles.values()]


def _unchecked_by(emulated: Mapping[str, Any] | None) -> bool:
    """Whether the emulator could not check the rung: for what its source needs, or for this machine's compiler."""
    return (emulated or {}).get("status") in (NEEDS_GPU, NOT_EMULATED)


def _is_stale(check: Mapping[str, Any], rung: Rung) -> bool:
    """Whether a check record is of another source than the present one."""
    return "where" in check and source_of(check["where"]) != source_digest(rung)


def _nothing_of_build(path: Path) -> str:
    return f"{shown(path)}: holds nothing of the build that passed the check; {_again(path)}"


def _of_an_earlier_build(path: Path) -> str:
    return f"{shown(path)}: of an earlier build than the times; {_again(path)}"


def _again(path: Path) -> str:
    return f"record it again on that GPU: snakemake --cores all --until {path.parent.name}"


def read_evidence(
    rung: Rung,
    inspection: Path | None,
    raw: Path,
    shapes: list[Shape] | None,
    emulated: Path | None = None,
    sanitized: bool = True,
    passed_on: str = "",
    sustained: bool = True,
    elsewhere: Sequence[Path] = (),
) -> Evidence:
    """Read what is recorded of a rung; timings only of the shapes asked for, and these, sustained launches and the
    sanitizer's findings only of the build that was checked. So are profiles, where there are any of it; else they are
    of an earlier build, and `profile_failure` says so.

    The findings are read where `sanitized` says so, sustained launches where `sustained` does. `passed_on` is
    Evidence's: where it names no GPU, and the emulator cannot check the rung either, records of another source than the
    present one count for nothing.

    `elsewhere` are the rung's profile records of other GPUs: the first that has profiles of the build gives those of
    shapes that have none here.

    Without an inspection the rung is taken for one that compiles, without shapes all are read.

    Raises LadderError for a record that is damaged or of another schema version.
    """
    check_path, time_path = raw / "check" / f"{rung.name}.json", raw / "time" / f"{rung.name}.zip"
    sustained_path = raw / "sustained" / f"{rung.name}.json"
    profile_path = raw / "profile" / f"{rung.name}.json.xz"
    check = store.read_record(check_path) if check_path.exists() else None
    on_cpu = store.read_json(emulated) if emulated else None
    if check and check.get("claims", rung.claims) != rung.claims:
        check = None  # it passed for other products than the rung claims now
    if check and not passed_on and rung.role == "rung" and _unchecked_by(on_cpu) and _is_stale(check, rung):
        check = None  # nothing says whether the present source is right
    checked = build_of(check["where"]) if check and check["status"] == "pass" else ""
    of_build = None if rung.role == "floor" else checked
    timings = read_time_record(time_path, of_build) if time_path.exists() else {}
    failure = store.read_failure(time_path) if time_path.exists() else None
    if checked and not failure and not timings and time_path.exists():
        failure = {"message": _nothing_of_build(time_path)}
    sanitized_path = raw / "sanitize" / f"{rung.name}.json"
    found = store.read_record(sanitized_path) if sanitized and sanitized_path.exists() else None
    if found and ("where" not in found or build_of(found["where"]) != checked):
        found = None
    profile = store.read_record(profile_path) if profile_path.exists() else {"failure": None, "shapes": {}}
    profiles = read_profiles(profile_path, checked)
    if checked and profile_path.exists() and not profiles and not profile["failure"]:
        profiles = profile["shapes"]
        profile = {"failure": {"message": (_of_an_earlier_build if profiles else _nothing_of_build)(profile_path)}}
    others = {path.parents[2].name: read_profiles(path, checked) for path in elsewhere if checked}
    counted_on = next((gpu for gpu, found in others.items() if found), "")
    return Evidence(
        rung=rung,
        inspection=store.read_json(inspection) if inspection else {"status": "ok"},
        check=check,
        timings={shape: timings[shape] for shape in (timings if shapes is None else shapes) if shape in timings},
        timing_failure=failure["message"] if failure else "",
        profiles=profiles,
        counted={shape: each for shape, each in others.get(counted_on, {}).items() if shape not in profiles},
        counted_on=counted_on,
        profile_failure=profile["failure"]["message"] if profile["failure"] else "",
        sanitized=found,
        sustained=read_sustained(sustained_path, checked) if sustained and checked else {},
        dishonest_sustained=read_dishonest(sustained_path, checked) if sustained else "",
        emulated=on_cpu,
        passed_on=passed_on,
    )
