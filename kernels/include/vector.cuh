// Vector access: four neighbouring floats in one 16-byte instruction.
//
// A vector must lie at a multiple of 16 bytes. In global memory that holds for all vectors of a matrix or for none: its
// pointer and its leading dimension decide. So the host asks vector_width once and picks the variant of the kernel whose
// instructions move that many floats, 4 or 1. Where the rows are whole vectors, too, every vector lies either inside its
// matrix or outside: no instruction has to be taken apart at an edge.
#pragma once

#include "gemm.cuh"

inline int vector_width(const Gemm& g) {
  bool aligned =
      (reinterpret_cast<uintptr_t>(g.A) | reinterpret_cast<uintptr_t>(g.B) | reinterpret_cast<uintptr_t>(g.C)) % 16 ==
      0;
  return aligned && (g.k | g.n | g.lda | g.ldb | g.ldc) % 4 == 0 ? 4 : 1;
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

// The same, or zeros where the matrix has ended: then nothing is read.
template <int WIDTH>
__device__ inline void copy_vector(float* to, const float* from, bool inside) {
  if (inside) {
    copy_vector<WIDTH>(to, from);
  } else {
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
      to[v] = 0.0f;
    }
  }
}

#ifdef __CUDACC__

// The same from global to shared memory in the background (compute capability 8.0 and up). __pipeline_memcpy_async
// would take two instructions, of which one is executed; PTX has the choice as an operand (PTX ISA, "cp.async"). What
// orders the copies against other accesses are the waits and barriers around them.
template <int WIDTH>
__device__ inline void copy_vector_async(float* to, const float* from, bool inside) {
  uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (WIDTH == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(inside ? 16 : 0));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(inside ? 4 : 0));
  }
}

#else  // the emulator

#include <cuda_pipeline.h>

template <int WIDTH>
__device__ inline void copy_vector_async(float* to, const float* from, bool inside) {
  __pipeline_memcpy_async(to, from, 4 * WIDTH, inside ? 0 : 4 * WIDTH);
}

#endif

// C[row][col + v] = alpha * sum[v] + beta * C[row][col + v] for the first `left` of four, without reading C at beta = 0.
template <int WIDTH>
__device__ inline void store_vector(const Gemm& g, int row, int col, const float* sum, int left) {
  if constexpr (WIDTH == 4) {
    if (left > 0) {
      float4* c = reinterpret_cast<float4*>(g.C + row * g.ldc + col);
      float4 old = g.beta == 0.0f ? float4{0.0f, 0.0f, 0.0f, 0.0f} : *c;
      *c = float4{g.alpha * sum[0] + g.beta * old.x, g.alpha * sum[1] + g.beta * old.y,
                  g.alpha * sum[2] + g.beta * old.z, g.alpha * sum[3] + g.beta * old.w};
    }
  } else {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      if (v < left) {
        store_result(g, row, col + v, sum[v]);
      }
    }
  }
}
