"""Profile records: the profiles of one build, by shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ladder.records import digests, store
from ladder.records.provenance import made_on


def read_profiles(path: Path, build_digest: str) -> dict[str, Any]:
    """The profiles of one build in a profile record, by shape; empty where there is no record yet."""
    shapes = store.read_record(path)["shapes"] if path.exists() else {}
    return {shape: profile for shape, profile in shapes.items() if digests.build_of(profile["where"]) == build_digest}


def keep_profiles(path: Path, rung: str, profiles: Mapping[str, Any], message: str, build_digest: str) -> None:
    """Put profiles into a record, beside those of other shapes, and why others are missing (empty if none is).

    Once there are profiles of a new build, device or software (`made_on`), those of earlier ones are dropped.
    """
    earlier = store.read_record(path)["shapes"] if path.exists() else {}
    places = [made_on(profile["where"]) for profile in profiles.values()]
    kept = read_profiles(path, build_digest)
    kept = {shape: profile for shape, profile in kept.items() if made_on(profile["where"]) in places or not places}
    shapes = kept | dict(profiles) or earlier
    failure = {"message": message, "build_digest": build_digest} if message else None
    store.write_json(path, {"stage": "profile", "rung": rung, "failure": failure, "shapes": shapes})
