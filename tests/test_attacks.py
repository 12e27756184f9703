"""tests/attacks has attacks of every class, docs/attacks.md names them, and the record says what caught them."""

import json
from itertools import count

import pytest
import record_attacks
from conftest import a_where
from corpus import header, title
from ladder.config.plan import plan
from ladder.records import store
from record_attacks import (
    ATTACKS,
    CLASSES,
    COMPILED,
    CONTROL,
    KINDS,
    ON_GPU,
    Corpus,
    attacks,
    classes,
    compiled_on_cpu,
    digest_of,
    expected,
    is_caught,
)

# The corpus


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_says_what_it_does_of_which_classes_it_is_and_by_what_it_has_to_be_caught(attack):
    assert attack.read_text().startswith(f"// {attack.stem}: ")
    assert title(attack)
    assert header(attack, "Class")
    assert set(classes(attack)) <= CLASSES.keys()
    assert expected(attack) <= KINDS.keys()


def test_there_are_attacks_of_every_class_and_for_everything_that_may_catch_one():
    assert len(ATTACKS) >= 36
    assert {each for attack in ATTACKS for each in classes(attack)} == CLASSES.keys()
    assert {each for attack in ATTACKS for each in expected(attack)} == KINDS.keys()


@pytest.mark.parametrize("attack", [CONTROL, *ATTACKS], ids=lambda path: path.stem)
def test_an_attack_compiles_and_is_refused_only_for_what_it_imports_or_exports(attack, nvcc):
    if nvcc.version != (of := store.read_json(COMPILED)["nvcc"]):
        pytest.skip(f"recorded with nvcc {of}, here is {nvcc.version}")
    message = compiled_on_cpu(attack, nvcc)["message"]  # a source that has changed since is compiled here
    must = "source" in header(attack, "Caught by")
    assert message.partition(" ")[0] in (("imports", "exports") if must else ("",))


# What catches one


def entry(name="one", stage="", times_ms=None, **more):
    return {"name": name, "stage": stage, "message": "why", "times_ms": times_ms or {}, **more}


@pytest.mark.parametrize(
    ("stage", "times_ms", "kinds", "caught"),
    [
        ("compile", {}, {"source"}, True),
        ("check", {}, {"values"}, True),
        ("time", {}, {"no gain"}, True),
        ("broken", {}, {"values", "no gain"}, False),
        ("", {"512": 1.0, "1024": 8.0}, {"values"}, False),
        ("", {"512": 1.0, "1024": 8.0}, {"values", "no gain"}, True),
        ("", {"512": 0.9, "1024": 8.0}, {"values", "no gain"}, False),
    ],
)
def test_an_attack_is_caught_by_a_stage_or_where_that_is_enough_by_gaining_nothing(stage, times_ms, kinds, caught):
    control = entry("control", times_ms={"512": 1.0, "1024": 8.1})
    assert is_caught(entry(stage=stage, times_ms=times_ms), control, kinds) == caught


def test_without_the_controls_time_nothing_is_said_to_gain_nothing():
    assert not is_caught(entry(times_ms={"512": 1.0}), None, {"no gain"})


def test_the_page_counts_what_is_caught_and_names_what_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr(record_attacks, "ON_GPU", tmp_path / "attacks.json")
    assert all(row["caught"] is None for row in attacks()["rows"])
    one, other, *_ = (attack.stem for attack in ATTACKS)
    entries = [entry(one, "time"), entry(other, "broken")]
    store.write_json(tmp_path / "attacks.json", {"stage": "attacks", "entries": entries, "sound": []})
    rows = {row["name"]: row for row in attacks()["rows"]}
    assert (rows[one]["caught"], rows[other]["caught"]) == (True, False)
    assert rows[one]["by"].endswith(": why")


# The record


class Run:
    """A plan whose records go to a folder."""

    def __init__(self, folder):
        self.raw = lambda: folder


def test_what_was_recorded_stays_also_where_the_machine_broke_off_and_what_is_no_attack_any_more_goes(tmp_path):
    for name in ("gone", "one", "two"):
        Corpus(Run(tmp_path)).keep("entries", entry(name), ["gone", "one", "two"])
    corpus = Corpus(Run(tmp_path))
    corpus.keep("entries", entry("two", "time"), ["two", "one", "three"])
    corpus.keep("entries", entry("two", "broken"), ["two", "one", "three"])
    record = json.loads((tmp_path / ON_GPU.name).read_text())
    assert [(each["name"], each["stage"]) for each in record["entries"]] == [("two", "time"), ("one", "")]
    assert record["sound"] == []


def test_a_run_goes_on_where_the_last_one_stopped_and_ends_in_time(tmp_path, monkeypatch):
    asked = []

    def compiled(run, folder):
        return {rung.name: None for rung in (*run.rungs, run.first)}

    def attacked(run, name, builds, folder):
        asked.append(name)
        return {"stage": "time", "message": "dishonest: why", "times_ms": {}}

    for function in (compiled, attacked):
        monkeypatch.setattr(record_attacks, function.__name__, function)
    monkeypatch.setattr(record_attacks, "place", lambda run, made: a_where())
    clock = count()
    monkeypatch.setattr(record_attacks.time, "monotonic", lambda: next(clock))
    run = plan({"gpu": "h100-sxm", "measure": False})
    monkeypatch.setattr(type(run), "raw", lambda self: tmp_path)
    record_attacks.on_gpu(run, tmp_path, 20)
    first = len(asked)
    assert 1 < first < len(ATTACKS)
    record_attacks.on_gpu(run, tmp_path, 1e6)
    assert asked == [source.stem for source in [CONTROL, *ATTACKS]]
    assert record_attacks.on_gpu(run, tmp_path, 1e6) == store.read_json(tmp_path / ON_GPU.name)
    assert len(asked) == len(ATTACKS) + 1


@pytest.fixture(scope="module")
def recorded():
    if not ON_GPU.exists():
        pytest.skip("not recorded yet: python tools attacks gpu")
    return store.read_record(ON_GPU)


def test_every_attack_is_recorded_with_its_gpu_and_day(recorded):
    assert all(each["gpu"].startswith("GPU-") and each["measured_at"] for each in recorded["entries"])


def test_every_attack_is_recorded_as_it_stands(recorded):
    digests = {each["name"]: each["source_digest"] for each in recorded["entries"]}
    stale = {source.stem for source in [CONTROL, *ATTACKS] if digests.get(source.stem) != digest_of(source)}
    assert not stale, "record them again: python tools attacks gpu"


def missed(recorded) -> list[str]:
    """The attacks that nothing caught."""
    entries = {each["name"]: each for each in recorded["entries"]}
    return [a.stem for a in ATTACKS if not is_caught(entries[a.stem], entries[CONTROL.stem], expected(a))]


def test_every_attack_is_caught(recorded):
    assert missed(recorded) == []


def test_what_is_not_caught_says_what_that_would_take_and_nothing_else_does(recorded):
    assert missed(recorded) == [a.stem for a in ATTACKS if header(a, "Would take")]


def test_the_control_is_timed_and_attacks_that_borrow_do_not_compile(recorded):
    entries = {each["name"]: each for each in recorded["entries"]}
    control = entries[CONTROL.stem]
    assert (control["stage"], control["message"]) == ("", "")
    assert {a.stem for a in ATTACKS if "source" in expected(a)} == {
        name for name, each in entries.items() if each["stage"] == "compile"
    }


def test_no_sound_rung_raised_an_alarm(recorded):
    if not recorded["sound"]:
        pytest.skip("not recorded yet: python tools attacks sound")
    assert len(recorded["sound"]) >= 17, "record them: python tools attacks sound"
    assert {each["name"]: each["alarms"] for each in recorded["sound"] if each["alarms"]} == {}
    assert min(each["runs"] for each in recorded["sound"]) >= 10
