"""The emulate stage: the same check of the same source on a CPU."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.build.emulator import (
    ARCHITECTURE,
    EMULATED,
    ENGINE,
    NEEDS_GPU,
    NOT_EMULATED,
    compile_for_emulator,
    why_no_emulator,
)
from ladder.build.languages.compile import why_no_compiler
from ladder.build.other_code import other_code
from ladder.build.resources import first_warning, too_many_registers
from ladder.config.named_numbers import named_by
from ladder.config.sources import defined_macros, generated, header_folders, is_compiled, source_of_rung, sources
from ladder.config.wrapper import macros_of_classes
from ladder.measure.check.stage import Answers, run_cases
from ladder.model.cases import Case, emulated_runs
from ladder.model.rung import Rung
from ladder.system.process import OK, run_worker


def _of_first_class(rung: Rung, cases: Sequence[Case]) -> bool:
    """Whether no product among the cases reaches what is built for larger ones, which then need not be compiled."""
    return all(case.probe or case.shape.flop < rung.tuned[0].below_flop for case in cases)


def emulate_rung(
    rung: Rung,
    made: Build,
    cases: Sequence[Case],
    threads: int,
    time_limit_s: float,
    log: Path,
    engine: Path = ENGINE,
) -> dict[str, Any]:
    """Check a rung in the emulator, whose engine is as in `compile_for_emulator`, and return its record.

    Keys: status, message, cases (those that ran, as in the record of a check), and left_out, where any ran: the cases
    that would have taken too much time or memory. The status is `emulated` where all
    passed; `failed`; `needs a GPU` where the source does not compile for the emulator, or would compile to other code
    than for a GPU; `not emulated` where this machine has no compiler for it, or a launch was not waited for any longer;
    or the compile record's, where it is not `ok`.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        return {"status": compiled["status"], "message": compiled["message"], "cases": []}
    asked = {"architecture": compiled.get("architecture", ARCHITECTURE), "flags": compiled.get("flags", ())}
    record = emulate_source(rung, cases, threads, time_limit_s, log, engine, **asked)
    return beside_nvcc(record, compiled.get("log", ""))


def beside_nvcc(record: dict[str, Any], log: str) -> dict[str, Any]:
    """The record of `emulate_source` where nvcc has compiled the rung as well, with this log.

    A launch that asks for more registers than there are fails, for the emulator does not know of registers; what failed
    is told with nvcc's first warning. The record loses its `blocks`.
    """
    blocks = record.pop("blocks", {})
    if record["status"] == EMULATED and (message := too_many_registers(blocks, log)):
        record |= {"status": "failed", "message": message}
    if record["status"] == "failed":
        record["message"] += first_warning(log)
    return record


def emulate_source(
    rung: Rung,
    cases: Sequence[Case],
    threads: int,
    time_limit_s: float,
    log: Path,
    engine: Path = ENGINE,
    progress: Callable[[int, Case], None] = lambda done, case: None,
    first_only: bool = False,
    architecture: str = ARCHITECTURE,
    until_wrong: bool = False,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """`emulate_rung` of a rung of which nothing is said to have been compiled.

    The record has a key more where cases ran: `blocks`, the threads of the largest block of each kernel.
    `architecture` is what the source is compiled for on a GPU, whose code it has here too, and `flags` are nvcc's, of
    which those count that define macros. Each thread is a process with a share of the cases. The progress is told how
    many cases have begun, and which one begins. With `first_only` each ends with its first finding of the emulator.
    Wrong values are none, for what passes tells more of them; with `until_wrong` each ends with the first case that
    does not pass, whatever is wrong with it.
    """
    if rung.role == "baseline":  # whose source calls what no emulator has
        return {"status": NEEDS_GPU, "message": "a library of NVIDIA's, which has code for GPUs alone", "cases": []}
    if rung.language == "triton":
        return interpret(rung, cases, threads, time_limit_s, log, progress)
    if rung.language != "cuda":
        return {"status": NEEDS_GPU, "message": f"a rung in {rung.language} runs on GPUs alone", "cases": []}
    if is_compiled(source_of_rung(rung)):
        return {"status": NEEDS_GPU, "message": f"{Path(rung.source).name} is code for GPUs alone", "cases": []}
    if why := why_no_emulator():
        return {"status": NOT_EMULATED, "message": why, "cases": []}
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.so"
        if error := compile_source(rung, cases, library, engine, architecture, flags):
            return {"status": NEEDS_GPU, "message": error, "cases": []}
        made_with = engine, architecture, flags
        cases = [*cases, *other_branches(rung, cases, library.with_name("coverage.so"), made_with, time_limit_s)]
        return emulate_library(rung, library, cases, threads, time_limit_s, log, progress, first_only, until_wrong)


def macros_of_flags(flags: Sequence[str]) -> dict[str, str]:
    """The macros that flags of a compiler define: `-DNAME`, `-DNAME=VALUE`, or either behind a `-D` of its own."""
    joined = re.findall(r"(?:^|\0)-D\0?(\w+)(?:=([^\0]*))?", "\0".join(flags))
    return {name: value or "1" for name, value in joined}


def compile_source(
    rung: Rung,
    cases: Sequence[Case],
    library: Path,
    engine: Path,
    architecture: str,
    flags: Sequence[str] = (),
    coverage: bool = False,
) -> str:
    """Compile a rung in CUDA C++ for the emulator, with what these cases reach; why it needs a GPU, or nothing.

    `coverage` is that of `compile_for_emulator`.
    """
    files = sources(rung)
    given = macros_of_flags(flags)
    tuned = {key: "" for each in rung.tuned for key in each.macros}
    if apart := other_code(files, given | dict(rung.macros) | tuned):
        return apart
    if rung.tuned and _of_first_class(rung, cases):
        rung = replace(rung, tuned=rung.tuned[:1])
    source = source_of_rung(rung)
    include = [source.parent, *header_folders(rung)]
    if made := generated(rung):
        source = library.parent / made[0]
        source.write_text(made[1])
    defined = given | defined_macros(rung)
    return compile_for_emulator(source, defined, library, include, engine, files, architecture, coverage)


def other_branches(
    rung: Rung,
    cases: Sequence[Case],
    library: Path,
    made_with: tuple[Path, str, Sequence[str]],
    time_limit_s: float,
) -> list[Case]:
    """Cases that take ways through the host function which none of these takes: `ladder.measure.check.branches`.

    The rung is compiled once more, into this library, with the last arguments of `compile_source`. None of the cases is
    beyond what that has compiled. Empty where none of those given is drawn, for their seed is that of the search; and
    where the host function ends the process or does not end, for any other case tells that. What it prints meanwhile is
    lost.
    """
    seed = max((case.drawn for case in cases), default=0)
    if not seed or compile_source(rung, cases, library, *made_with, coverage=True):
        return []
    named = named_by(rung)
    computed = [case for case in cases if not case.probe]
    request = {
        **{"library": str(library), "cases": [case.as_record() for case in computed], "seed": seed},
        **{"numbers": sorted({*named.own, *named.others, *(number for _, number in named.few)})},
        **{"sms": sorted({case.sms for case in computed}), "claims": rung.claims},
        "most_flop": rung.tuned[0].below_flop if rung.tuned and _of_first_class(rung, cases) else math.inf,
    }
    found: list[Case] = []
    outcome = run_worker(
        "ladder.measure.check.branches",
        request,
        lambda event: found.append(Case.of(event["case"])),
        time_limit_s,
        Path(os.devnull),
    )
    whole = (rung.wrap or {}).get("clear_c")  # of which a few blocks leave zeros everywhere else
    found = [case for case in found if case not in cases and not (whole and case.blocks)]
    return found if outcome.status == OK else []


def emulate_library(
    rung: Rung,
    library: Path,
    cases: Sequence[Case],
    threads: int,
    time_limit_s: float,
    log: Path,
    progress: Callable[[int, Case], None] = lambda done, case: None,
    first_only: bool = False,
    until_wrong: bool = False,
) -> dict[str, Any]:
    """`emulate_source` of what `compile_source` has made."""
    request = {
        "library": str(library),
        "emulate": {"threads": 1, "time_limit_s": time_limit_s / 2, "first_only": first_only},
        "until_wrong": until_wrong,
        "declared": rung.declared,
    }
    answers = run_cases(cases, list(map(emulated_runs, cases)), request, time_limit_s, log, progress, threads)
    return _emulated(rung, answers) | {"blocks": answers.blocks}


def interpret(
    rung: Rung,
    cases: Sequence[Case],
    threads: int,
    time_limit_s: float,
    log: Path,
    progress: Callable[[int, Case], None],
) -> dict[str, Any]:
    """`emulate_source` of a rung in Triton, by Triton's interpreter."""
    from ladder.measure.check.interpreted import interpreted_cases  # whose NumPy takes longer to import than all else
    from ladder.measure.check.judge import HUGE

    if why := why_no_compiler(rung.language):
        return {"status": NOT_EMULATED, "message": why, "cases": []}
    ends = [each.below_flop for each in rung.tuned] or [HUGE]
    values = [{name: int(value) for name, value in each.items()} for each in macros_of_classes(rung)]
    classes = [{"below_flop": min(end, HUGE), "values": each} for end, each in zip(ends, values, strict=True)]
    asked = {"file": str(source_of_rung(rung)), "wrap": dict(rung.wrap or {}), "classes": classes}
    cases = interpreted_cases(cases)
    request = {"interpret": asked, "declared": rung.declared}
    answers = run_cases(cases, [1] * len(cases), request, time_limit_s, log, progress, threads)
    return _emulated(rung, answers)


def _emulated(rung: Rung, answers: Answers) -> dict[str, Any]:
    """The record of what workers answered that emulate a rung or interpret it."""
    if message := answers.unfinished():
        status = NOT_EMULATED
    else:
        status, message = answers.verdict(f"emulate: {rung.name}")
        status = EMULATED if status == "pass" else status
    return {
        **{"status": status, "message": message, "cases": answers.records},
        "left_out": list(map(str, answers.left_out)),
    }
