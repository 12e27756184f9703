"""Two builds of a rung, timed in turn in one process by the time stage's worker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.build.compile import Build
from ladder.measure.time.stage import time_rung
from ladder.model.shape import Shape
from ladder.records.timings import ShapeTiming, read_time_record
from ladder.system.errors import LadderError

IN_A_BLOCK = 10  # of a block


def time_in_turn(
    blocks: Sequence[str],
    builds: Mapping[str, Build],
    shapes: list[str],
    expected: Mapping[str, Any],
    settings: Mapping[str, Any],
    device: int,
    where: Mapping[str, Any],
    log: Path,
    progress: Callable[[str, str], None],
) -> dict[Shape, ShapeTiming]:
    """Time blocks of IN_A_BLOCK launches in order, in a process of its own; each is a measurement by its name.

    A block `before.0` is of the build `before`. `expected` is `Plan.expected` of the rung alone. Raises LadderError
    where a build fails or the machine breaks it off.
    """
    settings = {**settings, "iterations": IN_A_BLOCK, "reference_budget_s": settings["budget_s"]}
    timed = {block: builds[block.rpartition(".")[0]] for block in blocks}
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        record = Path(folder) / "samples.zip"
        (declared,) = expected["declared"].values()
        of_each = {**expected, "declared": dict.fromkeys(timed, declared)}
        message = time_rung(blocks[0], timed, shapes, of_each, settings, device, where, record, log, progress)
        if message:
            raise LadderError(f"{', '.join(builds)}: not timed: {message}")
        return read_time_record(record)
