"""Every GPU that has records beside the others, at the size that they share most of."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ladder.model.precision import TITLES, label
from ladder.show.figures.specification import MARKERS, PALETTE, Axis, Choice, Key, Layer, Specification
from ladder.tables.across import common_size
from ladder.tables.timings import square_rows

# unit -> (column of the table, factor); only rungs of FP32 have a share of its peak
_METRICS = {
    "TFLOP/s": ("gflops", 1e-3),
    "% of cuBLAS": ("share_of_cublas", 100),
    "% of FP32 peak": ("share_of_peak", 100),
}


def gpu_key(table: pd.DataFrame) -> Key:
    """Colour and marker of each GPU."""
    names = sorted(table["gpu"].unique())
    return Key(
        "gpu",
        {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)},
        {name: MARKERS[place % len(MARKERS)] for place, name in enumerate(names)},
    )


def with_labels(table: pd.DataFrame, claims: Mapping[str, str]) -> pd.DataFrame:
    """A table of `across_table` with labels in place of the rungs' names; `claims` are those of restricted rungs."""
    return table.assign(rung=[label(row.rung, row.precision, claims.get(row.rung, "")) for row in table.itertuples()])


def figure(table: pd.DataFrame, baseline: str, claims: Mapping[str, str]) -> Specification:
    """Rate, share of cuBLAS and share of peak of each rung on each GPU; the arguments are those of `with_labels`.

    The rungs of FP32 stand apart from those of tensor cores.
    """
    size = common_size(table)
    rows = square_rows(table)
    rows = rows[rows["n"] == size]
    named, kinds = with_labels(rows, claims), _kinds(rows)
    nan = float("nan")
    parts = [
        named[["rung", "gpu"]].assign(
            panel=kinds + f": {metric}",
            value=factor * rows[column],
            **{end: factor * rows.get(f"{column}_ci_{end}", nan) for end in ("low", "high")},
        )
        for metric, (column, factor) in _METRICS.items()
    ]
    data = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    order = with_labels(table, claims)["rung"].groupby(_kinds(table)).unique()  # as the ladder climbs
    recorded = {kind: [name for name in names if name in set(data["rung"])] for kind, names in order.items()}
    y = {f"{kind}: {metric}": Axis(scale="names", names=recorded[kind]) for kind in recorded for metric in _METRICS}
    panels = [panel for panel in y if panel in set(data["panel"])]
    return Specification(
        title=_title(rows, baseline, size),
        note=f"Medians with their 95 % intervals. {_shares(rows)}",
        layers=[Layer("point", data, "value", "rung", key=gpu_key(table), low="low", high="high", dodge=True)],
        x=Axis(limits=(0, None)),
        y=y if panels else Axis(),
        panels=Choice("panel", "Panel", panels, panels[0]) if panels else None,
        columns=len(_METRICS),
    )


def _kinds(table: pd.DataFrame) -> pd.Series:
    """Which panels the rungs of each row stand in."""
    return table["precision"].eq("fp32").map({True: "FP32", False: "Tensor cores"})


def _shares(rows: pd.DataFrame) -> str:
    """Which library each class's shares of cuBLAS are of."""
    of = rows.groupby("precision", sort=False)["baseline"].agg(lambda names: " or ".join(sorted(set(names))))
    named = {library: [TITLES[each] for each in of.index[of == library]] for library in of.unique()}
    said = ", ".join(f"of {library} for {' and '.join(titles)}" for library, titles in named.items())
    return f"Shares of cuBLAS are {said}, measured side by side." if said else ""


def _title(rows: pd.DataFrame, baseline: str, size: int | None) -> str:
    libraries = {baseline, *rows["baseline"]}
    best = rows[~rows["rung"].isin(libraries) & (rows["precision"] == "fp32")].dropna(subset=["gflops"])
    if best.empty:
        return "No rung is recorded at a square size"
    best = best.loc[best.groupby("gpu")["gflops"].idxmax()].sort_values("gflops", ascending=False)
    parts = [f"{row.rung} {row.gflops / 1000:.1f} TFLOP/s on {row.gpu}" for row in best.head(3).itertuples()]
    more = "" if len(best) <= 3 else f" (of {len(best)} GPUs)"
    return f"The best FP32 rung at {size}: {', '.join(parts)}{more}"
