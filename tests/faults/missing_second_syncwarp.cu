// missing_second_syncwarp: lanes overwrite a piece that other lanes perhaps still read.
// Caught by: race.
#include "gemm.cuh"

constexpr int WARPS = 4;

__global__ void __launch_bounds__(WARPS * 32) sgemm_kernel(Gemm g) {
  __shared__ float piece[WARPS][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Tile tile = tile_of_block(g, WARPS, 32);
  int row = tile.row + warp;
  int col = tile.col + lane;
  if (row >= g.m) {
    return;
  }
  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += 32) {
    piece[warp][lane] = p0 + lane < g.k ? g.A[row * g.lda + p0 + lane] : 0.0f;
    __syncwarp();  // filled
    for (int p = 0; p < 32 && p0 + p < g.k && col < g.n; ++p) {
      sum += piece[warp][p] * g.B[(p0 + p) * g.ldb + col];
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
