"""The package's folders import each other in one direction only, as workflow/ladder/README.md says."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "workflow/ladder"
BELOW = {"system": set(), "model": set()}
BELOW["records"] = {"system", "model"}
BELOW["config"] = {*BELOW["records"], "records"}
BELOW["build"] = {*BELOW["config"], "config"}
BELOW["measure"] = {*BELOW["build"], "build"}
BELOW["tables"] = {*BELOW["build"], "build"}
BELOW["show"] = {*BELOW["tables"], "tables"}
BELOW["commands"] = {*BELOW["show"], "show", "measure"}


def imported(path: Path) -> set[str]:
    """The folders of the package that a module imports from, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ladder."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("ladder.")}
    return found


def test_the_folders_are_those_of_the_readme():
    rows = [
        line.split("`")[1].strip("/") for line in (PACKAGE / "README.md").read_text().splitlines() if "/` |" in line
    ]
    assert rows == list(BELOW)
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"} == set(BELOW)
    assert [path.name for path in PACKAGE.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("folder", BELOW)
def test_a_folder_imports_only_from_those_below_it(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        assert imported(path) <= BELOW[folder] | {folder}, path.relative_to(PACKAGE)


def test_only_the_registry_spells_metrics_of_nsight_compute():
    spelled = re.compile(r"\b(smsp|sm|l1tex|lts|dram|gpu|gpc|launch|sass|derived)__|inst_executed")
    for path in set(PACKAGE.rglob("*.py")) - {PACKAGE / "model/metrics.py"}:
        texts = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        assert [text for text in texts if isinstance(text, str) and spelled.search(text)] == [], path


def defined(path: Path) -> Iterator[str]:
    """The public names that a module defines at its top level: functions, classes and constants."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]
        yield from (name for name in (getattr(node, "name", ""), *names) if name and not name.startswith("_"))


ENTRANCES = {"main", "figure", "figures"}  # of a module whose name says which


def test_a_name_means_one_thing_in_the_whole_package():
    found = Counter(name for path in PACKAGE.rglob("*.py") for name in set(defined(path)))
    assert {name for name, modules in found.items() if modules > 1} <= ENTRANCES
