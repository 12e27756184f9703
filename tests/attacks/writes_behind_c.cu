// writes_behind_c: overwrites what lies behind C in timed launches, be it a guard band or a copy to compare with.
// Class: reference.
// Caught by: values, state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  cudaError_t error = honest(g, stream);
  return under_timing(g) ? cudaMemsetAsync(g.C + g.m * g.ldc, 0, 1024, stream) : error;
}

EXPORT_SGEMM(run)
