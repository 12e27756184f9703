"""What a run needs of the Snakemake that runs it: where settings came from, whether it is alone, what it shows."""

from __future__ import annotations

import compileall
import fcntl
import logging
import os
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ladder.commands.progress import Above, Board, is_chatter
from ladder.config.gpus import GPU_FILES
from ladder.model.rung import Rung
from ladder.system.terminal import QUIET

REMEASURE = "GEMM_LADDER_REMEASURE"
MEASURING = ("check", "time", "profile")  # the stages that need a GPU
_held: list[int] = []


def offer_package() -> None:
    """Let the scripts of the rules, which are processes of their own, import this package.

    As bytecode, also where Python is told to write none: each process of a run would compile it again.
    """
    package = Path(__file__).resolve().parents[1]
    compileall.compile_dir(package, quiet=2)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))


def one_core_a_job() -> None:
    """Keep NumPy's BLAS in each job to one thread: Snakemake gives cores to jobs, and threads that wait would spin."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def config_sources(workflow: Any) -> dict[str, str]:
    """For each top-level key that --config or --configfile set, the place that messages should name."""
    settings = workflow.config_settings
    places: dict[str, str] = {}
    for file in settings.configfiles:
        content = yaml.safe_load(Path(file).read_text())
        places |= dict.fromkeys(content or {}, os.path.relpath(file))
    return places | dict.fromkeys(settings.config, "--config")


def measuring_stages(workflow: Any) -> list[str]:
    """Those of check, time and profile that the user asked for by name, as a target or with --until."""
    settings = workflow.dag_settings
    asked = {str(name) for name in (*settings.targets, *settings.until)}
    return [stage for stage in MEASURING if stage in asked]


def uses_conda(workflow: Any) -> bool:
    """Whether jobs run in conda environments (--sdm conda), whose compiler this process does not see."""
    return "conda" in {str(method).lower() for method in workflow.deployment_settings.deployment_method}


def hold_directory(folder: Path) -> None:
    """Clear away the locks of a run that was killed.

    Snakemake locks a directory by files that a killed run leaves behind. This process holds a lock of the kernel's
    instead, which ends with it: whoever gets that one is alone, and what files lie there are stale.
    """
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / "gemm-ladder.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return
    _held.append(handle)
    shutil.rmtree(folder / "locks", ignore_errors=True)


def unlimited_rate(workflow: Any) -> None:
    """Let Snakemake sleep until a job ends: no run comes near its limit of 100 jobs a second.

    For that limit it looks for ready jobs again a second after every look, these looks included, so that the end of
    each job adds one more a second (Snakemake 9.27, JobScheduler.schedule). A limit that the user gives stays.
    """
    limiter = getattr(workflow.scheduler, "job_rate_limiter", None)
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


def remeasure_if_forced(workflow: Any) -> None:
    """Tell the time stage to measure again what it already holds, where the user forces it (-F, -R time)."""
    settings = workflow.dag_settings
    if settings.forceall or {"time", "check", "compile"} & {str(rule) for rule in settings.forcerun}:
        os.environ[REMEASURE] = "1"


def show_progress(workflow: Any, memory: Path) -> None:
    """Show how far the run is, as loudly as the user asked.

    By default (`--quiet rules`) the lines of the stages and a live line, in a log a plain line now and then, take the
    place of what Snakemake says of its own work. `--quiet` or `--quiet all` leaves the first line, errors and the
    summary; `--quiet host` or `--verbose` shows what Snakemake says. `--nocolor` is passed on to the stages.
    """
    from snakemake.logging import logger
    from snakemake.settings.enums import Quietness

    output = workflow.output_settings
    if output.nocolor:
        os.environ["NO_COLOR"] = "1"
    quiet = set(output.quiet or ())
    if output.verbose or not quiet & {Quietness.ALL, Quietness.PROGRESS, Quietness.RULES}:
        return
    handlers = [handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"]
    for handler in handlers:
        handler.addFilter(lambda record: workflow.dryrun or not is_chatter(record))
    if quiet & {Quietness.ALL, Quietness.PROGRESS}:
        os.environ[QUIET] = "1"
        return
    for handler in handlers:
        if isinstance(handler, logging.StreamHandler):
            alone = [rule.name for rule in workflow.rules if "gpu" in rule.resources]
            board = Board(handler.stream, memory, alone, lambda: workflow.dryrun)
            handler.setStream(Above(board))
            logger.addHandler(board)


def listing(workflow: Any, ladder: Mapping[str, Rung]) -> str:
    """What can be asked of Snakemake here: targets and stages with their docstrings, GPUs and rungs by name."""
    found: dict[str, dict[str, str]] = {"targets": {}, "stages": {}}
    for rule in workflow.rules:
        kind = "stages" if rule.has_wildcards() or rule.name in MEASURING else "targets"
        found[kind][rule.name] = " ".join((rule.docstring or "").split())
    wide = max(len(name) for names in found.values() for name in names)
    lines = []
    for kind, usage in (("targets", "snakemake TARGET"), ("stages", "snakemake --until STAGE")):
        lines += [f"{kind.capitalize()} ({usage}):"]
        lines += [f"  {name:<{wide}}  {text}" for name, text in sorted(found[kind].items())] + [""]
    for title, names in (
        ("GPUs (--config gpu=NAME)", sorted(path.stem for path in GPU_FILES.glob("*.yaml"))),
        ("Rungs (--config kernels='[NAME,...]'; an entry's name stands for all its variants)", list(ladder)),
    ):
        lines += [f"{title}:", *textwrap.wrap(", ".join(names), 110, initial_indent="  ", subsequent_indent="  "), ""]
    return "\n".join([*lines, "`make help` lists what make does, docs/quick-start.md shows both in use."])
