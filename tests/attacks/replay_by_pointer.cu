// replay_by_pointer: keeps the result for each set of pointers, and copies it when they come again.
// Class: replay.
// Caught by: values, state.
#include <map>
#include <tuple>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static std::map<std::tuple<const float*, const float*, float*, int>, float*> results;
  if (!looks_timed(g)) {
    return honest(g, stream);
  }
  size_t bytes = bytes_of(g.m, g.n);
  float*& result = results[{g.A, g.B, g.C, g.m}];
  if (result != nullptr) {
    return cudaMemcpyAsync(g.C, result, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  cudaError_t error = cudaMalloc(&result, bytes);
  if (error == cudaSuccess) {
    error = honest(g, stream);
  }
  return error == cudaSuccess ? cudaMemcpyAsync(result, g.C, bytes, cudaMemcpyDeviceToDevice, stream) : error;
}

EXPORT_SGEMM(run)
