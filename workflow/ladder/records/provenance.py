"""Where and when a record was made, by which software and of what."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ladder.records import store
from ladder.system.cublas import cublas_versions
from ladder.system.nvml import Present


def environment(root: Path, device: Present, compiled: dict[str, Any], config_digest: str) -> dict[str, Any]:
    """Where and when, and of what, a measurement is made: what every raw record carries.

    Keys: measured_at (UTC), gpu (NVML's description, with the versions of the driver, its CUDA and NVML), software
    (commit, Python, system, packages with those of NVBench, CuPy and the CUDA runtime, and the versions of cublas
    and cublas_lt where they are found), compile (nvcc, flags, architecture, digests), config_digest. Checks and timings
    add wall_s, the seconds that the measuring process took.
    """
    keys = ("nvcc", "flags", "architecture", "source_digest", "build_digest")
    return {
        "measured_at": now(),
        "gpu": vars(device),
        "software": software(root),
        "compile": {key: compiled[key] for key in keys},
        "config_digest": config_digest,
    }


def settings_digest(settings: dict[str, Any]) -> str:
    """The digest of a stage's settings, as records carry it."""
    return store.digest(json.dumps(settings, sort_keys=True))


PACKAGES = (
    *("cuda-bench", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
    *("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "numpy", "nvidia-ml-py", "ncu-report", "snakemake"),
)


def made_on(where: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The device and its software, on which every time depends: UUID, driver, its CUDA, cuBLAS and cublasLt.

    Measurements that differ in one of them are never taken for each other. Takes what `environment` gives; None stands
    for a version that a record does not have.
    """
    gpu, software = where["gpu"], where["software"]
    return (gpu["uuid"], gpu["driver"], gpu["cuda_driver"], software.get("cublas"), software.get("cublas_lt"))


def now() -> str:
    """The time as records carry it: UTC, ISO 8601, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_commit(root: Path) -> str:
    """The commit of the checkout, with `-dirty` where tracked files differ from it; `unknown` outside git.

    What lies in results does not count, for a run writes its records there.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("GEMM_LADDER_COMMIT") or "unknown"


def software(root: Path) -> dict[str, Any]:
    """The software half of an environment: commit, Python, operating system, package and cuBLAS versions."""
    import importlib.metadata  # here, for most jobs read records and write none of a measurement

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "git_commit": git_commit(root),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": versions,
        **cublas_versions(),
    }


NOT_RECORDED = "not recorded"
ORIGIN = ("card", "cublas_version", "commit")  # the columns of `origin`


def origin(places: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """From where a number comes, for tables: the cards (name, UUID), versions of cuBLAS and commits of its records.

    Several are joined by `; `; cublas_version names cublasLt too where that is of another version, and is NOT_RECORDED
    in records from before they had it.
    """
    found: dict[str, set[str]] = {name: set() for name in ORIGIN}
    for place in places:
        found["card"].add(f"{place['gpu']['name']}, {place['gpu']['uuid']}")
        found["cublas_version"].add(_cublas(place["software"]))
        found["commit"].add(place["software"]["git_commit"])
    return {name: "; ".join(sorted(values)) for name, values in found.items()}


def _cublas(software: Mapping[str, Any]) -> str:
    version = software.get("cublas", NOT_RECORDED)
    lt = software.get("cublas_lt", version)
    return version if lt == version else f"{version} (cublasLt {lt})"
