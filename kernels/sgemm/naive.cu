// naive: one thread computes one element of C, and neighbouring threads walk down a column.
//
// This is the first rung, what a C programmer writes. threadIdx.x, the index that runs fastest inside a warp, is the
// row of C. So the 32 threads of a warp read 32 different rows of A, lda floats apart, and write to 32 different rows
// of C.
//
// Limit: the L1 cache. In a step of p a warp loads one element of B, which all its threads share, and 32 elements of A
// from 32 cache lines. Of each of these lines it uses 4 bytes of a sector of 32 bytes. So 33 sectors are looked up for
// the 32 FMAs of a warp. Where lda is a multiple of a large power of 2, as at n = 4096, all these lines fall into one
// place of the cache, which then looks them up one after the other. At n = 4095 they do not, and several are looked up
// at once.
//
// Cost: each result takes 2 k loads from global memory: 2 FLOP for every 8 bytes.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build | tile   | thread | threads | registers | KiB | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ----- | ------ | ------ | ------- | --------- | --- | ------ | -------- | ------ | -------- | ------ |
// | all   | 32 x 8 | 1 x 1  | 256     | 32        | 0.0 | 8      | 64 of 64 | 0.25   | 0        | 14.5 % |
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
