// control_cluster_group: no fault. The four blocks of a cluster share a tile of C: each sums a quarter of its steps of k,
// and the first one adds what it reads in the shared memory of the others.
#include <cooperative_groups.h>

#include "gemm.cuh"

namespace cg = cooperative_groups;

constexpr int TILE = 16, BLOCKS = 4;

__global__ void __launch_bounds__(TILE* TILE) __cluster_dims__(BLOCKS, 1, 1) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  __shared__ float sums[TILE * TILE];
  cg::cluster_group cluster = cg::this_cluster();
  int rank = static_cast<int>(cluster.block_rank());
  Tile tile = tile_number(g, blockIdx.x / BLOCKS, TILE, TILE, 8);
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
  int row = tile.row + ty, col = tile.col + tx;
  float sum = 0.0f;
  for (int64_t p = rank * TILE; p < g.k; p += BLOCKS * TILE) {
    tile_A[ty][tx] = row < g.m && p + tx < g.k ? g.A[row * g.lda + p + tx] : 0.0f;
    tile_B[ty][tx] = p + ty < g.k && col < g.n ? g.B[(p + ty) * g.ldb + col] : 0.0f;
    __syncthreads();
    for (int q = 0; q < TILE; ++q) {
      sum += tile_A[ty][q] * tile_B[q][tx];
    }
    __syncthreads();
  }
  sums[threadIdx.x] = sum;
  cluster.sync();
  if (rank == 0) {
    for (int other = 1; other < BLOCKS; ++other) {
      sum += cluster.map_shared_rank(sums, other)[threadIdx.x];
    }
    if (row < g.m && col < g.n) {
      store_result(g, row, col, sum);
    }
  }
  cluster.sync();
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  dim3 grid = tile_grid(g, TILE, TILE);
  return launch(sgemm_kernel, dim3(grid.x * BLOCKS), dim3(TILE * TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
