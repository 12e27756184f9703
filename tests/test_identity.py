"""A record names its stage, rung and device; in the place of another it is refused in one line, whatever reads it."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from conftest import a_rung, a_where, line_of, time_run
from ladder.config import plan
from ladder.records import store
from ladder.records.identity import RecordPlace
from ladder.records.profiles import keep_profiles, read_profiles
from ladder.records.timings import read_time_record, timed_shapes
from ladder.records.trials import Record
from ladder.system.paths import ROOT
from ladder.tables.comparison import read_timings
from ladder.tables.evidence import read_evidence
from ladder.tables.experiments import experiment_table
from pipeline import RECORDED

STAGES = ("check", "time", "sanitize", "profile", "accuracy", "sustained", "trials", "experiments")
OF_A_GPU = ("errors", "faults", "measuring", "attacks", "neighbour", "regression")  # one record a GPU
STAGES += OF_A_GPU
ALWAYS_NAMED = ("attacks", "neighbour", "regression")  # there is no older record of these
NAMED_OR_NOT = [(stage, old) for stage in STAGES for old in (False, True) if not (old and stage in ALWAYS_NAMED)]
OLD_OR_NEW = [(stage, old) for stage, old in NAMED_OR_NOT if not (old and stage == "experiments")]
NAMES = {"experiments": ("one", "two")}


def content(stage: str, rung: str, device: str | None = None, *, old: bool = False) -> dict:
    """A record of a stage, as it is written now or was before records named their stage."""
    where = a_where()
    where["gpu"] = {**where["gpu"], **({"name": device} if device else {})}
    times = json.loads(time_run(rung, {(rung, "128"): [1e-3]})["record.json"]) | {"where": where}
    record = {
        "check": {"rung": rung, "status": "pass", "message": "", "where": where, "cases": []},
        "time": times,
        "sanitize": {"rung": rung, "status": "pass", "message": "", "where": where, "cases": [], "tools": []},
        "profile": {"rung": rung, "failure": None, "shapes": {"128": {"where": where, "kernels": []}}},
        "accuracy": {"rung": rung, "status": "ok", "message": "", "where": where, "points": []},
        "sustained": {"rung": rung, "status": "ok", "message": "", "where": where, "shapes": [], "parts": []},
        "trials": {"entry": rung, "batches": [{"id": "1", "where": where}], "trials": []},
        "experiments": times | ({} if old else {"experiment": rung}),
        "errors": {"where": where, "points": []},
        "faults": {"where": where, "entries": []},
        "measuring": {"where": where, "warm_up": []},
        "attacks": {"where": where, "entries": [], "sound": []},
        "neighbour": {"where": where, "blocks": []},
        "regression": {"where": where, "rung": "naive", "processes": []},
    }[stage]
    return record if old else {"stage": stage, **record}


def place(folder: Path, stage: str, rung: str, gpu: str = RECORDED) -> Path:
    """Where a record of a stage lies."""
    raw = folder / "results" / gpu / "raw"
    ending = {"time": "zip", "experiments": "zip", "profile": "json.xz", "trials": "json.gz"}.get(stage, "json")
    return raw / (f"{stage}.json" if stage in OF_A_GPU else f"{stage}/{rung}.{ending}")


def put(path: Path, record: dict) -> Path:
    """Write a record as a file, by hand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        files = time_run(record.get("rung", "naive"), {(record.get("rung", "naive"), "128"): [1e-3]})
        files["record.json"] = json.dumps({"schema_version": 1, **record}).encode()
        store.write_archive(path, {f"2026-01-02T03-04-05/{name}": data for name, data in files.items()})
    else:
        data = json.dumps({"schema_version": 1, **record}).encode()
        path.write_bytes(store.PACKED.get(path.suffix, bytes)(data))
    return path


def read(path: Path) -> None:
    """Read a record of any stage."""
    read_time_record(path) if path.suffix == ".zip" else store.read_record(path)


def names_of(stage: str) -> tuple[str, str]:
    """The name of a stage's record, and another."""
    return NAMES.get(stage, ("tma", "naive"))


@pytest.mark.parametrize(("stage", "old"), NAMED_OR_NOT)
def test_a_record_in_its_own_place_is_read_with_its_stage_and_without(tmp_path, stage, old):
    own, _ = names_of(stage)
    read(put(place(tmp_path, stage, own), content(stage, own, old=old)))


@pytest.mark.parametrize(("stage", "old"), [(stage, old) for stage, old in OLD_OR_NEW if stage in STAGES[:7]])
def test_a_record_of_another_rung_is_refused(tmp_path, stage, old):
    own, other = names_of(stage)
    path = put(place(tmp_path, stage, own), content(stage, other, old=old))
    line = line_of(read, path)
    assert line.startswith(f"{path}: ")
    assert repr(other) in line
    assert repr(own) in line


@pytest.mark.parametrize(("stage", "old"), OLD_OR_NEW)
def test_a_record_of_another_gpu_is_refused(tmp_path, stage, old):
    own, _ = names_of(stage)
    path = put(place(tmp_path, stage, own), content(stage, own, "NVIDIA H200", old=old))
    line = line_of(read, path)
    assert line.startswith(f"{path}: gpu: 'NVIDIA H200', where a record of 'h100-sxm' belongs; ")


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize(("stage", "other"), [*permutations(["check", "sanitize", "profile", "accuracy"], 2)])
def test_a_record_of_another_stage_is_refused(tmp_path, stage, other, old):
    path = put(place(tmp_path, stage, "tma"), content(other, "tma", old=old))
    assert f"stage: {other!r}, where a record of {stage!r} belongs" in line_of(read, path)


def test_a_gpu_without_a_file_has_the_folder_of_its_name(tmp_path):
    record = content("check", "tma", "NVIDIA RTX 4000 SFF")
    read(put(place(tmp_path, "check", "tma", "rtx-4000-sff"), record))
    assert "'NVIDIA RTX 4000 SFF'" in line_of(read, put(place(tmp_path, "check", "tma", "rtx-5000"), record))


def test_a_folder_that_a_user_named_is_no_gpus(tmp_path):
    path = tmp_path / "before/raw/check/tma.json"
    read(put(path, content("check", "tma", "NVIDIA H200")))
    assert "rung: 'naive'" in line_of(read, put(path, content("check", "naive")))


# Every reader


READERS = {
    "the evidence, check": ("check", lambda path: read_evidence(a_rung("tma"), None, path.parents[1], None)),
    "the evidence, time": ("time", lambda path: read_evidence(a_rung("tma"), None, path.parents[1], None)),
    "the evidence, profile": ("profile", lambda path: read_evidence(a_rung("tma"), None, path.parents[1], None)),
    "the evidence, sanitize": ("sanitize", lambda path: read_evidence(a_rung("tma"), None, path.parents[1], None)),
    "the headline": ("check", lambda path: plan.recorded_on(path.parents[1])),
    "the shapes to be timed": ("time", lambda path: timed_shapes(path, {"warmup": 1}, a_where())),
    "a new run beside it": ("time", lambda path: store.add_run(path, time_run("tma", {("tma", "64"): [1e-3]}))),
    "the comparison": ("time", lambda path: read_timings(path, "tma", RECORDED)),
    "the table of experiments": ("experiments", lambda path: experiment_table([path], "cublas")),
    "profiles": ("profile", lambda path: read_profiles(path, "build-1")),
    "new profiles beside it": ("profile", lambda path: keep_profiles(path, "tma", {}, "", "build-1")),
    "trials": ("trials", lambda path: Record.read(path, "tma")),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("change", ["rung", "gpu"])
def test_every_reader_refuses_a_stranger_and_leaves_it_as_it_is(tmp_path, reader, change):
    stage, function = READERS[reader]
    own, other = names_of(stage)
    stranger = content(stage, other) if change == "rung" else content(stage, own, "NVIDIA H200")
    path = put(place(tmp_path, stage, own), stranger)
    before = path.read_bytes()
    assert str(path) in line_of(function, path)
    assert path.read_bytes() == before


def test_the_comparison_refuses_a_baseline_of_another_rung_or_gpu_wherever_it_lies(tmp_path):
    for record in (content("time", "naive"), content("time", "tma", "NVIDIA H200")):
        line_of(read_timings, put(tmp_path / "tma.zip", record), "tma", RECORDED)


def test_what_is_recorded_here_is_all_in_its_place():
    places = [path for path in ROOT.glob("results/*/raw/**/*") if path.suffix in (".json", ".gz", ".xz", ".zip")]
    counted = {"mma_rate", "mma_operands"}  # microbenchmarks, which tools/micro wrote in a form of their own
    found = {path for path in places if path.name.partition(".")[0] not in counted}
    others = {"hardware", "survey", "library", "mutants", "pair"}
    assert {RecordPlace.of(path).stage for path in found} | {"sustained"} == {*STAGES, *others}
    for path in found:
        if path.suffix == ".zip":
            for files in store.read_runs(path, "record.json").values():
                store.run_record(files, path)
        else:
            store.read_record(path)
