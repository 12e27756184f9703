// control_unrolled: no fault. Two tiles of k a step without guards; then a whole tile, if one is left, and the rest.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][2 * TILE];
  __shared__ float tile_B[2 * TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int y = threadIdx.y, x = threadIdx.x, row = tile.row + y, col = tile.col + x;
  const float* A = g.A + min(row, g.m - 1) * g.lda + x;
  const float* B = g.B + y * g.ldb + min(col, g.n - 1);
  float sum = 0.0f;
  auto multiply = [&](int steps) {
    __syncthreads();
    for (int p = 0; p < steps; ++p) {
      sum += tile_A[y][p] * tile_B[p][x];
    }
    __syncthreads();
  };
  int p0 = 0;
  for (; p0 + 2 * TILE <= g.k; p0 += 2 * TILE) {
    tile_A[y][x] = A[p0];
    tile_A[y][x + TILE] = A[p0 + TILE];
    tile_B[y][x] = B[p0 * g.ldb];
    tile_B[y + TILE][x] = B[(p0 + TILE) * g.ldb];
    multiply(2 * TILE);
  }
  if (g.k - p0 >= TILE) {
    tile_A[y][x] = A[p0];
    tile_B[y][x] = B[p0 * g.ldb];
    multiply(TILE);
    p0 += TILE;
  }
  if (p0 < g.k) {
    tile_A[y][x] = p0 + x < g.k ? A[p0] : 0.0f;
    tile_B[y][x] = p0 + y < g.k ? B[p0 * g.ldb] : 0.0f;
    multiply(g.k - p0);
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
