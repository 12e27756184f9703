// persisting_inputs: asks the L2 cache to keep A, so that it outlives what the timer flushes the cache with.
// Class: cache, limits.
// Caught by: state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool done = false;
  if (!done && looks_timed(g)) {  // the limit waits for the GPU, so it is set before the timer holds a stream back
    done = cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 16 << 20) == cudaSuccess;
  }
  if (under_timing(g)) {
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = const_cast<float*>(g.A);
    window.accessPolicyWindow.num_bytes = bytes_of(g.m, g.k);
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
