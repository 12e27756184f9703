"""From where the rows of a table come: said once above it where all agree, and in columns where they do not."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from ladder.records.digests import CHANGED_SINCE

_DIRTY = "-dirty"


def _short_commit(commit: str) -> str:
    return commit.removesuffix(_DIRTY)[:12] + _DIRTY * commit.endswith(_DIRTY)


# The columns of a narrow table: of which column each is made, and what of it is shown.
_SHOWN: dict[str, tuple[str, Callable[[str], str]]] = {
    "card": ("card", lambda card: card.rpartition(", ")[2][:12]),  # GPU- and the first eight digits of the UUID
    "cuBLAS": ("cublas_version", str),
    "commit": ("commit", _short_commit),
    "day": ("measured_at", lambda time: time[:10]),
}


def origins(rows: pd.DataFrame) -> pd.DataFrame:
    """Card, cuBLAS, commit and day of a table's rows in short, with its index; several stay joined by `; `."""

    def shown(text: str, short: Callable[[str], str]) -> str:
        return "; ".join(map(short, text.split("; ")))

    return pd.DataFrame(
        {title: rows[name].map(lambda text, short=short: shown(text, short)) for title, (name, short) in _SHOWN.items()}
    )


def origin_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of `origins` in which the rows do not agree."""
    found = origins(rows)
    return found[[title for title in found if found[title].nunique() > 1]]


def origin_words(rows: pd.DataFrame) -> str:
    """`NVIDIA H100 80GB HBM3 (GPU-01234567), cuBLAS 13.1.0, commit 0123456789ab, 2026-01-02`: where rows come from."""
    found = _found(rows)
    names = sorted({card.rpartition(", ")[0] for text in rows["card"] for card in text.split("; ")})
    days = " to ".join(dict.fromkeys([found["day"][0], found["day"][-1]]))
    return (
        f"{', '.join(names)} ({', '.join(found['card'])}), cuBLAS {', '.join(found['cuBLAS'])}, "
        f"commit {', '.join(found['commit'])}, {days}"
    )


def origin_groups(rows: pd.DataFrame) -> list[str]:
    """`GPU-01234567, 0123456789ab, 2026-01-02: naive, tiled`: what rows differ in, with the rungs of each origin.

    Empty where all agree.
    """
    differing = origin_columns(rows)
    if differing.empty:
        return []
    groups = rows["rung"].groupby([differing[title] for title in differing], sort=False)
    return [f"{', '.join(origin)}: {', '.join(dict.fromkeys(rungs))}" for origin, rungs in groups]


def _found(rows: pd.DataFrame) -> dict[str, list[str]]:
    return {
        title: sorted({part for text in texts for part in text.split("; ")}) for title, texts in origins(rows).items()
    }


def changed_line(rows: pd.DataFrame) -> str:
    """The rungs of a table with a column `source` that were recorded from other sources than today's; or empty."""
    changed = dict.fromkeys(rows.loc[rows["source"] == CHANGED_SINCE, "rung"])
    return f"Recorded from other sources than the present ones: {', '.join(changed)}." if changed else ""


def origin_line(rows: pd.DataFrame) -> str:
    """On which cards, with which cuBLAS, at which commits and on which days a table's rows were recorded, in words.

    It begins with whether they agree; several days are no disagreement. Empty without rows.
    """
    rows = rows[rows["card"] != ""]
    if rows.empty:
        return ""
    found = _found(rows)
    apart = {"card": "cards", "cuBLAS": "versions of cuBLAS", "commit": "commits"}
    mixed = [f"{len(found[title])} {many}" for title, many in apart.items() if len(found[title]) > 1]
    first = (
        f"These numbers come from {' and '.join(mixed)}"
        if mixed
        else "All of these numbers come from one card and one commit"
    )
    line = f"{first}: {origin_words(rows)}."
    if any(commit.endswith(_DIRTY) for commit in found["commit"]):
        line += f" {_DIRTY} marks a commit with changes that were not committed."
    return line
