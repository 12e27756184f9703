"""What is derived from the records is the same bytes whoever derives it, wherever, and with which Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline import FEW_RUNGS, RECORDED, ROOT, copied, derived, environment, finished_run, once

# Runs the scripts that derive something in a project, without Snakemake and all that it needs; the report's where its
# libraries are installed.
DERIVE = f"""
import importlib.util
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
import yaml
from ladder.config.plan import plan, recorded_on
from ladder.show.drawings import constants_of, is_drawn

GPU, RUNGS = "{RECORDED}", {FEW_RUNGS!r}
results, inspect = Path("results") / GPU / "selected", Path("build") / GPU / "inspect"
config = yaml.safe_load(Path("config/config.yaml").read_text())
config |= {{"kernels": RUNGS, "sizes": [512, 1024], "quiet": True, "remeasure": False}}
run = plan(config)
every = {{
    "gpu": [run.gpu], "title": run.gpu.title, "peak_gflops": run.gpu.peak_gflops, "recorded": recorded_on(run.raw()),
    "rungs": list(run.rungs), "ladder": [rung.entry for rung in run.ladder.values() if rung.role == "rung"],
    "shapes": [str(shape) for shape in run.shapes], "baseline": run.baseline.name, "first": run.first.name,
    "sanitized": RUNGS, "raw": str(run.raw()), "passed_on": run.passed_on(),
}}
emulated = [f"build/{{GPU}}/emulated/{{rung}}.json" for rung in RUNGS]
inspections = [str(inspect / f"{{rung}}.json") for rung in RUNGS]
tables = {{path.stem: str(path) for path in (results / "tables").glob("*.csv")}}


class Files(list):  # as Snakemake gives them to a script: by their place, and some by name
    def __init__(self, files, **named):
        super().__init__(files)
        vars(self).update(named)


class Named(dict):  # as Snakemake gives wildcards to a script: attributes that can be asked for
    __getattr__ = dict.__getitem__


def drawn(table, figure):  # the outputs of a rule that makes a table and a figure of it
    paths = {{"table": f"tables/{{table}}.csv", "svg": f"figures/{{figure}}.svg", "png": f"figures/{{figure}}.png"}}
    return {{name: str(results / path) for name, path in paths.items()}}


def derive(rule, *outputs, named={{}}, params={{}}, **inputs):
    job = SimpleNamespace(
        config=config,
        input=Files([], **inputs),
        params=SimpleNamespace(**every | params),
        output=Files(outputs, **named),
        log=["log"],
        rule=rule,
        wildcards=Named(gpu=GPU),
    )
    runpy.run_path(f"workflow/scripts/{{rule}}.py", {{"snakemake": job}})


drawings = {{rung.name: constants_of(rung) for rung in run.rungs if is_drawn(rung)}}
pages = [str(results / f"pages/{{rung.name}}.md") for rung in run.rungs]
for folder in ("tables", "figures", "pages", "drawings"):
    shutil.rmtree(results / folder)
(results / "figures").mkdir()
hardware = [tables.pop("hardware")] if "hardware" in tables else []
record = [str(run.raw() / "hardware.json")] if hardware else []
sustained = [str(path) for rung in RUNGS if (path := run.raw() / f"sustained/{{rung}}.json").exists()]
measured = {{"hardware": record, "sustained": sustained, "elsewhere": []}}
derive("tables", *tables.values(), inspections=inspections, emulated=emulated, **measured)
for table in hardware:
    derive("hardware", table, record=record[0])
derive("figures", str(results / "figures/any"), **tables)
if sustained:
    named = {{kind: str(results / f"figures/sustained.{{kind}}") for kind in ("svg", "png")}}
    derive("energy", named=named, sustained=tables["sustained"], rungs=tables["rungs"])
tried = [rung for rung in run.ladder.values() if rung.entry == "tiled"][:1]  # of RUNGS the one with recorded trials
trials = [str(run.raw() / "trials/tiled.json.gz")]
at = {{"sizes": ["1024", "4096"], "shapes": {{"tiled": ["1024", "4096"]}}}}
tuning = {{"ladder": list(run.ladder.values()), "rungs": tried, **at, "not_tuned": []}}
derive("tune", trials=trials, named=drawn("trials", "tuning") | {{"tuned": []}}, params=tuning)
named = drawn("published", "published") | {{"page": str(results / "pages/published.md")}}
derive("published", named=named, **tables | {{"trials": [tables["trials"]], "hardware": hardware}})
erring = [str(path) for rung in RUNGS if (path := run.raw() / f"accuracy/{{rung}}.json").exists()]
accurate = {{"rungs": list(run.accurate)}}
derive("accuracy", named=drawn("accuracy", "accuracy"), params=accurate, records=erring, rungs=tables["rungs"])
dark = {{"dark": str(results / "figures/overview_dark.png")}}
derive("overview", named=drawn("accuracy", "overview") | dark, **tables)
zips = [str(path) for path in sorted((run.raw() / "experiments").glob("*.zip"))]
derive("experiments", str(results / "tables/experiments.csv"), records=zips)
every_table = [*tables.values(), *hardware]
derive("analysis", str(results / "figures/any"), tables=every_table)
derive("drawings", *(str(results / f"drawings/{{name}}.svg") for name in drawings), params={{"constants": drawings}})
paged = {{name: str(results / f"pages/{{file}}.md") for name, file in (("index", "README"), ("timeline", "timeline"))}}
paged |= {{"pages": pages, "hardware": [str(results / "pages/hardware.md")] if hardware else []}}
derive("pages", named=paged, tables=every_table, inspections=inspections)
if importlib.util.find_spec("altair"):
    (results / "report.html").unlink()
    reported = [path for name, path in tables.items() if name not in ("trials", "experiments")] + hardware
    derive("report", str(results / "report.html"), tables=reported)
"""

# What DERIVE imports, and all that these need.
PACKAGES = {
    *("numpy", "pandas", "seaborn", "matplotlib", "pyyaml", "jsonschema"),
    *("contourpy", "cycler", "fonttools", "kiwisolver", "packaging", "pillow", "pyparsing", "python-dateutil", "six"),
    *("attrs", "jsonschema-specifications", "referencing", "rpds-py", "typing-extensions"),
    *("pytz", "tzdata"),
}
OTHERS = [
    version for version in ("3.11", "3.12", "3.13", "3.14") if version != ".".join(map(str, sys.version_info[:2]))
]


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    return finished_run(tmp_path_factory) / "project"


@pytest.fixture(scope="session")
def reference(finished):
    """What the run derived, in this Python."""
    return derived(finished)


def derive(project: Path, place: Path, python: str | Path = sys.executable, **variables: str) -> dict[str, bytes]:
    """The tables and figures that a copy of a project at this place derives."""
    copied(project, place)
    variables = {"PYTHONPATH": str(place / "workflow"), **variables}
    result = subprocess.run(
        [python, "-c", DERIVE],
        cwd=place,
        env=environment(place, gpu=False, **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return derived(place)


def assert_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def python_of(version: str) -> str | None:
    """An interpreter of this version: on the PATH, or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    for candidate in filter(None, candidates):
        answer = subprocess.run([candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
                                capture_output=True, text=True, check=False)  # fmt: skip
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return str(candidate)
    return None


def requirements() -> str:
    """The pins of PACKAGES with their hashes."""
    entries = re.split(r"\n(?=\S)", (ROOT / "envs" / "requirements.txt").read_text())
    return "\n".join(entry for entry in entries if entry.split("==")[0].strip() in PACKAGES) + "\n"


@pytest.fixture(scope="session", params=OTHERS)
def other_python(request, tmp_path_factory):
    """Another version's interpreter with the pinned packages."""
    python = python_of(request.param)
    if python is None:
        pytest.skip(f"Python {request.param} is not installed")

    def make(folder: Path) -> None:
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
        pins = folder / "requirements.txt"
        pins.write_text(requirements())
        own = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
        pip = [*own, "install", "--no-compile"]
        options = ["-q", "--retries", "1", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", pins]
        result = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
            (folder / "failure").write_text(lines[-1] if lines else "pip failed")

    folder = once(tmp_path_factory, f"python{request.param}", make)
    if (folder / "failure").exists():
        reason = (folder / "failure").read_text()
        assert "HASH" not in reason.upper(), reason
        pytest.skip(f"pip cannot install the packages for Python {request.param}: {reason}")
    return folder / "bin" / "python"


def test_neither_place_nor_environment_nor_the_users_matplotlibrc_changes_a_byte(finished, reference, tmp_path):
    elsewhere = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Asia/Tokyo"}
    elsewhere |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    elsewhere |= {"PYTHONHASHSEED": "4242"}
    lines = ["savefig.transparent: True", "savefig.bbox: tight", "axes.linewidth: 5", "lines.solid_capstyle: butt"]
    (tmp_path / "matplotlibrc").write_text("\n".join([*lines, "svg.image_inline: False", "path.simplify: False\n"]))
    own = {"MPLCONFIGDIR": str(tmp_path), "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    assert_same(derive(finished, tmp_path / "another place with spaces", **elsewhere, **own), reference)


def test_another_python_changes_no_byte(other_python, finished, reference, tmp_path):
    assert_same(derive(finished, tmp_path / "project", other_python), reference)
