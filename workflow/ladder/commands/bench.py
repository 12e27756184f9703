"""One rung by itself: compile, check and time it at given sizes, print its lines, and keep nothing.

Its stages, its settings and its choice of the GPU are the pipeline's own; what it leaves out is all that comes after.
Where no GPU is measured, the check is the emulator's, and nothing is timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from ladder.build.compile import NOT_APPLICABLE, Build, build
from ladder.build.emulator import EMULATED
from ladder.build.toolchain import find_nvcc, require_architecture
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS, Plan, check_macros, plan
from ladder.measure.check.emulate import emulate_rung
from ladder.measure.check.stage import check_rung
from ladder.measure.time.stage import time_rung
from ladder.model.cases import Case, all_cases
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.model.shape import Shape, in_order
from ladder.records.provenance import environment
from ladder.records.timings import read_time_record, timing_digest
from ladder.show.summary import heading, line
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress
from ladder.tables.evidence import Evidence
from ladder.tables.timings import timing_table

COMMAND_LINE = "command line"
SIZES = ["1024", "2048", "4096"]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0, 1 with one line on the standard error, or 130 when interrupted."""
    asked = _parser().parse_args(arguments)
    try:
        bench(planned(asked.rung, asked.sizes or SIZES, asked.config))
    except LadderError as error:
        print(f"bench: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python workflow/bench.py", description="Compile, check and time one rung. Nothing is kept in results/."
    )
    parser.add_argument(
        "rung", help="naive, tiled@TILE=16, or a file of your own: path/to/mine.cu, mine.cu@BM=64,BN=64"
    )
    parser.add_argument("sizes", nargs="*", metavar="size", help=f"n or MxNxK; without any, {', '.join(SIZES)}")
    parser.add_argument(
        *("--config", "-C"),
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings as snakemake takes them: gpu=t4, device=1, timing='{iterations: 10}'",
    )
    return parser


def planned(name: str, sizes: Sequence[str], overrides: Sequence[str]) -> Plan:
    """The plan of one rung: config/config.yaml with what the command line sets.

    Raises LadderError for a rung, file, size or setting that cannot be.
    """
    given = dict(map(_setting, overrides))
    own = _own_source(name)
    config = {
        **read_yaml(ROOT / "config" / "config.yaml"),
        **given,
        "kernels": "all" if own else [name],
        "sizes": list(sizes),
        "profile": {"enabled": False, "sizes": list(sizes)},
    }
    run = plan(config, dict.fromkeys([*given, "kernels", "sizes"], COMMAND_LINE))
    for rung in own:
        check_macros(rung, COMMAND_LINE)
    rungs = own or run.rungs
    if rungs[0].role == "floor":
        raise LadderError(f"{COMMAND_LINE}: {name!r} computes nothing; give a rung that does")
    return dataclasses.replace(run, rungs=rungs)


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    try:
        if not equals or key in ("kernels", "sizes"):
            raise ValueError
        return key, yaml.safe_load(value)
    except (ValueError, yaml.YAMLError):
        problem = "is no setting; write KEY=VALUE, with a key of config/config.yaml other than kernels and sizes"
        raise LadderError(f"{COMMAND_LINE}: --config: {text!r} {problem}") from None


def _own_source(text: str) -> tuple[Rung, ...]:
    """The rungs of a source file that was given by its path, those of kernels.yaml if it stands there; else none."""
    file, at, macros = text.partition("@")
    if not file.endswith(".cu"):
        return ()
    path = Path(file).resolve()
    if not path.is_file():
        raise LadderError(f"{COMMAND_LINE}: {file}: there is no such file; give a rung's name or the path of its .cu")
    ladder = read_kernels(KERNELS)
    listed = [rung for rung in ladder.values() if (ROOT / "kernels" / rung.source).resolve() == path]
    if listed and not at:
        return tuple(listed)
    try:
        choice = parse_variant(f"own@{macros}" if at else "own")[1]
    except ValueError:
        raise LadderError(f"{COMMAND_LINE}: {text!r}: macros are written {file}@BM=64,BN=64") from None
    like = listed[0] if listed else next(rung for rung in ladder.values() if rung.role == "rung")
    entry = listed[0].entry if listed else path.name
    return (
        dataclasses.replace(
            like,
            name=variant_name(entry, choice),
            entry=entry,
            title=shown(path),
            source=str(path),
            macros=choice,
            before=None,
            compute_capability=like.compute_capability if listed else "5.0",
        ),
    )


def bench(run: Plan) -> None:
    """Compile, check and time the rungs of a plan, those of one entry, beside cuBLAS and naive.

    Progress goes to the standard error, the lines to the standard output. Raises LadderError with what was not done:
    a rung that does not compile, is wrong or cannot be timed, or no GPU to time it on.
    """
    names = [rung.name for rung in run.rungs]
    beside = [run.baseline, run.first] if run.measuring else []
    needed = {rung.name: rung for rung in [*run.rungs, *beside]}
    print(f"bench: {run.gpu.title}, {run.gpu.architecture}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        builds = compiled(run, list(needed.values()), Path(folder))
        if not run.measuring:
            found = [emulated(run, builds[name], Path(folder) / "log") for name in names]
            raise LadderError(f"{'; '.join(found)}; not timed, for that needs the GPU: {run.gpu.title}")
        with gpu_lock(run.device.uuid):
            for name in needed:
                check(run, builds[name], Path(folder) / "log", list(needed), full=name in names)
            print(heading(f"{run.rungs[0].entry} at" if len(names) == 1 else run.rungs[0].entry), flush=True)
            for name in names:
                for row in timed(run, name, builds, Path(folder)):
                    label = row.shape if len(names) == 1 else f"{name} {row.shape}"
                    print(line(label, row), flush=True)


def compiled(run: Plan, rungs: list[Rung], folder: Path) -> dict[str, Build]:
    """Compile rungs in parallel below a folder.

    Raises LadderError, after the compiler's words, where one does not compile or does not apply to the GPU.
    """
    nvcc = find_nvcc(run.settings["compile"]["nvcc"])
    require_architecture(nvcc, run.gpu)
    flags = run.settings["compile"]["flags"]
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda rung: build(rung, run.gpu, nvcc, flags, folder / rung.name), rungs)
        for rung, record in zip(rungs, made, strict=True):
            Progress("compile", rung.name)(record["status"])
            if record["status"] == NOT_APPLICABLE:
                raise LadderError(f"{rung.name}: {record['message']}")
            if record["status"] != "ok":
                print(record["log"], file=sys.stderr, flush=True)
                raise LadderError(f"{rung.name}: does not compile: {record['message']}")
    return {rung.name: Build(folder / rung.name) for rung in rungs}


def emulated(run: Plan, made: Build, log: Path) -> str:
    """Check a rung in the emulator, with the cases of the emulate stage; what came of it, in a few words.

    Raises LadderError where it is wrong.
    """
    name = made.folder.name
    cases, threads = run.emulated_cases(name), len(os.sched_getaffinity(0))
    progress = Progress("emulate", name)
    progress(f"{len(cases)} cases on {threads} CPUs")
    record = emulate_rung(run.by_name(name), made, cases, threads, run.settings["check"]["time_limit_s"], log)
    progress(record["status"])
    if record["status"] == "failed":
        raise LadderError(f"{name}: wrong: in the emulator: {record['message']}")
    right = record["status"] == EMULATED
    return f"{name}: passes the check in the emulator" if right else f"{name}: not checked: {record['message']}"


def check(run: Plan, made: Build, log: Path, names: list[str], full: bool) -> None:
    """Check a rung with every case of the check stage (`full`), or at the sizes to be timed alone.

    Raises LadderError where it is wrong.
    """
    settings, name = run.settings["check"], made.folder.name
    cases = run.cases(name) if full else all_cases([], [], run.shapes)
    progress = Progress("check", name)

    def started(done: int, case: Case) -> None:
        if done % 50 == 0:
            progress(f"{case}  ({done}/{len(cases)} cases)")

    record = check_rung(
        made,
        cases,
        run.settings["device"],
        settings["time_limit_s"],
        lambda compiled: environment(ROOT, run.device, compiled, ""),
        log,
        started,
        settings["runs"],
        run.by_name(name).declared,
    )
    if record["status"] != "pass":
        raise LadderError(f"{name}: not timed, because its check failed: {record['message']}")


def timed(run: Plan, name: str, builds: dict[str, Build], folder: Path) -> Sequence[Any]:
    """Time a rung beside cuBLAS and naive; the rows of `ladder.tables.timings.timing_table`, by the work they are.

    Raises LadderError where the timing fails.
    """
    shapes = in_order(run.timed(name))
    progress = Progress("time", name)

    def started(kernel: str, shape: str) -> None:
        if kernel == name:
            progress(f"{shape}  ({shapes.index(shape) + 1}/{len(shapes)} sizes)")

    beside = dict.fromkeys([name, run.baseline.name, run.first.name])
    chosen = {each: builds[each] for each in beside}
    where = environment(ROOT, run.device, builds[name].record, timing_digest(run.settings["timing"]))
    record, settings = folder / f"{name}.zip", run.settings["timing"]
    message = time_rung(name, chosen, shapes, settings, run.settings["device"], where, record, folder / "log", started)
    if message:
        raise LadderError(f"{name}: not timed: {message}")
    timings = read_time_record(record)
    evidence = Evidence(
        rung=run.by_name(name),
        inspection={"status": "ok"},
        check={"status": "pass", "where": where},
        timings={Shape.parse(shape): timings[Shape.parse(shape)] for shape in shapes},
    )
    return list(timing_table([evidence], run.gpu, run.baseline.name, run.first.name).itertuples())
