// one_wrong_element: puts 0 into the last element of C in timed launches.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

__global__ void spoil(Gemm g) { g.C[(g.m - 1) * g.ldc + g.n - 1] = 0.0f; }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(spoil);
  cudaError_t error = honest(g, stream);
  return loaded && under_timing(g) ? launch(spoil, dim3(1), dim3(1), 0, stream, g) : error;
}

EXPORT_SGEMM(run)
