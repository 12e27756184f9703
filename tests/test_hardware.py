"""What the GPU does at most: the probes' code, how they are measured, and the tables and ceilings that follow."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest
from conftest import ROUND_GPU, a_build, a_where, line_of
from ladder.build import sass
from ladder.build.compile import Build, build
from ladder.build.toolchain import find_nvcc
from ladder.config.gpus import read_gpu
from ladder.measure.hardware.stage import HARDWARE_PROBES, MOST_FAILURES, measure_hardware
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.hardware import Hardware, Probed, hardware_held, read_hardware
from ladder.show.figures import intensity
from ladder.show.hardware_page import hardware_page
from ladder.show.static import draw
from ladder.system.process import Outcome
from ladder.tables.files import read_table
from ladder.tables.hardware import as_measured, class_ceilings, hardware_table, measured_ceilings, tensor_table
from ladder.tables.paper import ceilings, floors
from pipeline import (
    FEW,
    H100,
    H200,
    RECORDED,
    ROOT,
    a_machine,
    copied,
    copy_project,
    finished_run,
    snakemake,
    with_stand_ins,
)

# The code: by GPU and kernel (as it is written) what the loop that counts holds, an opcode's beginning and how often.
UNROLL = 8
LOOPS = {
    "h200-sxm": {
        **{f"shared_latency<{words}>": {name: UNROLL} for words, name in ((1, "LDS"), (2, "LDS.64"), (4, "LDS.128"))},
        **{f"shared_loads<{words}>": {name: UNROLL} for words, name in ((1, "LDS"), (2, "LDS.64"), (4, "LDS.128"))},
        **{f"shared_stores<{words}>": {name: UNROLL} for words, name in ((1, "STS"), (2, "STS.64"), (4, "STS.128"))},
        **{f"chase<(Cache){cache}>": {"LDG.E.64": UNROLL} for cache in (0, 1)},
        "global_loads<(Cache)0, 4, 512>": {"LDG.E.128": UNROLL},
        "global_loads<(Cache)1, 4, 16384>": {"LDG.E.128": UNROLL},
        "global_loads<(Cache)1, 1, 4096>": {"LDG.E.STRONG": UNROLL},
        "global_stores": {"STG.E.128": UNROLL},
        "global_copies": {"LDG.E.128": UNROLL, "STG.E.128": UNROLL},
        "async_copies<16>": {"LDGSTS.E.BYPASS.128": 4},
        "async_copy_latency": {"LDGSTS.E.BYPASS.128": 1},
        "bulk_copies": {"UBLKCP": 1},
        "ffma_latency": {"FFMA": 8 * UNROLL},
        "ffmas<0>": {"FFMA": 32 * UNROLL, "LDS": 0},
        "ffmas<8>": {"FFMA": 32 * UNROLL, "LDS.128": 32 * UNROLL // 8},
        "mmas<(Type)0, 1, 0>": {"HMMA.1688.F32.TF32": UNROLL},
        "mmas<(Type)0, 8, 0>": {"HMMA.1688.F32.TF32": 8 * UNROLL, "LDS": 0},
        "mmas<(Type)1, 8, 2>": {"HMMA.16816.F32": 8 * UNROLL, "LDS.128": 8 * UNROLL // 2},
        "mmas<(Type)2, 8, 4>": {"HMMA.16816.F32.BF16": 8 * UNROLL, "LDS.128": 8 * UNROLL // 4},
        "wgmmas<(Type)0>": {"HGMMA.64x256x8.F32.TF32": 4, "WARPGROUP.DEPBAR": 1},
        "wgmmas<(Type)1>": {"HGMMA.64x256x16.F32": 4, "WARPGROUP.DEPBAR": 1},
        "wgmmas<(Type)2>": {"HGMMA.64x256x16.F32.BF16": 4, "WARPGROUP.DEPBAR": 1},
        "block_barriers": {"BAR.SYNC": UNROLL},
        "cluster_barriers<true>": {"UCGABAR_WAIT": UNROLL, "MEMBAR": UNROLL},
        "cluster_barriers<false>": {"UCGABAR_WAIT": UNROLL, "MEMBAR": 0},
        "cluster_latency": {"LD.E": UNROLL},
        "grid_barriers": {"REDG": 1, "BAR.SYNC": 2},
    },
    "t4": {
        "shared_loads<4>": {"LDS.U.128": UNROLL},
        "global_loads<(Cache)0, 4, 512>": {"LDG.E.128": UNROLL},
        "ffmas<16>": {"FFMA": 32 * UNROLL, "LDS.U.128": 32 * UNROLL // 16},
        "mmas<(Type)1, 8, 0>": {"HMMA.1688.F32": 8 * UNROLL},
    },
    "rtx-5090": {
        "mmas<(Type)1, 8, 0>": {"HMMA.16816.F32": 8 * UNROLL},
        "async_copies<16>": {"LDGSTS.E.BYPASS.128": 4},
        "bulk_copies": {"UBLKCP": 1},
    },
}


@pytest.fixture(scope="module", params=LOOPS)
def compiled(request, tmp_path_factory):
    """The GPU's name, and the probes' library for it."""
    gpu, nvcc = read_gpu(request.param), find_nvcc()
    made = Build(tmp_path_factory.mktemp(request.param) / "hardware")
    record = build(HARDWARE_PROBES, gpu.target, nvcc, ["-O3", "-std=c++17", "-lineinfo"], made.folder)
    assert record["status"] == "ok", record["message"]
    assert "warning" not in record["log"], record["log"]
    assert "C7510" not in record["log"], "wgmma is serialised"
    return request.param, made, nvcc


def test_each_loop_holds_the_instructions_that_its_probe_counts(compiled):
    gpu, made, nvcc = compiled
    log = made.record["log"]
    names = re.findall(r"Compiling entry function '(\w+)'", log)
    listed = sass.disassemble(made.library, names, nvcc)
    bodies = dict(zip(_written(names), (listed[name] for name in names), strict=True))
    for kernel, expected in LOOPS[gpu].items():
        found = []
        for loop in sass.loops(bodies[kernel]):
            counts = Counter(re.sub(r"^@!?U?P\w+ ", "", each.text).split()[0] for each in loop)
            found.append({start: sum(counts[name] for name in counts if name.startswith(start)) for start in expected})
        assert expected in found, f"{gpu}: {kernel}: {found}"
    assert set(re.findall(r"(\d+) bytes spill stores", log)) == {"0"}


def _written(names):
    """The names of kernels as the source writes them, such as `mmas<(Type)0, 8, 2>`."""
    said = subprocess.run(["c++filt", *names], capture_output=True, text=True, check=True).stdout.splitlines()
    return [re.fullmatch(r"(?:void )?(.*?)\((?:\w+\*.*)?\)", line)[1] for line in said]


# One attempt


def probe(of="L2", kind="latency", how="load, 8 bytes, one thread", count=512, blocks=1, cycles=(1e5,) * 3, ns=None):
    """What the worker sends of a probe."""
    described = {"of": of, "kind": kind, "how": how, "count": count, "blocks": blocks}
    return described, {**described, "cycles": list(cycles), "ns": list(cycles if ns is None else ns)}


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Runs the stage with processes that send these events each and end so; returns the record."""

    def run(*processes):
        asked = []

        def worker(module, request, on_event, time_limit_s, log):
            asked.append(request["first"])
            events, outcome = processes[len(asked) - 1]
            for event in events:
                on_event(event)
            return outcome

        monkeypatch.setattr("ladder.measure.hardware.stage.run_worker", worker)
        record = measure_hardware(a_build(tmp_path / "b"), 0, a_where(), tmp_path / "log", lambda text: None)
        return asked, record

    return run


OK, CRASHED = Outcome("ok", ""), Outcome("failed", "it crashed")


def events(*probes):
    return [event for starts, found in probes for event in ({"starts": starts}, {"probe": found})]


def test_a_probe_that_fails_is_named_and_the_others_are_measured_in_a_new_process(attempt, tmp_path):
    first, second, third = probe(), probe(of="wgmma", kind="rate", how="FP16"), probe(of="launch", cycles=(), ns=[5.0])
    asked, record = attempt(([*events(first), {"starts": second[0]}], CRASHED), (events(third), OK))
    assert asked == [0, 2]
    assert (record["status"], record["message"]) == ("failed", "wgmma, rate, FP16: it crashed")
    assert [each["message"] for each in record["probes"]] == ["", "it crashed", ""]
    path = tmp_path / "raw/hardware.json"
    store.write_json(path, {"stage": "hardware", **record})
    found = read_hardware(path)
    assert [each.of for each in found.probes] == ["L2", "launch"]
    assert found.probes[0].cycles == (1e5,) * 3
    assert not hardware_held(path, "build-1", a_where())  # the next run tries again


def test_a_gpu_on_which_nothing_works_is_left_alone(attempt):
    asked, record = attempt(*[([{"starts": probe()[0]}], CRASHED)] * 9)
    assert len(asked) == MOST_FAILURES
    asked, record = attempt(([], CRASHED))
    assert (asked, record["probes"], record["message"]) == ([0], [], "before the first probe: it crashed")


def test_a_record_is_held_for_the_same_build_and_device(attempt, tmp_path):
    path = tmp_path / "raw/hardware.json"
    store.write_json(path, {"stage": "hardware", **attempt((events(probe()), OK))[1]})
    assert hardware_held(path, "build-1", a_where())
    assert not hardware_held(path, "build-2", a_where())
    other = a_where()
    other["gpu"] = {**other["gpu"], "driver": "999"}
    assert not hardware_held(path, "build-1", other)
    assert not hardware_held(tmp_path / "none.json", "build-1", a_where())


def test_a_time_that_cannot_be_is_one_line(attempt, tmp_path):
    path = tmp_path / "raw/hardware.json"
    for cycles, ns in (((0.0,), (1.0,)), ((1.0, 2.0), (1.0,))):
        record = attempt((events(probe(cycles=cycles, ns=ns)), OK))[1]
        store.write_json(path, {"stage": "hardware", **record})
        assert "the record is damaged" in line_of(read_hardware, path)


# Tables and ceilings

DRAM = Probed("DRAM", "bandwidth", "load, 16 bytes a thread", 8e6, 100, (8e5, 1e6, 1.25e6), (8e5, 1e6, 1.25e6))
FFMA = Probed("FFMA", "rate", "FP32", 250e6, 100, (1e6,) * 3, (1e6,) * 3)
MMA = Probed("mma.sync", "rate", "TF32, a 16-byte shared load every 4", 1e9, 100, (1e6,) * 3, (1e6,) * 3)
L2 = Probed(
    "L2", "latency", "one line a sample, one thread", 512, 1, tuple(512.0 * n for n in range(200, 301)), (1e5,) * 101
)
LAUNCH = Probed("launch", "latency", "of an empty kernel behind another", 256, 1, (), (512e3, 512e3))
FOUND = Hardware((DRAM, FFMA, MMA, L2, LAUNCH), a_where())


def test_a_row_is_count_over_time_beside_what_the_gpu_file_says():
    table = hardware_table(FOUND, ROUND_GPU).set_index("of")
    dram = table.loc["DRAM"]
    assert (dram["value"], dram["value_unit"]) == (8, "B/cycle/SM")
    assert (dram["whole"], dram["whole_unit"], dram["gpu_file"]) == (800, "GB/s", 1000)
    assert dram["share_of_gpu_file"] == pytest.approx(0.8)
    assert dram["whole_ci_low"] < 800 < dram["whole_ci_high"]
    assert (table.loc["FFMA", "value"], table.loc["FFMA", "whole"]) == (250, pytest.approx(25))
    assert table.loc["FFMA", "share_of_gpu_file"] == pytest.approx(25000 / 25600)
    assert table.loc["FFMA", "sm_clock_mhz"] == pytest.approx(1000)
    assert table.loc["mma.sync", "gpu_file"] == pytest.approx(4096 / 2 * 100 / 1000)  # TF32: half of FP16's
    assert (table.loc["L2", "value_percentile_10"], table.loc["L2", "value_percentile_90"]) == (210, 290)
    assert (table.loc["launch", "whole"], table.loc["launch", "whole_unit"]) == (2000, "ns")
    assert table.loc[["launch"], "value"].isna().all()


def test_ceilings_and_floors_take_what_was_measured_and_the_gpu_file_where_nothing_was():
    table = hardware_table(FOUND, ROUND_GPU)
    assert measured_ceilings(table) == {"DRAM": 800, "FFMA": pytest.approx(25e3), "TF32": pytest.approx(1e5)}
    measured, shape = as_measured(ROUND_GPU, table), Shape.parse("4096")
    assert measured.peak_gflops == pytest.approx(25e3)
    assert floors(shape, measured)["memory_floor_ms"] == pytest.approx(
        floors(shape, ROUND_GPU)["memory_floor_ms"] / 0.8
    )
    assert ceilings(measured, shape, {}, 1.0)["FP32 units"] == pytest.approx(25e3)
    assert as_measured(ROUND_GPU, hardware_table(None, ROUND_GPU)) == ROUND_GPU


# The plane of all rungs

RUNGS = pd.DataFrame(
    [
        {"rung": name, "precision": precision, "role": role}
        for name, precision, role in (
            ("cublas", "fp32", "baseline"), ("naive", "fp32", "rung"), ("tiled", "fp32", "rung"),
            ("fastest", "fp32", "rung"), ("tf32 (TF32)", "tf32", "rung"),
        )
    ]
)  # fmt: skip


def profiled(rung, ms, dram_mb, l2_mb, kernel="k"):
    """The rows of the table of profiles for a kernel of a product of 1000."""
    values = {"duration": ms * 1e6, "dram_bytes_read": dram_mb * 1e6 - 1e6, "dram_bytes_written": 1e6}
    values |= {"l2_sectors": l2_mb * 1e6 / 32 - 10, "l2_sectors_written": 10, "sm_busy": "n/a"}
    return [{"rung": rung, "shape": "1000", "kernel": kernel, "name": n, "value": v} for n, v in values.items()]


PROFILES = pd.DataFrame(
    [
        *profiled("fastest", 0.05, 100, 200), *profiled("tiled", 0.3, 50, 800, "main"),
        *profiled("tiled", 0.1, 50, 200, "sums"), *profiled("naive", 10, 20, 1000), *profiled("cublas", 0.06, 50, 100),
    ]
)  # fmt: skip


def test_a_product_is_all_that_its_kernels_move_and_take():
    table = intensity.intensities(PROFILES).set_index("rung")
    assert table.loc["tiled", "tflops"] == pytest.approx(2e9 / 0.4e-3 / 1e12)
    assert table.loc["tiled", "DRAM"] == pytest.approx(2e9 / 100e6)
    assert table.loc["tiled", "L2"] == pytest.approx(2e9 / 1000e6)


def test_the_plane_joins_the_rungs_in_climbing_order_under_the_ceilings_that_were_measured():
    figure = intensity.figure(PROFILES, RUNGS, hardware_table(FOUND, ROUND_GPU), ROUND_GPU, "cublas")
    ways, lines, _, points = figure.layers
    dram = ways.data[ways.data["panel"] == "DRAM"]
    joined = [list(pair["rung"]) for _, pair in dram.groupby("way")]
    assert joined == [["naive", "tiled"], ["tiled", "fastest"]]
    assert set(lines.data["ceiling"]) == {"FP32, 25", "DRAM, 0.8000 TB/s"}
    assert set(points.data["rung"]) == set(PROFILES["rung"])
    assert figure.title.startswith("fastest is 200 times as fast as naive at 1000")
    assert "the probes'" in figure.note
    without = intensity.figure(PROFILES, RUNGS, None, ROUND_GPU, "cublas")
    assert set(without.layers[1].data["ceiling"]) == {"FP32, 26", "DRAM, 1 TB/s"}
    assert "the GPU file's" in without.note
    for each in (figure, without, intensity.figure(PROFILES[:0], RUNGS, None, ROUND_GPU, "cublas")):
        draw(each, "caption")


def test_no_mark_of_the_plane_is_moved_far_from_its_intensity():
    profiles, rungs = (read_table(ROOT / f"results/h100-sxm/tables/{name}.csv") for name in ("profiles", "rungs"))
    figure = intensity.figure(profiles, rungs, None, read_gpu("h100-sxm"), "cublas")
    points = figure.layers[-1].data
    assert len(points) > 80
    moved = points["at"] / points["intensity"]
    assert moved.between(1 / 1.3, 1.3).all(), points.assign(moved=moved).nlargest(3, "moved")


def test_the_ceiling_of_a_class_is_of_the_product_not_of_its_parts():
    found = class_ceilings(ROUND_GPU, {"TF32": 90e3, "FP16": 180e3})
    assert found == {"fp32": ROUND_GPU.peak_gflops, "3xtf32": 30e3, "3xfp16": 60e3, "tf32": 90e3}
    assert class_ceilings(replace(ROUND_GPU, compute_capability="99.0"), {}).keys() == {"fp32"}


def test_a_rung_on_tensor_cores_is_held_to_their_measured_rate_at_its_own_clock():
    wgmma = Probed("wgmma", "rate", "TF32", 2e9, 100, (1e6,) * 3, (1e6,) * 3)  # 200 TFLOP/s at 1000 MHz
    hardware = hardware_table(Hardware((*FOUND.probes, wgmma), a_where()), ROUND_GPU)
    loops = pd.DataFrame(
        [("inner loop", "1024 2048", 0, 6), ("inner loop", "333", 0, 0), ("whole", "333", 9, 9)],
        columns=["part", "launched_at", "HMMA", "HGMMA"],
    )
    times = [("1024", 30e3, 1000.0), ("2048", 45e3, 900.0), ("333", 1e3, 1000.0)]
    timings = pd.DataFrame(times, columns=["shape", "gflops", "sm_clock_mhz"])
    found = tensor_table(hardware, loops, timings, "3xtf32").set_index("shape")
    assert list(found.index) == ["1024", "2048"]
    assert set(found["by"]) == {"wgmma"}
    assert found["ceiling_tflops"].to_numpy() == pytest.approx([200 / 3, 60])
    assert found["share_of_ceiling"].to_numpy() == pytest.approx([0.45, 0.75])
    assert tensor_table(hardware, loops, timings, "tf32")["ceiling_tflops"].iloc[0] == pytest.approx(200)
    assert tensor_table(hardware, loops, timings, "fp32").empty


# The page


def test_the_page_says_what_follows_from_the_numbers_and_has_every_probe():
    def shared(ways, cycles):
        return Probed(
            "shared memory", "latency", f"load, 4 bytes a thread, {ways}-way", 1, 1, (cycles,) * 3, (1e5,) * 3
        )

    chase = Probed("DRAM", "latency", "load, 8 bytes, one thread", 1, 1, (640.0,) * 3, (1e5,) * 3)
    loads = Probed("FFMA", "rate", "FP32, a 16-byte shared load every 8", 125e6, 100, (1e6,) * 3, (1e6,) * 3)
    probes = (shared(1, 23.0), shared(32, 85.0), chase, loads, *FOUND.probes)
    text = hardware_page(hardware_table(Hardware(probes, a_where()), ROUND_GPU))
    assert "takes so many cycles: 23 for shared memory, 640 for DRAM." in text
    assert "nearest tenth of L2's lines is at most 210 cycles away, the farthest at least 290: 1.38 times" in text
    assert "Each further lane on a bank makes a load of shared memory 2.0 cycles longer." in text
    assert "DRAM gives an SM 8.0 bytes a cycle, so 5 KiB have to be on their way" in text
    assert "FFMAs reach 50 % of their rate with a 16-byte load from shared memory for every 8." in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| how", "| ---"))]
    assert len(rows) == len(probes)
    assert "wgmma" not in text  # which this GPU has not


# The workflow


def test_the_stage_compiles_measures_and_writes_its_table(tmp_path):
    project = with_stand_ins(copy_project(tmp_path / "project", records=False))
    (tmp_path / "notes").mkdir()
    variables = a_machine(tmp_path / "nvml", (H200, "GPU-0a1b2c3d-4e5f")) | {"STAND_IN_NOTES": str(tmp_path / "notes")}
    run = snakemake(project, [], "hardware", gpu=True, **variables)
    assert run.status == 0, run.output
    (home,) = (project / "results/h200-sxm/devices").iterdir()
    assert read_hardware(home / "raw/hardware.json").where["compile"]["architecture"] == "sm_90a"
    (path,) = home.glob("*/tables/hardware.csv")
    table = read_table(path).set_index("of")
    assert table.loc["DRAM", "whole"] == pytest.approx(3300)
    for more, times in (((), 1), (("--forcerun", "measure_hardware"), 2)):
        again = snakemake(project, [], "hardware", *more, gpu=True, **variables)
        assert again.status == 0, again.output
        notes = [path.read_text() for path in (tmp_path / "notes").iterdir()]
        assert sum(text.count("begins hardware") for text in notes) == times


def test_without_a_gpu_or_a_record_the_stage_says_that_nothing_is_measured(tmp_path):
    project = copy_project(tmp_path / "project", records=False)
    run = snakemake(project, ["gpu=h200-sxm"], "hardware")
    assert run.status != 0
    assert any("hardware: nothing is measured here" in line for line in run.output.splitlines()), run.output


def test_a_record_is_read_by_ceilings_figures_pages_and_report(tmp_path, tmp_path_factory):
    project = copied(finished_run(tmp_path_factory) / "project", tmp_path / "project")
    probes = [{**vars(each), "cycles": list(each.cycles), "ns": list(each.ns), "message": ""} for each in FOUND.probes]
    where = a_where()
    where["gpu"] = {**where["gpu"], "name": H100}
    record = {"stage": "hardware", "status": "ok", "message": "", "where": where, "probes": probes}
    store.write_json(project / f"results/{RECORDED}/raw/hardware.json", record)
    run = snakemake(project, FEW, "pages", "analysis", "html_report")
    assert run.status == 0, run.output
    (home,) = (path.parent for path in (project / f"results/{RECORDED}").glob("*/pages"))
    assert "## DRAM, bandwidth" in (home / "pages/hardware.md").read_text()
    assert "(hardware.md)" in (home / "pages/README.md").read_text()
    assert "measured ([how](hardware.md))" in (home / "pages/naive.md").read_text()
    paper = read_table(home / "tables/paper.csv").dropna(subset=["ceiling_dram_gflops"])
    assert len(paper)
    assert (paper["ceiling_dram_gflops"] / paper["intensity_minimum"]).to_numpy() == pytest.approx(800, rel=1e-4)
    assert "the probes" in (home / "report.html").read_text()
    assert (home / "figures/intensity.svg").is_file()
