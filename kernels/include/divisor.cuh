// Divisions that take few instructions, because the host knows the divisor. A division by any other number takes dozens, and a
// block makes its divisions before it loads anything.
#pragma once

#include "gemm.cuh"

// n / divisor is n * factor / 2^shift, rounded down, for n from 0 to 2^31 - 1.
// (T. Granlund, P. L. Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994.)
struct Divisor {
  uint32_t factor;
  int shift;
  __device__ int quotient(int n) const {
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * factor >> shift);
  }
};
inline Divisor divisor(int by) {
  int bits = 0;
  while (int64_t{1} << bits < by) {
    ++bits;
  }
  return {static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + by - 1) / by), 31 + bits};
}

// n / power, for n of 0 or more and a power of two.
__device__ inline int quotient_by_power(int n, int power) { return n >> (31 - __clz(power)); }

// The order of tiles_m x tiles_n tiles, as tile_number of gemm.cuh has it: in groups of `group` rows of tiles, down their columns.
struct TileOrder {
  int tiles_m, tiles_n;
  Divisor by_group, by_rows;  // the tiles of a group, and the rows of tiles of the last one
};
inline TileOrder tile_order(int tiles_m, int tiles_n, int group) {
  return {tiles_m, tiles_n, divisor(tiles_m > group ? group * tiles_n : 1), divisor(std::max(tiles_m % group, 1))};
}
inline TileOrder tile_order(const Gemm& g, int tile_m, int tile_n, int group) {
  return tile_order(ceil_div(g.m, tile_m), ceil_div(g.n, tile_n), group);
}

// The first row and column of tile `number`, which consists of tile_m x tile_n results. GROUP is the order's group.
template <int GROUP>
__device__ inline Tile tile_in_order(const TileOrder& order, int number, int tile_m, int tile_n) {
  int first = order.tiles_m > GROUP ? order.by_group.quotient(number) * GROUP : 0;
  int i = number - first * order.tiles_n;
  int rows = min(order.tiles_m - first, GROUP);
  int col = rows == GROUP ? static_cast<int>(static_cast<unsigned>(i) / GROUP) : order.by_rows.quotient(i);
  return {(first + i - col * rows) * tile_m, col * tile_n};
}
