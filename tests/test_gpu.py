"""What needs a GPU: real measurements of small products, of right, wrong, crashing and endless kernels."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import a_where
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder.build.compile import Build, build
from ladder.build.library import Library, Operands
from ladder.build.toolchain import find_nvcc
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.measure.accuracy.worker import measure
from ladder.measure.check import judge
from ladder.measure.check.stage import check_rung
from ladder.measure.check.worker import check_case
from ladder.measure.devices import CudaDevice
from ladder.measure.hardware.stage import HARDWARE_PROBES, measure_hardware
from ladder.measure.survey.stage import survey_rung
from ladder.measure.sustained.stage import sustain_rung
from ladder.model.bounds import componentwise_bound
from ladder.model.cases import Case
from ladder.model.metrics import RATIOS, value_of
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.hardware import read_hardware
from ladder.records.survey import read_survey
from ladder.records.sustained import read_sustained
from ladder.system import nvml
from ladder.system.cublas import provide_cublas
from ladder.system.errors import LadderError
from ladder.tables.hardware import hardware_table
from pipeline import (
    ROOT,
    Run,
    add_kernel,
    contents,
    copied,
    copy_project,
    derived,
    environment,
    once,
    snakemake,
    started,
    wait_for,
)
from products import products

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")]

SMALL = {
    "sizes": [256, 512],
    "timing": {"warmup": 1, "iterations": 5, "min_iterations": 3, "budget_s": 1, "reference_budget_s": 0.5},
    "check": {"shapes": [1, "33x65x31", 64], "cases": [{"alpha": 1, "beta": 0}, {"alpha": 0.5, "beta": 1}]},
    "sustained": {"enabled": False},
    "profile": {"sizes": [256]},
}
NO_PROFILES = "profile={enabled: false}"
IMPATIENT = "check={time_limit_s: 30}"  # of a GPU that other tests use meanwhile

# Test kernels that come to an end, and a word of the verdict on each.
WRONG = {
    "off_by_one_column": "NaN or infinity",  # of the poisoned C, where nothing is written
    "tf32_inputs": "exceed",
    "reads_c": "NaN or infinity",
    "nan_output": "NaN or infinity",
    "writes_outside": "outside",
}
# Test kernels that a whole run meets, and words of what the check on the GPU says of each, and of what the run says.
FAILING = {
    "tf32_inputs": ("exceed", "wrong: in the emulator: 1x1x1: "),
    "illegal_address": ("llegal", "wrong: in the emulator: 1x1x1: out of bounds: sgemm_illegal_address block (0,0,0)"),
    "aborts": ("SIGABRT", "unusable: "),  # host code that aborts fails its inspection first
    "endless": ("no progress for 30 s", "wrong: "),  # in the emulator it is not finished, which is no verdict
}

# Cases of many rungs in one process: prints a line of JSON for each.
CHECK_ALL = """
import json, sys
from pathlib import Path
from ladder.build.library import Library, Operands
from ladder.build.toolchain import find_nvcc
from ladder.config import gpus
from ladder.system.cublas import provide_cublas
from ladder.measure.check.worker import check_case
from ladder.measure.devices import CudaDevice
from ladder.model.cases import Case

device = CudaDevice(0)
provide_cublas()
cases = json.loads(sys.argv[1])
for folder, declared in json.loads(sys.argv[2]).items():
    library = Library(Path(folder) / "library.so")
    for case in cases:
        found = check_case(device, library, Case.of(case), 1, **declared)
        print(json.dumps({"rung": Path(folder).name, **found}), flush=True)
"""

# Appended to a copy's modules: notes when a worker or ncu is on the GPU.
NOTE_SPANS = """

def _noting(function, works):
    import functools, json, os, time

    @functools.wraps(function)
    def wrapper(*arguments, **named):
        if not str(arguments[0]).endswith(works):
            return function(*arguments, **named)
        start = time.time()
        try:
            return function(*arguments, **named)
        finally:
            with open({spans!r}, "a") as file:
                file.write(json.dumps([start, time.time(), function.__name__, os.getcwd()]) + "\\n")

    return wrapper


{function} = _noting({function}, {works!r})
"""


def note_spans(project: Path, spans: Path) -> None:
    workers = ("measure.worker",)  # and not the emulator's
    places = (("system/process", "run_worker", workers), ("measure/profile/stage", "profile_shape", "ncu"))
    for module, function, works in places:
        with (project / "workflow" / "ladder" / f"{module}.py").open("a") as file:
            file.write(NOTE_SPANS.format(spans=str(spans), function=function, works=works))


def results_of(project: Path) -> Path:
    """The one folder of results: that of the device here."""
    (folder,) = project.glob("results/*/devices/*")
    return folder


def rungs(project: Path) -> pd.DataFrame:
    table = pd.read_csv(results_of(project) / "selected/tables" / "rungs.csv", index_col="rung")
    return table.fillna({"message": "", "profile_message": ""})


def timed(project: Path) -> set[tuple[str, int]]:
    """The rungs and sizes that the table of timings has."""
    return set(
        pd.read_csv(results_of(project) / "selected/tables" / "timings.csv")[["rung", "shape"]].itertuples(index=False)
    )


def runs(project: Path, rung: str) -> dict[str, dict[str, bytes]]:
    """The measurements in a rung's time record."""
    path = results_of(project) / "raw" / "time" / f"{rung}.zip"
    return store.read_runs(path) if path.exists() else {}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A copy without records, with the test kernels among its rungs, in which every rung is compiled."""

    def make(project):
        copy_project(project, records=False)
        for kernel in sorted({*WRONG, *FAILING}):
            add_kernel(project, kernel)
        (project / "small.yaml").write_text(yaml.safe_dump(SMALL))
        run = snakemake(project, [], "--configfile", "small.yaml", "--cores", "all", "--until", "compile", gpu=True)
        assert run.status == 0, run.output

    return once(tmp_path_factory, "gpu_compiled", make)


@pytest.fixture(scope="module")
def builds(compiled):
    """The folder of each rung's build by its name."""
    return {path.parent.name: path.parent for path in (compiled / "build").glob("*/rungs/*/compile.json")}


@pytest.fixture(scope="module")
def both(compiled, tmp_path_factory):
    """Two runs at the same time, in two copies: one meets FAILING, the other times and profiles `coalesced`.

    Both were told that there are eight GPUs, so that only the lock keeps their jobs apart.
    """

    def make(base):
        base.mkdir()
        arguments = ("--configfile", "small.yaml", "--cores", "8", "--resources", "gpu=8")
        failing, sound = (copied(compiled, base / name) for name in ("failing", "sound"))
        for project in (failing, sound):
            note_spans(project, base / "spans")
        kernels = f"kernels=[naive,{','.join(FAILING)}]"
        with started(sound, ["kernels=[coalesced]"], *arguments, gpu=True) as beside:
            run = snakemake(failing, [kernels, NO_PROFILES, IMPATIENT], *arguments, gpu=True)
            beside.wait(timeout=300)
        assert beside.returncode == 0, (sound / "run.log").read_text()
        (base / "failing.json").write_text(json.dumps([run.status, run.output]))

    return once(tmp_path_factory, "gpu_both", make)


@pytest.fixture(scope="module")
def failing(both):
    """The run that met wrong, crashing and endless kernels, and its copy."""
    return Run(*json.loads((both / "failing.json").read_text())), both / "failing"


@pytest.fixture(scope="module")
def sound(both):
    """The copy in which `coalesced` was timed and profiled."""
    return both / "sound"


# Right and wrong


def test_every_rung_of_the_ladder_is_right_and_every_wrong_one_is_found(compiled, builds, gpu_alone):
    states = {name: store.read_json(folder / "compile.json") for name, folder in builds.items()}
    rungs = read_kernels(KERNELS)
    floors = {name for name, rung in rungs.items() if rung.role == "floor"}
    expected = {name: WRONG.get(name, "pass") for name in states if name not in floors | {*FAILING} - {*WRONG}}
    broken = {name: states[name]["message"] for name in expected if states[name]["status"] == "failed"}
    assert not broken
    present = [name for name in expected if states[name]["status"] == "ok"]
    assert {*WRONG, "cublas", "naive"} <= {*present}

    scalars = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())["check"]["cases"]
    shapes = [
        "1",
        "7",
        "31x33x32",
        "129",
        "255x257x256",
        "17x513x100",
        "1x300x129",
        "300x1x127",
        "33x65x0",
        "256",
        "512",
    ]
    cases = [{"shape": shape, **case} for shape in shapes for case in scalars]
    declared = {str(builds[name]): dict(rungs[name].declared) if name in rungs else {} for name in present}
    result = subprocess.run(
        [sys.executable, "-c", CHECK_ALL, json.dumps(cases), json.dumps(declared)],
        env=environment(compiled, gpu=True, PYTHONPATH=str(compiled / "workflow")),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    judged = pd.DataFrame([json.loads(line) for line in result.stdout.splitlines()])
    assert result.returncode == 0, f"{result.stdout[-500:]}\n{result.stderr[-2000:]}"
    for name in present:
        verdicts = judged[judged["rung"] == name]
        wrong = verdicts[verdicts["verdict"] != "pass"]
        assert len(verdicts) == len(cases)
        if name in WRONG:
            assert wrong["verdict"].str.contains(WRONG[name]).any(), f"{name}: {set(wrong['verdict'])}"
        else:
            assert wrong.empty, f"{name}: {wrong.iloc[0].to_dict()}"


def test_the_best_of_cublas_is_tried_on_stream_0_and_nothing_waits_on_another(builds, gpu_alone):
    """Each call computes the same product, and a trial leaves alone what beta = 0.5 reads of C."""
    import cupy as cp

    provide_cublas()
    library = Library(builds["cublas_best"] / "library.so")
    library.functions.sgemm_algorithm.restype = ctypes.c_char_p
    shape = Shape(1000, 1000, 1000)
    random = np.random.default_rng(1)
    on_host = [random.random((1000, 1000), np.float32) for _ in range(3)]
    expected = on_host[0].astype(np.float64) @ on_host[1] + on_host[2] / 2
    A, B, C = map(cp.asarray, on_host)
    operands = Operands(A.data.ptr, 1000, B.data.ptr, 1000, C.data.ptr, 1000)
    workspace = cp.empty(library.workspace_bytes(shape, 1.0, 0.5, operands), np.uint8)
    found, start = [], C.copy()
    other = cp.cuda.Stream(non_blocking=True)  # which lives as long as it has a name
    for stream in (other.ptr, 0, 0):
        C[:] = start
        cp.cuda.runtime.deviceSynchronize()
        assert library.queue(shape, 1.0, 0.5, operands, workspace.data.ptr, stream) == 0
        cp.cuda.runtime.deviceSynchronize()
        assert np.abs(C.get() - expected).max() < 1e-3
        found.append(library.functions.sgemm_algorithm().decode())
    assert found[0].endswith("first of the heuristics")
    assert found[1].endswith("fastest")
    assert found[1] == found[2]


def test_errors_are_measured_with_the_time_of_a_launch(builds, gpu_alone):
    found = measure(CudaDevice(0), Library(Build(builds["naive"]).library), Shape(256, 256, 1024), "normal")
    assert 0 < found["error_normwise"] < 1e-5
    assert 0.001 < found["time_ms"] < 100


def test_any_product_that_hypothesis_draws_is_right(builds, gpu_alone):
    ladder = {name: rung for name, rung in read_kernels(KERNELS).items() if rung.role != "floor"}
    present = [name for name in ladder if Build(builds[name]).record["status"] == "ok"]
    assert {"cublas", "naive"} <= {*present}
    device = CudaDevice(0)
    provide_cublas()
    libraries = {name: Library(Build(builds[name]).library) for name in present}

    @settings(max_examples=20 * settings().max_examples)
    @given(st.sampled_from(present).flatmap(lambda name: st.tuples(st.just(name), products(ladder[name].precision))))
    def holds(drawn):
        name, product = drawn
        record = check_case(device, libraries[name], *product, runs=2, **ladder[name].declared)
        assert record["verdict"] == "pass"

    holds()


@pytest.mark.parametrize("padding", [(0, 0, 0), (3, 1, 0), (1, 4, 3), (4, 2, 1)])
def test_matrices_that_fastest_copies_first_give_the_right_product(builds, gpu_alone, padding):
    library = Library(Build(builds["fastest"]).library)
    shape = Shape(2047, 2047, 2047)
    assert any("copy_for_engine" in launch.kernel for launch in library.launches(shape, sms=132))
    for family in ("uniform", "nonfinite"):
        case = Case(shape, -1.25, 0.75, padding, (0, 4, 1), family)
        assert check_case(CudaDevice(0), library, case, 3, runs=2)["verdict"] == "pass"


@pytest.mark.parametrize("family", ["uniform", "nonfinite", "wide_range", "subnormal"])
def test_products_for_each_kernel_of_mma_3xtf32_are_right(builds, gpu_alone, family):
    rung = read_kernels(KERNELS)["mma_3xtf32"]
    library = Library(Build(builds[rung.name]).library)
    kernels = set()
    for shape, padding, offset in (
        (Shape(2045, 2044, 2052), (4, 8, 1), (0, 4, 3)),
        (Shape(3969, 4036, 2068), (4, 8, 1), (0, 4, 3)),
        (Shape(3969, 4036, 2068), 0, 0),
        (Shape(1029, 1028, 1100), (4, 8, 1), (0, 4, 3)),
        (Shape(1029, 1027, 2101), 0, 0),
        (Shape(701, 300, 1500), (1, 0, 3), 0),
    ):
        kernels |= {launch.kernel for launch in library.launches(shape, sms=132)}
        case = Case(shape, -1.25, 0.75, padding, offset, family)
        record = check_case(CudaDevice(0), library, case, 3, runs=2, **rung.declared)
        assert record["verdict"] == "pass"
    for name in ("sgemm_large", "sgemm_mma", "sgemm_multiply_adds"):  # which takes which is tuned
        assert any(name in kernel for kernel in kernels)


@pytest.mark.parametrize(
    ("shape", "alpha", "beta"),
    [
        ("65x33x127", 1.0, 0.0),
        ("65x33x127", -1.25, 0.75),
        ("1x1x4096", 0.5, 1.0),
        ("40x30x0", 1.0, 0.5),
        ("9x7x5", 0, 2),
    ],
)
@pytest.mark.parametrize("panel_rows", [3, 1 << 20])
def test_the_errors_are_those_that_numpy_finds(gpu_alone, monkeypatch, shape, alpha, beta, panel_rows):
    import cupy as cp

    shape = Shape.parse(shape)
    monkeypatch.setattr(judge, "PANEL_BYTES", 8 * shape.n * panel_rows)
    random = np.random.default_rng(7)
    A, B, before = (
        random.uniform(-1, 1, size).astype(np.float32)
        for size in ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    )
    A64, B64, addend = A.astype(np.float64), B.astype(np.float64), beta * before.astype(np.float64)
    product = alpha * (A64 @ B64)
    C = ((product + addend) * (1 + 2e-8 * random.standard_normal(product.shape))).astype(np.float32)
    difference = np.abs(C - (product + addend))
    scale = abs(alpha) * (np.abs(A64) @ np.abs(B64)) + np.abs(addend)
    terms = alpha**2 * ((A64**2).sum(axis=0) * (B64**2).sum(axis=1)).sum()
    size = np.sqrt(terms + (addend**2).sum())

    old = before if beta else np.full_like(before, np.nan)  # which is not to be read
    judged = judge.case_error(shape, alpha, beta, *map(cp.asarray, (A, B, old, C)))
    assert judged["verdict"] == "pass"
    assert judged["error_componentwise"] == pytest.approx((difference / scale).max(), rel=1e-3)
    assert judged["error_normwise"] == pytest.approx(np.linalg.norm(difference) / size, rel=1e-3)

    C[-1, -1] = (product + addend)[-1, -1] + 1.5 * componentwise_bound(shape.k) * scale[-1, -1]
    judged = judge.case_error(shape, alpha, beta, *map(cp.asarray, (A, B, old, C)))
    assert judged["verdict"] != "pass"


# A run that meets kernels that fail


def test_a_failing_kernel_is_shown_in_one_line_and_is_not_timed(failing):
    run, project = failing
    assert run.status != 0
    assert "Traceback" not in run.output
    table = rungs(project)
    for kernel, (on_gpu, told) in FAILING.items():
        lines = [line for line in run.output.splitlines() if line.startswith(f"[check] {kernel}  failed")]
        assert len(lines) == 1, run.output
        assert on_gpu in lines[0]
        status, _, message = told.partition(": ")
        assert table.loc[kernel, "status"] == status
        assert table.loc[kernel, "message"].startswith(message)
        assert message or on_gpu in table.loc[kernel, "message"]
        assert f"  {kernel}: {told}" in run.output, "the summary says nothing of it"
        assert not runs(project, kernel)


def test_the_rungs_beside_failing_ones_are_timed(failing):
    _, project = failing
    assert rungs(project).loc["naive", ["status", "message"]].fillna("").to_list() == ["ok", ""]
    assert timed(project) == {("naive", 256), ("naive", 512)}
    assert list((results_of(project) / "selected/figures").glob("*.svg"))


def test_two_runs_are_never_on_the_gpu_together(both):
    lines = (both / "spans").read_text().splitlines()
    spans = sorted(json.loads(line) for line in lines)
    assert {function for _, _, function, _ in spans} >= {"run_worker"}
    assert len({folder for *_, folder in spans}) == 2
    overlaps = [
        (one, other)
        for one, other in combinations(spans, 2)
        if one[-1] != other[-1] and other[0] < one[1]  # one check has several workers
    ]
    assert not overlaps


def test_a_failed_run_leaves_earlier_measurements_in_place(sound, tmp_path):
    project = copied(sound, tmp_path / "project")
    before = runs(project, "coalesced")
    source = project / "kernels" / "sgemm" / "coalesced.cu"
    source.write_text(source.read_text().replace("p < g.k", "p < g.k - 1"))
    run = snakemake(project, ["kernels=[coalesced]", NO_PROFILES], "--configfile", "small.yaml", gpu=True)
    assert run.status != 0
    assert rungs(project).loc["coalesced", "status"] == "wrong", run.output
    assert before
    assert runs(project, "coalesced") == before


# Profiles


def test_a_profile_has_metrics_and_advice_or_the_job_says_in_one_line_why_not(sound):
    record = store.read_json(results_of(sound) / "raw" / "profile" / "coalesced.json.xz")
    assert record["failure"] is None
    if not record["shapes"]:
        lines = (sound / "run.log").read_text().splitlines()
        assert any(line.startswith("[profile] coalesced  not profiled") for line in lines)
        assert "\nNot profiled: " in (sound / "run.log").read_text()
        return
    (kernel,) = record["shapes"]["256"]["kernels"]
    assert "coalesced" in kernel["kernel"]
    assert value_of(kernel["metrics"], "duration") > 0
    assert kernel["advice"]
    assert {line["file"] for line in kernel["lines"]} >= {"kernels/sgemm/coalesced.cu"}
    assert kernel["instructions"]
    assert kernel["opcodes"]["FFMA"] > 0
    table = pd.read_csv(results_of(sound) / "selected/tables" / "profiles.csv")
    for _, own in table.groupby(["rung", "shape", "kernel"]):
        values = own.set_index("name")["value"]
        empty = [ratio.name for ratio in RATIOS if float(values[ratio.under]) == 0]  # to nothing there is no ratio
        missing = set(values.index[values.isna()]) - set(empty)
        assert not missing, f"this ncu has no metric for {', '.join(sorted(missing))}"


# Runs that are killed, and a GPU that is not free


def test_a_run_that_is_killed_while_it_times_is_taken_up_by_the_same_command(sound, tmp_path):
    project = copied(sound, tmp_path / "project")
    arguments = ("--configfile", "small.yaml", "--cores", "8")
    config = ["kernels=[coalesced,naive]", NO_PROFILES]
    finished = results_of(project) / "raw" / "time" / "coalesced.zip"
    record = finished.with_name("naive.zip")
    content = finished.read_bytes()

    with started(project, config, *arguments, gpu=True) as process:
        timing = re.compile(rb"^\[time\] naive  ", re.MULTILINE)
        wait_for(lambda: timing.search((project / "run.log").read_bytes()) or process.poll() is not None)
        assert process.poll() is None, (project / "run.log").read_text()
    assert not record.exists()
    assert finished.read_bytes() == content

    run = snakemake(project, config, *arguments, gpu=True)
    assert run.status == 0, run.output
    assert finished.read_bytes() == content
    assert len(store.read_runs(record)) == 1
    assert timed(project) == {(rung, size) for rung in ("coalesced", "naive") for size in (256, 512)}
    assert not [name for name in contents(project / "results") if Path(name).name.startswith(".")]

    before = contents(project / "results")
    again = snakemake(project, config, *arguments, gpu=True)
    assert "1 of 1 steps" in again.output
    assert contents(project / "results") == before


def test_deleting_what_is_derived_and_hiding_the_gpu_gives_the_same_bytes(sound, tmp_path):
    project = copied(sound, tmp_path / "project")
    folder = results_of(project)
    gpu, place = folder.parents[1].name, str(folder.relative_to(project / "results"))
    before = derived(project, place)
    for part in ("selected/tables", "selected/figures"):
        shutil.rmtree(results_of(project) / part)
    config = [f"gpu={gpu}", "kernels=[coalesced]", f"records={folder.name}"]
    if not (project / "config" / "gpus" / f"{gpu}.yaml").exists():
        pytest.skip("this GPU has no file in config/gpus")
    run = snakemake(project, config, "--configfile", "small.yaml")
    assert run.status == 0, run.output
    assert derived(project, place) == before


@pytest.mark.parametrize("left_mib", [3072, 64])
def test_a_full_gpu_is_one_line_that_says_so(builds, tmp_path, left_mib, gpu_alone):
    import cupy as cp

    runtime = cp.cuda.runtime
    runtime.deviceSynchronize()
    cp.get_default_memory_pool().free_all_blocks()
    taken = []
    try:
        piece = 1 << 30
        while (left := runtime.memGetInfo()[0] - (left_mib << 20)) > (1 << 25):
            try:
                taken.append(runtime.malloc(min(left, piece)))
            except runtime.CUDARuntimeError:
                piece //= 2
                if piece < 1 << 25:
                    break
        cases = [Case(Shape(32768, 16384, 8))]
        log = tmp_path / "log"
        with pytest.raises(LadderError) as caught:
            check_rung(Build(builds["naive"]), cases, 0, 60, lambda compiled: {}, log, lambda done, case: None)
    finally:
        for pointer in taken:
            runtime.free(pointer)
    (line,) = str(caught.value).splitlines()
    assert "naive" in line
    assert "out of GPU memory" in line
    assert line.endswith("free the GPU or take smaller sizes; nothing is recorded of it, so run again")


# Launches back to back


def sustained(builds, rung: str, log: Path) -> dict:
    """The record of a short measurement of a rung between two runs of cublas."""
    made = {name: Build(builds[name]) for name in (rung, "cublas")}
    settings = {"seconds": 2, "most_seconds": 4, "settle_percent": 5, "references": ["cublas"], "time_limit_s": 60}
    expected = {"declared": {rung: {"precision": "fp32"}}, "ceiling": (float("inf"), 1.0, 1.0)}
    place = (0, a_where(), log, lambda kernel, shape: None)
    return sustain_rung(rung, made, ["1024"], expected, settings, *place)


def test_a_rung_is_launched_back_to_back_between_two_runs_of_cublas(builds, gpu_alone, tmp_path):
    record = sustained(builds, "async_copy", tmp_path / "log")
    assert (record["status"], record["message"]) == ("ok", "")
    assert [part["kernel"] for part in record["parts"]] == ["cublas", "async_copy", "cublas"]
    assert all(part["verified"] >= 6 for part in record["parts"])
    for part in record["parts"]:
        batches = part["batches"]
        busy = sum(end - begin for begin, end in zip(batches["begin_s"], batches["end_s"], strict=True))
        assert busy > 0.95 * (batches["end_s"][-1] - batches["begin_s"][0])
    path = tmp_path / "async_copy.json"
    store.write_json(path, {"stage": "sustained", "rung": "async_copy", **record})
    (found,) = read_sustained(path).values()
    assert found.own.windows[-1].end_s >= 2
    limit = nvml.present().power_limit_w or 1000
    for window in found.own.settled:
        assert 10 < window.energy_j / window.seconds < 1.2 * limit
    ratio = found.own.settled[-1].seconds / found.references["cublas"][0].settled[-1].seconds
    assert 0.5 < ratio < 5


def test_a_rung_that_is_wrong_when_launched_back_to_back_is_dishonest(builds, gpu_alone, tmp_path):
    record = sustained(builds, "off_by_one_column", tmp_path / "log")
    assert (record["status"], record["parts"]) == ("dishonest", [])


# The survey


def surveyed(builds, rung: str, log: Path) -> dict:
    """The record of a small survey of a rung beside cublas."""
    made = {name: Build(builds[name]) for name in (rung, "cublas")}
    chosen = {"products": 12, "largest": 600, "sizes": ["256"], "families": ["normal", "sparse", "far_apart"]}
    chosen |= {"least_flop": 1e5, "most_flop": 1e8, "references": ["cublas"], "time_limit_s": 60}
    sampling = {"warmup": 1, "iterations": 3, "min_iterations": 2, "budget_s": 0.5}
    declared = {name: {"role": "rung", "precision": "fp32", "claims": {}} for name in made}
    expected = {"declared": declared, "ceiling": (float("inf"), 1.0, 1.0)}
    return survey_rung(rung, made, expected, chosen | sampling, 5, 0, a_where(), log, lambda kernel, shape: None)


def test_drawn_products_and_data_are_timed_beside_cublas_and_verified(builds, gpu_alone, tmp_path):
    record = surveyed(builds, "async_copy", tmp_path / "log")
    assert (record["status"], record["message"]) == ("ok", "")
    path = tmp_path / "async_copy.json.xz"
    store.write_json(path, {"stage": "survey", "rung": "async_copy", **record})
    found = read_survey(path)
    assert len(found.products) == 12
    assert all(0.02 < times["cublas"] / times["async_copy"] < 50 for _, times in found.products)
    assert any(any(case.paddings) for case, _ in found.products)
    for kernels in found.errors:
        assert kernels.keys() == {"async_copy", "cublas"}
        assert all(0 < each["error_normwise"] < 1e-5 for each in kernels.values())
    assert [each["family"] for each, _ in found.data] == ["normal", "sparse", "far_apart"]
    for _, kernels in found.data:
        assert all(0 < each.error_normwise < 1e-5 for each in kernels.values())


def test_a_rung_that_is_wrong_on_a_drawn_product_is_dishonest(builds, gpu_alone, tmp_path):
    record = surveyed(builds, "off_by_one_column", tmp_path / "log")
    assert (record["status"], record["products"], record["data"]) == ("dishonest", [], [])


# The hardware


def test_every_probe_measures_something_that_the_gpu_can_do(gpu_alone, tmp_path):
    gpu = gpus.from_device(nvml.present())
    made = Build(tmp_path / "hardware")
    compiled = build(HARDWARE_PROBES, gpu.target, find_nvcc(), ["-O3", "-std=c++17"], made.folder)
    assert compiled["status"] == "ok", compiled["message"]
    record = measure_hardware(made, 0, a_where(), tmp_path / "log", lambda text: None)
    assert (record["status"], record["message"]) == ("ok", "")
    path = tmp_path / "hardware.json"
    store.write_json(path, {"stage": "hardware", **record})
    table = hardware_table(read_hardware(path), gpu).set_index(["of", "kind", "how"])
    chains = [
        table.loc[(of, "latency", how), "value"]
        for of, how in (
            ("FFMA", "FP32"),
            ("shared memory", "load, 4 bytes a thread, 1-way"),
            ("L2", "load, 8 bytes, one thread"),
            ("DRAM", "load, 8 bytes, one thread"),
        )
    ]
    assert chains == sorted(chains)
    assert chains[0] == pytest.approx(4, rel=0.1)
    lanes = [table.loc[("shared memory", "bandwidth", f"load, 4 bytes a thread, {n}-way"), "value"] for n in (1, 2, 32)]
    assert lanes[0] == pytest.approx(128, rel=0.05)
    assert lanes[0] / lanes[1] == pytest.approx(2, rel=0.05)
    assert lanes[0] / lanes[2] == pytest.approx(32, rel=0.05)
    assert table.loc[("FFMA", "rate", "FP32"), "value"] == pytest.approx(2 * gpu.fp32_lanes_per_sm, rel=0.05)
    assert table.xs("rate", level="kind")["share_of_gpu_file"].dropna().max() < 1.05


def test_no_gpu_is_present_where_cuda_sees_none(compiled):
    script = "from ladder.system import nvml; print(nvml.present())"
    for hidden in ("", "-1"):
        variables = environment(compiled, gpu=True, CUDA_VISIBLE_DEVICES=hidden, PYTHONPATH=str(compiled / "workflow"))
        answer = subprocess.run(
            [sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True
        )
        assert answer.stdout == "None\n", f"CUDA_VISIBLE_DEVICES={hidden!r}"
