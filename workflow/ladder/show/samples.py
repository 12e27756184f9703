"""From each number of the report to its samples: what its section of records shows, and the links that lead there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from ladder.model.precision import name_of
from ladder.show.origin import origins

STAGES = {
    "check": "check",
    "sanitize": "compute-sanitizer",
    "time": "times",
    "profile": "profile",
    "accuracy": "errors",
    "sustained": "launches back to back",
}


def target(stage: str, rung: str, shape: str = "") -> str:
    """The id of a record's entry in the report; `rung` is a name or a label."""
    return "-".join(filter(None, (stage, name_of(rung), str(shape))))


def link(text: str, to: str) -> str:
    """A number, as HTML, that leads to its record where it has one; empty text stays empty."""
    return f'<a href="#{to}">{text}</a>' if text and to else text


def entries(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """What is recorded, by rung: id, title, file, its address from the report, key, origin, and the samples of times.

    Samples are (kernel, key, times in ms apart by spaces), of the rung and of what was timed beside it.
    """
    records = tables["records"]
    if "accuracy" in tables:
        of_errors = tables["accuracy"].drop_duplicates("rung")
        files = [f"raw/accuracy/{name_of(rung)}.json" for rung in of_errors["rung"]]
        records = pd.concat([records, of_errors.assign(stage="accuracy", shape="", file=files, key="points")])
    records = records.reset_index(drop=True)
    samples: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for row in tables["samples"].itertuples() if "samples" in tables else ():
        samples.setdefault((row.rung, row.shape), []).append((row.kernel, row.key, row.times_ms))
    found: dict[str, list[dict[str, Any]]] = {}
    for row, origin in zip(records.itertuples(), origins(records).itertuples(index=False), strict=True):
        found.setdefault(row.rung, []).append(
            {
                "id": target(row.stage, row.rung, row.shape),
                "title": f"{STAGES[row.stage]} at {row.shape}" if row.shape else STAGES[row.stage],
                "file": row.file,
                "address": quote(f"../{row.file}"),
                "key": row.key,
                "origin": f"{origin.card}, cuBLAS {origin.cuBLAS}, commit {origin.commit}, {origin.day}",
                "samples": samples.get((row.rung, row.shape), []) if row.stage == "time" else [],
            }
        )
    return found


def with_links(page: str, rung: str) -> str:
    """A rung's page as HTML with links: from the times of its benchmark, and to files, from the report's folder."""

    def linked(row: re.Match[str]) -> str:
        return re.sub(
            r"<td>([^<]+)</td>", lambda cell: f"<td>{link(cell[1], target('time', rung, row[1]))}</td>", row[0]
        )

    before, heading, rest = page.replace('href="../', 'href="').partition("<h2>Benchmark</h2>")
    section, end, after = rest.partition("<h2>")
    return before + heading + re.sub(r"<tr>\n<td>(.+?)</td>.*?</tr>", linked, section, flags=re.DOTALL) + end + after


def mentioned(lines: Sequence[str], rungs: pd.DataFrame, shape: str) -> list[Markup]:
    """A link to the samples of each rung in sentences, at the size that they name behind it, or else at `shape`.

    `rungs` is the table of rungs, named by their labels.
    """
    found = {}
    for line in lines:
        for label in rungs["rung"]:
            if named := re.search(rf"(?<![\w@]){re.escape(label)}(?![\w@])(?:[^:]*? at (\d+))?", line):
                at = named[1] or shape
                found[target("time", label, at)] = f"{label} at {at}"
    return [Markup(link(text, to)) for to, text in found.items()]
