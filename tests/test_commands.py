"""What every command does however it is ended: no traceback, and the exit status that a shell expects."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write
from ladder.commands.session import check_folders
from ladder.system.errors import one_line
from ladder.system.terminal import exit_status
from pipeline import ROOT, environment

COMMANDS = sorted((ROOT / "workflow").glob("*.py"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_a_command_that_is_interrupted_while_it_imports_ends_without_a_word(tmp_path, command):
    shutil.copy2(command, tmp_path)
    write(tmp_path / "ladder" / "__init__.py", "raise KeyboardInterrupt\n")
    ended = subprocess.run(
        [sys.executable, tmp_path / command.name],
        env=environment(ROOT, gpu=False, PYTHONPATH=""),
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_a_command_that_is_interrupted_has_the_exit_status_of_that():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    try:
        assert exit_status("bench", lambda: signal.raise_signal(signal.SIGINT)) == 128 + signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_command_whose_reader_has_gone_ends_without_a_word_and_not_well():
    read, write_end = os.pipe()
    os.close(read)
    command = [sys.executable, ROOT / "workflow" / "trace.py", "export", "naive"]
    with os.fdopen(write_end, "wb") as output:
        ended = subprocess.run(
            command, env=environment(ROOT, gpu=False), stdout=output, stderr=subprocess.PIPE, check=False
        )
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("arguments", [["trace.py", "export", "naive"], ["doctor.py"]], ids=lambda words: words[0])
def test_a_command_whose_output_is_full_says_so_in_one_line(arguments):
    with open("/dev/full", "wb") as output:
        ended = subprocess.run(
            [sys.executable, ROOT / "workflow" / arguments[0], *arguments[1:]],
            env=environment(ROOT, gpu=False),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert "No space left on device; make room on that disk" in line


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, ROOT / "workflow" / "bench.py", "own.cu"],
        [sys.executable, "-m", "snakemake", "--cores", "1", "-n", "--config", "kernels=[naive]"],
    ],
    ids=["bench", "snakemake"],
)
def test_a_locale_that_cannot_hold_utf_8_is_one_line_that_says_what_to_set(tmp_path, command):
    write(tmp_path / "own.cu", "// größe\n" + (ROOT / "tests/kernels/sound.cu").read_text())
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        command,
        cwd=ROOT if "-m" in command else tmp_path,
        env={**environment(ROOT, gpu=False), **ascii_only},
        capture_output=True,
        check=False,
    )
    line = ended.stderr.splitlines()[-1].decode()
    assert ended.returncode == 1
    assert "in ascii; set LC_ALL=C.UTF-8" in line
    assert b"Traceback" not in ended.stderr


# Where a run writes


@pytest.fixture
def no_room():
    """Every write to a file fails, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_is_one_line_that_names_the_folder_before_snakemake_writes(tmp_path, no_room):
    with pytest.raises(OSError, match="File too large") as caught:
        check_folders(tmp_path)
    assert one_line(caught.value).startswith(f"{tmp_path}/.snakemake: File too large; ")


def test_a_folder_that_cannot_be_made_is_one_line_that_names_it(tmp_path):
    write(tmp_path / ".snakemake", "a file\n")
    with pytest.raises(FileExistsError) as caught:
        check_folders(tmp_path)
    assert one_line(caught.value).startswith(f"{tmp_path}/.snakemake: File exists; ")


@pytest.mark.parametrize("writable", [True, False])
def test_caches_are_kept_in_the_project_where_the_users_folder_of_caches_cannot_be_written_to(
    tmp_path, monkeypatch, writable
):
    home = write(tmp_path / "file", "no folder\n") if not writable else tmp_path / "home"
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(home / "caches")})
    check_folders(tmp_path)
    expected = home / "caches" if writable else tmp_path / ".snakemake" / "cache"
    assert Path(os.environ["XDG_CACHE_HOME"]) == expected
    assert ("MPLCONFIGDIR" in os.environ) != writable
