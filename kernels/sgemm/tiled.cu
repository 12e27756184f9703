// tiled: a block loads TILE x TILE tiles of A and B into shared memory, and every thread reads them from there.
//
// Against `coalesced` an element of A or B is loaded from global memory once for TILE uses, not once for each use.
// Global loads for each result fall from 2 k to 2 k / TILE. Arithmetic intensity grows from 1 / 4 to TILE / 4 FLOP a
// byte.
//
// Limit: the pipe that global and shared loads share. The loads have only moved from global to shared memory, so the
// pipe has nearly as much work as before. It has a little less, because the compiler joins 4 neighbours of a row of A's
// tile into one load of 16 bytes. The larger gain is the traffic to the L2 cache, which falls to 1 / TILE. Only the
// rungs that follow are fast enough to need that.
//
// Cost: 2 tiles of shared memory, and 2 barriers for every TILE steps of p.
//
// With TILE = 8 a block has only 2 warps. Such blocks fill an SM only where it holds 32 of them. A row of an 8 x 8 tile
// is one sector, and a row of a 32 x 32 tile is 4.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build   | tile         | thread | threads | registers | KiB | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------- | ------------ | ------ | ------- | --------- | --- | ------ | -------- | ------ | -------- | ------ |
// | before  | 4 x 64       | 1 x 1  | 256     | 32        | 0.0 | 8      | 64 of 64 | 0.25   | 0        | 14.5 % |
// | TILE=8  | 8 x 8 x 8    | 1 x 1  | 64      | 32        | 0.5 | 32     | 64 of 64 | 2      | 1.25     | 22.5 % |
// | TILE=16 | 16 x 16 x 16 | 1 x 1  | 256     | 32        | 2.0 | 8      | 64 of 64 | 4      | 1.25     | 27.6 % |
// | TILE=32 | 32 x 32 x 32 | 1 x 1  | 1024    | 32        | 8.0 | 2      | 64 of 64 | 8      | 1.25     | 31.4 % |
#include "gemm.cuh"

#ifndef TILE
#define TILE 32
#endif

__global__ void __launch_bounds__(TILE* TILE) sgemm_tiled(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  Tile tile = tile_of_block(g, TILE, TILE);
  int tx = threadIdx.x;
  int ty = threadIdx.y;
  int row = tile.row + ty;
  int col = tile.col + tx;
  const float* A = g.A + row * g.lda + tx;
  const float* B = g.B + ty * g.ldb + col;

  float sum = 0.0f;
  for (int k_left = g.k; k_left > 0; k_left -= TILE) {
    tile_A[ty][tx] = row < g.m && tx < k_left ? *A : 0.0f;
    tile_B[ty][tx] = ty < k_left && col < g.n ? *B : 0.0f;
    A += TILE;
    B += TILE * g.ldb;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[ty][p] * tile_B[p][tx];
    }
    __syncthreads();
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_tiled, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
