"""Recording a trial: what is compiled, checked and timed, and what its record carries."""

import json

import pytest
import trial
import write_docs
from conftest import a_device, time_run
from ladder.commands import bench
from ladder.config import plan
from ladder.records import store
from ladder.system import nvml, process
from ladder.tables.experiments import experiment_table
from pipeline import ROOT, TEST_KERNELS, contents
from test_bench import compiled_as_told

OWN = '#include "gemm.cuh"\n#ifndef TILE\n#define TILE 4\n#endif\n'


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A GPU whose checks and timings are made up, with records in a folder of its own; returns what was done."""
    done = {"checked": {}, "timed": None, "settings": None, "raw": tmp_path / "raw", "wrong": ""}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(process, "LOCKS", tmp_path)
    monkeypatch.setattr(nvml, "present", lambda index: a_device())
    monkeypatch.setattr(plan.Plan, "raw", lambda self: done["raw"])

    def check_rung(made, cases, *_):
        done["checked"][made.folder.name] = [str(case.shape) for case in cases]
        wrong = made.folder.name == done["wrong"]
        return {"status": "failed", "message": "7: NaN"} if wrong else {"status": "pass", "message": ""}

    def time_rung(rung, builds, shapes, expected, settings, device, where, record, *_):
        done["timed"], done["settings"] = (rung, list(builds), shapes), settings
        store.add_run(record, time_run(rung, {(kernel, shape): [1e-3] * 9 for shape in shapes for kernel in builds}))
        return ""

    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "check_rung", check_rung)
    monkeypatch.setattr(trial, "time_rung", time_rung)
    return done


def record(*arguments):
    return trial.main(["a_trial", *arguments, "--sizes", "512", "256"])


@pytest.fixture
def mine(tmp_path):
    """A kernel of one's own, with a header of its own."""
    (tmp_path / "own.cuh").write_text(OWN)
    source = (TEST_KERNELS / "sound.cu").read_text().replace('"gemm.cuh"', '"own.cuh"')
    (tmp_path / "mine.cu").write_text(source)
    return tmp_path / "mine.cu"


def test_a_file_is_held_to_the_precision_of_the_rung_that_is_named(mine):
    found = {rung.name: rung for rung in trial.planned([str(mine), "tf32"], ["512"], []).rungs}
    assert found["mine.cu"].precision == found["tf32"].precision == "tf32"
    assert found["mine.cu"].baselines == found["tf32"].baselines == ("cublas_tf32",)
    assert trial.planned([str(mine)], ["512"], []).rungs[0].precision == "fp32"


def test_variants_are_checked_at_the_sizes_and_timed_beside_cublas(measured, mine):
    assert record(f"{mine}@TILE=4", "tiled@TILE=8") == 0
    names = ["mine.cu@TILE=4", "tiled@TILE=8", "cublas"]
    assert measured["timed"] == (names[0], names, ["256", "512"])
    assert measured["checked"] == {name: ["512", "256"] for name in names}
    assert measured["settings"]["reference_budget_s"] == measured["settings"]["budget_s"]
    table = experiment_table([measured["raw"] / "experiments/a_trial.zip"], "cublas")
    assert set(zip(table["kernel"], table["shape"], strict=True)) == {(n, s) for n in names for s in ("256", "512")}


def test_the_record_carries_the_source_of_each_variant(measured, mine):
    assert record(f"{mine}@TILE=4", f"{mine}@TILE=8", "tiled@TILE=8") == 0
    ((_, files),) = store.read_runs(measured["raw"] / "experiments/a_trial.zip").items()
    assert files["sources/mine.cu/mine.cu"] == mine.read_bytes()
    assert files["sources/mine.cu/own.cuh"] == OWN.encode()
    assert files["sources/tiled/tiled.cu"] == (ROOT / "kernels/sgemm/tiled.cu").read_bytes()
    assert files["sources/tiled/gemm.cuh"] == (ROOT / "kernels/include/gemm.cuh").read_bytes()
    variants = json.loads(files["sources/variants.json"])
    assert variants["mine.cu@TILE=8"]["macros"] == {"TILE": "8"}
    assert set(variants["mine.cu@TILE=8"]["files"]) >= {"sources/mine.cu/mine.cu", "sources/mine.cu/own.cuh"}
    assert set(variants) == {"mine.cu@TILE=4", "mine.cu@TILE=8", "tiled@TILE=8"}


def test_a_record_is_never_replaced(measured, mine, capsys):
    assert record(str(mine)) == 0
    before = contents(measured["raw"])
    assert record("naive") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("a_trial.zip: exists, and records are never replaced; give another name")
    assert contents(measured["raw"]) == before


def test_nothing_is_recorded_of_a_wrong_variant(measured, mine, capsys):
    measured["wrong"] = "mine.cu"
    assert record("naive", str(mine)) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "record_trial: mine.cu: not timed, because its check failed: 7: NaN"
    assert measured["timed"] is None
    assert not measured["raw"].exists()


def test_nothing_is_recorded_where_the_timing_fails(measured, monkeypatch, capsys):
    monkeypatch.setattr(trial, "time_rung", lambda *_: "naive at 512: no progress for 120 s; stopped")
    assert record("naive") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "record_trial: a_trial: not recorded: naive at 512: no progress for 120 s; stopped"
    assert not measured["raw"].exists()


def test_two_files_of_one_name_are_told_apart_or_refused(measured, mine, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other/mine.cu"
    other.write_text(mine.read_text() + "// changed\n")
    other.with_name("own.cuh").write_text(OWN)
    assert record(str(mine), str(other)) == 1
    assert "mine.cu: given twice; a variant needs a name of its own" in capsys.readouterr().err
    assert record(f"{mine}@TILE=4", f"{other}@TILE=8") == 1
    clash = "mine.cu@TILE=8: sources/mine.cu/mine.cu: differs from that of another variant"
    assert clash in capsys.readouterr().err.splitlines()[-1]
    assert measured["timed"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a trial", "naive"], "'a trial' is no name of a record"),
        (["a_trial", "naive"], "run where `nvidia-smi` lists a GPU"),
        (["a_trial", "niave"], "'niave' is no kernel; did you mean naive?"),
        (["block_shapes", "naive"], "results/h100-sxm/raw/experiments/block_shapes.zip: exists"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(nvml, "present", lambda index: None)
    assert trial.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("record_trial: ")
    assert words in line


def test_the_page_shows_the_sources_of_a_recorded_trial(measured, mine, monkeypatch, tmp_path):
    measured["raw"] = tmp_path / "results/h100-sxm/raw"
    assert record(f"{mine}@TILE=4") == 0
    monkeypatch.setattr(write_docs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(write_docs, "described", lambda: {"records": {"a_trial": []}})
    path = measured["raw"] / "experiments/a_trial.zip"
    monkeypatch.setattr(write_docs, "rows", lambda *_, **__: experiment_table([path], "cublas"))
    (found,) = write_docs.trials()
    assert {"sources/mine.cu/mine.cu", "sources/mine.cu/own.cuh"} <= set(found["runs"][0]["sources"])
