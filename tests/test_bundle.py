"""What a GPU measured, as one file to send in: what is taken, and in a line each why another is not."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ladder.records import store
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
    assert lines[2] == f"made.zip: 2 records of {RECORDED} ({DEVICE}); docs/send-in.md says where it goes"
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


@pytest.mark.parametrize(
    ("change", "line"),
    [(many, "more than 2000 files or 256 MiB"), (swollen, f"{TIME}: more than 256 MiB unpacked")],
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
