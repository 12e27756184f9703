"""Which modules of this package a script depends on."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from ladder.system.paths import shown

PACKAGE = Path(__file__).resolve().parents[1]


def modules_of(script: Path) -> list[str]:
    """The files of this package that a script imports, directly or not, inside functions too; relative to the project.

    A worker that a stage starts by its name, `run_worker("ladder.measure.check.worker", ...)`, counts as imported.
    """
    found: dict[Path, None] = {}
    waiting = [script]
    while waiting:
        for module in _imported(waiting.pop()):
            if module not in found:
                found[module] = None
                waiting.append(module)
    return sorted(shown(path) for path in found)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    named = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            named += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            named += [name.name for name in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("ladder."):
            named.append(node.value)
    files = [PACKAGE.parent / (name.replace(".", "/") + ".py") for name in named if name.startswith("ladder.")]
    return tuple(dict.fromkeys(file for file in files if file.is_file()))
