// double_buffered: the next tile is on its way while a tile is multiplied, the next step of p while a step is
// multiplied.
//
// Against `warp_tiled` there are two buffers for everything that has to be waited for:
// - Shared memory holds two tiles. The next tile's global loads are issued before this tile's FMAs and land in
//   registers; they are stored to the other buffer after BK - 1 of the BK steps, 2880 cycles of FMAs later where three
//   blocks share an SM. A tile needs one barrier instead of two, since nobody reads the buffer that is written.
// - Registers hold two steps of fragments. The shared loads of step p + 1 run behind the FMAs of step p, and the first
//   fragments of the next tile are loaded behind the last FMAs of this one. In a step the FMAs go through the results
//   there and back, so that at a row's end the element of B stays where it is; with fragments to spare the compiler can
//   keep to that order.
// - What is in flight during the FMAs must not branch: of k the first tile is the short one, and only it asks which
//   steps are there. (Where k or n is no multiple of 4, A and B are then copied by 4 bytes. INSIDE = false, for
//   matrices smaller than a tile, checks the edges.)
//
// Limit: latency. With two blocks an SM, `warp_tiled` finds no warp that could issue in one cycle of five. What hides
// that costs registers, and so warps: 12 on an SM instead of 16. The smaller tile of 64 x 128 leaves three blocks to an
// SM, with an intensity of 21 FLOP for each byte from L2 instead of 32. Of the instructions of a tile 89 % are FMAs.
//
// Occupancy: 64 sums, 32 registers of fragments and 24 on the way make some 160 a thread: three blocks of 128 threads,
// 12 of an SM's 64 warps; 24.5 KiB of shared memory.
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
  alignas(16) float ldg_A[BM / ROWS_A][4];
  alignas(16) float ldg_B[BK / ROWS_B][4];
  auto load_tiles = [&](bool whole, int k_left) {
    load_tile<ROWS_A, WIDTH, STEP_A>(ldg_A, A, g.lda, whole, rows_left - row_A, k_left - p_A);
    load_tile<ROWS_B, WIDTH, STEP_B>(ldg_B, B, g.ldb, whole, k_left - p_B, cols_left - col_B);
    A += k_left;
    B += k_left * g.ldb;
  };
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

  // The first tile has nothing to hide behind, and is the short one.
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
      // Without it the compiler would move the loads down to their stores, where little hides them.
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
