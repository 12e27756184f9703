#include <cuda_runtime.h>
#include <cstdio>
#include "gemm.cuh"
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define CUDA_CHECK(call)                                                       \
  do {                                                                         \
    cudaError_t e = (call);                                                    \
    if (e != cudaSuccess) {                                                    \
      fprintf(stderr, "%s: %s\n", cudaGetErrorName(e), cudaGetErrorString(e)); \
      return e;                                                                \
    }                                                                          \
  } while (0)
template <const uint BLOCKSIZE>
__global__ void sgemm_shared(int M, int N, int K, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                             float beta, float* C, int64_t ldc) {
  const uint cRow = blockIdx.x, cCol = blockIdx.y;
  __shared__ float As[BLOCKSIZE * BLOCKSIZE];
  __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];
  const uint threadCol = threadIdx.x % BLOCKSIZE, threadRow = threadIdx.x / BLOCKSIZE;
  int row = cRow * BLOCKSIZE + threadRow, col = cCol * BLOCKSIZE + threadCol;
  float tmp = 0.0;
  for (int bk = 0; bk < K; bk += BLOCKSIZE) {
    As[threadIdx.x] = row < M && bk + threadCol < K ? A[row * lda + bk + threadCol] : 0;
    Bs[threadIdx.x] = col < N && bk + threadRow < K ? B[(bk + threadRow) * ldb + col] : 0;
    __syncthreads();
    for (int i = 0; i < BLOCKSIZE; ++i) tmp += As[threadRow * BLOCKSIZE + i] * Bs[i * BLOCKSIZE + threadCol];
    __syncthreads();
  }
  if (row < M && col < N) C[row * ldc + col] = beta == 0 ? alpha * tmp : alpha * tmp + beta * C[row * ldc + col];
}
cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  dim3 gridDim(CEIL_DIV(g.m, 16), CEIL_DIV(g.n, 16));
  dim3 blockDim(16 * 16);
  CUDA_CHECK(cudaFuncSetAttribute(sgemm_shared<16>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
  sgemm_shared<16>
      <<<gridDim, blockDim, 0, stream>>>(g.m, g.n, g.k, g.alpha, g.A, g.lda, g.B, g.ldb, g.beta, g.C, g.ldc);
  CUDA_CHECK(cudaGetLastError());
  return cudaPeekAtLastError();
}
EXPORT_SGEMM(run)
