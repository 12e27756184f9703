// tiled: a block loads TILE x TILE tiles of A and B into shared memory and every thread reads them from there.
//
// Against `coalesced`: each element of A and B is loaded from global memory once for TILE uses instead of once for each,
// so global loads for each result fall from 2 k to 2 k / TILE, and the arithmetic intensity towards L2 grows from 0.25 to
// TILE / 4 FLOP a byte: 8 at TILE = 32.
//
// Limit: the pipe that global and shared loads share, one wavefront a cycle and SM. A step of p took two, and takes 1.5:
// one for B, and for A a 16-byte load, two wavefronts, every 4 steps, since the compiler joins 4 neighbours of a row. With
// the copies that is 10.6 TFLOP/s on an H100 instead of 8.4. The larger gain, 32 times less traffic to L2, is needed only
// by the rungs that follow.
//
// Occupancy: all of an SM's 64 warps. TILE = 8 has 2 warps a block, 16 has 8, 32 has 32: with TILE = 8 that takes 32
// blocks, which not every GPU allows an SM, and a row of B's tile is one sector instead of four.
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
