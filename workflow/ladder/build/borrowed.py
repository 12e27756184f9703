"""What a rung may not have from elsewhere: another library's product, and names that stand in for CUDA's own.

A rung's time is to be that of its own kernels. Only a baseline may let a library multiply.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Libraries that multiply, by the beginnings of their files and of their functions.
_LIBRARY = re.compile(r"lib(?:cublas|cudnn|cutensor|cusolver|cusparse|nvblas|cufft)\w*\.so")
_OWN_KERNELS = "only kernels of its own may multiply in a rung"
_NOT_IMPORTED = {
    re.compile(r"(?:cublas|cudnn|cutensor|cusolver|cusparse|cufft)[A-Z]\w*"): _OWN_KERNELS,
    re.compile(r"dlm?open|dlv?sym"): _OWN_KERNELS,  # by which a library's functions are had without their names
    re.compile(r"_?Py[A-Z_]\w*"): "the process that checks and times is none of a rung's business",
    re.compile(r"pthread_create|thrd_create|_ZNSt6thread\w*start_thread\w*"): "a rung's host code starts no thread",
}
_CUDA = re.compile(r"(?:cu|cuda|cupti|nvml)[A-Z]\w*")


def multiplying_libraries(files: Iterable[str]) -> list[str]:
    """Of the names or paths of libraries, linked with or loaded, those of libraries that multiply."""
    return [file for file in files if _LIBRARY.match(file.rpartition("/")[2])]


def why_borrowed(objects: Iterable[Path], *libraries: Path) -> str:
    """What a rung's object files or its libraries have from elsewhere, in one line; empty where that is nothing.

    The objects are those of its own source: its library has the CUDA runtime inside, which uses the loader itself.
    """
    for path in objects:
        for kind, name in _symbols_of(path):
            why = next((why for forbidden, why in _NOT_IMPORTED.items() if forbidden.fullmatch(name)), "")
            if kind in "Uw" and why:
                return f"imports {name}; leave it out: {why}"
            if kind not in "Uw" and _CUDA.fullmatch(name):
                return f"exports {name}, a name of CUDA's; give the function another name, or make it static"
    for library in libraries:
        if named := multiplying_libraries(_needed(library)):
            return f"needs {named[0]}; do not link with it: {_OWN_KERNELS}"
    return ""


def _symbols_of(path: Path) -> list[tuple[str, str]]:
    """The kind, as nm tells it, and the name of each global symbol of an object file."""
    listed = subprocess.run(["nm", "--extern-only", path], capture_output=True, text=True, check=True).stdout
    return [(fields[-2], fields[-1]) for line in listed.splitlines() if len(fields := line.split()) > 1]


def _needed(library: Path) -> list[str]:
    """The libraries that a library is linked with, by their names."""
    if not library.exists():
        return []
    listed = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed)
