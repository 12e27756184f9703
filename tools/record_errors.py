"""Errors of split numbers beside cuBLAS's from shape to shape: results/GPU/raw/errors.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ladder.config.plan import Plan
from ladder.measure.accuracy.worker import inputs_of
from ladder.measure.check.judge import in_float64
from ladder.model.shape import Shape
from ladder.records.provenance import environment, settings_digest
from ladder.show.figures.accuracy import FAMILY_TITLES
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from recording import checked_builds, record_as

SPLIT = ("mma_3xtf32", "wgmma_3xtf32", "wgmma_3xfp16")
RUNGS = ("cublas", *SPLIT)
SQUARES = (512, 768, 1000, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2304, 2560, 2688, 3072, 3328, 4096)
OBLONGS = (
    *((4096, 256), (2048, 512), (256, 4096), (3072, 768), (4096, 768)),
    *((1024, 2048), (1024, 3072), (1280, 1536), (3072, 2048)),
)
SIZES = (*((n, n) for n in SQUARES), *OBLONGS)
KS = (256, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384)
SEED = 8
TITLES = {
    "uniform": "uniform in [-1, 1)",
    **FAMILY_TITLES,
    "cancellation": "cancelling",
    "signed_zeros": "seven of eight are zeros",
    "subnormal": "A subnormal",
}
ROUNDING = 0.005  # of a share with two decimals
RECORD = ROOT / "results/h100-sxm/raw/errors.json"


def points(libraries: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """For each family, size of C and k the norm-wise errors by rung, against float64: of corners of one A and B."""
    import cupy as cp
    from ladder.build.library import Library, Operands
    from ladder.system.cublas import provide_cublas

    provide_cublas()
    loaded = {name: Library(path) for name, path in libraries.items()}
    m_most, n_most = (max(size) for size in zip(*SIZES, strict=True))
    C = cp.empty(m_most * n_most, cp.float32)
    workspace = cp.empty(1 << 31, cp.uint8)
    for family in TITLES:
        errors: dict[tuple[int, int], dict[str, list[float]]] = {size: {name: [] for name in loaded} for size in SIZES}
        for k in KS:
            inputs = inputs_of(family, Shape(m_most, n_most, k), SEED)
            A, B = cp.asarray(inputs.A), cp.asarray(inputs.B)
            A64, B64 = in_float64(A), in_float64(B)
            for m, n in SIZES:
                exact = A64[:m] @ B64[:, :n]
                shape, operands = Shape(m, n, k), Operands(A.data.ptr, k, B.data.ptr, n_most, C.data.ptr, n)
                for name, library in loaded.items():
                    needed = library.workspace_bytes(shape, 1.0, 0.0, operands)
                    if needed > workspace.nbytes:
                        raise LadderError(f"{name} asks for {needed} bytes of workspace at {shape}")
                    C.fill(cp.nan)
                    if error := library.queue(shape, 1.0, 0.0, operands, workspace.data.ptr, 0):
                        raise LadderError(f"{name} at {shape}: sgemm returned {error}")
                    difference = in_float64(C[: m * n].reshape(m, n)) - exact
                    found = cp.linalg.norm(difference) / cp.linalg.norm(exact)
                    errors[m, n][name].append(float(f"{float(found):.3g}"))
        for (m, n), found in errors.items():
            yield {"family": family, "m": m, "n": n, "k": KS, "errors_normwise": found}


def on_gpu(run: Plan) -> dict[str, Any]:
    """The record: where it was made, and the errors of every product."""
    builds = checked_builds(run, RUNGS)
    found = list(points({name: made.library for name, made in builds.items()}))
    settings = settings_digest({"settings": [RUNGS, SIZES, KS, SEED]})
    return {"where": environment(ROOT, run.device, builds[SPLIT[0]].record, settings), "points": found}


def shares(record: Mapping[str, Any], family: str, rung: str) -> dict[tuple[int, int, int], float]:
    """The error of a rung, of cuBLAS's, by m, n and k."""
    return {
        (at["m"], at["n"], k): error / cublas
        for at in record["points"]
        if at["family"] == family
        for k, error, cublas in zip(at["k"], at["errors_normwise"][rung], at["errors_normwise"]["cublas"], strict=True)
    }


def limit(family: str) -> float:
    """How many times cuBLAS's error a rung's may be."""
    return 1.5 if family == "positive" else 1.0


def above(record: Mapping[str, Any], family: str, rung: str) -> dict[tuple[int, int, int], float]:
    """The shares that are above the limit, by m, n and k."""
    return {at: share for at, share in shares(record, family, rung).items() if share > limit(family) + ROUNDING}


def record_gpu() -> None:
    """On a GPU: results/GPU/raw/errors.json."""
    record_as(RECORD.name, on_gpu)


COMMANDS = {"gpu": record_gpu}
