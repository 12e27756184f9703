"""What the processes that compile rungs in other languages share: the request, the answer, the source."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

POINTERS = ("A", "B", "C")


def answer_with(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a request from the standard input, and print what comes of it as the last line."""
    output = os.dup(1)
    os.dup2(2, 1)  # what a compiler prints is no answer
    asked = json.load(sys.stdin)
    try:
        found = work(asked)
    except (Exception, SystemExit) as error:  # a source and its compiler may raise whatever they like
        if "file" not in asked:
            raise
        found = {"error": place_of(error, asked["file"])}
    os.write(output, (json.dumps(found) + "\n").encode())


def load(file: str, kernel: str) -> Any:
    """The kernel of a Python file; raises AttributeError where it has none of that name."""
    sys.path.insert(0, os.path.dirname(file))
    spec = importlib.util.spec_from_file_location("rung", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["rung"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, kernel):
        raise AttributeError(f"has no kernel {kernel}; mend kernels.yaml: wrap.kernel")
    return getattr(module, kernel)


def place_of(error: BaseException, file: str) -> str:
    """An error in one line, with the line of the source that it is about where it is known."""
    said = " ".join(str(error).split())
    if not said or isinstance(error, (SystemExit, KeyError)):
        said = f"{type(error).__name__} {said}".strip()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"line {lines[-1]}: {said}"[:300] if lines else said[:300]
