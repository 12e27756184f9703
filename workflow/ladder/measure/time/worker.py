"""The process that times one rung, and beside it what it is compared with, through NVBench.

NVBench measures the rung and its references in turn at each shape, and the rung's baseline once before the rung; this
process adds the state of the device around each measurement. Each launch gets operands that were drawn for it alone, at
a place that takes turns with others, and C is verified as it stands when the clock stops. Launches of more kinds
are mixed in at random and not counted: of a rung those with other scalars, layouts and values; of it and its baseline
those before which every SM is held (`ladder.measure.hold`) or loads from A and B are timed (`ladder.measure.cold`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from ladder.build.library import Library, explain
from ladder.measure.cold import Cold
from ladder.measure.hold import Hold
from ladder.measure.nvbench import run_nvbench, time_between
from ladder.measure.operands import Kind, OperandSets, kernels
from ladder.measure.time.stage import collect
from ladder.measure.watch import Dishonest, Watch
from ladder.model.cases import Case
from ladder.model.claims import claimed
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.timings import BEFORE
from ladder.system import nvml, process
from ladder.system.errors import LadderError

MIXED = 0.25  # how often a launch that is not counted comes before one that is
LATE_S = 0.02  # how long a C that was not complete is waited for, to tell late work from wrong work
FEWEST_LOOKS = 4  # launches with all SMs held, and as many with loads in front, of each kernel and shape

_random = random.SystemRandom()


class TimingRun:
    """The measurements of one request: NVBench walks the shapes, at each the rung and its references."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        """Compile the kernels that verify, and look at the GPU as it is."""
        self.asked = asked
        self.libraries: dict[str, Library] = {}
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.kernels = kernels()
        self.hold, self.cold = Hold(self.kernels), Cold(self.kernels)
        self.watch = Watch(self.kernels, self.stream, asked["libraries"].values())
        self.cases = {text: Case(Shape.parse(text)) for text in asked["shapes"]}
        self.case: Case | None = None  # of `sets`
        self.sets: OperandSets | None = None
        self.states: list[dict[str, Any]] = []
        self.finding = ""

    def library(self, name: str) -> Library:
        """A kernel's library, loaded when its turn comes: what the rung's own may do then is looked for afterwards."""
        if name not in self.libraries:
            if name == self.asked["rung"]:
                self.watch.before_loading()
            self.libraries[name] = Library(Path(self.asked["libraries"][name]))
        return self.libraries[name]

    def declared(self, kernel: str) -> Mapping[str, Any]:
        """What kernels.yaml says of a kernel: `precision` (None of a floor, which computes nothing) and `claims`."""
        return self.asked["declared"].get(kernel, {"precision": "fp32", "claims": {}})

    def measure(self, state: Any) -> None:
        """NVBench's callback for one kernel and shape."""
        if self.finding:
            state.skip("an earlier launch was dishonest")
            return
        turn, named = state.get_string("kernel"), state.get_string("shape")
        name, case = turn.removesuffix(BEFORE), self.cases[named]
        process.emit(starts={"kernel": name, "shape": str(case)})
        own = turn == self.asked["rung"]
        budget = self.asked["budget_s"] if own else self.asked["reference_budget_s"]
        min_samples = self.asked["min_iterations"] if own else 2
        try:
            launches = Launches(self, name, self.sets_of(case), own)
            before = nvml.state(self.asked["device"])
            time_between(state, launches.sample, case.shape.flop, min_samples, budget)
            after = nvml.state(self.asked["device"])
            if launches.error:
                raise launches.error
            if own:
                self.watch.compare()
        except Dishonest as found:
            self.tell(turn, f"at {case}: {found}")
            state.skip("dishonest")
            return
        self.states.append(
            {"kernel": turn, "shape": named, "before": before, "after": after, "launches": launches.told}
        )

    def sets_of(self, case: Case) -> OperandSets:
        """The places of a case's operands, made when its first kernel is measured and shared by all of them."""
        if self.sets is None or self.case != case:
            self.sets = None
            cp.get_default_memory_pool().free_all_blocks()
            kind = Kind(paddings=case.paddings, offsets=case.offsets)
            self.sets = OperandSets(self.kernels, case.shape, kind, 2 * self.watch.l2_bytes, self.stream)
            self.case = case
        return self.sets

    def run(self) -> None:
        """Measure everything; NVBench's files go to the folder of the request as nvbench.json and what that names."""
        asked = self.asked
        names = list(asked["libraries"])
        steady = asked.get("steady")
        turns = [*([steady + BEFORE] if steady else []), *names]
        axes = {"kernel": turns, "shape": asked["shapes"]}
        folder = Path(asked["folder"])
        run_nvbench(self.measure, axes, asked["device"], asked["warmup"], asked["iterations"], folder)
        if not self.finding and (changed := self.watch.code_changed()):
            self.tell(asked["rung"], changed)
        written = {name: store.digest(content) for name, content in collect(folder).items()}
        process.emit(states=self.states, written=written)

    def tell(self, turn: str, finding: str) -> None:
        """Tell the parent of the first dishonest launch; nothing is measured after it."""
        self.finding = finding
        process.emit(dishonest={"kernel": turn, "finding": finding})


class Launches:
    """The launches of one kernel at one shape: those that NVBench counts, and those mixed in."""

    def __init__(self, run: TimingRun, name: str, sets: OperandSets, own: bool) -> None:
        """Launch each kind once, so that what a library sets up at its first call is not timed.

        Raises Dishonest or LadderError where one of these fails.
        """
        self.run, self.library = run, run.library(name)
        declared = run.declared(name)
        self.precision = declared["precision"]
        self.kinds = [sets, *(self._mixed(sets.shape, declared["claims"]) if own and self.precision else [])]
        self.plain = sets
        needed = (
            self.library.workspace_bytes(each.shape, each.kind.alpha, each.kind.beta, each.operands(0))
            for each in self.kinds
        )
        self.workspace = cp.empty(max(1, *needed), cp.uint8)
        self.error: Exception | None = None
        self.calls, self.verified, self.mixed = 0, 0, 0
        self.held_us: list[float] = []
        self.load_cycles: list[tuple[float, float]] = []
        cp.cuda.runtime.deviceSynchronize()
        for each in self.kinds:
            self._launch(each, 0, None)
        self.watched = not own
        self.compared = own or name == run.asked.get("steady")

    @property
    def told(self) -> dict[str, Any]:
        """What the record says of them: how many were verified and mixed in, and what was seen of those looked at."""
        looks = {"held_us": self.held_us, "load_cycles": self.load_cycles}
        rounded = {name: np.round(np.asarray(values, np.float64), 3).tolist() for name, values in looks.items()}
        return {"verified": self.verified, "mixed": self.mixed, **rounded}

    def _mixed(self, shape: Shape, claims: Mapping[str, Any]) -> list[OperandSets]:
        """Places for two kinds of launches that are not counted: other scalars and layouts, and other values."""
        layout = (tuple(_random.randrange(9) for _ in range(3)), tuple(_random.randrange(8) for _ in range(3)))
        scalars = _random.choice((-1.25, 0.5, 1.0)), _random.choice((0.75, 1.0, -0.5))
        wanted = [Kind(*scalars, *layout, "wide"), Kind(spread=_random.choice(("wide", "sparse")))]
        made = []
        for kind in wanted:
            case = Case(shape, kind.alpha, kind.beta, kind.paddings, kind.offsets)
            if claimed(claims, case):
                try:
                    made.append(OperandSets(self.run.kernels, shape, kind, 0, self.run.stream, least=1))
                except cp.cuda.memory.OutOfMemoryError:
                    break
        return made

    def sample(self, stream: int, timer: Any) -> None:
        """One sample of NVBench's: perhaps launches that are not counted, then one that is."""
        try:
            if self.error is None and self.precision:
                self.calls += 1
                warm = self.calls > self.run.asked["warmup"]
                if self.compared and warm:
                    for look, seen in (("hold", self.held_us), ("cold", self.load_cycles)):
                        if len(seen) < FEWEST_LOOKS or _random.random() < MIXED / 4:
                            self._launch(self.plain, stream, timer, look)
                if len(self.kinds) > 1 and _random.random() < MIXED:
                    self._launch(_random.choice(self.kinds[1:]), stream, timer)
                    self.mixed += 1
            if self.error is None:
                self._launch(self.plain, stream, timer)
                if not self.watched:  # NVBench has set up what it needs for the first
                    self.run.watch.begin()
                    self.watched = True
                return
        except Exception as error:  # NVBench would wait for its own stream for ever
            self.error = error
        timer.start()
        timer.stop()

    def _launch(self, sets: OperandSets, stream: int, timer: Any, look: str = "") -> None:
        """Draw operands, launch between the timer's start and stop, and verify C as it stands when the launch ends.

        A look is `hold` or `cold`, for what stands in front of the launch.
        """
        place = _random.randrange(sets.places)
        sets.draw(place)
        sets.stream.synchronize()
        queue = cp.cuda.ExternalStream(stream)
        if timer:
            timer.start()
        kind, operands = sets.kind, sets.operands(place)
        if look == "hold":
            self.run.hold.begin(stream)
        elif look == "cold":
            self.run.cold.queue(stream, sets.shape, operands)
        error = self.library.queue(sets.shape, kind.alpha, kind.beta, operands, self.workspace.data.ptr, stream)
        done = cp.cuda.Event(disable_timing=True)
        done.record(queue)
        sets.stream.wait_event(done)
        if look == "hold":
            self.run.hold.stamp(sets.stream)
        if self.precision:
            sets.glimpse(place, 0)
        if look == "cold":
            self.run.cold.wait()
        if timer:
            timer.stop()
        if error:
            raise LadderError(f"sgemm returned {explain(error)}")
        if not timer or not self.precision:
            queue.synchronize()
        if not self.precision:
            return
        self._look(sets, place)
        if look == "cold":
            self.load_cycles.append(self.run.cold.cycles(sets.stream))
        if look == "hold":
            held, waited = self.run.hold.end()
            if waited:
                raise Dishonest("its host code waited for the GPU, which other work held")
            self.held_us.append(held)

    def _look(self, sets: OperandSets, place: int) -> None:
        """Raise Dishonest where C was not complete when the clock stopped, or is not right."""
        sets.verify(place, self.precision)
        fault = sets.verification().fault
        late = sets.changed_since_glimpse(place)
        self.verified += 1
        if fault and not late:
            time.sleep(LATE_S)
            cp.cuda.runtime.deviceSynchronize()
            sets.verify(place, self.precision)
            late = not sets.verification().fault
        if late:
            raise Dishonest("C was complete only after the clock had stopped")
        if fault:
            raise Dishonest(f"in a timed launch {fault}")


def main(asked: Mapping[str, Any]) -> None:
    """Measure what the request asks for; the parent collects the files of its folder."""
    TimingRun(asked).run()
