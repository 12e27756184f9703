"""docs/faults.md says what the records say, and the records say what the corpus is for."""

import re
from dataclasses import replace

import corpus as corpus_module
import pytest
import record_faults
import recording
from conftest import a_device, line_of, write
from corpus import (
    CLASSES,
    CONTROLS,
    FAULTS,
    SGEMM,
    base,
    expected,
    header,
    source_digest,
    the_plan,
    whole,
    without_comments,
    written,
)
from emulator import RUNGS, compile_rung
from ladder.config.documents import read_yaml
from ladder.config.plan import plan
from ladder.config.sources import source_digest as digest_of
from ladder.records import store
from ladder.records.digests import source_of
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from record_faults import (
    EMULATED,
    LADDER,
    ON_GPU,
    SEEDS,
    TOOLS,
    by_emulator,
    by_gpu,
    corpus,
    false_alarms,
    on_gpu,
    on_gpus,
    record_each,
    seeds_in_all,
)

# A fault is a patch


@pytest.mark.parametrize("fault", FAULTS, ids=lambda path: path.stem)
def test_a_fault_is_its_comment_and_a_changed_sound_kernel(fault):
    text = whole(fault)
    assert text.startswith(f"// {fault.stem}: ")
    added = [line[1:] for line in fault.read_text().splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert set(added) <= set(text.splitlines())
    assert without_comments(text) != without_comments(base(fault).read_text())


def test_a_compiler_names_the_fault(tmp_path):
    fault = tmp_path / "torn.patch"
    text = next(each for each in FAULTS if each.stem == "beta_ignored").read_text()
    fault.write_text(re.sub(r"^\+ .*", "+    torn;", text, flags=re.MULTILINE))
    said = compile_rung(written(fault, tmp_path), tmp_path / "torn.so")
    assert "torn.cu:" in said
    assert "the emulator cannot run torn; it has nothing of that name" in said


HUNK = "@@ -1 +1 @@\n-no such line\n+another\n"


def test_a_patch_that_does_not_fit_its_control_is_refused(tmp_path):
    fault, control = tmp_path / "one.patch", CONTROLS[0].relative_to(ROOT)
    fault.write_text(f"// one: a fault.\n--- a/{control}\n+++ b/{control}\n{HUNK}")
    assert line_of(whole, fault).startswith(f"one.patch: error: patch failed: {control}:1")


def test_a_patch_of_a_rung_holds_whatever_the_rungs_comments_say(tmp_path, monkeypatch):
    fault = next(each for each in FAULTS if base(each) in SGEMM)
    whole_before, rung = whole(fault), base(fault).relative_to(corpus_module.ROOT)
    text = base(fault).read_text()
    commented = re.sub(r"^(?!#|.*\\$)(.+;)$", r"\1  // said anew", text, flags=re.MULTILINE).replace(
        "\n\n", "\n// more\n\n"
    )
    assert commented != text
    write(tmp_path / rung, commented)
    monkeypatch.setattr(corpus_module, "ROOT", tmp_path)
    monkeypatch.setattr(corpus_module, "SGEMM", [tmp_path / rung])
    corpus_module._patched.cache_clear()
    assert whole(fault) == whole_before


@pytest.mark.parametrize("text", ["#include <gemm.cuh>\n", f"--- a/other.cu\n+++ b/other.cu\n{HUNK}"])
def test_a_fault_that_is_no_patch_of_a_sound_kernel_is_refused(tmp_path, text):
    fault = tmp_path / "one.patch"
    fault.write_text(f"// one: a fault.\n{text}")
    assert line_of(whole, fault).startswith("one.patch: is not `// NAME: ")


# A record that goes on where it stopped


def test_a_record_keeps_what_it_has_of_the_same_source_and_records_the_rest(tmp_path):
    path, done = tmp_path / "record.json", []

    def of_one(source):
        done.append(source.stem)
        return {"found": ""}

    record_each(path, CONTROLS[:2], {"emulator": "one"}, of_one, 1)
    record_each(path, CONTROLS[:3], {"emulator": "one"}, of_one, 1)
    assert done == [source.stem for source in CONTROLS[:3]]
    record_each(path, CONTROLS[:3], {"emulator": "another"}, of_one, 1)
    assert len(done) == 6
    assert [entry["emulator"] for entry in store.read_json(path)["entries"]] == ["another"] * 3


# What was recorded


def test_every_fault_names_its_class_and_every_class_has_a_fault():
    assert {header(source, "Class") for source in FAULTS} == set(CLASSES)


def test_every_fault_and_control_is_recorded_as_it_stands():
    digests = {entry["name"]: entry["source_digest"] for entry in store.read_json(EMULATED)["entries"]}
    stale = {s.stem for s in FAULTS + CONTROLS if digests.get(s.stem) != source_digest(s)}
    assert not stale, "record them again: python tools faults emulator"


def test_a_tool_that_blames_a_sound_kernel_says_nothing_of_the_faults_in_it():
    fault = next(each for each in FAULTS if base(each) in CONTROLS)
    tools = [{"tool": tool, "verdict": "failed"} for tool in ("memcheck", "initcheck")]
    check = {"status": "failed", "message": "wrote outside"}
    alarms = false_alarms({base(fault).stem: {"sanitizer": tools[:1]}})
    assert alarms == {base(fault): ["memcheck"]}
    entry = {"check": check, "sanitizer": tools}
    assert by_gpu(entry, alarms[base(fault)]) == "writes outside, initcheck"
    assert by_gpu(entry) == "writes outside, memcheck, initcheck"


def test_what_a_gpu_found_counts_if_the_source_is_as_it_was(tmp_path):
    names = [source.stem for source in CONTROLS[:2]]
    digests = [source_digest(CONTROLS[0]), "of an older source"]
    said = [{"name": name, "source_digest": digest} for name, digest in zip(names, digests, strict=True)]
    store.write_json(tmp_path / "faults.json", {"where": {"gpu": {"name": "one"}}, "entries": said})
    assert {name: entry["where"] for name, entry in on_gpus(tmp_path / "faults.json").items()} == {
        names[0]: {"gpu": {"name": "one"}}
    }
    assert on_gpus(tmp_path / "none.json") == {}


def test_the_record_of_a_gpu_is_written_after_each_kernel_and_goes_on_where_it_was_broken_off(tmp_path, monkeypatch):
    def checked():
        return [path.name for path in sorted(tmp_path.glob("checked/*"), key=lambda path: path.stat().st_mtime_ns)]

    def build(rung, target, nvcc, flags, folder):
        store.write_json(folder / "compile.json", {"status": "ok"})

    def check_rung(made, cases, *rest, until_wrong):
        assert until_wrong
        assert any(case.drawn for case in cases)
        (tmp_path / "checked" / made.folder.name).touch()
        if len(checked()) == 3:
            raise LadderError("the machine broke it off")
        return {"status": "pass", "message": ""}

    found = {"verdict": "pass", "message": "", "findings": [{}] * 5}
    for name, stand_in in {
        **{"build": build, "check_rung": check_rung, "run_tool": lambda *asked: {"tool": asked[1], **found}},
        **{"find_nvcc": lambda asked: None, "require_sanitizer": lambda: None, "sanitizer_version": lambda tool: "1"},
        **{"environment": lambda *asked: {"gpu": {"name": "NVIDIA H100 80GB HBM3"}}},
        **{"FAULTS": FAULTS[:3], "CONTROLS": CONTROLS[:1]},
    }.items():
        monkeypatch.setattr(record_faults, name, stand_in)
    monkeypatch.setattr(recording, "CORES", 1)
    (tmp_path / "checked").mkdir()
    run = replace(the_plan(), results=tmp_path / "results", devices=(a_device(),))
    path = run.raw() / ON_GPU.name
    with pytest.raises(LadderError, match="broke it off"):
        on_gpu(run, tmp_path, 1e6)
    names = [source.stem for source in (*FAULTS[:3], CONTROLS[0])]
    assert [entry["name"] for entry in store.read_record(path)["entries"]] == sorted(names[:2])
    with pytest.raises(LadderError, match=r"faults\.json: nothing has ended within 0 s"):
        on_gpu(run, tmp_path, 0)
    assert [entry["name"] for entry in store.read_record(path)["entries"]] == sorted(names[:2])
    record = on_gpu(run, tmp_path, 1e6)
    assert store.read_record(path)["entries"] == record["entries"]
    assert sorted(checked()[-2:]) == sorted(names[2:]), "the others are held"
    assert [len(tool["findings"]) for tool in record["entries"][0]["sanitizer"]] == [3] * len(TOOLS)
    with pytest.raises(LadderError, match="has all faults and controls as they stand"):
        on_gpu(run, tmp_path, 1e6)


def test_a_fault_that_no_gpu_has_run_is_not_called_passed():
    counted, rows = on_gpus(), corpus()["rows"]
    assert {row["name"] for row in rows if row["tried"]} == {s.stem for s in FAULTS} & set(counted)
    assert all(row["on_gpu"] == "not tried yet" for row in rows if row["name"] not in counted)


def test_a_fault_that_nothing_has_caught_is_listed_with_what_it_would_take():
    found = corpus()
    assert found["total"]["faults"] == len(FAULTS) >= 68 + 45
    assert found["total"]["caught"] + len(found["missed"]) == len(FAULTS)
    assert all(row["needs"] for row in found["missed"])


def test_nine_in_ten_faults_are_caught_without_a_gpu():
    total = corpus()["total"]
    assert total["emulator"] >= 0.9 * total["faults"]


def test_a_finding_that_the_fault_does_not_explain_does_not_count():
    fault = next(each for each in FAULTS if expected(each) == {"race"})
    assert by_emulator(fault, {"found": "race"}) == "race"
    assert by_emulator(fault, {"found": "launch"}) == ""


def test_no_sound_kernel_is_blamed_but_those_that_say_so():
    controls = corpus()["controls"]
    assert [row["name"] for row in controls if row["blamed"]] == [row["name"] for row in controls if row["blame"]]


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


def test_two_hundred_seeds_gave_no_false_alarm():
    seeds = seeds_in_all(store.read_json(SEEDS))
    assert seeds["seeds"] >= 200
    assert not seeds["alarms"]
    assert len(set(seeds["kernels"]) & {s.stem for s in CONTROLS}) >= 6 + 10
    assert len(set(seeds["kernels"]) & {s.stem for s in RUNGS}) >= 10


def test_the_emulate_stage_took_at_most_90_s_on_two_cores_with_every_shape_of_the_check():
    ladder = store.read_json(LADDER)
    assert (ladder["where"]["cpus"], ladder["where"]["wall_s"] <= 90) == (2, True)
    assert {entry["status"] for entry in ladder["entries"]} == {"emulated"}
    check = read_yaml(ROOT / "config/config.yaml")["check"]
    assert min(entry["cases"] for entry in ladder["entries"]) > check["drawn"] + len(check["shapes"])
