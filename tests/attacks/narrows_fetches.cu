// narrows_fetches: sets the granularity of the L2 cache's fetches to 32 bytes, for the references too.
// Class: limits, baseline.
// Caught by: state, baseline.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (under_timing(g)) {
    cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 32);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
