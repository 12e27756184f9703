"""The locks of a run: one run at a time in a folder, and none beside the jobs of one that was killed."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import line_of
from ladder.system.locks import run_alone
from pipeline import ROOT, environment

RUN = """
    import subprocess, sys
    from pathlib import Path
    from ladder.system.locks import hold_as_job, run_alone

    run_alone(Path("locks"), print)
    job = "from pathlib import Path; from ladder.system.locks import hold_as_job; hold_as_job(Path('locks'));"
    subprocess.run([sys.executable, "-c", job + "print('at work', flush=True); input()"])
"""


@pytest.fixture
def run(tmp_path):
    """A process that holds a folder's lock, and waits for a job, which ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUN)],
        cwd=tmp_path,
        env=environment(ROOT, gpu=False, PYTHONPATH=str(ROOT / "workflow")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "at work\n"
    yield process
    process.stdin.close()
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_run_beside_one_that_is_alive_is_refused_in_one_line(run, tmp_path):
    assert "another run is at work" in line_of(run_alone, tmp_path / "locks", pytest.fail)


def test_the_jobs_of_a_run_that_was_killed_are_waited_for(run, tmp_path):
    run.send_signal(signal.SIGKILL)
    run.wait()
    waits = []

    def wait() -> None:
        waits.append(True)
        run.stdin.close()  # which ends the job

    run_alone(tmp_path / "locks", wait)
    assert waits == [True]
    assert not run.stdout.read(), "the job had not ended"


def test_a_run_that_ended_with_its_jobs_is_not_waited_for(run, tmp_path):
    run.communicate("\n")
    run_alone(tmp_path / "locks", pytest.fail)


def test_a_job_that_no_run_began_needs_no_lock(tmp_path):
    code = "from pathlib import Path; from ladder.system.locks import hold_as_job; hold_as_job(Path('none'))"
    variables = environment(ROOT, gpu=False, PYTHONPATH=str(ROOT / "workflow"))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, check=True)
    assert not Path(tmp_path / "none").exists()
