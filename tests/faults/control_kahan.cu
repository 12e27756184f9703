// control_kahan: no fault. What an addition loses is added with the next term, as long as the sum is finite.
#include <cfloat>

#include "gemm.cuh"

constexpr int ROWS = 4, COLS = 32;

__global__ void __launch_bounds__(ROWS* COLS) sgemm_kernel(Gemm g) {
  Tile tile = tile_of_block(g, ROWS, COLS);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  if (row >= g.m || col >= g.n) {
    return;
  }
  const float* A = g.A + row * g.lda;
  const float* B = g.B + col;
  float sum = 0.0f, lost = 0.0f;
  for (int p = 0; p < g.k; ++p, B += g.ldb) {
    float term = fmaf(A[p], *B, -lost);
    float total = sum + term;
    lost = fabsf(total) <= FLT_MAX ? (total - sum) - term : 0.0f;
    sum = total;
  }
  store_result(g, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, ROWS, COLS), dim3(COLS, ROWS), 0, stream, g);
}

EXPORT_SGEMM(run)
