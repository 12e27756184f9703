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
