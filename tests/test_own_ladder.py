"""A ladder outside the project, with its sources beside it: its rungs join ours, and the project stays as it is."""

import shutil
from pathlib import Path

import pytest
import yaml
from conftest import line_of, write
from ladder.commands import bench
from ladder.config.plan import RESULTS, plan
from ladder.config.sources import source_digest, source_of_rung
from pipeline import CHECK, TEST_KERNELS, contents, copy_project, snakemake

MINE = {"title": "an idea", "source": "src/mine.cu", "before": "coalesced"}


@pytest.fixture
def ladder(tmp_path):
    """Writes a ladder of these entries outside the project; gives its file."""

    def make(**entries) -> Path:
        write(tmp_path / "mine/src/mine.cu", '#include "gemm.cuh"\n#ifndef WIDTH\n#define WIDTH 4\n#endif\n')
        return write(tmp_path / "mine/kernels.yaml", yaml.safe_dump(entries, sort_keys=False))

    return make


def planned(ladder: Path, **settings):
    return plan({"gpu": "h100-sxm", "measure": False, "ladder": str(ladder), **settings})


def test_all_means_the_rungs_of_the_own_ladder_and_ours_are_what_they_are_compared_with(ladder):
    found = planned(ladder(mine=MINE, faster={**MINE, "before": "mine", "variants": [{"WIDTH": 2}, {"WIDTH": 8}]}))
    assert [rung.name for rung in found.rungs] == ["mine", "faster@WIDTH=2", "faster@WIDTH=8"]
    assert found.side_by_side("mine") == ["mine", "cublas", "cublas_best", "naive", "coalesced"]
    assert (found.baseline.name, found.first.name) == ("cublas", "naive")


def test_a_path_in_a_setting_of_a_command_begins_where_the_command_was_given(ladder, tmp_path, monkeypatch):
    file = ladder(mine=MINE)
    monkeypatch.chdir(tmp_path)
    run = bench.planned("mine", ["64"], ["gpu=h100-sxm", "ladder=mine/kernels.yaml", "results=kept"])
    assert run.rungs[0].file == str(file)
    assert run.results == tmp_path / "kept"


def test_rungs_of_both_ladders_can_be_chosen_by_name(ladder):
    file = ladder(mine=MINE)
    assert [rung.name for rung in planned(file, kernels=["mine", "naive"]).rungs] == ["naive", "mine"]


def test_sources_lie_beside_the_own_ladder_and_a_copy_of_them_elsewhere_is_the_same_code(ladder, tmp_path):
    (rung,) = planned(ladder(mine=MINE)).rungs
    assert source_of_rung(rung) == tmp_path / "mine/src/mine.cu"
    shutil.copytree(tmp_path / "mine", tmp_path / "copy")
    (copied,) = planned(tmp_path / "copy/kernels.yaml").rungs
    assert source_digest(copied) == source_digest(rung)


def test_records_and_tuned_parameters_are_kept_beside_the_own_ladder_or_where_the_user_says(ladder, tmp_path):
    file = ladder(mine=MINE)
    assert planned(file).raw() == tmp_path / "mine/results/h100-sxm/raw"
    elsewhere = planned(file, results=str(tmp_path / "else"))
    assert elsewhere.home() == tmp_path / "else/h100-sxm"
    assert elsewhere.tuned_path == str(tmp_path / "else/tuned/h100-sxm.yaml")
    assert plan({"gpu": "h100-sxm", "measure": False}).results == RESULTS


def test_the_tuned_file_beside_own_results_is_taken_for_own_rungs(ladder, tmp_path):
    file = ladder(mine=MINE)
    write(tmp_path / "mine/results/tuned/h100-sxm.yaml", "sizes: [1024]\nrungs:\n  mine: {1024: {WIDTH: 8}}\n")
    (rung,) = planned(file).rungs
    assert [each.macros for each in rung.tuned] == [{"WIDTH": "8"}]


def test_what_was_recorded_of_a_device_elsewhere_is_found_there(ladder, tmp_path):
    (tmp_path / "mine/results/h100-sxm/devices/GPU-7/raw").mkdir(parents=True)
    found = planned(ladder(mine=MINE), records="GPU-7")
    assert found.raw() == tmp_path / "mine/results/h100-sxm/devices/GPU-7/raw"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"naive": MINE}, "naive: is a rung of config/kernels.yaml too; give it another name"),
        ({"mine": {**MINE, "source": "lost.cu"}}, "mine.source: {folder}/lost.cu: there is no such file; make it"),
        ({"mine": {**MINE, "before": "coalescd"}}, "mine.before: 'coalescd' is no rung; did you mean coalesced?"),
        (
            {"mine": {**MINE, "variants": [{"WIDE": 2}]}},
            "mine.variants: mine@WIDE=2: {folder}/src/mine.cu has no macro",
        ),
        ({"mine": {**MINE, "tune": {"parameters": {"BM": [8]}}}}, "mine.tune: BM is no macro with a default in the"),
    ],
)
def test_what_is_wrong_in_the_own_ladder_is_one_line_that_names_its_file(ladder, entries, message):
    file = ladder(**entries)
    assert line_of(planned, file).startswith(f"{file}: {message.format(folder=file.parent)}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"ladder": "/nowhere/kernels.yaml"},
            "config/config.yaml: ladder: /nowhere/kernels.yaml: there is no such file; make it, or mend the name",
        ),
        (
            {"ladder": "/a b/kernels.yaml"},
            "config/config.yaml: ladder: '/a b/kernels.yaml': nvcc or Snakemake misreads ' '",
        ),
        (
            {"results": "/a{b}"},
            "config/config.yaml: results: '/a{b}': nvcc or Snakemake misreads '{' and '}' in a path",
        ),
        ({"results": "Snakefile"}, "config/config.yaml: results: "),
        ({"ladder": 3}, "config/config.yaml: ladder: 3 is not of type string"),
    ],
)
def test_a_place_that_cannot_be_is_one_line(settings, message):
    assert line_of(plan, {"gpu": "h100-sxm", "measure": False, **settings}).startswith(message)


def test_a_run_of_an_own_ladder_leaves_the_project_as_it_is(tmp_path):
    project = copy_project(tmp_path / "project", records=False)
    before = contents(project)
    folder = tmp_path / "mine"
    write(folder / "kernels.yaml", yaml.safe_dump({"mine": {**MINE, "source": "sound.cu"}}))
    shutil.copy(TEST_KERNELS / "sound.cu", folder)
    run = snakemake(project, [f"ladder={folder}/kernels.yaml", "sizes=[512]", CHECK])
    assert run.status == 0, run.output
    derived = folder / "results/h100-sxm/selected"
    assert "emulated" in (derived / "tables/rungs.csv").read_text()
    assert f"Source: `{folder}/sound.cu`" in (derived / "pages/mine.md").read_text()
    assert (folder / "results/build/h100-sxm/rungs/mine/library.so").is_file()
    kept = ("durations.json", "gemm-ladder.lock", "gemm-ladder.jobs.lock", "remeasure", "this_run")
    caches = (".snakemake/", "workflow/", *(f"build/{name}" for name in kept))  # __pycache__ below workflow/
    assert {path for path in contents(project).keys() - before.keys() if not path.startswith(caches)} == set()
    assert {name: contents(project)[name] for name in before} == before
