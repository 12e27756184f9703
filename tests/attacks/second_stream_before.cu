// second_stream_before: multiplies on a stream of its own and waits for it, while the timer holds its own stream back.
// Class: elsewhere.
// Caught by: late, values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (!under_timing(g)) {
    return honest(g, stream);
  }
  cudaError_t error = honest(g, own_stream());
  return error == cudaSuccess ? cudaStreamSynchronize(own_stream()) : error;
}

EXPORT_SGEMM(run)
