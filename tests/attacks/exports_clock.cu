// exports_clock: exports a cudaEventRecord of its own, which records nothing.
// Class: timer.
// Caught by: source.
#include "attack.cuh"

extern "C" cudaError_t record_nothing(cudaEvent_t, cudaStream_t) __asm__("cudaEventRecord");
cudaError_t record_nothing(cudaEvent_t, cudaStream_t) { return cudaSuccess; }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return honest(g, stream); }

EXPORT_SGEMM(run)
