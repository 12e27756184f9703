"""The process that measures one rung's errors: a product for each family of inputs and each k, against float64."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands, explain
from ladder.measure.devices import Call, CudaDevice, EmulatedDevice
from ladder.measure.inputs import Inputs, draw_inputs
from ladder.measure.nvbench import run_nvbench, time_launches
from ladder.measure.time.stage import collect
from ladder.model.bounds import UNIT_ROUNDOFF
from ladder.model.shape import Shape
from ladder.records.timings import medians_s
from ladder.system import process
from ladder.system.errors import LadderError

WARMUP, SAMPLES, MIN_SAMPLES, BUDGET_S = 5, 50, 5, 5  # as `timing` has them unless it is configured


def inputs_of(family: str, shape: Shape, seed: int) -> Inputs:
    """A and B of a family of `ladder.measure.inputs`, or `positive`: uniform in [0, 1)."""
    if family != "positive":
        return draw_inputs(family, shape, True, False, seed)
    drawn = draw_inputs("uniform", shape, True, False, seed)
    return Inputs(abs(drawn.A), abs(drawn.B), None)


@dataclass(frozen=True)
class Computed:
    """A product that a library has computed: its matrices on the device, and the call that did it."""

    A: Any
    B: Any
    C: Any
    call: Call


def measure(device: CudaDevice | EmulatedDevice, library: Library, shape: Shape, family: str) -> dict[str, Any]:
    """Compute C = A B, compare it with the product in float64, and time it.

    Keys: family, m, n, k, error_normwise, error_componentwise (in units of 2^-24), time_ms (NVBench's median of
    SAMPLES; null in the emulator). The inputs depend on the family and the shape alone. Raises LadderError where the
    product fails. On a GPU a process can call this once (`measure_all`).
    """
    if isinstance(device, EmulatedDevice):
        return errors(device, family, compute(device, library, shape, family))
    (point,) = measure_all(device, library, [(family, shape)], lambda point: None)
    return point


def measure_all(
    device: CudaDevice, library: Library, products: Sequence[tuple[str, Shape]], found: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """What `measure` gives, for each family and shape: the launches that are timed have the operands of the errors.

    `found` gets each product when its errors are known; the times are known at the end. NVBench, and so this, runs once
    in a process.
    """
    points: list[dict[str, Any]] = []
    failures: list[Exception] = []

    def measure_next(state: Any) -> None:
        if failures:
            state.skip("an earlier product failed")
            return
        try:
            family, shape = state.get_string("product").split()
            device.clear()
            computed = compute(device, library, Shape.parse(shape), family)
            points.append(errors(device, family, computed))
            found(points[-1])
            queue, flop = partial(queue_product, device, library, computed), computed.call.shape.flop
            time_launches(state, queue, flop, MIN_SAMPLES, BUDGET_S)
        except Exception as error:  # NVBench would go on with the next product
            failures.append(error)
            state.skip(str(error))

    axes = {"product": [f"{family} {shape}" for family, shape in products]}
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        run_nvbench(measure_next, axes, device.number, WARMUP, SAMPLES, Path(folder))
        if failures:
            raise failures[0]
        times_s = medians_s(collect(Path(folder)))
    return [{**point, "time_ms": _rounded(1000 * time_s)} for point, time_s in zip(points, times_s, strict=True)]


def compute(device: CudaDevice | EmulatedDevice, library: Library, shape: Shape, family: str) -> Computed:
    """C = A B of a family's inputs; raises LadderError where the product fails."""
    inputs = inputs_of(family, shape, zlib.crc32(f"{family} {shape}".encode()))
    A, B = (device.put(matrix.ravel()).reshape(matrix.shape) for matrix in (inputs.A, inputs.B))
    return product_of(device, library, A, B, f"{family} {shape}")


def product_of(
    device: CudaDevice | EmulatedDevice,
    library: Library,
    A: Any,
    B: Any,
    name: str,
    gaps: tuple[int, int, int] = (0, 0, 0),
) -> Computed:
    """C = A B of matrices on the device, with so many elements of NaN between the rows of A, B and C.

    Raises LadderError, with the product's name, where it fails.
    """
    shape = Shape(A.shape[0], B.shape[1], A.shape[1])
    A, B = (_with_gaps(device, matrix, gap) if gap else matrix for matrix, gap in zip((A, B), gaps, strict=False))
    C = _rows(device, shape.m, shape.n, gaps[2])
    lda, ldb, ldc = shape.k + gaps[0], shape.n + gaps[1], shape.n + gaps[2]
    operands = Operands(device.address(A), lda, device.address(B), ldb, device.address(C), ldc)
    needed = library.workspace_bytes(shape, 1.0, 0.0, operands)
    workspace = device.put(np.zeros(max(1, needed // 4 + 1), np.uint32))
    call = Call(shape, 1.0, 0.0, operands, workspace, needed)
    if wrong := device.compute(library, call, 0):
        raise LadderError(f"{name}: {wrong}")
    return Computed(A, B, C, call)


def _rows(device: CudaDevice | EmulatedDevice, rows: int, columns: int, gap: int) -> Any:
    """A matrix of NaN on the device, with so many elements between its rows."""
    buffer = device.put(np.full(rows * (columns + gap), np.nan, np.float32))
    return buffer.reshape(rows, columns + gap)[:, :columns]


def _with_gaps(device: CudaDevice | EmulatedDevice, matrix: Any, gap: int) -> Any:
    placed = _rows(device, *matrix.shape, gap)
    placed[:] = matrix
    return placed


def errors(device: CudaDevice | EmulatedDevice, family: str, computed: Computed) -> dict[str, Any]:
    """What `measure` gives, with no time yet; an element without terms counts where it is not zero."""
    shape = computed.call.shape
    found = Exact.of(device, computed.A, computed.B).errors_of(computed.C)
    return {**{"family": family, "m": shape.m, "n": shape.n, "k": shape.k}, **found, "time_ms": None}


@dataclass(frozen=True)
class Exact:
    """A product in float64, and |A| |B|: what errors are measured against."""

    arrays: Any  # CuPy or NumPy
    product: Any
    terms: Any

    @classmethod
    def of(cls, device: CudaDevice | EmulatedDevice, A: Any, B: Any) -> Exact:
        """Of two matrices on the device."""
        xp, A64, B64 = device.arrays, A.astype(np.float64), B.astype(np.float64)
        return cls(xp, A64 @ B64, xp.abs(A64) @ xp.abs(B64))

    def errors_of(self, C: Any) -> dict[str, float]:
        """error_normwise and error_componentwise of a computed C, as `measure` gives them."""
        xp = self.arrays
        difference = xp.abs(C.astype(np.float64) - self.product)
        return {
            "error_normwise": _rounded(xp.linalg.norm(difference) / xp.linalg.norm(self.product)),
            "error_componentwise": _rounded(xp.nanmax(difference / self.terms) / UNIT_ROUNDOFF),
        }


def queue_product(device: CudaDevice, library: Library, computed: Computed, stream: int) -> None:
    """Queue a product once more, on the stream at this address; raises LadderError where sgemm returns an error."""
    call = computed.call
    error = library.queue(call.shape, call.alpha, call.beta, call.operands, device.address(call.workspace), stream)
    if error:
        raise LadderError(f"{call.shape}: sgemm returned {explain(error)}")


def _rounded(value: Any) -> float:
    return float(f"{float(value):.4g}")


def main(asked: Mapping[str, Any]) -> None:
    """Measure what the request asks for: an event for the errors of each product, then one for all times."""
    device = CudaDevice(asked["device"])
    library = Library(Path(asked["library"]))
    products = [
        (family, Shape(product["size"], product["size"], k))
        for product in asked["products"]
        for family in asked["families"]
        for k in product["k"]
    ]
    points = measure_all(device, library, products, lambda point: process.emit(point=point))
    process.emit(times_ms=[point["time_ms"] for point in points])
