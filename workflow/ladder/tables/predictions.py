"""What a rung should reach, from its code, its launch and measured ceilings, and what each lever should gain.

`tensor_cores` says what the time of a rung on tensor cores is made of. The time of a rung of FFMAs is a launch, the
work of the SM with the most blocks at the rung's lowest ceiling, and what each step of k makes the warps wait that no
other warp hides:

    time = launch + factor * busy + latency * sum over rounds of blocks (steps * share of warp slots that are empty)

The launch is the empty kernel's time and the peak the FFMA kernel's rate, both measured; the calculation on paper has
the ceilings and blocks. Three numbers are fitted to the times of rungs: the factor by which a full SM misses its
ceiling, and the cycles that a step exposes, for rungs that load a tile when they need it and for those that load it
ahead. A rung is predicted by the fit to the times of all others of its unit, so its own time is never used. Where a
rung launches the very kernel of another, it is predicted as that one is, and its time is in no fit.

The fit is least squares of relative errors. On tensor cores, where rungs are few, a number that their times leave open
stays near what it would be without losses (`expected`). This is ridge regression (Hoerl and Kennard, Technometrics 12,
1970). Its weights take an error of TIME_ERROR at one time for as likely as a number that is off by its whole spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ladder.build.inspection import multiplying_kernel
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.tables.evidence import Evidence
from ladder.tables.paper import default_macros
from ladder.tables.tensor_cores import TENSOR_FITTED, TensorRates, TensorWork, tensor_works

SMALLEST, LARGEST = 1024, 8192  # n of the products that are predicted
TIME_ERROR = 0.1  # of a predicted time, as a share of it, in the weights of what is expected
WHOLE_TILES = 128  # n of the products that the numbers are fitted to is a multiple of it: no tile is in part empty
FITTED = {
    "factor": ("", "times as long as at its lowest ceiling a full SM works"),
    "cycles a step, loaded when needed": ("cycle", "that a step of k exposes on an SM without other warps"),
    "cycles a step, loaded ahead": ("cycle", "the same where the next tile is on its way meanwhile"),
}


@dataclass(frozen=True)
class Machine:
    """A GPU as measured: SMs, warps that one holds, FP32 peak in GFLOP/s, a launch in ms, the SMs' clock in kHz."""

    sms: int
    lanes: int
    warps: int
    peak_gflops: float
    launch_ms: float
    clock_khz: float

    @classmethod
    def of(cls, gpu: Gpu, timings: pd.DataFrame) -> Machine:
        """From the floors' times at their largest shape; from the GPU's file where these are not recorded."""
        floors = timings.sort_values("m").drop_duplicates("rung", keep="last").set_index("rung")
        peak, launch = gpu.peak_gflops, 0.0
        if "ffma" in floors.index:
            row = floors.loc["ffma"]
            peak = min(peak, 2 * row["m"] * row["n"] * row["k"] / row["time_ms_median"] / 1e6)
        if "empty" in floors.index:
            launch = float(floors.loc["empty", "time_ms_median"])
        warps = gpu.limits.get("max_threads_per_sm", 2048) // 32
        return cls(gpu.sms, gpu.fp32_lanes_per_sm, warps, peak, launch, gpu.sm_clock_mhz * 1e3)


@dataclass(frozen=True)
class Work:
    """What a rung does for a product: FLOP, blocks, blocks that an SM holds, warps of a block, the share of the FP32
    peak that its instructions allow, passes of the load/store pipe an FFMA, steps of k (0 without tiles), and whether
    the next step's tile is loaded meanwhile.
    """

    flop: float
    blocks: int
    held: int
    warps: int
    issue: float
    passes: float
    steps: int
    ahead: bool
    source: str = "code"  # of the passes: a profile, the lanes' addresses, or `code` for the fewest that it needs
    of: str = ""  # whose kernel it is, where that is another rung's

    fitted = FITTED
    expected: ClassVar[tuple[tuple[float, float], ...]] = ()  # the times of many rungs determine all three
    by = "FFMA"

    def ceiling(self, machine: Machine) -> float:
        """The share of the FP32 peak that the lower of issue slots and load/store pipe allows."""
        cycles = machine.lanes * machine.sms * 2 * machine.clock_khz / 1e6  # GFLOP/s of an FFMA a lane in each cycle
        pipe = 32 / machine.lanes / self.passes * cycles / machine.peak_gflops if self.passes > 0 else 1.0
        return min(1.0, self.issue, pipe)

    def ceiling_gflops(self, machine: Machine) -> float:
        """The lowest of the FP32 peak, the issue slots and the load/store pipe."""
        return self.ceiling(machine) * machine.peak_gflops

    def bound_by(self, machine: Machine) -> str:
        """What the lowest ceiling is of."""
        share = self.ceiling(machine)
        return "FP32 units" if share == 1 else "issue slots" if share == self.issue else "load pipe"

    def launches_ms(self, machine: Machine) -> float:
        """The time of an empty kernel."""
        return machine.launch_ms

    def parts_ms(self, machine: Machine, numbers: np.ndarray) -> dict[str, float]:
        """The predicted time: launch_ms, busy_ms, waiting_ms and prepass_ms, of which FFMAs have none."""
        busy, waiting, waiting_ahead = self.terms(machine) * numbers
        parts = {"launch_ms": machine.launch_ms, "busy_ms": busy, "waiting_ms": waiting + waiting_ahead}
        return parts | {"prepass_ms": 0.0}

    def rounds(self, machine: Machine) -> tuple[int, int]:
        """How often all SMs are filled with blocks, and the blocks of the SM with the most in what is left."""
        full = self.blocks // (machine.sms * self.held)
        return full, math.ceil((self.blocks - full * machine.sms * self.held) / machine.sms)

    def terms(self, machine: Machine) -> np.ndarray:
        """What the fitted numbers are multiplied by, in milliseconds a unit of each, in the order of FITTED."""
        full, rest = self.rounds(machine)
        of_sm = machine.peak_gflops * 1e6 / machine.sms * self.ceiling(machine)
        busy = (full * self.held + rest) * self.flop / self.blocks / of_sm

        def empty(blocks: int) -> float:
            return 1 - min(1.0, blocks * self.warps / machine.warps)

        waits = self.steps * (full * empty(self.held) + (empty(rest) if rest else 0.0)) / machine.clock_khz
        return np.array([busy, 0.0 if self.ahead else waits, waits if self.ahead else 0.0])


AnyWork = Work | TensorWork


def time_ms(work: AnyWork, machine: Machine, fitted: np.ndarray) -> float:
    """The predicted time of a product."""
    return work.launches_ms(machine) + float(work.terms(machine) @ fitted)


def fit(cases: Sequence[tuple[AnyWork, float]], machine: Machine) -> np.ndarray | None:
    """The fitted numbers by least squares of relative errors, none negative; None where the times determine none.

    `cases` are pairs of work, all of one unit, and measured milliseconds. `expected` of the unit's work has a pair for
    each number, its value and how far off it may be, or nothing.
    """
    if not cases or len(cases) <= len(cases[0][0].fitted):
        return None
    times = np.array([time for _, time in cases])
    terms = np.array([work.terms(machine) for work, _ in cases]) / times[:, None]
    wanted = 1 - np.array([work.launches_ms(machine) for work, _ in cases]) / times
    if cases[0][0].expected:
        values, spreads = np.array(cases[0][0].expected).T
        terms = np.vstack([terms, np.diag(TIME_ERROR / spreads)])
        wanted = np.concatenate([wanted, TIME_ERROR / spreads * values])
    used = np.flatnonzero(terms.any(axis=0))
    if np.linalg.matrix_rank(terms[:, used]) < len(used):
        return None
    # A number that would be negative is zero: of all choices of numbers the one with the least error.
    best, least = None, math.inf
    for columns in (list(each) for count in range(1, len(used) + 1) for each in combinations(used, count)):
        solved = np.linalg.lstsq(terms[:, columns], wanted, rcond=None)[0]
        error = float(((terms[:, columns] @ solved - wanted) ** 2).sum())
        if (solved >= 0).all() and error < least:
            best, least = np.zeros(terms.shape[1]), error
            best[columns] = solved
    return best


def loads_ahead(rungs: Sequence[Rung]) -> set[str]:
    """The rungs that load the next tile meanwhile: `double_buffered` and all that build on it."""
    before = {rung.name: rung.before for rung in rungs}

    def chain(name: str | None) -> Iterable[str]:
        while name:
            yield name.partition("@")[0]
            name = before.get(name)

    return {name for name in before if "double_buffered" in chain(name)}


def works(evidence: Sequence[Evidence], paper: pd.DataFrame, resources: pd.DataFrame) -> dict[tuple[str, str], Work]:
    """The work of each rung of FFMAs and square product from SMALLEST to LARGEST, by rung and shape."""
    rungs = {item.rung.name: item.rung for item in evidence}
    ahead = loads_ahead(list(rungs.values()))
    main = resources[resources["multiplies"].astype(bool)]
    threads = {(row.rung, str(row.shape)): row.block_threads for row in main.itertuples()}
    found = {}
    for row in paper[paper["predicted_gflops"].notna()].itertuples():
        text = str(row.shape)
        shape = Shape.parse(text)
        if not (shape.m == shape.n == shape.k and SMALLEST <= shape.n <= LARGEST) or pd.isna(row.blocks_per_sm):
            continue
        rung = rungs[row.rung]
        macros = default_macros(rung) | rung.macros_at(shape)
        depth = macros.get("BK", macros.get("TILE"))
        found[row.rung, text] = Work(
            flop=shape.flop,
            blocks=int(row.blocks),
            held=int(row.blocks_per_sm),
            warps=-(-int(threads[row.rung, text]) // 32),
            issue=row.ceiling_issue_slots_gflops / row.ceiling_fp32_units_gflops,
            passes=row.wavefronts_per_ffma,
            steps=-(-shape.k // int(depth)) if depth else 0,
            ahead=row.rung in ahead,
            source=row.wavefronts_from,
        )
    return found


PREDICTION_COLUMNS = [
    *(
        "rung",
        "shape",
        "n",
        "timed",
        "by",
        "predicted_gflops",
        "measured_gflops",
        "error_percent",
        "ceiling_gflops",
        "bound_by",
    ),
    *("launch_ms", "busy_ms", "waiting_ms", "prepass_ms", "counted_from"),
]
FIT_COLUMNS = ["unit_of", "parameter", "value", "lowest", "highest", "unit", "meaning", "times"]
FFMAS, ON_TENSOR_CORES = "FFMA", "tensor cores"


def fitted_with(work: AnyWork) -> str:
    """The unit whose rungs are fitted together."""
    return FFMAS if isinstance(work, Work) else ON_TENSOR_CORES


def all_works(
    evidence: Sequence[Evidence], gpu: Gpu, paper: pd.DataFrame, resources: pd.DataFrame, hardware: pd.DataFrame
) -> dict[tuple[str, str], AnyWork]:
    """The work of each rung and square product from SMALLEST to LARGEST, by rung and shape: of FFMAs, then of tensor
    cores.
    """
    shapes = dict.fromkeys(Shape.parse(text) for item in evidence for text in item.inspection["launches"])
    squares = [shape for shape in shapes if shape.m == shape.n == shape.k and SMALLEST <= shape.n <= LARGEST]
    rates = TensorRates.of(gpu, hardware)
    found = {**works(evidence, paper, resources), **tensor_works(evidence, squares, rates)}
    return {**found, **_works_of_others(evidence, squares, found)}


def _works_of_others(
    evidence: Sequence[Evidence], shapes: Sequence[Shape], known: Mapping[tuple[str, str], AnyWork]
) -> dict[tuple[str, str], AnyWork]:
    """The work where a rung has none of its own, but its kernel and launch are those of a rung that has.

    So a rung that chooses its way by shape has that of the way.
    """

    def of_kernel(item: Evidence, text: str) -> tuple[Any, ...] | None:
        main = multiplying_kernel(dict(item.inspection), text)
        if main is None or not main[1]["code"]["loop_sass"]:
            return None
        launch, kernel = main
        return launch["grid"], launch["block"], launch.get("occupancy"), kernel["code"]["loop_sass"]

    found: dict[tuple[str, str], AnyWork] = {}
    for text in map(str, shapes):
        own = [(item.rung.name, of_kernel(item, text)) for item in evidence if (item.rung.name, text) in known]
        for item in evidence:
            key, wanted = (item.rung.name, text), of_kernel(item, text)
            name = next((name for name, kernel in own if kernel == wanted), "")
            if wanted and name and item.rung.role == "rung" and key not in known:
                found[key] = replace(known[name, text], of=name)
    return found


def _measured(evidence: Sequence[Evidence]) -> dict[tuple[str, str], float]:
    """Median milliseconds by rung and shape."""
    return {
        (item.rung.name, str(shape)): 1e3 * float(np.median(timing.own.times_s))
        for item in evidence
        if item.sound
        for shape, timing in item.timings.items()
    }


@dataclass(frozen=True)
class Model:
    """What predictions are made from: the machine, the work of each rung and shape (`all_works`), and measured times in
    milliseconds.
    """

    machine: Machine
    works: Mapping[tuple[str, str], AnyWork]
    times: Mapping[tuple[str, str], float]
    _fits: dict[tuple[str, str], np.ndarray | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        evidence: Sequence[Evidence],
        gpu: Gpu,
        paper: pd.DataFrame,
        resources: pd.DataFrame,
        timings: pd.DataFrame,
        hardware: pd.DataFrame,
    ) -> Model:
        """The model of the evidence; the tables are those of these names."""
        found = all_works(evidence, gpu, paper, resources, hardware)
        return cls(Machine.of(gpu, timings), found, _measured(evidence))

    def without(self, unit: str, rung: str) -> np.ndarray | None:
        """The numbers that fit the times of all other rungs of a unit, at multiples of WHOLE_TILES; None if too few."""
        if (unit, rung) not in self._fits:
            others = [
                (work, self.times[key])
                for key, work in self.works.items()
                if key in self.times and whole(key[1]) and rung != key[0] and not work.of and fitted_with(work) == unit
            ]
            self._fits[unit, rung] = fit(others, self.machine)
        return self._fits[unit, rung]

    def numbers(self, rung: str, work: AnyWork) -> np.ndarray | None:
        """The fitted numbers by which a rung's work is predicted."""
        return self.without(fitted_with(work), work.of or rung)


def whole(text: str) -> bool:
    """Whether the numbers are fitted to products of this size: no tile of them is in part empty."""
    return int(text) % WHOLE_TILES == 0


def prediction_table(model: Model) -> pd.DataFrame:
    """One row a rung and square product of the run from SMALLEST to LARGEST.

    Columns: PREDICTION_COLUMNS. timed (whether the rung was; else measured_gflops and error_percent are empty), by
    (`FFMA`, `mma.sync` or `wgmma`), predicted_gflops by the fit to the other rungs of its unit, error_percent of it
    over the measured one, ceiling_gflops (the lowest, by measured floors and probes where there are any), launch_ms,
    busy_ms, waiting_ms and prepass_ms (what the predicted time is made of), counted_from (of FFMAs where the passes are
    from, as paper's wavefronts_from; of tensor cores where their rates are, `probes` or `GPU file`).
    """
    machine, rows = model.machine, []
    for (rung, text), work in model.works.items():
        numbers = model.numbers(rung, work)
        if numbers is None:
            continue
        ceiling = work.ceiling_gflops(machine)
        predicted = min(ceiling, work.flop / time_ms(work, machine, numbers) / 1e6)
        timed = (rung, text) in model.times
        measured = work.flop / model.times[rung, text] / 1e6 if timed else math.nan
        rows.append(
            {
                **{"rung": rung, "shape": text, "n": int(text), "timed": timed, "by": work.by},
                **{"predicted_gflops": predicted, "measured_gflops": measured},
                "error_percent": 100 * (predicted / measured - 1),
                **{"ceiling_gflops": ceiling, "bound_by": work.bound_by(machine)},
                **work.parts_ms(machine, numbers),
                "counted_from": work.source,
            }
        )
    return pd.DataFrame(rows, columns=PREDICTION_COLUMNS)


def error_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """How far predicted rates are off, by what multiplies; of what was timed.

    Columns: by, rungs, predictions, median_error_percent and largest_error_percent (magnitudes), `all` in the last row.
    """
    predictions = predictions[predictions["timed"].astype(bool)]
    groups = [(by, rows) for by, rows in predictions.groupby("by", sort=False)]
    rows = [
        (by, rows["rung"].nunique(), len(rows), rows["error_percent"].abs().median(), rows["error_percent"].abs().max())
        for by, rows in [*groups, *([("all", predictions)] if len(predictions) else [])]
    ]
    return pd.DataFrame(rows, columns=["by", "rungs", "predictions", "median_error_percent", "largest_error_percent"])


def fit_table(model: Model) -> pd.DataFrame:
    """The fitted numbers: one row each. Columns: FIT_COLUMNS; lowest and highest of the fits that leave a rung out."""
    rows = []
    for unit, parameters in ((FFMAS, FITTED), (ON_TENSOR_CORES, TENSOR_FITTED)):
        own = [key for key, work in model.works.items() if fitted_with(work) == unit and not work.of]
        timed = [key for key in own if key in model.times]
        fits = [model.without(unit, rung) for rung in dict.fromkeys(rung for rung, _ in timed)]
        left_out = [numbers for numbers in fits if numbers is not None]
        every = model.without(unit, "")
        if every is None or not left_out:
            continue
        ends, count = np.array(left_out), sum(whole(text) for _, text in timed)
        rows += [
            (unit, name, every[i], ends[:, i].min(), ends[:, i].max(), of, meaning, count)
            for i, (name, (of, meaning)) in enumerate(parameters.items())
        ]
    return pd.DataFrame(rows, columns=FIT_COLUMNS)


def _fewest_passes(work: Work, code: float, machine: Machine) -> Work | None:
    return replace(work, passes=code) if code < work.passes else None


def _even(work: Work, machine: Machine) -> Work | None:
    """As many warps on each SM as it holds of the rung, one after the other at an equal share of the tiles."""
    rounds = work.blocks / (machine.sms * work.held)
    steps = math.ceil(work.steps * rounds)
    return replace(work, blocks=machine.sms, held=1, warps=work.held * work.warps, steps=steps) if rounds > 1 else None


def _even_tiles(work: TensorWork, machine: Machine) -> TensorWork | None:
    """As many tiles as fill every SM the same number of times, each a little smaller."""
    places = machine.sms * work.held
    return replace(work, tiles=-(-work.tiles // places) * places) if work.tiles % places else None


# What may be tried: its name, what it changes, and the change, which takes the work, the fewest passes an FFMA that the
# inner loop's loads need, and the machine; None where there is nothing to change.
Lever = tuple[str, str, Callable[[AnyWork, float, Machine], "AnyWork | None"]]


def _more_warps(of_work: str) -> Lever:
    """Twice the blocks that an SM holds (`held`), or of blocks on tensor cores their `warps`."""
    return (
        "twice as many warps on an SM",
        "half as many registers and as much shared memory a block",
        lambda work, code, machine: (
            replace(work, **{of_work: 2 * getattr(work, of_work)})
            if 2 * work.held * work.warps <= machine.warps
            else None
        ),
    )


LEVERS: tuple[Lever, ...] = (
    (
        "addresses without extra passes",
        "each load in the fewest passes: coalesced, without bank conflicts",
        _fewest_passes,
    ),
    (
        "a larger thread tile or wider loads",
        "half as many passes of the load/store pipe an FFMA",
        lambda work, code, machine: replace(work, passes=work.passes / 2) if work.steps else None,
    ),
    (
        "tiles in shared memory",
        "half as many passes of the load/store pipe an FFMA",
        lambda work, code, machine: None if work.steps else replace(work, passes=work.passes / 2),
    ),
    (
        "fewer instructions beside FFMAs",
        "half as many of them in the inner loop",
        lambda work, code, machine: replace(work, issue=2 / (1 + 1 / work.issue)),
    ),
    (
        "loading the next tile meanwhile",
        "a step exposes the cycles of rungs that load ahead",
        lambda work, code, machine: replace(work, ahead=True) if work.steps and not work.ahead else None,
    ),
    _more_warps("held"),
    (
        "an even last round",
        "as much work for each SM",
        lambda work, code, machine: _even(work, machine),
    ),
)
# The same of rungs on tensor cores.
TENSOR_LEVERS: tuple[Lever, ...] = (
    (
        "wgmma in place of mma.sync",
        "multiplies at the rate of wgmma",
        lambda work, code, machine: replace(work, by="wgmma", rate=work.fastest) if work.fastest > work.rate else None,
    ),
    (
        "fewer instructions beside the tensor cores'",
        "half as many issue slots in the inner loop",
        lambda work, code, machine: replace(work, slots=work.slots / 2),
    ),
    _more_warps("warps"),
    (
        "a shorter pre-pass",
        "half as many bytes are read and written before the kernel that multiplies",
        lambda work, code, machine: replace(work, prepass_bytes=work.prepass_bytes / 2) if work.prepass_bytes else None,
    ),
    (
        "an even last round",
        "as much work for each SM",
        lambda work, code, machine: _even_tiles(work, machine),
    ),
)
LEVER_COLUMNS = ["rung", "shape", "lever", "change", "predicted_gain"]


def lever_table(model: Model, instructions: pd.DataFrame) -> pd.DataFrame:
    """What each lever should gain a rung, by the model fitted to the other rungs: predicted time over that with it.

    Columns: LEVER_COLUMNS; a row a rung, shape and lever that changes something, the largest gain first.
    """
    machine, rows = model.machine, []
    loops = instructions[instructions["part"] == "inner loop"]
    code = {(row.rung, n): row.wavefronts_per_ffma for row in loops.itertuples() for n in str(row.launched_at).split()}
    for (rung, text), work in model.works.items():
        numbers = model.numbers(rung, work)
        if numbers is None or not whole(text):
            continue
        now, gains = time_ms(work, machine, numbers), []
        for name, what, change in LEVERS if isinstance(work, Work) else TENSOR_LEVERS:
            changed = change(work, code.get((rung, text), math.inf), machine)
            if changed is not None:
                gains.append((rung, text, name, what, now / time_ms(changed, machine, numbers)))
        rows += sorted(gains, key=lambda row: -row[-1])
    return pd.DataFrame(rows, columns=LEVER_COLUMNS)
