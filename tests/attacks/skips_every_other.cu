// skips_every_other: does nothing in every second timed launch.
// Class: skip.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static int turn = 0;
  return under_timing(g) && ++turn % 2 == 0 ? cudaSuccess : honest(g, stream);
}

EXPORT_SGEMM(run)
