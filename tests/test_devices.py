"""Records belong to the device that they were made on: another's are never shown as its own, filled up or replaced."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import a_check, a_device, a_where, line_of, time_run
from ladder.config import plan
from ladder.records import store
from ladder.records.checks import held_cases, merge_check
from ladder.records.identity import RecordPlace
from ladder.records.profiles import keep_profiles, read_profiles
from ladder.records.provenance import made_on
from ladder.records.timings import read_time_record, timed_shapes
from ladder.records.trials import SCREEN, Record
from ladder.system import nvml
from ladder.tables.files import read_table
from pipeline import FEW, FEW_RUNGS, RECORDED, ROOT, an_h100, contents, copied, finished_run, snakemake
from test_comparison import scaled
from test_identity import STAGES, content, names_of, put, read

SHIPPED = f"results/{RECORDED}/raw"
OWN, OTHER = "GPU-0a1b2c3d", "GPU-ffffffff"  # the folders of two devices
UUIDS = {OWN: f"{OWN}-4e5f", OTHER: f"{OTHER}-4e5f"}
TAKEN = {"warmup": 5, "iterations": 50}  # of `conftest.time_run`


def elsewhere(key: str, **more):
    """`a_where` with another value of one of the keys that `made_on` looks at."""
    where = a_where(**more)
    part = "software" if key.startswith("cublas") else "gpu"
    return where | {part: where[part] | {key: "another"}}


def timed(rung: str, shape: str, where) -> dict[str, bytes]:
    files = time_run(rung, {(rung, shape): [1e-3]})
    record = json.loads(files["record.json"]) | {"where": where}
    return files | {"record.json": json.dumps(record).encode()}


# What a record holds already, stage by stage


ANOTHER = pytest.mark.parametrize("key", ["uuid", "driver", "cuda_driver", "cublas", "cublas_lt"])


@ANOTHER
def test_a_time_of_another_device_driver_or_cublas_is_not_held(tmp_path, key):
    path = tmp_path / "time/tiled.zip"
    store.add_run(path, timed("tiled", "128", elsewhere(key)))
    assert timed_shapes(path, TAKEN, a_where()) == set()
    assert timed_shapes(path, TAKEN, elsewhere(key)) == {"128"}


def test_a_shape_that_another_device_timed_last_is_not_held_by_the_first(tmp_path):
    path = tmp_path / "time/tiled.zip"
    store.add_run(path, timed("tiled", "128", a_where(measured_at="2026-01-02T08:00:00+00:00")))
    later = timed("tiled", "128", elsewhere("uuid", measured_at="2026-01-02T12:00:00+00:00"))
    (earlier,) = store.read_runs(path).values()
    store.write_archive(
        path, {f"{run}/{name}": data for run, files in (("1", earlier), ("2", later)) for name, data in files.items()}
    )
    assert timed_shapes(path, TAKEN, a_where()) == set()


@ANOTHER
def test_cases_that_another_device_passed_are_checked_again_and_not_added(tmp_path, key):
    path = tmp_path / "check.json"
    case = {"shape": "4", "alpha": 1, "beta": 0, "padding": 0, "offset": 0, "seed": 1, "verdict": "pass"}
    earlier = a_check(cases=[case]) | {"where": elsewhere(key), "runs": 1, "declared": {}}
    store.write_json(path, earlier)
    assert held_cases(path, a_where(), 1, {}) == set()
    now = earlier | {"where": a_where(), "cases": [case | {"shape": "5"}]}
    assert merge_check(path, now) == now
    merged = merge_check(path, now | {"where": elsewhere(key)})
    assert [each["shape"] for each in merged["cases"]] == ["5", "4"]


@ANOTHER
def test_profiles_of_another_device_do_not_stand_beside_new_ones(tmp_path, key):
    path = tmp_path / "profile.json.xz"
    keep_profiles(path, "naive", {"512": {"where": elsewhere(key)}}, "", "build-1")
    keep_profiles(path, "naive", {}, "ncu: not found", "build-1")
    assert list(read_profiles(path, "build-1")) == ["512"]
    keep_profiles(path, "naive", {"1024": {"where": a_where()}}, "", "build-1")
    assert list(read_profiles(path, "build-1")) == ["1024"]


@ANOTHER
def test_trials_of_another_device_are_tried_again(tmp_path, key):
    where = a_where()
    trial = {"trial": "t@BM=1", "round": SCREEN, "build_digest": "build-1", "source_digest": "source-1"}
    record = Record.read(tmp_path / "t.json.gz", "t")
    record.add([trial], {"id": "b", "where": where})
    assert record.held("t@BM=1", SCREEN, "build-1", "settings-1", made_on(where))
    assert not record.held("t@BM=1", SCREEN, "build-1", "settings-1", made_on(elsewhere(key)))


# Where records lie


@pytest.mark.parametrize("stage", STAGES)
def test_a_record_of_another_device_is_refused_in_the_folder_of_one(tmp_path, stage):
    name, _ = names_of(stage)
    text = json.dumps(content(stage, name))
    for device in (OWN, OTHER):
        record = json.loads(text.replace(a_device().uuid, UUIDS[device]))
        ending = {"time": "zip", "experiments": "zip", "profile": "json.xz", "trials": "json.gz"}.get(stage, "json")
        raw = tmp_path / "results" / RECORDED / "devices" / OWN / "raw"
        path = put(raw / (f"{stage}.json" if stage in STAGES[-3:] else f"{stage}/{name}.{ending}"), record)
        assert RecordPlace.of(path) == RecordPlace(stage, path.name.partition(".")[0], RECORDED, OWN)
        if device == OWN:
            read(path)
        else:
            assert f"device: {UUIDS[OTHER]!r}, where a record of {OWN!r} belongs" in line_of(read, path)


@pytest.fixture
def here(project, monkeypatch):
    """Puts a device into this machine, and records of devices into results."""

    def has(device: str | None, *recorded: str) -> None:
        present = a_device(uuid=UUIDS[device]) if device else None
        monkeypatch.setattr(nvml, "present", lambda index=0: present)
        for each in recorded:
            (plan.ROOT / f"results/{RECORDED}/devices" / each / "raw").mkdir(parents=True)

    return has


def home(**config) -> str:
    found = plan.plan({"gpu": RECORDED, **config})
    assert found.raw() == found.home() / "raw"
    return str(found.home().relative_to(plan.ROOT / "results" / RECORDED))


@pytest.mark.parametrize("device", [OWN, OTHER])
def test_a_run_that_measures_keeps_its_records_in_the_folder_of_its_device(here, device):
    here(device, OWN)
    assert home() == f"devices/{device}"
    assert home(records=device) == f"devices/{device}"
    assert home(records="shipped") == "."


def test_a_run_that_does_not_measure_shows_what_ships_or_the_device_that_is_asked_for(here):
    here(None, OWN, OTHER)
    assert home() == home(records="shipped") == "."
    assert home(records=OTHER) == f"devices/{OTHER}"
    headline = plan.plan({"gpu": RECORDED}).headline
    assert all(f"records={device}" in headline for device in (OWN, OTHER))


def test_a_device_that_has_records_shows_them_where_it_does_not_measure(here):
    here(OWN, OTHER)
    assert home(measure=False) == "."
    here(OWN, OWN)
    assert home(measure=False) == f"devices/{OWN}"


def test_the_records_of_a_device_that_is_not_here_are_not_added_to(here):
    here(OWN, OTHER)
    assert f"records: {OTHER!r} is not the device here, {OWN}; " in line_of(home_of, OTHER)
    here(None)
    assert f"records: {OWN!r} has no records of " in line_of(home_of, OWN)


def home_of(records: str) -> str:
    return home(records=records)


# The whole way


def of_device(source: Path, target: Path, device: str, factor: float = 1) -> None:
    """A copy of a record as another device would have made it, with times that are `factor` as long."""

    def changed(data: bytes) -> bytes:
        return re.sub(rb'("uuid": ")GPU-[-\w]+', rb"\g<1>" + UUIDS[device].encode(), data)

    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".zip":
        members = store.read_archive(scaled(source, target, factor))
        store.write_archive(target, {name: changed(data) for name, data in members.items()})
    else:
        store.write_json(target, json.loads(changed(json.dumps(store.read_json(source)).encode())))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A finished run beside which a device of the user's own has recorded one size less, all of it 5 % slower."""
    project = copied(finished_run(tmp_path_factory) / "project", tmp_path_factory.mktemp("devices") / "project")
    for stage, ending in (("check", "json"), ("time", "zip"), ("profile", "json.xz")):
        for rung in FEW_RUNGS:
            source = project / SHIPPED / stage / f"{rung}.{ending}"
            of_device(source, project / f"results/{RECORDED}/devices/{OWN}/raw/{stage}" / source.name, OWN, 1.05)
    for rung in FEW_RUNGS:
        path = project / f"results/{RECORDED}/devices/{OWN}/raw/time/{rung}.zip"
        assert {str(shape) for shape in read_time_record(path)} >= {"512", "1024"}
    return project


def test_the_numbers_of_a_device_are_its_own_alone_and_what_ships_stands_beside_by_name(measured, tmp_path):
    project = copied(measured, tmp_path / "project")
    before = contents(project / f"results/{RECORDED}/selected")
    shipped = contents(project / SHIPPED)
    run = snakemake(project, [*FEW, f"records={OWN}"])
    assert run.status == 0, run.output
    assert f"({OWN})" in run.said[0]

    made = project / f"results/{RECORDED}/devices/{OWN}/selected"
    for name in ("timings", "rungs", "geomeans", "records", "profiles"):
        table = read_table(made / f"tables/{name}.csv")
        assert len(table), name
        if "card" in table:
            cards = {card for card in table["card"] if card}
            assert {card.rpartition(", ")[2] for card in cards} == {UUIDS[OWN]}, name
    beside = read_table(made / "tables/shipped.csv")
    assert len(beside) == 2 * len(FEW_RUNGS)
    assert beside["here_over_shipped"].to_numpy() == pytest.approx(1.05, abs=1e-3)
    theirs, own = set(beside["baseline_card"]), set(beside["card"])
    assert not theirs & own
    cards = {card.rpartition(", ")[2][:12] for card in theirs}
    page = (made / "report.html").read_text()
    for text in (" ".join(run.output.split()), page):
        line = text[text.index("The baseline, shipped with the repository and not measured here: ") :]
        assert all(card in line.partition("Time here")[0] for card in cards)
    assert 'id="shipped"' in page
    assert "here/shipped" in run.output
    rows = [line.split() for line in run.output.splitlines() if line.startswith(tuple(FEW_RUNGS))]
    assert [row[0] for row in rows if "1.050" in row] == FEW_RUNGS
    assert contents(project / SHIPPED) == shipped
    assert contents(project / f"results/{RECORDED}/selected") == before


def test_what_ships_is_not_shown_beside_itself(measured, tmp_path):
    project = copied(measured, tmp_path / "project")
    run = snakemake(project, FEW)
    assert run.status == 0, run.output
    assert f"records={OWN}" in run.said[0]
    assert "here/shipped" not in run.output
    assert not (project / f"results/{RECORDED}/selected/tables/shipped.csv").exists()


def test_the_evidence_is_of_what_ships(measured):
    run = snakemake(measured, [f"records={OWN}"], "evidence", "--dry-run")
    assert run.status != 0
    assert any(f"not of those of {OWN}; set records=shipped" in line for line in run.errors), run.output


OUTPUTS = re.compile(r"^ +output: (.*)$", re.MULTILINE)


def raw_outputs(run) -> set[str]:
    """The records that the jobs of a dry run are to write."""
    assert run.status == 0, run.output
    files = {file for line in OUTPUTS.findall(run.output) for file in line.replace(" (update)", "").split(", ")}
    return {file for file in files if "/raw/" in file}


@pytest.mark.parametrize("target", ["all", "sanitize", "tune"])
def test_no_stage_writes_into_the_records_that_ship_or_into_those_of_another_device(measured, tmp_path, target):
    project = copied(measured, tmp_path / "project")
    for device in (OWN, OTHER):
        variables = an_h100(tmp_path / device, UUIDS[device])
        config = ["kernels=[naive,tiled@TILE=16]", "sizes=[512,768]"]
        asked = (target, "--dry-run", "--forceall", "--quiet", "host")
        outputs = raw_outputs(snakemake(project, config, *asked, gpu=True, **variables))
        assert outputs
        assert {path for path in outputs if not path.startswith(f"results/{RECORDED}/devices/{device}/raw/")} == set()
        shipped = raw_outputs(snakemake(project, [*config, "records=shipped"], *asked, gpu=True, **variables))
        shipped -= {
            f"results/{RECORDED}/raw/hardware.json"
        }  # which a device of one's own has not, until it is asked for
        assert {path.replace(f"devices/{device}/", "") for path in outputs} == shipped


def test_another_device_or_driver_lets_the_stages_that_measure_run_again(measured, tmp_path):
    project = copied(measured, tmp_path / "project")
    references = "timing={references: [cublas, naive]}"  # what the finished run has compiled
    config = ["kernels=[naive]", "sizes=[512]", "records=shipped", references]

    def planned(variables, *arguments):
        run = snakemake(project, config, "--until", "time", "--quiet", "host", *arguments, gpu=True, **variables)
        assert run.status == 0, run.output
        return {Path(path).parent.name for path in raw_outputs(run)}

    first, other = (an_h100(tmp_path / device, UUIDS[device]) for device in (OWN, OTHER))
    planned(first, "--touch")
    assert planned(first, "--dry-run") == set()
    assert planned(other, "--dry-run") == {"check", "time"}


def test_git_ignores_the_records_of_the_users_own_devices():
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    path = f"results/{RECORDED}/devices/{OWN}/raw/time/naive.zip"
    done = subprocess.run(["git", "-C", str(ROOT), "check-ignore", "-q", path], check=False)
    assert done.returncode == 0
