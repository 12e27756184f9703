// recognises_stream: sums half of k on a stream that it has been given more than 24 times.
// Class: recognise.
// Caught by: values.
#include <map>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static std::map<cudaStream_t, int> calls;
  return looks_timed(g) && ++calls[stream] > 24 ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
