"""The check stage: a verdict for a rung, with the errors of every case."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.build.resources import device_variable_bytes, first_warning
from ladder.measure.check.in_common import passing
from ladder.measure.worker import WORKER
from ladder.model.cases import WIDE, Case, is_unfinished
from ladder.model.drawn import most_elements
from ladder.system.process import BROKEN, OK, Event, Outcome, run_worker

WORKERS = 5  # processes that share a check on a GPU
LARGE_MATRIX = 1 << 22  # elements of a matrix
DRAWN_RUNS = 2  # of a drawn case on a GPU at most: what the others find in more runs is no other there
LONG_SUM = 1 << 24  # steps, for which one thread may take seconds: such a case is computed once


def check_rung(
    made: Build,
    cases: Sequence[Case],
    device: int,
    time_limit_s: float,
    environment: Callable[[dict[str, Any]], dict[str, Any]],
    log: Path,
    progress: Callable[[int, Case], None],
    runs: int = 1,
    declared: Mapping[str, Any] | None = None,
    workers: int = 0,
    until_wrong: bool = False,
) -> dict[str, Any]:
    """Check a rung, by so many processes on one GPU that share the cases, and return its record.

    Most of the time is the CPU's, which draws inputs and queues many small kernels for each case. So processes
    that share a GPU do not wait for each other. One has all products with a LARGE_MATRIX, so that a small GPU holds
    them. 0 stands for WORKERS, or the CPUs of this process where they are fewer. With `until_wrong` no case is
    begun after the first that does not pass.

    Keys: status (`pass`, `failed`, or why it could not be checked: the compile record's status), message, where (with
    wall_s, the seconds that it took), runs (how often each case was computed but those of `runs_of`) and whether
    all gave the same bits (identical), cases (those that ran, with errors and verdict), and `declared`: what
    the rung says of itself, `deterministic`, `subnormals` and `precision` of kernels.yaml. Raises LadderError where
    the machine broke the check off, which says nothing about the rung.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": []}
    where = environment(compiled)
    begun = time.monotonic()
    declared = dict(declared or {})
    variables = device_variable_bytes(compiled.get("log", ""))
    one_at_a_time = f"its __device__ variables have {variables} bytes" if variables else ""
    request = {"library": str(made.library), "device": device, "declared": declared, "one_at_a_time": one_at_a_time}
    request["until_wrong"] = until_wrong
    times = [runs_of(case, runs) for case in cases]
    workers = workers or min(WORKERS, len(os.sched_getaffinity(0)))
    answers = run_cases(cases, times, request, time_limit_s, log, progress, workers, apart=_is_large)
    where["wall_s"] = round(time.monotonic() - begun, 3)
    status, message = answers.verdict(f"check: {made.folder.name}")
    message += first_warning(compiled.get("log", "")) if status == "failed" else ""
    identical = all(case.pop("identical", True) for case in answers.records)
    return {
        **{"status": status, "message": message, "where": where},
        **{"declared": declared, "runs": runs, "identical": identical and status == "pass"},
        "cases": answers.records,
    }


def runs_of(case: Case, runs: int) -> int:
    """How often a case is computed on a GPU where `runs` are asked for."""
    return 1 if case.shape.k >= LONG_SUM else min(runs, DRAWN_RUNS) if case.drawn else runs


def kind_of(verdict: str) -> str:
    """The kind of a finding, such as `race`; of wrong values, empty."""
    found = re.match(r"[a-z ]+(?=: )", verdict)
    return found[0] if found else ""


@dataclass
class Answers:
    """What came back of the cases that a worker was asked for."""

    asked: Sequence[Case]
    records: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[Case] = field(default_factory=list)  # for this machine cannot compute them
    blocks: dict[str, int] = field(default_factory=dict)  # in the emulator: `EmulatedDevice.largest_blocks`
    current: Case | None = None  # the case begun last
    outcome: Outcome = field(default_factory=lambda: Outcome(BROKEN, "no worker ran"))

    def found_something(self) -> bool:
        """Whether a case did not pass, or the worker failed."""
        return self.outcome.status != OK or any(record["verdict"] != "pass" for record in self.records)

    def one_at_a_time(self) -> str:
        """Why two products must not run at once, in words of a message; empty where they may."""
        why = next((record["one_at_a_time"] for record in self.records if "one_at_a_time" in record), "")
        return f"not for two streams at once: {why}" if why else ""

    def verdict(self, what: str) -> tuple[str, str]:
        """`pass`, where every case that was asked for came back as passed, or `failed` and what failed in one line.

        Of cases that failed alike it tells the first, and rather one of finite numbers than one of infinities and NaN.

        Of a rung that passes the line is empty, or says what `one_at_a_time` does.

        Raises LadderError, with `what` was checked, where the machine broke it off before any case failed.
        """
        wrong = [record for record in self.records if record["verdict"] != "pass"]
        if wrong:
            passed = [Case.of(record) for record in self.records if record["verdict"] == "pass"]
            same_kind = [each for each in wrong if kind_of(each["verdict"]) == kind_of(wrong[0]["verdict"])]
            alike = [Case.of(each) for each in same_kind]
            plainest = next((each for each in same_kind if Case.of(each).is_finite), wrong[0])
            told = [f"{Case.of(plainest).told()}: {plainest['verdict']}", passing(passed, alike)]
            if other := next((each for each in wrong if Case.of(each) not in alike), None):
                told.append(
                    f"otherwise wrong: {len(wrong) - len(alike)}, such as {Case.of(other).told()}: {other['verdict']}"
                )
            return "failed", "; ".join(filter(None, told))
        at = f"{self.current.told()}: " if self.current else ""
        if self.outcome.status != OK:
            outcome = self.outcome.of_the_work(f"{what}: {at}not checked")
            return "failed", at + outcome.message
        answered = {*map(Case.of, self.records), *self.left_out}
        if missing := [case for case in self.asked if case not in answered]:
            return "failed", f"{missing[0].told()}: no answer (as to {len(missing)} of {len(self.asked)} cases)"
        return "pass", self.one_at_a_time()

    def unfinished(self) -> str:
        """What was waited for and did not end, in one line; empty where all ended or anything was found to be wrong."""
        wrong = [record for record in self.records if record["verdict"] != "pass"]
        if not all(is_unfinished(record["verdict"]) for record in wrong) or not (wrong or self.outcome.overdue):
            return ""
        case, why = (Case.of(wrong[0]), wrong[0]["verdict"]) if wrong else (self.current, self.outcome.message)
        passed = len(self.records) - len(wrong)
        at = f"{case.told()}: " if case else ""
        return f"{at}not finished: {why.removeprefix('timeout: ')}; {passed} of {len(self.asked)} cases passed before"


def run_cases(
    cases: Sequence[Case],
    runs: Sequence[int],
    request: Mapping[str, Any],
    time_limit_s: float,
    log: Path,
    progress: Callable[[int, Case], None] = lambda done, case: None,
    workers: int = 1,
    apart: Callable[[Case], bool] = lambda case: False,
) -> Answers:
    """Let workers, which share the cases, compute each so many times, and keep what they answer.

    The cases that are `apart` are one worker's, if there are several workers. The progress is told how many cases have
    begun, and which one begins. `request` holds the rest of what a worker is asked
    (`ladder.measure.check.worker.main`); with its `until_wrong`, what one worker finds ends the others.
    `current` and `outcome` are those of a worker that failed, if one did.
    """
    begun: list[Case] = []
    enough = threading.Event()

    def begins(case: Case) -> None:
        if enough.is_set():
            raise _EnoughError
        progress(len(begun), case)
        begun.append(case)

    def share(own: Sequence[tuple[Case, int]]) -> Answers:
        answers = Answers([case for case, _ in own])
        _run_share(answers, [times for _, times in own], request, time_limit_s, log, begins)
        if request.get("until_wrong") and answers.found_something():
            enough.set()
        return answers

    dealt = _dealt(list(zip(cases, runs, strict=True)), workers, apart)
    with ThreadPoolExecutor(len(dealt)) as pool:
        shares = list(pool.map(share, dealt))
    ended = next((each for each in shares if each.outcome.status != OK), shares[-1])
    place = {case: index for index, case in enumerate(cases)}
    records = [record for each in shares for record in each.records]
    return Answers(
        asked=cases,
        records=sorted(records, key=lambda record: place.get(Case.of(record), 0)),
        left_out=[case for each in shares for case in each.left_out],
        blocks={name: max(each.blocks.get(name, 0) for each in shares) for each in shares for name in each.blocks},
        current=ended.current,
        outcome=ended.outcome,
    )


def _dealt(
    all_of_them: Sequence[tuple[Case, int]], workers: int, apart: Callable[[Case], bool]
) -> list[Sequence[tuple[Case, int]]]:
    """A share of the cases for each worker, at least one share: those that are `apart`, if any, are the last one's."""
    alone = [each for each in all_of_them if workers > 1 and apart(each[0])]
    others = [each for each in all_of_them if each not in alone]
    several = max(1, workers - bool(alone))
    shares = [*(others[first::several] for first in range(several)), alone]
    return [share for share in shares if share] or [[]]


def _is_large(case: Case) -> bool:
    return max(case.paddings) >= WIDE or most_elements(case.shape) > LARGE_MATRIX


class _EnoughError(Exception):
    """Another worker has found what is wrong."""


def _run_share(
    answers: Answers,
    runs: Sequence[int],
    request: Mapping[str, Any],
    time_limit_s: float,
    log: Path,
    begins: Callable[[Case], None],
) -> None:
    """`run_cases` for one worker; the answers are of what it was asked, and grow."""

    def on_event(event: Event) -> None:
        if "starts" in event:
            answers.current = Case.of(event["starts"])
            begins(answers.current)
        elif "left_out" in event:
            answers.left_out.append(Case.of(event["left_out"]))
        elif "blocks" in event:
            answers.blocks = event["blocks"]
        else:
            answers.records.append(event["case"])

    asked = {"cases": [case.as_record() for case in answers.asked], "runs": list(runs), **request}
    module = "ladder.measure.check.worker" if {"emulate", "interpret"} & request.keys() else WORKER
    try:
        answers.outcome = run_worker(module, {"stage": "check", **asked}, on_event, time_limit_s, log)
    except _EnoughError:
        answers.outcome = Outcome(OK, "")
