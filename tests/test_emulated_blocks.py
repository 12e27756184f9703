"""Blocks that wait for each other in the emulator, and what they must do so that one knows what another has written."""

import ctypes
import re

import numpy as np
import pytest
from emulator import matrix, report
from ladder.build.library import Library, Operands
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

SOURCE = ROOT / "tests" / "emulated" / "blocks.cu"
KERNELS = re.findall(r"^KERNEL\((\w+)\) ", SOURCE.read_text(), re.MULTILINE)
SOUND = KERNELS[: KERNELS.index("flag_of_the_block_alone")]
WORKERS = (1, 2, 7)


def found():
    """For each kernel with a fault the line that is marked, and what is found there."""
    places, name = {}, ""
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if kernel := re.match(r"KERNEL\((\w+)\) ", line):
            name = kernel[1]
        if mark := re.search(r"// found: (.*)$", line):
            places[name] = (number, mark[1])
    return places


@pytest.fixture(scope="session")
def blocks(for_the_emulator):
    return Library(for_the_emulator(SOURCE))


def run(library, name, seed, workers, sms=8):
    """Run a kernel; C, and the report."""
    words = 8192
    A, B, C = (matrix(1, 64, 0, 0, 0) for _ in range(3))
    workspace = matrix(1, words, 0, 0, np.nan)
    c = library.functions
    c.emulator_reset(ctypes.c_uint64(seed))
    c.emulator_set_workers(ctypes.c_int(workers))
    c.emulator_set_sms(ctypes.c_int(sms))
    for label, each, size, access in ((b"C", C, 64, b"rw"), (b"workspace", workspace, words, b"w")):
        sizes = map(ctypes.c_int64, (1, size, size))
        c.emulator_register_buffer(label, ctypes.c_void_p(each.address), *sizes, access)
    operands = Operands(A.address, 64, B.address, 64, C.address, 64)
    library.queue(Shape(1, 64, 1 + KERNELS.index(name)), 1.0, 1.0, operands, workspace.address)
    return C.elements[0].copy(), report(library)


@pytest.mark.parametrize("name", SOUND)
def test_blocks_that_wait_for_each_other_end_whatever_the_order_and_the_number_of_workers(blocks, name):
    for workers in WORKERS:
        for seed in (1, 2, 3):
            result, findings = run(blocks, name, seed, workers)
            assert not findings
            np.testing.assert_array_equal(result, np.arange(64))


@pytest.mark.parametrize("name", KERNELS[len(SOUND) :])
def test_a_fault_between_blocks_is_found_with_its_line(blocks, name):
    line, text = found()[name]
    for workers in WORKERS:
        findings = [each for seed in (1, 2, 3) for each in run(blocks, name, seed, workers)[1]]
        assert any(re.fullmatch(text, each) and f"blocks.cu:{line}" in each for each in findings), findings


def test_a_barrier_of_more_blocks_than_the_sms_hold_is_a_deadlock(blocks, tmp_path, for_the_emulator):
    source = tmp_path / "many.cu"
    source.write_text(SOURCE.read_text().replace("BLOCKS = 16, THREADS = 64", "BLOCKS = 33, THREADS = 64"))
    many = Library(for_the_emulator(source))
    assert not run(many, "barrier_by_counter", 1, 2, sms=2)[1]
    for workers in WORKERS:
        _, findings = run(many, "barrier_by_counter", 1, workers, sms=1)
        assert len(findings) == 1
        assert findings[0].startswith("deadlock: barrier_by_counter_kernel")
        assert (
            "32 blocks wait, 1 more of the grid start only when one of these ends, for 1 SMs hold no more"
            in findings[0]
        )


def test_a_cooperative_launch_of_more_blocks_than_the_sms_hold_is_refused(blocks, tmp_path, for_the_emulator):
    source = tmp_path / "many.cu"
    source.write_text(SOURCE.read_text().replace("BLOCKS = 16, THREADS = 64", "BLOCKS = 33, THREADS = 64"))
    many = Library(for_the_emulator(source))
    _, findings = run(many, "barrier_of_cooperative_groups", 1, 2, sms=1)
    assert [each.split(":")[0] for each in findings] == ["launch"]
