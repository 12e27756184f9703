// coalesced: one thread computes one element of C, and neighbouring threads walk along a row.
//
// Against `naive` threadIdx.x and threadIdx.y change their roles: threadIdx.x, the fastest index, is now the column.
// The 32 threads of a warp read the same element of A: one sector, which reaches all of them. They read 32 neighbouring
// elements of B: 4 sectors of one cache line, of which they use every byte. They write 32 neighbouring elements of C.
//
// Limit: the L1 cache looks up 2 lines for the 32 FMAs of a warp instead of 33. The load instructions are the next
// limit, because 2 of them stand beside each FMA.
//
// Cost: nothing. A result still takes 2 k loads from global memory.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile   | thread | threads | registers | KiB | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | ------ | ------ | ------- | --------- | --- | ------ | -------- | ------ | -------- | ------ |
// | before | 32 x 8 | 1 x 1  | 256     | 32        | 0.0 | 8      | 64 of 64 | 0.25   | 0        | 14.5 % |
// | 1024   | 4 x 32 | 1 x 1  | 128     | 32        | 0.0 | 16     | 64 of 64 | 0.25   | 0        | 14.5 % |
// | 4096   | 4 x 64 | 1 x 1  | 256     | 32        | 0.0 | 8      | 64 of 64 | 0.25   | 0        | 14.5 % |
#include "gemm.cuh"

#ifndef BM
#define BM 8
#endif
#ifndef BN
#define BN 32
#endif

static_assert(BM * BN <= 1024, "a block has at most 1024 threads");

__global__ void __launch_bounds__(BM* BN) sgemm_coalesced(Gemm g) {
  Tile tile = tile_of_block(g, BM, BN);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
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
  return launch(sgemm_coalesced, tile_grid(g, BM, BN), dim3(BN, BM), 0, stream, g);
}

EXPORT_SGEMM(run)
