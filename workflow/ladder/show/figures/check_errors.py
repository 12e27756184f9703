"""The largest error of each rung over its bound, by k."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.show.figures.specification import PALETTE, Axis, Choice, Layer, Specification


def figure(checks: pd.DataFrame, order: Sequence[str]) -> Specification:
    """A point a k of one rung, the other rungs grey. `checks` is the table; an error at its bound is 1."""
    ratio = checks["error_componentwise"] / checks["bound_componentwise"]
    table = checks.assign(share=ratio.where(checks["bound_componentwise"] > 0)).dropna(subset=["share"])
    table = table.assign(k=table["shape"].astype(str).str.split("x").str[-1].astype(int))
    table = table[(table["share"] > 0) & (table["k"] > 0)]
    worst = table.loc[table.groupby(["rung", "k"])["share"].idxmax(), ["rung", "k", "share", "shape", "alpha", "beta"]]
    rungs = [rung for rung in order if rung in set(worst["rung"])]
    hints = {name: name for name in ("rung", "shape", "alpha", "beta")} | {"share": "error / bound"}
    return Specification(
        title="Checks",
        note="The largest component-wise error of each rung at each k over its bound. A rung whose error passes 1 is"
        " wrong and is not timed. Grey: the other rungs.",
        layers=[
            Layer("point", worst[["k", "share"]], "k", "share", behind=True),
            Layer("rule", pd.DataFrame({"share": [1.0], "text": "the bound"}), y="share", text="text"),
            Layer("point", worst, "k", "share", color=PALETTE[1], hints=hints),
        ],
        x=Axis("k", "log"),
        y=Axis("error / bound", "log"),
        choices=[Choice("rung", "Rung", rungs, rungs[0])] if rungs else [],
    )
