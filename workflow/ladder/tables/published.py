"""What others published beside what is measured here: the same rungs, in share of cuBLAS and in speedup over naive.

The figures of others ship as workflow/data/published.csv, each row with its source. Absolute times on other GPUs say
nothing about this one; shares, speedups and the step from one rung to the next do.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from ladder.system.paths import ROOT

DATA = ROOT / "workflow" / "data" / "published.csv"
LEVEL = 0.02  # a step of less than this share is neither up nor down
_SET = ["publication", "gpu", "sizes"]
PUBLISHED_COLUMNS = [
    *("publication", "gpu", "sizes", "kind", "kernel", "rung"),
    *("published_share_of_cublas", "share_of_cublas", "published_speedup_over_naive", "speedup_over_naive"),
    *("compared_with", "published_step", "step", "verdict", "source"),
]


def read_published() -> pd.DataFrame:
    """The published figures, with what follows from them.

    share_of_cublas, speedup_over_naive and speedup_over_before are ratios; where a publication does not give them but
    gives the rates or times that they are ratios of, at the same size on the same GPU, they are computed from those.
    `rung` is our rung of the same idea, empty where there is none; `sizes` is n, or 512+ for a geometric mean.
    """
    table = pd.read_csv(DATA, dtype={"sizes": str, "rung": str}).assign(before="")
    table["rung"] = table["rung"].fillna("")
    for _, rows in table.groupby(_SET, sort=False):
        for column, reference in (("share_of_cublas", "cublas"), ("speedup_over_naive", "naive")):
            of = rows[rows["rung"] == reference]
            if len(of):
                ratios = rows.apply(_ratio, axis=1, args=(of.iloc[0],))
                table.loc[rows.index, column] = rows[column].fillna(ratios)
        climbed = table.loc[rows.index][rows["rung"].ne("") & rows["rung"].ne("cublas")]
        for (_, before), (index, row) in pairwise(climbed.iterrows()):
            table.loc[index, "before"] = before["rung"]
            if pd.isna(row["speedup_over_before"]):
                first = before["rung"] == "naive" and pd.notna(row["speedup_over_naive"])
                table.loc[index, "speedup_over_before"] = row["speedup_over_naive"] if first else _ratio(row, before)
    return table


def _ratio(row: pd.Series, of: pd.Series) -> float:
    """How many times as fast a row is as another, from their rates or else their times; NaN where neither has both."""
    by_rate = row["gflops"] / of["gflops"]
    return by_rate if pd.notna(by_rate) else of["time_ms"] / row["time_ms"]


def compare_published(timings: pd.DataFrame, geomeans: pd.DataFrame) -> pd.DataFrame:
    """The published rows whose rung is measured here at the same sizes, with PUBLISHED_COLUMNS.

    `timings` and `geomeans` are the tables of those names. A step is the speedup over the rung before in the same
    publication; its verdict is `confirmed` where it goes the same way here (up, down, or less than 2 %), else
    `the other way`, and empty where there is no step to compare.
    """
    ours = _ours(timings, geomeans)
    rows = []
    for row in read_published().itertuples():
        here = ours.get((row.rung, row.sizes))
        given = (row.share_of_cublas, row.speedup_over_naive, row.speedup_over_before)
        if here is None or all(map(pd.isna, given)):
            continue
        before = ours.get((row.before, row.sizes))
        step = here["speedup_over_naive"] / before["speedup_over_naive"] if before else np.nan
        known = row.speedup_over_before if before else np.nan
        same = _direction(step) == _direction(known)
        values = (
            *(row.publication, row.gpu, row.sizes, row.kind, row.kernel, row.rung),
            *(row.share_of_cublas, here["share_of_cublas"], row.speedup_over_naive, here["speedup_over_naive"]),
            *(row.before if before else "", known, step),
            "" if np.isnan(known) or np.isnan(step) else "confirmed" if same else "the other way",
            row.source,
        )
        rows.append(dict(zip(PUBLISHED_COLUMNS, values, strict=True)))
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def _ours(timings: pd.DataFrame, geomeans: pd.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    square = timings[(timings["m"] == timings["n"]) & (timings["n"] == timings["k"])]
    found = {
        (row.rung, str(row.n)): {
            "share_of_cublas": row.speedup_over_cublas,
            "speedup_over_naive": row.speedup_over_naive,
        }
        for row in square.itertuples()
        if pd.notna(row.speedup_over_cublas) and pd.notna(row.speedup_over_naive)
    }
    means = geomeans.pivot(index="rung", columns="over", values="speedup") if len(geomeans) else pd.DataFrame()
    for row in means.itertuples():
        found[(row.Index, "512+")] = {"share_of_cublas": row.cublas, "speedup_over_naive": row.naive}
    return found


def _direction(step: float) -> int:
    return 0 if abs(step - 1) < LEVEL else 1 if step > 1 else -1


def findings(table: pd.DataFrame) -> list[str]:
    """What the comparison says, for each publication that climbs at least three rungs."""
    lines = []
    for (publication, gpu, sizes), rows in table[table["rung"] != "cublas"].groupby(_SET, sort=False):
        climbed = rows.dropna(subset=["published_speedup_over_naive", "speedup_over_naive"])
        climbed = climbed.drop_duplicates("rung")
        if len(climbed) < 3:
            continue
        agree, turned = _pairs(climbed)
        size = f"n = {sizes}" if sizes.isdigit() else f"sizes {size_words(sizes)}"
        what = "expects" if (rows["kind"] == "expected").all() else "found"
        order = f"{agree} of {agree + len(turned)} pairs of rungs stand in the order that it {what}"
        lines.append(f"{publication} ({gpu}, {size}): {order}{', but not ' + '; '.join(turned) if turned else ''}.")
        steps = rows.dropna(subset=["published_step", "step"])
        if len(steps):
            largest = steps.loc[steps["published_step"].idxmax()]
            lines[-1] += (
                f" Its largest step, {largest['compared_with']} to {largest['rung']}, is"
                f" {largest['published_step']:.2f} x there and {largest['step']:.2f} x here."
            )
            other = steps[steps["verdict"] == "the other way"]
            lines[-1] += "".join(
                f" {row.compared_with} to {row.rung} is {row.published_step:.2f} x there, but {row.step:.2f} x here."
                for row in other.itertuples()
            )
    return lines


def _pairs(rows: pd.DataFrame) -> tuple[int, list[str]]:
    """How many pairs of rungs stand in the same order there and here, and the pairs that do not, in words."""
    agree, turned = 0, []
    items = list(rows.itertuples())
    for index, one in enumerate(items):
        for other in items[index + 1 :]:
            there = one.published_speedup_over_naive - other.published_speedup_over_naive
            here = one.speedup_over_naive - other.speedup_over_naive
            if there * here > 0:
                agree += 1
            else:
                fast, slow = (one, other) if there > 0 else (other, one)
                turned.append(f"{fast.rung} before {slow.rung}")
    return agree, turned


def size_words(sizes: str) -> str:
    return sizes if sizes.isdigit() else f"from {sizes.rstrip('+')} up"
