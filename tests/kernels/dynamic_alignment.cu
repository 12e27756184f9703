// Right, if dynamic shared memory lies where it does in a cubin: AT bytes behind a multiple of 1024.
#include "gemm.cuh"

#ifndef ALIGNMENT
#define ALIGNMENT
#endif
#ifndef AT
#define AT 16
#endif

extern "C" __global__ void sgemm_dynamic_alignment(Gemm g) {
  extern __shared__ ALIGNMENT float row_of_A[];
  __shared__ float own[3];
  own[threadIdx.x % 3] = 1.0f;
  int row = blockIdx.x;
  for (int p = threadIdx.x; p < g.k; p += blockDim.x) {
    row_of_A[p] = g.A[row * g.lda + p];
  }
  __syncthreads();
  bool right = reinterpret_cast<uintptr_t>(row_of_A) % 1024 == AT && own[0] == 1.0f;
  for (int col = threadIdx.x; col < g.n; col += blockDim.x) {
    float sum = right ? 0.0f : 1.0e30f;
    for (int p = 0; p < g.k; ++p) {
      sum += row_of_A[p] * g.B[p * g.ldb + col];
    }
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_dynamic_alignment, dim3(g.m), dim3(1), g.k * sizeof(float), stream, g);
}

EXPORT_SGEMM(run)
