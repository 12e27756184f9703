"""Which code a job runs: its script and what that leads to, and nothing else."""

import ast
from pathlib import Path

import pytest
from conftest import REPOSITORY, take_for_checkout, write
from ladder.system.code import code_files

PROJECT = {
    "workflow/scripts/draw.py": "import os\n\nfrom ladder.show.figures import draw\n\ndraw()\n",
    "workflow/scripts/count.py": "from ladder.tables import counts\n",
    "workflow/ladder/__init__.py": "",
    "workflow/ladder/show/__init__.py": "",
    "workflow/ladder/show/figures.py": (
        "from pathlib import Path\n\nfrom ladder.paths import ROOT\n\nTEMPLATES = ROOT / 'workflow' / 'report'\n"
        "STYLE = Path(__file__).with_name('style')\n\n\ndef draw():\n    from ladder.tables.counts import count\n"
    ),
    "workflow/ladder/show/style/print.txt": "black",
    "workflow/ladder/show/unused.py": "",
    "workflow/ladder/paths.py": "ROOT = '..'\nKERNELS = ROOT / 'kernels'\n",
    "workflow/ladder/tables/__init__.py": "",
    "workflow/ladder/tables/counts.py": (
        "DATA = ROOT / 'workflow' / 'data' / 'counts.csv'\n\n\ndef count():\n    run_worker('ladder.work.worker')\n"
    ),
    "workflow/ladder/work/__init__.py": "",
    "workflow/ladder/work/worker.py": "import ladder.work.inputs\n",
    "workflow/ladder/work/inputs.py": "",
    "workflow/data/counts.csv": "1",
    "workflow/data/others.csv": "1",
    "workflow/report/page.html": "",
    "kernels/naive.cu": "",
}
OF_COUNT = [
    *("data/counts.csv", "ladder/__init__.py", "ladder/tables/__init__.py", "ladder/tables/counts.py"),
    *("ladder/work/__init__.py", "ladder/work/inputs.py", "ladder/work/worker.py", "scripts/count.py"),
]
OF_DRAW = [
    *(path for path in OF_COUNT if path != "scripts/count.py"),
    *("ladder/paths.py", "ladder/show/__init__.py", "ladder/show/figures.py", "ladder/show/style/print.txt"),
    *("report/page.html", "scripts/draw.py"),
]


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    for name, text in PROJECT.items():
        write(tmp_path / name, text)
    take_for_checkout(tmp_path, monkeypatch)
    return tmp_path / "workflow/scripts"


@pytest.mark.parametrize(("script", "files"), [("count", OF_COUNT), ("draw", OF_DRAW)])
def test_the_files_of_a_script_are_those_that_it_imports_starts_and_reads(scripts, script, files):
    found = code_files(scripts / f"{script}.py")
    assert [path.relative_to(scripts.parent).as_posix() for path in found] == sorted(files)


@pytest.mark.parametrize("script", sorted((REPOSITORY / "workflow/scripts").glob("*.py")), ids=lambda path: path.stem)
def test_no_module_that_a_script_of_a_rule_leads_to_is_missed(script):
    found = code_files(script)
    for path in (path for path in found if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ladder"):
                module = REPOSITORY / "workflow" / node.module.replace(".", "/")
                assert module.with_suffix(".py") in found or module / "__init__.py" in found, (path, node.module)
    names = {str(path.relative_to(REPOSITORY / "workflow")) for path in found}
    assert Path("scripts", script.name).as_posix() in names
    if script.stem == "tune":
        assert {"ladder/measure/check/worker.py", "schemas/tuned.schema.yaml"} <= names
    if script.stem == "report":
        assert {"report/report.html.j2", "report/report.css", "data/published.csv"} <= names
