"""The process that times one rung, and beside it what it is compared with, through NVBench.

NVBench measures the rung and its references in turn at each shape, on the same matrices: isolated
launches with the L2 cache flushed before each, on a stream that is blocked until the launch is queued. NVBench writes
its own JSON and sample files; this process adds the state of the device around each measurement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cuda.bench as nvbench
import cupy as cp

from ladder.build.library import Library, provide_cublas
from ladder.measure.product import Product
from ladder.model.shape import Shape
from ladder.system import nvml, process


class TimingRun:
    """The measurements of one request: one NVBench benchmark over the shapes, at each the rung and its references."""

    def __init__(self, asked: dict[str, Any]) -> None:
        """Load the libraries and register the benchmark; NVBench walks the first axis fastest."""
        self.asked = asked
        self.libraries = {name: Library(Path(path)) for name, path in asked["libraries"].items()}
        self.product: Product | None = None
        self.states: list[dict[str, Any]] = []
        benchmark = nvbench.register(self.measure).set_name("sgemm")
        benchmark.add_string_axis("kernel", list(self.libraries))
        benchmark.add_string_axis("shape", asked["shapes"])

    def measure(self, state: Any) -> None:
        """NVBench's callback for one kernel and shape."""
        name, shape = state.get_string("kernel"), state.get_string("shape")
        process.emit(starts={"kernel": name, "shape": shape})
        product = self.product_of(shape)
        own = name == self.asked["rung"]
        budget = self.asked["budget_s"] if own else self.asked["reference_budget_s"]
        state.set_timeout(budget)
        state.set_cold_max_warmup_walltime(budget)
        state.set_min_samples(self.asked["min_iterations"] if own else 3)
        state.add_element_count(product.shape.flop, "FLOP")
        before = nvml.state(self.asked["device"])
        state.exec(lambda launch: product.queue(name, launch.get_stream().addressof()), batched=False)
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
        nvbench.run_all_benchmarks(
            [
                "gemm-ladder",
                *("--devices", str(asked["device"])),
                *("--stopping-criterion", "sample-count"),
                *("--target-samples", str(asked["iterations"])),
                *("--cold-warmup-runs", str(asked["warmup"])),
                *("--jsonbin", str(Path(asked["folder"]) / "nvbench.json")),
            ]
        )
        process.emit(states=self.states)


def main() -> None:
    """Measure what the request asks for; the parent collects the files of its folder."""
    asked = process.request()
    try:
        cp.cuda.Device(asked["device"]).use()
        provide_cublas()
        TimingRun(asked).run()
    except Exception as error:  # whatever it is, the parent needs the line and the run goes on
        process.fail_with(error)


if __name__ == "__main__":
    main()
