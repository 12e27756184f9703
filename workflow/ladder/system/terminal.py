"""What a job shows: its progress in lines, its errors in one line each."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ladder.system.errors import LadderError, one_line
from ladder.system.locks import hold_as_job

CLEAR = "\r\x1b[K"  # to the line's beginning, and nothing behind it
GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"
GOOD = ("ok", "pass", "emulated")
INTERRUPTED = 128 + signal.SIGINT  # the exit status of what the user ends
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


class Progress:
    """Lines such as `[time] tiled@TILE=8  4096  (10/10)`: which stage and rung, which size, how far."""

    def __init__(self, stage: str, name: str, quiet: bool = False) -> None:
        """The time that `ended` tells begins now; nothing is printed where `quiet`."""
        self.prefix = f"[{stage}] {name}"
        self.quiet = quiet
        self.began = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            say(f"{self.prefix}  {text}")

    def ended(self, status: str, message: str = "") -> None:
        """Print the last line of a rung: how it ended, and how long it took."""
        words = [colored(status), *filter(None, [message]), f"{time.monotonic() - self.began:.1f} s"]
        self("  ".join(words))


@contextlib.contextmanager
def told(program: str = "gemm-ladder") -> Iterator[None]:
    """End the program with one line and exit status 1 for an exception that is not this program's fault.

    Without a line, and with the status of a program that SIGPIPE ends, where nobody reads what it prints any more.
    """
    try:
        yield
        if sys.stdout is not None:  # closed
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again when it ends
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        if line := one_line(error):
            sys.exit(f"{program}: {line}")
        raise


def exit_status(program: str, work: Callable[[], None]) -> int:
    """The exit status of a command that does this work: 0, 130 when interrupted, or `told`'s, once its line is told."""
    try:
        with told(program):
            work()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
        print(ended.code, file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


@contextlib.contextmanager
def waiting(progress: Progress, doing: Callable[[], str], after_s: float = 2) -> Iterator[None]:
    """Say what is waited for, and for how long, after so many seconds, and again each time that has doubled."""
    over = threading.Event()

    def tell() -> None:
        pause = after_s
        while not over.wait(pause):
            waited = time.monotonic() - progress.began
            progress(f"{doing()}  {waited:.0f} s")
            pause = waited

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def job(snakemake: Any, stage: str = "") -> Iterator[Progress]:
    """A script of a rule: gives its progress lines, and turns an error into one line there and in the rule's log.

    Where the fault is this program's, the log has the traceback. Either way the script ends with exit status 1. Until
    it ends, no other run begins in its folder.
    """
    hold_as_job(Path("build"))
    name = snakemake.wildcards.get("kernel") or snakemake.wildcards.get("entry") or ""
    with contextlib.suppress(OSError):
        Path(snakemake.log[0]).unlink(missing_ok=True)  # what an earlier job said is not said by this one
    try:
        yield Progress(stage or snakemake.rule, name, snakemake.config["quiet"])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)  # whoever pressed the keys needs no words
    except Exception as error:
        _tell(snakemake, error)
        sys.exit(1)


def catch_imports(snakemake: Any) -> None:
    """Tell in one line, as `job` does, what ends a script outside of `job`: an import that fails."""

    def tell(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, Exception):
            _tell(snakemake, error)

    sys.excepthook = tell


def _tell(snakemake: Any, error: Exception) -> None:
    log = Path(snakemake.log[0])
    if isinstance(error, OSError) and error.errno and error.filename is None:  # as of a disk that is full
        error.filename = ", ".join(sorted({os.path.dirname(path) for path in [*snakemake.output, *snakemake.log]}))
    place = "" if isinstance(error, LadderError) else f"{snakemake.rule}: "
    fault = f"{type(error).__name__}: {' '.join(str(error).split())}; this is our fault, see {log}"
    line = f"gemm-ladder: {place}{one_line(error) or fault}"
    with contextlib.suppress(OSError), log.open("a") as file:
        if not one_line(error):
            traceback.print_exception(error, file=file)
        file.write(line + "\n")
    say(line)
