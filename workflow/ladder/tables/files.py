"""Tables on disk: CSV with six significant digits."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ladder.records import store


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV with six significant digits."""
    store.write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


TEXT_COLUMNS = (
    "rung",
    "claims",
    "shape",
    "launched_at",
    "before",
    "baseline",
    "message",
    "emulation",
    "determinism",
    "profile_message",
    "source",
    "throttle_reasons",
    "reference",
    "energy_from",
    "measured_at",
    "card",
    "cublas_version",
    "commit",
    *(f"baseline_{name}" for name in ("card", "cublas_version", "commit", "measured_at")),
    "sizes",
    "compared_with",
    "reason",
    "key",
)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table that `write_table` wrote: empty text stays empty text, shapes stay text."""
    columns = pd.read_csv(path, nrows=0).columns
    empty = {column: [""] for column in columns if column not in TEXT_COLUMNS}
    return pd.read_csv(path, dtype=dict.fromkeys(TEXT_COLUMNS, str), keep_default_na=False, na_values=empty)
