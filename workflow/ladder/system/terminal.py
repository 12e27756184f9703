"""What the scripts of the rules share: errors as one line, and progress lines."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ladder.system.errors import LadderError

CLEAR = "\r\x1b[K"  # to the line's beginning, and nothing behind it
QUIET = "GEMM_LADDER_QUIET"  # set where the user wants no progress lines
GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"
GOOD = ("ok", "pass", "emulated")
BAD = ("failed", "wrong", "unusable", "crashed", "timeout", "not timed", "not profiled")


def say(text: str) -> None:
    """Print to standard error; on a terminal in the place of the live line, which the run draws anew below."""
    print(f"{CLEAR if sys.stderr.isatty() else ''}{text}", file=sys.stderr, flush=True)


def colored(status: str) -> str:
    """A status in green or red; plain in a log, where NO_COLOR is set (no-color.org), and if neither good nor bad."""
    color = GREEN if status in GOOD else RED if status in BAD else ""
    if not color or not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return status
    return f"{color}{status}{RESET}"


@contextlib.contextmanager
def one_line_errors(log: str) -> Iterator[None]:
    """Turn a LadderError into its line, on the terminal and in the log, and a non-zero exit."""
    try:
        yield
    except LadderError as error:
        line = f"gemm-ladder: {error}"
        with Path(log).open("a") as file:
            file.write(line + "\n")
        say(line)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)  # whoever pressed the keys needs no traceback


class Progress:
    """Lines such as `[time 3/6] tiled@TILE=8  4096  (10/10)`: which kernel, which size, how far, what it took."""

    def __init__(self, stage: str, rung: str, rungs: list[str]) -> None:
        """`rungs` are all that the stage has to do; the rung's time begins now."""
        self.prefix = f"[{stage} {rungs.index(rung) + 1}/{len(rungs)}] {rung}"
        self.began = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print one line."""
        if QUIET not in os.environ:
            say(f"{self.prefix}  {text}")

    def ended(self, status: str, message: str = "") -> None:
        """Print the last line of a rung: how it ended, and how long it took."""
        words = [colored(status), *filter(None, [message]), f"{time.monotonic() - self.began:.1f} s"]
        self("  ".join(words))
