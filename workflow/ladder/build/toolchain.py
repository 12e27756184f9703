"""NVIDIA's tools: where they are, and for which architectures nvcc compiles."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ladder.model.gpu import Gpu
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

# Where a CUDA toolkit stands that is not on the PATH.
TOOLKITS = ("/usr/local/cuda/bin",)

# How compilers, assemblers and linkers say what is wrong with a source, and how they say what the machine lacks.
_OF_SOURCE = re.compile(
    r"(?:\(\d+\)|:\d+)\s*: (?:[\w ]+ )?error\b|^(?:ptxas|nvlink)\b.*\b(?:error|fatal)\b|undefined reference"
    r"|multiple definition|undefined symbol|relocation|died due to signal (?:4|8|11)\b"
)
_OF_MACHINE = re.compile(
    r"no space left|cannot allocate memory|out of memory|memory exhausted|memory allocation fail|bad_alloc|killed"
    r"|resource temporarily unavailable|too many open files|read-only file system|input/output error|quota exceeded",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"#error|static.assert")  # in the source: whatever it says


@dataclass(frozen=True)
class Nvcc:
    """One nvcc: its path, its version and what it needs beside a toolkit's own layout."""

    path: Path
    version: str
    library_flags: tuple[str, ...]


def wheel_folders() -> list[Path]:
    """The folders of this environment in which NVIDIA's compiler wheels put their programs, CUDA 13's before 12's."""
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    return [folder for folder in (site / "cu13" / "bin", *sorted(site.glob("cuda_*/bin"))) if folder.is_dir()]


def find_tool(name: str, configured: str = "auto") -> Path | None:
    """The configured tool, else the environment's own, else the first on the PATH, else a toolkit's; None if none."""
    if configured != "auto":
        found = shutil.which(configured)
        if found is None:
            raise LadderError(f"{configured!r} is no program; give the path of {name}, or auto")
        return Path(found)
    folders = [*map(str, wheel_folders()), *os.environ.get("PATH", "").split(os.pathsep), *TOOLKITS]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found) if found else None


def require_tool(name: str, configured: str = "auto") -> Path:
    """`find_tool`; raises LadderError where there is none."""
    tool = find_tool(name, configured)
    if tool is None:
        raise LadderError(
            f"{name}: not found; `make env` installs CUDA 13's, and a toolkit has CUDA 12's (docs/cuda12.md): put it "
            "on the PATH, or set config/config.yaml: compile.nvcc"
        )
    return tool


def tool_beside(nvcc: Nvcc | None, name: str) -> Path:
    """A tool of the toolkit that nvcc is of, for another's may not know the architecture; else `require_tool`."""
    own = nvcc.path.resolve().parent / name if nvcc else None
    return own if own and own.is_file() else require_tool(name)


def run_compiler(command: list[str], source: Path) -> tuple[str, str]:
    """Run a compiler on a source: all that it said, and its first error in one line, empty where there is none.

    Raises LadderError where it failed for another reason than the source: killed, no memory, no disk, no program.
    """
    remedy = f"that is no error of {source.name}: install g++, free memory or disk, or mend config/config.yaml: compile"
    in_english = {**os.environ, "LC_ALL": "C"}  # what is said in the user's language is not recognised below
    try:
        result = subprocess.run(
            command, cwd=ROOT, env=in_english, capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise LadderError(f"{command[0]}: cannot be run ({error.strerror}); {remedy}") from None
    log = (result.stdout + result.stderr).replace(f"{ROOT}/", "")
    if result.returncode == 0:
        return log, ""
    said = [line.strip() for line in log.splitlines() if line.strip()]
    of_source = [line for line in said if _OF_SOURCE.search(line)]
    errors = [line for line in of_source if _WRITTEN.search(line) or not _OF_MACHINE.search(line)]
    if not errors:
        why = next((line for line in said if _OF_MACHINE.search(line) or "error" in line or "fatal" in line), "")
        ended = f"ended with exit status {result.returncode}" if result.returncode > 0 else "was killed"
        raise LadderError(f"{command[0]}: {why or ended}; {remedy}")
    return log, errors[0]


@cache
def find_nvcc(configured: str = "auto") -> Nvcc:
    """The nvcc to use; raises LadderError where there is none or it does not run."""
    path = require_tool("nvcc", configured)
    if bad := [letter for letter in '"$`' if letter in str(path)]:
        raise LadderError(f"{path}: nvcc misreads {' and '.join(bad)} in its own path; install it in another folder")
    try:
        result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise LadderError(f"{path}: cannot be run ({error.strerror}); set compile.nvcc to an nvcc, or auto") from None
    version = re.search(r"V(\d+\.\d+\.\d+)", result.stdout)
    if result.returncode or version is None:
        raise LadderError(f"{path}: does not answer --version; set compile.nvcc to another nvcc, or auto")
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia"
    libraries = [path.parent.parent / "lib", *sorted(wheel.glob("cuda_*/lib"))]
    headers = sorted(wheel.glob("cuda_*/include"))
    inside = path.is_relative_to(wheel)
    flags = [f"-L{folder}" for folder in libraries if folder.is_dir()] + [f"-I{folder}" for folder in headers]
    return Nvcc(path, version[1], tuple(flags) if inside else ())


def supported_architectures(nvcc: Nvcc) -> set[str]:
    """The real architectures that this nvcc compiles for, such as sm_90."""
    listed = subprocess.run([nvcc.path, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout
    return set(listed.split())


def require_architecture(nvcc: Nvcc, gpu: Gpu) -> None:
    """Raise LadderError, with the environment to use instead, where nvcc cannot compile for the GPU."""
    if gpu.architecture.rstrip("af") in supported_architectures(nvcc):
        return
    other = "" if nvcc.version.startswith(f"{gpu.cuda}.") else gpu.cuda
    remedy = {
        "12": "use CUDA 12: make env ENV=cuda12 (envs/cuda12.txt), with a toolkit's nvcc (docs/cuda12.md)",
        "13": "use CUDA 13: make env ENV=requirements (envs/requirements.txt)",
    }.get(other, "set compile.nvcc to a newer nvcc")
    raise LadderError(
        f"{gpu.file}: architecture: nvcc {nvcc.version} does not compile for {gpu.architecture}; {remedy}"
    )
