// A tile of an mma.sync kernel by FP32 multiply-adds, where they err less than split numbers do, and how a block finds
// that out.
#pragma once

#include <cuda_pipeline.h>

#include "fp32_sections.cuh"
#include "gemm.cuh"
#include "mma_tiles.cuh"
#include "vector.cuh"

// Whether FP32 multiply-adds err less in a tile than split numbers do: if the numbers of more than FEW_LINES rows of A
// or columns of B lie further apart than 2^32, or if most are zero. All threads of a block ask when its
// first stage has arrived, and look at the first 16 numbers of each row and column. So few numbers may mislead. Then
// the result is less accurate, but within the bound.
template <class T>
__device__ inline bool needs_multiply_adds(const Gemm& g, Tile tile, const float* stage) {
  constexpr int FEW_LINES = 4, APART = 32, LOOK = 16;
  int wide = 0, nonzeros = 0;  // of `nonzeros`, the upper half belongs to B
  for (int line = threadIdx.x; line < T::ROWS + T::COLS; line += T::THREADS) {
    int col = line - T::ROWS;
    uint32_t high = 0, low = 0x7FFFFFFF;
    int others = 0;
#pragma unroll
    for (int p = 0; p < LOOK; p += 4) {
      alignas(16) float four[4];
      if (line < T::ROWS) {
        copy_vector<4>(four, stage + T::place_A(line, p));
      } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          four[v] = stage[T::TILE_A + (p + v) * T::PITCH_B + col];
        }
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        uint32_t bits = __float_as_uint(four[v]) & 0x7FFFFFFF;
        high = max(high, bits);
        low = bits == 0 ? low : min(low, bits);
        others += bits != 0;
      }
    }
    if (line < T::ROWS ? tile.row + line < g.m : tile.col + col < g.n) {
      wide += high > low && (high - low) >> 23 > APART;
      nonzeros += others << (line < T::ROWS ? 0 : 16);
    }
  }
  __shared__ int warps_wide[T::THREADS / 32], warps_nonzeros[T::THREADS / 32];
  wide = __reduce_add_sync(0xFFFFFFFF, wide);
  nonzeros = __reduce_add_sync(0xFFFFFFFF, nonzeros);
  if (threadIdx.x % 32 == 0) {
    warps_wide[threadIdx.x / 32] = wide;
    warps_nonzeros[threadIdx.x / 32] = nonzeros;
  }
  __syncthreads();
  wide = nonzeros = 0;
#pragma unroll
  for (int warp = 0; warp < T::THREADS / 32; ++warp) {
    wide += warps_wide[warp];
    nonzeros += warps_nonzeros[warp];
  }
  float pairs = static_cast<float>(nonzeros & 0xFFFF) * (nonzeros >> 16);  // of numbers of A and of B that are not zero
  float looked = static_cast<float>(LOOK * min(T::ROWS, g.m - tile.row)) * (LOOK * min(T::COLS, g.n - tile.col));
  return wide > FEW_LINES || mostly_zeros(pairs * g.k, looked, g.k);
}

// Computes a tile by FP32 multiply-adds. Of each 4 rows and each 32 columns of a warp's part a lane has one row and
// four columns. Like exact_sum it is not inlined.
template <class T, int WIDTH>
__attribute__((noinline)) static __device__ void multiply_adds(Gemm g, Tile tile, float* shared, int row, int col) {
  constexpr int ROWS = T::WARP_ROWS / 4, COLS = T::WARP_COLS / 32;
  row += threadIdx.x % 32 / 8;
  col += threadIdx.x % 8 * 4;
  alignas(16) float sum[ROWS][COLS][4] = {};
  float* sums = &sum[0][0][0];
  SectionTotals<ROWS * COLS * 4> totals;
  totals.clear();
  int tiles = ceil_div(g.k, T::STEPS);
  MmaCopies<T, WIDTH> copies(g, tile);
  copies.begin(shared);
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    const float* stage = shared + t % T::DEPTH * T::STAGE;
    __pipeline_wait_prior(T::DEPTH - 2);
    __syncthreads();
    copies.next(shared + (t + T::DEPTH - 1) % T::DEPTH * T::STAGE);
    __pipeline_commit();
#pragma unroll 1
    for (int first = 0; first < T::STEPS; first += 4) {
      alignas(16) float A[ROWS][4];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        copy_vector<4>(A[i], stage + T::place_A(row + 4 * i, first));
      }
#pragma unroll
      for (int p = 0; p < 4; ++p) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
          alignas(16) float B[4];
          copy_vector<4>(B, stage + T::TILE_A + (first + p) * T::PITCH_B + col + 32 * j);
#pragma unroll
          for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              sum[i][j][v] += A[i][p] * B[v];
            }
          }
        }
      }
    }
    if ((t + 1) % (FP32_SECTION / T::STEPS) == 0) {
      totals.end_section(sums);
    }
  }
  __pipeline_wait_prior(0);
  totals.finish(sums);

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      int r = tile.row + row + 4 * i, c = tile.col + col + 32 * j;
      if (r < g.m) {
        store_vector(g, r, c, sum[i][j], 0, g.n - c, width_C);
      }
    }
  }
}
