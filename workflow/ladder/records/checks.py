"""Check records: which cases a record holds as passed, and how two of one build are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ladder.model.cases import Case
from ladder.records import digests, store
from ladder.records.provenance import made_on


def held_cases(path: Path, where: Mapping[str, Any], runs: int, declared: Mapping[str, Any]) -> set[Case]:
    """The cases that the record at a path holds as passed.

    What it holds counts where the rung passed as this very build, computed as often, held to the same declaration, on
    the same GPU and with the same driver, packages and commit; otherwise it holds none.
    """
    if not path.exists():
        return set()
    earlier = store.read_record(path)
    if (earlier["status"], earlier.get("runs"), earlier.get("declared")) != ("pass", runs, dict(declared)):
        return set()
    held = {**earlier["where"], "compile": digests.at_present(earlier["where"]["compile"])}
    if any(held[key] != where[key] for key in ("compile", "gpu", "software")):
        return set()
    return set(map(Case.of, earlier["cases"]))


def drawn_by(cases: Iterable[Case]) -> list[int]:
    """The seeds by which those of the cases were drawn that were."""
    return sorted({case.drawn for case in cases} - {0})


def merge_check(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to a passed record the cases that an earlier one holds and this run did not ask for.

    The earlier one counts where it is of the same build, device and software: a record names one of each. Cases that it
    drew by another seed give way to those of this run.
    Where none was computed twice, wall_s is that of both runs. `identical` is true where it is in both.
    """
    if record["status"] != "pass" or not path.exists():
        return record
    earlier = store.read_record(path)
    if earlier["status"] != "pass" or made_on(earlier["where"]) != made_on(record["where"]):
        return record
    if digests.at_present(earlier["where"]["compile"]) != record["where"]["compile"]:
        return record
    if earlier.get("declared", record.get("declared")) != record.get("declared"):
        return record  # what is held was judged as something else
    now = set(map(Case.of, record["cases"]))
    seeds = drawn_by(now)
    before = [(Case.of(case), case) for case in earlier["cases"]]
    kept = [held for case, held in before if case not in now and (not case.drawn or case.drawn in seeds or not seeds)]
    merged = record | {"cases": record["cases"] + kept}
    if kept and len(kept) == len(before) and "wall_s" in record["where"]:
        wall_s = round(record["where"]["wall_s"] + earlier["where"].get("wall_s", 0), 3)
        merged |= {"where": record["where"] | {"wall_s": wall_s}}
    if kept and "identical" in record:
        merged |= {"identical": record["identical"] and earlier.get("identical", True)}
    return merged
