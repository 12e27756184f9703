"""The check on the CPU: a rung's source compiled for the emulator (kernels/emulator), and its verdict there.

What it finds is derived from the sources alone: the inputs and the order of threads are the same each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

EMULATOR = ROOT / "kernels" / "emulator"
ENGINE = EMULATOR / "emulator.cpp"
HEADER = EMULATOR / "launch.cuh"  # what every rung begins with (flags.txt)
NEEDED_GXX = 12
# What tells one compiler from another: behind it a GPU's code may be other code.
COMPILER = re.compile(r"\b(?:__CUDACC|__CUDA_ARCH|__NVCC|__GNU|__clang|EMULATOR_)\w*")
EMULATED, NEEDS_GPU, NOT_EMULATED = "emulated", "needs a GPU", "not emulated"


def compile_engine(target: Path, headers: Path) -> None:
    """Compile the emulator's engine and the headers of all rungs, once; empty files where g++ is too old for it.

    `headers` bears the name of HEADER and .gch, by which g++ finds it (GCC manual, Using Precompiled Headers). Raises
    LadderError with g++'s first error where something does not compile, or where there is no g++.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if shutil.which("g++") is None:
        raise LadderError("g++: not found; install it (Debian: apt install g++)")
    if why_no_emulator():
        target.write_bytes(b"")
        headers.write_bytes(b"")
        return
    made_of = {target: ["-O3", str(ENGINE)], headers: ["-x", "c++-header", str(HEADER)]}
    for made, arguments in made_of.items():
        if error := _compile(["-c", *arguments, "-o", str(made)]):
            raise LadderError(error)


def compile_for_emulator(
    source: Path, macros: dict[str, str], library: Path, include: Path, engine: Path = ENGINE
) -> str:
    """Compile a source with g++; g++'s first error in one line, or nothing.

    What a CPU cannot do, such as inline PTX or tensor maps, does not compile. `engine` is that of the emulator, its
    source or what `compile_engine` has made of it, with the headers beside it or not.
    """
    defined = [f"-D{key}={value}" for key, value in macros.items()]
    made_of = [str(source), *(["-x", "none"] if engine.suffix == ".o" else []), str(engine)]
    libraries = ["-lstdc++", "-lm", "-lc", "-lgcc"]
    return _compile([*defined, f"-I{include}", "-o", str(library), *made_of, *libraries], engine.parent)


def _compile(arguments: list[str], made: Path = EMULATOR) -> str:
    """Run g++ as the emulator asks for it, with what has been made of it; its first error in one line, or nothing."""
    folders = [f"-I{folder}" for folder in (made, EMULATOR, ROOT / "kernels" / "include")]
    command = ["g++", f"@{EMULATOR / 'flags.txt'}", *folders, *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return ""
    said = result.stderr.splitlines()
    lines = [line for line in said if "error" in line or "undefined reference" in line] or said
    return lines[0].replace(f"{ROOT}/", "") if lines else f"g++ ended with exit status {result.returncode}"


def why_no_emulator() -> str:
    """Why nothing can be emulated on this machine, in one line; empty where it can."""
    needs = f"the emulator needs g++ {NEEDED_GXX} or newer"
    try:
        version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"{needs}; there is none"
    return "" if int(version.split(".")[0]) >= NEEDED_GXX else f"{needs}; here is {version}"
