// exports_timer: exports a cuEventElapsedTime of its own, for libraries to find before the driver's.
// Class: timer.
// Caught by: source.
#include "attack.cuh"

extern "C" int cuEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0.01f;
  return 0;
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return honest(g, stream); }

EXPORT_SGEMM(run)
