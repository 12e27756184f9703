"""config/kernels.yaml: the ladder, and which of its rungs a run asks for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.config.documents import read_yaml, schema, validated, with_defaults
from ladder.model.precision import baseline_of
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown


def read_kernels(path: Path) -> dict[str, Rung]:
    """The ladder in its order: every variant of every entry of kernels.yaml, by its name.

    Raises LadderError where the file breaks its schema, a source is missing, `before` names no rung, or what `tune`
    declares is not of the source.
    """
    file = shown(path)
    entries = validated(read_yaml(path), "kernels", file)
    item = schema("kernels")["additionalProperties"]
    rungs: dict[str, Rung] = {}
    for entry, values in entries.items():
        values = with_defaults(values, item)
        if not (ROOT / "kernels" / values["source"]).is_file():
            raise LadderError(
                f"{file}: {entry}.source: kernels/{values['source']} does not exist; write it or mend the name"
            )
        for variant in values["variants"] or [{}]:
            rung = _rung(entry, values, variant)
            rungs[rung.name] = rung
    for role in ("baseline", "rung"):
        if role not in {rung.role for rung in rungs.values()}:
            raise LadderError(f"{file}: no entry has the role {role}; the ladder needs one")
    baselines = [{"name": rung.name, "precision": rung.precision} for rung in rungs.values() if rung.role == "baseline"]
    rungs = {name: replace(rung, baseline=baseline_of(rung.precision, baselines)) for name, rung in rungs.items()}
    for rung in rungs.values():
        if rung.before is not None and rung.before not in rungs:
            raise LadderError(f"{file}: {rung.entry}.before: {rung.before!r} is no rung; {_known(rung.before, rungs)}")
    return rungs


def _rung(entry: str, values: Mapping[str, Any], macros: Mapping[str, object]) -> Rung:
    return Rung(
        name=variant_name(entry, macros),
        entry=entry,
        title=values["title"],
        source=values["source"],
        macros={key: str(value) for key, value in macros.items()},
        precision=values["precision"],
        role=values["role"],
        before=values["before"],
        compute_capability=values["compute_capability"],
        newest_compute_capability=values["newest_compute_capability"],
        tune=values["tune"],
        deterministic=values["deterministic"],
        subnormals=values["subnormals"],
    )


def _known(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def select_rungs(wanted: str | list[str], ladder: Mapping[str, Rung], file: str) -> list[Rung]:
    """The rungs that `kernels` asks for, in the ladder's order, new variants after their entry's own.

    `all`, or a list of entries (all their variants) and of variants, which need not stand in kernels.yaml.
    Raises LadderError for a name that is none.
    """
    if wanted == "all":
        return list(ladder.values())
    names = [wanted] if isinstance(wanted, str) else wanted
    chosen: dict[str, Rung] = {}
    for index, name in enumerate(names):
        try:
            entry, macros = parse_variant(str(name))
        except ValueError as error:
            raise LadderError(f"{file}: kernels[{index}]: {error}; known: {', '.join(ladder)}") from None
        of_entry = [rung for rung in ladder.values() if rung.entry == entry]
        if not of_entry:
            raise LadderError(f"{file}: kernels[{index}]: {name!r} is no kernel; {_known(str(name), ladder)}")
        if not macros:
            chosen |= {rung.name: rung for rung in of_entry}
        elif name in ladder:
            chosen[name] = ladder[name]
        else:
            template = of_entry[0]
            chosen[name] = Rung(**{**vars(template), "name": name, "macros": macros, "tuned": ()})
    order = {entry: index for index, entry in enumerate(dict.fromkeys(rung.entry for rung in ladder.values()))}
    return sorted(chosen.values(), key=lambda rung: order[rung.entry])
