"""The check stage: a verdict for a rung, with the errors of every case."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.model.cases import Case
from ladder.system.errors import LadderError
from ladder.system.process import OUT_OF_MEMORY, Event, Outcome, run_worker


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
) -> dict[str, Any]:
    """Check a rung and return its record.

    Keys: status (`pass`, `failed`, or why it could not be checked: the compile record's status), message, where (with
    wall_s, the seconds that it took), runs (how often each case was computed) and whether all gave the same bits
    (identical), cases (those that ran, with errors and verdict), and `declared`: what the rung says of itself,
    `deterministic`, `subnormals` and `precision` of kernels.yaml. Raises LadderError where the GPU has too little free
    memory, which says nothing about the rung.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": []}
    where = environment(compiled)
    begun = time.monotonic()
    declared = dict(declared or {})
    request = {"library": str(made.library), "device": device, "declared": declared}
    done, current, outcome = run_cases(cases, [runs] * len(cases), request, time_limit_s, log, progress)
    where["wall_s"] = round(time.monotonic() - begun, 3)
    if OUT_OF_MEMORY in outcome.message and all(case["verdict"] == "pass" for case in done):
        raise LadderError(f"check: {made.folder.name}: {check_verdict([], current, outcome)[1]}")
    status, message = check_verdict(done, current, outcome)
    identical = all(case.pop("identical", True) for case in done)
    return {
        **{"status": status, "message": message, "where": where},
        **{"declared": declared, "runs": runs, "identical": identical and status == "pass", "cases": done},
    }


def run_cases(
    cases: Sequence[Case],
    runs: Sequence[int],
    request: Mapping[str, Any],
    time_limit_s: float,
    log: Path,
    progress: Callable[[int, Case], None] = lambda done, case: None,
) -> tuple[list[dict[str, Any]], Case | None, Outcome]:
    """Let the worker compute each case so many times; the records of those that ran, the case begun last, and the end.

    The progress is told how many cases are done, and the one that begins. `request` holds the rest of what the worker
    is asked (`ladder.measure.check.worker.main`).
    """
    done: list[dict[str, Any]] = []
    current: Case | None = None

    def on_event(event: Event) -> None:
        nonlocal current
        if "starts" in event:
            current = Case.of(event["starts"])
            progress(len(done), current)
        else:
            done.append(event["case"])

    asked = {"cases": [case.as_record() for case in cases], "runs": list(runs), **request}
    outcome = run_worker("ladder.measure.check.worker", asked, on_event, time_limit_s, log)
    return done, current, outcome


def check_verdict(done: list[dict[str, Any]], current: Case | None, outcome: Outcome) -> tuple[str, str]:
    """`pass` or `failed`, and what failed in one line, of the cases that ran, the one begun last and how it ended."""
    wrong = [case for case in done if case["verdict"] != "pass"]
    if wrong:
        more = f" (and {len(wrong) - 1} more of {len(done)} cases)" if len(wrong) > 1 else ""
        return "failed", f"{Case.of(wrong[0])}: {wrong[0]['verdict']}{more}"
    if outcome.status != "ok":
        return "failed", f"{current}: {outcome.message}" if current else outcome.message
    return "pass", ""
