"""Records on disk: whole or not at all, equal for equal content, and one line for what cannot be read."""

import json
import os
import re
import stat
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import a_device, a_where, line_of, time_run, write
from ladder.records import provenance, store
from ladder.records.provenance import environment
from ladder.system import cublas
from ladder.system.paths import ROOT

RESTORE = "; restore it with git checkout, or delete it to measure again"


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Writing


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("death", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_writer_that_dies_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, step, death):
    path = tmp_path / "record.json"
    store.write_bytes(path, b"old")

    def die(*_):
        raise death

    monkeypatch.setattr(os, step, die)
    with pytest.raises(type(death)):
        store.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["record.json"]


def test_the_new_content_is_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    seen = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (seen.append("replace"), replace(*names)))
    store.write_bytes(tmp_path / "record.json", b"new")
    assert seen == ["fsync", "replace"]
    assert (tmp_path / "record.json").read_bytes() == b"new"


def test_a_completed_write_leaves_one_readable_file_in_a_folder_made_for_it(tmp_path):
    path = tmp_path / "deep/er/record.json"
    store.write_text(path, "µ\n")
    store.write_text(path, "µ2\n")
    assert path.read_bytes() == "µ2\n".encode()
    assert names(path.parent) == ["record.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["record.json", "record.json.gz", "record.json.xz"])
def test_a_json_record_reads_back_as_written_with_its_version(tmp_path, name):
    record = {"rung": "naive", "cases": [{"a": 1}, {"a": None}], "flags": ["x"], "empty": [], "text": 'µ"\n'}
    store.write_json(tmp_path / name, record)
    assert store.read_json(tmp_path / name) == {"schema_version": 1, **record}


@pytest.mark.parametrize("name", ["record.json", "record.json.gz", "record.json.xz"])
def test_equal_json_records_are_equal_bytes(tmp_path, monkeypatch, name):
    store.write_json(tmp_path / "1" / name, {"rung": "naive", "cases": [{"a": 1}]})
    monkeypatch.setattr("time.time", lambda: 2e9)
    store.write_json(tmp_path / "2" / name, {"rung": "naive", "cases": [{"a": 1}]})
    assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*/raw/profile/*")), ids=lambda path: path.name)
def test_a_profile_in_git_is_packed_as_the_profile_stage_packs_it(path):
    assert path.suffix == ".xz"
    assert store.PACKED[".xz"](store.UNPACKED[".xz"](path.read_bytes())) == path.read_bytes()


@pytest.mark.parametrize("together", [False, True])
def test_equal_archives_are_equal_bytes_whatever_the_order_of_their_members(tmp_path, together):
    store.write_archive(tmp_path / "1.zip", {"a": b"1", "b/c": b"2" * 1000}, together)
    os.utime(tmp_path / "1.zip", (0, 0))
    store.write_archive(tmp_path / "2.zip", {"b/c": b"2" * 1000, "a": b"1"}, together)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert store.read_archive(tmp_path / "1.zip") == {"a": b"1", "b/c": b"2" * 1000}
    assert store.read_archive(tmp_path / "1.zip", "c") == {"b/c": b"2" * 1000}


def test_a_record_has_a_line_for_each_row_of_a_list():
    text = store.to_json({"a": 1, "cases": [{"b": 1}, {"b": 2}]})
    assert text == '{\n"a": 1,\n"cases": [\n {"b": 1},\n {"b": 2}\n]\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("wrap", [lambda v: {"a": v}, lambda v: {"a": [{"b": v}]}, lambda v: [v]])
def test_what_json_cannot_hold_is_never_written(value, wrap):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        store.to_json(wrap(value))
    assert "not JSON compliant" in str(caught.value)


# Reading what is damaged


def truncations(content: bytes) -> list[bytes]:
    return [content[:length] for length in (0, 1, len(content) // 2, len(content) - 1)]


@pytest.mark.parametrize("name", ["record.json", "record.json.gz", "record.json.xz", "record.zip", "together.zip"])
@pytest.mark.parametrize("part", range(4))
def test_a_truncated_record_is_one_line_and_is_left_as_it_is(tmp_path, name, part):
    path = tmp_path / name
    read = store.read_archive if path.suffix == ".zip" else store.read_json
    if path.suffix == ".zip":
        store.write_archive(path, {"a/record.json": b"{}" * 200}, together=name == "together.zip")
    else:
        store.write_json(path, {"text": "x" * 200})
    # without its last byte, a line's end, JSON is still whole
    damaged = truncations(path.read_bytes().rstrip(b"\n"))[part]
    path.write_bytes(damaged)
    message = line_of(read, path)
    assert message.startswith(f"{path}: the record is damaged (")
    assert message.endswith(RESTORE)
    assert path.read_bytes() == damaged
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("name", ["record.json", "record.json.gz", "record.json.xz"])
@pytest.mark.parametrize(
    ("old", "new"),
    [('"ms": 1.5', '"ms": 1.25'), ('"naive"', '"tiled"'), (', {"a": 2}', ""), ("\n}", ',\n"more": 1\n}'), ("}\n", "}")],
)
def test_a_record_that_was_changed_is_one_line_and_one_from_before_digests_is_read(tmp_path, name, old, new):
    path = tmp_path / name
    pack, unpack = (kinds.get(path.suffix, bytes) for kinds in (store.PACKED, store.UNPACKED))
    record = {"rung": "naive", "ms": 1.5, "cases": [1, {"a": 2}]}
    store.write_json(path, record)
    whole = unpack(path.read_bytes()).decode()
    changed = whole.replace(old, new)
    assert changed != whole
    path.write_bytes(pack(changed.encode()))
    assert line_of(store.read_json, path) == (
        f"{path}: the record is damaged (its digest is that of another content){RESTORE}"
    )
    before_digests = store.to_json({"schema_version": 1, **record}).replace(old, new)
    path.write_bytes(pack(before_digests.encode()))
    assert store.read_json(path) == json.loads(before_digests)


@pytest.mark.parametrize("content", [b"not JSON", b"\xff\xfe", b"{'a': 1}"])
def test_a_record_that_is_no_json_is_one_line(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    assert line_of(store.read_json, path).endswith(RESTORE)


@pytest.mark.parametrize(("ending", "problem"), [("gz", "Not a gzipped file"), ("xz", "Input format not supported")])
def test_a_packed_record_that_is_not_packed_is_one_line(tmp_path, ending, problem):
    path = tmp_path / f"record.json.{ending}"
    path.write_bytes(b'{"schema_version": 1}')
    assert line_of(store.read_json, path).startswith(f"{path}: the record is damaged ({problem}")


@pytest.mark.parametrize(
    ("content", "version"),
    [
        ({"schema_version": 2}, "2"),
        ({"schema_version": "1"}, "'1'"),
        ({"rung": "naive"}, "None"),
        ([1], "None"),
        (5, "None"),
    ],
)
@pytest.mark.parametrize("name", ["record.json", "record.json.gz", "record.json.xz"])
def test_a_record_of_another_schema_version_is_one_line_and_is_left_as_it_is(tmp_path, name, content, version):
    path = tmp_path / name
    data = json.dumps(content).encode()
    path.write_bytes(store.PACKED.get(path.suffix, bytes)(data))
    before = path.read_bytes()
    assert line_of(store.read_json, path) == (
        f"{path}: schema_version: {version} is not 1; use the gemm-ladder that wrote the record, or delete it to "
        "measure again"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("files", [{}, {"record.json": b"{"}], ids=["missing", "truncated"])
def test_a_run_without_a_whole_record_is_one_line(files):
    message = line_of(store.run_record, files, Path("time/naive.zip"))
    assert message.startswith("time/naive.zip: the record is damaged (")
    assert message.endswith(RESTORE)


def test_a_run_of_another_schema_version_is_one_line():
    message = line_of(store.run_record, {"record.json": b'{"schema_version": 7}'}, Path("time/naive.zip"))
    assert message.startswith("time/naive.zip: schema_version: 7 is not 1; ")


# Time records


def run(shapes: list[str], hour: int, build: str = "build-1") -> dict[str, bytes]:
    """One run of naive at the shapes, ended at that hour."""
    samples = {("naive", shape): [1e-3] for shape in shapes}
    return time_run("naive", samples, measured_at=f"2026-01-02T{hour:02}:00:00+00:00", build=build)


def held(path) -> list[list[str]]:
    """The shapes of each run in a time record, oldest first."""
    return [store.run_record(files, path)["shapes"] for files in store.read_runs(path).values()]


def test_a_run_is_kept_file_by_file_under_the_time_it_ended(tmp_path):
    files = run(["128"], 1)
    store.add_run(tmp_path / "naive.zip", files)
    assert store.read_runs(tmp_path / "naive.zip") == {"2026-01-02T01-00-00+00-00": files}


@pytest.mark.parametrize(
    ("runs", "left"),
    [
        ([["128"], ["128"]], [["128"]]),
        ([["128", "256"], ["128"]], [["128", "256"], ["128"]]),
        ([["128"], ["128", "256"]], [["128", "256"]]),
        ([["128"], ["256"]], [["128"], ["256"]]),
        ([["128", "256"], ["128"], ["256"]], [["128", "256"], ["128"], ["256"]]),
        ([["128"], ["256"], ["256", "128", "512"]], [["256", "128", "512"]]),
    ],
)
def test_a_run_supersedes_only_those_of_which_it_measured_every_shape(tmp_path, runs, left):
    for hour, shapes in enumerate(runs):
        store.add_run(tmp_path / "naive.zip", run(shapes, hour))
    assert held(tmp_path / "naive.zip") == left


def test_a_run_that_is_no_run_changes_nothing(tmp_path):
    path = tmp_path / "naive.zip"
    store.add_run(path, run(["128"], 1))
    before = path.read_bytes()
    line_of(store.add_run, path, {"nvbench.json": b"{}"})
    assert path.read_bytes() == before


def test_why_an_attempt_failed_is_kept_beside_all_measurements_until_one_succeeds(tmp_path):
    path = tmp_path / "naive.zip"
    store.add_run(path, run(["128"], 1))
    measured = store.read_runs(path)
    assert store.read_failure(path) is None
    store.conclude_timing(path, "it hung", "build-2")
    assert store.read_failure(path) == {"message": "it hung", "build_digest": "build-2"}
    assert store.read_runs(path) == measured
    store.conclude_timing(path, "it crashed", "build-3")
    assert store.read_failure(path) == {"message": "it crashed", "build_digest": "build-3"}
    store.conclude_timing(path, "", "build-4")
    assert store.read_failure(path) is None
    assert store.read_runs(path) == measured


@pytest.mark.parametrize("message", ["", "it hung"])
def test_an_attempt_without_any_measurement_leaves_a_record_all_the_same(tmp_path, message):
    path = tmp_path / "time/naive.zip"
    store.conclude_timing(path, message, "build-1")
    assert store.read_runs(path) == {}
    assert (store.read_failure(path) or {}).get("message", "") == message


# Digests and the environment


def test_a_digest_depends_on_where_its_parts_end():
    assert store.digest("ab", "c") != store.digest("a", "bc")
    assert store.digest("abc") != store.digest("a", "bc")
    assert store.digest("a", "") != store.digest("a")
    assert store.digest("a", b"b") == store.digest(b"a", "b")


def test_a_digest_is_sixteen_digits_that_stay_the_same():
    # of the SHA-256 over a length of 1 in 8 bytes and `a`
    assert store.digest("a") == "ae6121c88ba555f6"


def test_a_digest_of_files_depends_on_names_contents_and_the_rest(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in {"a": "1", "b": "1", "sub/a": "2"}.items():
        (tmp_path / name).write_text(text)
    a, b, other = (tmp_path / name for name in ("a", "b", "sub/a"))
    found = [
        store.digest_files([a]),
        store.digest_files([b]),
        store.digest_files([other]),
        store.digest_files([a], "x"),
        store.digest_files([a, b]),
        store.digest_files([b, a]),
    ]
    assert len(set(found)) == len(found)
    assert store.digest_files([a]) == found[0]


def test_times_are_utc_in_whole_seconds():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", provenance.now())


def test_outside_git_the_commit_is_what_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv("GEMM_LADDER_COMMIT", raising=False)
    assert provenance.git_commit(tmp_path) == "unknown"
    monkeypatch.setenv("GEMM_LADDER_COMMIT", "")
    assert provenance.git_commit(tmp_path) == "unknown"
    monkeypatch.setenv("GEMM_LADDER_COMMIT", "abc")
    assert provenance.git_commit(tmp_path) == "abc"


def a_checkout(folder: Path, **files: str) -> Callable[..., None]:
    """A git checkout with these files committed; returns git."""

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)

    for name, text in files.items():
        write(folder / name, text)
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    return git


@pytest.mark.parametrize(
    ("changed", "dirty"), [("kernels/naive.cu", True), ("results/g/raw/check/naive.json", False), ("notes.txt", False)]
)
def test_a_commit_is_dirty_where_tracked_files_differ_but_for_the_records_that_a_run_writes(tmp_path, changed, dirty):
    a_checkout(tmp_path, **{"kernels/naive.cu": "1", "results/g/raw/check/naive.json": "1"})
    clean = provenance.git_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean)
    write(tmp_path / changed, "2")
    assert provenance.git_commit(tmp_path) == clean + "-dirty" * dirty


LIBRARY = """
static int of(int part, int* value, int major, int minor, int patch) {
    *value = part == 0 ? major : part == 1 ? minor : patch;
    return 0;
}
int cublasGetProperty(int part, int* value) { return of(part, value, 13, 1, 0); }
int cublasLtGetProperty(int part, int* value) { return of(part, value, 12, 9, 2); }
"""


def test_the_software_of_a_record_has_the_versions_that_the_cublas_it_loads_says(tmp_path, monkeypatch):
    library = tmp_path / "libcublas.so.13"  # no file or package is named after the versions
    command = ["g++", "-x", "c", "-shared", "-fPIC", "-o", str(library), "-"]
    subprocess.run(command, input=LIBRARY.encode(), check=True)
    found = []
    for path in (library, tmp_path / "none.so"):
        monkeypatch.setattr(cublas, "provide_cublas", lambda path=path: monkeypatch.setenv(cublas.LOCATION, str(path)))
        monkeypatch.setattr(provenance, "cublas_versions", cublas.cublas_versions.__wrapped__)
        found.append(provenance.software(tmp_path))
    assert (found[0]["cublas"], found[0]["cublas_lt"]) == ("13.1.0", "12.9.2")
    assert set(found[1]) == {"git_commit", "python", "system", "packages"}


def test_the_software_of_a_record_names_the_packages_that_are_installed(tmp_path):
    found = provenance.software(tmp_path)
    assert set(found) >= {"git_commit", "python", "system", "packages"}
    assert "numpy" in found["packages"]
    assert set(found["packages"]) <= set(provenance.PACKAGES)


def test_an_environment_names_everything_that_could_explain_a_measurement(tmp_path):
    found = environment(tmp_path, a_device(), a_where()["compile"] | {"log": "long"}, "settings-1")
    assert set(found) == {"measured_at", "gpu", "software", "compile", "config_digest"}
    assert found["gpu"]["uuid"] == "GPU-0"
    assert found["compile"] == a_where()["compile"]
    assert found["config_digest"] == "settings-1"


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm"])
def test_what_git_keeps_of_a_gpu_leaves_half_a_megabyte_below_five_and_without_other_languages_a_whole_one(gpu):
    results = ROOT / "results" / gpu
    kept = [
        path
        for part in ("raw", "tables")
        for path in (results / part).rglob("*")
        if path.name not in ("checks.csv", "samples.csv")
    ]
    sizes = {
        str(path): len(zlib.compress(path.read_bytes()))
        for path in [*kept, *results.glob("figures/overview*.png")]
        if path.is_file()
    }
    assert len(sizes) > 30
    of_others = {path: size for path, size in sizes.items() if Path(path).name.startswith(("triton_", "cutile_"))}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    assert sum(sizes.values()) < 4.5e6, largest
    assert sum(sizes.values()) - sum(of_others.values()) < 4e6, largest
