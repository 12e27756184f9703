"""Profile records: the profiles of one build, by shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ladder.records import digests, store


def read_profiles(path: Path, build_digest: str) -> dict[str, Any]:
    """The profiles of one build in a profile record, by shape; empty where there is no record yet."""
    shapes = store.read_record(path)["shapes"] if path.exists() else {}
    return {shape: profile for shape, profile in shapes.items() if digests.build_of(profile["where"]) == build_digest}


def keep_profiles(path: Path, rung: str, profiles: Mapping[str, Any], message: str, build_digest: str) -> None:
    """Put profiles into a record, beside those of other shapes, and why others are missing (empty if none is).

    Once there are profiles of a new build, those of earlier ones are dropped.
    """
    earlier = store.read_record(path)["shapes"] if path.exists() else {}
    shapes = read_profiles(path, build_digest) | dict(profiles) or earlier
    failure = {"message": message, "build_digest": build_digest} if message else None
    store.write_json(path, {"stage": "profile", "rung": rung, "failure": failure, "shapes": shapes})
