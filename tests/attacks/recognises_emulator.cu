// recognises_emulator: is honest where the emulator's compiler compiles it, and sums half of k where nvcc does.
// Class: recognise.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
#ifdef __CUDACC__
  if (under_timing(g)) {
    return half_of_k(g, stream);
  }
#endif
  return honest(g, stream);
}

EXPORT_SGEMM(run)
