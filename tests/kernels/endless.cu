// Endless: one thread reads and writes the same again and again.
#include "gemm.cuh"

__global__ void sgemm_endless(Gemm g) {
  volatile float* c = g.C;
  while (*c == *c || *c != *c) {
    *c = 1;
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_endless, dim3(1), dim3(1), 0, stream, g);
}

EXPORT_SGEMM(run)
