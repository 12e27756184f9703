"""The environments of envs/: every pin hashed, every file in step with the others, no registry named."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVS = Path(__file__).parents[1] / "envs"
LOCKS = sorted(ENVS.glob("*.txt"))
CONDA = {"gemm-ladder.yaml": "requirements", "cuda12.yaml": "cuda12"}
# What some Python has no wheel of, and the hash of its source.
SOURCES = {
    "connection-pool": "bf429e7aef65921c69b4ed48f3d48d3eac1383b05d2df91884705842d974d0dc",
    "immutables": "b55ffaf0449790242feb4c56ab799ea7af92801a0a43f9e2f4f8af2ab24dfc4a",
}
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(\[[a-z0-9,]+\])?(?:==(\S+))?")


def logical_lines(path: Path) -> list[str]:
    """Return the file's lines without comments, with continued lines joined."""
    text = re.sub(r"(?m)(^|\s)#.*$", "", path.read_text()).replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip()]


def pins(name: str) -> dict[str, str]:
    """Return {package: version} of envs/NAME.txt."""
    return dict(line.split()[0].split("==") for line in logical_lines(ENVS / f"{name}.txt"))


def direct(name: str) -> dict[str, tuple[str, str | None]]:
    """Return {package: (extras, version asked for)} of envs/NAME.in and of the files that it includes."""
    found = {}
    for line in logical_lines(ENVS / f"{name}.in"):
        if line.startswith("-r "):
            found |= direct(line.removeprefix("-r ").removesuffix(".in"))
        else:
            package, extras, version = REQUIREMENT.fullmatch(line).groups()
            found[package] = (extras or "", version)
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_and_hashed(lock):
    for line in logical_lines(lock):
        assert re.fullmatch(r"[a-z0-9._-]+==[A-Za-z0-9.+!]+( +--hash=sha256:[0-9a-f]{64})+", line), line[:80]


@pytest.mark.parametrize("path", sorted(ENVS.glob("*.*")), ids=lambda path: path.name)
def test_no_registry_is_named(path):
    for line in path.read_text().splitlines():
        assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host|(^|\s)-[if]\s|\.(org|com)\b", line)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_direct_requirement_is_pinned_as_asked(lock):
    pinned = pins(lock.stem)
    for package, (_, version) in direct(lock.stem).items():
        assert package in pinned
        assert version in (None, pinned[package])


def test_an_environment_that_is_a_link_is_not_emptied(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    shutil.copytree(ENVS, project / "envs")
    shutil.copy(ENVS.parent / "Makefile", project)
    other.mkdir()
    (other / "kept").touch()
    (project / ".venv").symlink_to(other)
    run = subprocess.run(["make", "env"], cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "make: .venv is a link" in run.stderr
    assert (other / "kept").exists()


def test_every_in_file_is_locked():
    assert {path.stem for path in ENVS.glob("*.in")} - {"common"} == {path.stem for path in LOCKS}


@pytest.mark.parametrize("lock", ["cuda12", "cublas", "dev"])
def test_shared_packages_have_one_version(lock):
    """All but cuda-bindings, whose major version is CUDA's."""
    ours, theirs = pins("requirements"), pins(lock)
    shared = (ours.keys() & theirs.keys()) - {"cuda-bindings"}
    assert {name: theirs[name] for name in shared} == {name: ours[name] for name in shared}


def test_dev_can_be_installed_with_either_environment():
    cuda12, dev = pins("cuda12"), pins("dev")
    shared = cuda12.keys() & dev.keys()
    assert {name: dev[name] for name in shared} == {name: cuda12[name] for name in shared}


@pytest.mark.parametrize(("file", "lock"), CONDA.items())
def test_the_conda_file_has_the_pins(file, lock):
    conda = yaml.safe_load((ENVS / file).read_text())
    pinned = pins(lock)
    (pip,) = [entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)]
    assert sorted(pip) == sorted(f"{name}{extras}=={pinned[name]}" for name, (extras, _) in direct(lock).items())


@pytest.mark.parametrize("file", CONDA)
def test_the_conda_file_stands_alone(file):
    conda = yaml.safe_load((ENVS / file).read_text())
    assert conda["channels"] == ["conda-forge", "nodefaults"]
    assert {"python=3.12", "pip"} <= {entry for entry in conda["dependencies"] if isinstance(entry, str)}
    assert "-r " not in (ENVS / file).read_text()


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_what_the_pins_need_on_every_python_is_pinned(python):
    """pip would refuse a package without a hash; the lock is made for one Python and has to do for all."""
    pinned = pins("requirements") | pins("build")
    wanted = {name: extras.strip("[]").split(",") for name, (extras, _) in direct("requirements").items() if extras}
    seen = 0
    for name in pinned:
        try:
            needs = [Requirement(line) for line in importlib.metadata.requires(name) or []]
        except importlib.metadata.PackageNotFoundError:
            continue  # of the other CUDA
        for need in needs:
            machine = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
            asked = [machine | {"extra": extra} for extra in wanted.get(name, [""])]
            if need.marker is None or any(need.marker.evaluate(each) for each in asked):
                other = canonicalize_name(need.name)
                assert other in pinned, f"{name} needs {need}"
                assert need.specifier.contains(pinned[other], prereleases=True), f"{name} needs {need}"
                seen += 1
    assert seen > 50


def test_what_has_no_wheel_for_a_python_can_be_built_from_its_hashed_source():
    """connection-pool has none at all, immutables none for Python 3.14: their sources are plain setuptools."""
    assert "--no-build-isolation" in (ENVS.parent / "Makefile").read_text()
    assert "setuptools" in pins("build")
    for name, digest in SOURCES.items():
        (line,) = (line for line in logical_lines(ENVS / "requirements.txt") if line.startswith(f"{name}=="))
        assert f"--hash=sha256:{digest}" in line


@pytest.mark.parametrize(
    ("own", "asked", "anew"),
    [
        ("3.11.9", None, False),
        ("3.11.9", "3.11.9", False),
        ("3.11.9", "3.12.1", True),
        (None, None, True),
    ],
)
def test_an_environment_of_another_python_than_the_one_asked_for_is_made_anew(tmp_path, own, asked, anew):
    def python(path: Path, version: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho Python {version}\n")
        path.chmod(0o755)
        return path

    shutil.copy2(ENVS.parent / "Makefile", tmp_path)
    shutil.copytree(ENVS, tmp_path / "envs")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/pyvenv.cfg").touch()
    if own:
        python(tmp_path / ".venv/bin/python", own)
    (tmp_path / ".venv/.requirements").touch()
    named = [f"PYTHON={python(tmp_path / 'other', asked)}"] if asked else []
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTHON"))}
    asks = subprocess.run(["make", "--question", "env", *named], cwd=tmp_path, env=variables, check=False)
    assert asks.returncode == anew
