"""What identifies a rung's code, and how records from before that rule are compared with present builds."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import REPOSITORY, a_check, a_rung, a_where, an_evidence, asked, time_run, write
from corpus import CONTROLS, FAULTS
from ladder.build.compile import Build, why_not_measured
from ladder.config.cpp import canonical
from ladder.config.sources import source_digest
from ladder.records import digests, store
from ladder.records.checks import held_cases, merge_check
from ladder.records.profiles import read_profiles
from ladder.records.provenance import made_on
from ladder.records.timings import read_time_record, timed_shapes
from ladder.records.trials import SCREEN, Record

# What the compiler sees of a source


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = 1;  // one\n", "int a = 1;\n"),
        ("f(/* rows= */ 1);", "f(1);"),
        ("int a /* of\ntwo lines */ = 1;", "int a = 1;"),
        ("// a comment that goes on \\\nint b;\nint a;", "int a;"),
        ("f(a,\n  b);\n\n\n", "f(a, b);"),
        ("f( a , b );", "f(a, b);"),
        ("#define F(x)  x   // it's\nint a;", "#define F(x) x\nint a;"),
        ("  #  define A 1\n", "#define A 1\n"),
        ("#define A \\\n  1\nint b;", "#define A 1\nint b;"),
        ("#define A /* of\ntwo lines */ 1\nint b;", "#define A 1\nint b;"),
        ("unsi\\\ngned a;", "unsigned a;"),
        ("int a = 1'000;  // it's\n", "int a = 1'000;\n"),
        ("char a = '\"';  // \"\n", "char a = '\"';\n"),
        ("char a = '\\'';  // \"\n", "char a = '\\'';\n"),
        ('const char* a = "b \\" // c";  // d\n', 'const char* a = "b \\" // c";\n'),
        ('asm("add;" /* d */ : "+r"(a));', 'asm("add;" : "+r"(a));'),
        ('auto a = R"x(")")x";  // b\n', 'auto a = R"x(")")x";\n'),
    ],
)
def test_comments_and_layout_do_not_count(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = 1;", "int a = 2;"),
        ("int ab;", "int a b;"),
        ("a + +b;", "a ++b;"),
        ("a = 0x1e + 2;", "a = 0x1e+2;"),
        ("#define F(x)", "#define F (x)"),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ("int a;\n#define A", "int a; #define A"),
        ('f("a  b");', 'f("a b");'),
        ('f("// a");', 'f("// b");'),
        ('f("/*", a, "*/");', 'f("/*", b, "*/");'),
        ('f(R"(// a)");', 'f(R"(// b)");'),
        ('f(R"(a\\\nb)");', 'f(R"(ab)");'),
        ('f(R"(a\nb)");', 'f(R"(a b)");'),
        ("a = '/' / '/'; b();", "a = '/' / '/'; c();"),
        ("a = 1'000'000; b = '1';", "a = 1'000'000; b = '2';"),
        ("int a; // b \\\nint c;", "int a; // b\nint c;"),
    ],
)
def test_what_a_compiler_can_tell_apart_is_told_apart(one, other):
    assert canonical(one) != canonical(other)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_what_is_left_of_every_source_is_what_the_preprocessor_of_gcc_leaves():
    kernels = [path for end in ("cu", "cuh", "h", "cpp") for path in sorted((REPOSITORY / "kernels").rglob(f"*.{end}"))]
    command = ["g++", "-x", "c++", "-fpreprocessed", "-dD", "-E", "-P", "-"]
    for path in [*kernels, *FAULTS, *CONTROLS]:
        text = re.sub(r"#pragma (once|GCC (poison .*|system_header))\n", "", path.read_text())  # which it takes out
        left = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
        assert without_spaces(canonical(text)) == without_spaces(canonical(left)), path


def without_spaces(text):
    """Without those between a macro's parameters, which it takes out, and around ##, which mean nothing."""
    text = re.sub(r" ?## ?", "##", text)
    return re.sub(r"^#define \w+\([^()]*\)", lambda match: match[0].replace(", ", ","), text, flags=re.MULTILINE)


def test_a_comment_changes_no_source_digest_and_a_macro_does(project):
    source, header = project / "kernels/sgemm/naive.cu", project / "kernels/include/gemm.cuh"
    write(source, '#include "gemm.cuh"\nint a = 1;  // one\n')
    first = source_digest(a_rung())
    write(source, '// The first rung.\n#include "gemm.cuh"  // the contract\nint a = 1;\n')
    write(header, "// said again\n#pragma once\n")
    assert source_digest(a_rung()) == first
    write(header, "#pragma once\nint b;\n")
    assert source_digest(a_rung()) != first


# Records of the rule over bytes

OLD, NEW = "0123456789abcdef", "fedcba9876543210"
FLAGS = ["-O3", "-gencode=arch=compute_90a,code=sm_90a"]


@pytest.fixture
def where(monkeypatch):
    """Where a record of the old rule was made; what it is of has the digest NEW, and `build` is its build's."""
    monkeypatch.setattr(digests, "_carried_over", lambda: {OLD: NEW})
    place = a_where()
    old = digests.digest_of_build(OLD, "13.0.88", "sm_90a", ["-O3"])
    return {**place, "compile": {**place["compile"], "flags": FLAGS, "source_digest": OLD, "build_digest": old}}


BUILD = digests.digest_of_build(NEW, "13.0.88", "sm_90a", ["-O3"])
PRESENT = {"nvcc": "13.0.88", "flags": FLAGS, "architecture": "sm_90a", "source_digest": NEW, "build_digest": BUILD}


def test_an_old_record_is_of_the_present_build_of_the_same_sources(where):
    assert digests.at_present(where["compile"]) == PRESENT
    assert digests.at_present(PRESENT) == PRESENT
    other = {**where["compile"], "source_digest": "1" * 16}
    assert digests.at_present(other) == other


def test_an_old_record_is_current_while_its_code_is(where, monkeypatch):
    item = an_evidence("naive", check={**a_check(), "where": where})
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: NEW)
    assert item.source_is_current is True
    monkeypatch.setattr("ladder.tables.evidence.source_digest", lambda rung: OLD)
    assert item.source_is_current is False
    assert digests.state_of(OLD, NEW) == "current"
    assert digests.state_of(OLD, "1" * 16) == digests.state_of(OLD, None) == "changed since"


def test_a_build_that_passed_as_an_old_record_says_is_measured(where, tmp_path):
    store.write_json(tmp_path / "compile.json", {"status": "ok", "message": "", **PRESENT})
    assert why_not_measured(Build(tmp_path), {"status": "pass", "where": where}) == ""


def test_the_cases_of_an_old_check_are_not_checked_again(where, tmp_path):
    path, case = tmp_path / "check.json", {"shape": "4", "verdict": "pass"}
    now = {**where, "compile": PRESENT}
    earlier = {"status": "pass", "runs": 1, "declared": {}, "where": where, "cases": [case], "identical": True}
    store.write_json(path, earlier)
    assert held_cases(path, now, 1, {}) == {asked("4")}
    merged = merge_check(path, {**earlier, "where": now, "cases": [{"shape": "5", "verdict": "pass"}]})
    assert [each["shape"] for each in merged["cases"]] == ["5", "4"]


def test_the_timings_and_profiles_of_an_old_record_are_those_of_the_present_build(where, tmp_path):
    files = time_run("naive", {("naive", "512"): [1e-3]})
    record = {**json.loads(files["record.json"]), "where": where}
    store.add_run(tmp_path / "time.zip", {**files, "record.json": json.dumps(record).encode()})
    assert timed_shapes(tmp_path / "time.zip", record["settings"], {**where, "compile": PRESENT}) == {"512"}
    assert [str(shape) for shape in read_time_record(tmp_path / "time.zip", BUILD)] == ["512"]
    store.write_json(tmp_path / "profile.json.xz", {"rung": "naive", "shapes": {"512": {"where": where}}})
    assert list(read_profiles(tmp_path / "profile.json.xz", BUILD)) == ["512"]


def test_an_old_trial_is_not_measured_again(where, tmp_path):
    record = Record(tmp_path / "t.json.gz", "t", {}, {})
    trial = {"trial": "t@BM=1", "round": SCREEN, **{key: where["compile"][key] for key in PRESENT if "digest" in key}}
    record.add([trial], {"id": "b", "where": where})
    assert record.held("t@BM=1", SCREEN, BUILD, "settings-1", made_on(where))
    assert not record.held("t@BM=1", SCREEN, BUILD, "settings-2", made_on(where))


def test_only_sources_that_were_never_committed_are_unknown():
    unknown = store.read_json(digests.CARRIED_OVER)["unknown"]
    files = {file for row in unknown for file in row["records"]}
    assert all("/experiments/" in file or file.endswith("/faults.json") for file in files)
