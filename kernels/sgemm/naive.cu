// naive: one thread computes one element of C, and neighbouring threads walk down a column.
//
// The first rung: what a C programmer writes. threadIdx.x, the index that runs fastest inside a warp, is the row. So the
// 32 threads of a warp read 32 different rows of A, lda floats apart, and write 32 different rows of C.
//
// Limit: the number of memory sectors. For each step of p a warp asks for 32 sectors of 32 bytes of A and uses 4 bytes
// of each, next to one sector for the single element of B that all of them share: 33 sectors for 32 FMAs. The L1 cache
// holds a sector for the next 7 steps only if the 32 rows stay in it. Arithmetic intensity: 2 FLOP for 8 bytes loaded.
#include "gemm.cuh"

constexpr int BLOCK = 32;

__global__ void sgemm_naive(Gemm g) {
  Tile tile = tile_of_block(g, BLOCK, BLOCK);
  int row = tile.row + threadIdx.x;
  int col = tile.col + threadIdx.y;
  if (row >= g.m || col >= g.n) {
    return;
  }
  float sum = 0.0f;
  for (int p = 0; p < g.k; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  store_result(g, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_naive, tile_grid(g, BLOCK, BLOCK), dim3(BLOCK, BLOCK), 0, stream, g);
}

EXPORT_SGEMM(run)
