"""The process that times one rung, and beside it what it is compared with, through NVBench.

NVBench measures the rung and its references in turn at each shape, on the same matrices; this process adds the state
of the device around each measurement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cupy as cp

from ladder.build.library import Library
from ladder.measure.nvbench import run_nvbench, time_launches
from ladder.measure.product import Product
from ladder.model.shape import Shape
from ladder.system import nvml, process
from ladder.system.cublas import provide_cublas


class TimingRun:
    """The measurements of one request: NVBench walks the shapes, at each the rung and its references."""

    def __init__(self, asked: dict[str, Any]) -> None:
        """Load the libraries."""
        self.asked = asked
        self.libraries = {name: Library(Path(path)) for name, path in asked["libraries"].items()}
        self.product: Product | None = None
        self.states: list[dict[str, Any]] = []

    def measure(self, state: Any) -> None:
        """NVBench's callback for one kernel and shape."""
        name, shape = state.get_string("kernel"), state.get_string("shape")
        process.emit(starts={"kernel": name, "shape": shape})
        product = self.product_of(shape)
        own = name == self.asked["rung"]
        budget = self.asked["budget_s"] if own else self.asked["reference_budget_s"]
        min_samples = self.asked["min_iterations"] if own else 3
        before = nvml.state(self.asked["device"])
        time_launches(state, lambda stream: product.queue(name, stream), product.shape.flop, min_samples, budget)
        after = nvml.state(self.asked["device"])
        self.states.append({"kernel": name, "shape": shape, "seed": product.seed, "before": before, "after": after})

    def product_of(self, shape: str) -> Product:
        """The matrices of a shape, made when its first kernel is measured and shared by all of them."""
        if self.product is None or str(self.product.shape) != shape:
            self.product = None
            cp.get_default_memory_pool().free_all_blocks()
            self.product = Product(Shape.parse(shape), self.libraries)
        return self.product

    def run(self) -> None:
        """Measure everything; NVBench's files go to the folder of the request as nvbench.json and what that names."""
        asked = self.asked
        axes = {"kernel": list(self.libraries), "shape": asked["shapes"]}
        folder = Path(asked["folder"])
        run_nvbench(self.measure, axes, asked["device"], asked["warmup"], asked["iterations"], folder)
        process.emit(states=self.states)


def main() -> None:
    """Measure what the request asks for; the parent collects the files of its folder."""
    with process.request() as asked:
        cp.cuda.Device(asked["device"]).use()
        provide_cublas()
        TimingRun(asked).run()


if __name__ == "__main__":
    main()
