"""Worker processes: whatever one does, the pipeline gets one outcome in time; and the lock that keeps a GPU to one."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import line_of
from ladder.system.process import LOCKS, Outcome, _die_with, blamed, gpu_lock, run_worker

WORKFLOW = Path(__file__).resolve().parents[1] / "workflow"
PROMPTLY = 10.0  # seconds that are more than enough for any of these workers


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Runs a worker that does this with its request; gives its outcome, its events and its log."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(source: str, request=None, time_limit_s: float = PROMPTLY, on_event=None):
        head = "import os, sys, time\nfrom ladder.system import process as worker\nwith worker.request() as asked:\n"
        (tmp_path / "a_worker.py").write_text(head + textwrap.indent(source + "pass\n", "    "))
        events, log = [], tmp_path / "logs/worker.log"
        outcome = run_worker("a_worker", request or {}, on_event or events.append, time_limit_s, log)
        return outcome, events, log.read_text()

    return run


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def soon(condition) -> bool:
    """Whether the condition comes true within seconds."""
    deadline = time.monotonic() + PROMPTLY
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_a_library_that_a_worker_loads_has_all_its_addresses_at_once(work, tmp_path):
    source, library = tmp_path / "lazy.c", tmp_path / "lazy.so"
    source.write_text("int missing(void); int called(void) { return missing(); }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,lazy", "-o", library, source], check=True)
    load = "import ctypes\nopen_ = ctypes.CDLL(None).dlopen\nopen_.restype = ctypes.c_void_p\n"
    load += f"worker.emit(loaded=bool(open_({str(library).encode()!r}, os.RTLD_LAZY)))\n"
    assert work(load)[1] == [{"loaded": False}]
    at_leisure = [
        sys.executable,
        "-c",
        load.replace("worker.emit(loaded=", "print(").replace("import", "import os,", 1),
    ]
    assert subprocess.run(at_leisure, capture_output=True, text=True, check=True).stdout == "True\n"


def test_events_pass_in_their_order_and_the_request_arrives(work):
    source = "for n in range(asked['n']):\n    worker.emit(n=n, text='µ\\n')\n"
    outcome, events, _ = work(source, {"n": 3})
    assert outcome == Outcome("ok", "")
    assert events == [{"n": n, "text": "µ\n"} for n in range(3)]


def test_an_event_larger_than_a_pipe_arrives_whole(work):
    outcome, events, _ = work("worker.emit(text='x' * 300000)\nworker.emit(done=True)\n")
    assert outcome.status == "ok"
    assert [len(events[0]["text"]), events[1]] == [300000, {"done": True}]


def test_what_a_worker_prints_goes_to_the_log_behind_what_stood_there(work, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/worker.log").write_text("earlier\n")
    _, events, log = work("print('to stdout')\nprint('to stderr', file=sys.stderr)\nos.system('echo from a child')\n")
    assert log == "earlier\nto stdout\nto stderr\nfrom a child\n"
    assert events == []


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_crash_is_named_by_its_signal_and_keeps_the_events_before_it(work, name):
    outcome, events, _ = work(f"import signal\nworker.emit(n=1)\nos.kill(os.getpid(), signal.{name})\n")
    assert outcome == Outcome("failed", f"crashed: killed by {name}")
    assert events == [{"n": 1}]


LIES = {
    "exits": "sys.exit(0)",
    "exits at once": "os._exit(0)",
    "is another program": "os.execv('/bin/true', ['true'])",
    "is two processes": "os.fork() and os.wait() or worker.emit(n=2)",
    "goes on as a child": "os.fork() and time.sleep(1) or os._exit(0)",
    "goes on as a child alone": "os.fork() and os._exit(0)\nworker.emit(n=2)",
    "closes its files": "os.closerange(3, 100)\nworker.emit(n=2)",
    "writes events": r"""os.write(worker._events()[0], b'{"n": 2}\n{"said": "done"}\n'); os._exit(0)""",
    "writes no event": "os.write(worker._events()[0], b'7\\n')",
}


@pytest.mark.parametrize("source", LIES.values(), ids=LIES)
def test_only_a_worker_that_says_itself_that_all_is_done_ends_well(work, source):
    outcome, events, _ = work(f"worker.emit(n=1)\n{source}\n")
    assert (outcome.status, events[:1]) == ("failed", [{"n": 1}])
    assert {"n": 2} not in events


def test_what_a_worker_runs_finds_neither_its_request_nor_its_token_in_proc(work):
    source = "seen = b''.join(open(f'/proc/self/{name}', 'rb').read() for name in ('environ', 'cmdline', 'fd/0'))\n"
    source += "worker.emit(seen=[text.encode() in seen for text in (worker._events()[1], asked['text'])])\n"
    assert work(source, {"text": "secret"})[1] == [{"seen": [False, False]}]


def test_what_a_worker_prints_is_no_event(work):
    outcome, events, _ = work('print(\'{"n": 1}\', flush=True)\nos.write(2, b\'{"said": "done"}\\n\')\n')
    assert (outcome.status, events) == ("ok", [])


BREAKS = {
    "killed": "import signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "asked to end": "import signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "no memory": "raise MemoryError",
    "no disk": "raise OSError(28, 'No space left on device')",
    "no process": "raise BlockingIOError(11, 'Resource temporarily unavailable')",
    "no module": "import no_such_module",
    "EX_OSERR": "os._exit(71)",
    "no device": "class CUDARuntimeError(RuntimeError): pass\nraise CUDARuntimeError('cudaErrorNoDevice: none')",
    "no GPU memory": "class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('1 GiB')",
}


@pytest.mark.parametrize("source", BREAKS.values(), ids=BREAKS)
def test_what_the_machine_did_is_told_apart_and_is_an_error_and_no_verdict(work, source):
    outcome, _, _ = work(f"worker.emit(n=1)\n{source}\n")
    assert outcome.status == "broken"
    told = line_of(outcome.of_the_work, "check: naive")
    assert told.startswith("check: naive: ")
    assert told.endswith("run again")


FAULTS = {
    "a refusal": "from ladder.system.errors import LadderError\nraise LadderError('sgemm refuses 7')",
    "a trap": "class CUDARuntimeError(RuntimeError): pass\nraise CUDARuntimeError('cudaErrorIllegalAddress')",
}


@pytest.mark.parametrize("source", FAULTS.values(), ids=FAULTS)
def test_what_a_kernel_did_is_a_failure(work, source):
    outcome, _, _ = work(f"{source}\n")
    assert outcome.status == "failed"
    assert outcome.of_the_work("check: naive") is outcome


@pytest.fixture
def watch():
    """What a watched process that does this is blamed for."""

    def run(source: str) -> str:
        head = "import os\nfrom ladder.system.process import watched\nwith watched():\n"
        command = [sys.executable, "-c", head + textwrap.indent(source, "    ")]
        ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(WORKFLOW)})
        assert ended.returncode != 0
        return blamed(ended.stderr)

    return run


@pytest.mark.parametrize("source", BREAKS.values(), ids=BREAKS)
def test_a_watched_process_does_not_blame_its_rung_for_what_the_machine_did(watch, source):
    assert watch(source) == ""


@pytest.mark.parametrize("source", [*FAULTS.values(), "os.kill(os.getpid(), 11)"], ids=[*FAULTS, "a crash"])
def test_a_watched_process_blames_its_rung_for_what_that_did(watch, source):
    assert watch(source)


def test_an_exit_status_is_told_with_the_last_line_printed(work):
    outcome, _, _ = work("print('first')\nprint('the reason ')\nprint()\nsys.exit(3)\n")
    assert outcome == Outcome("failed", "ended with exit status 3: the reason; host code must return, and not exit")


def test_an_exit_status_without_a_word_is_told(work):
    assert work("sys.exit(3)\n")[0] == Outcome(
        "failed", "ended with exit status 3: nothing was printed; host code must return, and not exit"
    )


def test_a_worker_that_does_not_begin_is_told_in_its_last_line_and_traced_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "early.py").write_text("raise ValueError('a bad value')\n")
    outcome = run_worker("early", {}, print, PROMPTLY, tmp_path / "log")
    assert outcome == Outcome("broken", "ended with exit status 1: ValueError: a bad value")
    assert "Traceback" in (tmp_path / "log").read_text()


def test_a_module_that_does_not_exist_is_told(tmp_path):
    outcome = run_worker("ladder.no_such_worker", {}, print, PROMPTLY, tmp_path / "log")
    assert outcome.status == "broken"
    assert outcome.message.endswith("No module named ladder.no_such_worker")


@pytest.mark.parametrize("code", [0, 1])
def test_a_workers_own_word_is_the_outcome_on_one_line(work, code):
    outcome, events, _ = work(f"worker.emit(n=1)\nworker.fail('out of\\n  memory')\nsys.exit({code})\n")
    assert outcome == Outcome("failed", "out of memory")
    assert events == [{"n": 1}]


def test_a_worker_that_reads_no_request_is_not_waited_for(tmp_path):
    assert run_worker("this", {"text": "x" * 300000}, print, PROMPTLY, tmp_path / "log").status == "broken"


HANGS = {
    "silent": "time.sleep(60)\n",
    "after an event": "worker.emit(n=1)\ntime.sleep(60)\n",
    "with the pipe closed": "os.close(worker._events()[0])\ntime.sleep(60)\n",
    "deaf to signals": "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n",
}


@pytest.mark.parametrize("source", HANGS.values(), ids=HANGS)
def test_a_worker_without_progress_is_stopped_at_the_limit(work, source):
    started = time.monotonic()
    outcome, _, _ = work(source, time_limit_s=0.6)
    assert outcome == Outcome("failed", "no progress for 0.6 s; stopped")
    assert 0.6 <= time.monotonic() - started < 5


def test_the_limit_is_between_events_and_not_over_all_of_them(work):
    outcome, events, _ = work("for n in range(6):\n    worker.emit(n=n)\n    time.sleep(0.3)\n", time_limit_s=1.2)
    assert outcome == Outcome("ok", "")
    assert len(events) == 6


CHILD = "import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nworker.emit(pids=[os.getpid(), child.pid])\n"


@pytest.mark.parametrize("end", ["time.sleep(60)", "sys.exit(0)", "os.abort()"], ids=["hang", "exit", "crash"])
def test_nothing_of_a_worker_outlives_it(work, end):
    _, events, _ = work(CHILD + end + "\n", time_limit_s=1)
    assert all(soon(lambda pid=pid: ended(pid)) for pid in events[0]["pids"])


def test_an_error_in_the_parent_stops_the_worker(work):
    pids = []

    def refuse(event):
        pids.extend(event["pids"])
        raise KeyError("unexpected")

    with pytest.raises(KeyError):
        work(CHILD + "time.sleep(60)\n", on_event=refuse)
    assert all(soon(lambda pid=pid: ended(pid)) for pid in pids)
    assert len(pids) == 2


def test_a_worker_sees_the_package_and_the_callers_own_path(work):
    source = "import ladder, a_helper\nworker.emit(file=ladder.__file__, helper=a_helper.__name__)\n"
    (Path(os.environ["PYTHONPATH"]) / "a_helper.py").write_text("")
    _, events, _ = work(source)
    assert events == [{"file": str(WORKFLOW / "ladder/__init__.py"), "helper": "a_helper"}]


def test_a_process_whose_parent_died_before_it_began_does_not_begin():
    command = [sys.executable, "-c", "print('began')"]
    child = subprocess.run(command, preexec_fn=lambda: _die_with(os.getpid()), capture_output=True, check=False)
    assert (child.returncode, child.stdout) == (-signal.SIGKILL, b"")
    parent = os.getpid()
    child = subprocess.run(command, preexec_fn=lambda: _die_with(parent), capture_output=True, check=False)
    assert (child.returncode, child.stdout) == (0, b"began\n")


# The lock


HOLDER = """
import sys, time
from ladder.system.process import LOCKS, gpu_lock
print("waits", flush=True)
with gpu_lock(sys.argv[1]):
    print("holds", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Starts processes that want a GPU's lock; all of them see the same, empty folder of temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(WORKFLOW))
    started = []

    def start(uuid: str, seconds: float) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, uuid, str(seconds)], stdout=subprocess.PIPE, bufsize=0
        )
        started.append(process)
        assert next_line(process, PROMPTLY) == "waits"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def next_line(process: subprocess.Popen, seconds: float) -> str | None:
    """The next line that the process prints, or None if it prints none in time."""
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().decode().strip() if ready else None


def test_a_gpus_lock_excludes_another_process_until_it_is_given_back(holder):
    first = holder("GPU-1", 1.0)
    assert next_line(first, PROMPTLY) == "holds"
    second = holder("GPU-1", 0)
    assert next_line(second, 0.3) is None
    assert next_line(second, PROMPTLY) == "holds"
    assert first.wait(PROMPTLY) == 0


def test_a_holder_that_is_killed_holds_no_lock(holder):
    first = holder("GPU-1", 60)
    assert next_line(first, PROMPTLY) == "holds"
    second = holder("GPU-1", 0)
    assert next_line(second, 0.3) is None
    first.send_signal(signal.SIGKILL)
    assert next_line(second, PROMPTLY) == "holds"


def test_another_gpu_is_free(holder):
    assert next_line(holder("GPU-1", 60), PROMPTLY) == "holds"
    assert next_line(holder("GPU-2", 0), PROMPTLY) == "holds"


def test_the_lock_is_given_back_when_its_holder_fails(holder):
    with pytest.raises(KeyError), gpu_lock("GPU-1"):
        raise KeyError("unexpected")
    assert next_line(holder("GPU-1", 0), PROMPTLY) == "holds"


def test_the_lock_is_open_to_other_users(holder, tmp_path):
    with gpu_lock("GPU-1"):
        assert (LOCKS / "gemm-ladder-GPU-1.lock").stat().st_mode & 0o666 == 0o666


def test_events_are_json_lines(work):
    _, events, _ = work("worker.emit(values=[1, None, 'x'], nested={'a': 1.5})\n")
    assert json.loads(json.dumps(events)) == [{"values": [1, None, "x"], "nested": {"a": 1.5}}]
