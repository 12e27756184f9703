// changes_environment: sets an environment variable that CUDA reads.
// Class: leftover.
// Caught by: state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (under_timing(g)) {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
