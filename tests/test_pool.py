"""Several GPUs of one machine: each job takes one that is free, two are never on one, and records say which it was."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import a_device, line_of
from ladder.measure import pool
from ladder.records import store
from ladder.records.timings import read_time_record
from ladder.system import nvml
from ladder.system.process import gpu_lease, gpu_lock
from pipeline import (
    FEW,
    FEW_RUNGS,
    H100,
    H200,
    RECORDED,
    a_machine,
    copied,
    finished_run,
    snakemake,
    started,
    wait_for,
    with_stand_ins,
)

UUIDS = [f"GPU-{digit * 8}-{os.getpid()}" for digit in "abc"]  # of no other session, whose locks would be waited for
FIRST, SECOND, OTHER = UUIDS
BOTH = f"{FIRST[:12]}+{SECOND[:12]}"
MEASURED = f"results/{RECORDED}/devices/{BOTH}/raw"
NOT_MEASURED = ["profile={enabled: false}", "sustained={enabled: false}"]


# The lease


def test_a_lease_takes_the_gpu_that_is_free_and_shows_no_other(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with gpu_lease(UUIDS) as first, gpu_lease(UUIDS) as second:
        assert [first, second] == UUIDS[:2]
        assert os.environ["CUDA_VISIBLE_DEVICES"] == second
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_lease_that_fails_gives_its_gpu_back():
    with pytest.raises(KeyError), gpu_lease(UUIDS):
        raise KeyError
    with gpu_lease(UUIDS) as taken:
        assert taken == FIRST


def test_without_a_gpu_there_is_no_lease():
    assert "no GPU is left" in line_of(gpu_lease([]).__enter__)


def test_an_exclusive_lease_holds_every_gpu(monkeypatch):
    monkeypatch.setattr("ladder.system.process.LOOK_AGAIN_S", 0.01)
    with gpu_lease([SECOND], resting=UUIDS) as taken:
        assert taken == SECOND
        for uuid in UUIDS:
            child = os.fork()
            if child == 0:
                signal.alarm(1)  # ends a child that waits, as it is to
                with gpu_lock(uuid):
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == signal.SIGALRM


@pytest.fixture
def here(monkeypatch):
    """Puts cards into this machine."""

    def has(*cards):
        monkeypatch.setattr(nvml, "present", lambda index=0: cards[index] if index < len(cards) else None)
        return cards

    return has


def test_a_record_is_added_to_by_the_gpu_that_made_it_last_where_that_is_here(here, tmp_path):
    first, second = here(a_device(uuid=FIRST), a_device(uuid=SECOND))
    record = tmp_path / "check.json"
    assert pool.candidates(RECORDED, "all", record) == [first, second]
    store.write_json(record, {"stage": "check", "where": {"gpu": vars(second)}})
    assert pool.candidates(RECORDED, "all", record) == [second]
    assert pool.candidates(RECORDED, 0, record) == [first]


def test_a_job_on_a_machine_with_another_gpu_says_so_in_one_line(here, tmp_path):
    here(a_device(H200))
    line = line_of(pool.candidates, RECORDED, "all", tmp_path / "check.json")
    assert f": the job is for {RECORDED}, and this machine has {H200}; let slurm.gres in config/gpus/" in line
    here()
    assert f": the job is for {RECORDED}, and this machine has no GPU; " in line_of(
        pool.candidates, RECORDED, "all", tmp_path / "check.json"
    )


# Runs with stand-ins for GPUs


@dataclass(frozen=True)
class Stay:
    """A job on a GPU, from when to when."""

    uuid: str
    stage: str
    rung: str
    pid: int
    begin_s: float
    end_s: float

    def beside(self, other: Stay) -> bool:
        """Whether two were there at once."""
        return self is not other and self.begin_s < other.end_s and other.begin_s < self.end_s


def stays(notes: Path) -> list[Stay]:
    """All that stand-ins have noted; of a job that was killed as long as it takes to the next."""
    found = []
    for path in sorted(notes.iterdir()):
        rows = [line.split() for line in path.read_text().splitlines()]
        for i, (word, stage, rung, pid, at) in enumerate(rows):
            if word == "begins":
                end = float(rows[i + 1][-1]) if i + 1 < len(rows) else float("inf")
                found.append(Stay(path.name, stage, rung, int(pid), float(at), end))
                assert i + 1 == len(rows) or rows[i + 1][0] == "begins" or rows[i + 1][1:4] == [stage, rung, pid]
    return found


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A copy in which the rungs of FEW are compiled and whose worker is a stand-in."""
    project = copied(finished_run(tmp_path_factory) / "project", tmp_path_factory.mktemp("pool") / "project")
    return with_stand_ins(project)


@pytest.fixture
def machine(compiled, tmp_path):
    """A project on a machine with two H100 and an H200, the folder of the notes, and the variables of its runs."""
    notes = tmp_path / "notes"
    notes.mkdir()
    cards = [(H100, FIRST), (H200, OTHER), (H100, SECOND)]
    variables = a_machine(tmp_path / "nvml", *cards) | {"STAND_IN_NOTES": str(notes), "STAND_IN_SECONDS": "1"}
    return copied(compiled, tmp_path / "project"), notes, variables


def timed(project: Path, variables, *arguments: str, config=()):
    return snakemake(
        project,
        [*FEW, *NOT_MEASURED, *config],
        *("--until", "time", "--cores", "4"),
        *arguments,
        gpu=True,
        **variables,
    )


def test_jobs_of_one_run_are_on_both_gpus_at_once_never_two_on_one_and_records_say_which(machine):
    project, notes, variables = machine
    run = timed(project, variables)
    assert run.status == 0, run.output
    assert run.said[0].startswith(f"measuring on 2 x {H100} (config/gpus/{RECORDED}.yaml)")
    found = stays(notes)
    assert {stay.uuid for stay in found} == {FIRST, SECOND}
    done = {("check", name) for name in FEW_RUNGS} | {("time", name) for name in FEW_RUNGS}
    assert done <= {(stay.stage, stay.rung) for stay in found}
    assert len(found) == len({(stay.stage, stay.rung) for stay in found})
    assert not [stay for stay in found for other in found if stay.uuid == other.uuid and stay.beside(other)]
    assert [stay for stay in found for other in found if stay.beside(other)]
    for stay in found:
        if stay.stage == "time":
            timings = read_time_record(project / MEASURED / f"time/{stay.rung}.zip").values()
            assert {timing.where["gpu"]["uuid"] for timing in timings} == {stay.uuid}
        else:
            record = store.read_record(project / MEASURED / f"check/{stay.rung}.json")
            assert record["where"]["gpu"]["uuid"] == stay.uuid

    again = timed(project, variables, config=["remeasure=true"])
    assert again.status == 0, again.output
    anew = [stay for stay in stays(notes) if stay not in found]
    first = {(stay.stage, stay.rung): stay.uuid for stay in found}
    assert {(stay.stage, stay.rung): stay.uuid for stay in anew} == first


@pytest.mark.parametrize(("arguments", "config"), [(["--resources", "gpu=1"], []), ([], ["exclusive=true"])])
def test_one_gpu_measures_while_the_other_rests_where_that_is_asked_for(machine, arguments, config):
    project, notes, variables = machine
    run = timed(project, variables, *arguments, config=config)
    assert run.status == 0, run.output
    found = stays(notes)
    alone = [stay for stay in found if stay.stage == "time" or arguments]
    assert len(alone) >= len(FEW_RUNGS)
    assert not [stay for stay in alone for other in found if stay.beside(other)]


def test_a_killed_job_loses_its_own_record_only_and_the_next_run_measures_nothing_twice(machine):
    project, notes, variables = machine
    config, arguments = [*FEW, *NOT_MEASURED], ("--until", "time", "--cores", "4", "--keep-going")
    killed: list[Stay] = []

    def is_timed() -> bool:
        killed[:] = [stay for stay in stays(notes) if stay.stage == "time"]
        return bool(killed)

    with started(project, config, *arguments, gpu=True, **variables) as process:
        wait_for(is_timed)
        os.kill(killed[0].pid, signal.SIGKILL)
        process.wait(300)
    said = (project / "run.log").read_text()
    assert process.returncode != 0, said
    line = f"gemm-ladder: time: {killed[0].rung}: killed by SIGKILL, which the system sends where memory runs out"
    assert said.count(line) == 1, said
    assert {path.stem for path in (project / MEASURED / "time").iterdir()} == set(FEW_RUNGS) - {killed[0].rung}
    before = stays(notes)

    run = timed(project, variables)
    assert run.status == 0, run.output
    assert [(stay.stage, stay.rung) for stay in stays(notes) if stay not in before] == [("time", killed[0].rung)]
    for rung in FEW_RUNGS:
        assert len(store.read_runs(project / MEASURED / f"time/{rung}.zip")) == 1, rung
