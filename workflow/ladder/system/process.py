"""Running GPU work in a process of its own: it may crash, hang or fill the memory without taking the pipeline along.

The parent sends one JSON request on the worker's standard input, behind a line that names a pipe and a token; the
worker drops that input when it has read it. The parent reads events, one JSON object a line, from the pipe; everything
that the worker prints goes to a log. Each event carries the token and the worker's process id, and the last one says
that all is done: host code of a kernel may exit, fork or write to any file, and none of that counts as a report. A
worker that reports nothing for its time limit is killed with all its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder.system.errors import LadderError, remedy_of
from ladder.system.nvml import VISIBLE

Event = dict[str, Any]
LOCKS = Path("/tmp")  # one place for all users and jobs of a machine, whatever their TMPDIR
OK, FAILED, BROKEN = "ok", "failed", "broken"

# What is no fault of a kernel: signals that the system and users send, and CUDA's errors of a GPU that cannot work.
_SENT = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_GPU_TROUBLE = re.compile(
    r"NoDevice|DevicesUnavailable|InsufficientDriver|SystemNotReady|SystemDriverMismatch|Uncorrectable"
    r"|Initialization|OperatingSystem|StubLibrary"
)


@dataclass(frozen=True)
class Outcome:
    """How a worker ended: `ok`; `failed`, by what it ran; or `broken`, by the machine; with one line that says how."""

    status: str
    message: str
    overdue: bool = field(default=False, compare=False)  # stopped at its time limit

    def of_the_work(self, what: str) -> Outcome:
        """This outcome; raises LadderError where the machine broke the work off, which says nothing about a kernel."""
        if self.status == BROKEN:
            raise LadderError(f"{what}: {self.message}; nothing is recorded of it, so {remedy_of(self.message)}")
        return self


LEASED = 0  # the index of the GPU whose lock is held: CUDA and NVML are shown no other


@contextlib.contextmanager
def gpu_lock(uuid: str) -> Iterator[None]:
    """Hold the GPU alone: at most one process of this machine is inside for each GPU, whatever started it.

    The lock is the kernel's (flock). Workers inherit it, so that it ends when the last process that may use the GPU has
    ended, however that ended. Inside, the GPU is the only one that is visible, with the index LEASED.
    """
    with gpu_lease([uuid]):
        yield


@contextlib.contextmanager
def gpu_lease(uuids: Sequence[str], resting: Iterable[str] = ()) -> Iterator[str]:
    """Hold one of these GPUs alone, as `gpu_lock` does, the first that is free; gives its UUID.

    With `resting` no other job is on those GPUs either. Raises LadderError where there is none to choose from.
    """
    if not uuids:
        raise LadderError("no GPU is left to measure on; `nvidia-smi -L` and CUDA_VISIBLE_DEVICES say which there are")
    with contextlib.ExitStack() as stack:
        if resting:
            taken = uuids[0]
            for uuid in sorted({taken, *resting}):  # in one order, so that two jobs never wait for each other
                stack.enter_context(_held(uuid))
        else:
            taken = _first_free(uuids, stack)
        stack.enter_context(visible_alone(taken))
        yield taken


LOOK_AGAIN_S = 0.2
_locks: list[int] = []


def _first_free(uuids: Sequence[str], stack: contextlib.ExitStack) -> str:
    """Hold the lock of the first of these GPUs that is free, in this stack; waits where none is."""
    if len(uuids) == 1:
        stack.enter_context(_held(uuids[0]))
        return uuids[0]
    while True:
        for uuid in uuids:
            with contextlib.suppress(BlockingIOError):
                stack.enter_context(_held(uuid, wait=False))
                return uuid
        time.sleep(LOOK_AGAIN_S)


@contextlib.contextmanager
def _held(uuid: str, wait: bool = True) -> Iterator[None]:
    """Hold the lock of one GPU; raises BlockingIOError where it is taken and is not to be waited for."""
    path = LOCKS / f"gemm-ladder-{uuid}.lock"
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            os.chmod(path, 0o666)  # other users of the machine have to be able to wait for it
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        _locks.append(handle)
        yield
    finally:
        if handle in _locks:
            _locks.remove(handle)
        os.close(handle)


@contextlib.contextmanager
def visible_alone(uuid: str) -> Iterator[None]:
    """Show this process, and those that it starts, one GPU only."""
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = uuid
    try:
        yield
    finally:
        os.environ.pop(VISIBLE)
        if before is not None:
            os.environ[VISIBLE] = before


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
    token = secrets.token_hex(8)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, os.fdopen(read, "rb", buffering=0) as events, tempfile.TemporaryFile() as asked:
        asked.write(f"{write} {token}\n{json.dumps(request)}".encode())
        asked.seek(0)
        written = output.tell()
        process = start(
            [sys.executable, "-m", module],
            [write],
            env={"LD_BIND_NOW": "1"},  # else the linker itself changes tables of addresses, which are watched
            stdin=asked,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        os.close(write)
        said: dict[str, Any] = {}
        try:
            failure = _follow(process, token, events, on_event, time_limit_s, said)
            if failure is None and _wait(process, time_limit_s) is None:
                failure = _overdue(time_limit_s)
        finally:
            stop(process)
    return failure or _ended(process.returncode, log, written, said)


def _overdue(time_limit_s: float) -> Outcome:
    return Outcome(FAILED, f"no progress for {time_limit_s:g} s; stopped", overdue=True)


def _follow(
    process: subprocess.Popen[bytes],
    token: str,
    events: Any,
    on_event: Callable[[Event], None],
    time_limit_s: float,
    said: dict[str, Any],
) -> Outcome | None:
    """Pass on events until the worker ends; the outcome if the time limit or the worker's own word ended it.

    What it says of itself, that it has begun and that all is done, goes to `said`.
    """
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
                sender = event.pop("from")
            except (ValueError, TypeError, AttributeError, KeyError):
                return Outcome(FAILED, "something else than an event was written to the pipe of events; see the log")
            if sender != [token, process.pid]:
                return Outcome(FAILED, "another process sent events: host code must not fork the process that calls it")
            if "failure" in event:
                failure = Outcome(BROKEN if event["broken"] else FAILED, event["failure"])
            elif "said" in event:
                said[event["said"]] = True
            else:
                on_event(event)


def _wait(process: subprocess.Popen[bytes], time_limit_s: float) -> int | None:
    try:
        return process.wait(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        return None


_MUST_RETURN = "host code must return, and not exit"


def _ended(code: int, log: Path, written: int, said: Mapping[str, Any]) -> Outcome:
    """The outcome of an exit status and of what the worker said; its output begins at byte `written` of its log."""
    if code == 0 and "done" in said:
        return Outcome(OK, "")
    if -code in _SENT:
        why = ", which the system sends where memory runs out" if -code == signal.SIGKILL else ""
        return Outcome(BROKEN, f"killed by {signal.Signals(-code).name}{why}")
    text = log.read_bytes()[written:].decode(errors="replace")
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing was printed")
    status = BROKEN if code == os.EX_OSERR or "begun" not in said else FAILED
    if code < 0:
        known = {each.value: each.name for each in signal.Signals}
        return Outcome(status, f"crashed: killed by {known.get(-code, f'signal {-code}')}")
    if code == 0:
        return Outcome(status, f"ended before all was done, with exit status 0; {_MUST_RETURN}")
    return Outcome(status, f"ended with exit status {code}: {last}{f'; {_MUST_RETURN}' if status == FAILED else ''}")


@contextlib.contextmanager
def request() -> Iterator[dict[str, Any]]:
    """In the worker: the parent's request. The parent is told in one line what goes wrong, and that all is done."""
    _events()
    asked = json.load(sys.stdin)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())  # what the worker runs could read the input again
    emit(said="begun")
    try:
        yield asked
    except Exception as error:  # whatever it is, the parent needs the line and the run goes on
        fail_with(error)
    else:
        emit(said="done")


@functools.cache
def _events() -> tuple[int, str]:
    """The pipe's descriptor and the token: not from the environment, which /proc shows as it was at first."""
    handle, token = sys.stdin.readline().split()
    return int(handle), token


def emit(**event: Any) -> None:
    """In the worker: send one event to the parent."""
    handle, token = _events()
    os.write(handle, (json.dumps({"from": [token, os.getpid()], **event}) + "\n").encode())


def _judged(error: Exception) -> tuple[str, bool]:
    """What an exception was, and whether the machine is to blame, so that it says nothing about a kernel.

    A LadderError says something, and so do CUDA's errors, but those of a GPU or driver that cannot work; no other does.
    """
    text, kind = str(error), type(error).__name__
    if "OutOfMemory" in kind or "MemoryAllocation" in text:
        return f"out of GPU memory ({text}); free the GPU or take smaller sizes", True
    if isinstance(error, LadderError):
        return text, False
    return f"{kind}: {text}", "CUDA" not in kind or bool(_GPU_TROUBLE.search(text))


def fail_with(error: Exception) -> None:
    """In the worker: say in one line what an exception was, and whether it says anything about a kernel."""
    fail(*_judged(error))


# How a process that one of NVIDIA's tools watches blames its rung, and how Python says that a signal ended it.
_BLAME = "the rung: "
_BLAMED = re.compile(rf"^(?:{_BLAME}(.+)|Fatal Python error: (?!init)(.+))$", re.MULTILINE)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """In a process that one of NVIDIA's tools watches: end it with one line on what went wrong, for `blamed`."""
    faulthandler.enable()
    try:
        yield
    except Exception as error:  # whatever it is, the parent needs the line
        text, broken = _judged(error)
        sys.exit(("" if broken else _BLAME) + " ".join(text.split()))


def blamed(output: str) -> str:
    """What went wrong by the rung's fault, from what a process printed inside `watched`; empty where nothing did."""
    found = _BLAMED.search(output)
    return (found[1] or f"crashed: {found[2]}") if found else ""


def fail(message: str, broken: bool = False) -> None:
    """In the worker: say in one line why it ends, and whether the machine is to blame."""
    emit(failure=" ".join(message.split()), broken=broken)
