// Sums of FP32 multiply-adds in sections of k, and when tensor cores leave sums to them because of zeros.
#pragma once

#include "gemm.cuh"

constexpr int FP32_SECTION = 128;  // the most steps of k in one sum, where cuBLAS may split k

// The totals of a thread's sums over sections of k, in FP64. They stay in memory, not in registers, because they are
// needed only at the end of a section.
template <int SUMS>
struct SectionTotals {
  volatile double totals[SUMS];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = 0.0;
    }
  }

  // Adds the sums to the totals and clears them.
  __device__ void end_section(float* sums) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = totals[i] + sums[i];
      sums[i] = 0.0f;
    }
  }

  // Adds the totals to the sums of the last section.
  __device__ void finish(float* sums) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      sums[i] = static_cast<float>(totals[i] + sums[i]);
    }
  }
};

// Whether FP32 multiply-adds err less because most terms are zero: `sums` sums of k terms have `terms` that are not
// zero, some but few. Such a sum is a short one, or cuBLAS splits its k among blocks as if all terms were there.
__device__ inline bool mostly_zeros(float terms, float sums, int k) {
  return terms > 0.0f && terms <= sums * fmaxf(400.0f, k / 6.0f);
}
