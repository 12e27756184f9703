"""The locks of a run and of its jobs in a folder: the kernel's (flock), which end with their processes.

Snakemake's own are files, which a killed run leaves behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from ladder.system.errors import LadderError

_held: list[int] = []


def run_alone(folder: Path, wait: Callable[[], None]) -> int:
    """Hold the lock of a run on a folder until this process ends, and all that inherit the handle that is returned.

    Raises LadderError where another run holds it.

    Jobs outlive a run that is killed, and would write the files that this run's jobs write: where there are such jobs,
    calls `wait`, which says so, and waits for them.
    """
    folder.mkdir(exist_ok=True)
    try:
        held = _hold(folder / "gemm-ladder.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LadderError("another run is at work in this folder and holds its lock; wait until it has ended") from None
    jobs = os.open(_of_jobs(folder), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(jobs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        wait()
        fcntl.flock(jobs, fcntl.LOCK_EX)
    finally:
        os.close(jobs)
    return held


def hold_as_job(folder: Path) -> None:
    """Hold the lock of the jobs of a run, all of which may hold it, until this process ends; nothing without a run."""
    with contextlib.suppress(OSError):
        _hold(_of_jobs(folder), fcntl.LOCK_SH)


def _of_jobs(folder: Path) -> Path:
    return folder / "gemm-ladder.jobs.lock"


def _hold(path: Path, how: int) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, how)
    except OSError:
        os.close(handle)
        raise
    _held.append(handle)
    return handle
