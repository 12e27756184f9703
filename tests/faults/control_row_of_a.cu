// control_row_of_a: no fault. A block keeps a row of A in dynamic shared memory, and of a long row a piece at a time.
#include "gemm.cuh"

constexpr int THREADS = 64, PIECE = 1 << 14;  // floats: 64 KiB

__global__ void __launch_bounds__(THREADS) sgemm_kernel(Gemm g, int piece) {
  extern __shared__ float row_of_A[];
  const float* A = g.A + blockIdx.x * g.lda;
  for (int first = 0; first < g.n; first += THREADS) {
    int col = first + threadIdx.x;
    float sum = 0.0f;
    for (int p0 = 0; p0 < g.k; p0 += piece) {
      int steps = min(piece, g.k - p0);
      __syncthreads();
      for (int p = threadIdx.x; p < steps; p += THREADS) {
        row_of_A[p] = A[p0 + p];
      }
      __syncthreads();
      for (int p = 0; p < steps && col < g.n; ++p) {
        sum += row_of_A[p] * g.B[(p0 + p) * g.ldb + col];
      }
    }
    if (col < g.n) {
      store_result(g, blockIdx.x, col, sum);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int piece = std::min(g.k, PIECE);
  return launch(sgemm_kernel, dim3(g.m), dim3(THREADS), piece * sizeof(float), stream, g, piece);
}

EXPORT_SGEMM(run)
