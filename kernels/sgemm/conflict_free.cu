// conflict_free: the tiles of `vectorized`, laid out so that no access to shared memory meets a bank conflict.
//
// Shared memory has 32 banks of 4 bytes, and serves a 16-byte access for 8 threads at a time. Two accesses of
// `vectorized` take two turns or more:
// - The load of B. Neighbouring threads read TN floats apart. With TN = 8 the vectors of 8 threads lie in every second
//   vector of 256 bytes: in half of the banks, two in each.
// - The transposed store of A. With BK = 8 a warp stores 16 rows at p and 16 rows at p + 4 (at p + 1 in the variant of
//   4 bytes). 4 * BM is a multiple of 32, so both halves meet in the same 16 banks. With BK = 16 a warp stores 8 rows
//   at each of four p, and four elements meet in a bank.
//
// Against `vectorized` only the places of the elements change, in at_A and at_B:
// - LAYOUT = 1 reorders the rows of the tiles. Of B, the first vectors of all threads come before the second ones, with
//   a gap between them. Of A, half of the rows that a warp stores trade places with the 16 rows beside them.
// - LAYOUT = 2 keeps the order and spends gaps. Of A, 128 / BK floats lie between what neighbouring threads store, so
//   that the rows of a warp's store fill the 32 banks. Of B, one vector is left free after every 32 columns.
//
// Limit: the cycles of shared memory. Each load and each store takes as few turns as its bytes allow. Loads,
// instructions and intensity stay what they were.
//
// Cost: the gaps take a little shared memory.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build          | tile           | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | -------------- | -------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before         | 128 x 128 x 16 | 16 x 4 | 256     | 127       | 16.0 | 2      | 16 of 64 | 32     | 0.0781   | 82.4 % |
// | LAYOUT=1, 1024 | 64 x 128 x 16  | 8 x 4  | 256     | 90        | 12.0 | 2      | 16 of 64 | 21.33  | 0.0938   | 76.8 % |
// | LAYOUT=1, 4096 | 128 x 128 x 16 | 8 x 8  | 256     | 127       | 17.0 | 2      | 16 of 64 | 32     | 0.0625   | 84.3 % |
// | LAYOUT=2, 1024 | 64 x 128 x 16  | 8 x 4  | 256     | 88        | 14.5 | 2      | 16 of 64 | 21.33  | 0.0938   | 77.7 % |
// | LAYOUT=2, 4096 | 128 x 128 x 16 | 8 x 8  | 256     | 127       | 18.5 | 2      | 16 of 64 | 32     | 0.0625   | 84.6 % |
#include "gemm.cuh"
#include "vector.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif
#ifndef LAYOUT
#define LAYOUT 2
#endif

constexpr int THREADS = (BM / TM) * (BN / TN);
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(BM % TM == 0 && BN % TN == 0, "the thread tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(THREADS * 4 % BK == 0 && BK % 4 == 0 && BM % (THREADS * 4 / BK) == 0, "whole rows of A's tile in a pass");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass");
static_assert(BN % 128 == 0, "a warp stores to one row of B's tile, for two would share banks");

#if LAYOUT == 1
constexpr int GAP_B = 128 / TN;
constexpr int PITCH_A = BM;
constexpr int PITCH_B = BN + (TN / 4 - 1) * GAP_B;
static_assert(BM % 32 == 0 && BN / TN % 8 == 0 && TN <= 32 && BN / 4 % TN == 0,
              "the reordering must keep vectors whole");
// Where row p of the tile keeps the element of A's row `row`. Of the BK / 4 threads that share a row of A, each moves its
// elements by 128 / BK rows more than the one before, so that the rows of a warp's store fill the 32 banks.
template <int STEP_A>
__device__ inline int at_A(int p, int row) {
  int thread = STEP_A == 1 ? p / 4 : p % STEP_A;
  return row ^ (thread * (128 / BK) % 32);
}
// Where a row of the tile keeps the element of B's column `col`: the vectors number 0 of all threads, then number 1, ...
// The gap before each spreads the stores, which go through the numbers of a thread before the next thread.
__device__ inline int at_B(int col) {
  int number = col % TN / 4;
  return number * (BN / TN * 4 + GAP_B) + col / TN * 4 + col % 4;
}
#elif LAYOUT == 2
constexpr int GAP_A = 128 / BK;
constexpr int PITCH_A = BM + 32 - GAP_A;
constexpr int PITCH_B = BN + BN / 32 * 4;
static_assert(BM % 32 == 0, "the gaps alone must tell steps of p apart");
// Where row p of the tile keeps the element of A's row `row`. By the pitch alone neighbouring p lie GAP_A banks apart, and
// those that 4 steps of p separate, as neighbouring threads with vectors are, in one: so these are moved.
template <int STEP_A>
__device__ inline int at_A(int p, int row) {
  return STEP_A == 1 ? row + p / 4 * GAP_A : row;
}
__device__ inline int at_B(int col) { return col + col / 32 * 4; }
#else
#error "LAYOUT is 1 (reordered) or 2 (padded)"
#endif
static_assert((PITCH_A + PITCH_B) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 2) sgemm_conflict_free(Gemm g) {
  __shared__ __align__(16) float tile_A[BK][PITCH_A];  // transposed
  __shared__ __align__(16) float tile_B[BK][PITCH_B];
  Tile tile = whole_tile(g, tile_of_block(g, BM, BN), BM, BN, WIDTH);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int row = tid / (BN / TN) * TM;
  int col = tid % (BN / TN) * TN;

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
  for (int k_left = g.k; k_left > 0; k_left -= BK) {
    alignas(16) float ldg_A[BM / ROWS_A][4];
    alignas(16) float ldg_B[BK / ROWS_B][4];
    bool whole = rows_left >= BM && cols_left >= BN && k_left >= BK;
    load_tile<ROWS_A, WIDTH, STEP_A>(ldg_A, A, g.lda, whole, rows_left - row_A, k_left - p_A);
    load_tile<ROWS_B, WIDTH, STEP_B>(ldg_B, B, g.ldb, whole, k_left - p_B, cols_left - col_B);
    A += BK;
    B += BK * g.ldb;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        tile_A[p_A + v * STEP_A][at_A<STEP_A>(p_A + v * STEP_A, row_A + i * ROWS_A)] = ldg_A[i][v];
      }
    }
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        copy_vector<WIDTH>(&tile_B[p_B + i * ROWS_B][at_B(col_B) + at_B(v * STEP_B)], &ldg_B[i][v]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      alignas(16) float frag_A[TM];
      alignas(16) float frag_B[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        copy_vector<4>(&frag_A[i], &tile_A[p][at_A<STEP_A>(p, row) + i]);
      }
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        copy_vector<4>(&frag_B[j], &tile_B[p][at_B(col + j)]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += frag_A[i] * frag_B[j];
        }
      }
    }
  }

  // A tile that began earlier stores only what is this block's own.
  int own_row = ceil_div(tile.row, BM) * BM;
  int own_col = ceil_div(tile.col, BN) * BN;
  int width_C = vector_width(g.C + tile.col, g.ldc);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    int r = tile.row + row + i;
    if (own_row <= r && r < g.m) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        int c = tile.col + col + j;
        store_vector(g, r, c, &sum[i][j], own_col - c, g.n - c, width_C);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool vectors = vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4;
  auto kernel = vectors ? sgemm_conflict_free<4> : sgemm_conflict_free<1>;
  return launch(kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
