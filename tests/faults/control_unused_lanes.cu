// control_unused_lanes: no fault. Rows and columns beyond C repeat the last one or stay unwritten, and are not stored.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  int col_read = min(col, g.n - 1);
  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += TILE) {
    int steps = min(TILE, g.k - p0);
    if (row < g.m && threadIdx.x < steps) {
      tile_A[threadIdx.y][threadIdx.x] = g.A[row * g.lda + p0 + threadIdx.x];
    }
    if (threadIdx.y < steps) {
      tile_B[threadIdx.y][threadIdx.x] = g.B[(p0 + threadIdx.y) * g.ldb + col_read];
    }
    __syncthreads();
    for (int p = 0; p < steps; ++p) {
      sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
