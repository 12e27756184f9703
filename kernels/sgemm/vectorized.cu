// vectorized: 16-byte accesses to global and shared memory, A transposed on its way into shared memory.
//
// Against `tiled_2d`: a thread copies 4 neighbouring elements with one load and one store. Where 8 steps of p took 8
// loads and 8 stores, each with its address and its bounds check, they take 2 loads and 5 stores. Nor are there checks:
// a tile that would end outside C begins earlier, and what it computes a second time it does not store; only the last
// steps of k are looked at, and matrices smaller than a tile. A's tile is stored transposed, so that the TM elements
// that a thread needs in a step of p lie side by side: two 16-byte loads fetch them, and no register holds elements of
// later steps. Where a pointer or a leading dimension of A or B forbids 16 bytes, the kernel's 4-byte variant copies
// both element by element.
//
// Limit: issue slots. In a step of p 4 shared loads stand beside 64 FMAs; what the copies need, 2 barriers included, is
// some 60 instructions for the 512 FMAs of a tile. That is 85 % FMAs instead of 81 %. What is left are bank conflicts:
// with them the loads of a step take 20 cycles of shared memory, beside FMAs that take an SM 16 (`conflict_free`).
//
// Occupancy: at most 128 registers a thread, two blocks of 256 threads, 16 of an SM's 64 warps; 8 KiB of shared memory.
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
