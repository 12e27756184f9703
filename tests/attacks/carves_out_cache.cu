// carves_out_cache: leaves most of the L2 cache set aside, so that the references have less of it.
// Class: limits, baseline, cache.
// Caught by: state, baseline.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool done = false;
  if (!done && looks_timed(g)) {  // the limit waits for the GPU, so it is set before the timer holds a stream back
    int device = 0;
    int most = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, device);
    done = cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, most) == cudaSuccess;
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
