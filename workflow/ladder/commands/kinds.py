"""A run of several kinds of GPU: a run of each, each in its own folder, then `across` of all.

On one machine the runs follow each other, for they share its GPUs and cores. Where jobs are sent to nodes they are at
work at once, so that one kind's queue is not waited for before the other's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, Any

from ladder.commands.session import begin_alone, stages_to_stop_after
from ladder.config import gpus
from ladder.config.documents import nearest, set_by, validated
from ladder.config.plan import CLUSTER
from ladder.system.errors import LadderError
from ladder.system.terminal import say

ONE_OF = "GEMM_LADDER_ONE_OF"  # tells a run that another one started it, for one of the kinds
CONFIG = "config/config.yaml"


def kinds(config: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """The GPUs of a run of several kinds; none where this is a run of one, or one of several.

    Raises LadderError for a name without a file, and where `gpu` is set beside them.
    """
    settings = validated(dict(config), "config", CONFIG, places)
    named = settings["gpus"]
    if not named or ONE_OF in os.environ:
        return []
    place = set_by(places, "gpus", CONFIG)
    for index, name in enumerate(named):
        if name not in gpus.names():
            raise LadderError(
                f"{place}: gpus[{index}]: {name!r} has no file in config/gpus; {nearest(name, gpus.names())}"
            )
        if name in named[:index]:
            raise LadderError(f"{place}: gpus[{index}]: {name!r} is named twice; leave one out")
    if settings["gpu"] != "auto":
        raise LadderError(f"{set_by(places, 'gpu', CONFIG)}: gpu: {settings['gpu']!r}, and gpus is set; leave out one")
    return list(named)


def command(arguments: Sequence[str], targets: Iterable[str], asked: Iterable[str], **settings: str) -> list[str]:
    """The command line of a run of one kind: the user's, with other targets and with more settings.

    `targets` are those among the arguments that are replaced by the ones that are `asked`.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", default=[])
    given, rest = parser.parse_known_args(arguments)
    for target in targets:
        rest.remove(target)
    own = [setting for setting in given.config if setting.partition("=")[0] not in settings]
    added = [f"{key}={value}" for key, value in settings.items()]
    return [sys.executable, "-m", "snakemake", *asked, *rest, "--config", *own, *added]


def run_each(config: Mapping[str, Any], named: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the workflow for each of these GPUs, and `across` if all or that is asked for; the worst exit status.

    A GPU that this machine has not is compiled for, inspected and shown from its records, unless `measure` says else.
    """
    from snakemake.cli import parse_args  # which alone tells a target from the value of an option

    settings, given = validated(dict(config), "config", CONFIG), parse_args(list(arguments))[1]
    targets = sorted(given.targets)
    wanted = [target for target in targets if target != "across"]
    here, at_once = gpus.chosen(settings["devices"]), settings["measure"] == CLUSTER
    held = begin_alone(Path("build"))
    statuses: list[int] = []

    def start(asked: Sequence[str], *more: str, piped: bool = False, **own: str) -> subprocess.Popen[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} if piped else {}
        made = command([*arguments, *more], targets, asked, **own)
        return subprocess.Popen(made, env={**os.environ, ONE_OF: ",".join(named)}, pass_fds=[held], **streams)

    how = "at once" if at_once else "one after the other"
    say(f"gemm-ladder: {len(named)} kinds of GPU, {how}: {', '.join(named)}")
    if at_once:
        statuses += _ended({name: start(wanted, *_own_logs(given, name), piped=True, gpu=name) for name in named})
    else:
        for name in named:
            absent = settings["measure"] == "auto" and not gpus.of_kind(name, here)
            statuses.append(start(wanted, gpu=name, **({"measure": "false"} if absent else {})).wait())
    if "across" in targets or not (targets or stages_to_stop_after(arguments)):
        statuses.append(start(["across"], gpu=named[0], measure="false").wait())
    return max(map(abs, statuses))


def _own_logs(given: argparse.Namespace, name: str) -> list[str]:
    """Arguments by which Slurm's logs of a run at once with others are in a folder of their own.

    At its end the executor removes empty folders of logs, also those in which Slurm has yet to begin another run's log;
    a job whose log cannot be written fails.
    """
    if given.executor != "slurm":
        return []
    folder = given.slurm_logdir if isinstance(given.slurm_logdir, str | Path) else Path(".snakemake/slurm_logs")
    return ["--slurm-logdir", str(Path(folder) / name)]


def _ended(runs: Mapping[str, subprocess.Popen[str]]) -> list[int]:
    """The exit statuses of runs that are at work at once; each line that they print begins with the name of its run."""

    def pass_on(name: str, source: IO[str], target: IO[str]) -> None:
        for line in source:
            print(f"{name}: {line}", end="", file=target, flush=True)

    readers = [
        Thread(target=pass_on, args=(name, source, target))
        for name, run in runs.items()
        for source, target in ((run.stdout, sys.stdout), (run.stderr, sys.stderr))
    ]
    for reader in readers:
        reader.start()
    try:
        return [run.wait() for run in runs.values()]
    finally:  # also where the user interrupts them all: each cancels its jobs before it ends
        for reader in readers:
            reader.join()
