"""Records the errors of split numbers beside cuBLAS's from shape to shape, and shows them in the performance log.

usage: python tests/record_errors.py gpu     on a GPU: results/GPU/raw/errors.json
       python tests/record_errors.py page    the table of docs/performance.md from the record
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests")]

from ladder.config.plan import Plan  # noqa: E402
from ladder.measure.accuracy.worker import inputs_of  # noqa: E402
from ladder.measure.check.worker import in_float64  # noqa: E402
from ladder.model.shape import Shape  # noqa: E402
from ladder.records import store  # noqa: E402
from ladder.records.provenance import environment, settings_digest  # noqa: E402
from ladder.show.figures.accuracy import FAMILIES  # noqa: E402
from record_measuring import between, checked_builds, record_as  # noqa: E402

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
    **FAMILIES,
    "cancellation": "cancelling",
    "signed_zeros": "seven of eight are zeros",
    "subnormal": "A subnormal",
}
ROUNDING = 0.005  # of a share with two decimals
RECORD = ROOT / "results/h100-sxm/raw/errors.json"
PAGE = ROOT / "docs/performance.md"
MARKS = ("<!-- errors: python tests/record_errors.py page -->\n", "<!-- end of errors -->\n")


def points(libraries: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """For each family, size of C and k the norm-wise errors by rung, against float64: of corners of one A and B."""
    import cupy as cp
    from ladder.build.library import Library, Operands, provide_cublas

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
                        sys.exit(f"{name} asks for {needed} bytes of workspace at {shape}")
                    C.fill(cp.nan)
                    if error := library.queue(shape, 1.0, 0.0, operands, workspace.data.ptr, 0):
                        sys.exit(f"{name} at {shape}: sgemm returned {error}")
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


def table(record: Mapping[str, Any]) -> list[str]:
    """The record in Markdown: how often limits are exceeded, and the largest error."""
    where = record["where"]
    lines = [
        f"On {where['gpu']['name']}, {where['measured_at'][:10]}, {len(SIZES) * len(KS)} shapes (`raw/errors.json`):",
        "",
        "| inputs | limit, of cuBLAS's error | " + " | ".join(f"`{rung}`: above it, largest" for rung in SPLIT) + " |",
        "| --- | --- |" + " --- |" * len(SPLIT),
    ]
    for family, title in TITLES.items():
        cells = [
            f"{len(above(record, family, rung))}, {max(shares(record, family, rung).values()):.2f}" for rung in SPLIT
        ]
        lines.append(f"| {title} | {limit(family):g} | {' | '.join(cells)} |")
    return [*lines, ""]


def with_table(text: str, record: Mapping[str, Any]) -> str:
    """The page with its table made anew."""
    return between(text, MARKS, table(record))


def main() -> None:
    """Do what the arguments ask for."""
    match sys.argv[1:]:
        case ["gpu"]:
            record_as(RECORD.name, on_gpu)
        case ["page"]:
            store.write_text(PAGE, with_table(PAGE.read_text(), store.read_json(RECORD)))
        case _:
            sys.exit(re.sub(r"\n\n", "\n", __doc__))


if __name__ == "__main__":
    main()
