"""Inline PTX in the emulator, and what else strangers use: each gives what NumPy gives, each fault is found."""

import ctypes
import re

import numpy as np
import pytest
from emulator import matrix, report
from ladder.build.library import Library, Operands
from ladder.build.ptx import UnknownPtxError, ptx_in_cpp
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

SOURCES = ROOT / "tests" / "emulated"
B = np.arange(4096, dtype=np.float64) % 61 - 30
I = np.arange(128)  # noqa: E741  (the thread)
LANE = I % 32
E = np.arange(256).reshape(16, 16)  # a matrix of 16 x 16 halves


def lanes(four: np.ndarray) -> np.ndarray:
    """What ldmatrix gives lane 4 g + q of four 8 x 8 matrices: of row g the elements 2 q and 2 q + 1."""
    return four.reshape(4, 8, 4, 2).transpose(1, 2, 0, 3).reshape(32, 4, 2)


QUARTERS = np.stack([E[r : r + 8, c : c + 8] for c in (0, 8) for r in (0, 8)])
OF_MMA = B[:512].reshape(16, 32), B[1000:1256].reshape(32, 8)
BOX = np.zeros((8, 32))
BOX[:, :16] = B.reshape(64, 64)[5:13, 48:]
SWIZZLED = np.stack([row.reshape(8, 4)[np.arange(8) ^ r].ravel() for r, row in enumerate(BOX)])
OF_GROUP = (B[:1024].reshape(64, 16) @ B[2000:2512].reshape(16, 32)).ravel()
MATCHED = np.where(LANE < 16, 0xFFFF, 0xFFFF0000)

# What each kernel of ptx.cu leaves in C, from its first element on.
VALUES = {
    "integers": [
        *(6, -2, 1000000, 3, -1, 3, 8, 6, 48, 15, 0, 37, 0x05010400, 3, 0xBC, 3, 2, 15),
        *(12 ^ 10 ^ 6, 3, 8, 16, 0xFABF, 0x00020001),
    ],
    "floats": [
        *(1 + 2.0**-23, -1, np.float32(1) + np.float32(np.pi), 2.0**-19 + 2.0**-40, 1 + 2.0**-10),
        *(0x4000, 0x3C00, 2, -3, 2),
    ],
    "loads_and_stores": [*B[511 - I], 128, np.array(127, np.int32).view(np.float32)],
    "warps": [
        *np.where(LANE >= 3, I - 3 + 1000, I),
        *((1 << 5) + MATCHED + 496 + (LANE == 0)).astype(np.float32),
    ],
    "asynchronous_copies": np.where((np.arange(512) % 8 < 4) & (np.arange(512) % 4 >= 2), 0, B[:512]),
    "matrices": [
        *np.concatenate([lanes(QUARTERS), lanes(QUARTERS.transpose(0, 2, 1))], axis=2).ravel(),
        *np.block([[QUARTERS[0].T, QUARTERS[2].T], [QUARTERS[1].T, QUARTERS[3].T]]).ravel(),
    ],
    "tensor_cores": [
        *(OF_MMA[0][:, :16] @ OF_MMA[1][:16]).ravel(),
        *(OF_MMA[0][:, :8] @ OF_MMA[1][:8]).ravel(),
        *(OF_MMA[0] @ OF_MMA[1]).ravel(),
    ],
    "named_barriers": B[127:63:-1],
    "bulk_copies": 2 * B[:512],
    "tensor_copies": SWIZZLED.ravel(),
    "wgmma_along_k": OF_GROUP,
    "wgmma_along_n": OF_GROUP,
    "wgmma_dynamic": OF_GROUP,
    "clusters": [*(1127 - I), *(127 - I)],
}

RANK = LANE // 4 * 3 + LANE % 4  # of a lane in a group without each fourth lane
OF_BOX = B.reshape(64, 64)[8:12, 32:].ravel()

# What each kernel of strangers.cu leaves there.
OF_STRANGERS = {
    "matches": [
        *np.sum((I[:, None] // 32 == I // 32) & (I[:, None] % 5 == I % 5), axis=1) + 100 * (LANE // 16 * 16 + I % 2),
        *np.full(128, 7),
    ],
    "coalesced_lanes": np.concatenate(
        [
            24 + 100 * (I // 32 * 32 + 1) + 1000 * np.where(RANK < 22, 2, 0) + 10000 * np.where(RANK >= 5, 5, 0),
            276 + 1000 * (I // 32 * 32 + 30),
            (1 << 23) + 1 + 1 + 2 * (I < 64),
            np.where(LANE < 16, 0xFFF, 0xFFF000),
        ]
    )
    * np.tile(I % 4 < 3, 4),
    "lanes_of_ptx": np.where(I % 4 < 3, 924, 0),
    "partitions": [
        *LANE // 3 + 100 * np.where(LANE % 3 < 2, 11, 10) + 10000 * np.where(LANE < 5, 5, 27),
        *np.where(I % 2, 0xAA, 0x55),
        *np.ones(16),
    ],
    "versions": np.full(128, 3),
    "builtin_atomics": [261, 3, 255, 1, 9, 128],
    "clocks": np.full(128, 15),
    "integer_intrinsics": [5, 5, 4, -1, 1, 0, 8, -2, 8, 0, 1, 3, 4, 2, 0, 3, -3, 0x3FF00000, 77, 5, 3, 35, 24, 0, 1, 1],
    "sums_of_vectors": [128, 256, 384, 2048, 8128, 128, 5],
    "halves": np.repeat([-9769, -9769, 27], 128),
    "copies_by_cuda_ptx": [*2 * B[:128], *2 * B[:128], *OF_BOX + 100 * LANE + 10000],
    "copies_by_barriers": [*B[:128] + 1, *OF_BOX],
}


def faults() -> dict[str, tuple[str, str]]:
    """Of each fault of ptx_faults.cu the kind of finding and words of it."""
    text = (SOURCES / "ptx_faults.cu").read_text()
    return {name: (kind, words) for name, kind, words in re.findall(r"^FAULT\((\w+)\).*// (.*?): (.*)$", text, re.M)}


@pytest.fixture(scope="session")
def library(for_the_emulator):
    return Library(for_the_emulator(SOURCES / "ptx.cu"))


def run(library: Library, number: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Run the kernel of that number; C, and the report."""
    operands = [matrix(64, 64, 0, 0, values) for values in (0, B.reshape(64, 64), 0)]
    library.functions.emulator_reset(ctypes.c_uint64(seed))
    for name, each, access in zip((b"A", b"B", b"C"), operands, (b"r", b"r", b"rw"), strict=True):
        sizes = map(ctypes.c_int64, (64, 64, 64))
        library.functions.emulator_register_buffer(name, ctypes.c_void_p(each.address), *sizes, access)
    a, b, c = (each.address for each in operands)
    library.queue(Shape(64, 64, number), 1.0, 1.0, Operands(a, 64, b, 64, c, 64))
    return operands[2].elements.ravel().copy(), report(library)


def test_every_kernel_is_asked_for():
    text = (SOURCES / "ptx.cu").read_text()
    assert re.findall(r"(\w+)_kernel[,}]", text.split("kernels[] =")[1]) == list(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_a_family_gives_what_numpy_gives_and_no_finding(library, name):
    for seed in range(1, 6):
        result, found = run(library, 1 + list(VALUES).index(name), seed)
        assert not found
        expected = np.asarray(VALUES[name], np.float32)
        np.testing.assert_array_equal(result[: len(expected)], expected)


@pytest.fixture(scope="session")
def strangers(for_the_emulator):
    return Library(for_the_emulator(SOURCES / "strangers.cu"))


def test_every_kernel_of_strangers_is_asked_for():
    text = (SOURCES / "strangers.cu").read_text()
    assert re.findall(r"(\w+)_kernel[,}]", text.split("kernels[] =")[1]) == list(OF_STRANGERS)


@pytest.mark.parametrize("name", OF_STRANGERS)
def test_what_strangers_use_gives_what_cuda_gives_and_no_finding(strangers, name):
    expected = np.asarray(OF_STRANGERS[name], np.float32)
    for seed in range(1, 6):
        result, found = run(strangers, 1 + list(OF_STRANGERS).index(name), seed)
        assert not found
        np.testing.assert_array_equal(result[: len(expected)], expected)


@pytest.fixture(scope="session")
def faulty(for_the_emulator):
    return Library(for_the_emulator(SOURCES / "ptx_faults.cu"))


@pytest.mark.parametrize("name", faults())
def test_a_fault_is_found(faulty, name):
    kind, words = faults()[name]
    for seed in range(1, 4):
        _, found = run(faulty, 1 + list(faults()).index(name), seed)
        assert any(line.startswith(f"{kind}: {name}_kernel") and words in line for line in found), (words, found)


def test_a_tensor_map_of_which_each_thread_has_a_copy_is_found(faulty):
    _, found = run(faulty, 1 + len(faults()), 1)
    assert found[0].startswith("tensor map: copy_of_the_map_kernel")
    assert "without __grid_constant__" in found[0]


@pytest.mark.parametrize(
    ("statement", "unknown"),
    [
        ('asm("add.s32 %0, %1;" : "=r"(x) : "r"(y));', "with 2 operands"),
        ('asm("ld.global.L9::often.f32 %0, [%1];" : "=f"(x) : "l"(p));', "with .L9::often"),
        (
            'asm("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 %0, %0, %0, %0;" : "+f"(x));',
            "of this shape and type",
        ),
        ('asm("mov.u32 %0, %%warp_of_another;" : "=r"(x));', "special register %warp_of_another"),
        ('asm("mov.u32 %0, other;" : "=r"(x));', "register other"),
        ('asm("@p bra away;" ::);', "the label away"),
        ('asm("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(x));', "`tcgen05.alloc"),
        ('asm(".shared .b32 s[4];");', "the PTX directive `.shared .b32 s[4]`"),
    ],
)
def test_what_is_not_known_of_ptx_is_named_with_its_line(statement, unknown):
    with pytest.raises(UnknownPtxError) as error:
        ptx_in_cpp(f'# 7 "a.cu"\nvoid f() {{\n  {statement}\n}}\n')
    assert unknown in str(error.value)
    assert error.value.place == "a.cu:8"


def test_lines_stay_where_they_are():
    statement = 'asm volatile("add.s32 %0,\\n"\n    " %0, 1;"\n    : "+r"(x));'
    text = f'# 1 "a.cu"\nvoid f(int x) {{\n  {statement}\n  x = 1;\n}}\n'
    found = ptx_in_cpp(text)
    assert "x = 1;" in found.split('# 4 "a.cu"\n')[1].splitlines()[1]
