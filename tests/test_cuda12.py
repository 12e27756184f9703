"""CUDA 12, for GPUs that CUDA 13 no longer knows: with a real toolkit, named by GEMM_LADDER_CUDA12 (its folder bin)."""

import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml
from pipeline import ROOT, Run, copy_project, environment, snakemake

TOOLKIT = os.environ.get("GEMM_LADDER_CUDA12", "")

pytestmark = [
    pytest.mark.cuda12,
    pytest.mark.skipif(not TOOLKIT, reason="GEMM_LADDER_CUDA12 names no CUDA 12 toolkit"),
]


def every_rung_is_compiled_for_volta(folder: Path, run: Run) -> None:
    """All but those that need a newer GPU, which say so."""
    assert run.status == 0, run.output
    rungs = pd.read_csv(folder / "results/v100/selected/tables/rungs.csv").set_index("rung")
    kernels = yaml.safe_load((ROOT / "config/kernels.yaml").read_text())
    newer = {name for name, entry in kernels.items() if float(entry.get("compute_capability", 0)) > 7}
    assert {name.split("@")[0] for name in rungs.index} == set(kernels)
    assert {name for name in rungs.index if rungs["status"][name] == "does not apply"} == newer
    assert set(rungs["status"].drop(newer)) == {"not recorded"}
    resources = pd.read_csv(folder / "results/v100/selected/tables/resources.csv")
    assert set(resources["architecture"]) == {"sm_70"}
    assert resources["nvcc"].str.startswith("12.").all()
    assert set(resources["rung"]) == set(rungs.index) - newer - {"cublas", "cublas_tf32"}


def test_every_rung_compiles_for_volta_with_the_nvcc_that_is_named(tmp_path):
    project = copy_project(tmp_path / "project")
    run = snakemake(project, ["gpu=v100", f"compile={{nvcc: {TOOLKIT}/nvcc}}"])
    every_rung_is_compiled_for_volta(project, run)


def test_the_environment_for_cuda12_is_made_and_compiles_for_volta_with_the_nvcc_on_the_path(tmp_path):
    project = copy_project(tmp_path / "project")
    shutil.copy2(ROOT / "Makefile", project)
    variables = {key: value for key, value in environment(project, gpu=False).items() if not key.startswith("MAKE")}
    variables["PATH"] = os.pathsep.join([TOOLKIT, variables["PATH"]])
    result = subprocess.run(
        ["make", "run", "ENV=cuda12", "ARGS=--config gpu=v100"],
        cwd=project,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    every_rung_is_compiled_for_volta(project, Run(result.returncode, result.stdout))
    assert not list((project / ".venv").glob("lib/*/site-packages/nvidia/cu13"))
