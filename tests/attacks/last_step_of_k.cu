// last_step_of_k: leaves out the last of all steps of k in timed launches, one product of 1024.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  Gemm shorter = g;
  shorter.k -= 1;
  return honest(under_timing(g) ? shorter : g, stream);
}

EXPORT_SGEMM(run)
