"""Running GPU work in a process of its own: it may crash, hang or fill the memory without taking the pipeline along.

The parent sends one JSON request on the worker's standard input and reads events, one JSON object a line, from a pipe
of their own; everything that the worker prints goes to a log. A worker that reports nothing for its time limit is
killed with all its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]
OUT_OF_MEMORY = "out of GPU memory"  # how a worker's word on it begins
LOCKS = Path("/tmp")  # one place for all users and jobs of a machine, whatever their TMPDIR
_EVENTS_FD = "GEMM_LADDER_EVENTS_FD"


@dataclass(frozen=True)
class Outcome:
    """How a worker ended: `ok`, or `failed` with one line that says how."""

    status: str
    message: str


@contextlib.contextmanager
def gpu_lock(uuid: str) -> Iterator[None]:
    """Hold the GPU alone: at most one process of this machine is inside for each GPU, whatever started it.

    The lock is the kernel's (flock). Workers inherit it, so that it ends when the last process that may use the GPU has
    ended, however that ended.
    """
    path = LOCKS / f"gemm-ladder-{uuid}.lock"
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            os.chmod(path, 0o666)  # other users of the machine have to be able to wait for it
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _locks.append(handle)
        yield
    finally:
        if handle in _locks:
            _locks.remove(handle)
        os.close(handle)


_locks: list[int] = []


def start(command: Sequence[str], handles: Sequence[int] = (), **arguments: Any) -> subprocess.Popen[bytes]:
    """Start a process that may use the GPU: with this package importable, in a session of its own.

    It inherits the GPU's lock, and it is killed with its parent.
    """
    environment = os.environ | arguments.pop("env", {})
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order in which NVML counts
    }
    return subprocess.Popen(
        command,
        env=environment,
        pass_fds=[*handles, *_locks],
        start_new_session=True,
        preexec_fn=functools.partial(_die_with, os.getpid()),
        **arguments,
    )


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies (prctl(2), PR_SET_PDEATHSIG), unless it has died already."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a started process and all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_worker(
    module: str, request: Mapping[str, Any], on_event: Callable[[Event], None], time_limit_s: float, log: Path
) -> Outcome:
    """Run `python -m MODULE` on a request, pass on its events, and say how it ended.

    `time_limit_s` bounds the seconds between two events, the process start included.
    """
    read, write = os.pipe()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, os.fdopen(read, "rb", buffering=0) as events, tempfile.TemporaryFile() as asked:
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        written = output.tell()
        process = start(
            [sys.executable, "-m", module],
            [write],
            env={_EVENTS_FD: str(write)},
            stdin=asked,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        os.close(write)
        try:
            failure = _follow(process, events, on_event, time_limit_s)
            if failure is None and _wait(process, time_limit_s) is None:
                failure = _overdue(time_limit_s)
        finally:
            stop(process)
    return failure or _ended(process.returncode, log, written)


def _overdue(time_limit_s: float) -> Outcome:
    return Outcome("failed", f"no progress for {time_limit_s:g} s; stopped")


def _follow(
    process: subprocess.Popen[bytes], events: Any, on_event: Callable[[Event], None], time_limit_s: float
) -> Outcome | None:
    """Pass on events until the worker ends; the outcome if the time limit or the worker's own word ended it."""
    pending = b""
    failure = None
    deadline = time.monotonic() + time_limit_s
    while True:
        ended = process.poll() is not None  # asked before the pipe is, so that nothing it wrote is missed
        ready, _, _ = select.select([events], [], [], 0 if ended else min(0.5, max(0.0, deadline - time.monotonic())))
        if not ready:
            if ended:
                return failure
            if time.monotonic() >= deadline:
                return _overdue(time_limit_s)
            continue
        chunk = events.read(65536)
        if not chunk:
            return failure
        deadline = time.monotonic() + time_limit_s
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                return Outcome("failed", "the worker sent something that is no event; see its log")
            if "failure" in event:
                failure = Outcome("failed", event["failure"])
            else:
                on_event(event)


def _wait(process: subprocess.Popen[bytes], time_limit_s: float) -> int | None:
    try:
        return process.wait(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        return None


def _ended(code: int, log: Path, written: int) -> Outcome:
    """The outcome of an exit status; the worker's output begins at byte `written` of its log."""
    if code == 0:
        return Outcome("ok", "")
    if code < 0:
        known = {each.value: each.name for each in signal.Signals}
        return Outcome("failed", f"crashed: killed by {known.get(-code, f'signal {-code}')}")
    text = log.read_bytes()[written:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Outcome("failed", f"ended with exit status {code}: {lines[-1] if lines else 'nothing was printed'}")


def request() -> dict[str, Any]:
    """In the worker: the parent's request."""
    return json.load(sys.stdin)


def emit(**event: Any) -> None:
    """In the worker: send one event to the parent."""
    os.write(int(os.environ[_EVENTS_FD]), (json.dumps(event) + "\n").encode())


def fail_with(error: Exception) -> None:
    """In the worker: say in one line what an exception was, with the remedy where memory ran out."""
    text = str(error)
    if "OutOfMemory" in type(error).__name__ or "MemoryAllocation" in text:
        fail(f"{OUT_OF_MEMORY} ({text}); free the GPU or take smaller sizes")
    else:
        fail(f"{type(error).__name__}: {text}")


def fail(message: str) -> None:
    """In the worker: say in one line why it ends."""
    emit(failure=" ".join(message.split()))
