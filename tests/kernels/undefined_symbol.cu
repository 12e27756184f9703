// Compiles to a library that cannot be loaded: a host function is declared and nowhere defined.
#include "gemm.cuh"

cudaError_t defined_nowhere();

cudaError_t run(const Gemm&, void*, cudaStream_t) { return defined_nowhere(); }

EXPORT_SGEMM(run)
