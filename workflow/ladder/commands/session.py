"""What a run needs of the Snakemake that runs it: where settings came from, whether it is alone, what was asked for."""

from __future__ import annotations

import argparse
import ast
import compileall
import importlib.util
import itertools
import os
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.config.documents import leaves, nearest, parse_yaml, read_yaml, schema
from ladder.model.rung import Rung
from ladder.system.errors import LadderError
from ladder.system.locks import run_alone
from ladder.system.paths import (
    GPU_FILES,
    ROOT,
    read_text,
    require_room,
    require_temporary_folder,
    resolved,
    shown,
)
from ladder.system.terminal import say

MEASURING = ("check", "time", "sustained", "survey", "hardware", "profile")  # the stages that need a GPU
_targets: list[str] = []


def offer_package() -> None:
    """Let the scripts of the rules, which are processes of their own, import this package.

    As bytecode, also where Python is told to write none: each process of a run would compile it again. NumPy's BLAS
    keeps to one thread in each job, for Snakemake gives cores to jobs, and threads that wait would spin.
    """
    require_temporary_folder()
    package = Path(__file__).resolve().parents[1]
    compileall.compile_dir(package, quiet=2)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if shlex.quote(sys.executable) != sys.executable:  # Snakemake writes it into a shell's command as it is
        folder, sys.executable = os.path.split(sys.executable)
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", "")])


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise LadderError for what Snakemake ends on with a traceback, or passes over, when it reads its command line."""
    given = _given(arguments)
    for option, values in (("--config", given.config), ("--configfile", given.configfile)):
        if len(values) > 1:
            raise LadderError(f"{option}: is given {len(values)} times, and only the last would count; give it once")
    for setting in itertools.chain(*given.config):
        _check_setting(setting)
    for path in [*itertools.chain(*given.configfile), *Path("profiles").glob("*/*.yaml")]:
        if not path.is_fifo():  # which can be read once only
            read_settings(path)
    _require_folder(resolved(Path.cwd() / given.directory, "--directory"), Path.cwd())


def check_folders(folder: Path) -> None:
    """Let Snakemake write its own files below a folder: raises OSError where it cannot, before it logs its tracebacks.

    Where the user's folder of caches cannot be written to, caches stand there, too.
    """
    require_room(folder / ".snakemake")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    try:
        caches.mkdir(parents=True, exist_ok=True)
        kept = os.access(caches, os.W_OK)
    except OSError:
        kept = False
    if not kept:
        own = folder / ".snakemake" / "cache"
        os.environ |= {"XDG_CACHE_HOME": str(own), "MPLCONFIGDIR": str(own / "matplotlib")}


def _given(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line of Snakemake says of this workflow, which is told no more of it than its configuration."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", action="append", default=[])
    parser.add_argument("--configfile", "--configfiles", nargs="+", type=Path, action="append", default=[])
    parser.add_argument("--directory", "-d", type=Path, default=Path())
    parser.add_argument("--until", "-U", nargs="+", default=[])
    parser.add_argument("--forcerun", "-R", nargs="*", default=[])
    parser.add_argument("--forceall", "-F", action="store_true")
    parser.add_argument(
        "--sdm", "--software-deployment-method", "--deployment-method", "--deployment", nargs="+", default=[]
    )
    parser.add_argument("--use-conda", action="store_true")
    for flag in ("-f", "-k", "-n", "-p"):  # which -F may be written together with
        parser.add_argument(flag, action="store_true")
    return parser.parse_known_args(arguments)[0]


def _check_setting(text: str) -> None:
    key, equals, value = text.partition("=")
    known = schema("config")["properties"]
    section, _, rest = key.partition(".")
    if not equals or not key:
        raise LadderError(f"--config: {text!r} is no KEY=VALUE; a target stands before --config: snakemake {text} ...")
    if rest and section in known:
        raise LadderError(f"--config: {key}: a key inside another is written {section}='{{{rest}: {value}}}'")
    if key not in known:
        raise LadderError(f"--config: {key}: unknown key; {nearest(key, sorted(known), 'known keys')}")
    if value[:1] in ("[", "{"):  # Snakemake takes what is not YAML as text
        parse_yaml(value, f"--config: {key}")


def read_settings(path: Path) -> Mapping[str, Any]:
    """The mapping that a YAML file holds; raises LadderError where it holds none."""
    content = read_yaml(path)
    if not isinstance(content, Mapping):
        raise LadderError(f"{shown(path)}: holds no mapping; write lines of KEY: VALUE, as in config/config.yaml")
    return content


UNREADABLE = '"$`\\{}:\n'  # nvcc's shell reads the first four, Snakemake's format the braces, PYTHONPATH the colon


IMPORTED = ("jinja2", "jsonschema", "numpy", "pandas", "pygments", "seaborn")  # what the scripts of the rules import


def check_place(by_conda: bool) -> None:
    """Raise LadderError where the workflow cannot run in its folder or with this Python, or has no configuration."""
    missing = [name for name in IMPORTED if not by_conda and importlib.util.find_spec(name) is None]
    if missing:
        raise LadderError(f"{sys.executable}: has no {', '.join(missing)}; run `make env`, then make run")
    if bad := [letter for letter in UNREADABLE if letter in str(ROOT)]:
        names = " and ".join(map(repr, bad))
        raise LadderError(f"{str(ROOT)!r}: nvcc or Snakemake misreads {names} in a path; rename or move that folder")
    _require_folder(Path.cwd(), ROOT)
    for script in sorted((ROOT / "workflow" / "scripts").glob("*.py")):
        ast.parse(read_text(script), str(script))
    read_settings(ROOT / "config" / "config.yaml")


def _require_folder(folder: Path, wanted: Path) -> None:
    if folder != wanted:
        raise LadderError(f"--directory: {folder}: the workflow runs in its own folder; leave it out, and cd {wanted}")


def config_sources(config: Mapping[str, Any], arguments: Sequence[str]) -> dict[str, str]:
    """For each key that was given beside config/config.yaml, by its dotted path, the place that messages should name.

    `config` is what Snakemake knows before it reads that file.
    """
    places = dict.fromkeys(leaves(config), "--config")
    settings = {setting.partition("=")[0] for setting in itertools.chain(*_given(arguments).config)}
    for path in filter(Path.is_file, itertools.chain(*_given(arguments).configfile)):
        own = [key for key in leaves(read_settings(path)) if key.partition(".")[0].partition("[")[0] not in settings]
        places |= dict.fromkeys(own, os.path.relpath(path))
    return places


def stages_to_stop_after(arguments: Sequence[str]) -> list[str]:
    """Those that --until names.

    Snakemake (9.27, `DAG.finish`) starts no job that needs a job of one of them. Where one needs another it ends with
    `BUG: Out of jobs ready to be started`.
    """
    return sorted(set(_given(arguments).until))


def uses_conda(arguments: Sequence[str]) -> bool:
    """Whether jobs run in conda environments (--sdm conda), whose compiler this process does not see."""
    given = _given(arguments)
    return given.use_conda or "conda" in given.sdm


def begin_alone(folder: Path) -> int:
    """`run_alone`, which says what is waited for."""
    waits = "gemm-ladder: jobs of a run that was killed are at work; this run begins when they end"
    return run_alone(folder, lambda: say(waits))


def forced(arguments: Sequence[str]) -> bool:
    """Whether the user forces a stage whose results the time and check stages would otherwise keep (-F, -R time)."""
    given = _given(arguments)
    return given.forceall or bool({"time", "check", "compile", "measure_hardware"} & set(given.forcerun))


def offer_targets(workflow: Any) -> None:
    """Keep what can be asked for by name, for the line about a target that is none."""
    _targets[:] = sorted(rule.name for rule in workflow.rules if rule.name in MEASURING or not rule.has_wildcards())


def no_target(name: str) -> str:
    """One line about a target that nothing makes: what it may have meant, or what can be made."""
    return f"{name}: nothing makes it; {nearest(name, _targets, 'targets')}; `snakemake help` says what each is"


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
