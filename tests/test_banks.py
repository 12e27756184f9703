"""Bank conflicts of the conflict-free rung's tiles, counted from the addresses that its own layout gives.

Shared memory has 32 banks of 4 bytes; a 16-byte access is served for 8 threads at a time (CUDA C++ Programming Guide,
"Shared Memory"; the profiles recorded of the rungs agree).
"""

import ctypes
from collections import defaultdict

import pytest
from ladder.build.emulator import compile_for_emulator
from ladder.system.paths import ROOT

PROBE = """
#include "conflict_free.cu"
extern "C" int place_A(int width, int p, int row) { return width == 4 ? at_A<1>(p, row) : at_A<BK / 4>(p, row); }
extern "C" int place_B(int p, int col) { return p * PITCH_B + at_B(col); }
"""


def conflicts(places: list[int], width: int) -> int:
    """Passes beyond the least that an access of 32 threads takes, each of `width` floats from these places on."""
    passes = 0
    for first in range(0, 32, 32 // width):
        banks = defaultdict(set)
        for place in places[first : first + 32 // width]:
            for word in range(place, place + width):
                banks[word % 32].add(word)
        passes += max(map(len, banks.values())) - 1
    return passes


def copies(tile, width_A: int, width_B: int, place_A, place_B) -> dict[str, int]:
    """Conflicts of all accesses to shared memory that a block makes for one tile of k."""
    BM, BN, BK, TM, TN = tile
    threads = (BM // TM) * (BN // TN)
    step_A, step_B = (1 if width_A == 4 else BK // 4), (1 if width_B == 4 else BN // 4)
    rows_A, rows_B = threads * 4 // BK, threads * 4 // BN
    found = dict.fromkeys(("stores of A", "stores of B", "loads of A", "loads of B"), 0)
    for warp in range(threads // 32):
        lanes = range(32 * warp, 32 * warp + 32)
        for i in range(BM // rows_A):
            for v in range(4):
                p_row = [(t % (BK // 4) * width_A + v * step_A, t // (BK // 4) + i * rows_A) for t in lanes]
                found["stores of A"] += conflicts([place_A(width_A, *each) for each in p_row], 1)
        for i in range(BK // rows_B):
            for v in range(0, 4, width_B):
                p_col = [(t // (BN // 4) + i * rows_B, t % (BN // 4) * width_B + v * step_B) for t in lanes]
                found["stores of B"] += conflicts([place_B(*each) for each in p_col], width_B)
        for p in range(BK):
            for i in range(0, TM, 4):
                rows = [t // (BN // TN) * TM for t in lanes]
                found["loads of A"] += conflicts([place_A(width_A, p, row) + i for row in rows], 4)
            for j in range(0, TN, 4):
                found["loads of B"] += conflicts([place_B(p, t % (BN // TN) * TN + j) for t in lanes], 4)
    return found


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("tile", [(128, 128, 8, 8, 8), (64, 128, 16, 8, 4)], ids=str)
def test_no_access_of_the_conflict_free_rung_meets_a_bank_conflict(tile, layout, tmp_path):
    probe, library = tmp_path / "probe.cu", tmp_path / "probe.so"
    probe.write_text(PROBE)
    macros = dict(zip(("BM", "BN", "BK", "TM", "TN"), map(str, tile), strict=True), LAYOUT=str(layout))
    assert compile_for_emulator(probe, macros, library, ROOT / "kernels" / "sgemm") == ""
    place = ctypes.CDLL(str(library))
    for widths in ((4, 4), (1, 1)):
        assert set(copies(tile, *widths, place.place_A, place.place_B).values()) == {0}, widths
