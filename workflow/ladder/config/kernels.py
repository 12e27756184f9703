"""kernels.yaml: our ladder and the user's own, and which of their rungs a run asks for."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.config.documents import nearest, of_fields, read_yaml, schema, validated, with_defaults
from ladder.config.search_space import SearchSpace, macros_of
from ladder.config.sources import header_folders, source_of_rung, sources
from ladder.config.wrapper import check_wrap
from ladder.model.cases import Case
from ladder.model.claims import claimed, in_words
from ladder.model.precision import baselines_of
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.model.shape import Shape
from ladder.system.errors import LadderError
from ladder.system.paths import require_file, shown

PUBLISHED_NUMBERS = Path(__file__).parents[2] / "data" / "published.csv"


def read_kernels(path: Path, below: Mapping[str, Rung] | None = None) -> dict[str, Rung]:
    """The ladder in its order: every variant of every entry of kernels.yaml, by its name.

    With the ladder `below`, of which `before` may name rungs too, the file is a ladder outside the project: its sources
    lie beside it, and what is returned begins with the rungs below.

    Raises LadderError where the file breaks its schema, a source cannot be read, variants are equal, `before` leads to
    no rung, a claim is none, what `tune` declares is not of the source, or an entry has the name of one below.
    """
    file, below = shown(path), below or {}
    beside = path.parent.resolve() if below else None
    entries = validated(read_yaml(path), "kernels", file)
    item = schema("kernels")["additionalProperties"]
    rungs: dict[str, Rung] = {}
    for entry, values in entries.items():
        values = with_defaults(values, item)
        if other := next((rung for rung in below.values() if rung.entry == entry), None):
            raise LadderError(f"{file}: {entry}: is a rung of {other.file} too; give it another name")
        if values["wrap"]:  # a bare `null` is YAML's
            values["wrap"]["arguments"] = ["null" if each is None else each for each in values["wrap"]["arguments"]]
        if beside:
            values["source"] = str(beside / values["source"])
            if values["wrap"]:
                values["wrap"]["include"] = [str(beside / folder) for folder in values["wrap"]["include"]]
        variants = [replace(_rung(entry, values, variant), file=file) for variant in values["variants"] or [{}]]
        _check_entry(variants, f"{file}: {entry}")
        rungs |= {rung.name: rung for rung in variants}
    rungs = {**below, **rungs}
    for role in ("baseline", "rung"):
        if role not in {rung.role for rung in rungs.values()}:
            raise LadderError(f"{file}: no entry has the role {role}; the ladder needs one")
    first = next(rung for rung in rungs.values() if rung.role == "rung")
    if first.claims:
        raise LadderError(f"{file}: {first.entry}.claims: others are compared with the first rung; put it further down")
    baselines = [{"name": rung.name, "precision": rung.precision} for rung in rungs.values() if rung.role == "baseline"]
    rungs = {name: replace(rung, baselines=baselines_of(rung.precision, baselines)) for name, rung in rungs.items()}
    for rung in rungs.values():
        _check_before(rung, rungs, f"{rung.file}: {rung.entry}.before")
        _check_claims(rung, file)
    return rungs


def _check_entry(variants: list[Rung], place: str) -> None:
    """Raise LadderError for a source that cannot be read, for capabilities in the wrong order, and for equal variants.

    Variants are equal where all macros have the same values, the source's own counted in.
    """
    first = variants[0]
    check_wrap(first, place)
    for folder in header_folders(first):
        if not folder.is_dir():
            raise LadderError(
                f"{place}.wrap.include: {shown(folder)}: there is no such folder; make it, or mend the name"
            )
    try:
        require_file(source_of_rung(first))
        sources(first)
        known = macros_of(first)
    except LadderError as error:
        raise LadderError(f"{place}.source: {error}") from None
    if first.newest_compute_capability and not first.runs_on(first.newest_compute_capability):
        problem = f"{first.newest_compute_capability} is lower than compute_capability; no GPU would run the rung"
        raise LadderError(f"{place}.newest_compute_capability: {problem}")
    seen: dict[tuple[tuple[str, str], ...], int] = {}
    for index, rung in enumerate(variants):
        values = {name: str(value) for name, value in known.items()} | dict(rung.macros)
        earlier = seen.setdefault(tuple(sorted(values.items())), index)
        if earlier != index:
            raise LadderError(f"{place}.variants[{index}]: equals variants[{earlier}]; take one of the two out")
    if first.tune is not None:
        SearchSpace.of(first)


def _check_before(rung: Rung, rungs: Mapping[str, Rung], place: str) -> None:
    """Raise LadderError where `before` names no rung, a floor, or leads back to the rung itself."""
    way = [rung.name]
    while (before := rungs[way[-1]].before) in rungs and before not in way:
        way.append(before)
    if len(way) == 1 and before is not None and before != rung.name:
        raise LadderError(f"{place}: {before!r} is no rung; {nearest(before, rungs)}")
    if before == rung.name:
        raise LadderError(f"{place}: {' -> '.join([*way, before])} leads back; name a rung that does not come after it")
    if rung.before is not None and rungs[rung.before].role == "floor":
        raise LadderError(f"{place}: {rung.before!r} is a floor, which computes no product; name a rung")


def _rung(entry: str, values: Mapping[str, Any], macros: Mapping[str, object]) -> Rung:
    own = {"name": variant_name(entry, macros), "entry": entry, "macros": {key: str(macros[key]) for key in macros}}
    restricted = f" (restricted: {in_words(values['claims'])})" if values["claims"] else ""
    return Rung(**of_fields(Rung, values) | own | {"title": values["title"] + restricted})


def _check_claims(rung: Rung, file: str) -> None:
    """Raise LadderError for claims of what has to compute SGEMM, or for a condition that is none."""
    if rung.claims and rung.role != "rung":
        raise LadderError(f"{file}: {rung.entry}.claims: a {rung.role} claims nothing; leave it out")
    for name, claim in rung.claims.items():
        try:
            claimed({name: claim}, Case(Shape(1, 1, 1)))
        except ValueError as error:
            raise LadderError(f"{file}: {rung.entry}.claims.{name}: {error}") from None


def published_kernels() -> list[str]:
    """The kernels of published worklogs: with exactly their tiles where these are known, else our rung; each once."""
    with PUBLISHED_NUMBERS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return list(dict.fromkeys(row["trial"] or row["rung"] for row in rows if row["rung"]))


def select_rungs(wanted: str | list[str], ladder: Mapping[str, Rung], file: str) -> list[Rung]:
    """The rungs that `kernels` asks for, in the ladder's order, new variants after their entry's own.

    `all`, `published` (`published_kernels`), or a list of entries (all their variants) and of variants, which need not
    stand in kernels.yaml. Raises LadderError for a name that is none.
    """
    if wanted == "all":
        return list(ladder.values())
    names = published_kernels() if wanted == "published" else [wanted] if isinstance(wanted, str) else wanted
    chosen: dict[str, Rung] = {}
    for index, name in enumerate(names):
        try:
            entry, macros = parse_variant(str(name))
        except ValueError as error:
            raise LadderError(f"{file}: kernels[{index}]: {error}; {nearest(str(name), ladder)}") from None
        of_entry = [rung for rung in ladder.values() if rung.entry == entry]
        if not of_entry:
            raise LadderError(f"{file}: kernels[{index}]: {name!r} is no kernel; {nearest(str(name), ladder)}")
        same = [rung for rung in (*of_entry, *chosen.values()) if rung.entry == entry and rung.macros == macros]
        own = [replace(of_entry[0], name=str(name), macros=macros, tuned=())]
        chosen |= {rung.name: rung for rung in (same[:1] or own if macros else of_entry)}
    order = {entry: index for index, entry in enumerate(dict.fromkeys(rung.entry for rung in ladder.values()))}
    return sorted(chosen.values(), key=lambda rung: order[rung.entry])
