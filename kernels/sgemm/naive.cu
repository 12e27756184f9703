// naive: one thread computes one element of C, and neighbouring threads walk down a column.
//
// The first rung: what a C programmer writes. threadIdx.x, the index that runs fastest inside a warp, is the row. So the
// 32 threads of a warp read 32 different rows of A, lda floats apart, and write 32 different rows of C.
//
// Limit: lookups in the L1 cache. For each step of p a warp asks for 32 sectors of 32 bytes of A, in 32 lines, and uses 4
// bytes of each, next to one sector for the element of B that all of them share: 33 sectors for 32 FMAs. Looked up one by
// one, they take 33 cycles, which is 0.51 TFLOP/s on an H100. So it is at n = 4096, where the lines of all rows fall in
// one place of the cache. At 4095 they do not, several are looked up at once, and the kernel is three times as fast.
// A result takes 2 k loads, and the arithmetic intensity is 2 FLOP for 8 bytes loaded.
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
