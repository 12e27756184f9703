"""One rung by itself: `python workflow/bench.py`, on the command line and with measurements made up."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import a_device, asked, time_run, write
from ladder.build import emulator
from ladder.build.compile import Build
from ladder.commands import bench
from ladder.config import plan
from ladder.config.documents import read_yaml
from ladder.records import store
from ladder.show.summary import heading
from ladder.system import nvml, process
from ladder.system.terminal import Progress, waiting
from pipeline import ROOT, TEST_KERNELS, contents, environment, wait_for

H100 = "NVIDIA H100 SXM5 80 GB"
QUICK = ["-C", "check={shapes: [1], cases: [{alpha: 0.5, beta: 1}], runs: 2}", "timing={iterations: 5}"]


def compiled_as_told(rung, gpu, nvcc, flags, folder):
    """A build that is made up."""
    record = {"rung": rung.name, "status": "ok", "message": "", "log": ""}
    record |= dict.fromkeys(["nvcc", "flags", "architecture", "source_digest", "build_digest"], "")
    store.write_json(folder / "compile.json", record)
    return record


def run(*arguments: str, here: Path = ROOT, on_gpu: bool = False) -> subprocess.CompletedProcess:
    """The command as a user gives it."""
    return subprocess.run(
        [sys.executable, str(ROOT / "workflow" / "bench.py"), *arguments],
        cwd=here,
        env=environment(ROOT, gpu=on_gpu),
        capture_output=True,
        text=True,
        check=False,
    )


# Without a GPU


def test_without_a_gpu_a_rung_that_passes_in_the_emulator_ends_well_and_one_line_says_what_is_not_timed(tmp_path):
    cases = bench.planned("tiled@TILE=4", ["64", "96"], QUICK[1:]).emulated_cases("tiled@TILE=4")
    result = run("tiled@TILE=4", "64", "96", *QUICK, here=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"tiled@TILE=4: passes the check in the emulator ({len(cases)} cases)",
        f"Not timed at 64, 96: that needs the GPU, {H100}",
    ]
    ended = [line.rpartition("  ")[0] for line in result.stderr.splitlines()]  # without the seconds
    assert {"[compile] tiled@TILE=4  ok", "[emulate] tiled@TILE=4  emulated"} <= set(ended)


def test_without_a_gpu_a_rung_is_emulated_with_the_cases_of_the_stage(monkeypatch, tmp_path):
    asked = {}

    def emulate_source(rung, cases, *_, **__):
        asked[rung.name] = cases
        return {"status": "emulated", "message": "", "cases": cases}

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(nvml, "present", lambda index: None)
    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "emulate_source", emulate_source)
    assert bench.main(["tiled", "64"]) == 0
    assert list(asked) == ["tiled@TILE=8", "tiled@TILE=16", "tiled@TILE=32"]
    stage = plan.plan(read_yaml(ROOT / "config/config.yaml")).emulated_cases()
    assert {case.family for case in stage} >= {"uniform", "nonfinite"}
    assert {*map(str, stage)} <= {*map(str, asked["tiled@TILE=8"])}


def test_without_a_gpu_a_wrong_rung_is_told_with_what_the_emulator_found(source_of):
    result = run(str(source_of("missing_first_barrier")), "64", *QUICK)
    assert result.returncode == 1
    found = "bench: missing_first_barrier.cu: wrong: in the emulator: 1x1x1, alpha 0.5, beta 1: uninitialised read: "
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"{found}sgemm_kernel block (0,0,0) thread (")
    assert "; missing_first_barrier.cu:" in last


def test_without_a_gpu_what_the_emulator_cannot_run_is_not_said_to_be_right(tmp_path):
    own = tmp_path / "mine.cu"
    own.write_text((TEST_KERNELS / "sound.cu").read_text() + "#ifdef __clang__\n#endif\n")
    result = run(str(own), "64", *QUICK)
    assert (result.returncode, result.stdout) == (1, "")
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"bench: mine.cu: not checked: {own}:")
    assert "other code for a GPU than for a CPU (__clang__)" in last


def test_with_watch_it_runs_anew_at_each_save_until_it_is_interrupted(tmp_path):
    own = tmp_path / "mine.cu"
    shutil.copy(TEST_KERNELS / "sound.cu", own)
    command = [sys.executable, str(ROOT / "workflow/bench.py"), str(own), "64", *QUICK, "--watch"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=environment(ROOT, gpu=False),
            stdout=log,
            stderr=log,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
        )
    try:

        def said(text: str, times: int) -> None:
            wait_for(lambda: (tmp_path / "log").read_text().count(text) == times)

        said("waits until one of", 1)
        own.write_text(own.read_text() + "\n#error no\n")
        said("bench: mine.cu: does not compile: ", 1)
        said("waits until one of", 2)
        shutil.copy(TEST_KERNELS / "sound.cu", tmp_path / "new.cu")
        (tmp_path / "new.cu").rename(own)  # as many editors save
        said("mine.cu: passes the check in the emulator", 2)
        said("waits until one of", 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()


def test_a_file_of_ones_own_is_compiled_for_the_gpu_that_is_named(tmp_path):
    (tmp_path / "own.cuh").write_text('#include "gemm.cuh"\n#if WIDTH != 3\n#error the macro\n#endif\n')
    source = (TEST_KERNELS / "sound.cu").read_text().replace('"gemm.cuh"', '"own.cuh"')
    (tmp_path / "mine.cu").write_text(source)
    result = run("mine.cu@WIDTH=3", "64", *QUICK, "gpu=t4", here=tmp_path)
    assert "bench: NVIDIA Tesla T4, sm_75" in result.stderr
    assert "mine.cu@WIDTH=3: passes the check in the emulator" in result.stdout
    assert "mine.cu: does not compile: mine.cu(2)" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.cu", "own.cuh"]


def test_what_does_not_compile_is_told_in_the_compilers_words_and_then_in_one_line():
    result = run("tests/kernels/syntax_error.cu")
    assert result.returncode == 1
    *words, last = result.stderr.splitlines()
    assert "2 errors detected" in "\n".join(words)
    assert last == (
        "bench: syntax_error.cu: does not compile: tests/kernels/syntax_error.cu(5): error: "
        'identifier "no_such_kernel" is undefined'
    )


def test_without_a_gpu_a_compiled_library_is_linked_with_and_not_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(nvml, "present", lambda index: None)
    source = write(tmp_path / "mine.cpp", 'extern "C" int f(int m) { return m; }')
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", tmp_path / "mine.so"], check=True)
    wrap = "wrap: {function: int f(int m), arguments: [m]}"
    ladder = write(tmp_path / "kernels.yaml", f"mine:\n  title: a library\n  source: mine.so\n  {wrap}\n")
    assert bench.main(["mine", "64", "-C", "gpu=h100-sxm", f"ladder={ladder}"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "bench: mine: not checked: mine.so is code for GPUs alone"


def test_a_rung_that_the_gpu_is_too_old_for_says_so():
    result = run("tma", "-C", "gpu=t4")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "bench: tma: needs compute capability 9.0; NVIDIA Tesla T4 has 7.5"


@pytest.mark.parametrize("package", ["numpy", "pandas", "cupy"])
def test_what_only_workers_tables_or_triton_need_is_not_imported(package):
    code = f"import sys, ladder.commands.bench; sys.exit({package!r} in sys.modules)"
    variables = environment(ROOT, gpu=False, PYTHONPATH=str(ROOT / "workflow"))
    assert subprocess.run([sys.executable, "-c", code], env=variables, check=False).returncode == 0


def test_the_bytecode_of_the_package_is_kept_also_where_python_is_told_to_write_none(tmp_path):
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    command = [sys.executable, ROOT / "workflow" / "bench.py", "--help"]
    subprocess.run(command, env={**environment(ROOT, gpu=False), **variables}, check=True, capture_output=True)
    assert list(tmp_path.rglob("bench.*.pyc"))


def test_results_stay_as_they_are():
    before = contents(ROOT / "results")
    run("naive", *QUICK)
    assert contents(ROOT / "results") == before


def test_a_python_without_the_environment_is_told_to_make_it(tmp_path):
    python = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python], check=True)
    command = [python / "bin" / "python", ROOT / "workflow" / "bench.py", "naive"]
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert result.returncode == 1
    assert result.stderr.endswith("run `make env`, then .venv/bin/python workflow/bench.py\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["niave"], "kernels[0]: 'niave' is no kernel; did you mean naive?"),
        (["Naive"], "'Naive' is neither a kernel's name nor NAME@MACRO=VALUE,MACRO=VALUE; did you mean naive?"),
        (["empty"], "'empty' computes nothing; give a rung that does"),
        (["no.cu"], "no.cu: there is no such file; give a rung's name or the path of its .cu"),
        (["no.cu", "--watch"], "no.cu: there is no such file; give a rung's name or the path of its .cu"),
        (["kernels/triton/tiled.py"], "tiled.py: only a .cu file runs by its path; enter it in a kernels.yaml: -C"),
        (["kernels/sgemm"], "kernels/sgemm: is a folder; name a .cu file in it"),
        (["kernels/sgemm/naive"], "kernels/sgemm/naive: only a .cu file runs by its path"),
        (["LICENSE"], "LICENSE: only a .cu file runs by its path"),
        (["tiled@TILE"], "kernels[0]: 'tiled@TILE' is neither a kernel's name nor NAME@MACRO=VALUE,MACRO=VALUE"),
        (["tests/kernels/sound.cu@NOPE=1"], "tests/kernels/sound.cu has no macro NOPE"),
        (["tests/kernels/sound.cu@TILE"], "macros are written tests/kernels/sound.cu@BM=64,BN=64"),
        (["naive", "8", "8x"], "sizes[1]: '8x' is neither a positive integer nor MxNxK; write 1024 or 512x1024x2048"),
        (["naive", "0"], "sizes[0]: 0 is not a positive integer; write 1 or more"),
        (["naive", "-C", "gpu"], "--config: 'gpu' is no setting; write KEY=VALUE"),
        (["naive", "-C", "sizes=[1]"], "--config: 'sizes=[1]' is no setting"),
        (["naive", "-C", "gpu={"], "--config: 'gpu={' is no setting"),
        (["naive", "-C", "gqu=t4"], "gqu: unknown key; did you mean gpu?"),
        (["naive", "-C", "gpu=t5"], "gpu: 't5' has no file in config/gpus"),
        (["naive", "-C", "timing={iterations: 0}"], "timing.iterations: 0 is less than 1"),
        (["naive", "-C", "measure=true"], "measure: true, but there is no GPU here"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(nvml, "present", lambda index: None)
    assert bench.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bench: command line: ")
    assert words in line


FINDING = {"status": "failed", "message": "1: a race", "cases": []}
VERDICTS = {
    "emulated": ({"status": "emulated", "message": "", "cases": []}, 0),
    "failed": (FINDING, 1),
    "needs a GPU": ({"status": "needs a GPU", "message": "PTX", "cases": []}, 1),
    "not emulated": ({"status": "not emulated", "message": "no g++", "cases": []}, 1),
}


def test_where_tmpdir_leads_nowhere_compilers_write_where_python_does(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert bench.main([str(ROOT / "tests/kernels/syntax_error.cu"), "8"]) == 1
    assert os.environ["TMPDIR"] == tempfile.gettempdir()
    assert "does not compile" in capsys.readouterr().err.splitlines()[-1]


def test_without_any_folder_for_temporary_files_one_line_names_those_that_were_tried(monkeypatch, tmp_path):
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(SystemExit) as ended:
        bench.main(["naive", "8"])
    assert str(ended.value.code).startswith("bench: TMPDIR: No usable temporary directory found in ['/tmp']; ")


def test_where_the_checkout_cannot_be_written_to_the_engine_is_compiled_for_one_run(monkeypatch, tmp_path):
    assert bench.caches(tmp_path) == ROOT / "build"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in (ROOT, ROOT / "build"))
    assert bench.caches(tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["a$b.cu", "a`b.cu", 'a"b.cu', "a\\b.cu", "a:b.cu"])
def test_a_path_that_nvcc_misreads_is_one_line(name, tmp_path, capsys):
    write(tmp_path / name, "EXPORT_SGEMM(run)\n")
    assert bench.main([str(tmp_path / name)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{name}: nvcc misreads a path with {name[1]}; rename it")


@pytest.mark.parametrize(
    ("name", "macros"),
    [("at@home.cu", {}), ("a b&c,d;e=f{1}.cu", {}), ("größe.cu", {}), ("at@home.cu", {"BLOCK": "8"})],
)
def test_a_file_may_have_any_other_name(name, macros, tmp_path):
    path = write(tmp_path / name, (ROOT / "tests/kernels/sound.cu").read_text())
    given = f"{path}@{','.join(map('='.join, macros.items()))}" if macros else str(path)
    (rung,) = bench.planned(given, ["64"], []).rungs
    assert (rung.source, dict(rung.macros)) == (str(path), macros)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("every", [False, True])
def test_the_exit_status_is_the_verdict_of_all_rungs_and_the_first_finding_ends_the_run(
    monkeypatch, capsys, verdict, every
):
    asked = []

    def emulate_source(rung, *arguments, **_):
        asked.append((rung.name, arguments[-1]))
        return VERDICTS[verdict][0] if rung.name == "tiled@TILE=8" else VERDICTS["emulated"][0]

    monkeypatch.setattr(nvml, "present", lambda index: None)
    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "emulate_source", emulate_source)
    assert bench.main(["tiled", "64", *["--all"][: int(every)]]) == VERDICTS[verdict][1]
    stopped = VERDICTS[verdict][1] and not every
    assert asked == [(f"tiled@TILE={tile}", not every) for tile in ([8] if stopped else [8, 16, 32])]
    assert ("Not timed at 64" in capsys.readouterr().out) == (not stopped)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("7x7x7: not finished: no progress for 60 s; stopped", True),
        ("mine.cu:3: the emulator cannot run __expf", False),
    ],
)
def test_of_a_check_that_was_not_waited_for_it_says_how_to_wait_longer(monkeypatch, capsys, message, remedy):
    record = {"status": "not emulated", "message": message, "cases": []}
    monkeypatch.setattr(nvml, "present", lambda index: None)
    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "emulate_source", lambda *_, **__: record)
    assert bench.main(["naive", "64"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"bench: naive: not checked: {message}")
    assert last.endswith("-C check='{time_limit_s: 600}'") == remedy


def test_cases_that_were_left_out_are_counted(monkeypatch, capsys):
    record = {"status": "emulated", "message": "", "cases": [1, 2], "left_out": ["2030x2040x2052, beta 1", "9"]}
    monkeypatch.setattr(nvml, "present", lambda index: None)
    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "emulate_source", lambda *_, **__: record)
    assert bench.main(["naive", "64"]) == 0
    told = "(2 cases, and 2 that took too much time or memory: 2030x2040x2052, beta 1)"
    assert capsys.readouterr().out.splitlines()[0] == f"naive: passes the check in the emulator {told}"


@pytest.mark.parametrize(("kernel", "status"), [("sound", 0), ("nan_output", 1)])
def test_what_a_kernel_prints_is_shown_whatever_the_verdict(tmp_path, kernel, status):
    source = (TEST_KERNELS / f"{kernel}.cu").read_text()
    printing = source.replace("float sum = ", 'printf("at %d\\n", row);\n  float sum = ')
    write(tmp_path / "mine.cu", f"#include <cstdio>\n{printing}")
    result = run("mine.cu", "64", *QUICK, here=tmp_path)
    assert result.returncode == status, result.stderr
    lines = result.stderr.splitlines()
    assert lines[lines.index("mine.cu: printed in the emulator:") + 1].startswith("  at ")


@pytest.mark.parametrize("width", [1, bench.WIDEST, 10 * bench.WIDEST])
@pytest.mark.parametrize("count", [0, 1, bench.PRINTED, bench.PRINTED + 1, 100 * bench.PRINTED])
def test_of_what_a_kernel_prints_a_few_lines_are_shown_and_no_byte_goes_unmentioned(tmp_path, count, width):
    (tmp_path / "log").write_text(("x" * width + "\n") * count)
    lines = bench.printed(tmp_path / "log")
    shown = [line.strip() for line in lines if not line.endswith(" bytes more")]
    whole = shown == ["x" * width] * count
    assert len(lines) == len(shown) + (not whole)
    assert len(shown) == min(count, bench.PRINTED) or width > bench.WIDEST
    assert max(map(len, shown), default=0) <= bench.WIDEST


def test_where_no_worker_ran_nothing_was_printed(tmp_path):
    assert bench.printed(tmp_path / "log") == []


def test_the_engine_is_compiled_once_also_by_two_at_once_and_anew_where_its_sources_change(monkeypatch, tmp_path):
    made = []

    def compile_engine(engine, headers):
        made.append(engine)
        both.wait(10)
        for path in (engine, headers):
            write(path, "made")

    monkeypatch.setattr(emulator, "compile_engine", compile_engine)
    write(tmp_path / "sources/engine.cpp", "1")
    monkeypatch.setattr(emulator, "EMULATOR", tmp_path / "sources")
    both = threading.Barrier(2)
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(emulator.cached_engine, [tmp_path / "cache"] * 2)
    assert first == second == emulator.cached_engine(tmp_path / "cache")
    assert len(made) == 2
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.parent.name]
    assert first.read_text() == "made"

    write(tmp_path / "sources/engine.cpp", "2")
    both = threading.Barrier(1)
    assert emulator.cached_engine(tmp_path / "cache") != first


def test_an_engine_whose_compilation_ends_half_way_does_not_count(monkeypatch, tmp_path):
    def killed(engine, headers):
        write(engine, "half")
        raise KeyboardInterrupt

    monkeypatch.setattr(emulator, "compile_engine", killed)
    with pytest.raises(KeyboardInterrupt):
        emulator.cached_engine(tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_is_waited_for_is_said_and_for_how_long(capsys):
    said = []

    def heard():
        said.append(capsys.readouterr().err)
        return said[-1]

    with waiting(Progress("emulate", "mine.cu"), lambda: "33x65x17  (3/93 cases)", 0.05):
        wait_for(heard, 10)
    assert said[-1].startswith("[emulate] mine.cu  33x65x17  (3/93 cases)  0 s")


# With measurements that are made up


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A GPU, and an emulator, whose checks and timings are made up; returns what was checked, and what is to fail."""
    asked = {"checked": {}, "timed": [], "wrong": "", "emulated": {"status": "emulated", "message": ""}}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(process, "LOCKS", tmp_path)
    monkeypatch.setattr(nvml, "present", lambda index: a_device())

    def check_rung(made: Build, cases, device, time_limit_s, where, log, progress, runs, declared):
        asked["checked"][made.folder.name] = cases
        asked["runs"], asked["declared"] = runs, declared
        wrong = made.folder.name == asked["wrong"]
        return {"status": "failed", "message": "7: NaN"} if wrong else {"status": "pass", "message": ""}

    def time_rung(rung, builds, shapes, expected, settings, device, where, record, *_):
        asked["timed"].append((rung, list(builds), shapes))
        times = {"naive": 4e-3, "cublas": 1e-3}
        samples = {(kernel, shape): [times.get(kernel, 2e-3)] * 9 for shape in shapes for kernel in builds}
        store.add_run(record, time_run(rung, samples))
        return ""

    monkeypatch.setattr(bench, "build", compiled_as_told)
    monkeypatch.setattr(bench, "check_rung", check_rung)
    monkeypatch.setattr(bench, "emulate_source", lambda *arguments, **_: asked["emulated"] | {"cases": []})
    monkeypatch.setattr("ladder.measure.time.stage.time_rung", time_rung)
    return asked


def test_each_size_is_a_line_as_the_summary_writes_it(measured, capsys):
    assert bench.main(["tiled@TILE=4", "1000", "512", "512x2048x4096"]) == 0
    rate = {512: 2 * 512**3 / 2e6, 1000: 1e6}
    assert capsys.readouterr().out.splitlines() == [
        *heading("tiled at").splitlines(),
        f"512                         2.000 ms   0.00 %{rate[512]:>10.0f}     50.0 %      2.00 x",
        f"1000                        2.000 ms   0.00 %{rate[1000] / 1e3:>10.0f}     50.0 %      2.00 x",
        f"512x2048x4096               2.000 ms   0.00 %{2 * 512 * 2048 * 4096 / 2e6:>10.0f}     50.0 %      2.00 x",
    ]


def test_a_rung_with_variants_has_a_line_for_each(measured, capsys):
    assert bench.main(["tiled", "512"]) == 0
    labels = [line[:24].strip() for line in capsys.readouterr().out.splitlines()[2:]]
    assert labels == ["tiled@TILE=8 512", "tiled@TILE=16 512", "tiled@TILE=32 512"]


def test_a_listed_rungs_file_is_that_rung(measured):
    assert bench.main(["kernels/sgemm/tiled.cu", "512"]) == 0
    assert [rung for rung, *_ in measured["timed"]] == ["tiled@TILE=8", "tiled@TILE=16", "tiled@TILE=32"]


def test_a_file_of_ones_own_that_is_called_like_a_rung_is_timed_beside_that_rung(measured, tmp_path):
    shutil.copy(TEST_KERNELS / "sound.cu", tmp_path / "naive.cu")
    assert bench.main([str(tmp_path / "naive.cu"), "512"]) == 0
    assert measured["timed"] == [("naive.cu", ["naive.cu", "cublas", "cublas_best", "naive"], ["512"])]


def test_a_rung_is_checked_with_every_case_and_what_is_timed_beside_it_at_the_sizes(measured):
    assert bench.main(["tiled@TILE=4", "520"]) == 0
    cases = measured["checked"]
    assert set(cases) == {"tiled@TILE=4", "cublas", "cublas_best", "naive"}
    assert cases["naive"] == cases["cublas"] == [asked("520")]
    assert asked("520") in cases["tiled@TILE=4"]
    asked_for = {"sizes": [520], "profile": {"sizes": [520]}, "sustained": {"enabled": False}}
    stage = plan.plan(read_yaml(ROOT / "config/config.yaml") | asked_for)
    assert [case for case in cases["tiled@TILE=4"] if not case.drawn] == stage.cases()
    assert sum(case.drawn > 0 for case in cases["tiled@TILE=4"]) == stage.settings["check"]["drawn"] > 100
    assert (measured["runs"], measured["declared"]) == (5, stage.by_name("tiled@TILE=16").declared)


@pytest.mark.parametrize("wrong", ["tiled@TILE=4", "naive"])
def test_nothing_is_timed_where_a_check_failed(measured, capsys, wrong):
    measured["wrong"] = wrong
    assert bench.main(["tiled@TILE=4", "512"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == f"bench: {wrong}: not timed, because its check failed: 7: NaN"
    assert measured["timed"] == []


@pytest.mark.parametrize(
    ("status", "told"), [("failed", "wrong: in the emulator: 7: race"), ("needs a GPU", "not emulated: no such header")]
)
def test_on_a_gpu_too_a_rung_is_emulated_first_and_what_that_finds_is_not_timed(measured, capsys, status, told):
    measured["emulated"] = {"status": status, "message": told.partition(": ")[2].removeprefix("in the emulator: ")}
    failed = status == "failed"
    assert bench.main(["tiled@TILE=4", "512"]) == int(failed)
    assert f"bench: tiled@TILE=4: {told}" in capsys.readouterr().err.splitlines()
    assert (measured["timed"] == [] and measured["checked"] == {}) == failed


def test_a_timing_that_fails_is_one_line(measured, capsys, monkeypatch):
    monkeypatch.setattr(
        "ladder.measure.time.stage.time_rung", lambda *_: "naive at 512: no progress for 120 s; stopped"
    )
    assert bench.main(["naive", "512"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "bench: naive: not timed: naive at 512: no progress for 120 s; stopped"


# On a GPU

on_gpu = pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")


@pytest.mark.gpu
@on_gpu
def test_on_a_gpu_a_rung_is_checked_timed_and_its_lines_are_printed():
    before = contents(ROOT / "results")
    result = run("coalesced", "256", "96x128x100", *QUICK, on_gpu=True)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()[2:]]
    assert [line[0] for line in lines] == ["96x128x100", "256"]
    assert all(float(line[-2]) > 0 and float(line[-4]) > 0 for line in lines)
    assert "[time] coalesced  256  (2/2 sizes)" in result.stderr
    assert contents(ROOT / "results") == before


@pytest.mark.gpu
@on_gpu
def test_on_a_gpu_a_file_of_ones_own_is_timed_if_it_is_right(tmp_path):
    shutil.copy(TEST_KERNELS / "sound.cu", tmp_path)
    right = run("sound.cu", "256", *QUICK, here=tmp_path, on_gpu=True)
    assert right.returncode == 0, right.stderr
    assert len(right.stdout.splitlines()) == 3
    wrong = run(str(TEST_KERNELS / "tf32_inputs.cu"), "256", *QUICK, on_gpu=True)
    assert wrong.returncode == 1
    assert wrong.stdout == ""
    assert wrong.stderr.splitlines()[-1].startswith("bench: tf32_inputs.cu: wrong: in the emulator: 1x1x1")


def test_a_file_without_an_entry_is_told_before_the_emulator_compiles_anything(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "emulate_source", lambda *arguments, **_: pytest.fail("was compiled"))
    source = write(tmp_path / "own.cu", "__global__ void own(float* C) { C[0] = 0; }\nint main() {}\n")
    assert bench.main([str(source), "-C", "gpu=h100-sxm", "measure=false"]) == 1
    said = capsys.readouterr().err
    assert "has no sgemm that can be called" in said
    assert "\n\n" not in said
