"""The process that launches one rung back to back for seconds, and before and after it what it is compared with.

The operands rotate over several places. Now and then, between batches, what was computed at a place is verified and its
operands are drawn anew; the next launch there is a batch of its own. A rung that did less where operands have not
changed would take longer for these launches than for all others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from ladder.build.library import Library, explain
from ladder.measure.operands import AS_TIMED, OperandSets, Verification, kernels
from ladder.measure.sustained.meter import Meter
from ladder.measure.watch import Dishonest
from ladder.model.shape import Shape
from ladder.records.sustained import Batch, settled_from, windows
from ladder.system import process
from ladder.system.errors import LadderError

BATCH_S = 0.05
PROBE_S = 0.3
RENEWED = 5  # batches, after which the operands of one place are drawn anew
LESS, LESS_S = 0.9, 10e-6  # times the launches on new operands, and less so much, no launch may take


class Queued(NamedTuple):
    """A batch on the stream: the events around it, and its launches."""

    begin: Any
    end: Any
    launches: int
    renewed: bool = False  # one launch, on operands that are new


class Launching:
    """The launches of one library on rotating operands, one behind the other on one stream."""

    def __init__(self, library: Library, sets: OperandSets, precision: str) -> None:
        """Draw all operands, launch once at each place, and verify; raises Dishonest where a result is wrong."""
        self.library, self.sets, self.precision, self.next = library, sets, precision, 0
        needed = max(library.workspace_bytes(sets.shape, 1.0, 0.0, sets.operands(at)) for at in range(sets.places))
        self.workspace = cp.empty(max(1, needed), np.uint8)
        self.found: list[np.ndarray] = []
        for place in range(sets.places):
            sets.draw(place)
        sets.stream.synchronize()
        self.launch(0)  # what a library sets up at its first call is in no time; cublas_best tries its algorithms there
        cp.cuda.runtime.deviceSynchronize()
        first = self.queue(sets.places)
        self.verify_all()
        self.launch_s = self.between_s(first.begin, first.end) / first.launches
        self.origin = self.event()

    def launch(self, stream: int | None = None) -> None:
        """Queue one launch at the next place, on the stream of the operands unless another is given.

        Raises LadderError where the library returns an error.
        """
        operands, workspace = self.sets.operands(self.next), self.workspace.data.ptr
        stream = self.sets.stream.ptr if stream is None else stream
        if error := self.library.queue(self.sets.shape, 1.0, 0.0, operands, workspace, stream):
            raise LadderError(f"sgemm returned {explain(error)}")
        self.next = (self.next + 1) % self.sets.places

    def queue(self, launches: int, renewed: bool = False) -> Queued:
        """Queue a batch behind all that is queued."""
        begin = self.event()
        for _ in range(launches):
            self.launch()
        return Queued(begin, self.event(), launches, renewed)

    def wait(self, batch: Queued) -> Batch:
        """Wait until a batch has ended; its times are from `origin` on."""
        batch.end.synchronize()
        begin_s, end_s = (self.between_s(self.origin, event) for event in (batch.begin, batch.end))
        return Batch(begin_s, end_s, batch.launches, batch.renewed)

    def renew(self) -> Queued:
        """Queue the verification of the last launch at the next place, new operands there, and one launch on them."""
        self.verify(self.next)
        self.sets.draw(self.next)
        return self.queue(1, renewed=True)

    def verify(self, place: int) -> None:
        """Queue the verification of the last launch at a place."""
        self.sets.verify(place, self.precision)
        self.found.append(self.sets.kept())

    def verify_all(self) -> int:
        """Verify the last launch at each place, and see to what was verified before; how many launches that were.

        Raises Dishonest where one of them was wrong.
        """
        for place in range(self.sets.places):
            self.verify(place)
        self.sets.stream.synchronize()
        for found in self.found:
            if fault := Verification(*found.tolist()).fault:
                raise Dishonest(f"in launches back to back {fault}")
        return len(self.found)

    def event(self) -> Any:
        """An event behind all that is queued."""
        event = cp.cuda.Event(block=True)
        event.record(self.sets.stream)
        return event

    @staticmethod
    def between_s(begin: Any, end: Any) -> float:
        """Seconds between two events."""
        return float(cp.cuda.get_elapsed_time(begin, end)) / 1e3


def sustain(
    launching: Launching, least_s: float, most_s: float, settled: Callable[[Sequence[Batch]], bool]
) -> list[Batch]:
    """Launch back to back for `least_s` seconds, and on until `settled` or for `most_s`; the batches in order.

    A batch is queued while the one before it runs, so that the GPU is never idle. The batches of one launch that
    `Launching.renew` queues are among them.
    """
    launches = max(1, round(BATCH_S / launching.launch_s))
    queued: deque[Any] = deque()
    ended: list[Batch] = []
    while True:
        if (len(ended) + len(queued)) % RENEWED == RENEWED - 1:
            queued.append(launching.renew())
        queued.append(launching.queue(launches))
        if len(queued) < 2:
            continue
        while len(queued) > 1:
            ended.append(launching.wait(queued.popleft()))
        gone_s = ended[-1].end_s
        if gone_s >= most_s or (gone_s >= least_s and settled(ended)):
            return ended + [launching.wait(batch) for batch in queued]


def too_fast(batches: Sequence[Batch]) -> str:
    """How much less time launches take than those whose operands are new, in words; empty where that can be."""
    times_s = {
        new: [(batch.end_s - batch.begin_s) / batch.launches for batch in batches if batch.renewed == new]
        for new in (True, False)
    }
    if not all(times_s.values()):
        return ""
    fresh_s, others_s = np.median(times_s[True]), np.median(times_s[False])
    if others_s >= LESS * fresh_s - LESS_S:
        return ""
    return f"a launch takes {1e3 * others_s:.4g} ms, and {1e3 * fresh_s:.4g} ms where its operands are new"


def probe_s(launching: Launching) -> float:
    """The seconds of a launch, by PROBE_S of launches back to back; raises Dishonest where a result is wrong."""
    batches = sustain(launching, PROBE_S, PROBE_S, lambda ended: True)
    launching.verify_all()
    return float(np.median([(batch.end_s - batch.begin_s) / batch.launches for batch in batches]))


def measured(
    library: Library, sets: OperandSets, meter: Meter, least_s: float, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """One part of the record: the batches of a library, NVML's samples meanwhile, and how many launches were verified.

    Raises Dishonest where one of these was wrong.
    """
    first = meter.wait()
    launching, origin_s = Launching(library, sets, asked["precision"]), time.monotonic()

    def settled(ended: Sequence[Batch]) -> bool:
        return settled_from(windows(ended, meter.columns(origin_s, first)), asked["settle_percent"]) is not None

    batches = sustain(launching, least_s, asked["most_seconds"], settled)
    meter.wait()
    verified = launching.verify_all()
    if line := too_fast(batches):
        raise Dishonest(line)
    return {
        "verified": verified,
        "batches": {
            **{key: [round(getattr(batch, key), 6) for batch in batches] for key in ("begin_s", "end_s")},
            "launches": [batch.launches for batch in batches],
            "renewed": [index for index, batch in enumerate(batches) if batch.renewed],
        },
        "samples": meter.columns(origin_s, first),
    }


def main(asked: Mapping[str, Any]) -> None:
    """Measure what the request asks for: an event before and after each part, or one that says what is dishonest.

    Of several references the fastest in PROBE_S of launches each is launched before and after the rung.
    """
    libraries = {name: Library(Path(path)) for name, path in asked["libraries"].items()}
    rung, *references = libraries
    module, stream = kernels(), cp.cuda.Stream(non_blocking=True)
    rotating = 2 * int(cp.cuda.runtime.getDeviceProperties(asked["device"])["l2CacheSize"])
    meter = Meter(asked["device"])
    for shape in asked["shapes"]:
        name = rung
        sets = OperandSets(module, Shape.parse(shape), AS_TIMED, rotating, stream)
        try:
            probed_s = {}
            for name in references if len(references) > 1 else ():
                process.emit(starts={"kernel": name, "shape": shape})
                probed_s[name] = probe_s(Launching(libraries[name], sets, asked["precision"]))
            beside = [min(probed_s, key=probed_s.__getitem__)] if probed_s else references
            for name in (*beside, rung, *beside):
                process.emit(starts={"kernel": name, "shape": shape})
                least_s = asked["seconds"] if name == rung else asked["seconds"] / 2
                part = measured(libraries[name], sets, meter, least_s, asked)
                process.emit(part={"kernel": name, "shape": shape, **part})
        except Dishonest as found:
            process.emit(dishonest={"kernel": name, "finding": f"at {shape}: {found}"})
            return
        del sets
        cp.get_default_memory_pool().free_all_blocks()
    meter.close()
