"""What a run needs of the Snakemake that runs it: where settings came from, whether it is alone, what was asked for."""

from __future__ import annotations

import compileall
import fcntl
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ladder.config.gpus import GPU_FILES
from ladder.model.rung import Rung
from ladder.system.errors import LadderError

MEASURING = ("check", "time", "profile")  # the stages that need a GPU
_held: list[int] = []


def offer_package(workflow: Any) -> None:
    """Let the scripts of the rules, which are processes of their own, import this package, and tell them of --nocolor.

    As bytecode, also where Python is told to write none: each process of a run would compile it again. NumPy's BLAS
    keeps to one thread in each job, for Snakemake gives cores to jobs, and threads that wait would spin.
    """
    package = Path(__file__).resolve().parents[1]
    compileall.compile_dir(package, quiet=2)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if workflow.output_settings.nocolor:
        os.environ["NO_COLOR"] = "1"


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


def run_alone(folder: Path) -> None:
    """Hold a lock of the kernel on a folder until this process ends, however it ends.

    Raises LadderError where another run holds it. Snakemake's own locks are files, which a killed run leaves behind.
    """
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / "gemm-ladder.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LadderError("another run is at work in this folder and holds its lock; wait until it has ended") from None
    _held.append(handle)


def forced(workflow: Any) -> bool:
    """Whether the user forces a stage whose results the time and check stages would otherwise keep (-F, -R time)."""
    settings = workflow.dag_settings
    return bool(settings.forceall or {"time", "check", "compile"} & {str(rule) for rule in settings.forcerun})


def silent(workflow: Any) -> bool:
    """Whether the user wants no lines of the stages: --quiet, --quiet all or --quiet progress."""
    return bool({"ALL", "PROGRESS"} & {choice.name for choice in workflow.output_settings.quiet or ()})


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
