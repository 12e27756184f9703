// shuffle_by_some_lanes: only the lanes inside n shuffle, but the mask names them all.
// Caught by: warp.
#include "gemm.cuh"

constexpr int WARPS = 4;

__global__ void __launch_bounds__(WARPS * 32) sgemm_kernel(Gemm g) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Tile tile = tile_of_block(g, WARPS, 32);
  int row = tile.row + warp;
  int col = tile.col + lane;
  if (row >= g.m) {
    return;
  }
  unsigned mask = 0xFFFFFFFF;
  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += 32) {
    float a = p0 + lane < g.k ? g.A[row * g.lda + p0 + lane] : 0.0f;
    for (int p = 0; p < 32 && p0 + p < g.k; ++p) {
      if (col < g.n) {
        sum += __shfl_sync(mask, a, p) * g.B[(p0 + p) * g.ldb + col];
      }
    }
  }
  if (col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, WARPS, 32), dim3(WARPS * 32), 0, stream, g);
}

EXPORT_SGEMM(run)
