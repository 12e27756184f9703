// How a block lays out stages of tiles of A and B in shared memory, A transposed, and copies them there by cp.async.
#pragma once

#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "vector.cuh"

// How many floats of B a copy takes: 4, or 1 where rows of B are not whole aligned vectors.
__host__ __device__ inline int width_of_B(const Gemm& g) { return g.n % 4 == 0 ? vector_width(g.B, g.ldb) : 1; }

// Tiles of ROWS rows of A and COLS columns of B, STEPS steps of k each. A tile has PART_STEPS steps of each of PARTS
// equal parts of k; with one part they are neighbours.
template <int ROWS, int COLS, int STEPS, int THREADS, int PARTS = 1>
struct CopiedTiles {
  static constexpr int PART_STEPS = STEPS / PARTS;
  static constexpr int PITCH_A = ROWS + 4;        // keeps the transposing copies of A off each other's banks
  static constexpr int TILE_A = STEPS * PITCH_A;  // floats of a stage that hold A's tile; B's tile follows
  static constexpr int STAGE = TILE_A + STEPS * COLS;
  static_assert(STEPS % 8 == 0 && ROWS % (THREADS / 8) == 0,
                "whole rows of A's tile in a pass, 8 steps of p at a time");
  static_assert(THREADS * 4 % COLS == 0 && STEPS % (THREADS * 4 / COLS) == 0,
                "whole rows of B's tile in a pass of vectors");
  static_assert(COLS % THREADS == 0 || THREADS % COLS == 0, "whole rows of B's tile in a pass of single floats");
  static_assert(PART_STEPS % 8 == 0 && PART_STEPS % (THREADS * 4 / COLS) == 0, "whole passes of A and of B in a group");

  // Steps of k from the first of a tile to its p-th. A part of k has `part` steps.
  static __device__ int steps_to(int p, int part) { return p / PART_STEPS * part + p % PART_STEPS; }

  // Copies this thread's share of a tile of A: every THREADS / 8-th row, every 8th step of p. So a warp copies 4 rows
  // by 8 steps: whole sectors of global memory, 32 different banks. Zeros stand for the rows from `rows_left` on, which
  // no tile has where INSIDE. Unless the tile is `whole`, they stand for the steps of each part before `first`. Both
  // count from the thread's first element.
  template <bool INSIDE>
  static __device__ void copy_A(float* to, const float* from, int64_t ld, int part, int rows_left, bool whole,
                                int first) {
    constexpr int PASS = THREADS / 8;
#pragma unroll
    for (int i = 0; i < ROWS; i += PASS) {
#pragma unroll
      for (int p = 0; p < STEPS; p += 8) {
        bool exists = (INSIDE || i < rows_left) && (whole || p % PART_STEPS >= first);
        __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + steps_to(p, part), 4, exists ? 0 : 4);
      }
    }
  }

  // The same of a tile of B, WIDTH neighbouring columns at a time.
  template <bool INSIDE, int WIDTH>
  static __device__ void copy_B(float* to, const float* from, int64_t ld, int part, int cols_left, bool whole,
                                int first) {
    constexpr int PASS_COLS = THREADS * WIDTH < COLS ? THREADS * WIDTH : COLS;
    constexpr int PASS_ROWS = THREADS * WIDTH / PASS_COLS;
#pragma unroll
    for (int p = 0; p < STEPS; p += PASS_ROWS) {
#pragma unroll
      for (int c = 0; c < COLS; c += PASS_COLS) {
        bool exists = (INSIDE || c < cols_left) && (whole || p % PART_STEPS >= first);
        __pipeline_memcpy_async(to + p * COLS + c, from + steps_to(p, part) * ld + c, 4 * WIDTH,
                                exists ? 0 : 4 * WIDTH);
      }
    }
  }
};
