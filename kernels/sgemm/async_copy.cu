// async_copy: tiles go from global to shared memory without passing through registers, several of them at a time.
//
// Against `double_buffered`:
// - cp.async (compute capability 8.0 and up) copies 4 or 16 bytes from global to shared memory in the background. It is
//   one instruction where there were a load and a store, and a tile on its way takes no registers.
// - STAGES buffers hold the tiles, in dynamic shared memory, which may exceed 48 KiB. A tile is waited for STAGES - 1
//   tiles after its copies were started, where `double_buffered` waits one tile after its loads.
// - A's elements are copied one by one, 4 bytes each, because that transposes them at no cost. So only B decides
//   between 16 and 4 bytes.
// - Blocks are numbered in groups of GROUP = 16 rows of tiles instead of 8, so that blocks that run together share more
//   of A and B in the L2 cache.
//
// Limit: latency, which STAGES - 1 tiles on their way hide better than one. The transposed stores of A and their bank
// conflicts go: a warp copies 4 rows by 8 steps of p, which are whole sectors of global memory and 32 different banks.
//
// Cost: shared memory for STAGES tiles.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile          | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | ------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 128 x 128 x 8 | 8 x 8  | 256     | 127       | 16.2 | 2      | 16 of 64 | 32     | 0.0625   | 88.0 % |
// | 1024   | 64 x 128 x 16 | 8 x 8  | 128     | 135       | 36.8 | 3      | 12 of 64 | 21.33  | 0.0654   | 89.2 % |
// | 4096   | 64 x 256 x 16 | 8 x 8  | 256     | 126       | 81.0 | 2      | 16 of 64 | 25.6   | 0.0654   | 89.2 % |
#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "store_tile.cuh"
#include "vector.cuh"

#ifndef BM
#define BM 64
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
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 16
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int PITCH_A = BM + 4;        // keeps the transposing copies of A off each other's banks
constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
constexpr int STEP_N = WN / (TN / 4);  // columns between them
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * BK * (PITCH_A + BN);
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK % 8 == 0 && BM % (THREADS / 8) == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

template <bool INSIDE, int WIDTH>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) sgemm_async_copy(Gemm g) {
  auto tile_A = dynamic_shared<float[BK][PITCH_A]>();  // transposed
  auto tile_B = reinterpret_cast<float (*)[BK][BN]>(tile_A + STAGES);
  Tile tile = whole_tile(g, tile_of_block(g, BM, BN, GROUP), BM, BN, WIDTH);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // What this thread copies of either tile: of A every 8th element of a row, of B 4 elements of a row, neighbours if by
  // vector, else STEP apart; and the rows that all threads copy in one pass. A warp copies 4 rows of A by 8 steps of p:
  // whole sectors of global memory, 32 different banks of shared memory.
  constexpr int STEP_A = 8;
  constexpr int STEP_B = WIDTH == 4 ? 1 : BN / 4;
  constexpr int ROWS_A = THREADS / 8;
  constexpr int ROWS_B = THREADS * 4 / BN;
  int row_A = tid / 8;
  int p_A = tid % 8;
  int p_B = tid / (BN / 4);
  int col_B = tid % (BN / 4) * WIDTH;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM][TN] = {};

  // The next tile of A or B from global to shared memory in the background. It has `k_left` steps of k. Zeros stand for
  // the other steps and for what lies outside C. A `whole` tile has all steps and lies inside C.
  auto copy_A = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < BK / 8; ++v) {
        bool exists = whole || (row_A + i * ROWS_A < rows_left && p_A + v * STEP_A < k_left);
        __pipeline_memcpy_async(&tile_A[stage][p_A + v * STEP_A][row_A + i * ROWS_A],
                                A + i * ROWS_A * g.lda + v * STEP_A, 4, exists ? 0 : 4);
      }
    }
    A += k_left;
  };
  auto copy_B = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        bool exists = whole || (p_B + i * ROWS_B < k_left && col_B + v * STEP_B < cols_left);
        __pipeline_memcpy_async(&tile_B[stage][p_B + i * ROWS_B][col_B + v * STEP_B],
                                B + i * ROWS_B * g.ldb + v * STEP_B, 4 * WIDTH, exists ? 0 : 4 * WIDTH);
      }
    }
    B += k_left * g.ldb;
  };

  // The first tile is the short one.
  int tiles = ceil_div(g.k, BK);
  int first = g.k - (tiles - 1) * BK;
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (stage < tiles) {
      copy_A(stage, INSIDE && stage > 0, stage > 0 ? BK : first);
      copy_B(stage, INSIDE && stage > 0, stage > 0 ? BK : first);
    }
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  load_fragment(frag_A[0], &tile_A[0][0][row], STEP_M);
  load_fragment(frag_B[0], &tile_B[0][0][col], STEP_N);

  int next = 0;
  for (; tiles > 0; --tiles) {
    int now = next;
    next = next + 1 < STAGES ? next + 1 : 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], &tile_A[now][p + 1][row], STEP_M);
        load_fragment(frag_B[(p + 1) % 2], &tile_B[now][p + 1][col], STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile STAGES further.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load_fragment(frag_A[0], &tile_A[next][0][row], STEP_M);
        load_fragment(frag_B[0], &tile_B[next][0][col], STEP_N);
        if (tiles > STAGES) {
          copy_A(now, INSIDE, BK);
          copy_B(now, INSIDE, BK);
        }
        __pipeline_commit();
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          int c = i % 2 == 0 ? j : TN - 1 - j;  // there and back: at a row's end the element of B stays where it is
          sum[i][c] += frag_A[p % 2][i] * frag_B[p % 2][c];
        }
      }
    }
  }

  // A tile that began earlier stores only what is this block's own.
  Tile own = {ceil_div(tile.row, BM) * BM, ceil_div(tile.col, BN) * BN};
  store_tile<BM, BN, STEP_M, STEP_N>(g, tile, own, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool inside = g.m >= BM && g.n >= BN;
  bool vectors = vector_width(g.B, g.ldb) == 4 && g.n % 4 == 0;
  auto inner = vectors ? sgemm_async_copy<true, 4> : sgemm_async_copy<true, 1>;
  auto outer = vectors ? sgemm_async_copy<false, 4> : sgemm_async_copy<false, 1>;
  return launch(inside ? inner : outer, tile_grid(g, BM, BN), dim3(THREADS), SHARED_BYTES, stream, g);
}

EXPORT_SGEMM(run)
