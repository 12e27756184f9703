"""The process that measures one rung's errors: a product for each family of inputs and each k, against float64."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands, provide_cublas
from ladder.measure.devices import Call, CudaDevice, EmulatedDevice
from ladder.measure.inputs import Inputs, draw_inputs
from ladder.model.bounds import UNIT_ROUNDOFF
from ladder.model.shape import Shape
from ladder.system import process
from ladder.system.errors import LadderError

WARMUP, LAUNCHES = 5, 50  # the latter are timed


def inputs_of(family: str, shape: Shape, seed: int) -> Inputs:
    """A and B of a family of `ladder.measure.inputs`, or `positive`: uniform in [0, 1)."""
    if family != "positive":
        return draw_inputs(family, shape, True, False, seed)
    drawn = draw_inputs("uniform", shape, True, False, seed)
    return Inputs(abs(drawn.A), abs(drawn.B), None)


def measure(device: CudaDevice | EmulatedDevice, library: Library, shape: Shape, family: str) -> dict[str, Any]:
    """Compute C = A B and compare it with the product in float64.

    Keys: family, m, n, k, error_normwise, error_componentwise (in units of 2^-24), time_ms (median of LAUNCHES; null in
    the emulator). The inputs depend on the family and the shape alone. Raises LadderError where the product fails.
    """
    inputs = inputs_of(family, shape, zlib.crc32(f"{family} {shape}".encode()))
    xp = device.arrays
    A, B = (device.put(matrix.ravel()).reshape(matrix.shape) for matrix in (inputs.A, inputs.B))
    C = device.put(np.full(shape.m * shape.n, np.nan, np.float32)).reshape(shape.m, shape.n)
    operands = Operands(device.address(A), shape.k, device.address(B), shape.n, device.address(C), shape.n)
    needed = library.workspace_bytes(shape, 1.0, 0.0, operands)
    workspace = device.put(np.zeros(max(1, needed // 4 + 1), np.uint32))
    call = Call(shape, 1.0, 0.0, operands, workspace, needed)
    if wrong := device.compute(library, call, 0):
        raise LadderError(f"{family} {shape}: {wrong}")
    A64, B64 = A.astype(np.float64), B.astype(np.float64)
    exact = A64 @ B64
    difference = xp.abs(C.astype(np.float64) - exact)
    terms = xp.abs(A64) @ xp.abs(B64)
    return {
        **{"family": family, "m": shape.m, "n": shape.n, "k": shape.k},
        "error_normwise": _rounded(xp.linalg.norm(difference) / xp.linalg.norm(exact)),
        "error_componentwise": _rounded((difference / terms).max() / UNIT_ROUNDOFF),
        "time_ms": None if isinstance(device, EmulatedDevice) else _rounded(_time(device, library, call)),
    }


def _time(device: CudaDevice, library: Library, call: Call) -> float:
    """The median time of a launch on the GPU, in milliseconds."""
    from cupyx.profiler import benchmark  # only where there is a GPU

    with device.arrays.cuda.Stream(non_blocking=True) as stream:
        operands = (call.operands, device.address(call.workspace), stream.ptr)
        found = benchmark(library.queue, (call.shape, 1.0, 0.0, *operands), n_repeat=LAUNCHES, n_warmup=WARMUP)
    return 1000 * float(np.median(found.gpu_times))


def _rounded(value: Any) -> float:
    return float(f"{float(value):.4g}")


def main() -> None:
    """Measure what the request asks for, one event a product."""
    asked = process.request()
    try:
        device = CudaDevice(asked["device"])
        provide_cublas()
        library = Library(Path(asked["library"]))
        for product in asked["products"]:
            for family in asked["families"]:
                for k in product["k"]:
                    shape = Shape(product["size"], product["size"], k)
                    process.emit(point=measure(device, library, shape, family))
                    device.clear()
    except Exception as error:  # whatever it is, the parent needs the line and the run goes on
        process.fail_with(error)


if __name__ == "__main__":
    main()
