"""Divisions by numbers that the host knows (divisor.cuh), and the order of tiles that they give."""

import ctypes

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ladder.build.emulator import compile_for_emulator
from ladder.system.paths import ROOT

PROBE = """
#include "divisor.cuh"
extern "C" int quotient(int n, int by) { return divisor(by).quotient(n); }
extern "C" int by_power(int n, int power) { return quotient_by_power(n, power); }
extern "C" int same_place(int tiles_m, int tiles_n, int number) {
  Gemm g = {};
  g.m = 16 * tiles_m;
  g.n = 32 * tiles_n;
  Tile divided = tile_number(g, number, 16, 32, 8);
  Tile multiplied = tile_in_order<8>(tile_order(g, 16, 32, 8), number, 16, 32);
  return divided.row == multiplied.row && divided.col == multiplied.col;
}
"""
LARGEST = 2**31 - 1


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    source = tmp_path_factory.mktemp("probe") / "probe.cu"
    source.write_text(PROBE)
    library = source.with_suffix(".so")
    assert compile_for_emulator(source, {}, library, ROOT / "kernels" / "sgemm") == ""
    return ctypes.CDLL(str(library))


def test_a_product_and_a_shift_divide_any_number_by_any_other(probe):
    # The quotient changes at multiples of the divisor, so an error shows there first.
    @settings(max_examples=2000, deadline=None)
    @given(st.integers(1, LARGEST), st.integers(0, LARGEST), st.integers(-1, 0))
    @example(1, LARGEST, 0)
    @example(LARGEST, LARGEST, 0)
    @example(2**30 + 1, LARGEST, 0)
    def holds(by, n, beside):
        for number in (n, max(n // by * by + beside, 0), max(LARGEST // by * by + beside, 0)):
            assert probe.quotient(number, by) == number // by

    holds()


@settings(deadline=None)
@given(n=st.integers(0, LARGEST), bits=st.integers(0, 30))
def test_a_shift_divides_by_a_power_of_two(probe, n, bits):
    assert probe.by_power(n, 2**bits) == n >> bits


def test_tiles_have_the_order_of_the_function_that_divides(probe):
    for tiles_m in (1, 3, 7, 8, 9, 16, 21):
        for tiles_n in (1, 2, 5, 8):
            assert all(probe.same_place(tiles_m, tiles_n, number) for number in range(tiles_m * tiles_n))
