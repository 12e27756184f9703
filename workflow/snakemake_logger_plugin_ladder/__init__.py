"""A logger plugin for Snakemake: errors and how far the run is, in the place of what Snakemake says of its own work.

`--logger ladder` (profiles/default) takes it. It shows its own words where the user asked for fewer of Snakemake's, by
`--quiet rules`, and one line where the user interrupts the run. With `--quiet host`, `--verbose` or in a dry run it
shows what Snakemake says, as Snakemake would. As the first that runs, it also refuses a command line that the workflow
cannot take.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from logging import LogRecord
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_ladder.board import Board

DURATIONS = Path("build/durations.json")
# What Snakemake has no event or field for: that nothing is to be done (its text), that a failed job had no earlier
# output to go back to (the function that warns), that an error holds Python's traceback, and the state of Slurm's job
# (its name in the reason; here with what to do about it).
NOTHING, NO_EARLIER_OUTPUT, PYTHONS = "Nothing to be done", "restore_output", "Traceback (most recent call last):"
STATES = {
    "TIMEOUT": "out of time; raise its runtime in the profile",
    "OUT_OF_MEMORY": "out of memory; raise its mem_mb in the profile",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "preempted",
}
SHOWN = ("ALL", "PROGRESS", "RULES")  # the choices of --quiet that leave room for words of ours


def _check_command_line() -> None:
    """End the run with one line where the package of this folder's workflow refuses the command line.

    Snakemake makes its loggers before it reads settings, and the workflow after.
    """
    package = Path("workflow").resolve()
    if not (package / "ladder").is_dir():
        return
    sys.path.insert(0, str(package))  # as the workflow does
    from ladder.commands.session import check_arguments, check_folders
    from ladder.system.terminal import told

    with told():
        check_arguments(sys.argv[1:])
        check_folders(Path.cwd())


def _of_batch_system(job: str, reason: str) -> str:
    """Why a batch system's job failed: what to do about the state of Slurm's, else the batch system's own reason."""
    for state, words in STATES.items():
        if state in reason:
            return f"Slurm job {job}: {words}; nothing is recorded of it, so run again"
    return f"job {job} of the batch system failed, and nothing is recorded of it: {reason}"


def _killed_by(text: str) -> str:
    """The signal that ended a process, where Python's text of the error names one; Snakemake's record has no other."""
    return next((each.name for each in signal.Signals if repr(each) in text), "")


def _in_one_line(record: LogRecord, text: str) -> str:
    """What an error comes to: in one line where a target is none, or where Snakemake would show where in Python."""
    if getattr(record, "exception", "") == "MissingRuleException":
        from ladder.commands.session import no_target

        asked = [word for word in sys.argv[1:] if f" {word} " in text]
        return f"gemm-ladder: {no_target(asked[0])}" if asked else text
    if PYTHONS not in text:
        return text
    return f"gemm-ladder: {text.strip().splitlines()[-1]}; --verbose shows where"


class LogHandler(LogHandlerBase):
    """Writes to standard error: a live line on a terminal, a plain line now and then in a log."""

    writes_to_stream = True
    writes_to_file = False
    has_formatter = False  # Snakemake's own formats its errors
    needs_rulegraph = False

    def __post_init__(self) -> None:
        _check_command_line()
        settings = self.common_settings
        asked = {choice.name for choice in settings.quiet or ()}
        self.ours = bool(asked & set(SHOWN)) and not settings.verbose and not settings.dryrun
        self.stream = sys.stdout if settings.stdout else sys.stderr
        silent = bool(asked & {"ALL", "PROGRESS"})
        os.environ |= {"NO_COLOR": "1"} if settings.nocolor else {}  # for the jobs, and
        os.environ |= {"GEMM_LADDER_QUIET": "1"} if silent else {}  # for the workflow, which tells its jobs
        self.board = None if silent or not self.ours else Board(self.stream, DURATIONS)
        self.untold: list[str] = []  # errors that a failed job may have told already
        self.interrupted = False
        if self.ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            sys.excepthook = self._uncaught

    @property
    def has_filter(self) -> bool:
        """Whether Snakemake's own choice of records is left out: where this handler chooses."""
        return self.ours

    def _interrupt(self, number: int, frame: Any) -> None:
        """Note that the user ended the run, so that what fails by it is no error, and end it as Python does."""
        self.interrupted = True
        signal.default_int_handler(number, frame)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            traceback.print_exception(kind, error, trace)

    def emit(self, record: LogRecord) -> None:
        """Show one of Snakemake's records, or draw what it changes."""
        event = getattr(record, "event", None)
        if not self.ours:
            told = event == LogEvent.ERROR and not self.common_settings.verbose
            self._write(_in_one_line(record, self.format(record)) if told else self.format(record))
        elif self.interrupted and event in (LogEvent.JOB_ERROR, LogEvent.ERROR):
            self.untold.clear()
        elif event == LogEvent.JOB_ERROR:
            self._job_failed(record)
        elif event == LogEvent.ERROR:
            self.untold.append(_in_one_line(record, self.format(record)))
        elif record.levelno >= logging.WARNING:
            if record.funcName != NO_EARLIER_OUTPUT:
                self._write(self.format(record))
        elif self.board is not None:
            if record.getMessage().startswith(NOTHING):
                self._write("Nothing to be done: all that was asked for is there and up to date.")
            self.board.follow(record)

    def _job_failed(self, record: LogRecord) -> None:
        """Name the log of a job whose script has not said itself what failed, with what Snakemake knows of it."""
        logs = [Path(path) for path in record.log or ()]
        texts = [path.read_text(errors="replace") for path in logs if path.is_file()]
        said = [line for text in texts for line in text.splitlines() if line.startswith("gemm-ladder: ")]
        where = f"; see {', '.join(map(str, logs))}" if logs else ""
        if reason := " ".join((getattr(record, "rule_msg", None) or "").split()):  # of a batch system
            why = _of_batch_system(record.aux.get("external_jobid", ""), reason)
            self._write(said[-1] if said else f"gemm-ladder: {record.rule_name}: {why}{where}")
        elif not said and (killed := _killed_by("\n".join(self.untold))):
            ended = f"killed by {killed}; nothing is recorded of it, so run again"
            self._write(f"gemm-ladder: {record.rule_name}: {ended}{where}")
        elif not said:
            self._write("\n".join([*self.untold, f"gemm-ladder: {record.rule_name}: the job failed{where}"]))
        self.untold.clear()

    def _write(self, text: str) -> None:
        if not text:
            return
        if self.board is not None:
            self.board.write_above(text + "\n")
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Say what was not said yet, and how long all took."""
        for text in self.untold:
            self._write(text)
        self.untold.clear()
        if self.board is not None:
            self.board.close()
        if self.interrupted:
            self.stream.write("gemm-ladder: interrupted; nothing that was recorded is lost, run again to go on\n")
            self.stream.flush()
            self.interrupted = False
        super().close()
