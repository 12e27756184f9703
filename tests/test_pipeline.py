"""Real runs of the pipeline on a machine without a GPU, or with its GPU hidden."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from ladder.config.plan import recorded_on
from ladder.records import store
from ladder.records.digests import build_of
from ladder.system.process import gpu_lock
from pipeline import (
    CHECK,
    FEW,
    FEW_RUNGS,
    RECORDED,
    ROOT,
    SIZES,
    Run,
    add_kernel,
    an_h100,
    contents,
    copied,
    copy_project,
    derived,
    environment,
    few,
    finished_run,
    once,
    selected,
    snakemake,
    started,
    wait_for,
)

TABLES = {"rungs", "timings", "geomeans", "checks", "resources", "profiles", "advice", "environment", "published"}
RAW = f"results/{RECORDED}/raw"


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The project after a run, which tests may read but not change."""
    return finished_run(tmp_path_factory) / "project"


@pytest.fixture(scope="session")
def finished_log(finished):
    """What that run printed."""
    return Run(0, (finished.parent / "log").read_text())


@pytest.fixture
def project(finished, tmp_path):
    """The project after a run, to run it again."""
    return copied(finished, tmp_path / "project")


@pytest.fixture
def fresh(finished, tmp_path):
    """The project before its first run."""
    return copied(finished.parent / "source", tmp_path / "project")


def table(folder: Path, name: str, gpu: str = RECORDED) -> pd.DataFrame:
    return pd.read_csv(selected(folder, gpu) / "tables" / f"{name}.csv")


def statuses(folder: Path, gpu: str = RECORDED) -> dict[str, str]:
    return dict(table(folder, "rungs", gpu)[["rung", "status"]].to_numpy())


def one_error(run: Run) -> str:
    """The one line in which a run said what was wrong."""
    assert run.status != 0, run.output
    assert "Traceback" not in run.output
    assert "Nothing to be done" not in run.output
    assert len(run.errors) == 1, run.output
    return run.errors[0]


# What a run does


def test_a_dry_run_plans_every_stage_that_needs_no_gpu_and_makes_nothing(fresh):
    before = contents(fresh / "results")
    run = snakemake(fresh, [], "--dry-run")
    planned = dict(re.findall(r"^([a-z]+) +([0-9]+)$", run.output, re.MULTILINE))
    assert run.status == 0, run.output
    assert {"compile", "inspect", "tables", "figures", "all"} <= planned.keys()
    assert not {"check", "time", "profile"} & planned.keys()
    assert planned["compile"] == planned["inspect"]
    assert int(planned["compile"]) >= len(yaml.safe_load((fresh / "config/kernels.yaml").read_text()))
    assert not (fresh / "build" / RECORDED).exists()
    assert contents(fresh / "results") == before


def test_a_run_says_first_whose_measurements_it_shows(finished, finished_log):
    records = [json.loads(path.read_text()) for path in (finished / RAW / "check").glob("*.json")]
    gpus = {record["where"]["gpu"]["name"] for record in records}
    days = {record["where"]["measured_at"][:10] for record in records}
    first = finished_log.said[0]
    assert all(word in first for word in gpus | {min(days), max(days)})
    assert first.endswith(f"{recorded_on(finished / RAW)}")


def test_the_first_line_of_make_run_says_whose_measurements_it_shows(fresh):
    shutil.copy2(ROOT / "Makefile", fresh)
    (fresh / ".venv").symlink_to(sys.prefix)
    made = ["make", "--old-file", ".venv/.requirements", "run", "ENV=requirements", "ARGS=--dry-run"]
    variables = {key: value for key, value in environment(fresh, gpu=False).items() if not key.startswith("MAKE")}
    run = subprocess.run(made, cwd=fresh, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout
    first, shown = run.stdout.splitlines()[0], recorded_on(fresh / RAW)
    assert first == f"gemm-ladder: no GPU is measured: results are the measurements that ship, of {shown}"


def makefile() -> str:
    """The Makefile with every command on one line."""
    return (ROOT / "Makefile").read_text().replace(" \\\n\t  ", " ")


def test_make_run_has_the_settings_of_the_profile():
    profile = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text())
    (asked,) = re.findall(r"\$\(TOOLS\) python -m snakemake (--workflow-profile none .*) \$\(ARGS\)\n", makefile())
    flags = dict(re.findall(r"--([a-z-]+) ?((?:(?!--)\S)*)", asked))
    del flags["workflow-profile"]
    written = {key: "" if value is True else "".join(value) for key, value in profile.items()}
    assert flags == written


def test_every_figure_says_whose_measurements_it_shows(finished):
    recorded = recorded_on(finished / RAW)
    figures = sorted((selected(finished) / "figures").glob("*.svg"))
    assert len(figures) >= 3
    for figure in figures:
        texts = re.findall(r"<!-- (.*?) -->", figure.read_text())
        said = recorded.split(",")[0] if figure.stem == "tuning" else recorded  # trials have days of their own
        assert [text for text in texts if f"Recorded on {said}" in text], figure.name


def test_a_run_makes_every_table_and_figure(finished):
    results = selected(finished)
    assert {path.stem for path in (results / "tables").glob("*.csv")} >= TABLES
    figures = {path.name for path in (results / "figures").iterdir()}
    dark = {"overview_dark.png"}  # of an SVG the style is in the file
    assert {name for name in figures if name.endswith(".png")} - dark == {
        f"{Path(name).stem}.png" for name in figures if name.endswith(".svg")
    }
    assert all(path.stat().st_size > 0 for path in results.rglob("*.*"))
    assert statuses(finished) == dict.fromkeys(FEW_RUNGS, "ok")
    timed = table(finished, "timings")
    assert {(row.rung, row.shape) for row in timed.astype({"shape": str}).itertuples()} == {
        (rung, size) for rung in FEW_RUNGS for size in ("512", "1024")
    }


def test_a_run_ends_with_a_summary_of_every_rung(finished_log):
    summary = finished_log.output[finished_log.output.rindex("rung at 1024") :]
    assert all(rung in summary for rung in FEW_RUNGS)
    assert f"results/{RECORDED}/selected/figures" in summary


def test_a_run_changes_no_record(finished):
    assert contents(finished / RAW) == contents(finished.parent / "source" / RAW)


def test_a_second_run_has_nothing_to_do_and_prints_the_summary_again(project, finished_log):
    before = derived(project)
    run = snakemake(project, FEW)
    assert run.status == 0, run.output
    assert "1 of 1 steps" in run.output
    assert re.search(r"^rung at 1024 .*report\.html$", finished_log.output, re.MULTILINE | re.DOTALL)[0] in run.output
    assert derived(project) == before


def test_what_is_derived_of_rungs_and_sizes_that_are_gone_goes_with_them_and_the_whole_ladder_stays(project):
    whole = project / "results" / RECORDED
    kept = {whole / name: b"kept" for name in ("all/pages/tma.md", "all/report.html", "tables/rungs.csv")}
    for path, content in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    selected(project).joinpath("comparison").mkdir()
    selected(project).joinpath("comparison/old.csv").touch()
    run = snakemake(project, ["kernels=[naive]", "sizes=[512]", CHECK])
    assert run.status == 0, run.output
    pages = {"naive", "README", "published", "timeline", "hardware"}
    assert {path.stem for path in selected(project).glob("pages/*")} == pages
    assert {path.stem for path in selected(project).glob("drawings/*")} == {"naive"}
    assert not selected(project).joinpath("comparison").exists()
    assert set(table(project, "timings")["shape"]) == {512}
    assert {path: path.read_bytes() for path in kept} == kept


def planned(run) -> set[str]:
    """The rules of which a dry run plans a job."""
    assert run.status == 0, run.output
    return set(re.findall(r"^([a-z_]+) +[0-9]+$", run.output, re.MULTILINE)) - {"total"}


def test_a_change_of_the_package_derives_anew_what_depends_on_it_and_nothing_else(project):
    with (project / "workflow/ladder/show/summary.py").open("a") as file:
        file.write("# changed\n")
    assert planned(snakemake(project, FEW, "--dry-run")) == {"all"}
    with (project / "workflow/ladder/model/bounds.py").open("a") as file:
        file.write("# changed\n")
    again = planned(snakemake(project, FEW, "--dry-run"))
    assert again >= {"emulate", "tables", "figures"}
    assert not again & {"compile", "inspect"}


def test_until_compile_makes_libraries_and_nothing_else(fresh):
    run = snakemake(fresh, ["kernels=[naive]"], "--until", "compile")
    assert run.status == 0, run.output
    assert (fresh / "build" / RECORDED / "rungs/naive/library.so").is_file()
    assert not derived(fresh)
    assert not (fresh / "build" / RECORDED / "inspect").exists()


def test_other_sizes_can_come_from_a_config_file(project):
    (project / "mine.yaml").write_text("sizes: [512]\nkernels: [naive, tiled@TILE=16]\n")
    run = snakemake(project, [CHECK], "--configfile", "mine.yaml", "--until", "tables")
    assert run.status == 0, run.output
    timed = table(project, "timings")
    assert set(timed["shape"]) == {512}
    assert set(timed["rung"]) == {"naive", "tiled@TILE=16"}


def test_the_report_is_made_without_a_network(project):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    run = snakemake(project, FEW, "--report", "report.html", **nowhere)
    assert run.status == 0, run.output
    page = (project / "report.html").read_text()
    assert "</html>" in page
    assert not re.search(r"""<(?:script|link|img)[^>]*(?:src|href)=["']?https?:""", page)
    assert all(name in page for name in ("gflops_by_size.svg", "share_of_cublas.svg", "timings.csv"))
    assert f"recorded on {recorded_on(project / RAW)}." in page


def test_evidence_of_a_selection_is_refused_in_one_line(project):
    assert one_error(snakemake(project, FEW, "evidence")).startswith("evidence: it is of the whole ladder; ")


def test_evidence_is_copied_to_where_git_keeps_it_and_what_changed_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    derived = ["results/g/all/tables/rungs.csv", "results/g/all/figures/overview.png", "results/across/all/gpus.csv"]
    for name in (*derived, "results/g/tables/rungs.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(Path(name).name)
    job = SimpleNamespace(input=SimpleNamespace(derived=derived), log=["log"], rule="evidence", wildcards={})
    job.config = {"quiet": False}
    runpy.run_path(str(ROOT / "workflow/scripts/evidence.py"), {"snakemake": job})
    assert capsys.readouterr().err.splitlines()[1:] == [
        "2 of 3 files changed",
        "results/g/figures/overview.png",
        "results/across/gpus.csv",
    ]
    assert {name.replace("/all/", "/") for name in derived} <= {f"results/{name}" for name in contents(Path("results"))}


@pytest.mark.parametrize("folder", ["all", "selected"])
def test_git_looks_at_nothing_that_a_run_derives(folder):
    paths = [f"results/{gpu}/{folder}/{name}" for gpu in (RECORDED, "t4", "across") for name in ("a/b.csv", "c.html")]
    said = subprocess.run(["git", "check-ignore", *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.stdout.split() == paths


# Other GPUs


def test_a_gpu_without_records_is_compiled_and_inspected(project):
    config = ["gpu=t4", "kernels=[naive,tiled@TILE=8]", "sizes=[512]", CHECK]
    run = snakemake(project, config)
    assert run.status == 0, run.output
    assert "nothing is recorded" in run.said[0]
    assert statuses(project, "t4") == {"naive": "not recorded", "tiled@TILE=8": "not recorded"}
    resources = table(project, "resources", "t4")
    assert set(resources["architecture"]) == {"sm_75"}
    assert (resources["registers"] > 0).all()
    assert not (selected(project, "t4") / "figures").exists()
    run = snakemake(project, config, "--report", "report.html")
    assert run.status == 0, run.output
    assert "Nothing is recorded for this GPU" in (project / "report.html").read_text()


def test_a_gpu_that_this_nvcc_cannot_compile_for_is_said_once_with_the_remedy(project):
    run = snakemake(project, ["gpu=v100", "kernels=[naive,coalesced,tiled]", "sizes=[512]"], "--cores", "4")
    line = one_error(run)
    assert "sm_70" in line
    assert "envs/cuda12.txt" in line


def test_with_conda_the_compiler_is_looked_for_where_the_jobs_run(project):
    run = snakemake(project, ["gpu=v100", "compile={nvcc: /no/such/nvcc}"], "--sdm", "conda", "--list-rules")
    assert run.status == 0, run.output
    assert re.search(r"^compile \(", run.output, re.MULTILINE)


# As much of conda as Snakemake asks for; its environments have a Python that is the tests' own and says what it runs.
CONDA = """#!/bin/sh
case "$*" in
  --version) echo conda 24.7.1;;
  info*) echo '{{"conda_prefix": "{0}", "platform": "linux-64"}}';;
  config*) echo '{{"get": {{"channel_priority": "strict"}}}}';;
  "env create "*) mkdir -p "$8/bin"; cp "$6" {0}/asked.yaml; cp {0}/python "$8/bin";;
esac
"""


def a_conda(folder: Path) -> tuple[str, Path]:
    """A PATH with a conda that is made in this folder, and the file in which its Pythons note what they run."""
    prefix, jobs = folder / "conda", folder / "jobs"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/activate").write_text('PATH="$1/bin:$PATH"\n')
    for path, script in {
        prefix / "bin/conda": CONDA.format(prefix),
        prefix / "python": f'#!/bin/sh\necho "$@" >> {jobs}\nexec {sys.executable} "$@"\n',
    }.items():
        path.write_text(script)
        path.chmod(0o755)
    return os.pathsep.join([str(prefix / "bin"), os.environ["PATH"]]), jobs


def test_with_conda_every_job_runs_in_the_environment(project, tmp_path):
    path, jobs = a_conda(tmp_path)
    run = snakemake(project, ["kernels=[naive]", "sizes=[512]", CHECK], "--sdm", "conda", "--forceall", PATH=path)
    assert run.status == 0, run.output
    assert (tmp_path / "conda/asked.yaml").read_bytes() == (ROOT / "envs/gemm-ladder.yaml").read_bytes()
    steps = int(re.search(r"^(\d+) of \1 steps", run.output, re.MULTILINE)[1])
    assert len(re.findall(r"\.snakemake/scripts/", jobs.read_text())) == steps
    assert "Activating" not in run.output


def test_a_profile_that_the_machine_prevented_is_no_record_and_is_tried_again(project, tmp_path):
    record, recorded = f"{RAW}/profile/naive.json.xz", store.read_json(project / f"{RAW}/check/naive.json")["where"]
    made = {"rung": "naive", "status": "ok", "message": "", "build_digest": build_of(recorded)}
    store.write_json(project / f"build/{RECORDED}/rungs/naive/compile.json", made)
    (project / record).unlink()
    has_gpu = an_h100(tmp_path / "gpu") | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}  # and has no ncu

    def profiled() -> bool:
        run = snakemake(
            project,
            ["profile={sizes: [512]}", "records=shipped"],
            record,
            "--allowed-rules",
            "profile",
            gpu=True,
            **has_gpu,
        )
        assert run.status == 0, run.output
        return "[profile] naive  not profiled  ncu: not found" in run.output

    assert [profiled(), profiled()] == [True, True]
    assert (store.read_json(project / record)["failure"], store.read_json(project / record)["shapes"]) == (None, {})
    next((project / "build").rglob("undone")).unlink()
    assert not profiled()


@pytest.mark.parametrize("asked", [["--until", "time"], ["check"]])
def test_a_stage_that_measures_is_refused_in_one_line_without_a_gpu(project, asked):
    line = one_error(snakemake(project, [], *asked))
    assert line.startswith(f"{asked[-1]}: nothing is measured here; ")


# What the user may get wrong


@pytest.mark.parametrize("asked", [["tables", "all"], ["inspect", "compile"]])
def test_several_stages_to_stop_after_are_refused_in_one_line(project, asked):
    line = one_error(snakemake(project, FEW, "--until", *asked))
    assert line.startswith(f"--until: {' '.join(sorted(asked))}: name one stage, the last; ")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (["gpu=nonsense"], ["gpu", "'nonsense'", "h100-sxm"]),
        (["kernel=[naive]"], ["--config: kernel:", "kernels"]),
        (["sizes=[512,0]"], ["--config: sizes[1]", "0", "positive integer"]),
        (["sizes=[big]"], ["--config: sizes[0]", "'big'", "1024"]),
        (["kernels=['../naive; touch broken']"], ["--config: kernels[0]", "'../naive; touch broken'", "known: "]),
        (["measure=true"], ["no GPU here"]),
    ],
    ids=["gpu", "key", "zero", "word", "name", "measure"],
)
def test_a_setting_that_cannot_be_is_one_line_that_names_it(project, config, words):
    line = one_error(snakemake(project, config))
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        (["table"], ["did you mean tables?"]),
        (["no-such"], ["targets: ", " all, ", " time, "]),
        (["--dry-run", "a file.csv"], ["targets: "]),
        (["--until", "no-such"], ["targets: "]),
        (["build/t4/rungs/naive"], ["targets: "]),
        (["build/h100-sxm/rungs/naiv"], ["did you mean naive?"]),
    ],
)
def test_a_target_that_nothing_makes_is_one_line_that_says_what_can_be_made(fresh, asked, answers):
    run = snakemake(fresh, [], *asked)
    line = one_error(run)
    assert Path(asked[-1]).name in line
    assert all(answer in line for answer in answers), line
    assert "MissingRule" not in run.output


def test_a_wrong_setting_in_a_config_file_names_the_file(project):
    (project / "mine.yaml").write_text("sizes: [512, -1]\n")
    assert "mine.yaml: sizes[1]" in one_error(snakemake(project, [], "--configfile", "mine.yaml"))


def test_an_entry_with_a_name_that_a_path_or_a_shell_reads_is_one_line_that_names_it(project):
    name = "../my kernel$(touch broken)"
    with (project / "config" / "kernels.yaml").open("a") as file:
        file.write(f"\n{name!r}:\n  title: a kernel of the tests\n  source: sgemm/naive.cu\n")
    line = one_error(snakemake(project, FEW))
    assert line.startswith(f"config/kernels.yaml: (top level): {name!r} is not valid; it should be: ")
    assert not list(project.rglob("broken"))


def test_an_entry_without_its_source_is_one_line_that_names_it(project):
    add_kernel(project, "sound")
    (project / "kernels" / "sgemm" / "sound.cu").unlink()
    line = one_error(snakemake(project, FEW))
    assert line.startswith("config/kernels.yaml: sound.source: kernels/sgemm/sound.cu")


# Where a GPU is


def test_remeasure_alone_checks_and_times_anew_what_the_records_hold(project, tmp_path):
    def run(*arguments, more=()):
        config = ["kernels=[naive,cublas]", "timing={references: [cublas, naive]}", SIZES, "records=shipped", *more]
        return snakemake(project, config, "--until", "time", *arguments, gpu=True, **variables)

    variables = an_h100(tmp_path / "nvml")
    assert run("--touch").status == 0
    assert planned(run("--dry-run")) == set()
    assert planned(run("--dry-run", more=["remeasure=true"])) == {"check", "time"}


def test_a_record_of_another_gpu_is_measured_by_no_job_of_this_one(fresh, tmp_path):
    shutil.copytree(fresh / RAW, fresh / "results/h200-sxm/raw")
    run = snakemake(fresh, [], "across", "--dry-run", "--quiet", "host", gpu=True, **an_h100(tmp_path / "nvml"))
    assert run.status == 0, run.output
    assert set(re.findall(r"gpu=([a-z]\S+?),", run.output)) == {RECORDED}


# Rungs that fail

FAILING = ("syntax_error", "no_export", "undefined_symbol", "aborts")
WRONG = "coalesced"  # which is recorded; its source loses the guard at the edges


@pytest.fixture(scope="session")
def with_a_new_rung(finished, tmp_path_factory):
    """The finished project, run again after a rung was dropped into it that nobody measured."""

    def make(folder):
        project = copied(finished, folder)
        add_kernel(project, "sound")
        run = snakemake(project, few("sound"))
        (project / "status").write_text(str(run.status))
        (project / "log").write_text(run.output)

    return once(tmp_path_factory, "with_a_new_rung", make)


def test_a_new_rung_is_shown_as_not_recorded(with_a_new_rung):
    assert (with_a_new_rung / "status").read_text() == "0"
    assert statuses(with_a_new_rung) == {**dict.fromkeys(FEW_RUNGS, "ok"), "sound": "not recorded"}
    rows = [line.split() for line in (with_a_new_rung / "log").read_text().splitlines()]
    assert ["sound", "not", "recorded", "emulated"] in rows
    assert "sound" in set(table(with_a_new_rung, "resources")["rung"])
    assert "sound" not in set(table(with_a_new_rung, "timings")["rung"])


def test_a_new_rung_leaves_the_builds_of_the_others_alone(with_a_new_rung, finished):
    for rung in FEW_RUNGS:
        library = Path("build") / RECORDED / "rungs" / rung / "library.so"
        assert (with_a_new_rung / library).stat().st_mtime_ns == (finished / library).stat().st_mtime_ns, rung


@pytest.fixture(scope="session")
def with_rungs_that_fail(finished, tmp_path_factory):
    """The finished project, run again with rungs that fail, each in a way of its own."""

    def make(folder):
        project = copied(finished, folder)
        shutil.rmtree(selected(project) / "figures")
        for source in FAILING:
            add_kernel(project, source)
        source = project / f"kernels/sgemm/{WRONG}.cu"
        guarded = source.read_text()
        source.write_text(guarded.replace("if (row >= g.m || col >= g.n) {", "if (false) {"))
        assert source.read_text() != guarded
        run = snakemake(project, few(*FAILING, WRONG))
        (project / "log").write_text(run.output)
        assert run.status != 0, run.output

    return once(tmp_path_factory, "with_rungs_that_fail", make)


def test_a_rung_that_does_not_compile_fails_alone_with_the_compilers_line(with_rungs_that_fail):
    said = (with_rungs_that_fail / "log").read_text()
    assert "Traceback" not in said
    message = 'does not compile: kernels/sgemm/syntax_error.cu(5): error: identifier "no_such_kernel" is undefined'
    assert said.count(f"syntax_error: {message}") == 1
    found = statuses(with_rungs_that_fail)
    assert found.pop("syntax_error") == "does not compile"
    assert {rung: found.get(rung) for rung in FEW_RUNGS} == dict.fromkeys(FEW_RUNGS, "ok")
    assert found.keys() == {*FEW_RUNGS, *FAILING, WRONG} - {"syntax_error"}
    assert set(table(with_rungs_that_fail, "timings")["rung"]) == set(FEW_RUNGS)
    assert len(list((selected(with_rungs_that_fail) / "figures").glob("*.svg"))) >= 3


def test_rungs_whose_libraries_cannot_be_used_fail_alone(with_rungs_that_fail):
    said = (with_rungs_that_fail / "log").read_text()
    assert f"Figures: results/{RECORDED}/selected/figures" in said, "there is no summary"
    messages = dict(table(with_rungs_that_fail, "rungs")[["rung", "message"]].fillna("").to_numpy())
    assert "EXPORT_SGEMM" in messages["no_export"]
    assert "defined_nowhere" in messages["undefined_symbol"]


def test_a_rung_that_the_emulator_finds_wrong_is_told_and_its_recorded_times_are_not_shown(with_rungs_that_fail):
    said = (with_rungs_that_fail / "log").read_text()
    (told,) = (line for line in said.splitlines() if line.startswith(f"  {WRONG}: wrong: in the emulator: "))
    found, thread, _ = told.removeprefix(f"  {WRONG}: wrong: in the emulator: ").partition(" thread (")
    assert found.startswith("1x1x1: out of bounds: ")
    assert found.endswith(f"sgemm_{WRONG} block (0,0,0)")
    assert thread
    assert f"; {WRONG}.cu:" in told
    assert any(line.startswith(f"[emulate] {WRONG}  failed  1x1x1: out of bounds: ") for line in said.splitlines())
    summary = said[said.index("rung at 1024") :]
    rows = [line.split() for line in summary.splitlines()]
    (naive,) = (row for row in rows if row[:1] == ["naive"])
    assert (naive[2], naive[-1]) == ("ms", "emulated")
    assert [WRONG, "wrong", "wrong"] in rows

    assert (with_rungs_that_fail / RAW / f"time/{WRONG}.zip").exists()
    rungs = table(with_rungs_that_fail, "rungs").set_index("rung")
    assert rungs.loc[WRONG, ["status", "emulation"]].tolist() == ["wrong", "wrong"]
    assert rungs.loc[WRONG, "message"].startswith(f"in the emulator: {found}")
    assert rungs.loc["naive", ["status", "emulation"]].tolist() == ["ok", "emulated"]
    for name in ("timings", "geomeans"):
        shown = set(table(with_rungs_that_fail, name)["rung"])
        assert "naive" in shown
        assert WRONG not in shown
    figure = (selected(with_rungs_that_fail) / "figures/gflops_by_size.svg").read_text()
    assert "naive" in figure
    assert WRONG not in figure
    page = (selected(with_rungs_that_fail) / f"pages/{WRONG}.md").read_text()
    assert found in page


# Records that cannot be read


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_a_wrong_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content)


def of_another_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"schema_version": 1,', b'"schema_version": 999,'))


@pytest.mark.parametrize(
    ("record", "damage", "word"),
    [
        ("check/naive.json", truncated, "damaged"),
        ("check/naive.json", of_another_version, "schema_version: 999"),
        ("time/naive.zip", truncated, "damaged"),
        ("time/naive.zip", with_a_wrong_byte, "damaged"),
        ("profile/naive.json.xz", truncated, "damaged"),
    ],
    ids=lambda value: value.__name__ if callable(value) else value,
)
def test_a_record_that_cannot_be_read_is_one_line_that_names_it_and_stays(project, record, damage, word):
    path = project / RAW / record
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        store.write_json(path, {"rung": "naive", "failure": None, "shapes": {}})
    damage(path)
    before = contents(project / RAW)
    line = one_error(snakemake(project, FEW))
    assert f"{RAW}/{record}" in line
    assert word in line
    assert contents(project / RAW) == before


# Where the project lies, and how its files and rungs are named


def python_of(folder: Path) -> Path:
    """The Python of an environment inside a copy, made of links to this one's."""
    environment = folder / ".venv"
    library = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(Path(sys.executable).resolve())
    (environment / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (environment / library.parent).mkdir(parents=True)
    (environment / library).symlink_to(sysconfig.get_path("purelib"))
    return environment / "bin/python"


def test_a_checkout_may_lie_in_any_folder_and_a_rung_bear_a_rules_name_and_a_source_any(tmp_path, monkeypatch):
    folder = copy_project(tmp_path / "o'neil & co #1 (ü; 100%)", records=False)
    source = folder / "kernels/sgemm/My-Kernel.v2.cu"
    source.write_bytes((folder / "kernels/sgemm/naive.cu").read_bytes())
    with (folder / "config/kernels.yaml").open("a") as file:
        file.write(f"\ninspect:\n  title: a kernel of the tests\n  source: sgemm/{source.name}\n")
    monkeypatch.setattr(sys, "executable", str(python_of(folder)))
    asked = ["kernels=[inspect]", "check={shapes: [1], family_shapes: [1]}"]
    for rule, stage, status in (("inspect", "inspect", "ok"), ("emulate", "emulated", "emulated")):
        run = snakemake(folder, asked, "--until", rule)
        assert run.status == 0, run.output
        assert json.loads((folder / f"build/{RECORDED}/{stage}/inspect.json").read_text())["status"] == status


def test_a_folder_whose_name_nvcc_or_snakemake_cannot_take_is_refused_before_any_job(tmp_path):
    folder = copy_project(tmp_path / 'a"$`\\{}b', records=False)
    line = one_error(snakemake(folder, ["kernels=[naive]"]))
    assert all(repr(letter) in line for letter in '"$`\\{}')
    assert not (folder / "build").exists()


@pytest.mark.parametrize("file", ["scripts/check.py", "ladder/show/report.py"])
def test_a_file_of_the_workflow_that_python_cannot_read_is_named_with_its_line_before_any_job(fresh, file):
    (fresh / "workflow" / file).write_text("first = 1\nsecond = = 2\n")
    line = one_error(snakemake(fresh, FEW, "--dry-run"))
    assert f"{file}: line 2: " in line


# Runs that are killed


def test_a_run_killed_while_it_compiles_and_again_while_it_derives_is_taken_up_by_the_same_command(fresh, finished):
    for when in (f"build/{RECORDED}/rungs/*/library.so", f"results/{RECORDED}/selected/tables/timings.csv"):
        assert not any(fresh.glob(when))
        with started(fresh, FEW, "--cores", "4") as process:
            wait_for(lambda when=when: any(fresh.glob(when)))
            assert process.poll() is None, "the run was over before it was killed"
    run = snakemake(fresh, FEW, "--cores", "4")
    assert run.status == 0, run.output
    assert contents(fresh / RAW) == contents(finished / RAW)
    assert derived(fresh) == derived(finished)


def test_a_run_beside_one_that_is_alive_is_refused(fresh):
    with started(fresh, FEW, "--cores", "1") as process:
        wait_for(lambda: any(fresh.glob("build/*/rungs/*/library.so")))
        second = snakemake(fresh, FEW)
        assert process.poll() is None, "the first run was over before the second began"
    assert second.status != 0
    assert "lock" in second.output.lower()


def test_the_gpu_stays_taken_until_the_worker_of_a_killed_run_has_ended(tmp_path):
    (tmp_path / "sleeper.py").write_text(
        "import os, time\nfrom ladder.system import process as worker\n"
        "open('pid', 'w').write(str(os.getpid()))\nworker.emit(starts=1)\ntime.sleep(8)\n"
    )
    (tmp_path / "holder.py").write_text(
        "from pathlib import Path\nfrom ladder.system.process import gpu_lock, run_worker\n"
        "with gpu_lock('test-killed'):\n    run_worker('sleeper', {}, print, 60, Path('log'))\n"
    )
    path = os.pathsep.join([str(ROOT / "workflow"), str(tmp_path)])
    variables = environment(tmp_path, gpu=False, PYTHONPATH=path)
    process = subprocess.Popen([sys.executable, "holder.py"], cwd=tmp_path, env=variables, start_new_session=True)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30)
    worker = Path("/proc") / (tmp_path / "pid").read_text()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with gpu_lock("test-killed"):
        time.sleep(1)
        alive = worker.exists() and ") Z " not in (worker / "stat").read_text()
    assert not alive
