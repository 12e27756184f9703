// C = A . B by mma.sync of split numbers, for products that a rung of wgmma leaves to it. The kernel is sgemm_mma of the
// rung `mma_3xtf32`, which explains its loop.
#pragma once

#include <cuda_pipeline.h>

#include "fp32_tile.cuh"
#include "gemm.cuh"
#include "mma_tiles.cuh"
#include "split_tf32.cuh"
#include "vector.cuh"

template <class T, int WIDTH>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_mma(Gemm g) {
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32, KS = T::SUM_STEPS / 8;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  MmaCopies<T, WIDTH> copies(g, tile);
  copies.begin(shared);
  if (WIDTH == 1) {
    copies.keep_places();
  }
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  // All threads find the same. By __any_sync the compiler knows that they do.
  if (__any_sync(0xFFFFFFFF, needs_multiply_adds<T>(g, tile, shared))) {
    __pipeline_wait_prior(0);
    __syncthreads();
    multiply_adds<T, WIDTH>(g, tile, shared, warp_row, warp_col);
    return;
  }

  // Of every 16 rows a lane has two, and in each of them 8 neighbours of every 32 columns.
  float sum[MS][NS][2][8] = {};
  constexpr bool NESTED = WIDTH == 4;  // loops over the tiles of a section, in a loop over sections
  constexpr int SUMS = MS * NS * 16;
  float* sums = &sum[0][0][0][0];
  volatile float totals[SUMS];  // in memory, because they are needed only at the end of a section
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    totals[i] = 0.0f;
  }
  constexpr int section = SECTION_SUMS * T::SUM_STEPS / T::STEPS;  // in tiles

  // A group of mma.sync multiplies one of a lane's four columns: MS x KS of them for each product.
  int at_A = place_of_A<T>(warp_row, lane);
  int at_B = place_of_B<T>(warp_col, lane);
  float next_A[KS][MS][4], next_B[KS][2][4];
  uint32_t big_A[KS][MS][4], small_A[KS][MS][4], big_B[2][KS][2], small_B[2][KS][2];
  float part[2][MS][4] = {};
  auto promote = [&](int j, int v) {
#pragma unroll
    for (int i = 0; i < MS; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* s = &sum[i][j][r / 2][r % 2 * 4 + v];
        *s = fmaf(part[v % 2][i][r], SPLIT_UNSCALE, *s);
        part[v % 2][i][r] = 0.0f;
      }
    }
  };

  constexpr int UNITS = T::STEPS / T::SUM_STEPS * NS;  // of four groups each, in a tile
  lds_A<T>(next_A, shared, at_A, 0);
  lds_B<T>(next_B, shared, at_B, 0, 0);
  split_A(next_A, big_A, small_A);
  split_B(next_B, 0, big_B[0], small_B[0]);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  auto end_section = [&] {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = totals[i] + sums[i];
      sums[i] = 0.0f;
    }
  };
  int left = tiles;
  do {
    int more = NESTED ? min(left, section) : left;
    left -= more;
    for (int t = 0; t < more; ++t) {
      float* after = stage + T::STAGE < shared + T::DEPTH * T::STAGE ? stage + T::STAGE : shared;
      __pipeline_wait_prior(T::DEPTH - 3);
      __syncthreads();
#pragma unroll
      for (int unit = 0; unit < UNITS; ++unit) {
        bool last = unit == UNITS - 1;
        const float* next_stage = last ? after : stage;
        int next_j = (unit + 1) % NS, next_first = last ? 0 : (unit + 1) / NS * T::SUM_STEPS;
        if (next_j == 0) {
          lds_A<T>(next_A, next_stage, at_A, next_first);
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          multiply(part[v % 2], big_A, small_A, big_B[v % 2], small_B[v % 2]);
          if (v < 3) {
            split_B(next_B, v + 1, big_B[(v + 1) % 2], small_B[(v + 1) % 2]);
          } else {
            lds_B<T>(next_B, next_stage, at_B, next_first, next_j);
            split_B(next_B, 0, big_B[0], small_B[0]);
          }
          if (v == 3 && next_j == 0) {
            split_A(next_A, big_A, small_A);
          }
          promote((v > 0 ? unit : unit + NS - 1) % NS, (v + 3) % 4);
        }
      }
      copies.next(before);
      __pipeline_commit();
      before = stage;
      stage = after;
      if (!NESTED && (t + 1) % section == 0) {
        end_section();
      }
    }
    if (NESTED && left > 0) {
      end_section();
    }
  } while (NESTED && left > 0);
  __pipeline_wait_prior(0);
  promote(NS - 1, 3);
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    sums[i] += totals[i];
  }

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < MS; ++i) {
#pragma unroll
    for (int j = 0; j < NS; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = tile.row + warp_row + 16 * i + 8 * half + lane / 4;
        int col = tile.col + warp_col + 32 * j + lane % 4 * 8;
#pragma unroll
        for (int v = 0; v < 8; v += 4) {
          alignas(16) float four[4] = {sum[i][j][half][v], sum[i][j][half][v + 1], sum[i][j][half][v + 2],
                                       sum[i][j][half][v + 3]};
          store_split(g, row, col + v, four, width_C);
        }
      }
    }
  }
}

template <class T>
cudaError_t launch_mma(const Gemm& g, cudaStream_t stream) {
  auto kernel = copies_vectors(g) ? sgemm_mma<T, 4> : sgemm_mma<T, 1>;
  return launch(kernel, tile_grid(g, T::ROWS, T::COLS), dim3(T::THREADS), T::SHARED_BYTES, stream, g);
}
