"""This run against another: verdicts of NVBench's robust comparison on records, and what `snakemake compare` says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import line_of, take_for_checkout
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.baseline import find_baseline, identity
from ladder.show.comparison import compare_with, report
from ladder.show.figures import comparison
from ladder.show.static import draw
from ladder.system.paths import ROOT
from ladder.tables.comparison import COMPARISON_COLUMNS, compare, read_timings
from pipeline import FEW, FEW_RUNGS, RECORDED, copied, copy_project, snakemake
from test_why import assert_legible

TIMES = ROOT / "results" / RECORDED / "raw" / "time"
RUNG = "tiled@TILE=16"
SHAPES = [Shape(512, 512, 512), Shape(1024, 1024, 1024)]
ESTIMATES = ("min", "max", "mean", "q1", "median", "q3", "iqr/absolute", "ir/absolute", "stdev/absolute")


def scaled(source: Path, target: Path, factor: float) -> Path:
    """A copy of a time record in which every time, in the samples and in NVBench's summaries, is `factor` as long."""
    members = store.read_archive(source)
    for name in [name for name in members if name.endswith("nvbench.json")]:
        document = json.loads(members[name])
        folder = name.removesuffix("nvbench.json")
        for state in document["benchmarks"][0]["states"]:
            for summary in state["summaries"]:
                data = {datum["name"]: datum for datum in summary["data"]}
                if summary["tag"] in {f"nv/cold/time/gpu/{estimate}" for estimate in ESTIMATES}:
                    data["value"]["value"] = str(float(data["value"]["value"]) * factor)
                elif summary["tag"] == "nv/json/bin:nv/cold/sample_times":
                    inside = folder + data["filename"]["value"]
                    members[inside] = (np.frombuffer(members[inside], "<f4") * np.float32(factor)).tobytes()
        members[name] = json.dumps(document).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    store.write_archive(target, members)
    return target


def against(folder: Path, factor: float):
    """The recorded run of a rung against a copy whose times are `factor` of its own."""
    scaled(TIMES / f"{RUNG}.zip", folder / f"{RUNG}.zip", factor)
    return compare([RUNG], SHAPES, TIMES, folder, RECORDED)


def test_a_record_against_itself_is_the_same_everywhere():
    table = compare([RUNG, "cublas"], SHAPES, TIMES, TIMES, RECORDED)
    assert list(table.columns) == COMPARISON_COLUMNS
    assert list(table["rung"]) == [RUNG, RUNG, "cublas", "cublas"]
    assert set(table["verdict"]) == {"same"}
    assert set(table["change_percent"]) == {0.0}
    assert table["same_build"].all()


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "slower"), (0.95, "faster")])
def test_a_run_whose_every_sample_moved_is_told_apart(tmp_path, factor, verdict):
    table = against(tmp_path, factor)
    assert list(table["verdict"]) == [verdict, verdict]
    assert table["change_percent"].to_numpy() == pytest.approx(100 * (factor - 1), abs=0.01)
    assert (table["time_ms"] / table["time_ms_baseline"]).to_numpy() == pytest.approx(factor, abs=1e-4)
    assert table["change_percent"].between(table["change_percent_low"], table["change_percent_high"]).all()


def test_what_only_one_side_holds_is_left_out_and_said(tmp_path):
    scaled(TIMES / f"{RUNG}.zip", tmp_path / f"{RUNG}.zip", 1)
    table = compare([RUNG, "naive"], [*SHAPES, Shape(7, 7, 7)], TIMES, tmp_path, RECORDED)
    assert list(table["rung"]) == [RUNG, RUNG]
    assert list(table["shape"]) == ["512", "1024"]
    assert "not recorded in both: naive" in report(table, ["naive"], "elsewhere")


def test_the_report_writes_out_what_is_not_the_same(tmp_path):
    text = report(against(tmp_path, 1.05), [], "HEAD~1")
    assert text.startswith("against HEAD~1:\n")
    assert f"  {RUNG}" in text
    assert "+5.00 %" in text
    assert "0 faster, 2 slower, 0 same, 0 undecided" in text
    assert "another build" not in text
    changed = against(tmp_path, 1.05).assign(same_build=False)
    assert report(changed, [], "HEAD~1").count("; another build)") == 2


def test_sizes_are_compared_by_their_work(tmp_path):
    table = compare([RUNG], SHAPES[::-1], TIMES, TIMES, RECORDED)
    assert list(table["shape"]) == ["512", "1024"]


def test_nothing_in_common_is_one_line(tmp_path):
    scaled(TIMES / f"{RUNG}.zip", tmp_path / f"{RUNG}.zip", 1)
    text = line_of(compare_with, str(TIMES), RECORDED, ["naive"], SHAPES, tmp_path)
    assert text.endswith(": no rung of this run is recorded in both at any of its sizes")


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half of a record"])
def test_a_damaged_record_is_one_line_that_names_it(tmp_path, damage):
    (tmp_path / f"{RUNG}.zip").write_bytes(damage)
    assert RUNG in line_of(compare, [RUNG], SHAPES, tmp_path, TIMES, RECORDED)


def test_the_figure_of_every_shape_is_legible(tmp_path):
    other = "h200-sxm"  # which has more shapes on record
    times = ROOT / "results" / other / "raw" / "time"
    shapes = list(read_timings(times / "fastest.zip", "fastest", other))
    assert len(shapes) > 12
    for rung, factor in ((RUNG, 1.05), ("fastest", 0.95)):
        scaled(times / f"{rung}.zip", tmp_path / f"{rung}.zip", factor)
    table = compare([RUNG, "fastest"], shapes, times, tmp_path, other)
    assert {"faster", "slower"} <= set(table["verdict"])
    assert_legible(draw(comparison.figure(table), "Recorded once"))


def test_the_figure_writes_out_what_changed(tmp_path):
    figure = comparison.figure(against(tmp_path, 1.05))
    assert figure.title == "Against the baseline: 2 slower"
    axes = draw(figure, "Recorded once").axes[0]
    assert [text.get_text() for text in axes.texts] == ["+5.0\nslower"] * 2
    assert [label.get_text() for label in axes.get_xticklabels()] == ["512", "1024"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [RUNG]


# The baseline


@pytest.mark.parametrize("inside", ["", "time", "raw/time", f"results/{RECORDED}/raw/time"])
def test_a_baseline_is_found_in_a_checkout_a_results_folder_or_the_records_own(tmp_path, inside):
    folder = tmp_path / inside
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "naive.zip").touch()
    assert find_baseline(str(tmp_path), RECORDED, tmp_path) == folder


def test_a_folder_without_records_is_one_line_with_the_remedy(tmp_path):
    text = line_of(find_baseline, str(tmp_path), RECORDED, tmp_path)
    assert f"holds no time records of {RECORDED}; name a folder such as results/" in text


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit, which holds a time record."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "repository"
    record = folder / f"results/{RECORDED}/raw/time/naive.zip"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"recorded")
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "a run"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    take_for_checkout(folder, monkeypatch)
    return folder


def test_a_baseline_can_be_a_git_revision(repository, tmp_path):
    (repository / f"results/{RECORDED}/raw/time/naive.zip").write_bytes(b"measured anew")
    (tmp_path / "unpacked").mkdir()
    found = find_baseline("HEAD", RECORDED, tmp_path / "unpacked")
    assert (found / "naive.zip").read_bytes() == b"recorded"


@pytest.mark.parametrize("revision", ["no-such-revision", "--output=x", "HEAD:results"])
def test_an_unknown_revision_is_one_line(repository, tmp_path, revision):
    assert "is no folder, and no git revision with results/" in line_of(find_baseline, revision, RECORDED, tmp_path)
    assert not list(tmp_path.glob("*x*"))


def test_a_revision_without_git_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "(git is not installed); name a" in line_of(find_baseline, "HEAD", RECORDED, tmp_path)
    assert identity("HEAD", RECORDED) == ""


def test_a_baseline_is_another_one_when_its_records_or_its_commit_change(repository, tmp_path):
    folder = repository / f"results/{RECORDED}/raw/time"
    before = identity(str(folder), RECORDED)
    (folder / "naive.zip").write_bytes(b"measured anew")
    assert before != identity(str(folder), RECORDED) != ""
    assert len(identity("HEAD", RECORDED)) == 40
    assert identity("", RECORDED) == identity("no-such-revision", RECORDED) == ""


# The whole way


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A copy of the project, with another run beside it in which one rung was 5 % faster than in this one."""
    folder = tmp_path_factory.mktemp("compare")
    project = copy_project(folder / "project")
    for rung in FEW_RUNGS:
        factor = 0.95 if rung == RUNG else 1
        scaled(TIMES / f"{rung}.zip", folder / "other" / "raw" / "time" / f"{rung}.zip", factor)
    return project


def test_compare_makes_a_table_and_a_figure_and_says_what_is_slower(compared, tmp_path):
    project = copied(compared, tmp_path / "project")
    other = f"baseline={compared.parent / 'other'}"
    run = snakemake(project, [*FEW, other], "compare")
    assert run.status == 0, run.output
    assert "0 faster, 2 slower, 4 same, 0 undecided" in run.output
    made = {path.name for path in (project / f"results/{RECORDED}/selected/comparison").iterdir()}
    assert made == {"comparison.csv", "comparison.svg", "comparison.png"}
    failed = snakemake(project, [*FEW, other, "fail_on=slower"], "compare")
    assert failed.status != 0
    assert failed.errors == ["fail_on: slower: 2 of 6 are slower than the baseline"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ([], "baseline: not set; name a results folder or a git revision"),
        (["baseline=no-such-thing"], "baseline: 'no-such-thing' is no folder, and no git revision with"),
        (["baseline=1234567"], "--config: baseline: 1234567 is not of type string"),
        (["baseline=HEAD", "fail_on=faster"], "--config: fail_on: 'faster' is none of"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_line(compared, config, words):
    run = snakemake(compared, [*FEW, *config], "compare")
    assert run.status != 0
    assert [line for line in set(run.errors) if words in line], run.output
    assert len(set(run.errors)) == 1
