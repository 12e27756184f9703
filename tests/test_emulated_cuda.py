"""CUDA C++ in the emulator, a feature and a kind of finding at a time: what tests/emulated/*.cu do in a block."""

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from emulator import matrix, report
from ladder.build.compile import Build, build
from ladder.build.library import Library, Operands
from ladder.config import gpus
from ladder.config.kernels import read_kernels
from ladder.model.shape import Shape
from ladder.system import nvml
from ladder.system.paths import ROOT

SOURCES = ROOT / "tests" / "emulated"
I = np.arange(64)  # noqa: E741  (the thread, and the column of B and C)
LANE, WARP = I % 32, I // 32

# What each kernel of features.cu leaves in C.
FEATURES = {
    "ballot": np.where(WARP, 0x2492, 0x9249),
    "ballot_of_half_a_warp": np.where(LANE < 16, 12, 16),
    "any_and_all": 3 * WARP,
    "shuffle": I // 8 * 8 + LANE // 8,
    "shuffle_xor": np.where(WARP, 1520, 496),
    "shuffle_up_and_down": np.where(LANE < 2, I, I - 2) + 100 * np.where(LANE % 16 == 15, I, I + 1),
    "reduce_add_of_half_a_warp": I // 16 * 256 + 120,
    "shuffle_of_eight_bytes": np.where(WARP, 37, 5),
    "pairs": I ^ 1,
    "quadruples": I ^ 3,
    "ldg": I + 6,
    "cache_hints_of_stores": I,
    "atomics_in_shared_memory": np.array([2016, 63, 7, 5, 255] + [0] * 59),
    "atomics_in_global_memory": np.array([992, 1024, 1.5] + [0] * 61),
    "atomics_of_the_block_and_of_the_system": np.array([1024, 1056, 31, 2] + [0] * 60),
    "compare_and_swap": np.ones(64),
    "launch_bounds": np.full(64, 96),
    "static_shared": 63 - I,
    "dynamic_shared_memory": (I + 1) % 64,
    "syncwarp": I ^ 1,
    "syncthreads_with_a_predicate": np.full(64, 116),
    "pipeline": 2 * (I ^ 1) + 1000 * np.where((I < 32) | ((I ^ 1) % 4 == 0), I ^ 1, 0),
    "constant_and_device_function": 2 * I + 2 + I % 2,
    "arithmetic": 2 * I + 1 + I / 2 + np.minimum(I, 3) + 1 + 3,
    "copies_and_fillings": np.where((LANE > 0) & (LANE < 31 + WARP), I - 1, 0),
    "neighbouring_bytes": 63 - I + 1000 * (I ^ 1),
    "active_lanes": np.where(I % 3 == 0, 11 + 100 * np.where(WARP, 33, 3), 0),
    "warp_matrices": np.full(64, 7),
    "barrier_of_the_block": 64 - I,
    "pipeline_of_a_thread": I + 100 * (63 - I),
    "tiles_of_a_tile": LANE // 8 + 40 + 100 * WARP + 1000 * (I % 8),
    "products_of_parts_of_an_int": 34 + I + 15 - 6 + 1,
    "atomics_with_an_order": np.array([64, 71, 63, 9] + [0] * 60),
    "virtual_functions": 2 * I + 1 + 100 * I,
    "threads_that_leave_before_a_barrier": np.where(
        (LANE >= 20) | (I < 3), 0, np.where(I < 32, I + 32, np.maximum(I - 32, 3))
    ),
    "warps_that_leave_before_a_barrier": I,
    "equal_values_in_a_word": np.full(64, 5),
}


def kernels(source):
    """The names of a source's kernels, in the order in which k counts them."""
    return re.findall(r"^KERNEL\((\w+)\) ", source.read_text(), re.MULTILINE)


def marked(source):
    """For each kernel the line that is marked, and the words of the mark: the kind of finding and its text."""
    found = {}
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if kernel := re.match(r"KERNEL\((\w+)\) ", line):
            name = kernel[1]
        if mark := re.search(r"// found: (\(.*\)|[^:]*): (.*)$", line):
            found[name] = (number, *mark.groups())
    return found


FINDINGS = marked(SOURCES / "findings.cu")


def test_every_kernel_is_asked_for():
    assert kernels(SOURCES / "features.cu") == list(FEATURES)
    assert kernels(SOURCES / "findings.cu") == list(FINDINGS)


@pytest.fixture(scope="session")
def compiled(for_the_emulator):
    return {name: Library(for_the_emulator(SOURCES / f"{name}.cu")) for name in ("features", "findings")}


def run(library, number, seed, a=0):
    """Run the kernel of that number, with an A whose elements are all one number; C, and the report."""
    A, B, C = (matrix(1, 64, 0, 0, values) for values in (a, I, 0))
    library.functions.emulator_reset(ctypes.c_uint64(seed))
    for name, each, access in ((b"A", A, b"r"), (b"B", B, b"r"), (b"C", C, b"rw")):
        sizes = map(ctypes.c_int64, (1, 64, 64))
        library.functions.emulator_register_buffer(name, ctypes.c_void_p(each.address), *sizes, access)
    operands = Operands(A.address, 64, B.address, 64, C.address, 64)
    library.queue(Shape(1, 64, number), 1.0, 1.0, operands)
    return C.elements[0].copy(), report(library)


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_gives_what_cuda_gives_and_no_finding(compiled, name):
    for seed in range(1, 6):
        result, report = run(compiled["features"], 1 + list(FEATURES).index(name), seed)
        assert not report
        np.testing.assert_array_equal(result, FEATURES[name])


def test_the_runtime_answers_what_host_code_asks(for_the_emulator):
    library = Library(for_the_emulator(SOURCES / "runtime.cu"))
    for _ in range(2):
        result, report = run(library, 1, 1, a=1)
        assert not report
        np.testing.assert_array_equal(result, I)


@pytest.mark.parametrize("name", FINDINGS)
def test_a_fault_is_found_with_kernel_block_thread_and_line(compiled, name):
    line, kind, text = FINDINGS[name]
    place = rf"findings\.cu:{line}(; the other: findings\.cu:\d+)?"
    pattern = rf"{kind}: {name}_kernel block \(0,0,0\) thread \(\d+,0,0\) {text}; {place}"
    for seed in range(1, 6):
        _, report = run(compiled["findings"], 1 + list(FINDINGS).index(name), seed)
        assert any(re.fullmatch(pattern, found) for found in report), (pattern, report)


@pytest.mark.gpu
@pytest.mark.skipif(nvml.present() is None, reason="there is no GPU here")
def test_on_a_gpu_a_feature_gives_the_same(tmp_path, nvcc, gpu_alone):
    import cupy as cp

    here = nvml.present()
    known = gpus.recognise(here)
    naive = read_kernels(ROOT / "config/kernels.yaml")["naive"]
    rung = replace(naive, source=str(SOURCES / "features.cu"), macros={})
    made = build(rung, gpus.read_gpu(known) if known else gpus.from_device(here), nvcc, ["-std=c++17"], tmp_path)
    assert made["status"] == "ok", made["log"]
    features = Library(Build(tmp_path).library)
    A, B = cp.zeros((1, 64), np.float32), cp.asarray(np.tile(I, (len(FEATURES), 1)).astype(np.float32))
    for number, (name, expected) in enumerate(FEATURES.items(), 1):
        C = cp.zeros((1, 64), np.float32)
        operands = Operands(A.data.ptr, 64, B.data.ptr, 64, C.data.ptr, 64)
        assert features.queue(Shape(1, 64, number), 1.0, 1.0, operands) == 0
        cp.cuda.runtime.deviceSynchronize()
        np.testing.assert_array_equal(C.get()[0], expected, err_msg=name)
