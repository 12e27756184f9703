"""What a run shows: a live line and colours on a terminal, plain lines in a log, less or more where asked."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections import Counter
from types import SimpleNamespace

import pytest
from ladder.system import terminal
from ladder.system.errors import LadderError
from pipeline import ROOT, command, copy_project, environment
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_ladder import LogHandler
from snakemake_logger_plugin_ladder.board import Board, State, clock, remember, remembered, seconds_left

LIBRARY = "build/h100-sxm/rungs/empty"  # the cheapest thing that has a line of its own


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Ticks:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def record(event: str | None, message: str = "", level: int = logging.INFO, **values) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", level, "", 0, message, (), None)
    vars(made).update(event=LogEvent(event) if event else None, **values)
    return made


def started(jobid: int, rule: str, **wildcards: str) -> logging.LogRecord:
    resources = {"gpu": 1} if rule == "time" else {}
    return record("job_info", jobid=jobid, rule_name=rule, wildcards=wildcards, resources=resources)


def a_board(stream, memory) -> tuple[Board, Ticks]:
    ticks = Ticks()
    board = Board(stream, memory, now=ticks)
    board.follow(record("run_info", stats={"compile": 4, "check": 2, "total": 6}))
    board.follow(record("resources_info", cores=2))
    return board, ticks


# How long, and how long still


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (725, "12:05"), (3723, "1:02:03")])
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text


def test_nothing_is_said_of_what_is_left_before_anything_is_known():
    assert seconds_left({"compile": 4}, [], {}, 2) is None


def test_what_is_left_is_the_work_over_what_runs_at_once():
    assert seconds_left({"compile": 4}, [], {"compile": 10.0}, 2) == 20
    assert seconds_left({"compile": 4}, [("compile", 4.0)], {"compile": 10.0}, 2) == 23
    assert seconds_left({}, [("compile", 14.0)], {"compile": 10.0}, 2) == 0


def test_jobs_that_need_the_gpu_are_counted_one_after_another():
    typical = {"compile": 10.0, "time": 30.0}
    assert seconds_left({"compile": 2, "time": 3}, [], typical, 4, ["time"]) == 90
    assert seconds_left({"compile": 40, "time": 3}, [], typical, 4, ["time"]) == (400 + 90) / 4


def test_a_rule_of_which_nothing_is_known_counts_as_the_mean_of_the_others():
    assert seconds_left({"tables": 1}, [], {"compile": 10.0, "check": 20.0}, 1) == 15


def test_this_run_knows_better_than_an_earlier_one():
    state = State(0.0, took={"compile": [1.0, 2.0, 9.0]}, earlier={"compile": 50.0, "check": 4.0})
    assert state.typical == {"compile": 2.0, "check": 4.0}


def test_a_line_is_never_wider_than_the_terminal():
    state = State(0.0, Counter(compile=9), Counter(compile=3), {1: ("compile", "conflict_free@LAYOUT=1", 0.0)})
    for width in (1, 10, 40, 200):
        assert len(state.live(5.0, width)) < width
    assert state.live(5.0, 200).startswith("[########----------------] 3/9 steps, 0:05 gone")
    assert state.live(5.0, 200).endswith("compile conflict_free@LAYOUT=1")


# The board


def test_a_log_gets_a_plain_line_now_and_then(tmp_path):
    log = io.StringIO()
    board, ticks = a_board(log, tmp_path / "durations.json")
    for job in range(4):
        board.follow(started(job, "compile", kernel="naive"))
        ticks.now += 12
        board.follow(record("job_finished", job_id=job))
    board.close()
    assert log.getvalue() == "[3/6 steps, 0:36 gone, about 0:18 left]\n4 of 6 steps in 0:48\n"


def test_a_terminal_gets_a_live_line_that_makes_room_for_others(tmp_path):
    terminal = Terminal()
    board, ticks = a_board(terminal, tmp_path / "durations.json")
    board.follow(started(1, "compile", kernel="naive"))
    assert terminal.getvalue().endswith("\r\x1b[K[------------------------] 0/6 steps, 0:00 gone  compile naive")
    board.write_above("something else\n")
    assert terminal.getvalue().endswith("compile naive\r\x1b[Ksomething else\n")
    ticks.now += 10
    board.follow(record("job_finished", job_id=1))
    assert terminal.getvalue().endswith("\r\x1b[K[####--------------------] 1/6 steps, 0:10 gone, about 0:25 left")
    board.close()
    assert terminal.getvalue().endswith("left\r\x1b[K1 of 6 steps in 0:10\n")


def test_a_run_that_did_nothing_says_nothing(tmp_path):
    log = io.StringIO()
    board, _ = a_board(log, tmp_path / "durations.json")
    board.close()
    assert log.getvalue() == ""
    assert not (tmp_path / "durations.json").exists()


def test_what_jobs_took_is_known_to_the_next_run(tmp_path):
    memory = tmp_path / "build/durations.json"
    remember(memory, {"check": 5.0})
    board, ticks = a_board(io.StringIO(), memory)
    board.follow(started(1, "compile"))
    ticks.now += 7
    board.follow(record("job_finished", job_id=1))
    board.close()
    assert remembered(memory) == {"check": 5.0, "compile": 7.0}


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"compile": "soon"}'])
def test_a_damaged_memory_counts_for_nothing(tmp_path, text):
    (tmp_path / "durations.json").write_text(text)
    assert remembered(tmp_path / "durations.json") == {}


def test_rules_that_take_the_gpu_are_known_by_their_resources(tmp_path):
    board, _ = a_board(io.StringIO(), tmp_path / "durations.json")
    board.follow(started(1, "compile"))
    board.follow(started(2, "time"))
    assert board.state.alone == {"time"}


# The plugin


def a_failed_script() -> logging.LogRecord:
    return record("error", "CalledProcessError in file a.smk, line 9", logging.ERROR, exception="CalledProcessError")


INSTALLED = {}  # what a handler installed, by the number of the signal


def a_handler(monkeypatch, tmp_path, *quiet: str, **settings) -> tuple[LogHandler, io.StringIO]:
    """The handler as Snakemake makes it, and what it writes to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    monkeypatch.setattr("signal.getsignal", lambda number: signal.default_int_handler)
    monkeypatch.setattr("signal.signal", INSTALLED.__setitem__)
    common = {
        "quiet": {Quietness[name] for name in quiet},
        "verbose": False,
        "dryrun": False,
        "stdout": False,
        "nocolor": False,
    }
    handler = LogHandler(SimpleNamespace(**(common | settings)), None)
    return handler, handler.stream


@pytest.mark.parametrize(
    ("quiet", "settings", "ours"),
    [
        (["RULES"], {}, True),
        (["ALL"], {}, True),
        (["HOST"], {}, False),
        ([], {}, False),
        (["RULES"], {"dryrun": True}, False),
        (["RULES"], {"verbose": True}, False),
    ],
)
def test_snakemakes_own_words_are_shown_where_the_user_wants_them(monkeypatch, tmp_path, quiet, settings, ours):
    handler, stream = a_handler(monkeypatch, tmp_path, *quiet, **settings)
    assert handler.has_filter is ours
    handler.emit(record(None, "Select jobs to execute..."))
    assert ("Select jobs" in stream.getvalue()) is not ours


def test_warnings_and_errors_of_snakemake_are_shown(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "ALL")
    handler.emit(record(None, "the disk is full", logging.WARNING))
    handler.emit(record("error", "no such file", logging.ERROR, exception="MissingInputException"))
    handler.close()
    assert stream.getvalue() == "the disk is full\nno such file\n"


def test_that_a_failed_job_had_no_earlier_output_is_no_warning_for_the_user(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    handler.emit(record(None, "whatever Snakemake calls it", logging.WARNING, funcName="restore_output"))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("word", ["target", "tables", "result/x.csv"])
def test_a_target_that_nothing_makes_is_named_whatever_snakemake_says_of_it(monkeypatch, tmp_path, word):
    monkeypatch.setattr("sys.argv", ["snakemake", "--quiet", "figures", word])
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    text = f"Nobody makes {word} today\n(a hint)"
    handler.emit(record("error", text, logging.ERROR, exception="MissingRuleException"))
    handler.close()
    assert stream.getvalue().startswith(f"gemm-ladder: {word}: nothing makes it; ")
    assert stream.getvalue().count("\n") == 1


AGAIN = "nothing is recorded of it, so run again"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("job '7' is in state TIMEOUT", f"Slurm job 7: out of time; raise its runtime in the profile; {AGAIN}"),
        ("status: 'OUT_OF_MEMORY'", f"Slurm job 7: out of memory; raise its mem_mb in the profile; {AGAIN}"),
        ("lost\nin space", "job 7 of the batch system failed, and nothing is recorded of it: lost in space"),
    ],
)
def test_why_a_batch_system_ended_a_job_is_one_line_with_the_jobs_number(monkeypatch, tmp_path, reason, told):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    failed = {"log": ["log"], "rule_name": "time", "rule_msg": reason, "aux": {"external_jobid": "7"}}
    handler.emit(record("job_error", "", logging.ERROR, **failed))
    handler.close()
    assert stream.getvalue() == f"gemm-ladder: time: {told}; see log\n"


def test_a_run_without_a_job_says_so(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    handler.emit(record("workflow_started"))
    handler.close()
    assert stream.getvalue() == "", "a run that was refused before any job has not found all up to date"
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    handler.emit(record("workflow_started"))
    handler.emit(record(None, "Nothing to be done (all requested files are present and up to date)."))
    handler.close()
    assert stream.getvalue().startswith("Nothing to be done: ")
    assert stream.getvalue().count("\n") == 1


def test_a_run_that_the_user_interrupts_says_so_in_one_line_and_calls_no_job_failed(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    with pytest.raises(KeyboardInterrupt):
        INSTALLED[signal.SIGINT](signal.SIGINT, None)
    handler.emit(a_failed_script())
    handler.emit(record("job_error", "", logging.ERROR, log=["log"], rule_name="time"))
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    handler.close()
    handler.close()
    assert stream.getvalue() == "gemm-ladder: interrupted; nothing that was recorded is lost, run again to go on\n"


def test_what_ends_a_run_otherwise_keeps_its_traceback(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    sys.excepthook(ValueError, ValueError("odd"), None)
    handler.close()
    assert stream.getvalue() == "ValueError: odd\n"


@pytest.mark.parametrize("told", [True, False])
def test_a_job_that_said_what_failed_is_not_told_of_again(monkeypatch, tmp_path, told):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    (tmp_path / "log").write_text("gemm-ladder: no such size\n" if told else "killed\n")
    handler.emit(a_failed_script())
    handler.emit(record("job_error", "", logging.ERROR, log=["log"], rule_name="time"))
    handler.close()
    shown = "CalledProcessError in file a.smk, line 9\ngemm-ladder: time: the job failed; see log\n"
    assert stream.getvalue() == ("" if told else shown)


def test_a_job_that_a_signal_killed_is_one_line(monkeypatch, tmp_path):
    handler, stream = a_handler(monkeypatch, tmp_path, "RULES")
    died = subprocess.CalledProcessError(-signal.SIGKILL, "python a.py")
    told = f"RuleException:\nCalledProcessError in file a.smk, line 9\n{died}"
    handler.emit(record("error", told, logging.ERROR, exception="CalledProcessError"))
    handler.emit(record("job_error", "", logging.ERROR, log=["logs/naive.log"], rule_name="emulate"))
    handler.close()
    killed = "gemm-ladder: emulate: killed by SIGKILL; nothing is recorded of it, so run again; see logs/naive.log\n"
    assert stream.getvalue() == killed


# The stages' own lines


def test_a_status_has_a_colour_on_a_terminal_alone(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    assert terminal.colored("ok") == "\x1b[32mok\x1b[0m"
    assert terminal.colored("failed") == "\x1b[31mfailed\x1b[0m"
    assert terminal.colored("needs a GPU") == "needs a GPU"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.colored("ok") == "ok"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert terminal.colored("ok") == "ok"


def a_script(tmp_path) -> SimpleNamespace:
    """What Snakemake gives to the script of a rule, as far as `terminal.job` reads it."""
    given = {"log": [str(tmp_path / "log")], "wildcards": {"kernel": "naive"}, "rule": "time"}
    return SimpleNamespace(**given, config={"quiet": False})


def test_an_error_is_one_line_and_an_interruption_none(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended, terminal.job(a_script(tmp_path)):
        raise LadderError("gpu: 'x' is none; name another")
    assert ended.value.code == 1
    assert capsys.readouterr().err == (tmp_path / "log").read_text() == "gemm-ladder: gpu: 'x' is none; name another\n"
    with pytest.raises(SystemExit) as ended, terminal.job(a_script(tmp_path)):
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


def test_an_exception_is_one_line_and_its_traceback_is_in_the_log(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended, terminal.job(a_script(tmp_path)):
        raise KeyError("m")
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("gemm-ladder: time: KeyError: 'm'; ")
    assert said.count("\n") == 1
    assert "Traceback" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (OSError(28, "No space", "build/library.so"), "build/library.so: No space left on device; make room"),
        (PermissionError(13, "no", "results/raw"), "results/raw: Permission denied; "),
        (FileNotFoundError(2, "no", "nm"), "nm: No such file or directory; install"),
        (MemoryError(), "out of memory; "),
        (ModuleNotFoundError("no", name="pandas"), "pandas"),
        (
            subprocess.CalledProcessError(1, ["nm", "x"], stderr="first\nnm: bad\n"),
            "nm: ended with exit status 1: nm: bad",
        ),
        (
            UnicodeEncodeError("ascii", "größe.cu", 2, 3, "no"),
            "'gr\\xf6\\xdfe.cu': cannot be said in ascii; set LC_ALL",
        ),
    ],
)
@pytest.mark.parametrize("log", ["log", "no/folder/log"])
def test_what_the_machine_refuses_is_one_line_and_not_our_fault(tmp_path, capsys, error, named, log):
    snakemake = a_script(tmp_path)
    snakemake.log = [str(tmp_path / log)]
    with pytest.raises(SystemExit) as ended, terminal.job(snakemake):
        raise error
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("gemm-ladder: time: ")
    assert named in said
    assert said.count("\n") == 1
    assert "fault" not in said
    assert log != "log" or (tmp_path / log).read_text() == said


BREAKAGES = {
    "jinja2": "raise ImportError('libx.so: cannot open shared object file')",
    "matplotlib": "raise ModuleNotFoundError('No module named x', name='x')",
    "numpy": "x = = 1",
    "pandas": "raise ValueError('numpy.dtype size changed')",
    "pynvml": "not_there",
    "yaml": "from json import not_there",
}


@pytest.mark.parametrize("script", sorted((ROOT / "workflow/scripts").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_script_raises_while_it_imports_is_one_line(tmp_path, script):
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for package, text in BREAKAGES.items():
        (packages / f"{package}.py").write_text(text + "\n")
    given = {"rule": "some", "log": ["log"], "wildcards": {}, "config": {"quiet": False}}
    preamble = f"from types import SimpleNamespace\nsnakemake = SimpleNamespace(**{given})\n"
    (tmp_path / "script.py").write_text(preamble + script.read_text())
    variables = environment(tmp_path, False, PYTHONPATH=os.pathsep.join([str(packages), str(ROOT / "workflow")]))
    run = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("gemm-ladder: some: ")
    assert run.stderr.count("\n") == 1
    assert (tmp_path / "log").read_text().endswith(run.stderr)
    assert any(name in run.stderr for name in BREAKAGES) or "no attribute 'params'" in run.stderr


def refused():
    raise PermissionError(13, "no", ".snakemake")


def test_what_the_machine_refuses_before_any_job_is_one_line_and_a_fault_of_ours_is_not_hidden():
    with pytest.raises(SystemExit) as ended, terminal.told():
        refused()
    assert ended.value.code.startswith("gemm-ladder: .snakemake: Permission denied; ")
    with pytest.raises(KeyError), terminal.told():
        raise KeyError("m")


def test_a_command_that_the_machine_refuses_ends_with_one_line_and_a_fault_of_ours_is_not_hidden(capsys):
    assert terminal.exit_status("bench", lambda: None) == 0
    assert terminal.exit_status("bench", refused) == 1
    assert capsys.readouterr().err.startswith("bench: .snakemake: Permission denied; ")
    with pytest.raises(KeyError):
        terminal.exit_status("bench", lambda: {}["m"])


@pytest.mark.parametrize("quiet", [True, False])
def test_the_lines_of_a_stage_name_it_and_the_rung(tmp_path, capsys, quiet):
    snakemake = a_script(tmp_path)
    snakemake.config["quiet"] = quiet
    with terminal.job(snakemake) as progress:
        progress("4096  (1/2 sizes)")
    assert capsys.readouterr().err == ("" if quiet else "[time] naive  4096  (1/2 sizes)\n")


def test_the_quick_start_shows_lines_as_they_are_printed():
    (block,) = re.findall(r"-->\n```\n(\[.*?)```", (ROOT / "docs/quick-start.md").read_text(), re.DOTALL)
    clocks = r"\d+(:\d\d)+"
    steps = re.compile(rf"\[\d+/\d+ steps, {clocks} gone, about {clocks} left\]")
    stage = re.compile(r"\[\w+\] \S+  \w+  .*  \d+\.\d s")
    lines = block.splitlines()
    assert all(steps.fullmatch(line) or stage.fullmatch(line) for line in lines)
    state = State(0.0, Counter(compile=65), Counter(compile=34), earlier={"compile": 4.2})
    assert any(steps.fullmatch(line) for line in lines)
    assert steps.fullmatch(f"[{state.line(185.0)}]")


# Runs


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project."""
    return copy_project(tmp_path_factory.mktemp("progress") / "project")


def on_terminal(folder, *arguments: str) -> bytes:
    """What a run prints on a terminal of 100 columns."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    variables = environment(folder, False, TERM="xterm")
    variables.pop("NO_COLOR", None)
    process = subprocess.Popen(
        command([], arguments), cwd=folder, env=variables, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    said = b""
    try:
        while part := os.read(master, 4096):
            said += part
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait() == 0, said.decode()
    return said


def in_a_log(folder, *arguments: str) -> str:
    """What a run writes into a plain file."""
    log = folder / "run.log"
    with log.open("wb") as file:
        variables = environment(folder, False)
        subprocess.run(
            command([], arguments), cwd=folder, env=variables, stdout=file, stderr=subprocess.STDOUT, check=True
        )
    return log.read_text()


def test_a_terminal_shows_a_live_line_and_colours(project):
    said = on_terminal(project, LIBRARY, "--force")
    assert re.search(rb"\r\x1b\[K\[-+\] 0/1 steps, 0:0\d gone  compile empty", said)
    assert re.search(rb"\r\x1b\[K\[compile\] empty  \x1b\[32mok\x1b\[0m  sm_90a  \d+\.\d s\r\n", said)
    assert re.search(rb"1 of 1 steps in \d:\d\d\r\n$", said)
    assert b"Select jobs" not in said
    drawn = [line for line in re.split(rb"\r\n|\r\x1b\[K", said) if b" steps, " in line]
    assert max(map(len, drawn)) < 100
    assert json.loads((project / "build/durations.json").read_text())["compile"] > 0


def test_a_log_has_plain_lines_and_nothing_else(project):
    said = in_a_log(project, LIBRARY, "--force")
    assert "\x1b" not in said
    assert "\r" not in said
    assert re.search(r"^\[compile\] empty  ok  sm_90a  \d+\.\d s$", said, re.MULTILINE)
    assert re.search(r"^1 of 1 steps in \d:\d\d$", said, re.MULTILINE)
    assert "Select jobs" not in said


def test_a_quiet_run_says_what_it_shows_and_no_more(project):
    said = in_a_log(project, LIBRARY, "--force", "--quiet")
    assert "gemm-ladder: no GPU is measured" in said
    assert "compile" not in said
    assert "steps" not in said


def test_a_verbose_run_says_what_snakemake_says(project):
    said = in_a_log(project, LIBRARY, "--force", "--quiet", "host")
    assert "rule compile:" in said
    assert "reason: Forced execution" in said
    assert "1 of 1 steps (100%) done" in said
