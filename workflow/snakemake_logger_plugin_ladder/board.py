"""What a run shows while it works: on a terminal one live line below the others, in a log a plain line now and then."""

from __future__ import annotations

import json
import logging
import shutil
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from snakemake_interface_logger_plugins.common import LogEvent

BAR = 24  # characters
CLEAR = "\r\x1b[K"  # to the line's beginning, and nothing behind it
EVERY_S = 0.5  # the live line is drawn anew
LOGGED_S = 30.0  # between two lines in a log


def clock(seconds: float) -> str:
    """`0:42`, `12:05` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def seconds_left(
    waiting: Mapping[str, int],
    running: Iterable[tuple[str, float]],
    typical: Mapping[str, float],
    at_once: int,
    alone: Iterable[str] = (),
    gpus: int = 1,
) -> float | None:
    """About how long a run still takes; None before anything is known.

    `waiting` counts the jobs of each rule that have not begun, `running` are the rules and seconds of those that have,
    `typical` is what a job of a rule takes. Rules of which nothing is known count as the mean of the others. `at_once`
    jobs run side by side, but those of the rules `alone` one after another on each of the `gpus`.
    """
    if not typical:
        return None
    unknown = statistics.fmean(typical.values())
    work = {rule: count * typical.get(rule, unknown) for rule, count in waiting.items()}
    for rule, gone in running:
        work[rule] = work.get(rule, 0.0) + max(0.0, typical.get(rule, unknown) - gone)
    one_by_one = sum(work.get(rule, 0.0) for rule in set(alone))
    return max(one_by_one / max(1, gpus), sum(work.values()) / max(1, at_once))


@dataclass
class State:
    """How far a run is: what has to be done, what runs since when, what each rule's jobs took, in seconds."""

    began: float
    total: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    running: dict[int, tuple[str, str, float]] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    earlier: dict[str, float] = field(default_factory=dict)
    at_once: int = 1
    alone: set[str] = field(default_factory=set)  # rules whose jobs run one after another, on a GPU
    gpus: int = 1

    @property
    def typical(self) -> dict[str, float]:
        """Seconds that a job of each rule takes: in this run, else in an earlier one."""
        return self.earlier | {rule: statistics.median(seconds) for rule, seconds in self.took.items()}

    def line(self, now: float) -> str:
        """`23/64 steps, 1:02 gone, about 1:50 left`."""
        running = [(rule, now - since) for rule, _, since in self.running.values()]
        waiting = self.total - self.done - Counter(rule for rule, _ in running)
        left = seconds_left(waiting, running, self.typical, self.at_once, self.alone, self.gpus)
        about = f", about {clock(left)} left" if left is not None and (waiting or running) else ""
        return f"{self.done.total()}/{self.total.total()} steps, {clock(now - self.began)} gone{about}"

    def live(self, now: float, width: int) -> str:
        """The line of a terminal of this width: a bar, how far, what is left, and what runs."""
        share = self.done.total() / max(1, self.total.total())
        bar = "#" * int(BAR * share)
        running = ", ".join(f"{rule} {name}".rstrip() for rule, name, _ in self.running.values())
        return f"[{bar:-<{BAR}}] {self.line(now)}  {running}"[: max(0, width - 1)].rstrip()


class Board:
    """Follows Snakemake's events: a live line on a terminal, a line at most every LOGGED_S seconds elsewhere.

    `memory` is where the seconds that a job of each rule took are kept, so that a later run can say what is left.
    """

    def __init__(self, stream: TextIO, memory: Path, now: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.memory, self.now = stream, memory, now
        self.terminal = stream.isatty()
        self.state = State(now(), earlier=remembered(memory))
        self.guard = threading.RLock()
        self.drawn, self.said = False, now()
        self.ended = threading.Event()
        self.ticker: threading.Thread | None = None

    def follow(self, record: logging.LogRecord) -> None:
        """Take in an event of Snakemake's, and draw."""
        event = getattr(record, "event", None)
        with self.guard:
            state = self.state
            if event == LogEvent.RUN_INFO:
                state.total = Counter({rule: n for rule, n in record.stats.items() if rule != "total"})
                state.began = self.now()
            elif event == LogEvent.RESOURCES_INFO:
                state.at_once = getattr(record, "cores", None) or state.at_once
                given = getattr(record, "provided_resources", None) or {}
                state.gpus = given["gpu"].value if "gpu" in given else state.gpus
            elif event == LogEvent.JOB_INFO:
                names = record.wildcards or {}
                name = names.get("kernel") or names.get("entry") or ""
                state.running[record.jobid] = (record.rule_name, name, self.now())
                if dict(record.resources or {}).get("gpu"):
                    state.alone.add(record.rule_name)
            elif event == LogEvent.JOB_FINISHED and record.job_id in state.running:
                rule, _, since = state.running.pop(record.job_id)
                state.done[rule] += 1
                state.took.setdefault(rule, []).append(self.now() - since)
            else:
                return
            self.tell()

    def tell(self) -> None:
        """Draw the live line anew, or say a line where the last one is long ago."""
        with self.guard:
            if not self.state.running and not self.state.done:
                return
            if self.terminal:
                if self.ticker is None:
                    self.ticker = threading.Thread(target=self._tick, daemon=True)
                    self.ticker.start()
                if not self.ended.is_set():
                    width = shutil.get_terminal_size().columns
                    self.stream.write(CLEAR + self.state.live(self.now(), width))
                    self.stream.flush()
                    self.drawn = True
            elif self.now() - self.said >= LOGGED_S:
                self.said = self.now()
                self.stream.write(f"[{self.state.line(self.now())}]\n")
                self.stream.flush()

    def _tick(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.tell()

    def write_above(self, text: str) -> None:
        """Write whole lines that others have to say, with the live line out of their way."""
        with self.guard:
            if self.drawn:
                self.stream.write(CLEAR)
                self.drawn = False
            self.stream.write(text)

    def close(self) -> None:
        """Take the live line away, say how long all took, and keep what each rule's jobs took."""
        with self.guard:
            if self.ended.is_set():
                return
            self.ended.set()
            if self.state.done or self.state.running:
                done, total = self.state.done.total(), self.state.total.total()
                self.write_above(f"{done} of {total} steps in {clock(self.now() - self.state.began)}\n")
                self.stream.flush()
                remember(self.memory, self.state.typical)


def remembered(memory: Path) -> dict[str, float]:
    """What a job of each rule took in earlier runs, in seconds; empty where that is not known."""
    try:
        found = json.loads(memory.read_text())
        return {str(rule): float(seconds) for rule, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember(memory: Path, typical: Mapping[str, float]) -> None:
    """Keep what a job of each rule took; a folder that cannot be written to is no reason to fail."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps({rule: round(typical[rule], 3) for rule in sorted(typical)}, indent=1) + "\n")
    except OSError as error:
        print(f"gemm-ladder: {memory}: {error.strerror}; what is left will not be known", file=sys.stderr)
