"""`make help` and `snakemake help`: every target there is, with what it does."""

from __future__ import annotations

import re
import subprocess

import pytest
from ladder.config.kernels import read_kernels
from pipeline import KEPT, ROOT, copy_project, environment, snakemake


def sections(text: str) -> dict[str, dict[str, str]]:
    """The entries of a listing below each of its headings: name and what is said of it."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if heading := re.match(r"(\w+) \(", line):
            entries = found.setdefault(heading[1], {})
        elif entry := re.match(r"  (\S+)  +(.*)", line):
            entries[entry[1]] = entry[2]
    return found


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """What `snakemake help` prints."""
    run = snakemake(copy_project(tmp_path_factory.mktemp("help") / "project"), [], "help")
    assert run.status == 0, run.output
    return run.output


def test_every_rule_is_listed_with_what_it_does(listed):
    found = sections(listed)
    names = set(re.findall(r"^ *rule (\w+):", "".join(map(_text, _sources())), re.MULTILINE))
    drawn = {"accuracy": "accuracy", "sustained": "energy"}  # stage -> the rule that is there where it is recorded
    records = {stage: (ROOT / "results").glob(f"*/raw/{stage}/*") for stage in drawn}
    absent = {drawn[stage] for stage, paths in records.items() if not KEPT & {path.stem for path in paths}}
    of_others = {"sanitize_rung", "survey_rung", "measure_hardware", "trials", "trial_builds", "measure_accuracy"}
    without_a_gpu = names - of_others - {"shipped"} - absent
    assert without_a_gpu == set(found["Targets"]) | set(found["Stages"])
    assert {"all", "tables", "figures", "tune", "across", "compare", "sanitize", "help"} <= set(found["Targets"])
    assert {"compile", "inspect", "emulate", "check", "time", "profile"} <= set(found["Stages"])
    assert all(len(text) >= 10 for entries in (found["Targets"], found["Stages"]) for text in entries.values())
    assert max(len(line) for line in listed.splitlines() if line.startswith("  ")) <= 120


def _sources():
    return [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]


def _text(path) -> str:
    return path.read_text()


def test_every_gpu_and_every_rung_is_listed_by_name(listed):
    for path in (ROOT / "config/gpus").glob("*.yaml"):
        assert re.search(rf"\b{path.stem}\b", listed), path.stem
    for name in read_kernels(ROOT / "config/kernels.yaml"):
        assert re.search(rf"(^|[ ]){re.escape(name)}(,|$)", listed, re.MULTILINE), name


def test_make_help_lists_every_documented_target():
    said = subprocess.run(
        ["make", "help"], cwd=ROOT, env=environment(ROOT, False), capture_output=True, text=True, check=True
    ).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    listed = re.findall(r"^make ([\w-]+) +\S", said, re.MULTILINE)
    assert set(phony) - {"dev", "other"} == set(listed)
    assert "make run ARGS=help" in said
