"""Where each item of five public worklogs is answered: docs/worklogs.yaml as rows, every answer looked up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from doc_numbers import GPU
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.model.metrics import METRICS
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.tables.files import read_table
from ladder.tables.published import read_published

ITEMS = ROOT / "docs" / "worklogs.yaml"
KINDS = ("system", "kernel", "measurement", "method", "finding", "recommendation")
_QUANTITIES = {"time": "time, ms"}  # of the table published, where the name has a comma


def answers(text: str) -> list[tuple[str, str]]:
    """Kind and name of each answer of an item: `metric:ipc_active, timings.gflops` has a metric and a column."""
    found = []
    for part in text.split(", "):
        kind, colon, name = part.partition(":")
        if colon:
            found.append((kind, name))
        elif "/" in part:
            found.append(("file", part))
        else:
            found.append(("column", part))
    return found


def missing(kind: str, name: str, gpu: str = GPU) -> str:
    """Why an answer is none; empty where it is there. Sections of pages are held by a test."""
    tables = ROOT / "results" / gpu / "tables"
    if kind == "file":
        written = ROOT / "docs" / "templates" / f"{Path(name).name}.j2"  # a page that is perhaps not yet written
        return "" if (ROOT / name).exists() or written.exists() else "there is no such file"
    if kind == "column":
        table, _, column = name.partition(".")
        of_any = (ROOT / "results").glob(f"*/tables/{table}.csv")  # not every GPU's parts and surveys are measured
        return "" if any(column in read_table(path) for path in of_any) else "there is no such column"
    if kind == "metric":
        profiled = set(read_table(tables / "profiles.csv")["name"])
        return "" if name in METRICS or name in profiled else "there is no such metric"
    if kind == "rung":
        return "" if name in {rung.name for rung in read_kernels(KERNELS).values()} else "there is no such rung"
    if kind == "published":
        quantities = set(read_table(tables / "published.csv")["quantity"])
        return "" if _QUANTITIES.get(name, name) in quantities else "nothing is compared under this name"
    return "" if kind in ("page", "timeline") else "an answer of no known kind"


def _shown(kind: str, name: str) -> str:
    if kind == "file":
        return f"[{Path(name).name}](../{name})"
    words = {"column": "column `{}`", "metric": "metric `{}`", "rung": "`{}`", "published": "published: {}"}
    words |= {"page": "page, {}", "timeline": "timeline, {}"}
    return words[kind].format(_QUANTITIES.get(name, name))


def worklogs() -> dict[str, Any]:
    """`number` of items, `kinds` (how many of each), and `logs`: title and rows of kind, what, where and why.

    Raises LadderError where an item has a kind that is none, or an answer that is not there.
    """
    logs, kinds = [], Counter()
    for title, items in read_yaml(ITEMS).items():
        rows = []
        for kind, what, where, *why in items:
            kinds[kind] += 1
            if kind not in KINDS:
                raise LadderError(f"docs/worklogs.yaml: {what}: {kind!r} is none of {', '.join(KINDS)}")
            for each in answers(where):
                if problem := missing(*each):
                    raise LadderError(f"docs/worklogs.yaml: {what}: {each[1]}: {problem}")
            shown = ", ".join(_shown(*each) for each in answers(where))
            rows.append({"kind": kind, "what": what, "where": shown, "why": "".join(why)})
        logs.append({"title": title, "rows": rows})
    return {"number": sum(kinds.values()), "kinds": {kind: kinds[kind] for kind in KINDS}, "logs": logs}


def ladder_as_published() -> list[tuple[str, str, str]]:
    """The kernels of publications, once each: who published it, its name there, our rung or variant."""
    found = {}
    for row in read_published().to_dict("records"):
        if row["rung"]:
            found[row["publication"], row["kernel"]] = row["trial"] or row["rung"]
    return [(publication, kernel, rung) for (publication, kernel), rung in found.items()]
