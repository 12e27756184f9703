"""The sanitize stage: what is read from compute-sanitizer's output, and one line for each way in which it says nothing.

compute-sanitizer needs a GPU; here a program that prints what it prints takes its place.
"""

import json
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import a_build, a_where, line_of, write
from ladder.build.toolchain import find_nvcc
from ladder.measure.sanitize.misread import why_misread
from ladder.measure.sanitize.stage import read_findings, require_sanitizer, run_tool, sanitize_rung, sanitizer_report
from ladder.model.cases import sanitizer_cases
from ladder.system.paths import ROOT
from pipeline import FEW, copy_project, snakemake

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at sgemm_kernel(Gemm)+0x90 in naive.cu:12
=========     by thread (3,1,0) in block (2,0,0)
=========     Address 0x87654320 is out of bounds
=========     and is 124,310 bytes before the nearest allocation at 0x710fdc800000 of size 1,024 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at sgemm_kernel(Gemm)+0x90 in naive.cu:12
=========     by thread (4,1,0) in block (2,0,0)
=========     Address 0x87654324 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to x.
RuntimeError: the worker's own words
========= Target application returned an error
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sgemm_kernel(Gemm)+0x90 in /home/me/tiled.cu:30
=========     and Read access at sgemm_kernel(Gemm)+0x100 in /home/me/tiled.cu:35 [508 hazards]
=========     and Read access at sgemm_kernel(Gemm)+0x180 in /home/me/tiled.cu:36 [8 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at [clone sgemm_kernel(Gemm)] outlineSync()+0x11f0 in test.cu:42
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: sgemm_kernel(Gemm)+0xe40 in test.cu:60
=========
========= ERROR SUMMARY: 1 error
"""


HOST_READ = """\
========= COMPUTE-SANITIZER
========= Host API memory access error at host access to 0x7f42d681f000 of size 1,056 bytes
=========     Uninitialized access at 0x7f42d681f000 by cudaMemcpy source.
=========
========= ERROR SUMMARY: 1 error
"""


def finding(text, **known):
    return {"text": text, **dict.fromkeys(("kernel", "source", "other", "thread", "block"), ""), **known}


@pytest.mark.parametrize(
    ("output", "findings"),
    [
        (CLEAN, []),
        (
            MEMCHECK,
            [
                finding(
                    "Invalid __global__ read of size 4 bytes",
                    kernel="sgemm_kernel",
                    source="naive.cu:12",
                    thread="(3,1,0)",
                    block="(2,0,0)",
                ),
                finding(
                    'Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API '
                    "call to x."
                ),
            ],
        ),
        (
            RACECHECK,
            [
                finding(
                    "Error: Race reported between Write access",
                    kernel="sgemm_kernel",
                    source="tiled.cu:30",
                    other="tiled.cu:35",
                )
            ],
        ),
        (
            SYNCCHECK,
            [
                finding(
                    "Barrier error detected. Divergent thread(s) in block.",
                    kernel="outlineSync",
                    source="test.cu:42",
                    thread="(32,0,0)",
                    block="(0,0,0)",
                )
            ],
        ),
    ],
    ids=["clean", "memcheck", "racecheck", "synccheck"],
)
def test_each_tools_findings_have_kernel_source_and_thread(output, findings):
    assert read_findings(output) == findings


@pytest.fixture
def tool(tmp_path):
    """A program in the place of compute-sanitizer, and what `run_tool` makes of it."""

    def run(script: str, time_limit_s: float = 20):
        program = write(tmp_path / "compute-sanitizer", f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return run_tool(program, "memcheck", tmp_path / "library.so", [], 0, time_limit_s, tmp_path / "log")

    return run


def saying(output: str) -> str:
    return f"cat <<'END'\n{output}END"


@pytest.mark.parametrize(
    ("script", "verdict", "message"),
    [
        (saying(CLEAN), "pass", ""),
        (
            saying(MEMCHECK) + "\nexit 1",
            "failed",
            "Invalid __global__ read of size 4 bytes in sgemm_kernel block (2,0,0) thread (3,1,0); naive.cu:12 "
            "(and 1 more)",
        ),
        (
            saying(RACECHECK),
            "failed",
            "Error: Race reported between Write access in sgemm_kernel; tiled.cu:30; the other",
        ),
        ("true", "broken", "nothing was printed"),
        (saying(CLEAN) + "\nexit 1", "broken", "COMPUTE-SANITIZER"),
        ("echo '========= Error: Unable to find the injection library'; exit 1", "broken", "Unable to find"),
        (
            "echo 'RuntimeError: no memory'; echo '========= Error: process did not end'; "
            + saying(CLEAN)
            + "\nexit 1",
            "broken",
            "RuntimeError: no memory",
        ),
        (saying("========= Internal Sanitizer Error: it was not tracked\n" + CLEAN), "broken", "it was not tracked"),
        (saying("========= ERROR SUMMARY: 2 errors\n"), "failed", "2 errors; see the log"),
        ("echo 'the rung: sgemm returned 1'; exit 1", "failed", "sgemm returned 1"),
        ("echo 'Fatal Python error: Segmentation fault'; kill -SEGV $$", "failed", "crashed: Segmentation fault"),
        ("echo going; kill -KILL $$", "broken", "going"),
    ],
    ids=[
        *("clean", "memcheck", "race", "silent", "exit status", "no tool", "the worker failed", "internal"),
        *("uncounted", "the rung's error", "a crash", "killed"),
    ],
)
def test_only_a_summary_without_errors_is_a_pass(tool, script, verdict, message):
    found = tool(script)
    assert (found["verdict"], message in found["message"]) == (verdict, True), found
    assert message or not found["message"]


def test_a_tool_that_does_not_end_is_stopped(tool):
    begun = time.monotonic()
    found = tool("sleep 60 & wait", 0.5)
    assert found["verdict"] == "broken"
    assert found["message"].startswith("not done within 0.5 s; stopped")
    assert time.monotonic() - begun < 15


def test_every_tool_watches_every_case_and_the_record_says_by_what_and_when(tmp_path):
    script = f'case "$*" in --version) echo "Version 2025.3.1.0 (x)";; *) echo "$@" >> {tmp_path}/calls;; esac\n'
    script += f'case "$*" in *racecheck*) {saying(RACECHECK)}\n;; *) {saying(CLEAN)}\n;; esac'
    program = write(tmp_path / "compute-sanitizer", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    cases = sanitizer_cases(["1", "33x65x17"], [{}, {"alpha": 0}, {"beta": 1}])
    assert len(cases) == 4  # alpha = 0 multiplies nothing
    records = [case.as_record() for case in cases]
    made = a_build(tmp_path / "naive")
    seen = []
    record = sanitize_rung(made, program, cases, 0, 20, lambda _: a_where(), tmp_path / "log", seen.append)
    verdicts = {"memcheck": "pass", "racecheck": "failed", "initcheck": "pass", "synccheck": "pass"}
    assert {tool["tool"]: tool["verdict"] for tool in record["tools"]} == verdicts
    assert sorted(seen) == sorted(f"{tool}: {verdict}" for tool, verdict in verdicts.items())
    assert (record["status"], record["sanitizer"], record["cases"]) == ("failed", "2025.3.1.0", records)
    assert record["message"].startswith("racecheck: Error: Race reported")
    assert record["where"] == a_where()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert all(json.dumps(records) in call and "library.so 0" in call for call in calls)
    assert len(calls) == 4


MACHINE = {
    "silent": "exit 0",
    "cannot inject": "echo '========= Error: Unable to find the injection library'; exit 1",
    "no permission": "echo '========= Error: the debugger is denied access'; exit 1",
    "killed": "kill -KILL $$",
    "too slow": "sleep 60",
}


@pytest.mark.parametrize("script", MACHINE.values(), ids=MACHINE)
@pytest.mark.parametrize("found", [False, True], ids=["clean else", "a race found"])
def test_a_tool_that_the_machine_broke_off_is_no_part_of_a_record(tmp_path, script, found):
    other = saying(RACECHECK) if found else saying(CLEAN)
    script = f'case "$*" in *memcheck*) {script}\n;; *) {other}\n;; esac'
    program = write(tmp_path / "compute-sanitizer", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    made = a_build(tmp_path / "naive")

    def watch():
        return sanitize_rung(made, program, [], 0, 1, lambda _: a_where(), tmp_path / "log", lambda _: None)

    if found:
        record = watch()
        assert (record["status"], [tool["verdict"] for tool in record["tools"]]) == ("failed", ["failed"] * 3)
    else:
        told = line_of(watch)
        assert told.startswith("sanitize: naive: memcheck: ")
        assert told.endswith("run again")


def test_a_rung_that_does_not_compile_is_not_watched(tmp_path):
    made = a_build(tmp_path / "naive", status="failed", message="error: x")
    record = sanitize_rung(made, tmp_path / "none", [], 0, 20, lambda _: {}, tmp_path / "log", print)
    assert (record["status"], record["message"], record["tools"]) == ("failed", "error: x", [])


def test_a_missing_sanitizer_is_one_line_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ladder.measure.sanitize.stage.TOOLKIT", str(tmp_path / "none"))
    monkeypatch.setattr("ladder.build.toolchain.TOOLKITS", ())
    told = line_of(require_sanitizer)
    assert told.startswith("compute-sanitizer: not found; ")
    assert told.endswith("sanitize.compute_sanitizer")
    assert "'/none' is no program" in line_of(require_sanitizer, "/none")


CONTROL_OF = {
    "memcheck": ("inline_copies", "Invalid __global__ read of size 16 bytes"),
    "synccheck": ("cuda_pipeline", "Barrier error detected. Missing wait."),
    "initcheck": ("bulk_store", "Host API memory access error at host access to 0x7f of size 1,056 bytes"),
}


@pytest.fixture(scope="module")
def builds_of_controls(tmp_path_factory):
    """The cubin of each control that a tool misreads, and of one that none does."""
    folder, nvcc = tmp_path_factory.mktemp("controls"), find_nvcc("auto").path

    def compiled(name):
        cubin = folder / name / "library.so"
        cubin.parent.mkdir()
        options = ["-std=c++17", "-cubin", "-gencode=arch=compute_90a,code=sm_90a", f"-I{ROOT / 'kernels/include'}"]
        subprocess.run([nvcc, *options, "-o", cubin, ROOT / f"tests/faults/control_{name}.cu"], check=True)
        return cubin

    names = [name for name, _ in CONTROL_OF.values()] + ["mbarrier"]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(compiled, names), strict=True))


@pytest.mark.parametrize("tool", CONTROL_OF)
def test_what_a_tool_says_of_sound_kernels_with_an_instruction_counts_for_nothing(builds_of_controls, tool):
    name, text = CONTROL_OF[tool]
    library, after = builds_of_controls[name], finding('Program hit cudaErrorLaunchFailure (error 719) due to "x".')
    assert "compute-sanitizer 2025.3.1.0 may be wrong" in why_misread(
        tool, "2025.3.1.0", [finding(text), after], library
    )
    assert not why_misread(tool, "2025.3.1.0", [finding(text)], builds_of_controls["mbarrier"])
    assert not why_misread(tool, "2025.3.1.0", [finding(text), finding("Invalid __shared__ write")], library)
    assert not why_misread(tool, "2025.3.1.0", [after], library)
    assert bool(why_misread(tool, "2025.4.0.0", [finding(text)], library)) == (tool == "memcheck")
    assert not why_misread("racecheck", "2025.3.1.0", [finding(text)], library)


def test_a_tool_that_misreads_a_kernel_leaves_its_verdict_unknown(tmp_path, builds_of_controls):
    says = f"--version) echo Version 2025.3.1.0 ;; *initcheck*) {saying(HOST_READ)}\n;; *) {saying(CLEAN)}\n;;"
    script = f'case "$*" in {says} esac'
    program = write(tmp_path / "compute-sanitizer", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    made = a_build(tmp_path / "bulk_store")
    shutil.copy2(builds_of_controls["bulk_store"], made.library)
    record = sanitize_rung(made, program, [], 0, 20, lambda _: a_where(), tmp_path / "log", lambda _: None)
    assert [tool["verdict"] for tool in record["tools"]] == ["pass", "pass", "unknown", "pass"]
    assert record["status"] == "unknown"
    assert record["message"].startswith("initcheck: compute-sanitizer 2025.3.1.0 may be wrong, for it does not follow")


@pytest.mark.parametrize(
    ("status", "failed"), [("pass", False), ("does not apply", False), ("unknown", False), ("failed", True)]
)
def test_the_summary_fails_where_a_rung_was_blamed(status, failed):
    tools = [{"tool": "memcheck", "findings": read_findings(MEMCHECK)}] if status == "failed" else []
    text, fails = sanitizer_report(
        [{"rung": "naive", "status": status, "message": "m", "tools": tools}], True, "h100-sxm"
    )
    assert fails == failed
    assert text.startswith(f"naive  {status}  m\n")
    assert ("    memcheck: Invalid __global__ read" in text) == (status == "failed")


def test_without_a_gpu_the_stage_is_one_line_or_what_was_recorded(tmp_path):
    project = copy_project(tmp_path / "project")
    for path in (project / "results/h100-sxm/raw").glob("sanitize/*.json"):
        path.unlink()
    run = snakemake(project, FEW, "sanitize")
    assert run.status != 0
    assert run.errors == [
        "sanitize: compute-sanitizer needs a GPU, none is measured here, and nothing is recorded for h100-sxm; "
        "run `snakemake sanitize` where `nvidia-smi` lists one"
    ]
    record = {"schema_version": 1, "rung": "naive", "status": "pass", "message": "", "cases": [], "tools": []}
    write(project / "results/h100-sxm/raw/sanitize/naive.json", json.dumps(record))
    run = snakemake(project, FEW, "sanitize")
    assert run.status == 0, run.output
    assert run.errors == ["sanitize: no GPU is measured; this is what was recorded"]
    assert "naive  pass\n" in run.output
