// second_stream: multiplies on a stream of its own, which nothing waits for.
// Class: elsewhere.
// Caught by: late, values, state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return honest(g, under_timing(g) ? own_stream() : stream);
}

EXPORT_SGEMM(run)
