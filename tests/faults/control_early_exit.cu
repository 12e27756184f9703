// control_early_exit: no fault. Warps whose rows are all beyond C leave before the barriers, which do not wait for them.
#include "gemm.cuh"

constexpr int COLS = 32, ROWS = 8, DEEP = 32;

__global__ void __launch_bounds__(COLS* ROWS) sgemm_kernel(Gemm g) {
  __shared__ float tile_B[DEEP][COLS];
  Tile tile = tile_of_block(g, ROWS, COLS);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  if (row >= g.m) {
    return;
  }
  int warps = min(ROWS, g.m - tile.row);  // that are still there

  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += DEEP) {
    for (int p = threadIdx.y; p < DEEP; p += warps) {
      tile_B[p][threadIdx.x] = p0 + p < g.k && col < g.n ? g.B[(p0 + p) * g.ldb + col] : 0.0f;
    }
    __syncthreads();  // filled
    for (int p = 0; p < min(DEEP, g.k - p0); ++p) {
      sum += g.A[row * g.lda + p0 + p] * tile_B[p][threadIdx.x];
    }
    __syncthreads();  // read
  }
  if (col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, ROWS, COLS), dim3(COLS, ROWS), 0, stream, g);
}

EXPORT_SGEMM(run)
