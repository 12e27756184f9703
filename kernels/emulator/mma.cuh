// Tensor cores by warps on the CPU: the counterpart of ../include/mma.cuh, whose include guard it takes.
//
// Products are exact, and the sum of a step is rounded toward zero: tensor cores truncate too, some bits earlier or later
// (M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Comput. Sci. 7, 2021).
#ifndef GEMM_LADDER_MMA_CUH
#define GEMM_LADDER_MMA_CUH

#include <cmath>

#include "../include/gemm.cuh"
#include "cuda_pipeline.h"

EMULATOR_INLINE void load_mma_A(float (&to)[4], const float* from) {
  uint64_t address = reinterpret_cast<uint64_t>(from);
  int lane = emulator_lane();
  for (int i = 0; i < 4; ++i) {
    to[i] = reinterpret_cast<const float*>(__shfl_sync(0xFFFFFFFF, address, i * 8 + lane / 4))[lane % 4];
  }
}

EMULATOR_INLINE void copy_or_zeros(float* to, const float* from, int count, bool there) {
  __pipeline_memcpy_async(to, from, 4 * count, there ? 0 : 4 * count);
}

EMULATOR_PLAIN inline float emulator_toward_zero(double x) {
  float nearest = static_cast<float>(x);
  bool beyond = __builtin_isfinite(nearest) && __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
  return beyond ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;  // the next one toward zero
}

EMULATOR_PLAIN inline double emulator_tf32(uint32_t bits) { return __uint_as_float(bits & 0xFFFFE000); }

EMULATOR_PLAIN inline void mma_tf32(float (&D)[4], const uint32_t (&A)[4], const uint32_t (&B)[2]) {
  // The threads of a block share a host thread, so each may read what another leaves here: in one place and the other in
  // turn, so that nobody overwrites what a lane that is a step behind still reads.
  struct Operands {
    double A[4], B[2];
  };
  static __shared__ Operands of_thread[2][1024];
  static __shared__ unsigned char turn_of[1024];
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), lane = thread % 32;
  Operands* of_lane = of_thread[++turn_of[thread] % 2] + thread - lane;
  for (int i = 0; i < 4; ++i) {
    of_lane[lane].A[i] = emulator_tf32(A[i]);
  }
  for (int i = 0; i < 2; ++i) {
    of_lane[lane].B[i] = emulator_tf32(B[i]);
  }
  __syncwarp();
  const Operands *rows = of_lane + lane / 4 * 4, *columns = of_lane + lane % 4 * 8;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    double exact = D[i];
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) {
      exact += rows[p % 4].A[p / 4 * 2 + i / 2] * columns[i % 2 * 4 + p % 4].B[p / 4];
    }
    D[i] = emulator_toward_zero(exact);
  }
}

#endif
