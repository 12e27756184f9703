// alpha_ignored_at_beta_zero: the short way for beta = 0 stores the sum without alpha.
// Caught by: values.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;

  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += TILE) {
    int p_A = p0 + threadIdx.x;
    int p_B = p0 + threadIdx.y;
    float a = row < g.m && p_A < g.k ? g.A[row * g.lda + p_A] : 0.0f;
    float b = p_B < g.k && col < g.n ? g.B[p_B * g.ldb + col] : 0.0f;
    tile_A[threadIdx.y][threadIdx.x] = a;
    tile_B[threadIdx.y][threadIdx.x] = b;
    __syncthreads();  // filled
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
    }
    __syncthreads();  // read
  }
  if (row < g.m && col < g.n) {
    float* c = g.C + row * g.ldc + col;
    *c = g.beta == 0.0f ? sum : g.alpha * sum + g.beta * *c;
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
