"""The pages in docs, followed to the letter by someone who has just cloned the project."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from corpus import AWKWARD, Library, compile_rung
from corpus import run as emulated
from ladder import gpu
from pipeline import ROOT, Run, copy_project, environment, fenced

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


# Add a kernel


def with_my_kernel(folder: Path) -> tuple[Path, str, str]:
    """A copy in which steps 1 and 2 of the page are done, the command of step 3, and the one to work with."""
    (_, source), (_, entry), (_, command), (_, bench) = fenced(DOCS / "add-a-kernel.md")
    project = copy_project(folder / "project")
    (project / "kernels/sgemm/mine.cu").write_text(source)
    with (project / "config/kernels.yaml").open("a") as file:
        file.write(f"\n{entry}")
    return project, command, bench


def rungs(project: Path) -> pd.DataFrame:
    (folder,) = (project / "results").glob("*/tables")
    return pd.read_csv(folder / "rungs.csv", index_col="rung", keep_default_na=False)


def test_the_three_steps_add_a_kernel_that_compiles_and_is_inspected(tmp_path):
    project, command, bench = with_my_kernel(tmp_path)
    run = typed(project, command)
    assert run.status == 0, run.output
    table = rungs(project)
    assert list(table.index) == ["naive", "mine@WIDTH=4", "mine@WIDTH=8"]
    assert table.loc["mine@WIDTH=4", ["status", "before"]].tolist() == ["not recorded", "coalesced"]
    resources = pd.read_csv(project / "results/h100-sxm/tables/resources.csv").set_index("rung")
    assert resources.loc["mine@WIDTH=4", "spill_store_bytes"] == 0

    run = typed(project, bench)
    assert run.status == 1
    assert "bench: mine@WIDTH=2: compiles for sm_90a; neither checked nor timed" in run.output


def test_the_kernel_of_the_page_is_right(tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(fenced(DOCS / "add-a-kernel.md")[0][1])
    result = compile_rung(source, tmp_path / "mine.so")
    assert result.returncode == 0, result.stderr
    library = Library(tmp_path / "mine.so")
    for case in AWKWARD:
        _, kinds, report = emulated(library, case, 1)
        assert not kinds, f"{case}: {kinds} {report}"


@pytest.mark.gpu
@pytest.mark.skipif(gpu.present() is None, reason="there is no GPU here")
def test_on_a_gpu_the_three_steps_measure_the_kernel(tmp_path):
    project, command, bench = with_my_kernel(tmp_path)
    run = typed(project, command, on_gpu=True)
    assert run.status == 0, run.output
    table = rungs(project)
    assert set(table["status"]) == {"ok"}
    assert set(table["timed_shapes"]) == {1}
    run = typed(project, bench, on_gpu=True)
    assert run.status == 0, run.output
    assert [line.split()[0] for line in run.output.splitlines()[-3:]] == ["1024", "512x2048x4096", "4095"]
