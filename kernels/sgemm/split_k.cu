// split_k: where C has too few tiles for the GPU, several blocks share a tile and split its k between them.
//
// Against `async_copy`:
// - A product of 512 x 512 x 512 has 32 tiles of 64 x 128, and 100 of an H100's 132 SMs have nothing to do. It has 16
//   tiles of 128 x 128, and with k in eight splits they keep 128 blocks busy.
// - A block sums every n-th tile of k, for n splits. With one split it stores C. With more it stores its sums to the
//   workspace, and a second kernel adds them, always in the same order (split_sums.cuh).
// - splits_for estimates the cycles of each number of splits and takes the cheapest one: busy SMs against more traffic.
// - The first tile of k of the first split may begin before k does. Zeros stand for these steps.
//
// Limit: idle SMs. At 512 four times as many are busy. The price is 8 bytes of workspace traffic for each result and
// split, and one more launch. With splits a tile of 128 x 128 is affordable. It reads k / 64 floats from global memory
// for each result, 32 FLOP for each of their bytes instead of 21. Large products have one split, and what remains is
// `async_copy`.
//
// Occupancy: 8 x 8 results a thread in at most 128 registers, two blocks of 256 threads, 16 of an SM's 64 warps; 48.8
// KiB of shared memory for 3 stages. The prologue and the epilogue of one block run behind the FMAs of the other.
#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "split_sums.cuh"
#include "store_tile.cuh"
#include "tile_copies.cuh"
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
constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
constexpr int STEP_N = WN / (TN / 4);  // columns between them
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");
using Tiles = CopiedTiles<BM, BN, BK, THREADS>;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * Tiles::STAGE;

// INSIDE: C has no fewer rows and columns than a tile. WIDTH: how many floats of B a copy takes; 0 asks at run time.
template <bool INSIDE, int WIDTH>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) sgemm_split_k(Gemm g, int splits, float* sums) {
  float* shared = dynamic_shared<float>();
  unsigned tiles_mn = static_cast<unsigned>(ceil_div(g.m, BM)) * static_cast<unsigned>(ceil_div(g.n, BN));
  int i_split = static_cast<int>(blockIdx.x / tiles_mn);
  Tile own = tile_number(g, blockIdx.x % tiles_mn, BM, BN, GROUP);  // what this block stores
  Tile tile = own;                                                  // what it computes
  if (INSIDE) {
    tile.row = min(tile.row, g.m - BM);
    tile.col = min(tile.col, g.n - BN);
  }
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // The tiles of k that this split sums, from p_begin on. The first may begin before k does.
  int tiles_k = ceil_div(g.k, BK);
  int tiles = ceil_div(tiles_k - i_split, splits);
  int p_begin = (i_split - tiles_k) * BK + g.k;
  int tile_steps = BK * splits;  // from a tile to the next

  // The first elements that this thread copies, and their places in a stage.
  int width_B = INSIDE ? WIDTH : width_of_B(g);
  int row_A = tid / 8;
  int p_A = tid % 8;
  int p_B = tid * width_B / BN;
  int col_B = tid * width_B % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_begin + p_A);
  const float* B = g.B + (p_begin + p_B) * g.ldb + tile.col + col_B;
  float* to_A = shared + p_A * Tiles::PITCH_A + row_A;
  float* to_B = shared + Tiles::TILE_A + p_B * BN + col_B;
  int rows_left = g.m - tile.row - row_A;
  int cols_left = g.n - tile.col - col_B;

  // Starts the copies of the next tile of A and B to a stage. A `whole` tile does not begin before k.
  auto copy = [&](int at, bool whole) {
    Tiles::copy_A<INSIDE>(to_A + at, A, g.lda, g.k, rows_left, whole, -p_begin - p_A);
    if (width_B == 4) {
      Tiles::copy_B<INSIDE, 4>(to_B + at, B, g.ldb, g.k, cols_left, whole, -p_begin - p_B);
    } else {
      Tiles::copy_B<INSIDE, 1>(to_B + at, B, g.ldb, g.k, cols_left, whole, -p_begin - p_B);
    }
    A += tile_steps;
    B += tile_steps * g.ldb;
  };

#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (stage < tiles) {
      copy(stage * Tiles::STAGE, stage > 0);
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();
  load_fragment(frag_A[0], shared + row, STEP_M);
  load_fragment(frag_B[0], shared + Tiles::TILE_A + col, STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    int at = stage * Tiles::STAGE;
    float* now = shared + at;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * Tiles::PITCH_A + row, STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + Tiles::TILE_A + (p + 1) * BN + col, STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile STAGES further.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load_fragment(frag_A[0], shared + stage * Tiles::STAGE + row, STEP_M);
        load_fragment(frag_B[0], shared + stage * Tiles::STAGE + Tiles::TILE_A + col, STEP_N);
        if (tiles > STAGES) {
          copy(at, true);
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

  Gemm out = g;
  if (splits > 1) {
    out.alpha = 1.0f;
    out.beta = 0.0f;
    out.C = sums + i_split * (static_cast<int64_t>(g.m) * g.n);
    out.ldc = g.n;
  }
  store_tile<BM, BN, STEP_M, STEP_N>(out, tile, own, row, col, sum);
}

int splits_of(const Gemm& g) { return splits_for(g, BM, BN, BK); }

size_t needed(const Gemm& g) { return split_bytes(g, splits_of(g)); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int splits = splits_of(g);
  float* sums = static_cast<float*>(workspace);
  bool inside = g.m >= BM && g.n >= BN;
  auto inner = width_of_B(g) == 4 ? sgemm_split_k<true, 4> : sgemm_split_k<true, 1>;
  auto outer = sgemm_split_k<false, 0>;
  dim3 grid = tile_grid(g, BM, BN);
  grid.x *= splits;
  cudaError_t error = launch(inside ? inner : outer, grid, dim3(THREADS), SHARED_BYTES, stream, g, splits, sums);
  return error == cudaSuccess && splits > 1 ? launch_add_splits(g, splits, sums, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
