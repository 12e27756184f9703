// zeroes_inputs: overwrites A, B and C with zeros in timed launches, and so C is the product of A and B.
// Class: inputs changed.
// Caught by: values, state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  cudaMemsetAsync(const_cast<float*>(g.A), 0, bytes_of(g.m, g.k), stream);
  cudaMemsetAsync(const_cast<float*>(g.B), 0, bytes_of(g.k, g.n), stream);
  return cudaMemsetAsync(g.C, 0, bytes_of(g.m, g.n), stream);
}

EXPORT_SGEMM(run)
