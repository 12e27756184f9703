"""The process that checks one rung on the GPU, case by case, against a float64 reference.

Every buffer lies between guard bands, leading-dimension gaps and guards hold NaNs of a known bit pattern, inputs that
must not be read hold NaNs, and so does a C that must not be read. A NaN where a number belongs never passes.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from ladder import worker
from ladder.bounds import componentwise_bound, normwise_bound
from ladder.config import Shape
from ladder.library import Library, Operands, explain, provide_cublas

GUARD = 1024  # floats before and behind each matrix; a multiple of the 256 bytes that CUDA aligns allocations to
SENTINEL = np.uint32(0x7FC0DEAD)  # a quiet NaN that no arithmetic produces
HUGE = 1e300  # stands for a relative error of something that should be exactly zero
PANEL_BYTES = 1 << 28  # of a float64 panel of C: the reference of a large product is made panel by panel


@dataclass(frozen=True)
class Buffer:
    """A rows x columns matrix with leading dimension ld inside a guarded allocation; all on the GPU."""

    memory: Any
    before: Any
    rows: int
    columns: int
    ld: int
    start: int

    @property
    def pointer(self) -> int:
        """Address of the first element."""
        return self.memory.data.ptr + 4 * self.start

    @property
    def matrix(self) -> Any:
        """The elements, a rows x columns view."""
        return _view(self.memory, self.rows, self.columns, self.ld, self.start)

    def touched_outside(self) -> bool:
        """Whether anything but the elements differs from what it was."""
        now = self.memory.view(cp.uint32).copy()
        was = self.before.view(cp.uint32)
        _view(now, self.rows, self.columns, self.ld, self.start)[...] = _view(
            was, self.rows, self.columns, self.ld, self.start
        )
        return not bool((now == was).all())

    def touched(self) -> bool:
        """Whether anything at all differs from what it was."""
        return not bool((self.memory.view(cp.uint32) == self.before.view(cp.uint32)).all())


def _view(memory: Any, rows: int, columns: int, ld: int, start: int) -> Any:
    return memory[start : start + rows * ld].reshape(rows, ld)[:, :columns]


def buffer(values: np.ndarray | None, rows: int, columns: int, padding: int, offset: int) -> Buffer:
    """A guarded matrix on the GPU with the values given, or with NaNs for None."""
    ld = max(1, columns + padding)
    start = GUARD + offset
    host = np.full(start + rows * ld + GUARD, SENTINEL, np.uint32).view(np.float32)
    if values is not None:
        _view(host, rows, columns, ld, start)[...] = values
    memory = cp.asarray(host)
    return Buffer(memory, memory.copy(), rows, columns, ld, start)


def check_case(library: Library, case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Run one case; its record: the case, the seed, both errors, and the verdict.

    The verdict is `pass` or what is wrong. The errors are null where nothing could be compared.
    """
    shape = Shape.parse(case["shape"])
    alpha, beta = case["alpha"], case["beta"]
    random = np.random.default_rng(seed)

    def uniform(rows: int, columns: int) -> np.ndarray:
        values = random.random((rows, columns), dtype=np.float32)
        values *= 2  # in place: matrices may be large, and touching fresh memory is what drawing them costs most
        values -= 1
        return values

    product = alpha != 0 and shape.k > 0
    A = buffer(uniform(shape.m, shape.k) if product else None, shape.m, shape.k, case["padding"], case["offset"])
    B = buffer(uniform(shape.k, shape.n) if product else None, shape.k, shape.n, case["padding"], case["offset"])
    C = buffer(uniform(shape.m, shape.n) if beta != 0 else None, shape.m, shape.n, case["padding"], case["offset"])
    operands = Operands(A.pointer, A.ld, B.pointer, B.ld, C.pointer, C.ld)

    record = {**case, "seed": seed, "error_componentwise": None, "error_normwise": None}
    before = C.matrix.copy()
    bytes_needed = library.workspace_bytes(shape, alpha, beta, operands)
    workspace = cp.full(max(1, bytes_needed // 4 + 1), SENTINEL, cp.uint32)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.runtime.deviceSynchronize()
    error = library.queue(shape, alpha, beta, operands, workspace.data.ptr, stream.ptr)
    if error:
        return record | {"verdict": f"sgemm returned {explain(error)}"}
    stream.synchronize()
    if C.touched_outside():
        return record | {"verdict": "wrote outside the m x n elements of C"}
    if A.touched() or B.touched():
        return record | {"verdict": "wrote into A or B"}
    if shape.m == 0 or shape.n == 0:
        return record | {"verdict": "pass"}
    return record | judge(shape, alpha, beta, A.matrix, B.matrix, before, C.matrix)


def judge(shape: Shape, alpha: float, beta: float, A: Any, B: Any, before: Any, C: Any) -> dict[str, Any]:
    """Compare C with the float64 product, panel by panel; the errors and the verdict."""
    product = alpha != 0 and shape.k > 0
    scalar_a, scalar_b = float(np.float32(alpha)), float(np.float32(beta))
    B64 = B.astype(cp.float64) if product else None
    absolute_B = cp.abs(B64) if product else None
    rows = max(1, PANEL_BYTES // (8 * shape.n))
    squares = {"error": 0.0, "product": 0.0, "terms": 0.0, "addend": 0.0}
    componentwise = 0.0
    for first in range(0, shape.m, rows):
        panel = slice(first, min(first + rows, shape.m))
        expected = cp.zeros((panel.stop - first, shape.n))
        scale = cp.zeros_like(expected)
        if product:
            A64 = A[panel].astype(cp.float64)
            expected += scalar_a * (A64 @ B64)
            scale += abs(scalar_a) * (cp.abs(A64) @ absolute_B)
            squares["product"] += float((expected**2).sum())
            squares["terms"] += scalar_a**2 * float(((A64**2).sum(axis=0) * (B64**2).sum(axis=1)).sum())
        if beta != 0:
            addend = scalar_b * before[panel].astype(cp.float64)
            expected += addend
            scale += cp.abs(addend)
            squares["addend"] += float((addend**2).sum())
        difference = cp.abs(C[panel].astype(cp.float64) - expected)
        if not bool(cp.isfinite(difference).all()):
            return {"verdict": _first_wrong(cp.isfinite(difference), first, "NaN or infinity")}
        squares["error"] += float((difference**2).sum())
        ratio = cp.where(scale > 0, difference / cp.where(scale > 0, scale, 1), cp.where(difference > 0, HUGE, 0))
        componentwise = max(componentwise, float(ratio.max()))
    size = math.sqrt(squares["product"] + squares["terms"] + squares["addend"])
    normwise = math.sqrt(squares["error"]) / size if size else HUGE if squares["error"] else 0.0
    errors = {"error_componentwise": _rounded(componentwise), "error_normwise": _rounded(normwise)}
    if not componentwise <= componentwise_bound(shape.k):
        return errors | {"verdict": "an element's error exceeds the bound of an FP32 product"}
    if not normwise <= normwise_bound(shape.k):
        return errors | {"verdict": "the error's norm exceeds that of FP32 rounding"}
    return errors | {"verdict": "pass"}


def _rounded(error: float) -> float:
    return float(f"{error:.4g}")


def _first_wrong(right: Any, first_row: int, what: str) -> str:
    row, column = (int(index) for index in cp.unravel_index(cp.argmin(right), right.shape))
    return f"{what} at row {first_row + row}, column {column}"


def main() -> None:
    """Check the cases of the request, one event each."""
    asked = worker.request()
    try:
        cp.cuda.Device(asked["device"]).use()
        provide_cublas()
        library = Library(Path(asked["library"]))
        for case in asked["cases"]:
            worker.emit(starts=case)
            worker.emit(case=check_case(library, case, secrets.randbits(48)))
            cp.get_default_memory_pool().free_all_blocks()
    except Exception as error:  # whatever it is, the parent needs the line and the run goes on
        worker.fail_with(error)


if __name__ == "__main__":
    main()
