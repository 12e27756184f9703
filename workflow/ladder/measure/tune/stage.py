"""The tune stage: it checks and times every combination of a rung's parameters that compiles, and the best few again.

The search is a sweep in two rounds. The first takes a few samples of every combination; the second takes as many as the
time stage does of those that were fastest and of the source's defaults. Both stand beside cuBLAS in one process, and
are compared by their ratio to it. Why no cleverer search: docs/tuning.md.

The record, results/GPU/raw/trials/ENTRY.json.gz, is replaced as a whole after every batch of trials, so that a kill
loses one batch at most; what it holds of the same build and settings is not measured again.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ladder.build.compile import Build, build, build_digest
from ladder.build.languages.compile import compiler_version, why_no_compiler
from ladder.build.resources import resource_report
from ladder.build.toolchain import Nvcc
from ladder.config.search_space import SearchSpace
from ladder.measure.time.stage import collect
from ladder.measure.worker import WORKER
from ladder.model.gpu import Gpu, Target
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.provenance import made_on
from ladder.records.timings import DISHONEST, measurements
from ladder.records.trials import FINAL, SCREEN, Record
from ladder.system.errors import LadderError
from ladder.system.process import BROKEN, FAILED, OK, Event, Outcome, run_worker


def trial_rungs(template: Rung, gpu: Gpu) -> list[Rung]:
    """Every combination of the space of a rung's entry that is worth compiling for a GPU, the source's defaults first.

    Raises LadderError where an expression of the declaration cannot be evaluated, or nothing is left.
    """
    space = SearchSpace.of(template)
    combinations = space.combinations(gpu)
    if not combinations:
        raise LadderError(f"{space.where}: its restrictions leave no combination on {gpu.title}; widen the parameters")
    return [
        dataclasses.replace(
            template,
            name=variant_name(template.entry, macros),
            macros={key: str(value) for key, value in macros.items()},
            tuned=(),
        )
        for macros in combinations
    ]


def default_trial(template: Rung) -> str:
    """The name of the trial of a rung's entry that is the source's defaults."""
    return variant_name(template.entry, SearchSpace.of(template).default)


def build_trials(
    rungs: Sequence[Rung], target: Target, nvcc: Nvcc, flags: list[str], folder: Path, threads: int
) -> dict[str, dict[str, Any]]:
    """Compile trials side by side, each into a folder of its own; returns their compile records by name.

    What is compiled already, from the same sources with the same compiler, stays. The compiler refuses what a
    static_assert of the source forbids, in its front end and thus within a second. Raises LadderError where it refuses
    every trial.
    """
    language = rungs[0].language
    compiler = [] if language == "cuda" or why_no_compiler(language) else [compiler_version(language)]

    def make(rung: Rung) -> dict[str, Any]:
        made = folder / rung.name
        kept = made / "compile.json"
        if kept.exists():
            record = store.read_json(kept)
            if record["build_digest"] == build_digest(rung, target, nvcc, [*flags, *compiler]):
                return record
            kept.unlink()  # a kill during the next compilation must not leave the old word on a new library
        return build(rung, target, nvcc, flags, made)

    with ThreadPoolExecutor(threads) as pool:
        compiled = dict(zip([rung.name for rung in rungs], pool.map(make, rungs), strict=True))
    if all(record["status"] != "ok" for record in compiled.values()):
        first, record = next(iter(compiled.items()))
        raise LadderError(f"tune: the compiler refuses all {len(compiled)} combinations; {first}: {record['message']}")
    return compiled


def score(record: Record, trial: str, stage: str, shape: str) -> float | None:
    """The median time of a trial over that of cuBLAS in the same process; None where it was not timed."""
    found = record.trials.get((trial, stage))
    if found is None or shape not in found["times_s"]:
        return None
    beside = record.batches[found["batch"]]["times_s"][shape]
    return float(np.median(found["times_s"][shape]) / np.median(beside))


@dataclass(frozen=True)
class Search:
    """What a search needs: the trials' builds and compile records, cuBLAS, the cases, the shapes, the settings."""

    entry: str
    builds: Mapping[str, Build]
    compiled: Mapping[str, Mapping[str, Any]]
    baseline: str
    baseline_build: Build
    cases: Sequence[Mapping[str, Any]]
    shapes: Sequence[str]
    settings: Mapping[str, Mapping[str, Any]]  # by round
    final_cases: Sequence[Mapping[str, Any]]
    finalists: int
    default: str
    variants: Sequence[Mapping[str, str]]
    declared: Mapping[str, Any]  # what the rung says of itself, and trials are held to
    batch: int
    device: int
    time_limit_s: float
    where: Callable[[Mapping[str, Any], str], dict[str, Any]]
    log: Path
    progress: Callable[[str], None]

    def run(self, record: Record) -> None:
        """Bring the record up to date: every trial through the first round, the best through the second."""
        broken = {name: made for name, made in self.compiled.items() if made["status"] != "ok"}
        record.add(self._trial(name, SCREEN, "does not compile", made["message"]) for name, made in broken.items())
        names = [name for name in self.builds if name not in broken]
        todo = [name for name in names if not self._held(record, name, SCREEN)]
        for first in range(0, len(todo), self.batch):
            self.progress(f"{len(names) - len(todo) + first} of {len(names)} trials done")
            self._measure(record, SCREEN, todo[first : first + self.batch])
        chosen = self.best(record, names)
        if not all(self._held(record, name, FINAL) for name in chosen):
            self.progress(f"timing the best {len(chosen)} of {len(names)} again")
            self._measure(record, FINAL, chosen)
        for key in [key for key in record.trials if key[1] == FINAL and key[0] not in chosen]:
            del record.trials[key]
        record.keep(self.builds)

    def best(self, record: Record, names: Sequence[str]) -> list[str]:
        """The trials of the second round: the source's defaults, and of each shape the fastest of the first.

        Of an entry with variants the fastest with each variant's macros.
        """
        chosen: dict[str, None] = {}
        for shape in self.shapes:
            scores = {name: score(record, name, SCREEN, shape) for name in names}
            timed = sorted((name for name in names if scores[name] is not None), key=lambda name: scores[name])
            for own in self.variants:
                of_variant = [name for name in timed if own.items() <= parse_variant(name)[1].items()]
                chosen |= dict.fromkeys(of_variant[: self.finalists])
            chosen |= dict.fromkeys(name for name in timed if name == self.default)
        return [name for name in names if name in chosen]

    def digest(self, stage: str) -> str:
        """What identifies the settings of a round in a record."""
        return store.digest(
            store.to_json({**self.settings[stage], "shapes": list(self.shapes), "cases": list(self._cases(stage))})
        )

    def _cases(self, stage: str) -> Sequence[Mapping[str, Any]]:
        return self.final_cases if stage == FINAL else self.cases

    def _held(self, record: Record, name: str, stage: str) -> bool:
        return record.held(name, stage, self.compiled[name]["build_digest"], self.digest(stage), self._made_on)

    @cached_property
    def _made_on(self) -> tuple[str | None, ...]:
        """The device and software of this search, asked for once."""
        sound = next(made for made in self.compiled.values() if made["status"] == "ok")
        return made_on(self.where(sound, ""))

    def _trial(
        self, name: str, stage: str, status: str, message: str, times: Mapping[str, list[float]] | None = None
    ) -> dict[str, Any]:
        compiled = self.compiled[name]
        kernels = resource_report(compiled["log"]).values()
        return {
            "trial": name,
            "round": stage,
            "status": status,
            "message": message,
            "source_digest": compiled.get("source_digest", ""),
            "build_digest": compiled["build_digest"],
            "registers": max((kernel.get("registers", 0) for kernel in kernels), default=0),
            "spill_bytes": max((kernel.get("spill_store_bytes", 0) for kernel in kernels), default=0),
            "times_s": dict(times or {}),
        }

    def _measure(self, record: Record, stage: str, names: Sequence[str]) -> None:
        """One batch; where a trial crashes, hangs or is refused, it is noted and the others start again."""
        left = list(names)
        while left:
            outcome, verdicts, states, files, current, wall_s = self._process(stage, left)
            wrong = {name: text for name, text in verdicts.items() if text != "pass"}
            if self.baseline in wrong:
                raise LadderError(f"tune: {self.baseline}: {wrong[self.baseline]}; nothing can be compared with it")
            if outcome.status == BROKEN or (outcome.status != OK and current in ("", self.baseline)):
                raise LadderError(f"tune: {self.entry}: {current + ': ' if current else ''}{outcome.message}")
            trials = [self._trial(name, stage, "wrong", text) for name, text in wrong.items()]
            where = {**self.where(self.compiled[left[0]], self.digest(stage)), "wall_s": wall_s}
            batch = {"id": where["measured_at"], "round": stage, "settings": dict(self.settings[stage])}
            if outcome.status != "ok":
                trials.append(self._trial(current, stage, "failed", outcome.message))
                record.add(trials, {**batch, "where": where, "times_s": {}, "states": []})
                left = [name for name in left if name != current and name not in wrong]
                continue
            times = _times(files, states, self.settings[stage])
            sound = [name for name in left if name not in wrong]
            missing = [name for name in [self.baseline, *sound] if set(times.get(name, {})) != set(self.shapes)]
            if missing:
                raise LadderError(f"tune: {missing[0]}: NVBench wrote no times; its log is {self.log}")
            trials += [self._trial(name, stage, "ok", "", times[name]) for name in sound]
            record.add(trials, {**batch, "where": where, "times_s": times[self.baseline], "states": states})
            return

    def _process(self, stage: str, names: Sequence[str]) -> tuple[Any, ...]:
        verdicts: dict[str, str] = {}
        states: list[dict[str, Any]] = []
        current = ""
        dishonest: dict[str, str] = {}

        def on_event(event: Event) -> None:
            nonlocal current
            if "starts" in event:
                current = event["starts"]["kernel"]
            elif "checked" in event:
                verdicts[event["checked"]["kernel"]] = event["checked"]["verdict"]
            elif "dishonest" in event:
                dishonest.update(event["dishonest"])
            else:
                states.extend(event["states"])

        libraries = {self.baseline: self.baseline_build, **{name: self.builds[name] for name in names}}
        with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
            request = {
                "baseline": self.baseline,
                "libraries": {name: str(made.library) for name, made in libraries.items()},
                "cases": list(self._cases(stage)),
                "shapes": list(self.shapes),
                "held_to": self.declared,
                "declared": {name: {"precision": self.declared["precision"], "claims": {}} for name in libraries},
                "device": self.device,
                "folder": folder,
                **self.settings[stage],
            }
            begun = time.monotonic()
            outcome = run_worker(WORKER, {"stage": "tune", **request}, on_event, self.time_limit_s, self.log)
            if dishonest and outcome.status == OK:
                current, outcome = dishonest["kernel"], Outcome(FAILED, f"{DISHONEST}{dishonest['finding']}")
            return (outcome, verdicts, states, collect(Path(folder)), current, round(time.monotonic() - begun, 3))


def _times(
    files: Mapping[str, bytes], states: list[dict[str, Any]], settings: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """Seconds of each sample, by kernel and shape, from NVBench's files."""
    if "nvbench.json" not in files:
        return {}
    found: dict[str, dict[str, list[float]]] = {}
    for each in measurements(files, {"states": states, "settings": settings}):
        found.setdefault(each.kernel, {})[str(each.shape)] = [float(f"{value:.6g}") for value in each.times_s]
    return found


def round_settings(tune: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What NVBench is asked for in each round, from the configuration's `tune` and `timing`."""
    first, last = tune["budget_s"], tune["final_budget_s"]
    return {
        SCREEN: {
            "warmup": 1,
            "iterations": tune["iterations"],
            "min_iterations": 3,
            "budget_s": first,
            "reference_budget_s": first,
        },
        FINAL: {
            "warmup": timing["warmup"],
            "iterations": timing["iterations"],
            "min_iterations": 3,
            "budget_s": last,
            "reference_budget_s": last,
        },
    }


def shape_cases(shapes: Iterable[Shape]) -> list[dict[str, Any]]:
    """The plain product of each shape, as it is timed."""
    return [{"shape": str(shape), "alpha": 1, "beta": 0, "padding": 0, "offset": 0} for shape in shapes]
