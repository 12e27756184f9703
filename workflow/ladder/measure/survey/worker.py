"""The process that times one rung and its references on drawn products and on data as users have them.

Drawn products are timed as the time stage times its shapes: new operands before each launch, and C verified as it
stands when the clock stops. Data keep their values, which are what is looked at; C is poisoned before the launches and
its errors are those of what the last one has left. When all is timed, each kernel computes each drawn product once
more, of the same normal numbers and in the same layout, for its errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import cupy as cp

from ladder.measure.accuracy.worker import Exact, errors, product_of, queue_product
from ladder.measure.devices import CudaDevice
from ladder.measure.nvbench import time_launches
from ladder.measure.survey.data import draw_data
from ladder.measure.time.worker import TimingRun
from ladder.model.cases import Case
from ladder.model.shape import Shape
from ladder.system import process


class SurveyRun(TimingRun):
    """NVBench walks the drawn products, then the data, and at each the rung and its references.

    The axis `shape` of the time stage holds numbers here: of `products`, then of `data`.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        """Take the products for the time stage's shapes."""
        super().__init__({**asked, "shapes": []})
        names = [str(number) for number in range(len(asked["products"]) + len(asked["data"]))]
        self.asked = {**asked, "shapes": names}
        self.cases = dict(zip(names, map(Case.of, asked["products"]), strict=False))
        self.data = dict(zip(names[len(asked["products"]) :], asked["data"], strict=True))
        self.device = CudaDevice(asked["device"])
        self.drawn: tuple[str, Any, Any] = ("", None, None)  # A and B of these data

    def measure(self, state: Any) -> None:
        """NVBench's callback for one kernel and product, or data."""
        named = state.get_string("shape")
        if named in self.cases or self.finding:
            super().measure(state)
            return
        kernel, each = state.get_string("kernel"), self.data[named]
        told = f"{each['family']} {each['shape']}"
        process.emit(starts={"kernel": kernel, "shape": told})
        if self.drawn[0] != named:
            self.sets, self.case, self.drawn = None, None, ("", None, None)
            self.device.clear()
            self.drawn = (named, *draw_data(each["family"], Shape.parse(each["shape"]), each["seed"], cp))
        computed = product_of(self.device, self.library(kernel), *self.drawn[1:], told)
        computed.C.fill(cp.nan)
        cp.cuda.runtime.deviceSynchronize()
        queue = partial(queue_product, self.device, self.library(kernel), computed)
        time_launches(state, queue, computed.call.shape.flop, self.asked["min_iterations"], self.asked["budget_s"])
        cp.cuda.runtime.deviceSynchronize()
        found = errors(self.device, each["family"], computed)
        process.emit(errors={"kernel": kernel, "name": named, **{key: found[key] for key in found if "error" in key}})

    def run(self) -> None:
        """Time everything as the time stage does; then the errors of the drawn products, which no clock sees."""
        super().run()
        for named, case in self.cases.items() if not self.finding else ():
            self.sets, self.case, self.drawn = None, None, ("", None, None)
            self.device.clear()
            A, B = draw_data("normal", case.shape, self.asked["product_seeds"][int(named)], cp)
            exact = Exact.of(self.device, A, B)
            for kernel in self.asked["libraries"]:
                process.emit(starts={"kernel": kernel, "shape": str(case)})
                computed = product_of(self.device, self.library(kernel), A, B, str(case), case.paddings)
                process.emit(errors={"kernel": kernel, "name": named, **exact.errors_of(computed.C)})


def main(asked: Mapping[str, Any]) -> None:
    """Measure what the request asks for; the parent collects the files of its folder."""
    SurveyRun(asked).run()
