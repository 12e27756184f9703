"""The README's figure: speed as a share of cuBLAS's by size, and the error by k beside cuBLAS's."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ladder.model.precision import labelled
from ladder.show.figures.specification import Axis, Choice, Layer, Specification, apart, size_axis
from ladder.show.style import rung_key
from ladder.tables.timings import square_rows

SPEED = "Speed of FP32 rungs: % of cuBLAS"
TENSOR_SPEED = "Speed of rungs on tensor cores: % of cuBLAS in FP32"
ERROR = "Error: norm of C - AB / norm of AB"
FASTER = {
    SPEED: ("tiled@TILE=32", "async_copy", "fastest"),
    TENSOR_SPEED: ("mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16", "adaptive_3xfp16"),
}
ACCURATE = ("cublas_tf32", "mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16")
SIZE, FAMILY = 1024, "normal"  # m = n and the inputs of the panel of errors


def figure(
    timings: pd.DataFrame, rungs: pd.DataFrame, accuracy: pd.DataFrame, baseline: str, ladder: Sequence[str] = ()
) -> Specification:
    """The rates of FASTER in % of the baseline's by m = n = k, and the norm-wise error of ACCURATE by k.

    `timings`, `rungs` and `accuracy` are the tables of those names; `ladder` is the entries in climbing order, which
    give each rung its colour. Rungs that a table does not hold are left out.
    """
    shares = square_rows(timings).dropna(subset=["speedup_over_cublas"])
    shares = shares.assign(at=shares["n"], value=100 * shares["speedup_over_cublas"])
    of = {panel: shares[shares["rung"].isin([baseline, *names])].assign(panel=panel) for panel, names in FASTER.items()}
    errors = accuracy[(accuracy["m"] == SIZE) & (accuracy["family"] == FAMILY)]
    errors = errors[errors["rung"].isin([baseline, *ACCURATE])]
    errors = errors.assign(panel=ERROR, at=errors["k"], value=errors["error_normwise"])
    by_k = Axis("k", "log", {k: str(k) for k in (64, 1024, 16384)}, (48, 90000))
    by_error = Axis("", "log", limits=(1e-7, 5e-4))
    errors = errors.assign(at=apart(errors, "at", "value", by_k, by_error, width=0.012, height=0.07))
    data = pd.concat([part[["rung", "panel", "at", "value"]] for part in (*of.values(), errors)])
    rates = pd.concat(of.values())
    best = rates.loc[rates["rung"] != baseline].nlargest(1, "value")
    title = f"{best['rung'].item()} runs at up to {best['value'].item():.0f} % of cuBLAS" if len(best) else "Overview"
    by_size = size_axis(rates["n"])
    return Specification(
        title=title,
        note="100 % is the faster of cuBLAS's default and its best algorithm. Errors are of products with"
        f" m = n = {SIZE} and {FAMILY} inputs, against a product in float64. Marks that would cover each other are"
        " moved sideways a little.",
        layers=[
            Layer("line", labelled(data, rungs), "at", "value", key=rung_key(labelled(rungs, rungs), baseline, ladder))
        ],
        x={SPEED: by_size, TENSOR_SPEED: by_size, ERROR: by_k},
        y={
            SPEED: Axis("", "log", {share: f"{share} %" for share in (25, 50, 100)}),
            TENSOR_SPEED: Axis("", "log", {share: f"{share} %" for share in (100, 200, 400)}),
            ERROR: by_error,
        },
        panels=Choice("panel", "Panel", [SPEED, TENSOR_SPEED, ERROR], SPEED),
        height=1.9,
    )
