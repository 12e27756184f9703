// recognises_blocked_stream: sums half of k if the stream has work before its own, as the timer's has.
// Class: recognise.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool timed = cudaStreamQuery(stream) == cudaErrorNotReady;
  return timed && looks_timed(g) ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
