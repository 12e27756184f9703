"""Running GPU work in a process of its own: it may crash, hang or fill the memory without taking the pipeline along.

The parent sends one JSON request on the worker's standard input and reads events, one JSON object a line, from a pipe
of their own; everything that the worker prints goes to a log. A worker that reports nothing for its time limit is
killed with all its children.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]
_EVENTS_FD = "GEMM_LADDER_EVENTS_FD"


@dataclass(frozen=True)
class Outcome:
    """How a worker ended: `ok`, or `failed` with one line that says how."""

    status: str
    message: str


@contextlib.contextmanager
def gpu_lock(uuid: str) -> Iterator[None]:
    """Hold the GPU alone: at most one process of this machine is inside for each GPU, whatever started it.

    The lock is the kernel's (flock), so it ends with its holder, however that ends.
    """
    path = Path(tempfile.gettempdir()) / f"gemm-ladder-{uuid}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(OSError):
        os.chmod(path, 0o666)  # other users of the machine have to be able to wait for it
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def run_worker(
    module: str, request: Mapping[str, Any], on_event: Callable[[Event], None], time_limit_s: float, log: Path
) -> Outcome:
    """Run `python -m MODULE` on a request, pass on its events, and say how it ended.

    `time_limit_s` bounds the seconds between two events, the process start included.
    """
    read, write = os.pipe()
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        _EVENTS_FD: str(write),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("ab") as output, os.fdopen(read, "rb", buffering=0) as events:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            env=environment,
            start_new_session=True,
        )
        os.close(write)
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode())
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            failure = _follow(events, on_event, time_limit_s)
            if failure is None and _wait(process, time_limit_s) is None:
                failure = Outcome("failed", f"no progress for {time_limit_s:g} s; stopped")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if failure is not None:
        return failure
    return _ended(process.returncode, log)


def _follow(events: Any, on_event: Callable[[Event], None], time_limit_s: float) -> Outcome | None:
    """Pass on events until the pipe closes; the outcome if the time limit or the worker's own word ended it."""
    pending = b""
    failure = None
    deadline = time.monotonic() + time_limit_s
    while True:
        ready, _, _ = select.select([events], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return Outcome("failed", f"no progress for {time_limit_s:g} s; stopped")
        chunk = events.read(65536)
        if not chunk:
            return failure
        deadline = time.monotonic() + time_limit_s
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if "failure" in event:
                failure = Outcome("failed", event["failure"])
            else:
                on_event(event)


def _wait(process: subprocess.Popen[bytes], time_limit_s: float) -> int | None:
    try:
        return process.wait(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        return None


def _ended(code: int, log: Path) -> Outcome:
    if code == 0:
        return Outcome("ok", "")
    if code < 0:
        return Outcome("failed", f"crashed: killed by {signal.Signals(-code).name}")
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return Outcome("failed", f"ended with exit status {code}: {lines[-1] if lines else 'nothing was printed'}")


def request() -> dict[str, Any]:
    """In the worker: the parent's request."""
    return json.load(sys.stdin)


def emit(**event: Any) -> None:
    """In the worker: send one event to the parent."""
    os.write(int(os.environ[_EVENTS_FD]), (json.dumps(event) + "\n").encode())


def fail(message: str) -> None:
    """In the worker: say in one line why it ends."""
    emit(failure=" ".join(message.split()))
