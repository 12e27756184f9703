// async_copy: tiles go from global to shared memory without passing through registers, several of them at a time.
//
// Against `double_buffered`: cp.async (compute capability 8.0 and up) copies 4 or 16 bytes from global to shared memory
// in the background. One instruction stands where there were a load and a store; a tile on its way needs no registers,
// and is waited for only STAGES - 1 tiles later. A's elements are copied one by one, which transposes them at no cost.
// - STAGES buffers in dynamic shared memory.
// - 12 copies a thread and tile (24 where B allows only 4 bytes) stand beside 1024 FMAs, instead of 6 loads and 12
//   stores.
// - Blocks are numbered in groups of GROUP rows of tiles. The 396 blocks that run together on an H100 then cover 16 x
//   25 tiles: 1024 rows of A and 3200 columns of B, instead of 512 and 6400 in groups of 8.
//
// Limit: latency, which three tiles on their way hide better than one, and the transposed stores with their bank
// conflicts. Issue slots stay 89 % FMAs: the 4 shared loads of a step take 6 % of them, the copies with their addresses
// 5 %. Loads for each result and intensity stay too: k / 64 + k / 128 floats from global memory, 21 FLOP for each of
// their bytes.
//
// Occupancy: some 140 registers a thread (64 sums, 32 of fragments), three blocks of 128 threads, 12 of an SM's 64
// warps; 36.8 KiB of shared memory for 3 stages.
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
constexpr int TILE_A = BK * PITCH_A;   // floats of a stage that hold A's tile, transposed; B's tile follows
constexpr int STAGE = TILE_A + BK * BN;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * STAGE;
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK % 8 == 0 && BM % (THREADS / 8) == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass of vectors");
static_assert(BN % THREADS == 0 || THREADS % BN == 0, "whole rows of B's tile in a pass of single floats");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

// Global to shared memory in the background: every ROWS-th row of A's tile, every 8th step of p. Zeros stand for rows from
// `rows_left` on (not looked at where INSIDE) and for steps before `p_first`; both count from this thread's first element.
template <bool INSIDE>
__device__ inline void copy_tile_A(float* to, const float* from, int64_t ld, int rows_left, int p_first) {
  constexpr int ROWS = THREADS / 8;
#pragma unroll
  for (int i = 0; i < BM; i += ROWS) {
#pragma unroll
    for (int p = 0; p < BK; p += 8) {
      bool there = (INSIDE || i < rows_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + p, 4, there ? 0 : 4);
    }
  }
}

// The same for B's tile, WIDTH floats at a time.
template <bool INSIDE, int WIDTH>
__device__ inline void copy_tile_B(float* to, const float* from, int64_t ld, int cols_left, int p_first) {
  constexpr int COLS = THREADS * WIDTH < BN ? THREADS * WIDTH : BN;
  constexpr int ROWS = THREADS * WIDTH / COLS;
#pragma unroll
  for (int p = 0; p < BK; p += ROWS) {
#pragma unroll
    for (int c = 0; c < BN; c += COLS) {
      bool there = (INSIDE || c < cols_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * BN + c, from + p * ld + c, 4 * WIDTH, there ? 0 : 4 * WIDTH);
    }
  }
}

// How many floats of B a copy takes.
__host__ __device__ inline int width_of_B(const Gemm& g) { return g.n % 4 == 0 ? vector_width(g.B, g.ldb) : 1; }

// INSIDE: neither C's rows nor its columns are fewer than a tile's, and copies of B take WIDTH_B floats; else that is
// asked at run time.
template <bool INSIDE, int WIDTH_B = 0>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) sgemm_async_copy(Gemm g) {
  float* shared = dynamic_shared<float>();
  Tile own = tile_of_block(g, BM, BN, GROUP);  // what this block stores
  Tile tile = own;                             // what it computes
  if (INSIDE) {
    tile.row = min(tile.row, g.m - BM);
    tile.col = min(tile.col, g.n - BN);
  }
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // The first elements that this thread copies. A warp copies 4 rows of A by 8 steps of p: whole sectors of global
  // memory, 32 different banks of shared memory. The first tile begins `missing` steps before the matrices do.
  int tiles = ceil_div(g.k, BK);
  int missing = tiles * BK - g.k;
  int row_A = tid / 8;
  int p_A = tid % 8;
  int width_B = INSIDE ? WIDTH_B : width_of_B(g);
  int p_B = tid * width_B / BN;
  int col_B = tid * width_B % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_A - missing);
  const float* B = g.B + (p_B - missing) * g.ldb + tile.col + col_B;
  float* to_A = shared + p_A * PITCH_A + row_A;
  float* to_B = shared + TILE_A + p_B * BN + col_B;
  int rows_left = g.m - tile.row - row_A;
  int cols_left = g.n - tile.col - col_B;

  auto copy_B = [&](float* to, int p_first) {
    if (width_B == 4) {
      copy_tile_B<INSIDE, 4>(to, B, g.ldb, cols_left, p_first);
    } else {
      copy_tile_B<INSIDE, 1>(to, B, g.ldb, cols_left, p_first);
    }
  };

#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (stage < tiles) {
      int p_first = stage == 0 ? missing : 0;
      copy_tile_A<INSIDE>(to_A + stage * STAGE, A, g.lda, rows_left, p_first - p_A);
      copy_B(to_B + stage * STAGE, p_first - p_B);
      A += BK;
      B += BK * g.ldb;
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();
  load_fragment(frag_A[0], shared + row, STEP_M);
  load_fragment(frag_B[0], shared + TILE_A + col, STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    int at = stage * STAGE;
    float* now = shared + at;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * PITCH_A + row, STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col, STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile STAGES further.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load_fragment(frag_A[0], shared + stage * STAGE + row, STEP_M);
        load_fragment(frag_B[0], shared + stage * STAGE + TILE_A + col, STEP_N);
        if (tiles > STAGES) {
          copy_tile_A<INSIDE>(to_A + at, A, g.lda, rows_left, -BK);
          copy_B(to_B + at, -BK);
          A += BK;
          B += BK * g.ldb;
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

  store_tile<BM, BN, STEP_M, STEP_N>(g, tile, own, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool inside = g.m >= BM && g.n >= BN;
  auto inner = width_of_B(g) == 4 ? sgemm_async_copy<true, 4> : sgemm_async_copy<true, 1>;
  auto outer = sgemm_async_copy<false>;
  return launch(inside ? inner : outer, tile_grid(g, BM, BN), dim3(THREADS), SHARED_BYTES, stream, g);
}

EXPORT_SGEMM(run)
