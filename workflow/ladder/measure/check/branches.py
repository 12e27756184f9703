"""Cases that take ways through a rung's host function which none of the others takes.

A rung may have a kernel, a number of parts or a shortcut of its own for products that nobody thought of. In the
emulator the host function is asked for many products, and nothing of them is computed, while g++'s instrumentation
tells which branches it takes, how the two sides of each comparison relate, and how it launches its kernels
(`kernels/emulator/emulator_coverage.h`). Products that do something new become cases; so do those by which two sides of
a comparison come nearer to each other, to be changed further. Such a search is what fuzzers do: B. P. Miller,
L. Fredriksen, B. So, An empirical study of the reliability of UNIX utilities, CACM 33, 1990; M. Zalewski, AFL.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands, operands_at
from ladder.measure.devices import EMULATED_SMS, LEAST_SIDE, Call, EmulatedDevice
from ladder.model.cases import EMULATED_FEW, LARGEST_SMS, Case
from ladder.model.claims import Claims, claimed, claimed_cases
from ladder.model.drawn import ON_A_CPU, most_elements
from ladder.model.shape import Shape
from ladder.system import process
from ladder.system.errors import LadderError

MOST_CASES = 24  # that a search adds
MOST_REFUSED = 2  # of them that the host function refuses
DRAWN_PRODUCTS = 1500  # products that nothing is known of, and
CHANGED_PRODUCTS = 3000  # products that differ from one that is known
LARGEST_DRAWN = 1 << 14  # a side of those
MOST_SEARCHED_ELEMENTS = 1 << 23  # of one of their matrices,
MOST_SEARCHED_FLOP = 1 << 33  # and the work of one
MOST_CALLS = 20_000_000  # of the functions of coverage, after which a search ends whose host function is slow
COVERAGE_SLOTS = 1 << 14  # of each of the emulator's tables (emulator_coverage.h)
MATRICES, WORKSPACE = (1 << 40, 2 << 40, 3 << 40), 4 << 40  # addresses, which nobody reads
OF_LAUNCH = 2  # a bit of what is covered: a launch has it, a branch or comparison has not
SHRINKING = (2, 4 / 3, 8 / 7)  # by which sides are made smaller
SOME_SCALARS = ((1.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (1.5, 0.5), (-0.75, 0.0))
SOME_GAPS = ((0, 0, 0), (0, 0, 0), (0, 0, 0), (4, 4, 4), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 2, 2), (1, 1, 1))
# Floats that are added to the gaps of the matrices, each of which remains as aligned as it is; the first that may be.
MORE_GAPS = ((32, 64, 96), (4, 8, 12), (0, 32, 64), (32, 0, 64), (0, 4, 8), (4, 0, 8), (0, 0, 4))
WIDEST_GAP = 64  # of a case that is changed
COMPARISONS_A_ROUND = 60  # that one round of changes is for, and cases that do something new
_NOTHING = Call(Shape(1, 1, 1), 1, 0, Operands(0, 1, 0, 1, 0, 1), np.zeros(1, np.uint32), 0)


@dataclass(frozen=True)
class Covered:
    """What the host function covered for one case, and whether that went well."""

    features: frozenset[int]
    well: bool


@dataclass
class BranchSearch:
    """What is known of a library: what the cases that were asked for cover, and what others do beside.

    `numbers` are those around which sides are drawn, `sms` the SMs of GPUs. No case is of more than `most_flop`, nor
    beyond what a rung claims to compute.
    """

    library: Library
    device: EmulatedDevice
    random: Random
    numbers: Sequence[int]
    sms: Sequence[int]
    most_flop: float
    claims: Claims
    covered: set[int] = field(default_factory=set)
    beside: dict[int, Case] = field(default_factory=dict)  # by what it covers the first case of the least cost
    nearest: dict[int, tuple[float, Case]] = field(default_factory=dict)  # by comparison
    refused: dict[frozenset[int], Case] = field(default_factory=dict)  # by what it covers
    calls: int = 0  # of the emulator's functions of coverage
    _told: Any = field(default_factory=lambda: np.zeros(3 * COVERAGE_SLOTS, np.uint64))

    def see(self, case: Case) -> Covered:
        """Ask the host function for a case, of which nothing is computed, and keep how near comparisons came."""
        c, shape = self.library.functions, case.shape
        o = operands_at(MATRICES, shape, case.paddings, case.offsets)
        c.emulator_reset(ctypes.c_uint64(1))
        c.emulator_set_stream(ctypes.c_void_p(self.device.stream))
        c.emulator_set_sms(ctypes.c_int(case.sms or EMULATED_SMS))
        c.emulator_begin_coverage((ctypes.c_int64 * 6)(shape.m, shape.n, shape.k, o.lda, o.ldb, o.ldc))
        c.emulator_begin_capture()
        arguments = (shape, case.alpha, case.beta, o)
        try:
            needed = self.library.workspace_bytes(*arguments)
            well = self.library.queue(*arguments, WORKSPACE if needed else 0, self.device.stream) == 0
        except LadderError:
            well = False
        c.emulator_end_capture()
        counts = (ctypes.c_uint64 * 3)()
        c.emulator_end_coverage(ctypes.c_void_p(self._told.ctypes.data), counts)
        features, comparisons, calls = counts
        self.calls += calls
        pairs = self._told[features : features + 2 * comparisons].tolist()
        nearness = dict(zip(pairs[::2], pairs[1::2], strict=True))
        found = self.device.found(self.library, _NOTHING)
        seen = Covered(frozenset(self._told[:features].tolist()), well and not found)
        if seen.well:
            for comparison, distance in nearness.items():
                if distance < self.nearest.get(comparison, (math.inf, case))[0]:
                    self.nearest[comparison] = distance, case
        return seen

    def look(self, case: Case) -> None:
        """Keep a case that covers anything new, or that the host function refuses."""
        seen = self.see(case)
        if not seen.well:
            self.refused[seen.features] = min(self.refused.get(seen.features, case), case, key=cost)
        for feature in seen.features - self.covered:
            self.beside[feature] = min(self.beside.get(feature, case), case, key=cost)

    def cases(self, asked: Sequence[Case]) -> list[Case]:
        """MOST_CASES cases at most beside those that are asked for; first those that the host function refuses."""
        for case in asked:
            self.covered |= self.see(case).features
        products = chain((self.drawn() for _ in range(DRAWN_PRODUCTS)), self.changed())
        for product in islice(products, DRAWN_PRODUCTS + CHANGED_PRODUCTS):
            for case in claimed_cases(self.claims, [product]):
                self.look(case)
            if self.calls > MOST_CALLS:
                break
        return self.chosen()

    def chosen(self) -> list[Case]:
        """Of what covers anything new the cheapest cases that together cover most, made smaller where they may be."""
        found = [replace(case, probe="queued only") for case in islice(self.refused.values(), MOST_REFUSED)]
        left = set(self.beside)
        covering = {case: self.see(case).features for case in self.beside.values()}
        while left and len(found) < MOST_CASES:
            best = max(covering, key=lambda case: _worth(covering[case] & left) / (1 + cost(case) / ON_A_CPU.most))
            new = covering.pop(best) & left
            if not new:
                break
            left -= new
            found.append(run_as(self.with_other_gaps(self.smaller(best, new), new)))
        return found

    def with_other_gaps(self, case: Case, features: Iterable[int]) -> Case:
        """The case with three leading dimensions, as far as it covers the same; a rung may take one for another."""
        wanted = frozenset(features)
        for more in MORE_GAPS:
            gaps = tuple(gap + each for gap, each in zip(case.paddings, more, strict=True))
            other = replace(case, padding=gaps)
            if claimed(self.claims, other) and wanted <= self.see(other).features:
                return other
        return case

    def smaller(self, case: Case, features: Iterable[int]) -> Case:
        """The case with smaller sides where it is a large product, as far as it covers the same."""
        wanted = frozenset(features)
        for step in SHRINKING:
            for name in "mnk":
                less = case
                while cost(case) > ON_A_CPU.flop and claimed(self.claims, less) and wanted <= self.see(less).features:
                    case, sides = less, vars(less.shape)
                    if sides[name] < step:
                        break
                    less = replace(case, shape=Shape(**{**sides, name: int(sides[name] / step)}))
        return case

    # Products

    def drawn(self) -> Case:
        """Any product whose matrices are not too large."""
        random = self.random
        sides = [self._side() for _ in "mnk"]
        if random.random() < 0.2:
            one, other = random.sample(range(3), 2)
            sides[one] = sides[other]
        alpha, beta = random.choice(SOME_SCALARS)
        layout = {"padding": random.choice(SOME_GAPS), "offset": random.choice(SOME_GAPS)}
        return self._within(Case(Shape(*sides), alpha, beta, sms=self._sms(), **layout))

    def changed(self) -> Iterable[Case]:
        """Cases that differ in one thing from one that is known, without end."""
        random = self.random
        while True:
            near = [case for distance, case in self.nearest.values() if distance and case.shape.flop]
            new = list(self.beside.values())
            known = [case for of in (near, new) for case in random.sample(of, min(COMPARISONS_A_ROUND, len(of)))]
            for case in known or [self.drawn()]:
                for _ in range(8):
                    yield self._within(self._with_change(case))

    def _with_change(self, case: Case) -> Case:
        random = self.random
        scalars = ((case.alpha, 1.5), (case.beta, 0.0))
        alpha, beta = (scalar if 0.1 < abs(scalar) < 10 else usual for scalar, usual in scalars)
        padding = case.padding if max(case.paddings) <= WIDEST_GAP else 0
        case = replace(case, alpha=alpha, beta=beta, padding=padding, family=Case.family, drawn=0, blocks=0)
        if random.random() < 1 / 8:
            return replace(case, sms=self._sms())
        if random.random() < 1 / 8:
            alpha, beta = random.choice(SOME_SCALARS)
            return replace(
                case, alpha=alpha, beta=beta, padding=random.choice(SOME_GAPS), offset=random.choice(SOME_GAPS)
            )
        sides = vars(case.shape)
        name = random.choice("mnk")
        size = sides[name]
        changes = (
            size + random.choice((-1, 1)),
            size + random.choice((-1, 1)) * random.choice(self.numbers),
            round(size * 2 ** random.uniform(-2, 2)),
            round(size * 2 ** random.uniform(-0.1, 0.1)),
            sides[random.choice("mnk")],
            self._side(),
        )
        return replace(case, shape=Shape(**{**sides, name: min(max(1, random.choice(changes)), 4 * LARGEST_DRAWN)}))

    def _sms(self) -> int:
        return self.random.choice((0, self.random.choice(self.sms), self.random.randint(1, LARGEST_SMS)))

    def _side(self) -> int:
        random = self.random
        kind = random.random()
        if kind < 0.6:
            return round(math.exp(random.uniform(0, math.log(300 if kind < 0.25 else LARGEST_DRAWN))))
        times = round(math.exp(random.uniform(0, math.log(64))))
        return max(1, random.choice(self.numbers) * times + (random.choice((-1, 0, 1)) if kind > 0.8 else 0))

    def _within(self, case: Case) -> Case:
        """The case, with smaller sides where it is too large."""
        sides = dict(vars(case.shape))
        while most_elements(Shape(**sides)) > MOST_SEARCHED_ELEMENTS or Shape(**sides).flop >= self.most_flop:
            largest = max(sides, key=lambda name: sides[name])
            sides[self.random.choice("mnk") if sides[largest] < LARGEST_DRAWN else largest] //= 2
            sides = {name: max(1, size) for name, size in sides.items()}
        return replace(case, shape=Shape(**sides))


def cost(case: Case) -> int:
    """About the work that it is to emulate a case: of LEAST_SIDE rows and columns at least, and small ones alike."""
    shape = case.shape
    return max(ON_A_CPU.flop, 2 * max(shape.m, LEAST_SIDE) * max(shape.n, LEAST_SIDE) * shape.k)


def run_as(case: Case) -> Case:
    """The case as the emulator has the time for it."""
    return case if case.shape.flop <= 2 * ON_A_CPU.most else replace(case, blocks=EMULATED_FEW)


def _worth(features: Iterable[int]) -> int:
    """Of a set of features; a branch is worth more than a launch that differs in a number."""
    return sum(1 if feature & OF_LAUNCH else 3 for feature in features)


def main(asked: Mapping[str, Any]) -> None:
    """Emit the cases that are found beside those of the request."""
    search = BranchSearch(
        Library(Path(asked["library"])),
        EmulatedDevice(1, 1.0),
        Random(f"branches {asked['seed']}"),
        asked["numbers"] or [32],
        asked["sms"],
        min(asked["most_flop"], MOST_SEARCHED_FLOP),
        asked["claims"],
    )
    for case in search.cases([Case.of(each) for each in asked["cases"]]):
        process.emit(case=case.as_record())


if __name__ == "__main__":
    with process.request() as request:
        main(request)
