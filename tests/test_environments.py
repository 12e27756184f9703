"""The environments of envs/: every pin hashed, every file in step with the others, no registry named."""

import re
from pathlib import Path

import pytest
import yaml

ENVS = Path(__file__).parents[1] / "envs"
LOCKS = sorted(ENVS.glob("*.txt"))
CONDA = {"gemm-ladder.yaml": "requirements", "cuda12.yaml": "cuda12"}
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
