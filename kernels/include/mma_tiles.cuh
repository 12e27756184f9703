// How a block of mma.sync lays out stages of tiles of A and B in shared memory, as they lie in global memory, and
// copies them there by cp.async.
#pragma once

#include <cuda_pipeline.h>

#include "edges.cuh"
#include "gemm.cuh"
#include "mma.cuh"
#include "vector.cuh"

// How a block computes a tile of ROWS x COLS results, STEPS steps of k at a time; WARP_ROWS x WARP_COLS of them a warp.
template <int ROWS_, int COLS_, int STEPS_, int WARP_ROWS_, int WARP_COLS_, int DEPTH_, int BLOCKS_, int SUM_STEPS_>
struct MmaTiling {
  static constexpr int ROWS = ROWS_, COLS = COLS_, STEPS = STEPS_, WARP_ROWS = WARP_ROWS_, WARP_COLS = WARP_COLS_,
                       DEPTH = DEPTH_, BLOCKS = BLOCKS_, SUM_STEPS = SUM_STEPS_;
  static constexpr int THREADS = (ROWS / WARP_ROWS) * (COLS / WARP_COLS) * 32;
  static constexpr int PITCH_B = COLS + 8;     // the four rows of B that a warp reads together lie in different banks
  static constexpr int TILE_A = ROWS * STEPS;  // floats of a stage that hold A's tile; B's follows
  static constexpr int STAGE = TILE_A + STEPS * PITCH_B;
  static constexpr size_t SHARED_BYTES = sizeof(float) * DEPTH * STAGE;
  static_assert(ROWS % WARP_ROWS == 0 && COLS % WARP_COLS == 0, "the warp tiles must cover the block tile");
  static_assert(WARP_ROWS % 16 == 0 && WARP_COLS % 32 == 0, "a warp multiplies 16 rows by 32 columns at a time");
  static_assert(STEPS == 16 || STEPS == 32,
                "a row of A's tile has four or eight vectors, and their order is made for that");
  static_assert(ROWS * STEPS % (THREADS * 4) == 0 && STEPS * COLS % (THREADS * 4) == 0,
                "each thread copies as many vectors");
  static_assert(STEPS % SUM_STEPS == 0 && (SUM_STEPS == 8 || SUM_STEPS == 16), "the error is derived for that");
  static_assert(THREADS <= 1024 && DEPTH >= 3, "one stage to multiply, one that has arrived, one on its way");

  // The place of the four floats from column `col` of a row of A's tile. The vectors of a row are permuted so that the
  // eight rows that ldmatrix reads at a time touch all banks.
  static __device__ int place_A(unsigned row, unsigned col) {
    constexpr unsigned VECTORS = STEPS / 4;
    return row * STEPS + ((col / 4) ^ (VECTORS == 8 ? row : row / 2) % VECTORS) * 4;
  }
};

// Keeps a number in its register. Without the shuffle ptxas computes again in each tile what follows from threadIdx
// alone.
__device__ inline int keep(int x) { return __shfl_sync(0xFFFFFFFF, x, threadIdx.x % 32); }

// What one thread copies of the tiles of A and B from global to shared memory by cp.async, WIDTH floats at a time.
template <class T, int WIDTH>
struct MmaCopies {
  static constexpr int VECTORS_A = T::STEPS / WIDTH, VECTORS_B = T::COLS / WIDTH;  // of a row
  static constexpr int ROWS_A = T::THREADS / VECTORS_A;                            // that are copied at a time
  static constexpr int ROWS_B = T::THREADS < VECTORS_B ? 1 : T::THREADS / VECTORS_B;
  static constexpr int COLS_B = T::THREADS < VECTORS_B ? T::THREADS * WIDTH : T::COLS;
  static constexpr bool WHOLE_ROWS = COLS_B == T::COLS;  // of B are copied at a time
  static_assert(ROWS_A % 8 == 0, "then vectors of all rows of A that a thread copies have the same order");

  const float* A[T::ROWS / ROWS_A];  // the next elements of each of the thread's rows of A
  const float* B;                    // the next elements of its first row of B
  int64_t ldb;
  int cols_left, steps_left_A, steps_left_B;  // from there to the ends of the matrices
  int to_A, to_B;                             // their places in a stage

  // Results outside C are not stored. So other numbers are copied in place of those that lie outside: of B the first
  // columns (edges.cuh); of A the last row, because a warp copies only few rows at a time.
  __device__ MmaCopies(const Gemm& g, Tile tile) : ldb(g.ldb) {
    int row_A = threadIdx.x / VECTORS_A;
    int col_A = threadIdx.x % VECTORS_A * WIDTH;
    int row_B = threadIdx.x / VECTORS_B % ROWS_B;
    int col_B = threadIdx.x % VECTORS_B * WIDTH;
#pragma unroll
    for (int i = 0; i < T::ROWS / ROWS_A; ++i) {
      A[i] = g.A + min(tile.row + row_A + i * ROWS_A, g.m - 1) * g.lda + col_A;
    }
    B = g.B + row_B * ldb + (WHOLE_ROWS ? wrapped(tile.col + col_B, g.n) : tile.col + col_B);
    cols_left = g.n - tile.col - col_B;
    steps_left_A = g.k - col_A;
    steps_left_B = g.k - row_B;
    to_A = T::place_A(row_A, col_A) + col_A % 4;
    to_B = T::TILE_A + row_B * T::PITCH_B + col_B;
  }

  // Starts the copies of the first tiles, to all stages but one.
  __device__ void begin(float* shared) {
#pragma unroll
    for (int stage = 0; stage < T::DEPTH - 1; ++stage) {
      next(shared + stage * T::STAGE);
      __pipeline_commit();
    }
  }

  __device__ void keep_places() {
    to_A = keep(to_A);
    to_B = keep(to_B);
  }

  // Starts the copies of both tiles to a stage. Zeros stand for the steps beyond the end of k.
  __device__ void next(float* stage) {
#pragma unroll
    for (int i = 0; i < T::ROWS / ROWS_A; ++i) {
      copy_or_zeros(stage + to_A + i * ROWS_A * T::STEPS, A[i], WIDTH, steps_left_A > 0);
      A[i] += T::STEPS;
    }
#pragma unroll
    for (int p = 0; p < T::STEPS; p += ROWS_B) {
#pragma unroll
      for (int c = 0; c < T::COLS; c += COLS_B) {
        bool there = p < steps_left_B && (WHOLE_ROWS || c < cols_left);
        copy_or_zeros(stage + to_B + p * T::PITCH_B + c, B + p * ldb + c, WIDTH, there);
      }
    }
    B += T::STEPS * ldb;
    steps_left_A -= T::STEPS;
    steps_left_B -= T::STEPS;
  }
};

// Whether all copies can move 16 bytes.
inline bool copies_vectors(const Gemm& g) {
  return vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4 && g.k % 4 == 0 && g.n % 4 == 0;
}
