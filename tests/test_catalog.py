"""What the Snakemake workflow catalog asks of a workflow of standardized usage (its page «Adding workflows»)."""

from __future__ import annotations

import re

import yaml
from pipeline import FEW, ROOT, copy_project, snakemake

# The sections that the catalog knows in .snakemake-workflow-catalog.yml.
USAGE = {"mandatory-flags", "software-stack-deployment", "report"}
DEPLOYMENT = {"conda", "apptainer", "apptainer+conda", "singularity", "singularity+conda"}


def test_readme_rules_and_configuration_are_where_the_catalog_looks_for_them():
    words = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in words
    assert "workflow" in words
    assert list((ROOT / "workflow/rules").glob("*.smk"))
    assert (ROOT / "config/README.md").read_text().startswith("# Configuration")


def test_the_catalogs_own_file_has_the_sections_that_it_knows():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) <= USAGE
    deployment = usage["software-stack-deployment"]
    assert set(deployment) <= DEPLOYMENT
    assert deployment["conda"] is True
    assert (ROOT / "envs/gemm-ladder.yaml").exists()
    assert usage["report"] is True
    assert "report: " in (ROOT / "Snakefile").read_text()


def test_the_workflows_snakefile_plans_what_the_one_above_does(tmp_path):
    project = copy_project(tmp_path / "project")
    plans = []
    for file in ("Snakefile", "workflow/Snakefile"):
        run = snakemake(project, FEW, "--snakefile", file, "--dry-run")
        assert run.status == 0, run.output
        plans.append(set(re.findall(r"^(\w+) +(\d+)$", run.output, re.MULTILINE)) - {("all", "1"), ("catalog", "1")})
    assert len(plans[0]) > 8
    assert plans[0] == plans[1]


def test_a_rule_declares_no_parameter_that_its_script_does_not_read():
    read = 0
    for path in [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]:
        for _, rule, body in re.findall(r"^( *)rule (\w+):\n(.*?)(?=^\1\S|\Z)", path.read_text(), re.S | re.M):
            script = re.search(r"scripts/(\w+)\.py", body)
            params = re.search(r"^( +)params:\n(.*?)(?=^\1\S)", body, re.S | re.M)
            if script and params:
                text = (ROOT / f"workflow/scripts/{script[1]}.py").read_text()
                for name in re.findall(rf"^{params[1]}    (\w+)=", params[2], re.MULTILINE):
                    assert re.search(rf"params\.{name}\b", text), (path.name, rule, name)
                    read += 1
    assert read > 50
