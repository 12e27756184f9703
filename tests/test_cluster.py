"""What a run with the profile for clusters would send to nodes, counted from a dry run; it needs no Slurm."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
import yaml
from ladder.system.paths import ROOT
from pipeline import RECORDED, copy_project, snakemake

# A sitecustomize.py: a dry run notes what it would submit, and not what runs where Snakemake does.
NOTES_SUBMISSIONS = """
import json
import os

if "SUBMISSIONS" in os.environ:
    from snakemake.executors import dryrun

    def run_job(self, job, now=dryrun.Executor.run_job):
        names = [each.name for each in job.jobs] if job.is_group() else [job.name]
        if not set(names) <= self.workflow._localrules:
            with open(os.environ["SUBMISSIONS"], "a") as notes:
                notes.write(json.dumps(names) + chr(10))
        now(self, job)

    dryrun.Executor.run_job = run_job
"""
PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
MORE = ["survey", "sanitize", "hardware", "tune", "comparison", "across"]  # no part of a plain run
ON_A_GPU = {rule for rule, asks in PROFILE["set-resources"].items() if asks["slurm_partition"] == "gpu"}


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    """The rules of each job or group of jobs that a run of the whole ladder and of every target would submit."""
    folder = tmp_path_factory.mktemp("cluster")
    project = copy_project(folder / "project", records=False)
    (folder / "sitecustomize.py").write_text(NOTES_SUBMISSIONS)
    variables = {"SUBMISSIONS": str(folder / "submissions"), "PYTHONPATH": str(folder)}
    arguments = ["--workflow-profile", "profiles/slurm", "--executor", "local", "-n", "all", *MORE]
    run = snakemake(project, [f"gpu={RECORDED}"], *arguments, **variables)
    assert run.status == 0, run.output
    return list(map(json.loads, (folder / "submissions").read_text().splitlines()))


def test_what_is_submitted_alone_needs_a_gpu_or_compiles_trials_or_is_the_table_of_a_target(submitted):
    jobs = Counter(rules[0] for rules in submitted if len(rules) == 1)
    assert set(jobs) - ON_A_GPU == {"trial_builds", "tune", "comparison", "across"}
    assert jobs["time"] >= jobs["check"] > 20
    assert jobs["survey_rung"] == jobs["sanitize_rung"] == jobs["check"]
    assert jobs["trial_builds"] == jobs["trials"] > 1
    assert jobs["tune"] == jobs["comparison"] == jobs["across"] == jobs["measure_hardware"] == 1


def test_all_else_is_submitted_in_few_groups(submitted):
    groups = [set(rules) for rules in submitted if len(rules) > 1]
    rungs = sum(rules == ["time"] for rules in submitted)
    codes = [names for names in groups if "compile" in names]
    of_a_rung = {"compile", "inspect", "emulate"}  # floors and libraries, which may fill a group, are not emulated
    assert all(names <= of_a_rung for names in codes)
    assert set().union(*codes) == of_a_rung
    assert len(codes) == math.ceil(rungs / PROFILE["group-components"]["code"])
    (shared, derived) = [names for names in groups if names not in codes]
    assert shared == {"calculator", "engine"}
    assert {"tables", "figures", "html_report", "survey", "hardware"} < derived
