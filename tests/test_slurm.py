"""The workflow on a real Slurm of one node, with stand-ins for GPUs; skips in one line where none can be started."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from ladder.records import store
from pipeline import (
    FEW,
    FEW_RUNGS,
    H100,
    H200,
    RECORDED,
    a_machine,
    copied,
    copy_project,
    snakemake,
    started,
    wait_for,
    with_stand_ins,
)
from slurm import ASKS_OFTEN, a_cluster, missing
from test_pipeline import a_conda
from test_pool import NOT_MEASURED, Stay, stays

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
# What this Slurm has not, or what a test need not wait for.
OPTIONS = ["--slurm-no-account", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
PROFILE = ["--workflow-profile", "profiles/slurm", *OPTIONS]
MEASURED = f"results/{RECORDED}/devices/cluster/raw"
OTHER = "h200-sxm"
CARDS = [(H100, "GPU-aaaaaaaa-slurm"), (H100, "GPU-bbbbbbbb-slurm"), (H200, "GPU-cccccccc-slurm")]

# At the end of a project's store.py: what a job has recorded is seen some seconds after it has ended.
SEEN_LATE = """
def _seen_late(path, *given, now=conclude_timing):
    import subprocess

    now(path, *given)
    hidden = path.with_name(f".{path.name}.hidden")
    os.replace(path, hidden)
    subprocess.Popen(["sh", "-c", 'sleep 5; mv "$0" "$1"', hidden, path])


conclude_timing = _seen_late
"""
NCU_WITHOUT_PERMISSION = """#!/bin/sh
echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters'
exit 1
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A project that was measured on a Slurm which runs, after a first try on nodes with another GPU; and both runs."""
    folder = tmp_path_factory.mktemp("slurm")
    project = with_stand_ins(copy_project(folder / "project"))
    node = Node(project, folder)
    with a_cluster(folder / "cluster"):
        file = project / f"config/gpus/{RECORDED}.yaml"
        right = file.read_text()
        file.write_text(right.replace("gpu:h100:1", "gpu:h200:1"))
        failed, before = node.run("kernels=[naive]"), stays(node.notes)
        file.write_text(right)
        yield node, failed, before, node.run()


class Node:
    """A project whose node has the three stand-ins that this Slurm gives to jobs, their notes, and its variables."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project, self.notes = project, folder / "notes"
        self.notes.mkdir()
        self.variables = a_machine(folder / "nvml", *CARDS) | {"STAND_IN_NOTES": str(self.notes)}
        (folder / "nvml/sitecustomize.py").write_text(ASKS_OFTEN)
        self.config = [*FEW, *NOT_MEASURED, f"gpu={RECORDED}"]

    def run(self, *config: str, until: str = "time", arguments: Sequence[str] = (), **variables: str):
        """Run until a stage has ended."""
        arguments = [*PROFILE, "--until", until, *arguments]
        return snakemake(self.project, [*self.config, *config], *arguments, gpu=True, **self.variables | variables)

    @contextmanager
    def started(self, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a run until all is timed."""
        arguments = [*PROFILE, "--until", "time"]
        with started(self.project, self.config, *arguments, gpu=True, **self.variables, **variables) as process:
            yield process

    def records(self) -> set[str]:
        """The rungs that are timed; fails the test where one has been twice."""
        found = {path.stem: len(store.read_runs(path)) for path in (self.project / MEASURED / "time").glob("*.zip")}
        assert set(found.values()) <= {1}, found
        return set(found)


@pytest.fixture
def node(measured, tmp_path):
    """A copy of the measured project, from which what was timed is gone."""
    made = Node(copied(measured[0].project, tmp_path / "project"), tmp_path)
    for path in (made.project / MEASURED / "time").iterdir():
        path.unlink()
    return made


def job_of(stay: Stay) -> str:
    """The number that Slurm gave to the job that a process belongs to."""
    variables = Path(f"/proc/{stay.pid}/environ").read_bytes().split(b"\0")
    return next(each.decode().partition("=")[2] for each in variables if each.startswith(b"SLURM_JOB_ID="))


def test_a_job_that_gets_another_gpu_says_so_in_one_line_and_the_next_run_goes_on(measured):
    _, failed, before, run = measured
    assert failed.status != 0
    lines = [line for line in failed.errors if f"the job is for {RECORDED}, and this machine has {H200}; " in line]
    assert lines == failed.errors
    assert len(lines) == len(["naive", "cublas", "cublas_best"]), failed.output
    assert not before
    assert run.status == 0, run.output


def test_jobs_measure_on_the_gpus_of_the_model_that_the_gpu_file_names(measured):
    node, _, _, run = measured
    assert run.status == 0, run.output
    found = stays(node.notes)
    assert {stay.rung for stay in found if stay.stage == "time"} == set(FEW_RUNGS)
    assert {stay.uuid[:12] for stay in found} <= {"GPU-aaaaaaaa", "GPU-bbbbbbbb"}
    assert node.records() == set(FEW_RUNGS)


def test_what_only_says_something_says_it_on_the_login_node(measured):
    node = measured[0]
    run = snakemake(node.project, node.config, *PROFILE, "help", gpu=True, **node.variables)
    assert run.status == 0, run.output
    assert "Targets (snakemake TARGET):" in run.output


def test_two_kinds_of_gpu_are_measured_at_once_each_on_its_own(node):
    build = node.project / "build"
    shutil.copytree(build / RECORDED, build / OTHER)  # of the same architecture: nothing is left to compile
    shutil.rmtree(node.project / MEASURED / "check")
    node.config.remove(f"gpu={RECORDED}")
    run = node.run(f"gpus=[{RECORDED},{OTHER}]", STAND_IN_SECONDS="4")
    assert run.status == 0, run.output
    assert run.said[0] == f"2 kinds of GPU, at once: {RECORDED}, {OTHER}"
    for kind in (RECORDED, OTHER):
        assert f"\n{kind}: gemm-ladder: measuring on nodes of the cluster" in run.output
        times = (node.project / f"results/{kind}/devices/cluster/raw/time").glob("*.zip")
        assert {path.stem for path in times} == set(FEW_RUNGS)
    found = stays(node.notes)
    of_other = [stay for stay in found if stay.uuid == "GPU-cccccccc-slurm"]
    assert {stay.rung for stay in of_other} >= set(FEW_RUNGS)
    assert [stay for stay in of_other for other in found if other.uuid != stay.uuid and stay.beside(other)]


def test_with_conda_jobs_run_on_nodes_in_the_environment_that_the_login_node_made(node, tmp_path):
    path, jobs = a_conda(tmp_path)
    shutil.rmtree(node.project / f"build/{RECORDED}/rungs/naive")
    run = node.run("kernels=[naive]", until="compile", arguments=["--sdm", "conda"], PATH=path)
    assert run.status == 0, run.output
    assert (node.project / f"build/{RECORDED}/rungs/naive/compile.json").exists()
    assert re.findall(r"\.snakemake/scripts/\S+\.compile\.py", jobs.read_text())


def test_jobs_that_are_killed_preempted_or_out_of_time_lose_no_record_and_are_measured_once(node):
    begun: list[Stay] = []

    def have_begun(number: int) -> bool:
        begun[:] = sorted(stays(node.notes), key=lambda stay: stay.begin_s)
        return len(begun) >= number

    with node.started(STAND_IN_SECONDS="12") as process:
        wait_for(lambda: have_begun(2))
        killed = begun[0]
        os.kill(killed.pid, signal.SIGKILL)
        wait_for(lambda: have_begun(3))
        preempted = begun[1:]
        urgent = ["sbatch", "-p", "urgent", "--gres=gpu:h100:2", "-o", "/dev/null", "--wrap", "sleep 1"]
        subprocess.run(urgent, check=True, capture_output=True)
        wait_for(lambda: have_begun(4))
        late = begun[3]
        job = job_of(late)
        subprocess.run(["scontrol", "update", f"JobId={job}", "EndTime=now"], check=True)
        process.wait(200)
    said = (node.project / "run.log").read_text()
    errors = [line for line in said.splitlines() if line.startswith("gemm-ladder: ") and "measuring on" not in line]
    assert process.returncode != 0, said
    assert late.rung in {stay.rung for stay in preempted}
    assert len(errors) == 2, said
    assert f"gemm-ladder: time: {killed.rung}: killed by SIGKILL" in said
    assert f"gemm-ladder: time: Slurm job {job}: out of time; " in said, said
    assert f"time/{late.rung}.log" in said, said
    assert node.records() == set(FEW_RUNGS) - {killed.rung, late.rung}

    before = stays(node.notes)
    run = node.run()
    assert run.status == 0, run.output
    assert {stay.rung for stay in stays(node.notes) if stay not in before} == {killed.rung, late.rung}
    assert node.records() == set(FEW_RUNGS)


def test_a_full_disk_is_said_in_one_line_and_the_next_run_goes_on_though_files_are_seen_late(node):
    folder = node.project / MEASURED / "time"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={folder}/filler"], capture_output=True, check=False
        )  # till it is full
        run = node.run("kernels=[naive]")
        assert run.status != 0
        line = f"time: {MEASURED}/time/naive.zip: No space left on device; make room on that disk, and run again"
        assert run.errors == [line], run.output
        (folder / "filler").unlink()
        (node.project / "workflow/ladder/records/store.py").open("a").write(SEEN_LATE)
        run = node.run("kernels=[naive]")
        assert run.status == 0, run.output
        assert node.records() == {"naive"}
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_node_without_permission_to_profile_says_so_and_is_asked_again_by_the_next_run(measured, tmp_path):
    node = Node(measured[0].project, tmp_path)
    ncu = tmp_path / "ncu"
    ncu.write_text(NCU_WITHOUT_PERMISSION)
    ncu.chmod(0o755)
    config = ["kernels=[naive]", f"profile={{enabled: true, ncu: {ncu}, sizes: [512]}}"]
    run = node.run(*config, until="profile")
    assert run.status == 0, run.output
    undone = (node.project / f"build/{RECORDED}/profile/naive/undone").read_text()
    assert undone.startswith("ncu: ERR_NVGPUCTRPERM: this user may not read the GPU's counters; ")
    again = snakemake(node.project, [*node.config, *config], *PROFILE, "-n", "--until", "profile", **node.variables)
    assert ["profile", "1"] in [line.split() for line in again.output.splitlines()], again.output
