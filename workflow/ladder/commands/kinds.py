"""A run of several kinds of GPU: a run of each, one after the other, each in its own folder, then `across` of all."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ladder.commands.session import stages_to_stop_after
from ladder.config import gpus
from ladder.config.documents import nearest, set_by, validated
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

    settings, targets = validated(dict(config), "config", CONFIG), sorted(parse_args(list(arguments))[1].targets)
    wanted = [target for target in targets if target != "across"]
    here = gpus.chosen(settings["devices"])
    worst = 0

    def run(asked: Sequence[str], **more: str) -> None:
        nonlocal worst
        made = command(arguments, targets, asked, **more)
        status = subprocess.run(made, env={**os.environ, ONE_OF: ",".join(named)}, check=False).returncode
        worst = max(worst, abs(status))

    say(f"gemm-ladder: {len(named)} kinds of GPU, one after the other: {', '.join(named)}")
    for name in named:
        absent = settings["measure"] == "auto" and not gpus.of_kind(name, here)
        run(wanted, gpu=name, **({"measure": "false"} if absent else {}))
    if "across" in targets or not (targets or stages_to_stop_after(arguments)):
        run(["across"], gpu=named[0], measure="false")
    return worst
