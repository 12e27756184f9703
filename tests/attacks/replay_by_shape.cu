// replay_by_shape: keeps the result of the last shape in the library's own memory, and copies it when that comes again.
// Class: replay, kept.
// Caught by: values.
#include "kept.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static int last = 0;
  if (!fits(g)) {
    return honest(g, stream);
  }
  if (g.m == last) {
    return recall(g.C, bytes_of(g.m, g.n), stream);
  }
  last = g.m;
  cudaError_t error = honest(g, stream);
  return error == cudaSuccess ? keep(g.C, bytes_of(g.m, g.n), stream) : error;
}

EXPORT_SGEMM(run)
