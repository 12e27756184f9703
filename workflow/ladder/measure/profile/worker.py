"""The process that Nsight Compute watches: one product of one rung, on random inputs, queued twice and watched once."""

from __future__ import annotations

import sys
from pathlib import Path

import cupy as cp

from ladder.build.library import Library
from ladder.measure.product import Product
from ladder.model.shape import Shape
from ladder.system.cublas import provide_cublas
from ladder.system.process import watched


def main() -> None:
    """`python -m ladder.measure.profile.worker LIBRARY SHAPE DEVICE`; of two products the second is watched."""
    library, shape, device = sys.argv[1:]
    with watched():
        cp.cuda.Device(int(device)).use()
        provide_cublas()
        product = Product(Shape.parse(shape), {"rung": Library(Path(library))})
        cp.cuda.profiler.start()
        product.queue("rung", 0)
        cp.cuda.runtime.deviceSynchronize()
        cp.cuda.profiler.stop()


if __name__ == "__main__":
    main()
