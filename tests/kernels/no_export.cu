// Compiles to a library without the contract's function: EXPORT_SGEMM is missing.
#include "gemm.cuh"

__global__ void sgemm_no_export(Gemm) {}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_no_export, dim3(1), dim3(32), 0, stream, g);
}
