// half_of_k: sums half of k in timed launches.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return under_timing(g) ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
