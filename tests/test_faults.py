"""docs/faults.md says what the records say, and the records say what the corpus is for."""

import re

import pytest
from conftest import line_of
from corpus import CONTROLS, FAULTS, FIRST_COMMENT, source_digest, whole, written
from emulator import RUNGS, compile_rung
from ladder.config.documents import read_yaml
from ladder.config.plan import plan
from ladder.config.sources import source_digest as digest_of
from ladder.records import store
from ladder.records.digests import source_of
from ladder.system.paths import ROOT
from record_faults import EMULATED, LADDER, ON_GPU, SEEDS, by_check, by_emulator, by_sanitizer

# A fault is a patch


@pytest.mark.parametrize("fault", FAULTS, ids=lambda path: path.stem)
def test_a_fault_is_its_comment_and_a_changed_control(fault):
    text = whole(fault)
    assert text.startswith(f"// {fault.stem}: ")
    added = [line[1:] for line in fault.read_text().splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert set(added) <= set(text.splitlines())
    assert all(FIRST_COMMENT.sub("", text) != FIRST_COMMENT.sub("", control.read_text()) for control in CONTROLS)


def test_a_compiler_names_the_fault(tmp_path):
    fault = tmp_path / "torn.patch"
    text = next(each for each in FAULTS if each.stem == "beta_ignored").read_text()
    fault.write_text(re.sub(r"^\+ .*", "+    torn;", text, flags=re.MULTILINE))
    assert re.search(r"torn\.cu:\d+:\d+: error", compile_rung(written(fault, tmp_path), tmp_path / "torn.so"))


HUNK = "@@ -1 +1 @@\n-no such line\n+another\n"


def test_a_patch_that_does_not_fit_its_control_is_refused(tmp_path):
    fault, control = tmp_path / "one.patch", CONTROLS[0].relative_to(ROOT)
    fault.write_text(f"// one: a fault.\n--- a/{control}\n+++ b/{control}\n{HUNK}")
    assert line_of(whole, fault).startswith(f"one.patch: error: patch failed: {control}:1")


@pytest.mark.parametrize("text", ["#include <gemm.cuh>\n", f"--- a/other.cu\n+++ b/other.cu\n{HUNK}"])
def test_a_fault_that_is_no_patch_of_a_control_is_refused(tmp_path, text):
    fault = tmp_path / "one.patch"
    fault.write_text(f"// one: a fault.\n{text}")
    assert line_of(whole, fault).startswith("one.patch: is not `// NAME: ")


# What was recorded


@pytest.fixture(scope="module")
def recorded():
    paths = {"emulator": EMULATED, "gpu": ON_GPU, "seeds": SEEDS, "ladder": LADDER}
    return {name: store.read_json(path) for name, path in paths.items()}


def entries(record):
    return {entry["name"]: entry for entry in record["entries"]}


@pytest.mark.parametrize("where", ["emulator", "gpu"])
def test_every_fault_and_control_is_recorded_as_it_stands(recorded, where):
    digests = {name: entry["source_digest"] for name, entry in entries(recorded[where]).items()}
    stale = {s.stem for s in FAULTS + CONTROLS if digests.get(s.stem) != source_digest(s)}
    assert not stale, f"record them again: python tools faults {where}"


def test_every_fault_is_caught_and_nine_in_ten_by_the_emulator_alone(recorded):
    assert len(FAULTS) >= 30
    emulated, on_gpu = entries(recorded["emulator"]), entries(recorded["gpu"])
    by_a_gpu = {
        name for name, entry in on_gpu.items() if entry["kind"] == "fault" and (by_check(entry) or by_sanitizer(entry))
    }
    missed = [s.stem for s in FAULTS if not by_emulator(emulated[s.stem]) and s.stem not in by_a_gpu]
    assert not missed
    assert sum(bool(by_emulator(emulated[s.stem])) for s in FAULTS) >= 0.9 * len(FAULTS)


def test_no_sound_kernel_is_blamed(recorded):
    emulated, on_gpu = entries(recorded["emulator"]), entries(recorded["gpu"])
    for source in CONTROLS:
        assert not emulated[source.stem]["found"]
        entry = on_gpu[source.stem]
        assert entry["check"]["status"] == "pass", entry
        assert [tool["verdict"] for tool in entry["sanitizer"]] == ["pass"] * 4, entry


def test_no_rung_as_it_stands_is_blamed_on_a_gpu():
    rungs = plan(read_yaml(ROOT / "config/config.yaml") | {"gpu": "h100-sxm", "measure": False}).ladder
    blamed = {}
    for path in sorted((ROOT / "results/h100-sxm/raw").glob("sanitize/*.json")):
        record = store.read_json(path)
        rung = rungs.get(record["rung"])
        as_it_stands = rung and "where" in record and source_of(record["where"]) == digest_of(rung)
        if as_it_stands and record["status"] == "failed":
            blamed[record["rung"]] = record["message"]
    assert not blamed


def test_two_hundred_seeds_gave_no_false_alarm(recorded):
    seeds = recorded["seeds"]
    assert seeds["seeds"] >= 200
    assert seeds["alarms"] == []
    assert {s.stem for s in CONTROLS} <= set(seeds["kernels"])
    assert len(set(seeds["kernels"]) & {s.stem for s in RUNGS}) >= 10


def test_the_emulate_stage_took_less_than_a_minute_on_two_cores_with_every_shape_of_the_check(recorded):
    ladder = recorded["ladder"]
    assert (ladder["where"]["cpus"], ladder["where"]["wall_s"] < 60) == (2, True)
    assert {entry["status"] for entry in ladder["entries"]} == {"emulated", "needs a GPU"}
    assert ladder["shapes"] >= len(read_yaml(ROOT / "config/config.yaml")["check"]["shapes"])
