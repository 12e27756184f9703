"""The code that a job runs: its script and all of this package that the script leads to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from ladder.system.paths import ROOT


def code_files(script: Path) -> list[Path]:
    """A script and the files of workflow/ that it leads to, sorted: modules, and what these read from there.

    Modules are those that it imports, directly or not and inside functions too, and those whose full name stands in a
    string, as that of a worker's process does. What they read is what a path written out with `/` or `with_name` names:
    a file, or all files of a folder.
    """
    found, left = set(), [script.resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _leads_to(path, path.read_text(), ROOT / "workflow") if path.suffix == ".py" else []
    return sorted(found)


@cache
def _leads_to(path: Path, text: str, workflow: Path) -> list[Path]:
    nodes = list(ast.walk(ast.parse(text, path)))
    modules = {name for node in nodes for name in _modules(node)}
    packages = {".".join(name.split(".")[:end]) for name in modules for end in range(1, name.count(".") + 2)}
    places = [workflow / name.replace(".", "/") for name in sorted(packages)]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return files + [file for parts in _paths(nodes) for file in _named(parts, path, workflow)]


def _modules(node: ast.AST) -> list[str]:
    """The names that may be modules of ours, in an import or as a string."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [each.name for each in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        names = [node.value]
    return [name for name in names if re.fullmatch(r"ladder(\.\w+)*", name)]


def _paths(nodes: Sequence[ast.AST]) -> Iterator[list[str]]:
    """The constant parts of each path that is written out whole: what `/` joins, or what `with_name` is given."""
    joins = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    inner = {id(node.left) for node in joins}
    for node in (node for node in joins if id(node) not in inner):
        parts = []
        while isinstance(node, ast.BinOp):
            parts.insert(0, node.right)
            node = node.left
        if all(isinstance(part, ast.Constant) for part in parts):
            yield [str(part.value) for part in parts]
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "with_name":
            yield [each.value for each in node.args if isinstance(each, ast.Constant)]


def _named(parts: Sequence[str], path: Path, workflow: Path) -> list[Path]:
    """What the parts name below workflow/, seen from the project or from a folder around the module; [] if nothing."""
    around = [folder for folder in path.parents if folder.is_relative_to(workflow)]
    places = [folder.joinpath(*parts) for folder in (workflow.parent, *around)] if parts else []
    for place in places:
        if place.is_relative_to(workflow) and place != workflow and place.exists():
            inside = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
            return [] if place / "__init__.py" in inside else inside
    return []
