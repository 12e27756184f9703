// How all threads of a block of `fastest` copy a tile of A and a tile of B to shared memory by cp.async.
#pragma once

#include <cuda_pipeline.h>

#include "fastest_tile.cuh"
#include "gemm.cuh"

// Starts a copy of 4 bytes. With AHEAD the L2 cache fetches the 256 bytes around it as well.
template <bool AHEAD>
__device__ inline void copy_float_async(float* to, const float* from) {
#ifdef __CUDACC__
  if constexpr (AHEAD) {
    asm volatile(
        "cp.async.ca.shared.global.L2::256B [%0], [%1], 4;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
        "l"(from)
        : "memory");
    return;
  }
#endif
  __pipeline_memcpy_async(to, from, 4);
}

// How many neighbouring floats of a row of B a copy can take: 4, 2 or 1, of which the rows and the pointer are multiples.
inline int width_of_copies_B(const Gemm& g) {
  uintptr_t all = reinterpret_cast<uintptr_t>(g.B) / sizeof(float) | static_cast<uintptr_t>(g.ldb | g.n);
  return all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

// What one thread copies from global to shared memory: its share of a tile of A and of a tile of B at a time.
template <class T, int WIDTH_B>
struct Copies {
  static constexpr int ROWS_A = T::THREADS / 8;  // a warp copies 4 rows of A by 8 steps of p: whole sectors, 32 banks
  // A stage takes 64 bytes of a row of A. Tall tiles read the most of A, so they fetch the bytes of the next stages
  // too.
  static constexpr bool AHEAD_A = T::BM > T::BN;
  static constexpr int COLS_B = T::THREADS * WIDTH_B < T::BN ? T::THREADS * WIDTH_B : T::BN;
  static constexpr int ROWS_B = T::THREADS * WIDTH_B / COLS_B;
  static_assert(T::BK % 8 == 0 && T::BM % ROWS_A == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");
  static_assert(T::BN % COLS_B == 0 && T::BK % ROWS_B == 0, "whole rows of B's tile in a pass");

  const float* A;  // the thread's first step in the next tiles
  const float* B;
  int64_t rows_A[T::BM / ROWS_A], cols_B[T::BN / COLS_B];  // where its rows and columns begin
  int64_t ldb;
  int p_A, p_B;    // the steps
  int to_A, to_B;  // its places in a stage

  __device__ Copies(const Gemm& g, Tile tile, int p) : ldb(g.ldb) {
    int row = threadIdx.x / 8;
    int col = threadIdx.x * WIDTH_B % T::BN;
    p_A = threadIdx.x % 8;
    p_B = threadIdx.x * WIDTH_B / T::BN;
    to_A = p_A * T::PITCH_A + row;
    to_B = T::TILE_A + p_B * T::BN + col;
#pragma unroll
    for (int i = 0; i < T::BM / ROWS_A; ++i) {
      rows_A[i] = within(tile.row + row + i * ROWS_A, g.m) * g.lda;
    }
#pragma unroll
    for (int i = 0; i < T::BN / COLS_B; ++i) {
      cols_B[i] = within(tile.col + col + i * COLS_B, g.n);
    }
    A = g.A + p + p_A;
    B = g.B + (p + p_B) * ldb;
  }

  // Copies both tiles into the stage. The first `missing` steps lie before the beginning of k and become zeros.
  __device__ void next(float* stage, int missing) {
#pragma unroll
    for (int i = 0; i < T::BM / ROWS_A; ++i) {
      const float* from = A + rows_A[i];
#pragma unroll
      for (int p = 0; p < T::BK; p += 8) {
        float* to = stage + to_A + p * T::PITCH_A + i * ROWS_A;
        if (p + p_A >= missing) {
          copy_float_async<AHEAD_A>(to, from + p);
        } else {
          *to = 0.0f;
        }
      }
    }
#pragma unroll
    for (int p = 0; p < T::BK; p += ROWS_B) {
      const float* from = B + p * ldb;
#pragma unroll
      for (int i = 0; i < T::BN / COLS_B; ++i) {
        float* to = stage + to_B + p * T::BN + i * COLS_B;
        if (p + p_B >= missing) {
          __pipeline_memcpy_async(to, from + cols_B[i], 4 * WIDTH_B);
        } else {
#pragma unroll
          for (int v = 0; v < WIDTH_B; ++v) {
            to[v] = 0.0f;
          }
        }
      }
    }
    A += T::BK;
    B += T::BK * ldb;
  }
};
