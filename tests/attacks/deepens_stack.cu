// deepens_stack: sets the device's stack limit, which takes memory and stays for all that comes after.
// Class: limits.
// Caught by: state, no gain.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool done = false;
  if (!done && looks_timed(g)) {
    done = cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10) == cudaSuccess;
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
