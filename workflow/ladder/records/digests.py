"""The digests that records carry, brought to today's rule, so that an old record is compared with a new build.

Records from before comments stopped counting carry digests over the bytes of their sources. workflow/data/
source_digests.json says for each what today's rule makes of the very same sources, and which commit has them
(`digests`), or that no commit has them (`unknown`). The program that wrote it is tools/source_digests.py of cc7b31e;
the rows of the corpus of faults were added when comments stopped counting there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ladder.records import store

CARRIED_OVER = Path(__file__).parents[2] / "data" / "source_digests.json"


def digest_of_build(source_digest: str, nvcc: str, architecture: str, flags: Sequence[str]) -> str:
    """What identifies a build: the code, and all that makes a library of it."""
    return store.digest(source_digest, nvcc, architecture, *flags)


def at_present(compiled: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of how its code was compiled, with both digests as today's rule gives them.

    Digests of sources that nobody has any more stay as they are, and are those of no present code.
    """
    source = present_source(compiled["source_digest"])
    if source == compiled["source_digest"]:
        return dict(compiled)
    *flags, _ = compiled["flags"]  # the last names the architecture
    build = digest_of_build(source, compiled["nvcc"], compiled["architecture"], flags)
    return {**compiled, "source_digest": source, "build_digest": build}


def present_source(recorded: str) -> str:
    """A recorded digest of sources as today's rule gives it."""
    return _carried_over().get(recorded, recorded)


def build_of(where: Mapping[str, Any]) -> str:
    """The build that a record, which was made there, is of."""
    return at_present(where["compile"])["build_digest"]


def source_of(where: Mapping[str, Any]) -> str:
    """The code that a record, which was made there, is of."""
    return present_source(where["compile"]["source_digest"])


CURRENT, CHANGED_SINCE = "current", "changed since"


def state_of(recorded: str, digest: str | None) -> str:
    """What tables say of a recorded digest of sources beside that of the present ones: CURRENT or CHANGED_SINCE."""
    return CURRENT if present_source(recorded) == digest else CHANGED_SINCE


@cache
def _carried_over() -> Mapping[str, str]:
    return {row["recorded"]: row["present"] for row in store.read_json(CARRIED_OVER)["digests"]}
