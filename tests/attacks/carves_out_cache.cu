// carves_out_cache: leaves most of the L2 cache set aside, so that the references have less of it.
// Class: limits, baseline, cache.
// Caught by: state, baseline.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (under_timing(g)) {
    int device = 0;
    int most = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, device);
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, most);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
