// control_half_warps: no fault. The halves of a warp take different branches,
// and shuffle with their own masks.
#include "gemm.cuh"

constexpr int WARPS = 4;

// The upper half of a warp computes row 0 of its two, the lower half row 1; 16
// columns each.
__global__ void __launch_bounds__(WARPS * 32) sgemm_kernel(Gemm g) {
  Tile tile = tile_of_block(g, 2 * WARPS, 16);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = lane / 16, own = lane % 16;
  int row = tile.row + 2 * warp + half, col = tile.col + own;
  unsigned mask = 0xFFFFu << (16 * half);
  float sum = 0.0f;
  if (row < g.m) {
    for (int p0 = 0; p0 < g.k; p0 += 16) {
      float a = p0 + own < g.k ? g.A[row * g.lda + p0 + own] : 0.0f;
      for (int p = 0; p < min(16, g.k - p0); ++p) {
        float of_row = __shfl_sync(mask, a, p, 16);
        if (col < g.n) {
          sum += of_row * g.B[(p0 + p) * g.ldb + col];
        }
      }
      __syncwarp(mask);
    }
    if (col < g.n) {
      store_result(g, row, col, sum);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, 2 * WARPS, 16), dim3(WARPS * 32), 0, stream, g);
}

EXPORT_SGEMM(run)
