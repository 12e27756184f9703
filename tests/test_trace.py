"""Results as a portable trace: what is exported keeps the schema, and what is imported is the same again."""

import copy
import errno
import json

import numpy as np
import pytest
from conftest import a_case, a_check, a_rung, time_run
from ladder.commands import trace as command
from ladder.config.documents import validated
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.timings import read_time_record
from ladder.records.trace import records_of, trace_of, write_records

RUNGS = [a_rung("naive"), a_rung("tiled@TILE=8", claims={"n": "n % 8 == 0"}), a_rung("mine")]
TIMES = [1.1e-4, 1.3e-4, 1 / 3e4]


@pytest.fixture
def raw(tmp_path):
    """Records of two rungs: one checked and timed in two runs, one checked alone."""
    folder = tmp_path / "results/h100-sxm/raw"
    store.write_json(folder / "check/naive.json", {"stage": "check", "rung": "naive", **a_check(cases=[a_case("7")])})
    wrong = a_check("failed", "7: wrong", cases=[a_case("7", "wrong")])
    store.write_json(folder / "check/tiled@TILE=8.json", {"stage": "check", "rung": "tiled@TILE=8", **wrong})
    early = {("naive", "512"): TIMES, ("cublas", "512"): TIMES[::-1], ("naive", "64x32x16"): TIMES}
    store.add_run(folder / "time/naive.zip", time_run("naive", early))
    late = time_run("naive", {("naive", "512"): [2e-4, 3e-4]}, measured_at="2026-02-02T00:00:00+00:00")
    store.add_run(folder / "time/naive.zip", late)
    return folder


@pytest.fixture
def trace(raw):
    """The trace of these records."""
    return trace_of(raw, "h100-sxm", RUNGS)


def test_a_trace_holds_the_latest_samples_verdicts_and_environments(trace):
    naive, tiled = trace["rungs"]
    assert [rung["name"] for rung in trace["rungs"]] == ["naive", "tiled@TILE=8"]
    assert (tiled["check"]["status"], tiled["claims"], tiled["timings"]) == ("failed", {"n": "n % 8 == 0"}, [])
    assert [timing["shape"] for timing in naive["timings"]] == ["64x32x16", "512"]
    early, late = naive["timings"]
    assert [each["kernel"] for each in late["side_by_side"]] == ["naive"]
    assert np.array_equal(np.float32(early["side_by_side"][0]["samples_s"]), np.float32(TIMES))
    assert trace["environments"][late["environment"]]["measured_at"] == "2026-02-02T00:00:00+00:00"
    assert validated(trace, "trace", "F") == trace


def test_what_is_imported_is_exported_as_the_same_trace(trace, tmp_path):
    write_records(records_of(json.loads(json.dumps(trace)), tmp_path / "new"))
    assert trace_of(tmp_path / "new/h100-sxm/raw", "h100-sxm", RUNGS) == trace
    timing = read_time_record(tmp_path / "new/h100-sxm/raw/time/naive.zip")[Shape.parse("512")]
    assert timing.own.times_s.tolist() == [float(np.float32(2e-4)), float(np.float32(3e-4))]


def test_an_import_that_a_full_disk_ends_leaves_no_record(trace, tmp_path, monkeypatch):
    def full(path, members):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    made = records_of(trace, tmp_path / "new")
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_archive", full)
        with pytest.raises(OSError, match="No space left"):
            write_records(made)
    assert not any(path.is_file() for path in (tmp_path / "new").rglob("*"))
    write_records(made)
    assert all(path.is_file() for path in made)


def test_an_import_overwrites_nothing_and_writes_nothing_where_a_record_is_there(trace, raw, tmp_path):
    before = {path: path.read_bytes() for path in raw.rglob("*") if path.is_file()}
    (raw / "check/naive.json").unlink()
    before.pop(raw / "check/naive.json")
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    assert command.main(["import", str(tmp_path / "trace.json"), str(tmp_path / "results")]) == 1
    assert {path: path.read_bytes() for path in raw.rglob("*") if path.is_file()} == before


def changed(trace, change):
    copied = copy.deepcopy(trace)
    change(copied)
    return copied


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("gpu"), "(top level): 'gpu' is a required property; add it"),
        (lambda t: t.update(version=2), "version: 2 is not valid; it should be: 1, the version of this format"),
        (lambda t: t["rungs"][0].update(precision="fp64"), "rungs[0].precision: 'fp64' is none of"),
        (lambda t: t["environments"][0].pop("compile"), "environments[0]: 'compile' is a required property; add it"),
        (lambda t: t["rungs"][0]["check"].update(environment=9), "rungs[0].check.environment: 9: the trace has 2 env"),
        (
            lambda t: t["rungs"][0]["timings"][0]["side_by_side"][0].update(samples_s=[-1]),
            "rungs[0].timings[0].side_by_side[0].samples_s[0]: -1 is not greater than 0",
        ),
        (lambda t: t["rungs"].append(t["rungs"][0]), "rungs[2].name: 'naive' is that of rungs[0] too; leave one of"),
        (
            lambda t: t["rungs"][0]["timings"][0]["side_by_side"][0].update(samples_s=[1]),
            "rungs[0]: 64x32x16: naive: samples_s and clocks_hz differ in length",
        ),
    ],
)
def test_what_is_no_trace_is_one_line_that_names_the_key(trace, tmp_path, capsys, change, message):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(changed(trace, change)))
    assert command.main(["validate", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.removeprefix(f"trace: {path}: ").removeprefix("trace: ").startswith(message)


def test_a_folder_that_cannot_be_made_is_one_line(trace, tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert command.main(["import", str(path), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"trace: {path}/h100-sxm/raw/check: Not a directory; ")


def test_a_file_that_is_no_json_is_one_line(tmp_path, capsys):
    (tmp_path / "trace.json").write_text("{")
    assert command.main(["validate", str(tmp_path / "trace.json")]) == 1
    assert f"{tmp_path}/trace.json: is no JSON: " in capsys.readouterr().err


def test_the_records_that_ship_are_exported_and_are_a_valid_trace(tmp_path, capsys):
    assert command.main(["export", "naive", "-C", "gpu=h100-sxm", "records=shipped"]) == 0
    (tmp_path / "trace.json").write_text(capsys.readouterr().out)
    assert command.main(["validate", str(tmp_path / "trace.json")]) == 0
    assert "a valid trace of h100-sxm; rungs: 1, timings: " in capsys.readouterr().out


def test_an_export_of_nothing_is_one_line(tmp_path, capsys):
    assert command.main(["export", "-C", "gpu=h100-sxm", f"results={tmp_path}"]) == 1
    assert "holds no record of these rungs" in capsys.readouterr().err
