"""The pages in docs, followed to the letter by someone who has just cloned the project."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import a_rung
from emulator import AWKWARD, compile_rung
from emulator import run as emulated
from ladder.build.library import Library
from ladder.config.documents import schema, validated, with_defaults
from ladder.config.wrapper import check_wrap
from ladder.system import nvml
from pipeline import ROOT, Run, an_h100, copy_project, environment, fenced

DOCS = ROOT / "docs"


def typed(folder: Path, commands: str, on_gpu: bool = False) -> Run:
    """What a shell says to the commands of a page."""
    result = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env=environment(folder, on_gpu),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Run(result.returncode, result.stdout)


# Quick start


def test_every_target_of_the_quick_start_has_a_plan(tmp_path):
    project = copy_project(tmp_path / "project")
    commands = [line for _, block in fenced(DOCS / "quick-start.md") for line in block.splitlines()]
    asked = [line.split("  #")[0].strip() for line in commands if line.startswith("snakemake")]
    here = [line for line in asked if "baseline" not in line and "--report" not in line]  # these need git, or a run
    assert len(here) >= 4
    run = typed(project, "\n".join(f"{line} --dry-run" for line in here))
    assert run.status == 0, run.output
    assert run.output.count("gemm-ladder: no GPU is measured") == len(here)


# The stages


def test_the_figure_of_the_stages_shows_rules_in_the_order_that_they_run(tmp_path):
    project = copy_project(tmp_path / "project")
    variables = environment(project, gpu=True, **an_h100(tmp_path / "nvml"))
    command = ["snakemake", "--rulegraph", "dot"]
    graph = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=True).stdout
    rules = dict(re.findall(r'(\d+)\[label = "(\w+)"', graph))
    edges = {(rules[one], rules[other]) for one, other in re.findall(r"(\d+) -> (\d+)", graph)}
    text = (DOCS / "stages.dot").read_text()
    drawn = set(re.findall(r"(\w+) -> (\w+);", text))
    stages = {stage for edge in drawn for stage in edge}
    assert {"compile", "check", "time", "profile", "tables", "all"} <= stages <= set(rules.values())
    assert drawn <= edges
    svg = (DOCS / "stages.svg").read_text()
    assert set(re.findall(r"<title>(\w+)&#45;&gt;(\w+)</title>", svg)) == drawn


# Kernels from anywhere, and in other languages


@pytest.mark.parametrize("page", ["kernels-from-anywhere", "languages"])
def test_every_entry_of_the_pages_is_one_that_kernels_yaml_may_hold(page):
    entries = [yaml.safe_load(text) for kind, text in fenced(DOCS / f"{page}.md") if kind == "yaml"]
    assert entries
    for entry in entries:
        for name, values in validated(entry, "kernels", page).items():
            if values.get("wrap") or values.get("language"):
                values = with_defaults(values, schema("kernels")["additionalProperties"])
                check_wrap(a_rung(name, **{key: values[key] for key in ("source", "wrap", "language")}), page)


# Add a GPU


def test_a_gpu_file_written_by_hand_is_compiled_for(tmp_path):
    (_, keep), (_, values), (_, command) = fenced(DOCS / "add-a-gpu.md")
    project = copy_project(tmp_path / "project", records=False)
    (project / "config/gpus/l40s.yaml").write_text(values)
    facts = yaml.safe_load(values)
    peak = facts["sms"] * facts["fp32_lanes_per_sm"] * 2 * facts["sm_clock_mhz"] / 1e6
    assert f"({peak:.1f} TFLOPS)" in facts["source"]
    run = typed(project, command)
    assert run.status == 0, run.output
    resources = pd.read_csv(project / "results/l40s/selected/tables/resources.csv")
    assert set(resources["architecture"]) == {"sm_89"}
    table = pd.read_csv(project / "results/l40s/selected/tables/rungs.csv", index_col="rung")
    assert table["status"].to_dict() == {"naive": "not recorded", "tma": "does not apply"}
    run = typed(project, keep)
    assert run.status != 0
    assert "gemm-ladder: gpu_file: there is no GPU here whose properties could be kept" in run.output


# Add a kernel


def with_my_kernel(folder: Path) -> tuple[Path, str, str]:
    """A copy in which steps 1 and 2 of the page are done, the command of step 3, and the one to work with."""
    (_, source), (_, entry), (_, command), _, (_, bench) = fenced(DOCS / "add-a-kernel.md")
    project = copy_project(folder / "project")
    (project / "kernels/sgemm/mine.cu").write_text(source)
    with (project / "config/kernels.yaml").open("a") as file:
        file.write(f"\n{entry}")
    return project, command, bench


def rungs(project: Path) -> pd.DataFrame:
    (folder,) = (project / "results").rglob("selected/tables")
    return pd.read_csv(folder / "rungs.csv", index_col="rung", keep_default_na=False)


def test_the_three_steps_add_a_kernel_that_compiles_and_is_inspected(tmp_path):
    project, command, bench = with_my_kernel(tmp_path)
    run = typed(project, command)
    assert run.status == 0, run.output
    table = rungs(project)
    assert list(table.index) == ["naive", "mine@WIDTH=4", "mine@WIDTH=8"]
    assert table.loc["mine@WIDTH=4", ["status", "before"]].tolist() == ["not recorded", "coalesced"]
    resources = pd.read_csv(project / "results/h100-sxm/selected/tables/resources.csv").set_index("rung")
    assert resources.loc["mine@WIDTH=4", ["spill_store_bytes", "multiplies"]].tolist() == [0, True]

    run = typed(project, bench)
    assert run.status == 0, run.output
    assert "mine@WIDTH=2: passes the check in the emulator" in run.output


def test_the_kernel_of_the_page_is_right(tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(fenced(DOCS / "add-a-kernel.md")[0][1])
    assert compile_rung(source, tmp_path / "mine.so") == ""
    library = Library(tmp_path / "mine.so")
    for case in AWKWARD:
        _, kinds, report = emulated(library, case, 1)
        assert not kinds, f"{case}: {kinds} {report}"


@pytest.mark.gpu
@pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")
def test_on_a_gpu_the_three_steps_measure_the_kernel(tmp_path):
    project, command, bench = with_my_kernel(tmp_path)
    path = project / "config/config.yaml"
    config = yaml.safe_load(path.read_text())
    config["profile"] = {"enabled": False}
    config["check"] |= {"shapes": [1, "31x33x32", 129], "family_shapes": ["33x65x17"]}
    path.write_text(yaml.safe_dump(config))
    run = typed(project, command, on_gpu=True)
    assert run.status == 0, run.output
    table = rungs(project)
    assert set(table["status"]) == {"ok"}
    assert set(table["timed_shapes"]) == {1}
    run = typed(project, bench, on_gpu=True)
    assert run.status == 0, run.output
    assert [line.split()[0] for line in run.output.splitlines()[-3:]] == ["1024", "512x2048x4096", "4095"]
