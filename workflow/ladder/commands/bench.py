"""One rung by itself: compile, check and time it at given sizes, print its lines, and keep nothing.

Its stages, its settings and its choice of the GPU are the pipeline's own; what it leaves out is all that comes after.
Where no GPU is measured, the check is the emulator's, and nothing is timed. What only a measurement needs is imported
by it, for the command is to be quick.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from ladder.build.compile import NO_COMPILER, NOT_APPLICABLE, Build, build, why_not_called
from ladder.build.emulator import EMULATED, ENGINE, cached_engine, why_no_emulator
from ladder.build.toolchain import find_nvcc, require_architecture
from ladder.config.documents import read_yaml
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS, Plan, check_macros, plan
from ladder.config.sources import source_of_rung, sources
from ladder.config.wrapper import LIBRARY
from ladder.measure.check.emulate import beside_nvcc, emulate_source
from ladder.measure.check.stage import check_rung
from ladder.measure.pool import lease
from ladder.model.cases import Case, all_cases
from ladder.model.claims import claimed_cases
from ladder.model.rung import Rung, parse_variant, variant_name
from ladder.model.shape import Shape, in_order
from ladder.records.provenance import environment
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, require_temporary_folder, resolved, shown
from ladder.system.process import LEASED
from ladder.system.terminal import INTERRUPTED, Progress, exit_status, told, waiting

COMMAND_LINE = "command line"
LOOK_EVERY_S = 0.2  # between two looks at the times of files
SIZES = ["1024", "2048", "4096"]
PRINTED, WIDEST = 20, 200  # lines of what a rung printed, and characters of each, that are shown


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status.

    It is 0 where the rung is right, and timed if there is a GPU; 1, with one line on the standard error, where it is
    not, or was not checked; 130 when interrupted.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # whose threads would spin while they wait
    asked = _parser().parse_args(arguments)
    try:
        with told("bench"):
            require_temporary_folder()
            return watch(asked) if asked.watch else once(asked)
    except KeyboardInterrupt:
        return INTERRUPTED


def once(asked: argparse.Namespace) -> int:
    """Run the command once; returns its exit status."""
    return exit_status("bench", lambda: bench(planned(asked.rung, asked.sizes or SIZES, asked.config), asked.all))


def watch(asked: argparse.Namespace) -> int:
    """Run the command, and again whenever a file is saved that the rung is made of; ends by KeyboardInterrupt.

    It ends at once, with exit status 1, where the file that was named is not there or a setting is none.
    """
    if ".cu" in asked.rung and not Path(_file_and_macros(asked.rung)[0]).exists():
        return once(asked)
    while True:
        before = _saved_at(files_of(asked))
        if once(asked) == INTERRUPTED:
            raise KeyboardInterrupt
        print(f"bench: waits until one of {len(before)} files is saved; Ctrl-C ends it", file=sys.stderr, flush=True)
        while _saved_at(before) == before:
            time.sleep(LOOK_EVERY_S)
        time.sleep(LOOK_EVERY_S)  # an editor may write a file in several steps


def files_of(asked: argparse.Namespace) -> list[Path]:
    """The files whose change counts: sources and headers of the rung, the ladder, and the path as it was given."""
    given = [resolved(Path.cwd() / _file_and_macros(asked.rung)[0], COMMAND_LINE)] if ".cu" in asked.rung else []
    ladders = [value for key, value in map(setting, asked.config) if key == "ladder"]
    files = [KERNELS, *(resolved(Path(str(each)), COMMAND_LINE) for each in ladders), *given]
    with contextlib.suppress(LadderError):
        files += [path for rung in planned(asked.rung, SIZES, asked.config).rungs for path in sources(rung)]
    return list(dict.fromkeys(files))


def _saved_at(files: Iterable[Path]) -> dict[Path, int | None]:
    """When each file was last saved, in ns; None where it is not there."""
    return {path: path.stat().st_mtime_ns if path.exists() else None for path in files}


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
        help="settings as snakemake takes them: gpu=t4, devices=1, timing='{iterations: 10}'",
    )
    parser.add_argument("--watch", action="store_true", help="run anew each time a source is saved, until Ctrl-C")
    parser.add_argument("--all", action="store_true", help="check every case, also after the first finding")
    return parser


def planned(name: str, sizes: Sequence[str], overrides: Sequence[str]) -> Plan:
    """The plan of one rung: config/config.yaml with what the command line sets.

    Raises LadderError for a rung, file, size or setting that cannot be.
    """
    given = dict(map(setting, overrides))
    own = _own_source(name)
    config = {
        **read_yaml(ROOT / "config" / "config.yaml"),
        **given,
        "kernels": "all" if own else [name],
        "sizes": list(sizes),
        "profile": {"enabled": False, "sizes": list(sizes)},
        "sustained": {"enabled": False},
    }
    run = plan(config, dict.fromkeys([*given, "kernels", "sizes"], COMMAND_LINE))
    for rung in own:
        check_macros(rung, COMMAND_LINE)
    rungs = own or run.rungs
    if rungs[0].role == "floor":
        raise LadderError(f"{COMMAND_LINE}: {name!r} computes nothing; give a rung that does")
    return dataclasses.replace(run, rungs=rungs)


def setting(text: str) -> tuple[str, Any]:
    """A setting KEY=VALUE of the command line; raises LadderError for what is none, and for rungs and sizes.

    A relative path begins where the command was given, as that of a rung's file does.
    """
    key, equals, value = text.partition("=")
    try:
        if not equals or key in ("kernels", "sizes"):
            raise ValueError
        given = yaml.safe_load(value)
        if key in ("ladder", "results") and isinstance(given, str) and not given.startswith("~"):
            given = str(Path.cwd() / given)
        return key, given
    except (ValueError, yaml.YAMLError):
        problem = "is no setting; write KEY=VALUE, with a key of config/config.yaml other than kernels and sizes"
        raise LadderError(f"{COMMAND_LINE}: --config: {text!r} {problem}") from None


def _file_and_macros(text: str) -> tuple[str, str, str]:
    """The rung or file that was given, `@` if its macros are, and these; a name of a file may hold an @ itself."""
    if Path(text).is_file():
        return text, "", ""
    file, at, macros = text.rpartition("@")
    return (file, at, macros) if at else (text, "", "")


def _own_source(text: str) -> tuple[Rung, ...]:
    """The rungs of a source file that was given by its path, those of kernels.yaml if it stands there; else none."""
    file, at, macros = _file_and_macros(text)
    if not file.endswith(".cu"):
        if "/" in file or Path(file).is_file():
            problem = "is a folder" if Path(file).is_dir() else "only a .cu file runs by its path"
            remedy = "name a .cu file in it" if Path(file).is_dir() else "enter it in a kernels.yaml: -C ladder=PATH"
            raise LadderError(f"{COMMAND_LINE}: {file}: {problem}; {remedy}")
        return ()
    path = resolved(Path.cwd() / file, COMMAND_LINE)
    if misread := re.search(r'["$`\\:]', str(path)):
        raise LadderError(f"{COMMAND_LINE}: {file}: nvcc misreads a path with {misread[0]}; rename it")
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


def bench(run: Plan, every: bool = False) -> None:
    """Compile, check and time the rungs of a plan, those of one entry, beside cuBLAS and naive.

    The emulator checks them while nvcc compiles them, up to its first finding, or with `every` up to the last; where
    there is a GPU, what passes or cannot run there is checked and timed on it. Progress goes to the standard error,
    what came of it to the standard output. Raises LadderError with what was not done: a rung that does not compile, is
    wrong, not checked or not timed.
    """
    print(f"bench: {run.gpu.title}, {run.gpu.architecture}", file=sys.stderr, flush=True)
    beside = [name for rung in run.rungs for name in _beside(run, rung)] if run.measuring else []
    needed = {rung.name: rung for rung in [*run.rungs, *map(run.by_name, beside)]}
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder, ThreadPoolExecutor() as pool:
        compiles = compiling(run, list(needed.values()), Path(folder), pool)
        if run.measuring:
            on_gpu(run, compiles, Path(folder), every)
        else:
            on_cpu(run, compiles, Path(folder), every)


def _beside(run: Plan, rung: Rung) -> list[str]:
    """What a rung is timed beside: the libraries of its class, and the first rung."""
    return [*(rung.baselines or [run.baseline.name]), run.first.name]


def on_cpu(run: Plan, compiles: Mapping[str, Future[Build]], folder: Path, every: bool) -> None:
    """Check the rungs of a plan in the emulator and say what came of it and what is not timed.

    Raises LadderError, at the first or with `every` at the end, where one does not compile, is wrong or not checked.
    """
    failed = []
    for name, made in compiles.items():
        try:
            record = emulated(run, name, made, folder / name / "log", every)
            if record["status"] != EMULATED:
                raise LadderError(f"{name}: not checked: {record['message']}{_longer(record['message'])}")
            print(
                f"{name}: passes the check in the emulator ({len(record['cases'])} cases{_without(record)})", flush=True
            )
        except LadderError as error:
            if not every:
                raise
            failed.append(str(error))
    shapes = ", ".join(map(str, run.shapes))
    print(f"Not timed at {shapes}: that needs the GPU, {run.gpu.title}", flush=True)
    if failed:
        raise LadderError("; ".join(failed))


def _without(record: Mapping[str, Any]) -> str:
    """How many cases of an emulated check were left out, and one of them; empty where none was."""
    left_out = record.get("left_out", ())
    return f", and {len(left_out)} that took too much time or memory: {left_out[0]}" if left_out else ""


def _longer(message: str) -> str:
    """What to do about a check that was not waited for any longer; empty where the message is of something else."""
    return "; if it would end, give it longer: -C check='{time_limit_s: 600}'" if "not finished: " in message else ""


def on_gpu(run: Plan, compiles: Mapping[str, Future[Build]], folder: Path, every: bool) -> None:
    """Check the rungs of a plan in the emulator and on the GPU, time them, and print their lines.

    Raises LadderError at the first that does not compile, is wrong in either or cannot be timed. The emulator has ended
    before the GPU is asked for, so that nothing else runs beside the timing.
    """
    names = [rung.name for rung in run.rungs]
    for name in names:
        record = emulated(run, name, compiles[name], folder / name / "log", every)
        if record["status"] != EMULATED:
            print(f"bench: {name}: not emulated: {record['message']}", file=sys.stderr, flush=True)
    builds = {name: made.result() for name, made in compiles.items()}
    with lease(run.devices) as device:
        run = dataclasses.replace(run, devices=(device,))
        for name, made in builds.items():
            check(run, made, folder / "log", list(builds), full=name in names)
        from ladder.show.summary import heading, line

        print(heading(f"{run.rungs[0].entry} at" if len(names) == 1 else run.rungs[0].entry), flush=True)
        for name in names:
            for row in timed(run, name, builds, folder):
                print(line(row.shape if len(names) == 1 else f"{name} {row.shape}", row), flush=True)


def compiling(run: Plan, rungs: list[Rung], folder: Path, pool: Executor) -> dict[str, Future[Build]]:
    """Begin to compile rungs below a folder, side by side; for no GPU without a library, which takes half the time.

    A result raises LadderError, after the compiler's words, where a rung does not compile or apply to the GPU, or
    its language has no compiler here.
    """
    nvcc = find_nvcc(run.settings["compile"]["nvcc"])
    require_architecture(nvcc, run.gpu)

    def compiled(rung: Rung) -> Build:
        alone = not run.measuring and not rung.source.endswith(LIBRARY)  # which can only be linked with
        flags = [*run.settings["compile"]["flags"], *(["-cubin"] if alone else [])]
        progress = Progress("compile", rung.name)
        with waiting(progress, lambda: "nvcc"):
            record = build(rung, run.gpu, nvcc, flags, folder / rung.name)
        progress.ended(record["status"])
        if record["status"] in (NOT_APPLICABLE, NO_COMPILER):
            raise LadderError(f"{rung.name}: {record['message']}")
        if record["status"] != "ok":
            print(record["log"], end="", file=sys.stderr, flush=True)
            raise LadderError(f"{rung.name}: does not compile: {record['message']}")
        return Build(folder / rung.name)

    return {rung.name: pool.submit(compiled, rung) for rung in rungs}


def emulated(run: Plan, name: str, made: Future[Build], log: Path, every: bool) -> dict[str, Any]:
    """Check a rung in the emulator with the cases of the emulate stage, the smallest first; the stage's record.

    Raises LadderError where it is wrong, and at once where it turns out not to compile.
    """
    cases = sorted(run.emulated_cases(name), key=lambda case: case.shape.flop)
    threads = len(os.sched_getaffinity(0))
    progress = Progress("emulate", name)
    doing = "g++"

    def started(done: int, case: Case) -> None:
        nonlocal doing
        doing = f"{case}  ({done}/{max(len(cases), done + 1)} cases)"  # some are added
        if made.done():
            made.result()

    limit_s = run.settings["check"]["time_limit_s"]
    rung = run.by_name(name)
    if rung.language != "cuda" or why_not_called(rung, source_of_rung(rung)):
        made.result()  # which ends at once, or says more of what is wrong than an interpreter
    with waiting(progress, lambda: doing):
        engine = ENGINE if why_no_emulator() else cached_engine(caches(log.parent) / "emulator")
        flags = run.settings["compile"]["flags"]
        record = emulate_source(rung, cases, threads, limit_s, log, engine, started, not every, flags=flags)
    if lines := printed(log):
        print("\n".join([f"{name}: printed in the emulator:", *lines]), file=sys.stderr, flush=True)
    record = beside_nvcc(record, made.result().record["log"])
    progress.ended(record["status"])
    if record["status"] == "failed":
        wrong = [case for case in record["cases"] if case["verdict"] != "pass"]
        for case in wrong if every else ():
            print(f"{name}: {Case.of(case)}: {case['verdict']}", flush=True)
        raise LadderError(f"{name}: wrong: in the emulator: {record['message']}")
    return record


def caches(instead: Path) -> Path:
    """The folder of what one run leaves to the next; another where this user may not write to the checkout."""
    folder = ROOT / "build"
    existing = folder if folder.exists() else ROOT
    return folder if os.access(existing, os.W_OK) else instead


def printed(log: Path) -> list[str]:
    """The first lines that a rung printed, PRINTED of WIDEST characters at most, and how many bytes more there are."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        lines = file.read(PRINTED * (WIDEST + 1)).splitlines(keepends=True)[:PRINTED]
    shown = [line if len(line.rstrip()) <= WIDEST else line[:WIDEST] for line in lines]
    more = log.stat().st_size - sum(map(len, shown))
    told = [f"  {line.decode(errors='replace').rstrip()}" for line in shown]
    return [*told, f"  ... and {more} bytes more"] if more else told


def check(run: Plan, made: Build, log: Path, names: list[str], full: bool) -> None:
    """Check a rung with every case of the check stage and drawn ones (`full`), or at the sizes to be timed alone.

    Raises LadderError where it is wrong.
    """
    settings, name = run.settings["check"], made.folder.name
    cases = [*run.cases(name), *drawn_anew(run, name)] if full else all_cases([], [], run.shapes)
    progress = Progress("check", name)

    def started(done: int, case: Case) -> None:
        if done % 50 == 0:
            progress(f"{case}  ({done}/{len(cases)} cases)")

    record = check_rung(
        made,
        cases,
        LEASED,
        settings["time_limit_s"],
        lambda compiled: environment(ROOT, run.device, compiled, ""),
        log,
        started,
        settings["runs"],
        run.by_name(name).declared,
    )
    if record["status"] != "pass":
        raise LadderError(f"{name}: not timed, because its check failed: {record['message']}")


def drawn_anew(run: Plan, name: str) -> list[Case]:
    """The cases that are drawn for a rung on a GPU, by another seed each time unless one is set."""
    return claimed_cases(run.by_name(name).claims, run.drawing(name).cases(1 + secrets.randbits(31)))


def timed(run: Plan, name: str, builds: dict[str, Build], folder: Path) -> Sequence[Any]:
    """Time a rung beside cuBLAS and naive; the rows of `ladder.tables.timings.timing_table`, by the work they are.

    Raises LadderError where the timing fails.
    """
    from ladder.measure.time.stage import time_rung
    from ladder.records.timings import read_time_record, timing_digest
    from ladder.tables.evidence import Evidence
    from ladder.tables.timings import timing_table

    shapes = in_order(run.timed(name))
    progress = Progress("time", name)

    def started(kernel: str, shape: str) -> None:
        if kernel == name:
            progress(f"{shape}  ({shapes.index(shape) + 1}/{len(shapes)} sizes)")

    chosen = {each: builds[each] for each in dict.fromkeys([name, *_beside(run, run.by_name(name))])}
    where = environment(ROOT, run.device, builds[name].record, timing_digest(run.settings["timing"]))
    record, settings = folder / f"{name}.zip", run.settings["timing"]
    expected, device = run.expected(list(chosen)), LEASED
    message = time_rung(name, chosen, shapes, expected, settings, device, where, record, folder / "log", started)
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
