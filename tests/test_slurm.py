"""The workflow on a real Slurm of one node, with stand-ins for GPUs; skips in one line where none can be started."""

from __future__ import annotations

import pytest
from pipeline import FEW, FEW_RUNGS, H100, H200, RECORDED, a_machine, copied, finished_run, snakemake, with_stand_ins
from slurm import a_cluster, missing
from test_pool import NOT_MEASURED, stays

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
# What this Slurm has not, or what a test need not wait for.
OPTIONS = ["--slurm-no-account", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "3"]
MEASURED = f"results/{RECORDED}/devices/cluster/raw"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Slurm that runs."""
    with a_cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture
def node(cluster, tmp_path_factory, tmp_path):
    """A project whose node has the three stand-ins that this Slurm gives to jobs, its notes, and its variables."""
    project = with_stand_ins(copied(finished_run(tmp_path_factory) / "project", tmp_path / "project"))
    notes = tmp_path / "notes"
    notes.mkdir()
    cards = [(H100, "GPU-aaaaaaaa-slurm"), (H100, "GPU-bbbbbbbb-slurm"), (H200, "GPU-cccccccc-slurm")]
    return project, notes, a_machine(tmp_path / "nvml", *cards) | {"STAND_IN_NOTES": str(notes)}


def on_slurm(node, *arguments: str, config=()):
    project, _, variables = node
    settings = [*FEW, *NOT_MEASURED, f"gpu={RECORDED}", *config]
    profile = ["--workflow-profile", "profiles/slurm", "--until", "time", *OPTIONS]
    return snakemake(project, settings, *profile, *arguments, gpu=True, **variables)


def test_jobs_measure_on_the_gpus_of_the_model_that_the_gpu_file_names(node):
    project, notes, _ = node
    run = on_slurm(node)
    assert run.status == 0, run.output
    found = stays(notes)
    assert {stay.rung for stay in found if stay.stage == "time"} == set(FEW_RUNGS)
    assert {stay.uuid[:12] for stay in found} <= {"GPU-aaaaaaaa", "GPU-bbbbbbbb"}
    assert {path.stem for path in (project / MEASURED / "time").iterdir()} == set(FEW_RUNGS)


def test_a_job_that_gets_another_gpu_says_so_in_one_line_and_the_next_run_goes_on(node):
    project, notes, _ = node
    file = project / f"config/gpus/{RECORDED}.yaml"
    right = file.read_text()
    file.write_text(right.replace("gpu:h100:1", "gpu:h200:1"))
    run = on_slurm(node)
    assert run.status != 0
    assert any(f"the job is for {RECORDED}, and this machine has {H200}; " in line for line in run.errors), run.output
    assert not stays(notes)
    file.write_text(right)
    assert on_slurm(node).status == 0
