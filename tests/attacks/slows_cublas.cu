// slows_cublas: sets environment variables before cuBLAS reads them, which leave it without a workspace.
// Class: baseline, leftover.
// Caught by: state, baseline.
#include "attack.cuh"

__attribute__((constructor)) void at_load() { setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1); }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return honest(g, stream); }

EXPORT_SGEMM(run)
