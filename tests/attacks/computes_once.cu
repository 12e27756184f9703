// computes_once: does nothing any more once it has been checked.
// Class: skip.
// Caught by: values.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return under_timing(g) ? cudaSuccess : honest(g, stream); }

EXPORT_SGEMM(run)
