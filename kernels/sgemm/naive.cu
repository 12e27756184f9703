// naive: one thread computes one element of C, and neighbouring threads walk down a column.
//
// The first rung: what a C programmer writes. threadIdx.x, the index that runs fastest inside a warp, is the row. So the
// 32 threads of a warp read 32 different rows of A, lda floats apart, and write 32 different rows of C.
//
// Limit: the number of memory sectors. For each step of p a warp asks for 32 sectors of 32 bytes of A and uses 4 bytes
// of each, next to one sector for the single element of B that all of them share: 33 sectors for 32 FMAs. The L1 cache
// holds a sector for the next 7 steps only if the 32 rows stay in it. A result takes 2 k loads, and the arithmetic
// intensity is 2 FLOP for 8 bytes loaded.
//
// Occupancy: 32 registers a thread and blocks of 256 threads fill an SM: 64 of its 64 warps.
#include "gemm.cuh"

#ifndef BM
#define BM 32
#endif
#ifndef BN
#define BN 8
#endif

static_assert(BM * BN <= 1024, "a block has at most 1024 threads");

__global__ void __launch_bounds__(BM* BN) sgemm_naive(Gemm g) {
  Tile tile = tile_of_block(g, BM, BN);
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
  return launch(sgemm_naive, tile_grid(g, BM, BN), dim3(BM, BN), 0, stream, g);
}

EXPORT_SGEMM(run)
