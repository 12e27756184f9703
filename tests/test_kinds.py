"""A run of several kinds of GPU: each in its own folder, what is here measured, the rest shown, and `across` of all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import line_of
from ladder.commands.kinds import ONE_OF, command, kinds
from ladder.tables.files import read_table
from pipeline import FEW, FEW_RUNGS, H200, RECORDED, ROOT, a_machine, copied, finished_run, snakemake, with_stand_ins
from test_pool import NOT_MEASURED

OTHER = "h200-sxm"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"gpus": [RECORDED, "h100"]}, "config/config.yaml: gpus[1]: 'h100' has no file in config/gpus; did you mean "),
        ({"gpus": [RECORDED, RECORDED]}, f"config/config.yaml: gpus[1]: '{RECORDED}' is named twice; leave one out"),
        ({"gpus": [OTHER], "gpu": RECORDED}, f"gpu: '{RECORDED}', and gpus is set; leave out one"),
        (
            {"gpus": "h100-sxm"},
            "config/config.yaml: gpus: 'h100-sxm' is not of type array; it should be: none",
        ),
    ],
)
def test_what_names_no_kinds_is_one_line(config, line):
    assert line in line_of(kinds, config, {})


def test_a_run_of_one_kind_is_no_run_of_several(monkeypatch):
    assert kinds({"gpu": RECORDED}, {}) == []
    assert kinds({"gpus": [OTHER, RECORDED]}, {}) == [OTHER, RECORDED]
    monkeypatch.setenv(ONE_OF, f"{OTHER},{RECORDED}")
    assert kinds({"gpus": [OTHER, RECORDED]}, {}) == []


def test_the_run_of_a_kind_is_asked_for_as_the_user_asked():
    given = ["--cores", "2", "across", "report", "--config", f"gpus=[{OTHER}]", "measure=true", "-k"]
    made = command(given, ["across", "report"], ["report"], gpu=OTHER, measure="false")
    assert made[3:] == ["report", "--cores", "2", "-k", "--config", f"gpus=[{OTHER}]", f"gpu={OTHER}", "measure=false"]


def test_one_command_measures_what_is_here_shows_the_rest_and_sets_both_side_by_side(tmp_path_factory, tmp_path):
    project = with_stand_ins(copied(finished_run(tmp_path_factory) / "project", tmp_path / "project"))
    notes = tmp_path / "notes"
    notes.mkdir()
    uuid = f"GPU-eeeeeeee-{os.getpid()}"
    variables = a_machine(tmp_path / "nvml", (H200, uuid)) | {"STAND_IN_NOTES": str(notes)}
    for stage, ending in (("check", "json"), ("time", "zip")):
        folder = Path(f"results/{OTHER}/raw") / stage
        (project / folder).mkdir(parents=True)
        for rung in FEW_RUNGS:
            shutil.copy(ROOT / folder / f"{rung}.{ending}", project / folder)
    rungs = "kernels=[naive,tiled@TILE=16]"  # whose errors against k are not measured
    config = [rungs, *FEW[1:], *NOT_MEASURED, f"gpus=[{RECORDED},{OTHER}]"]
    run = snakemake(project, config, "across", gpu=True, **variables)
    assert run.status == 0, run.output
    assert run.said[0] == f"2 kinds of GPU, one after the other: {RECORDED}, {OTHER}"
    assert f"no GPU is measured: results are the measurements that ship, of {H200.replace('200', '100')}" in run.output
    assert f"measuring on {H200} (config/gpus/{OTHER}.yaml)" in run.output
    assert (project / f"results/{RECORDED}/selected/report.html").exists()
    assert (project / f"results/{OTHER}/devices/{uuid[:12]}/selected/report.html").exists()
    assert {path.name for path in notes.iterdir()} == {uuid}
    table = read_table(project / "results/across/selected/gpus.csv")
    assert set(table["gpu"]) == {RECORDED, OTHER, f"{OTHER} {uuid[:12]}"}
