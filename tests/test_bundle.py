"""What a GPU measured, as one file to send in: what is taken, and in a line each why another is not."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ladder.commands.bundle import refusals
from ladder.config.documents import read_yaml
from ladder.config.plan import plan
from ladder.config.sources import source_digest
from ladder.config.tuned_file import Tuned, tuned_text
from ladder.measure.hardware.stage import HARDWARE_PROBES
from ladder.measure.sanitize.stage import TOOLS
from ladder.measure.survey.stage import drawn
from ladder.measure.tune.stage import trial_rungs
from ladder.records import store
from ladder.records.survey import SURVEY_SETTINGS
from ladder.records.trials import FINAL, SCREEN, Record
from ladder.system.paths import ROOT
from pipeline import H100, RECORDED, a_machine, copied, copy_project, environment, once, snakemake, with_stand_ins
from test_pool import NOT_MEASURED

UUID = "GPU-dddddddd-1"
DEVICE = UUID[:12]
CHECK, TIME = "raw/check/naive.json", "raw/time/naive.zip"


def bundle(project: Path, *arguments: object) -> tuple[int, list[str]]:
    """Run the command in a copy; its exit status and its lines."""
    command = [sys.executable, "workflow/bundle.py", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=project, env=environment(project, gpu=False), capture_output=True, text=True, check=False
    )
    return done.returncode, [line.removeprefix("gemm-ladder: ") for line in done.stderr.splitlines()]


@pytest.fixture(scope="session")
def sender(tmp_path_factory):
    """A checkout of git in which a stand-in has measured naive, and the bundle that its user made."""

    def measure(folder: Path) -> None:
        project = with_stand_ins(copy_project(folder / "project"))
        (folder / "notes").mkdir()
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            user = ["-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run(["git", *user, *arguments], cwd=project, check=True)
        variables = a_machine(folder / "nvml", (H100, UUID)) | {"STAND_IN_NOTES": str(folder / "notes")}
        settings = ["kernels=[naive]", "sizes=[512,1024]", "timing={references: [cublas]}", *NOT_MEASURED]
        run = snakemake(project, settings, "--until", "time", gpu=True, **variables)
        assert run.status == 0, run.output
        status, lines = bundle(project, "make", "-o", folder / "sent.zip")
        assert status == 0, lines

    return once(tmp_path_factory, "sender", measure)


@pytest.fixture
def taker(sender, tmp_path):
    """A copy of the project without records of that device."""
    project = copied(sender / "project", tmp_path / "project")
    os.rename(project / f"results/{RECORDED}/devices", tmp_path / "elsewhere")
    return project


def changed(sent: Path, target: Path, change, signed: bool = True) -> Path:
    """A bundle whose records by name a function has changed, with digests that say so unless it is not `signed`."""
    with zipfile.ZipFile(sent) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(members)
    if signed:
        manifest["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    store.write_archive(target, {**members, "manifest.json": json.dumps(manifest).encode()})
    return target


def in_check(**changes):
    """Changes keys of the check record of naive."""

    def change(members):
        record = json.loads(members[CHECK]) | changes
        del record["content_digest"]  # which whoever changes a record on purpose leaves out
        members[CHECK] = json.dumps(record).encode()

    return change


def in_run(change_of_run):
    """Changes the files of the run in the time record of naive, by their names."""

    def change(members):
        place = Path(os.environ["PYTEST_CURRENT_TEST"].split("::")[0]).stem
        path = Path(f"/tmp/{place}-{os.getpid()}.zip")
        try:
            path.write_bytes(members[TIME])
            ((name, files),) = store.read_runs(path).items()
            change_of_run(files)
            store.write_archive(path, {f"{name}/{file}": content for file, content in files.items()})
            members[TIME] = path.read_bytes()
        finally:
            path.unlink()

    return change


def in_record(change_of_record):
    """Changes the record of the run in the time record of naive."""

    def change(files):
        record = json.loads(files["record.json"])
        change_of_record(record)
        files["record.json"] = json.dumps(record).encode()

    return in_run(change)


def faster(files):
    """A thousandth of every time."""
    import numpy as np

    for name in files:
        if "freqs" not in name and name.endswith(".bin"):
            files[name] = (np.frombuffer(files[name], "<f4") / 1000).tobytes()


def without_verification(record):
    for state in record["states"]:
        state["launches"]["verified"] = 1


REFUSED = {
    "a case failed": (in_check(cases=[{"shape": "4", "verdict": "fail"}]), "raw/check/naive.json: a case did not pass"),
    "cases left out": (in_check(cases=[]), "raw/check/naive.json: "),
    "changed on the way": (
        lambda members: members.update({CHECK: members[CHECK].replace(b'"status": "pass"', b'"status": "ok"')}),
        f"{CHECK}: the record is damaged (its digest is that of another content)",
    ),
    "another schema": (in_check(schema_version=9), "schema_version: 9 is not 1"),
    "of another rung": (in_check(rung="tiled"), "rung: 'tiled', where a record of 'naive' belongs"),
    "no check": (lambda members: members.pop(CHECK), f"{TIME}: no check of it is in the bundle"),
    "damaged": (lambda members: members.update({TIME: b"no zip"}), f"{TIME}: the record is damaged"),
    "too fast": (in_run(faster), "TFLOP/s is impossible: this class reaches at most"),
    "not verified": (in_record(without_verification), "not every launch that counts was verified"),
    "not of today": (in_record(lambda record: record.pop("launches")), f"{TIME}: its launches are not verified"),
    "no commit": (
        in_record(lambda record: record["where"]["software"].update(git_commit="unknown")),
        f"{TIME}: commit: 'unknown' is none; measure in a checkout of git",
    ),
    "another card": (
        in_record(lambda record: record["where"]["gpu"].update(uuid="GPU-99999999-1")),
        f"device: 'GPU-99999999-1', where a record of '{DEVICE}' belongs",
    ),
    "no driver": (
        in_record(lambda record: record["where"]["gpu"].update(driver="")),
        f"{TIME}: names no card, UUID or driver",
    ),
    "other sources": (
        in_record(lambda record: record["where"]["compile"].update(source_digest="0" * 16)),
        f"{TIME}: of other sources of naive than this checkout's; take it in one of commit ",
    ),
    "another build": (
        in_record(lambda record: record["where"]["compile"].update(build_digest="0" * 16)),
        f"{TIME}: measured another build than the one that was checked",
    ),
}


def test_a_bundle_is_taken_whole_byte_for_byte_and_once(sender, taker):
    sent = sender / "sent.zip"
    status, lines = bundle(taker, "take", sent)
    assert status == 0, lines
    raw = taker / f"results/{RECORDED}/devices/{DEVICE}/raw"
    made = sender / f"project/results/{RECORDED}/devices/{DEVICE}/raw"
    for name in (CHECK, TIME):
        assert (raw.parent / name).read_bytes() == (made.parent / name).read_bytes()
    assert lines[-1].startswith(f"results/{RECORDED}/devices/{DEVICE}/raw: ")
    assert lines[-1].endswith(f"--config gpu={RECORDED} measure=false records={DEVICE}")
    assert not list((taker / "results").glob(".bundle-*"))
    status, lines = bundle(taker, "take", sent)
    assert status == 1
    assert lines == [
        f"results/{RECORDED}/devices/{DEVICE}/raw: holds records already; move them away, or leave the bundle"
    ]


def test_what_holds_no_result_is_left_out_in_one_line_each(sender, tmp_path):
    project = copied(sender / "project", tmp_path / "project")
    raw = project / f"results/{RECORDED}/devices/{DEVICE}/raw"
    store.write_json(
        raw / "profile/naive.json.xz", {"stage": "profile", "rung": "naive", "failure": None, "shapes": {}}
    )
    wrong = {**store.read_json(raw / "check/cublas.json"), "status": "failed"}
    store.write_json(raw / "check/cublas.json", wrong)
    status, lines = bundle(project, "make", "-o", "made.zip")
    assert status == 0, lines
    assert lines[:2] == [
        "raw/check/cublas.json: left out, for its rung did not pass its check",
        "raw/profile/naive.json.xz: left out, for it holds no result",
    ]
    assert lines[2] == f"made.zip: 2 files of {RECORDED} ({DEVICE}); docs/send-in.md says where it goes"
    with zipfile.ZipFile(project / "made.zip") as archive:
        assert sorted(archive.namelist()) == sorted([CHECK, TIME, "manifest.json"])


def test_each_thing_that_cannot_be_is_refused_in_one_line_and_nothing_is_taken(sender, taker, tmp_path):
    for what, (change, line) in REFUSED.items():
        status, lines = bundle(taker, "take", changed(sender / "sent.zip", tmp_path / "changed.zip", change))
        assert status == 1, what
        assert [each for each in lines if line in each], (what, lines)
        assert lines[-1] == "changed.zip: refused, and nothing of it is taken", what
        assert not (taker / f"results/{RECORDED}/devices").exists(), what
        assert not list((taker / "results").glob(".bundle-*")), what


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda members: members.update({CHECK: b"{}"}), f"{CHECK}: its digest is not that of the manifest"),
        (lambda members: members.pop(CHECK), f"{CHECK}: in the manifest, and not in the bundle"),
        (lambda members: members.update({"raw/check/tiled.json": b"{}"}), "raw/check/tiled.json: not in the manifest"),
    ],
)
def test_what_the_manifest_does_not_say_is_refused(sender, taker, tmp_path, change, line):
    sent = changed(sender / "sent.zip", tmp_path / "changed.zip", change, signed=False)
    status, lines = bundle(taker, "take", sent)
    assert (status, lines) == (1, [f"changed.zip: {line}", "changed.zip: refused, and nothing of it is taken"])


@pytest.mark.parametrize("name", ["../raw/check/naive.json", "/raw/check/naive.json", "raw/check/x/naive.json", "a.py"])
def test_a_bundle_writes_nowhere_else(sender, taker, tmp_path, name):
    sent = changed(sender / "sent.zip", tmp_path / "changed.zip", lambda members: members.update({name: b"{}"}))
    status, lines = bundle(taker, "take", sent)
    assert status == 1
    assert lines == [f"{sent}: {name!r} is no place of a record; make it anew: python workflow/bundle.py make"]


def many(members):
    """More files than a bundle may have."""
    members.update({f"raw/check/a{number}.json": b"" for number in range(2001)})


def swollen(members):
    """A time record of some KiB that takes more than 256 MiB unpacked."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("run/zeros.bin", bytes((256 << 20) + 1))
        members[TIME] = file.getvalue()


def swollen_together(members):
    """The same, its members packed together."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(store.TOGETHER, lzma.compress(bytes((256 << 20) + 1), preset=0))
        members[TIME] = file.getvalue()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (many, "more than 2000 files or 256 MiB"),
        (swollen, f"{TIME}: more than 256 MiB unpacked"),
        (swollen_together, f"{TIME}: more than 256 MiB unpacked"),
    ],
)
def test_a_bundle_fills_no_disk(sender, taker, tmp_path, change, line):
    sent = changed(sender / "sent.zip", tmp_path / "changed.zip", change)
    status, lines = bundle(taker, "take", sent)
    assert (status, lines) == (1, [f"{sent}: {line}; make it anew: python workflow/bundle.py make"])


def test_what_is_no_bundle_or_no_device_is_one_line(taker, tmp_path):
    (tmp_path / "text.zip").write_text("text")
    assert bundle(taker, "take", tmp_path / "no.zip")[1][0].startswith(f"{tmp_path}/no.zip: there is no such file; ")
    assert bundle(taker, "take", tmp_path)[1][0].startswith(f"{tmp_path}: is a folder; ")
    assert bundle(taker, "take", tmp_path / "text.zip")[1][0].startswith(f"{tmp_path}/text.zip: is no bundle (")
    status, lines = bundle(taker, "make")
    assert status == 1
    assert lines == ["results: folders of devices with records: none; measure on a GPU first: make run"]
    line = f"results/{RECORDED}: holds no records of a device; name results/GPU/devices/DEVICE"
    assert bundle(taker, "make", f"results/{RECORDED}") == (1, [line])


# Survey, sanitizer, hardware, trials and what is tuned by them

SURVEY, SANITIZE, HARDWARE = "raw/survey/naive.json.gz", "raw/sanitize/naive.json", "raw/hardware.json"
TRIALS, TUNED = "raw/trials/tiled_1d.json.gz", f"tuned/{RECORDED}.yaml"


@pytest.fixture(scope="module")
def whole(sender, tmp_path_factory):
    """A copy of the sender's project with a record of each other kind, as their stages write them."""
    project = copied(sender / "project", tmp_path_factory.mktemp("whole") / "project")
    home = project / f"results/{RECORDED}/devices/{DEVICE}"
    run = plan({**read_yaml(ROOT / "config/config.yaml"), "gpu": RECORDED, "measure": False, "records": "shipped"})
    where = store.read_record(home / CHECK)["where"]
    of_naive = {"rung": "naive", "status": "pass", "message": "", "where": where}

    cases = [case.as_record() for case in run.sanitizer_cases("naive")]
    tools = [{"tool": tool, "verdict": "pass", "message": "", "findings": [], "wall_s": 1.0} for tool in TOOLS]
    store.write_json(home / SANITIZE, {"stage": "sanitize", **of_naive, "cases": cases, "tools": tools})

    settings = {key: run.settings["survey"][key] for key in SURVEY_SETTINGS}
    products, data = drawn(settings, {}, 7)
    times = {name: [9e5, 8e5] for name in run.surveyed_beside("naive")}
    found = {"times_us": [9e5], "error_normwise": 1e-6, "error_componentwise": 1e-6}
    record = {
        "products": [
            {"shape": str(each.shape), "padding": list(each.paddings), "times_us": times} for each in products
        ],
        "data": [{**each, "amount": 0.5, "kernels": dict.fromkeys(times, found)} for each in data],
    }
    record = {**of_naive, "status": "ok", "seed": 7, "settings": settings, "builds": {}, **record}
    store.write_json(home / SURVEY, {"stage": "survey", **record})

    probes = [
        {"of": "FFMA", "kind": "rate", "how": "FP32", "count": 2e8, "blocks": 132, "cycles": [1e6], "ns": [1e6]},
        {"of": "DRAM", "kind": "bandwidth", "how": "load", "count": 2e7, "blocks": 132, "cycles": [1e6], "ns": [1e6]},
    ]
    compiled = {**where["compile"], "source_digest": source_digest(HARDWARE_PROBES)}
    record = {"status": "ok", "message": "", "where": {**where, "compile": compiled}, "probes": probes}
    store.write_json(home / HARDWARE, {"stage": "hardware", **record})

    rungs = trial_rungs(run.of_entry("tiled_1d"), run.gpu)
    shapes = [str(shape) for shape in run.tune_shapes_of("tiled_1d")]
    trials = Record(home / TRIALS, "tiled_1d", {}, {})
    each = {"status": "ok", "message": "", "build_digest": "", "registers": 32, "spill_bytes": 0}
    for stage in (SCREEN, FINAL):
        batch = {"id": stage, "where": where, "times_s": {shape: [1.0] for shape in shapes}}
        trials.add(
            (
                {**each, "trial": rung.name, "round": stage, "source_digest": source_digest(rung)}
                | {"times_s": {shape: [1.0 + (rung is not rungs[-1])] for shape in shapes}}
                for rung in rungs
            ),
            batch,
        )
    fastest = {key: int(value) for key, value in rungs[-1].macros.items()}
    best = {"tiled_1d": dict.fromkeys(run.tune_shapes_of("tiled_1d"), fastest)}
    store.write_text(home / TUNED, tuned_text(RECORDED, Tuned(run.tune_shapes, best)))
    return project


@pytest.fixture(scope="module")
def sent(whole):
    """The bundle of that project."""
    status, lines = bundle(whole, "make", "-o", "whole.zip")
    assert status == 0, lines
    return whole / "whole.zip"


def test_a_bundle_holds_every_kind_of_record_and_what_was_tuned_by_them(sent, taker):
    status, lines = bundle(taker, "take", sent)
    assert status == 0, lines
    home, made = (project / f"results/{RECORDED}/devices/{DEVICE}" for project in (taker, sent.parent))
    for name in (SURVEY, SANITIZE, HARDWARE, TRIALS, TUNED):
        assert (home / name).read_bytes() == (made / name).read_bytes()


def packed(name, change):
    """Changes a JSON record of a bundle by its name, and leaves its digest out."""

    def of(members):
        pack, unpack = (gzip.compress, gzip.decompress) if name.endswith(".gz") else (bytes, bytes)
        record = json.loads(unpack(members[name]))
        del record["content_digest"]
        change(record)
        members[name] = pack(json.dumps(record).encode())

    return of


REFUSED_OF_OTHERS = {
    "a tool that found something": (
        packed(SANITIZE, lambda record: record["tools"][0].update(verdict="failed")),
        f"{SANITIZE}: memcheck did not pass",
    ),
    "a tool left out": (
        packed(SANITIZE, lambda record: record["tools"].pop()),
        f"{SANITIZE}: synccheck did not pass",
    ),
    "sanitizer's cases left out": (
        packed(SANITIZE, lambda record: record["cases"].clear()),
        "cases that config/config.yaml asks for are missing",
    ),
    "a survey by another seed": (
        packed(SURVEY, lambda record: record.update(seed=8)),
        f"{SURVEY}: its products are not those that seed 8 draws",
    ),
    "a survey of fewer products": (
        packed(SURVEY, lambda record: record["settings"].update(products=1)),
        f"{SURVEY}: has other settings than the survey of config/config.yaml",
    ),
    "a survey too fast": (
        packed(SURVEY, lambda record: record["products"][0]["times_us"].update(cublas=[1e-9])),
        "TFLOP/s is impossible: this class reaches at most",
    ),
    "a survey on data too fast": (
        packed(SURVEY, lambda record: record["data"][0]["kernels"]["naive"].update(times_us=[1e-9])),
        "TFLOP/s is impossible: this class reaches at most",
    ),
    "a survey of another build": (
        packed(SURVEY, lambda record: record["where"]["compile"].update(build_digest="0" * 16)),
        f"{SURVEY}: measured another build than the one that was checked",
    ),
    "a survey that failed": (
        packed(SURVEY, lambda record: record.update(status="dishonest")),
        f"{SURVEY}: ended as 'dishonest'",
    ),
    "hardware too fast": (
        packed(HARDWARE, lambda record: record["probes"][0].update(ns=[1e5], cycles=[1e5])),
        f"{HARDWARE}: FFMA, rate, FP32: 2.64e+05 GFLOP/s is impossible: this GPU reaches at most",
    ),
    "memory too fast": (
        packed(HARDWARE, lambda record: record["probes"][1].update(ns=[1e5])),
        f"{HARDWARE}: DRAM, bandwidth, load: 2.64e+04 GB/s is impossible: this GPU reaches at most",
    ),
    "other probes": (
        packed(HARDWARE, lambda record: record["where"]["compile"].update(source_digest="0" * 16)),
        f"{HARDWARE}: of other sources of hardware than this checkout's; take it in one of commit ",
    ),
    "a trial too fast": (
        packed(TRIALS, lambda record: next(iter(record["trials"][0]["times_s"].values())).append(1e-12)),
        "TFLOP/s is impossible: this class reaches at most",
    ),
    "a trial of other sources": (
        packed(TRIALS, lambda record: record["trials"][0].update(source_digest="0" * 16)),
        f"{TRIALS}: of other sources of tiled_1d@",
    ),
    "a trial of no combination": (
        packed(TRIALS, lambda record: record["trials"][0].update(trial="tiled_1d@BM=7")),
        f"{TRIALS}: tiled_1d@BM=7: is none of the combinations that config/kernels.yaml declares",
    ),
    "parameters without their trials": (
        lambda members: members.pop(TRIALS),
        f"{TUNED}: is not what the trials in the bundle choose",
    ),
    "parameters that no trial chose": (
        lambda members: members.update({TUNED: members[TUNED].replace(b"BK: ", b"BK: 1")}),
        f"{TUNED}: is not what the trials in the bundle choose",
    ),
    "parameters of no rung": (
        lambda members: members.update({TUNED: members[TUNED].replace(b"tiled_1d:", b"tiled_9d:")}),
        f"{TUNED}: rungs.tiled_9d: is no rung; did you mean",
    ),
    "parameters of another GPU": (
        lambda members: members.update({"tuned/t4.yaml": members.pop(TUNED)}),
        "tuned/t4.yaml: is not what the trials in the bundle choose",
    ),
}


@pytest.mark.parametrize("what", REFUSED_OF_OTHERS)
def test_what_cannot_be_in_the_other_records_is_one_line(sent, tmp_path, what):
    change, line = REFUSED_OF_OTHERS[what]
    lines = refusals(changed(sent, tmp_path / "changed.zip", change), tmp_path)
    assert [each for each in lines if line in each], lines
