"""The process that compute-sanitizer watches: a rung's products, on memory of exactly the size that each matrix has.

Every matrix is an allocation of its own, so that memcheck knows its ends, and a C that must not be read is left
uninitialised, so that initcheck knows when it is. C is copied back at the end, which initcheck watches as well: an
element that was never written is found there. Nothing here launches a kernel but the rung.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cupy as cp
import numpy as np

from ladder.build.library import Library, Operands, explain
from ladder.model.cases import Case
from ladder.system.cublas import provide_cublas
from ladder.system.errors import LadderError
from ladder.system.process import watched

runtime = cp.cuda.runtime


def upload(matrix: np.ndarray | None, rows: int, columns: int, padding: int, offset: int) -> tuple[int, int, int]:
    """A matrix in memory of its own, uninitialised for None: the allocation, the first element and ld."""
    ld = max(1, columns + padding)
    elements = offset + (max(rows, 1) - 1) * ld + max(columns, 1)
    memory = runtime.malloc(4 * elements)
    if matrix is not None:
        host = np.full(offset + max(rows, 1) * ld, np.nan, np.float32)
        host[offset : offset + rows * ld].reshape(rows, ld)[:, :columns] = matrix
        runtime.memcpy(memory, host.ctypes.data, 4 * elements, runtime.memcpyHostToDevice)
    return memory, memory + 4 * offset, ld


def run_case(library: Library, case: Case) -> None:
    """Queue one product, wait for it and read C; raises LadderError where `sgemm` returns an error."""
    shape, alpha, beta = case.shape, case.alpha, case.beta
    random = np.random.default_rng(1)

    def uniform(rows: int, columns: int) -> np.ndarray:
        return random.random((rows, columns), dtype=np.float32) * 2 - 1

    of_A, of_B, of_C = zip(case.paddings, case.offsets, strict=True)
    A, a, lda = upload(uniform(shape.m, shape.k) if case.multiplies else None, shape.m, shape.k, *of_A)
    B, b, ldb = upload(uniform(shape.k, shape.n) if case.multiplies else None, shape.k, shape.n, *of_B)
    C, c, ldc = upload(uniform(shape.m, shape.n) if beta != 0 else None, shape.m, shape.n, *of_C)
    operands = Operands(a, lda, b, ldb, c, ldc)
    workspace = runtime.malloc(max(1, library.workspace_bytes(shape, alpha, beta, operands)))
    error = library.queue(shape, alpha, beta, operands, workspace)
    if error:
        raise LadderError(f"sgemm returned {explain(error)}")
    runtime.deviceSynchronize()
    if shape.m and shape.n:
        back = np.empty((shape.m, shape.n), np.float32)
        runtime.memcpy2D(back.ctypes.data, 4 * shape.n, c, 4 * ldc, 4 * shape.n, shape.m, runtime.memcpyDeviceToHost)
    for memory in (A, B, C, workspace):
        runtime.free(memory)


def main() -> None:
    """Run with LIBRARY DEVICE CASES, the cases as JSON; ends with a line on what failed."""
    path, device, cases = sys.argv[1:]
    with watched():
        cp.cuda.Device(int(device)).use()
        provide_cublas()
        library = Library(Path(path))
        for case in json.loads(cases):
            run_case(library, Case.of(case))


if __name__ == "__main__":
    main()
