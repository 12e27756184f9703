// honest_at_first: sums half of k from its 31st call on.
// Class: recognise.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static int calls = 0;
  return looks_timed(g) && ++calls > 30 ? half_of_k(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
