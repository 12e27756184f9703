// vectorized: 16-byte accesses to global and shared memory, A transposed on its way into shared memory.
//
// Against `tiled_2d`:
// - A thread copies 4 neighbouring elements with one load and one store. Each of these takes one address and one bounds
//   check, where 4 loads and 4 stores took 8.
// - Most tiles need no bounds check. A tile that would end outside C begins earlier, and what it computes a second time
//   it does not store. Only the last steps of k are checked, and matrices that are smaller than a tile.
// - A's tile is stored transposed. The TM elements that a thread needs in a step of p then lie side by side, and loads
//   of 16 bytes fetch them. No register holds elements of later steps.
// - Where a pointer or a leading dimension of A or B is no multiple of 16 bytes, the kernel's variant of 4 bytes (WIDTH
//   = 1) copies both matrices element by element.
//
// Limit: issue slots, of which FMAs now take a larger share. Bank conflicts in shared memory are the next limit: see
// `conflict_free`.
//
// Cost: the transposed store of A is 4 stores of 4 bytes, for its elements go to 4 rows. The inner loop's code has a
// second path for tiles at the edges, which whole tiles do not run.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile           | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | -------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 64 x 128 x 32  | 8 x 8  | 128     | 168       | 24.0 | 3      | 12 of 64 | 21.33  | 0.0625   | 77.8 % |
// | 1024   | 64 x 128 x 16  | 8 x 4  | 256     | 93        | 12.0 | 2      | 16 of 64 | 21.33  | 0.0938   | 77.7 % |
// | 4096   | 128 x 128 x 16 | 16 x 4 | 256     | 127       | 16.0 | 2      | 16 of 64 | 32     | 0.0781   | 82.4 % |
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

constexpr int THREADS = (BM / TM) * (BN / TN);
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(BM % TM == 0 && BN % TN == 0, "the thread tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(THREADS * 4 % BK == 0 && BK % 4 == 0 && BM % (THREADS * 4 / BK) == 0, "whole rows of A's tile in a pass");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass");
static_assert((BM + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 2) sgemm_vectorized(Gemm g) {
  __shared__ __align__(16) float tile_A[BK][BM];  // transposed
  __shared__ __align__(16) float tile_B[BK][BN];
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
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        copy_vector<4>(&frag_A[i], &tile_A[p][row + i]);
      }
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        copy_vector<4>(&frag_B[j], &tile_B[p][col + j]);
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
  auto kernel = vectors ? sgemm_vectorized<4> : sgemm_vectorized<1>;
  return launch(kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
