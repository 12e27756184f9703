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
  bool beyond = std::isfinite(nearest) && std::fabs(static_cast<double>(nearest)) > std::fabs(x);
  return beyond ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;  // the next one toward zero
}

EMULATOR_PLAIN inline double emulator_tf32(uint32_t bits) { return __uint_as_float(bits & 0xFFFFE000); }

EMULATOR_PLAIN inline void mma_tf32(float (&D)[4], const uint32_t (&A)[4], const uint32_t (&B)[2]) {
  // The threads of a block share a host thread, so each may read what another names here.
  static thread_local struct Operands {
    const uint32_t *A, *B;
  } of_thread[1024];
  int lane = emulator_lane();
  Operands* of_lane = of_thread + (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) - lane;
  of_lane[lane] = {A, B};
  __syncwarp();
  double rows[2][8], columns[2][8];
  for (int i = 0; i < 2; ++i) {
    for (int p = 0; p < 8; ++p) {
      rows[i][p] = emulator_tf32(of_lane[lane / 4 * 4 + p % 4].A[p / 4 * 2 + i]);
      columns[i][p] = emulator_tf32(of_lane[(lane % 4 * 2 + i) * 4 + p % 4].B[p / 4]);
    }
  }
  float sum[4];
  for (int i = 0; i < 4; ++i) {
    double exact = D[i];
    for (int p = 0; p < 8; ++p) {
      exact += rows[i / 2][p] * columns[i % 2][p];
    }
    sum[i] = emulator_toward_zero(exact);
  }
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    D[i] = sum[i];
  }
}

#endif
