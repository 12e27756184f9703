// conflict_free: the tiles of `vectorized`, laid out so that no access to shared memory meets a bank conflict.
//
// Shared memory has 32 banks of 4 bytes, and serves a 16-byte access for 8 threads at a time. Two accesses of
// `vectorized` pay double:
// - The load of B. Neighbouring threads are TN = 8 floats apart, so 8 of them touch every second vector of 256 bytes:
//   half of the banks, twice each.
// - The transposed store of A. A warp stores 16 rows at p and 16 at p + 4. 4 * BM is a multiple of 32, so both halves
//   meet in the same 16 banks. (The 4-byte variant stores 4 rows at 8 steps of p: the same 4 banks 8 times.)
// LAYOUT = 1 reorders the rows of the tiles and needs no memory. Of B, the first vectors of all threads come before the
// second ones; of A, the halves of 32 rows trade places every 4 steps of p (the 4-byte variant's stores stay 4-way).
// LAYOUT = 2 keeps the order and spends padding: a vector after each row of A, a vector after every 32 columns of B.
// Nothing changes but at_A and at_B.
//
// Limit: shared memory's cycles. The loads of B in a step take half of them; global loads, instructions and intensity
// stay what they were.
//
// Occupancy: as before, two blocks of 256 threads an SM; 8 KiB of shared memory, 8.6 with padding.
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

#if LAYOUT == 1
constexpr int PITCH_A = BM;
constexpr int PITCH_B = BN;
static_assert(BM % 32 == 0 && BN / TN % 8 == 0 && TN <= 32, "the permutations must stay inside a row");
// Where row p of the tile keeps the element of A's row `row`: halves of 16 trade places every 4 steps of p.
__device__ inline int at_A(int p, int row) { return row ^ (p / 4 % 2 * 16); }
// Where a row of the tile keeps the element of B's column `col`: the vectors number 0 of all threads, then number 1,
// ... The permutation by `number` spreads the stores, which go through the numbers of a thread before the next thread.
__device__ inline int at_B(int col) {
  int thread = col / TN;
  int number = col % TN / 4;
  return number * (BN / TN * 4) + ((thread * 4) ^ (number * (128 / TN))) + col % 4;
}
#elif LAYOUT == 2
constexpr int PITCH_A = BM + 4;
constexpr int PITCH_B = BN + BN / 32 * 4;
static_assert(BN % 32 == 0, "padding follows every 32 columns");
__device__ inline int at_A(int, int row) { return row; }
__device__ inline int at_B(int col) { return col + col / 32 * 4; }
#else
#error "LAYOUT is 1 (reordered) or 2 (padded)"
#endif
static_assert((PITCH_A + PITCH_B) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KiB");

template <int WIDTH_A, int WIDTH_B>
__global__ void __launch_bounds__(THREADS, 2) sgemm_conflict_free(Gemm g) {
  __shared__ __align__(16) float tile_A[BK][PITCH_A];  // transposed
  __shared__ __align__(16) float tile_B[BK][PITCH_B];
  Tile tile = tile_of_block(g, BM, BN);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int row = tid / (BN / TN) * TM;
  int col = tid % (BN / TN) * TN;

  // The first vector that this thread copies of either tile, and the rows that all threads copy in one pass.
  constexpr int ROWS_A = THREADS * WIDTH_A / BK;
  constexpr int ROWS_B = THREADS * WIDTH_B / BN;
  int row_A = tid / (BK / WIDTH_A);
  int p_A = tid % (BK / WIDTH_A) * WIDTH_A;
  int p_B = tid / (BN / WIDTH_B);
  int col_B = tid % (BN / WIDTH_B) * WIDTH_B;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM][TN] = {};
  for (int k_left = g.k; k_left > 0; k_left -= BK) {
    alignas(16) float ldg_A[BM / ROWS_A][WIDTH_A];
    alignas(16) float ldg_B[BK / ROWS_B][WIDTH_B];
    if (rows_left >= BM && cols_left >= BN && k_left >= BK) {
#pragma unroll
      for (int i = 0; i < BM / ROWS_A; ++i) {
        copy_vector<WIDTH_A>(ldg_A[i], A + i * ROWS_A * g.lda);
      }
#pragma unroll
      for (int i = 0; i < BK / ROWS_B; ++i) {
        copy_vector<WIDTH_B>(ldg_B[i], B + i * ROWS_B * g.ldb);
      }
    } else {
#pragma unroll
      for (int i = 0; i < BM / ROWS_A; ++i) {
        int left = i * ROWS_A < rows_left - row_A ? k_left - p_A : 0;
        copy_vector<WIDTH_A>(ldg_A[i], A + i * ROWS_A * g.lda, left);
      }
#pragma unroll
      for (int i = 0; i < BK / ROWS_B; ++i) {
        int left = i * ROWS_B < k_left - p_B ? cols_left - col_B : 0;
        copy_vector<WIDTH_B>(ldg_B[i], B + i * ROWS_B * g.ldb, left);
      }
    }
    A += BK;
    B += BK * g.ldb;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < WIDTH_A; ++v) {
        tile_A[p_A + v][at_A(p_A + v, row_A + i * ROWS_A)] = ldg_A[i][v];
      }
    }
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
      copy_vector<WIDTH_B>(&tile_B[p_B + i * ROWS_B][at_B(col_B)], ldg_B[i]);
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      alignas(16) float frag_A[TM];
      alignas(16) float frag_B[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        copy_vector<4>(&frag_A[i], &tile_A[p][at_A(p, row + i)]);
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

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    if (row + i >= rows_left) {
      break;
    }
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      store_vector(g, tile.row + row + i, tile.col + col + j, &sum[i][j], 0, cols_left - col - j, width_C);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool vector_B = vector_width(g.B, g.ldb) == 4;
  auto with_vector_A = vector_B ? sgemm_conflict_free<4, 4> : sgemm_conflict_free<4, 1>;
  auto with_single_A = vector_B ? sgemm_conflict_free<1, 4> : sgemm_conflict_free<1, 1>;
  auto kernel = vector_width(g.A, g.lda) == 4 ? with_vector_A : with_single_A;
  return launch(kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
