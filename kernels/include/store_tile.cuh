// How a thread's results leave for C, in few instructions: each is met but once, and comes from far away.
#pragma once

#include "gemm.cuh"
#include "vector.cuh"

// Stores a thread's ROWS x COLS results of a block's tile: rows in groups of 4 that begin STEP_M apart, columns in groups
// of 4 that begin STEP_N apart, the first of them `row` and `col` from where the tile begins. What lies before `own`, where
// the block's own part begins, or outside C, is not stored. A tile that is stored whole, aligned, with beta = 0, has a
// short way. Else all rows take the same instructions: as registers have no index, the rows that are left move up.
template <int TILE_ROWS, int TILE_COLS, int STEP_M, int STEP_N, int ROWS, int COLS>
__device__ inline void store_tile(const Gemm& g, Tile tile, Tile own, int row, int col, float (&sum)[ROWS][COLS]) {
  int width_C = vector_width(g.C + tile.col, g.ldc);
  bool whole = tile.row == own.row && tile.col == own.col && tile.row + TILE_ROWS <= g.m && tile.col + TILE_COLS <= g.n;
  if (!whole || width_C != 4 || g.beta != 0.0f) {
#pragma unroll 1
    for (int i = 0; i < ROWS; ++i) {
      int r = tile.row + row + i / 4 * STEP_M + i % 4;
      if (own.row <= r && r < g.m) {
#pragma unroll
        for (int j = 0; j < COLS; j += 4) {
          int c = tile.col + col + j / 4 * STEP_N;
          store_vector(g, r, c, &sum[0][j], own.col - c, g.n - c, width_C);
        }
      }
#pragma unroll
      for (int next = 1; next < ROWS; ++next) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
          sum[next - 1][j] = sum[next][j];
        }
      }
    }
    return;
  }
  float* C = g.C + (tile.row + row) * g.ldc + (tile.col + col);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COLS; j += 4) {
      *reinterpret_cast<float4*>(C + (i / 4 * STEP_M + i % 4) * g.ldc + j / 4 * STEP_N) =
          float4{g.alpha * sum[i][j], g.alpha * sum[i][j + 1], g.alpha * sum[i][j + 2], g.alpha * sum[i][j + 3]};
    }
  }
}
