// double_buffered: the next tile is on its way while a tile is multiplied, and the next step of p while a step is
// multiplied.
//
// Against `warp_tiled` everything that a thread has to wait for has two buffers:
// - Shared memory holds two tiles. The global loads of the next tile are issued before the FMAs of this tile and land
//   in registers. They are stored to the other buffer before the last step of p. A tile takes one barrier instead of
//   two, because no thread reads the buffer that is written.
// - Registers hold the fragments of two steps of p. The shared loads of step p + 1 are issued before the FMAs of step
//   p, and the first fragments of the next tile before the last FMAs of this one.
// - In a step the FMAs go through the results there and back: even rows from left to right, odd rows from right to
//   left. The last FMA of a row and the first FMA of the next use the same element of B.
// - Loads that are in flight during the FMAs must not branch. So of k the first tile is the short one, and no later
//   tile checks its steps. A thread then copies A and B in vectors only where k and n are multiples of 4. INSIDE =
//   false is the kernel for matrices that are smaller than a tile; it checks rows and columns of every load.
//
// Limit: latency. A warp of `warp_tiled` waits for global memory and at two barriers in every tile; here other FMAs run
// meanwhile. Without the loop's second path for edges, the FMAs take more of the issue slots.
//
// Cost: registers for a tile on its way and for a second pair of fragments, and twice the shared memory.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile          | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | ------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 64 x 128 x 16 | 8 x 8  | 128     | 127       | 12.2 | 4      | 16 of 64 | 21.33  | 0.0625   | 82.2 % |
// | 1024   | 64 x 128 x 16 | 8 x 8  | 128     | 146       | 24.5 | 3      | 12 of 64 | 21.33  | 0.0625   | 89.7 % |
// | 4096   | 128 x 128 x 8 | 8 x 8  | 256     | 127       | 16.2 | 2      | 16 of 64 | 32     | 0.0625   | 88.0 % |
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

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int PITCH_A = BM + 4;        // fewer of the transposed stores of A's vectors share a bank
constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
constexpr int STEP_N = WN / (TN / 4);  // columns between them
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(THREADS * 4 % BK == 0 && BK % 4 == 0 && BM % (THREADS * 4 / BK) == 0, "whole rows of A's tile in a pass");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass");
static_assert(2 * (PITCH_A + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

template <bool INSIDE, int WIDTH>
__global__ void __launch_bounds__(THREADS) sgemm_double_buffered(Gemm g) {
  __shared__ __align__(16) float tile_A[2][BK][PITCH_A];  // transposed
  __shared__ __align__(16) float tile_B[2][BK][BN];
  Tile tile = whole_tile(g, tile_of_block(g, BM, BN), BM, BN, WIDTH);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // What this thread copies of either tile: 4 elements of a row, neighbours if by vector, else STEP apart; and the rows
  // that all threads copy in one pass.
  constexpr int STEP_A = WIDTH == 4 ? 1 : BK / 4;
  constexpr int STEP_B = WIDTH == 4 ? 1 : BN / 4;
  constexpr int ROWS_A = THREADS * 4 / BK;
  constexpr int ROWS_B = THREADS * 4 / BN;
  int row_A = tid / (BK / 4);
  int p_A = tid % (BK / 4) * WIDTH;
  int p_B = tid / (BN / 4);
  int col_B = tid % (BN / 4) * WIDTH;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM][TN] = {};

  // The next tiles from global memory to registers. They have `k_left` steps of k. Zeros stand for the other steps.
  alignas(16) float ldg_A[BM / ROWS_A][4];
  alignas(16) float ldg_B[BK / ROWS_B][4];
  auto load_tiles = [&](bool whole, int k_left) {
    load_tile<ROWS_A, WIDTH, STEP_A>(ldg_A, A, g.lda, whole, rows_left - row_A, k_left - p_A);
    load_tile<ROWS_B, WIDTH, STEP_B>(ldg_B, B, g.ldb, whole, k_left - p_B, cols_left - col_B);
    A += k_left;
    B += k_left * g.ldb;
  };
  // The same tiles from registers to shared memory. One offset in a tile takes fewer registers than two indices.
  auto store_tiles = [&](int stage) {
    float* to_A = tile_A[stage][0] + (p_A * PITCH_A + row_A);
    float* to_B = tile_B[stage][0] + (p_B * BN + col_B);
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        to_A[v * STEP_A * PITCH_A + i * ROWS_A] = ldg_A[i][v];
      }
    }
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        copy_vector<WIDTH>(to_B + i * ROWS_B * BN + v * STEP_B, &ldg_B[i][v]);
      }
    }
  };

  // The first tile is the short one. No FMAs run while it is loaded.
  int tiles = ceil_div(g.k, BK);
  int first = g.k - (tiles - 1) * BK;
  load_tiles(INSIDE && first == BK, first);
  store_tiles(0);
  __syncthreads();

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  load_fragment(frag_A[0], &tile_A[0][0][row], STEP_M);
  load_fragment(frag_B[0], &tile_B[0][0][col], STEP_N);

  int next = 0;
  for (; tiles > 0; --tiles) {
    int now = next;
    next ^= 1;
    if (tiles > 1) {
      load_tiles(INSIDE, BK);
      // Else the compiler would move the loads down to their stores, where little hides them.
      __syncwarp();
    }
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], &tile_A[now][p + 1][row], STEP_M);
        load_fragment(frag_B[(p + 1) % 2], &tile_B[now][p + 1][col], STEP_N);
      } else if (tiles > 1) {
        store_tiles(next);
        __syncthreads();
        load_fragment(frag_A[0], &tile_A[next][0][row], STEP_M);
        load_fragment(frag_B[0], &tile_B[next][0][col], STEP_N);
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
  bool vectors = vector_width(g.A, g.lda) == 4 && g.k % 4 == 0 && vector_width(g.B, g.ldb) == 4 && g.n % 4 == 0;
  auto inner = vectors ? sgemm_double_buffered<true, 4> : sgemm_double_buffered<true, 1>;
  auto kernel = inside ? inner : sgemm_double_buffered<false, 1>;
  return launch(kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
