// tiled_2d: every thread computes TM x TN results instead of a column of them.
//
// Against `tiled_1d` the TM elements of A that a thread loads in a step of p serve TN columns. TM + TN shared loads
// feed TM * TN FMAs. In `tiled_1d` TM + 1 feed TM. The compiler joins 4 neighbours of a row of either tile into one load
// of 16 bytes.
//
// Limit: the issue slots come closer than the loads. An SM issues 4 instructions a cycle and every FMA takes one of
// these slots. So each load, address, bounds check and barrier beside the FMAs now costs time.
//
// Cost: registers. With TM * TN sums for each thread an SM holds fewer warps.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile          | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | ------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 64 x 64 x 16  | 16 x 1 | 256     | 64        | 8.0  | 4      | 32 of 64 | 16     | 0.312    | 60.4 % |
// | 1024   | 64 x 64 x 32  | 8 x 4  | 128     | 128       | 16.0 | 4      | 16 of 64 | 16     | 0.0938   | 70.8 % |
// | 4096   | 64 x 128 x 32 | 8 x 8  | 128     | 168       | 24.0 | 3      | 12 of 64 | 21.33  | 0.0625   | 77.8 % |
#include "gemm.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif

constexpr int THREADS = (BM / TM) * (BN / TN);
static_assert(BM % TM == 0 && BN % TN == 0, "the thread tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(THREADS % BK == 0 && BM % (THREADS / BK) == 0, "the threads must load whole rows of A's tile");
static_assert(THREADS % BN == 0 && BK % (THREADS / BN) == 0, "the threads must load whole rows of B's tile");
static_assert((BM + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

__global__ void __launch_bounds__(THREADS, 2) sgemm_tiled_2d(Gemm g) {
  __shared__ float tile_A[BM][BK];
  __shared__ float tile_B[BK][BN];
  Tile tile = tile_of_block(g, BM, BN);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.y * (BN / TN) + threadIdx.x;
  int row = threadIdx.y * TM;
  int col = threadIdx.x * TN;

  // The first element that this thread copies of either tile; one row of tiles further on each turn of the loop.
  int row_A = tid / BK;
  int p_A = tid % BK;
  int p_B = tid / BN;
  int col_B = tid % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM][TN] = {};
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
      float frag_A[TM];
      float frag_B[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        frag_A[i] = tile_A[row + i][p];
      }
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        frag_B[j] = tile_B[p][col + j];
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += frag_A[i] * frag_B[j];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    if (row + i >= rows_left) {
      break;
    }
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      if (col + j < cols_left) {
        store_result(g, tile.row + row + i, tile.col + col + j, sum[i][j]);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_tiled_2d, tile_grid(g, BM, BN), dim3(BN / TN, BM / TM), 0, stream, g);
}

EXPORT_SGEMM(run)
