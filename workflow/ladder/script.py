"""What the scripts of the rules share: errors as one line, and progress lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from ladder.errors import LadderError


@contextlib.contextmanager
def one_line_errors(log: str) -> Iterator[None]:
    """Turn a LadderError into its line, on the terminal and in the log, and a non-zero exit."""
    try:
        yield
    except LadderError as error:
        line = f"gemm-ladder: {error}"
        with Path(log).open("a") as file:
            file.write(line + "\n")
        sys.exit(line)


class Progress:
    """Lines such as `[time 3/6] tiled@TILE=8  4096  (10/10)`: which kernel, which size, how far, what is left."""

    def __init__(self, stage: str, rung: str, rungs: list[str]) -> None:
        """`rungs` are all that the stage has to do."""
        self.prefix = f"[{stage} {rungs.index(rung) + 1}/{len(rungs)}] {rung}"

    def __call__(self, text: str) -> None:
        """Print one line."""
        print(f"{self.prefix}  {text}", file=sys.stderr, flush=True)
