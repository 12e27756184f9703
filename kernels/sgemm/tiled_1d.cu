// tiled_1d: every thread computes a column of TM results from the tiles in shared memory.
//
// Against `tiled` an element of B that is in a register serves TM results instead of one. In a step of p a thread loads
// 1 element of B and TM elements of A for TM FMAs. As before, the compiler fetches 4 neighbours of a row of A's tile
// with one load. So an FMA takes 1 / TM + 1 / 4 load instructions instead of 1 + 1 / 4. The block's tile also grows,
// and with it the arithmetic intensity.
//
// Limit: the pipe of the loads, as before, but each FMA now gives it less work.
//
// Cost: TM sums take registers, so an SM holds fewer warps. The TM independent sums of a thread stand in for them:
// while one FMA is in the pipe, the thread issues the next.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile         | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | ------------ | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 32 x 32 x 32 | 1 x 1  | 1024    | 32        | 8.0  | 2      | 64 of 64 | 8      | 1.25     | 31.4 % |
// | 1024   | 64 x 64 x 32 | 16 x 1 | 256     | 96        | 16.0 | 2      | 16 of 64 | 16     | 0.312    | 62.2 % |
// | 4096   | 64 x 64 x 16 | 16 x 1 | 256     | 64        | 8.0  | 4      | 32 of 64 | 16     | 0.312    | 60.4 % |
#include "gemm.cuh"

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 16
#endif

constexpr int THREADS = BM / TM * BN;
static_assert(BM % TM == 0 && BN % 32 == 0,
              "columns of TM results must cover the block tile, whole warps beside each other");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(THREADS % BK == 0 && BM % (THREADS / BK) == 0, "the threads must load whole rows of A's tile");
static_assert(THREADS % BN == 0 && BK % (THREADS / BN) == 0, "the threads must load whole rows of B's tile");
static_assert((BM + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

__global__ void __launch_bounds__(THREADS) sgemm_tiled_1d(Gemm g) {
  __shared__ float tile_A[BM][BK];
  __shared__ float tile_B[BK][BN];
  Tile tile = tile_of_block(g, BM, BN);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.y * BN + threadIdx.x;
  int row = threadIdx.y * TM;
  int col = threadIdx.x;

  // The first element that this thread copies of either tile; one row of tiles further on each turn of the loop.
  int row_A = tid / BK;
  int p_A = tid % BK;
  int p_B = tid / BN;
  int col_B = tid % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM] = {};
  for (int k_left = g.k; k_left > 0; k_left -= BK) {
#pragma unroll
    for (int i = 0; i < BM; i += THREADS / BK) {
      tile_A[row_A + i][p_A] = row_A + i < rows_left && p_A < k_left ? A[i * g.lda] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < BK; i += THREADS / BN) {
      tile_B[p_B + i][col_B] = p_B + i < k_left && col_B < cols_left ? B[i * g.ldb] : 0.0f;
    }
    A += BK;
    B += BK * g.ldb;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      float b = tile_B[p][col];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        sum[i] += tile_A[row + i][p] * b;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    if (row + i < rows_left && col < cols_left) {
      store_result(g, tile.row + row + i, tile.col + col, sum[i]);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_tiled_1d, tile_grid(g, BM, BN), dim3(BN, BM / TM), 0, stream, g);
}

EXPORT_SGEMM(run)
