"""Rungs in other languages than CUDA C++: compiled ahead of time, without a GPU, to cubins with what a launch needs.

A compiler works in a process of its own, in the environment that `make env EXTRA=LANGUAGE` installs. For each class of
size it makes two images: one for operands whose addresses, rows and dimensions allow accesses of 16 bytes, and one for
all others.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.config.sources import source_of_rung
from ladder.config.wrapper import image_names, macros_of_classes
from ladder.model.gpu import Target
from ladder.model.rung import Rung
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown

COMPILER_MODULES = {"triton": "triton", "cutile": "cuda.tile"}  # that the compiler is imported as
LANGUAGE_TITLES = {"triton": "Triton", "cutile": "cuTile"}
COMPILE_LIMIT_S = 300


@dataclass(frozen=True)
class Image:
    """A compiled kernel: its name, its cubin, the threads of a block, those that a launch names, its shared memory."""

    name: str
    cubin: Path
    threads: int
    launch_threads: int
    shared_bytes: int


def extra_folder(language: str) -> Path:
    """Where `make env EXTRA=LANGUAGE` installs a compiler."""
    return Path(sysconfig.get_path("data")) / "extra" / language


def why_no_compiler(language: str) -> str:
    """Why nothing of a language can be compiled here, in one line; empty where it can."""
    if extra_folder(language).is_dir() or _is_importable(COMPILER_MODULES[language]):
        return ""
    title = LANGUAGE_TITLES[language]
    return f"needs the compiler of {title}, which is not installed; make env EXTRA={language} installs it"


def state_of_compiler(language: str) -> str:
    """What changes when the compiler of a language is installed, replaced or removed; empty for CUDA C++."""
    if language == "cuda":
        return ""
    folder = extra_folder(language)
    return str(folder.stat().st_mtime_ns) if folder.is_dir() else why_no_compiler(language)


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def environment_of(language: str) -> dict[str, str]:
    """The variables of a process in which a language's compiler is imported."""
    found = [extra_folder(language), ROOT / "workflow", *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, found)), "TRITON_DEFAULT_FP_FUSION": "1"}


def compiler_version(language: str) -> str:
    """The language and the version of its compiler, such as `triton 3.9.0`; raises LadderError where it is broken."""
    return _worker(language, {"version": True})["version"]


def compile_images(rung: Rung, target: Target, folder: Path) -> tuple[list[Image], str]:
    """Compile each image of a rung into a folder; the images in the order of `image_names`, and the first error.

    Raises LadderError where the compiler fails whatever the source.
    """
    images = []
    wrap = rung.wrap or {}
    classes = macros_of_classes(rung)
    for index, (name, aligned) in enumerate(image_names(rung)):
        cubin = folder / f"{name}.cubin"
        request = {
            **{"file": str(source_of_rung(rung)), "kernel": wrap["kernel"], "name": name, "aligned": aligned},
            **{"arguments": wrap["arguments"], "constants": {k: int(v) for k, v in classes[index // 2].items()}},
            **{"architecture": target.architecture, "output": str(cubin)},
        }
        made = _worker(rung.language, request)
        if made.get("error"):
            return [], f"{shown(source_of_rung(rung))}: {made['error']}"
        images.append(Image(name, cubin, made["threads"], made["launch_threads"], made["shared_bytes"]))
    return images, ""


def _worker(language: str, request: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", f"ladder.build.languages.{language}_worker"]
    try:
        ended = subprocess.run(
            command, input=json.dumps(request), env=environment_of(language), capture_output=True, text=True,
            check=False, timeout=COMPILE_LIMIT_S,
        )  # fmt: skip
        return json.loads(ended.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise LadderError(
            f"{LANGUAGE_TITLES[language]}: {request.get('file')}: did not end within {COMPILE_LIMIT_S} s"
        ) from None
    except (IndexError, ValueError):
        said = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise LadderError(f"{LANGUAGE_TITLES[language]}: {said}; make env EXTRA={language} installs it anew") from None
