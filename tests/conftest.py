"""What the tests of the package share: rungs, GPUs, a small project, and records as the pipeline writes them."""

import importlib
import json
import pkgutil
import shutil
from pathlib import Path

import ladder
import numpy as np
import pytest
from corpus import CONTROLS, FAULTS, written
from emulator import compile_rung
from hypothesis import settings
from ladder.build import toolchain
from ladder.build.compile import Build
from ladder.build.occupancy import compile_calculator
from ladder.config import plan
from ladder.model import rung
from ladder.model.cases import Case
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.timings import LAUNCHES, Measurement, ShapeTiming
from ladder.show.drawings import constants_of, drawing, is_drawn
from ladder.show.pages import page
from ladder.show.report import Material
from ladder.system import nvml
from ladder.system.errors import LadderError
from ladder.system.nvml import Present
from ladder.system.process import gpu_lock
from ladder.tables.checks import check_table
from ladder.tables.evidence import Evidence, read_evidence
from ladder.tables.files import read_table, write_table
from pipeline import RECORDED, once

REPOSITORY = Path(__file__).resolve().parents[1]

# Hypothesis: a few examples every day, many with `--hypothesis-profile=thorough`.
settings.register_profile("few", max_examples=15, deadline=None, print_blob=True)
settings.register_profile("thorough", settings.get_profile("few"), max_examples=2000)
settings.load_profile("few")

# A GPU whose FP32 peak is a round number: 100 * 128 * 2 * 1000 MHz = 25600 GFLOP/s.
ROUND_GPU = Gpu(
    name="round",
    title="Round GPU",
    compute_capability="9.0",
    architecture="sm_90a",
    sms=100,
    fp32_lanes_per_sm=128,
    sm_clock_mhz=1000,
    memory_bandwidth_gb_s=1000,
    sizes=(),
    cuda="13",
    file="config/gpus/round.yaml",
    limits={},
)

KERNELS = {
    "empty": {"title": "nothing", "source": "empty.cu", "role": "floor"},
    "cublas": {"title": "the library", "source": "cublas.cu", "role": "baseline"},
    "naive": {"title": "the first", "source": "naive.cu"},
    "coalesced": {"title": "the second", "source": "coalesced.cu", "before": "naive"},
    "tiled": {
        "title": "the third",
        "source": "tiled.cu",
        "before": "coalesced",
        "variants": [{"TILE": 8}, {"TILE": 16}],
    },
}


@pytest.fixture(scope="session")
def for_the_emulator(tmp_path_factory):
    """Compiles a source for the emulator, once for all processes of the session; returns the library's path."""

    def library(source: Path, macros: dict[str, str] | None = None) -> Path:
        def make(folder: Path) -> None:
            folder.mkdir()
            error = compile_rung(source, folder / "library.so", macros)
            assert not error, error

        name = "-".join(["emulated", source.stem, *(f"{key}={value}" for key, value in (macros or {}).items())])
        return once(tmp_path_factory, name, make) / "library.so"

    return library


@pytest.fixture(scope="session")
def source_of(tmp_path_factory):
    """The file with the whole source of a fault or a control of the corpus, by its name."""
    folder, corpus = tmp_path_factory.mktemp("faults"), {source.stem: source for source in FAULTS + CONTROLS}
    return lambda name: written(corpus[name], folder)


def take_for_checkout(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let every module of the package take a folder for the checkout."""
    places = {"ROOT": folder, "KERNELS": folder / "config/kernels.yaml", "INCLUDE": folder / "kernels/include"}
    places["RESULTS"] = folder / "results"
    for found in pkgutil.walk_packages(ladder.__path__, "ladder."):
        module = importlib.import_module(found.name)
        for name in places.keys() & vars(module).keys():
            patch.setattr(module, name, places[name])


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of its own, with five small entries, that the package takes for the checkout."""
    for values in KERNELS.values():
        macros = "".join(f"#define {name} 4\n" for name in values.get("variants", [{}])[0])
        write(tmp_path / "kernels" / values["source"], f'#include "gemm.cuh"\n{macros}')
    write(tmp_path / "kernels/include/gemm.cuh", "#pragma once\n")
    write(tmp_path / "config/kernels.yaml", json.dumps(KERNELS))
    take_for_checkout(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="session")
def nvcc():
    """The nvcc that the pipeline would use."""
    return toolchain.find_nvcc()


@pytest.fixture(scope="session")
def calculator(tmp_path_factory):
    """NVIDIA's occupancy calculator, compiled."""
    library = tmp_path_factory.mktemp("calculator") / "occupancy.so"
    compile_calculator(toolchain.find_nvcc(), library)
    return library


@pytest.fixture
def gpu_alone():
    """The GPU's lock, which the pipeline's jobs wait for: no other test is on the GPU, nor needs its memory."""
    with gpu_lock(nvml.present().uuid):
        yield


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def line_of(function, *arguments) -> str:
    """The one line that a LadderError says."""
    with pytest.raises(LadderError) as caught:
        function(*arguments)
    text = str(caught.value)
    assert len(text.splitlines()) == 1, text
    return text


def a_rung(name: str = "naive", **changes) -> Rung:
    """A rung of the name, which may be a variant's."""
    entry, macros = rung.parse_variant(name)
    values = {
        "name": name,
        "entry": entry,
        "title": f"title of {name}",
        "source": f"sgemm/{entry}.cu",
        "macros": macros,
        "precision": "fp32",
        "role": {"empty": "floor", "cublas": "baseline"}.get(entry, "rung"),
        "before": None,
        "compute_capability": "5.0",
    }
    return Rung(**values | changes)


def a_device(name: str = "NVIDIA H100 80GB HBM3", **changes) -> Present:
    """A GPU as NVML describes it; without changes an H100."""
    values = {
        "name": name,
        "uuid": "GPU-0",
        "compute_capability": "9.0",
        "cores": 16896,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "memory_bus_bits": 5120,
        "memory_bytes": 85520809984,
        "power_limit_w": 700.0,
        "driver": "580.1",
        "cuda_driver": "13.0",
    }
    return Present(**values | changes)


def a_where(build: str = "build-1", settings: str = "settings-1", measured_at: str = "2026-01-02T03:04:05+00:00"):
    """Where and when a record was made, as `ladder.records.provenance.environment` says it."""
    return {
        "measured_at": measured_at,
        "gpu": vars(a_device()),
        "software": {"git_commit": "0" * 40, "python": "3.12.0", "system": "Linux", "packages": {"numpy": "2.0"}},
        "compile": {
            "nvcc": "13.0.88",
            "flags": ["-O3"],
            "architecture": "sm_90a",
            "source_digest": "source-1",
            "build_digest": build,
        },
        "config_digest": settings,
    }


def a_check(status: str = "pass", message: str = "", build: str = "build-1", cases=()):
    """A check record."""
    return {"status": status, "message": message, "where": a_where(build), "cases": list(cases)}


def asked(shape: str, **changes) -> Case:
    """A case that a rung is asked for."""
    return Case(Shape.parse(shape), **changes)


def a_case(shape: str = "4", verdict: str = "pass", **changes):
    """One case of a check record."""
    plain = {"alpha": 1, "beta": 0, "padding": 0, "offset": 0, "seed": 1}
    errors = {"error_componentwise": 1e-9, "error_normwise": 2e-9, "bound_normwise": 5e-7}
    return {"shape": shape, **plain, **errors, "verdict": verdict, **changes}


def time_run(
    rung: str,
    samples: dict[tuple[str, str], list[float]],
    *,
    measured_at: str = "2026-01-02T03:04:05+00:00",
    build: str = "build-1",
    settings: str = "settings-1",
    clocks_hz: float = 1.5e9,
) -> dict[str, bytes]:
    """The files of one run in a time record, as NVBench and the time stage write them.

    `samples` has the times in seconds of each (kernel, shape).
    """
    files, states, device = {}, [], []
    for index, ((kernel, shape), times) in enumerate(samples.items()):
        folders = {
            "bin:nv/cold/sample_times": "nvbench.json-bin",
            "freqs-bin:nv/cold/sample_freqs": "nvbench.json-freqs-bin",
        }
        summaries = [{"tag": "nv/cold/sample_size", "name": "Samples", "data": [_datum("value", "int64", len(times))]}]
        for tag, folder in folders.items():
            name = f"{folder}/{index}.bin"
            values = times if folder == "nvbench.json-bin" else [clocks_hz] * len(times)
            files[name] = np.array(values, "<f4").tobytes()
            data = [_datum("filename", "string", name), _datum("size", "int64", len(times))]
            summaries.append({"tag": f"nv/json/{tag}", "name": "File", "data": data})
        axes = [_datum("kernel", "string", kernel), _datum("shape", "string", shape)]
        state = {"name": f"Device=0 kernel={kernel} shape={shape}", "is_skipped": False}
        states.append({**state, "axis_values": axes, "summaries": summaries})
        after = {"temperature_c": 45, "power_w": 131.5, "throttle_reasons": []}
        launches = {"verified": len(times), "mixed": 0, "held_us": [max(times) * 1e6]}
        device.append({"kernel": kernel, "shape": shape, "before": after, "after": after, "launches": launches})
    files["nvbench.json"] = json.dumps({"benchmarks": [{"name": "sgemm", "states": states}]}).encode()
    record = {
        "schema_version": store.SCHEMA_VERSION,
        "launches": LAUNCHES,
        "rung": rung,
        "shapes": list(dict.fromkeys(shape for _, shape in samples)),
        "settings": {"warmup": 5, "iterations": 50},
        "where": a_where(build, settings, measured_at),
        "states": device,
    }
    return {**files, "record.json": json.dumps(record).encode()}


def _datum(name: str, kind: str, value: object) -> dict[str, str]:
    return {"name": name, "type": kind, "value": str(value)}


def a_timing(rung: str, shape: str, times_ms: dict[str, list[float]], **after) -> ShapeTiming:
    """What one process measured at one shape: the times in milliseconds of each kernel, and the device's state."""
    square = Shape.parse(shape)
    state = {"after": {"temperature_c": 50, "power_w": 300.0, "throttle_reasons": [], **after}}
    measured = {
        kernel: Measurement(kernel, square, np.array(times) / 1e3, np.full(len(times), 1.5e9), 50, state)
        for kernel, times in times_ms.items()
    }
    return ShapeTiming(rung, square, a_where(), measured)


def an_evidence(name: str = "naive", timings: tuple[ShapeTiming, ...] = (), **changes) -> Evidence:
    """A rung that compiled and passed its check, with these timings."""
    rung = changes.pop("rung", None) or a_rung(name)
    inspection = {
        "status": "ok",
        "message": "",
        "rung": name,
        "nvcc": "13.0.88",
        "architecture": "sm_90a",
        "kernels": [],
        "launches": {},
    }
    values = {
        "rung": rung,
        "inspection": inspection,
        "check": None if rung.role == "floor" else a_check(),
        "timings": {timing.shape: timing for timing in timings},
        "timing_failure": "",
        "profiles": {},
        "profile_failure": "",
        "sanitized": None,
    }
    return Evidence(**values | changes)


def a_build(folder: Path, **changes) -> Build:
    """The folder of a rung that compiled, without its library."""
    record = {"rung": "naive", "status": "ok", "message": "", "log": "", **a_where()["compile"], **changes}
    store.write_json(folder / "compile.json", record)
    return Build(folder)


@pytest.fixture(scope="session")
def recorded_material(tmp_path_factory) -> Material:
    """What the report of the recorded GPU is made of; what git does not keep is derived here, pages without code."""
    run = plan.plan({"gpu": RECORDED, "measure": False})
    folder = tmp_path_factory.mktemp("recorded") / RECORDED
    shutil.copytree(REPOSITORY / "results" / RECORDED / "tables", folder / "tables")
    write_table(
        check_table([read_evidence(each, None, run.raw(), []) for each in run.rungs]), folder / "tables/checks.csv"
    )
    tables = {path.stem: read_table(path) for path in sorted((folder / "tables").glob("*.csv"))}
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    published = set(tables["rungs"]["rung"])
    rungs = [each for each in run.rungs if each.name in published]  # a rung that was added since is in no table yet
    for each in rungs:
        if each.role != "floor":
            write(folder / f"pages/{each.name}.md", page(each, {"launches": {}, "kernels": []}, tables))
        if is_drawn(each):
            write(folder / f"drawings/{each.name}.svg", drawing(each.entry, constants_of(each)))
    recorded = plan.recorded_on(run.raw())
    return Material(run.gpu, recorded, run.baseline.name, rungs, ladder, tables, folder)
