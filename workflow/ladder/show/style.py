"""The looks of rungs, the same in every figure, and the families that share a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ladder.model.precision import name_of
from ladder.show.figures.specification import MARKERS, PALETTE, Choice, Key

MOST = 7  # rungs of one panel, beside the baseline
DASHES = ((), (4, 1.5), (1, 1), (4, 1, 1, 1), (7, 2))  # one for each time that the colours are used up


def rung_key(rungs: pd.DataFrame, baseline: str, ladder: Sequence[str] = (), direct: bool = True) -> Key:
    """Colour, dash and marker of each rung by its entry's place in the ladder; the baseline is black and dashed.

    Variants of one entry share its colour and differ in their markers; no two rungs have marker and dash in common;
    floors have none. `rungs` is the table of rungs, `ladder` the entries in climbing order, which are the table's own
    where it is empty. A rung may be named by its label.
    """
    rungs = rungs[rungs["role"] != "floor"]
    named = [*ladder, *(_entry(name) for name in rungs["rung"])]
    entries = [entry for entry in dict.fromkeys(named) if entry != baseline]
    colors, markers, dashes = {baseline: "black"}, {baseline: "X"}, {baseline: (3, 2)}
    variants: dict[str, int] = {}
    for name in rungs["rung"]:
        if name == baseline:
            continue
        entry = _entry(name)
        index = entries.index(entry)
        variants[entry] = variants.get(entry, -1) + 1
        colors[name] = PALETTE[index % len(PALETTE)]
        markers[name] = MARKERS[(index + variants[entry]) % len(MARKERS)]
        first = index // len(PALETTE) % len(DASHES)
        taken = {dashes[other] for other in dashes if markers[other] == markers[name]}
        dashes[name] = next((dash for dash in (*DASHES[first:], *DASHES) if dash not in taken), DASHES[first])
    order = {name: colors[name] for name in rungs["rung"]} | {baseline: colors[baseline]}
    return Key("rung", order, markers, dashes, direct)


def families(rungs: pd.DataFrame, baseline: str) -> dict[str, list[str]]:
    """The rungs of each panel of a figure of rungs, by the panel's title.

    Rungs of FP32's pipe stand apart from those of tensor cores. Each kind is shared out in climbing order to as few
    panels as it takes for MOST rungs at most; the baseline stands in all of them. `rungs` is the table of that name,
    its rungs by their labels.
    """
    found: dict[str, list[str]] = {}
    others = rungs[rungs["rung"] != baseline]
    for kind, part in (
        ("FP32", others[others["precision"] == "fp32"]),
        ("Tensor cores", others[others["precision"] != "fp32"]),
    ):
        names, count = list(part["rung"]), -(-len(part) // MOST)
        for place in range(count):
            chunk = names[place * len(names) // count : (place + 1) * len(names) // count]
            ends = list(dict.fromkeys(_entry(name) for name in (chunk[0], chunk[-1])))
            found[f"{kind}: {' to '.join(ends)}"] = [*chunk, baseline]
    return found or {"": [baseline]}


def in_panels(rows: pd.DataFrame, members: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The rows of each panel's rungs, with the panel in the column `family`; those of several panels several times."""
    return pd.concat([rows[rows["rung"].isin(names)].assign(family=title) for title, names in members.items()])


def behind_panels(rows: pd.DataFrame, members: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The rows of the rungs that stand in other panels alone, for each panel, with the rung in the column `other`."""
    shown = rows[rows["rung"].isin(set().union(*members.values()))].rename(columns={"rung": "other"})
    return pd.concat([shown[~shown["other"].isin(names)].assign(family=title) for title, names in members.items()])


def family_choice(members: Mapping[str, Sequence[str]]) -> Choice:
    """The choice of one of the panels of `families`."""
    return Choice("family", "Rungs", list(members), next(iter(members)))


def _entry(label: str) -> str:
    return name_of(label).split("@")[0]
