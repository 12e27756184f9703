"""The doctor: what a machine lacks, and what to do about it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY, a_device
from ladder.build.toolchain import Nvcc
from ladder.commands import doctor
from ladder.commands.doctor import Check, examine, print_checks
from ladder.config.documents import read_yaml, validated
from ladder.system import nvml
from ladder.system.errors import LadderError


@pytest.fixture
def settings():
    return validated(read_yaml(REPOSITORY / "config" / "config.yaml"), "config", "config/config.yaml", {})


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with an H100 on which nothing is amiss; its parts may be taken away."""
    parameters = tmp_path / "params"
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    monkeypatch.setattr(doctor, "DRIVER_PARAMETERS", parameters)
    monkeypatch.setattr(nvml, "present", lambda index: a_device())
    monkeypatch.setattr(nvml, "processes", lambda index: [])
    monkeypatch.setattr(nvml, "state", lambda index: {"throttle_reasons": ["idle"]})
    monkeypatch.setattr(doctor, "find_nvcc", lambda configured: Nvcc(Path("/cuda/nvcc"), "13.0.88", ()))
    monkeypatch.setattr(doctor, "supported_architectures", lambda nvcc: {"sm_90"})
    monkeypatch.setattr(doctor, "find_tool", lambda name, configured: Path("/cuda/ncu"))
    monkeypatch.setattr(doctor, "require_sanitizer", lambda configured: Path("/cuda/compute-sanitizer"))
    monkeypatch.setattr(doctor, "_cublas", lambda measuring: Check("cuBLAS", "ok", "/cuda/libcublas.so"))
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    return SimpleNamespace(parameters=parameters, patch=monkeypatch)


def found(settings, tmp_path) -> dict[str, Check]:
    return {finding.what: finding for finding in examine(settings, tmp_path)}


def test_a_machine_that_has_everything_is_told_so(machine, settings, tmp_path):
    findings = found(settings, tmp_path)
    assert {finding.verdict for finding in findings.values()} == {"ok"}
    said = []
    assert print_checks(list(findings.values()), said.append) == 0
    assert said[-1].strip() == "All is there."


def test_without_a_gpu_nothing_is_bad(machine, settings, tmp_path):
    machine.patch.setattr(nvml, "present", lambda index: None)
    findings = found(settings, tmp_path)
    assert findings["GPU"].verdict == "note"
    assert "driver" not in findings
    assert "bad" not in {finding.verdict for finding in findings.values()}


def test_a_gpu_without_a_file_is_told_how_to_keep_one(machine, settings, tmp_path):
    machine.patch.setattr(nvml, "present", lambda index: a_device("NVIDIA Unheard-of"))
    assert found(settings, tmp_path)["GPU file"].remedy == "snakemake gpu_file"


def test_other_processes_and_held_clocks_are_told(machine, settings, tmp_path):
    machine.patch.setattr(nvml, "state", lambda index: {"throttle_reasons": ["software power cap"]})
    assert "software power cap" in found(settings, tmp_path)["GPU load"].found
    machine.patch.setattr(nvml, "processes", lambda index: [4242])
    assert "4242" in found(settings, tmp_path)["GPU load"].found


def test_a_driver_that_is_too_old_for_nvcc_is_bad(machine, settings, tmp_path):
    machine.patch.setattr(nvml, "present", lambda index: a_device(cuda_driver="12.4"))
    finding = found(settings, tmp_path)["driver"]
    assert finding.verdict == "bad"
    assert "ENV=cuda12" in finding.remedy


def test_an_architecture_that_nvcc_does_not_know_is_bad(machine, settings, tmp_path):
    machine.patch.setattr(doctor, "supported_architectures", lambda nvcc: {"sm_120"})
    assert found(settings, tmp_path)["driver"].verdict == "bad"


def test_without_nvcc_its_own_line_is_said(machine, settings, tmp_path):
    def none(configured):
        raise LadderError("nvcc: not found; `make env` installs it")

    machine.patch.setattr(doctor, "find_nvcc", none)
    findings = found(settings, tmp_path)
    assert findings["nvcc"].verdict == "bad"
    assert "make env" in findings["nvcc"].found
    said = []
    assert print_checks(list(findings.values()), said.append) == 1


@pytest.mark.parametrize(("only_admin", "user", "verdict"), [(1, 1000, "note"), (1, 0, "ok"), (0, 1000, "ok")])
def test_counters_that_this_user_may_not_read_are_told(machine, settings, tmp_path, only_admin, user, verdict):
    machine.parameters.write_text(f"Other: 1\nRmProfilingAdminOnly: {only_admin}\n")
    machine.patch.setattr(doctor.os, "geteuid", lambda: user)
    assert found(settings, tmp_path)["ncu"].verdict == verdict


def test_missing_tools_are_notes_with_remedies(machine, settings, tmp_path):
    def none(configured):
        raise LadderError("not found")

    machine.patch.setattr(doctor, "find_tool", lambda name, configured: None)
    machine.patch.setattr(doctor, "require_sanitizer", none)
    findings = found(settings, tmp_path)
    for what in ("ncu", "compute-sanitizer"):
        assert findings[what].verdict == "note"
        assert findings[what].remedy


def test_a_full_disk_is_bad(machine, settings, tmp_path):
    machine.patch.setattr(doctor.shutil, "disk_usage", lambda root: SimpleNamespace(free=10**8))
    assert found(settings, tmp_path)["disk"].verdict == "bad"


@pytest.mark.parametrize(("version", "verdict"), [("11.4.0", "note"), ("12.2.0", "ok")])
def test_an_old_compiler_is_told(machine, settings, tmp_path, version, verdict):
    answer = SimpleNamespace(stdout=version + "\n")
    machine.patch.setattr(doctor.subprocess, "run", lambda *command, **options: answer)
    assert found(settings, tmp_path)["g++"].verdict == verdict


def test_the_command_says_all_and_ends_well_here():
    run = subprocess.run(
        [sys.executable, REPOSITORY / "workflow" / "doctor.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert any(line.split()[1] == "nvcc" for line in lines if line and not line.startswith(" "))
    assert shutil.which("g++") is None or any("g++" in line for line in lines)
