"""The evidence of a rung: what its records amount to, and which of them belong to the build that was checked."""

import pytest
from conftest import a_check, a_rung, a_timing, a_where, an_evidence, line_of, time_run, write
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.profiles import keep_profiles
from ladder.tables.evidence import read_evidence

TIMED = (a_timing("naive", "512", {"naive": [1.0]}),)
NOT_COMPILED = {"status": "failed", "message": "a.cu(3): error"}
NOT_APPLICABLE = {"status": "does not apply", "message": "needs 10.0"}
NEEDS_GPU = {"status": "needs a GPU", "message": "a.cu:3: inline PTX", "cases": []}
NOT_EMULATED = {"status": "not emulated", "message": "no g++", "cases": []}
EMULATED = {"status": "emulated", "message": "", "cases": []}
PASSED_ON_T4 = "to be checked here; the same source passed its check on t4"
WRONG = a_check("failed", "4: NaN")


@pytest.mark.parametrize(
    ("name", "changes", "status", "message", "sound"),
    [
        ("naive", {}, "not recorded", "", False),
        ("naive", {"timings": TIMED}, "ok", "", True),
        ("naive", {"check": None}, "not recorded", "", False),
        ("naive", {"check": None, "emulated": NEEDS_GPU}, "not checked", "a.cu:3: inline PTX", False),
        ("naive", {"check": None, "emulated": NOT_EMULATED}, "not checked", "no g++", False),
        ("naive", {"check": None, "emulated": NEEDS_GPU, "passed_on": "t4"}, "needs a GPU", PASSED_ON_T4, False),
        ("naive", {"check": None, "emulated": NOT_EMULATED, "passed_on": "t4"}, "needs a GPU", PASSED_ON_T4, False),
        ("naive", {"check": None, "emulated": EMULATED, "passed_on": "t4"}, "not recorded", "", False),
        ("naive", {"check": None, "emulated": EMULATED}, "not recorded", "", False),
        ("naive", {"emulated": NEEDS_GPU, "timings": TIMED}, "ok", "", True),
        ("cublas", {"check": None, "emulated": NEEDS_GPU}, "not recorded", "", False),
        ("naive", {"check": WRONG}, "wrong", "4: NaN", False),
        ("naive", {"check": WRONG, "timing_failure": "it hung"}, "wrong", "4: NaN", False),
        ("naive", {"timing_failure": "it hung", "timings": TIMED}, "timing failed", "it hung", False),
        ("naive", {"inspection": NOT_COMPILED}, "does not compile", "a.cu(3): error", False),
        ("naive", {"inspection": NOT_COMPILED, "check": WRONG}, "does not compile", "a.cu(3): error", False),
        ("naive", {"inspection": NOT_APPLICABLE}, "does not apply", "needs 10.0", False),
        ("empty", {"timings": TIMED}, "not checked", "", True),
        ("empty", {}, "not recorded", "", False),
        ("empty", {"timing_failure": "it hung"}, "timing failed", "it hung", False),
        ("empty", {"inspection": NOT_COMPILED}, "does not compile", "a.cu(3): error", False),
    ],
)
def test_what_the_records_of_a_rung_amount_to(name, changes, status, message, sound):
    changes = dict(changes)
    item = an_evidence(name, changes.pop("timings", ()), **changes)
    assert (item.status, item.message, item.sound) == (status, message, sound)


@pytest.mark.parametrize(
    ("digest", "changes", "current"),
    [
        ("source-1", {}, True),
        ("source-2", {}, False),
        ("source-1", {"check": None, "timings": TIMED}, True),
        ("source-2", {"check": None, "timings": TIMED}, False),
        ("source-1", {"check": None}, None),
        ("source-1", {"check": {"status": "failed", "message": "", "cases": []}}, None),
    ],
)
def test_records_are_current_while_the_source_is_as_it_was(monkeypatch, digest, changes, current):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: digest)
    changes = dict(changes)
    assert an_evidence("naive", changes.pop("timings", ()), **changes).source_is_current is current


def test_every_record_says_where_it_was_made():
    profile = {"512": {"where": a_where(measured_at="2026-03-01T00:00:00+00:00"), "kernels": []}}
    item = an_evidence("naive", TIMED, profiles=profile)
    assert [place["measured_at"][:7] for place in item.places] == ["2026-01", "2026-01", "2026-03"]
    assert an_evidence("naive", check={"status": "failed", "message": "", "cases": []}).places == []


# Reading


@pytest.fixture
def recorded(tmp_path):
    """Writes records of a rung and reads its evidence."""
    raw = tmp_path / "raw"
    inspection = tmp_path / "inspect.json"
    store.write_json(inspection, {"status": "ok", "message": "", "kernels": [], "launches": {}})

    def read(
        name="naive",
        shapes=(512, 1024),
        check=None,
        runs=(),
        failure="",
        profiles=None,
        profile_failure="",
        emulated=None,
        passed_on="",
        elsewhere=(),
    ):
        if check:
            store.write_json(raw / f"check/{name}.json", check)
        for run in runs:
            store.add_run(raw / f"time/{name}.zip", run)
        if failure:
            store.conclude_timing(raw / f"time/{name}.zip", failure, "build-1")
        if profiles is not None:
            keep_profiles(raw / f"profile/{name}.json.xz", name, profiles, profile_failure, "build-1")
        if emulated:
            store.write_json(tmp_path / "emulated.json", emulated)
        on_cpu = tmp_path / "emulated.json" if emulated else None
        wanted = [Shape(n, n, n) for n in shapes]
        return read_evidence(a_rung(name), inspection, raw, wanted, on_cpu, passed_on=passed_on, elsewhere=elsewhere)

    read.raw = raw
    return read


def test_passes_of_shapes_without_a_profile_are_another_gpus_of_the_same_build(recorded, tmp_path):
    profile = {"where": a_where(), "kernels": []}
    own, other = {"512": profile}, {"512": profile, "1024": profile}
    recorded(check=a_check(), profiles=own)
    raw = {gpu: tmp_path / gpu / "raw/profile/naive.json.xz" for gpu in ("stale", "same")}
    keep_profiles(raw["stale"], "naive", {"1024": {**profile, "where": a_where("build-0")}}, "", "build-0")
    keep_profiles(raw["same"], "naive", other, "", "build-1")
    item = recorded(elsewhere=list(raw.values()))
    assert (item.counted_on, list(item.counted), list(item.profiles)) == ("same", ["1024"], ["512"])


def run(*sizes: str, hour: int = 1, name: str = "naive", **changes):
    samples = {(name, size): [hour * 1e-3] for size in sizes}
    return time_run(name, samples, measured_at=f"2026-01-02T{hour:02}:00:00+00:00", **changes)


def sizes(item) -> list[int]:
    return [shape.n for shape in item.timings]


def test_a_rung_without_records_is_not_recorded(recorded):
    item = recorded()
    assert (item.status, item.check, item.timings, item.profiles) == ("not recorded", None, {}, {})


def test_only_the_shapes_asked_for_are_taken_in_their_order(recorded):
    assert sizes(recorded(shapes=(1024, 512), check=a_check(), runs=[run("512", "1024", "2048")])) == [1024, 512]


def test_timings_of_another_build_than_the_checked_one_are_left_out(recorded):
    runs = [run("512", hour=1), run("1024", hour=2, build="build-2")]
    assert sizes(recorded(check=a_check(build="build-2"), runs=runs)) == [1024]


def test_records_of_no_build_that_passed_the_check_are_a_failure_and_not_ok_without_numbers(recorded):
    profile = {"512": {"where": a_where(), "kernels": []}}
    item = recorded(check=a_check(build="build-2"), runs=[run("512")], profiles=profile)
    assert (item.status, item.timings) == ("timing failed", {})
    held = "holds nothing of the build that passed the check"
    assert (
        item.message
        == f"{recorded.raw}/time/naive.zip: {held}; record it again on that GPU: snakemake --cores all --until time"
    )


def test_a_profile_of_an_earlier_build_is_shown_until_there_is_one_of_the_build_that_was_checked(recorded):
    earlier = {"512": {"where": a_where(), "kernels": []}}
    item = recorded(check=a_check(build="build-2"), profiles=earlier)
    assert item.profiles == earlier
    again = "record it again on that GPU: snakemake --cores all --until profile"
    assert item.profile_failure == f"{recorded.raw}/profile/naive.json.xz: of an earlier build than the times; {again}"
    item = recorded(check=a_check(), profiles=earlier)
    assert (item.profiles, item.profile_failure) == (earlier, "")


def test_a_rung_that_the_machine_kept_from_being_profiled_is_told_and_has_no_failure(recorded):
    item = recorded(check=a_check(), runs=[run("512")], profiles={})
    assert (item.status, item.message) == ("ok", "")
    assert item.profile_failure.endswith("snakemake --cores all --until profile")


@pytest.mark.parametrize("check", [None, WRONG], ids=["not checked", "wrong"])
def test_timings_without_a_passed_check_are_left_out(recorded, check):
    item = recorded(check=check, runs=[run("512")])
    assert item.timings == {}


def test_the_empty_kernel_needs_no_check_for_its_timings(recorded):
    item = recorded("empty", runs=[run("512", name="empty")])
    assert (item.status, sizes(item)) == ("not checked", [512])


def test_why_the_last_attempt_at_timing_failed_is_read(recorded):
    item = recorded(check=a_check(), runs=[run("512")], failure="it hung")
    assert (item.status, item.message, sizes(item)) == ("timing failed", "it hung", [512])


@pytest.mark.parametrize(("claims", "status"), [(None, "ok"), ({"beta": 0}, "not recorded")])
def test_a_check_of_what_a_rung_claimed_is_no_check_of_more(recorded, claims, status):
    check = a_check() | ({"claims": claims} if claims else {})
    assert recorded(check=check, runs=[run("512")]).status == status


@pytest.mark.parametrize("check", [a_check(), WRONG], ids=["passed", "wrong"])
@pytest.mark.parametrize(
    ("source", "emulated", "passed_on", "counts"),
    [
        ("source-1", NEEDS_GPU, "", True),
        ("source-1", NOT_EMULATED, "", True),
        ("another", NEEDS_GPU, "", False),
        ("another", NOT_EMULATED, "", False),
        ("another", NEEDS_GPU, "t4", True),
        ("another", EMULATED, "", True),
        ("another", None, "", True),
    ],
)
def test_records_of_another_source_count_where_something_says_that_the_present_one_is_right(
    recorded, monkeypatch, check, source, emulated, passed_on, counts
):
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: source)
    profile = {"512": {"where": a_where(), "kernels": []}}
    item = recorded(check=check, runs=[run("512")], profiles=profile, emulated=emulated, passed_on=passed_on)
    passes = counts and check["status"] == "pass"
    assert item.status == ("not checked" if not counts else "ok" if passes else "wrong")
    assert (sizes(item), list(item.profiles)) == (([512], ["512"]) if passes else ([], []))


def test_profiles_and_why_others_are_missing_are_read(recorded):
    profile = {"512": {"where": a_where(), "kernels": []}}
    item = recorded(check=a_check(), profiles=profile, profile_failure="ncu: not found")
    assert (item.profiles, item.profile_failure) == (profile, "ncu: not found")
    assert item.status == "not recorded"


def test_profiles_of_a_rung_that_is_wrong_are_left_out(recorded):
    profile = {"512": {"where": a_where(), "kernels": []}}
    assert recorded(check=WRONG, profiles=profile).profiles == {}


@pytest.mark.parametrize("file", ["check/naive.json", "time/naive.zip", "profile/naive.json.xz"])
def test_a_damaged_record_is_never_taken_for_a_missing_one(recorded, file):
    write(recorded.raw / file, "damaged")
    assert f"{file}: the record is damaged" in line_of(recorded)
    assert (recorded.raw / file).read_text() == "damaged"
