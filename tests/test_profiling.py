"""The profile stage: how ncu is run, and one line for each way in which it gives no report.

A report comes from a GPU alone; here a stand-in with the interface of ncu_report's actions takes its place.
"""

import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import a_where, line_of, write
from ladder.build.compile import Build
from ladder.measure.profile.report import (
    HOTTEST,
    extract,
    kernel_of,
    loop_samples,
    opcodes,
    sampled_instructions,
    sampled_lines,
)
from ladder.measure.profile.stage import ncu_command, profile_rung, profile_shape, why_not
from ladder.model import metrics
from ladder.records import store
from ladder.records.profiles import keep_profiles, read_profiles
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.system.process import Outcome
from test_process import ended, soon

PERMISSION = (
    "==PROF== Connected to process 1\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            PERMISSION,
            "ncu: ERR_NVGPUCTRPERM: this user may not read the GPU's counters; run as root or set "
            "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module",
        ),
        (
            "==ERROR== Failed to load: LibraryNotLoaded\n",
            "ncu: LibraryNotLoaded: this virtual machine gives no access to the GPU's counters; profile on another",
        ),
        (
            "==ERROR== Profiling is not supported on device 0.\n",
            "ncu: not supported on: this ncu does not know the GPU; install a newer Nsight Compute",
        ),
        ("==PROF== 1\n==ERROR== The application crashed ==\n==ERROR== more\n", "ncu: ERROR The application crashed"),
        ("RuntimeError: out of memory\n", "ncu: RuntimeError: out of memory"),
        ("==WARNING== No kernels were profiled.\n", "ncu: wrote no report"),
        ("", "ncu: wrote no report"),
    ],
)
def test_why_there_is_no_report_is_one_line_with_the_remedy_where_one_is_known(output, line):
    found = why_not(output)
    assert found.replace("== ", " ").replace("  ", " ") == line
    assert "\n" not in found


def test_ncu_watches_the_second_product_at_the_clocks_as_they_are():
    command = ncu_command(Path("/opt/ncu"), Path("out.ncu-rep"), Build(Path("build/naive")), "512", 1)
    assert command[0] == "/opt/ncu"
    options = dict(pairwise(command))
    assert (options["--set"], options["--clock-control"], options["--profile-from-start"]) == ("full", "none", "off")
    assert options["--export"] == "out.ncu-rep"
    assert command[-6:] == [sys.executable, "-m", "ladder.measure.profile.worker", "build/naive/library.so", "512", "1"]


@pytest.fixture
def profiled(tmp_path):
    """Profiles with a program in the place of ncu; gives the message, the report's path and the log."""

    def run(script: str, time_limit_s: float = 10):
        ncu = write(tmp_path / "ncu", f"#!/bin/sh\nreport={tmp_path}/reports/512.ncu-rep\n{script}\n")
        ncu.chmod(0o755)
        report, log = tmp_path / "reports/512.ncu-rep", tmp_path / "log"
        made = Build(tmp_path / "naive")
        return profile_shape(ncu, made, "512", 0, report, time_limit_s, log), report, log.read_text()

    return run


def test_a_report_is_a_profile(profiled):
    outcome, report, log = profiled('echo profiled; echo "$PYTHONPATH"; echo x > $report')
    assert outcome == Outcome("ok", "")
    assert report.read_text() == "x\n"
    assert log.startswith("profiled\n")
    assert str(Path(__file__).parents[1] / "workflow") in log


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ("true", "broken", "ncu: wrote no report"),
        ("echo '==ERROR== it broke' >&2; echo x > $report; exit 1", "broken", "it broke"),
        ("echo ERR_NVGPUCTRPERM; exit 1", "broken", "ERR_NVGPUCTRPERM: this user may not read the GPU's counters"),
        ("kill -KILL $$", "broken", "ncu: wrote no report"),
        ("echo 'OutOfMemoryError: 1 GiB'; exit 1", "broken", "OutOfMemoryError: 1 GiB"),
        ("echo 'OSError: [Errno 28] No space left on device'; exit 1", "broken", "No space left"),
        ("echo 'the rung: sgemm returned 1'; echo '==ERROR== it broke'; exit 1", "failed", "sgemm returned 1"),
        ("echo 'Fatal Python error: Segmentation fault'; exit 1", "failed", "crashed: Segmentation fault"),
    ],
    ids=["no report", "exit status", "permission", "killed", "no memory", "no disk", "the rung's error", "a crash"],
)
def test_only_what_the_rung_did_under_ncu_is_its_failure(profiled, script, status, message):
    outcome, _, _ = profiled(script)
    assert (outcome.status, message in outcome.message) == (status, True), outcome


def test_no_ncu_and_a_report_that_cannot_be_read_are_the_machines_fault(tmp_path, monkeypatch):
    def unreadable(report, log):
        raise LadderError("ncu: 128.ncu-rep: cannot be read")

    monkeypatch.setattr("ladder.measure.profile.stage.extract", unreadable)
    ncu = write(tmp_path / "ncu", "#!/bin/sh\ntouch $(echo $* | grep -o '[^ ]*ncu-rep')\n")
    ncu.chmod(0o755)
    rest = Build(tmp_path / "naive"), ["128"], 0, tmp_path, 10, tmp_path / "log", lambda _: None
    for program, message in ((None, "ncu: not found"), (ncu, "ncu: 128.ncu-rep: cannot be read")):
        profiles, outcome = profile_rung(program, *rest)
        assert (profiles, outcome.status) == ({}, "broken")
        assert outcome.message.startswith(message)


def test_shapes_profiled_before_one_that_fails_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("ladder.measure.profile.stage.extract", lambda report, log: [report.stem])
    script = "case $* in *512.ncu-rep*) exit 1;; *) touch $(echo $* | grep -o '[^ ]*ncu-rep');; esac"
    ncu = write(tmp_path / "ncu", f"#!/bin/sh\n{script}\n")
    ncu.chmod(0o755)
    made, log = Build(tmp_path / "naive"), tmp_path / "log"
    profiles, outcome = profile_rung(ncu, made, ["128", "512"], 0, tmp_path, 10, log, lambda _: None)
    assert (profiles, outcome.status) == ({"128": ["128"]}, "broken")


def test_ncu_that_hangs_is_stopped_with_its_children(profiled, tmp_path):
    started = time.monotonic()
    outcome, _, _ = profiled(f"sleep 60 & echo $! > {tmp_path}/pid; wait", time_limit_s=0.5)
    assert outcome == Outcome("broken", "no profile within 0.5 s; stopped; raise profile.time_limit_s")
    assert time.monotonic() - started < 10
    pid = int((tmp_path / "pid").read_text())
    assert soon(lambda: ended(pid))


# What is read from a report


class Metric:
    """A metric with an instance for each correlation id, as ncu_report.IMetric gives it."""

    def __init__(self, instances):
        self.ids, self.counts = list(instances), list(instances.values())

    def value(self):
        return sum(self.counts)

    def unit(self):
        return "inst"

    def num_instances(self):
        return len(self.counts)

    def as_uint64(self, index):
        return self.counts[index]

    def as_string(self, index):
        return self.counts[index]

    def correlation_ids(self):
        return Metric(dict(enumerate(self.ids))) if self.ids else None


class Action:
    """One profiled kernel, as ncu_report.IAction gives it: instructions of 16 bytes from address 0x7f00 on."""

    START = 0x7F00
    LINES = (("/home/me/kernels/sgemm/a.cu", 2), None, ("/home/me/kernels/sgemm/a.cu", 2), ("/usr/include/b.h", 1))

    def __init__(self, metrics):
        self.metrics = {
            name: Metric({key if isinstance(key, str) else self.START + 16 * key: count for key, count in of.items()})
            for name, of in metrics.items()
        }

    def metric_names(self):
        return tuple(self.metrics)

    def metric_by_name(self, name):
        return self.metrics.get(name)

    def source_info(self, address):
        index = (address - self.START) // 16
        place = self.LINES[index] if index < len(self.LINES) else None
        return place and SimpleNamespace(file_name=lambda: place[0], line=lambda: place[1])

    def source_files(self):
        return {"/home/me/kernels/sgemm/a.cu": "first\n  second  \n", "/usr/include/b.h": ""}

    def sass_by_pc(self, address):
        return f"   LDS  R{(address - self.START) // 16}, [R0]"


TILES = "kernels/triton/tiles.py"
STALLED = {
    "smsp__pcsamp_warps_issue_stalled_mio_throttle": {0: 5, 1: 9, 2: 7, 3: 1},
    "smsp__pcsamp_warps_issue_stalled_wait": {0: 1, 1: 0, 2: 0, 3: 0},
    "smsp__pcsamp_warps_issue_stalled_wait_not_issued": {0: 100},
    "inst_executed": {0: 32, 1: 32, 2: 32, 3: 32},
}


def test_samples_are_summed_by_source_line():
    assert sampled_lines(Action(STALLED)) == [
        {"file": "b.h", "line": 1, "text": "", "samples": {"mio_throttle": 1}},
        {"file": "kernels/sgemm/a.cu", "line": 2, "text": "second", "samples": {"mio_throttle": 12, "wait": 1}},
    ]


def test_a_line_of_a_python_rung_has_its_text_from_the_report_or_from_the_project():
    class Here(Action):
        LINES = ((str(ROOT / TILES), 32),)

    class Elsewhere(Action):
        LINES = ((f"/home/me/{TILES}", 32),)

        def source_files(self):
            return {f"/home/me/{TILES}": "\n" * 31 + "  dot(a, b)\n"}

    class Carried(Elsewhere):
        source_files = Action.source_files  # the report has no text of a source that was compiled in another checkout

    counts = {"smsp__pcsamp_warps_issue_stalled_wait": {0: 3}}
    expected = {"file": TILES, "line": 32, "samples": {"wait": 3}}
    text = (ROOT / TILES).read_text().splitlines()[31].strip()
    assert sampled_lines(Here(counts)) == [expected | {"text": text}]
    assert sampled_lines(Elsewhere(counts)) == [expected | {"text": "dot(a, b)"}]
    assert sampled_lines(Carried(counts)) == [expected | {"text": text}]


def test_the_most_sampled_instructions_come_first_with_their_offset_in_the_kernel():
    found = sampled_instructions(Action(STALLED))
    assert [instruction["offset"] for instruction in found] == [16, 32, 0, 48]
    assert found[0] == {"offset": 16, "sass": "LDS R1, [R0]", "file": "", "line": 0, "samples": {"mio_throttle": 9}}
    assert found[2]["samples"] == {"mio_throttle": 5, "wait": 1}
    long = {"smsp__pcsamp_warps_issue_stalled_wait": {index: 1 for index in range(3, 30)}, "inst_executed": {0: 1}}
    assert [each["offset"] for each in sampled_instructions(Action(long))] == [16 * i for i in range(3, 3 + HOTTEST)]


def test_executed_opcodes_are_counted_by_name():
    assert opcodes(Action({"sass__inst_executed_per_opcode": {"LDS": 4, "FFMA": 64}})) == {"FFMA": 64, "LDS": 4}


class Loop(Action):
    """A kernel in which some warps multiply, tile after tile, and others copy; branches name addresses."""

    SASS = (
        "S2R R0",
        "@P1 BRA 0x7f90",  # to those that copy
        "SYNCS.TRYWAIT P0, [R1]",
        "@!P0 BRA 0x7f20",
        "FFMA R1, R2",
        "FFMA R3, R4",
        "@P2 BRA 0x7f20",  # the loop over k
        "FFMA R1, R5",
        "@P3 BRA 0x7f20",  # the loop over tiles
        "UTMALDG [R1]",
        "@P4 BRA 0x7f90",
        "EXIT",
    )

    def sass_by_pc(self, address):
        return f"  {self.SASS[(address - self.START) // 16]}  "


def test_the_samples_of_the_loop_are_those_of_the_warps_that_multiply_until_they_are_done():
    waits = {"smsp__pcsamp_warps_issue_stalled_barrier": {0: 100, 2: 7, 4: 20, 7: 1, 9: 50, 10: 60, 11: 3}}
    counts = {"inst_executed": {place: 64 for place in range(12)} | {0: 8, 7: 16, 9: 500, 11: 8}}
    assert loop_samples(Loop(waits | counts)) == {"barrier": 28}
    nothing = {"inst_executed": {0: 8, 1: 64}}
    assert loop_samples(Loop(waits | nothing)) == {}
    only_once = {"inst_executed": {0: 8, 4: 8, 5: 8, 11: 8}}
    assert loop_samples(Loop(waits | only_once)) == {}


def test_a_part_that_cannot_be_read_leaves_the_rest_of_the_profile(tmp_path):
    class Odd(Loop):
        def name(self):
            return "sgemm"

        def sass_by_pc(self, address):
            raise RuntimeError("no such address")

        def rule_results_as_dicts(self):
            return [{"rule_identifier": "Occupancy", "rule_message": {"title": "a", "message": "b"}}]

    found = kernel_of(
        Odd({"inst_executed": {0: 8, 2: 64}, "smsp__pcsamp_warps_issue_stalled_wait": {2: 5}}), tmp_path / "log"
    )
    assert [found[name] for name in ("kernel", "instructions", "loop", "opcodes")] == ["sgemm", [], {}, {}]
    assert found["lines"][0]["samples"] == {"wait": 5}
    assert found["advice"][0]["title"] == "a"
    assert found["metrics"]["inst_executed"] == [72, "inst"]
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [f"sgemm: no {name}: RuntimeError: no such address" for name in ("instructions", "loop")]


def test_a_report_that_cannot_be_read_is_one_line(tmp_path):
    pytest.importorskip("ncu_report")
    report = write(tmp_path / "512.ncu-rep", "not a report\n")
    told = line_of(extract, report, tmp_path / "log")
    assert any(f"512.ncu-rep: {problem}" in told for problem in ("cannot be read", "holds no kernel"))


# The registry of metrics


def test_a_metric_has_one_name_here_and_one_in_nsight_compute():
    rows = [row for rows in metrics._REGISTRY["metrics"].values() for row in rows]
    assert len(metrics.METRICS) == len({counter for _, counter, *_ in rows}) == len(rows)
    assert {part for ratio in metrics.RATIOS for part in (ratio.over, ratio.under)} <= set(metrics.METRICS)
    stalls = {f"stall_{reason}" for reason in metrics.STALLS}
    assert {name for _, name, _ in metrics.COMPARED} <= {*metrics.METRICS, *stalls}


def test_what_is_recorded_has_the_units_and_the_stalls_of_the_registry():
    records = sorted(ROOT.glob("results/*/raw/profile/*.json.xz"))
    assert records
    # Nsight Compute calls these sectors `byte` and `sectors`, and these wavefronts `sectors` too.
    corrected = {"global_excessive_sectors", "global_sectors", "shared_wavefronts"}
    for path in records:
        for profile in store.read_json(path)["shapes"].values():
            for kernel in profile["kernels"]:
                recorded = kernel["metrics"]
                for name in metrics.METRICS.keys() - corrected:
                    unit = recorded.get(metrics.METRICS[name].counter, (0, metrics.METRICS[name].unit))[1]
                    assert unit == metrics.METRICS[name].unit, name
                assert metrics.stall_counters(recorded).keys() <= metrics.STALLS.keys()


# Records


def profile(kernel: str):
    return {"where": a_where(), "kernels": [{"kernel": kernel, "metrics": {}, "advice": []}]}


def test_profiles_are_kept_beside_those_of_other_shapes(tmp_path):
    path = tmp_path / "profile/naive.json.xz"
    assert read_profiles(path, "build-1") == {}
    keep_profiles(path, "naive", {"512": profile("old"), "1024": profile("old")}, "", "build-1")
    keep_profiles(path, "naive", {"512": profile("new")}, "", "build-1")
    assert read_profiles(path, "build-1") == {"512": profile("new"), "1024": profile("old")}
    assert store.read_json(path)["failure"] is None


def test_why_profiles_are_missing_is_kept_until_there_are_some(tmp_path):
    path = tmp_path / "naive.json.xz"
    keep_profiles(path, "naive", {"512": profile("old")}, "", "build-1")
    keep_profiles(path, "naive", {}, "ncu: not found", "build-2")
    record = store.read_json(path)
    assert record["failure"] == {"message": "ncu: not found", "build_digest": "build-2"}
    assert record["shapes"] == {"512": profile("old")}
    keep_profiles(path, "naive", {}, "", "build-2")
    assert store.read_json(path)["failure"] is None
