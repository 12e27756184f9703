// Vector access: four neighbouring floats in one 16-byte instruction.
//
// A vector must lie at a multiple of 16 bytes. In global memory that holds for a whole matrix or not at all: its
// pointer and its leading dimension decide. So the host asks vector_width once for A and once for B, and picks the
// variant of the kernel whose copies move that many floats in an instruction, 4 or 1.
#pragma once

#include "gemm.cuh"

__host__ __device__ inline int vector_width(const float* matrix, int64_t ld) {
  return reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && ld % 4 == 0 ? 4 : 1;
}

// Copies WIDTH floats between registers, global and shared memory.
template <int WIDTH>
__device__ inline void copy_vector(float* to, const float* from) {
  static_assert(WIDTH == 1 || WIDTH == 4, "4 bytes or 16");
  if constexpr (WIDTH == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else {
    *to = *from;
  }
}

// The same where the matrix ends after `left` of them: reads no more, and sets the others to 0.
template <int WIDTH>
__device__ inline void copy_vector(float* to, const float* from, int left) {
  if (left >= WIDTH) {
    copy_vector<WIDTH>(to, from);
  } else {
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
      to[v] = v < left ? from[v] : 0.0f;
    }
  }
}

// Global memory to registers, what a thread copies of a tile: of every ROWS-th row 4 floats, neighbours where WIDTH is 4,
// else STEP apart. A `whole` tile lies inside the matrix; of another, zeros stand for rows from `rows_left` and columns
// from `cols_left` on, both counted from the thread's first element.
template <int ROWS, int WIDTH, int STEP, int PASSES>
__device__ inline void load_tile(float (&to)[PASSES][4], const float* from, int64_t ld, bool whole, int rows_left,
                                 int cols_left) {
  if (whole) {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        copy_vector<WIDTH>(&to[i][v], from + i * ROWS * ld + v * STEP);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      int left = i * ROWS < rows_left ? cols_left : 0;
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        copy_vector<WIDTH>(&to[i][v], from + i * ROWS * ld + v * STEP, left - v * STEP);
      }
    }
  }
}

// Shared memory to registers: a thread's vectors of a row of a tile, `step` floats apart.
template <int LENGTH>
__device__ inline void load_fragment(float (&to)[LENGTH], const float* from, int step) {
#pragma unroll
  for (int i = 0; i < LENGTH / 4; ++i) {
    copy_vector<4>(&to[4 * i], from + i * step);
  }
}

// What a block computes: its own tile or, where that would end outside C, one that begins earlier, so that edges cost
// no checks. Its columns stay where B's vectors allow no earlier begin, and so does all of a matrix smaller than a tile.
__device__ inline Tile whole_tile(const Gemm& g, Tile own, int tile_m, int tile_n, int width_B) {
  own.row = max(0, min(own.row, g.m - tile_m));
  own.col = g.n % width_B == 0 ? max(0, min(own.col, g.n - tile_n)) : own.col;
  return own;
}

// C[row][col + v] = alpha * sum[v] + beta * C[row][col + v] for v from `begin` to `end` - 1 of four, without reading C at
// beta = 0. width_C is what vector_width says of the pointer to a row's first such vector.
__device__ inline void store_vector(const Gemm& g, int row, int col, const float* sum, int begin, int end,
                                    int width_C) {
  if (width_C == 4 && begin <= 0 && end >= 4) {
    float4* c = reinterpret_cast<float4*>(g.C + row * g.ldc + col);
    float4 old = g.beta == 0.0f ? float4{0.0f, 0.0f, 0.0f, 0.0f} : *c;
    *c = float4{g.alpha * sum[0] + g.beta * old.x, g.alpha * sum[1] + g.beta * old.y, g.alpha * sum[2] + g.beta * old.z,
                g.alpha * sum[3] + g.beta * old.w};
  } else {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      if (begin <= v && v < end) {
        store_result(g, row, col + v, sum[v]);
      }
    }
  }
}
