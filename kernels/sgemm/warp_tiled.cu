// warp_tiled: each warp has a tile of its own, between the block's tile and the thread's.
//
// Against `conflict_free` the 32 threads of a warp cover WM x WN results that are nearer to a square. A warp needs WM +
// WN different elements in a step of p: 32 + 64 where WM = 32 and WN = 64, instead of the 16 + 128 of a warp whose
// threads stand 16 in a row. The vectors of a thread lie WM / (TM / 4) rows or WN / (TN / 4) columns apart, so that
// neighbouring threads read neighbouring vectors. That alone keeps the loads of B free of conflicts, without at_B and
// its gaps.
//
// Limit: shared memory, which brings fewer bytes to a warp. Its cycles do not fall with the bytes, because a 16-byte
// load of a warp takes two of them at least. So the gain is small.
//
// Cost: a warp's transposed stores of A meet in banks again, two to a bank with BK = 16. A pitch of BM + 4 floats keeps
// it at that; with a pitch of BM it would be four.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile           | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | -------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 128 x 128 x 16 | 8 x 8  | 256     | 127       | 18.5 | 2      | 16 of 64 | 32     | 0.0625   | 84.6 % |
// | 1024   | 64 x 128 x 16  | 8 x 4  | 256     | 95        | 12.2 | 2      | 16 of 64 | 21.33  | 0.0938   | 77.8 % |
// | 4096   | 64 x 128 x 16  | 8 x 8  | 128     | 127       | 12.2 | 4      | 16 of 64 | 21.33  | 0.0625   | 82.2 % |
#include "gemm.cuh"
#include "vector.cuh"

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
static_assert((PITCH_A + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 2) sgemm_warp_tiled(Gemm g) {
  __shared__ __align__(16) float tile_A[BK][PITCH_A];  // transposed
  __shared__ __align__(16) float tile_B[BK][BN];
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
        tile_A[p_A + v * STEP_A][row_A + i * ROWS_A] = ldg_A[i][v];
      }
    }
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        copy_vector<WIDTH>(&tile_B[p_B + i * ROWS_B][col_B + v * STEP_B], &ldg_B[i][v]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      alignas(16) float frag_A[TM];
      alignas(16) float frag_B[TN];
      load_fragment(frag_A, &tile_A[p][row], STEP_M);
      load_fragment(frag_B, &tile_B[p][col], STEP_N);
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
    int r = tile.row + row + i / 4 * STEP_M + i % 4;
    if (own_row <= r && r < g.m) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        int c = tile.col + col + j / 4 * STEP_N;
        store_vector(g, r, c, &sum[i][j], own_col - c, g.n - c, width_C);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool vectors = vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4;
  auto kernel = vectors ? sgemm_warp_tiled<4> : sgemm_warp_tiled<1>;
  return launch(kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
