// A kernel of one block of 128 threads, and its body: i is the thread, c is C, b is B, map the tensor map of B.
#pragma once

#include "gemm.cuh"

#define KERNEL(name)                                                                                            \
  __device__ void name(unsigned i, float* c, const float* b, const CUtensorMap* map);                           \
  __global__ void __launch_bounds__(128) name##_kernel(Gemm g, const __grid_constant__ CUtensorMap map) {       \
    name(threadIdx.x, g.C, g.B, &map);                                                                          \
  }                                                                                                             \
  __device__ void name([[maybe_unused]] unsigned i, [[maybe_unused]] float* c, [[maybe_unused]] const float* b, \
                       [[maybe_unused]] const CUtensorMap* map)
