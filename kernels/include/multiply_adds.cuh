// C = A . B by FP32 multiply-adds, for what a rung of the tensor cores leaves to them: products with short sums or few
// tiles, and tiles whose numbers cannot be split well.
//
// The loop is that of `split_k`, which explains it. Besides,
// - a block may sum two halves of k side by side: sums stay small where the terms of one half take those of the other
//   away;
// - sums may end every SECTION steps of k and be added to totals in FP64, so that the error does not grow with k;
// - a class says which tiles of C are computed.
#pragma once

#include <cuda_pipeline.h>

#include "fp32_sections.cuh"
#include "gemm.cuh"
#include "split_sums.cuh"
#include "store_tile.cuh"
#include "tile_copies.cuh"
#include "vector.cuh"

constexpr int SHORT_SUM = 576;         // sums up to this long are left to multiply-adds
constexpr int FEW_TILES_SECTION = 96;  // the same where C has few tiles and all splits of this length run at once

// How a block computes its tile, as `split_k` does.
struct Fp32Block {
  static constexpr int ROWS = 128, COLS = 128, STEPS = 16;
  static constexpr int WARP_ROWS = 32, WARP_COLS = 64, THREAD_ROWS = 8, THREAD_COLS = 8;
  static constexpr int DEPTH = 3, PER_SM = 2;
  static constexpr int THREADS = (ROWS / WARP_ROWS) * (COLS / WARP_COLS) * 32;
  static constexpr int STEP_M = WARP_ROWS / (THREAD_ROWS / 4);  // rows between a thread's vectors
  static constexpr int STEP_N = WARP_COLS / (THREAD_COLS / 4);  // columns between them
  static constexpr unsigned BAND = 16;                          // rows of tiles in a group of blocks
};

// Which tiles of C are computed: all, or those of a class with such a function.
struct AllTiles {
  __device__ bool has(Tile) const { return true; }
};

// SECTION: how many steps of k are summed before they are added to totals; 0 for all. INSIDE: C has no fewer rows and
// columns than a tile. WIDTH_B: how many floats of B a copy takes; 0 asks at run time.
template <int PARTS, int SECTION, class TilesOfC, bool INSIDE, int WIDTH_B = 0>
__global__ void __launch_bounds__(Fp32Block::THREADS, Fp32Block::PER_SM)
    sgemm_multiply_adds(Gemm g, int splits, float* sums, TilesOfC tiles_of_C) {
  using Block = Fp32Block;
  using Tiles = CopiedTiles<Block::ROWS, Block::COLS, Block::STEPS, Block::THREADS, PARTS>;
  static_assert(SECTION % Block::STEPS == 0, "whole tiles in a section");
  float* shared = dynamic_shared<float>();
  unsigned tiles_mn =
      static_cast<unsigned>(ceil_div(g.m, Block::ROWS)) * static_cast<unsigned>(ceil_div(g.n, Block::COLS));
  int i_split = static_cast<int>(blockIdx.x / tiles_mn);
  Tile own = tile_number(g, blockIdx.x % tiles_mn, Block::ROWS, Block::COLS, Block::BAND);  // what this block stores
  Tile tile = own;                                                                          // what it computes
  if (!tiles_of_C.has(own)) {
    return;
  }
  if (INSIDE) {
    tile.row = min(tile.row, g.m - Block::ROWS);
    tile.col = min(tile.col, g.n - Block::COLS);
  }
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (Block::COLS / Block::WARP_COLS) * Block::WARP_ROWS +
            lane / (Block::WARP_COLS / Block::THREAD_COLS) * 4;  // of the thread's first vector
  int col =
      warp % (Block::COLS / Block::WARP_COLS) * Block::WARP_COLS + lane % (Block::WARP_COLS / Block::THREAD_COLS) * 4;

  // The tiles of k that this split sums. The first may begin before the parts of k do.
  int part = g.k / PARTS;
  int tiles_k = ceil_div(part, Tiles::PART_STEPS);
  int tiles = ceil_div(tiles_k - i_split, splits);
  int p_begin = (i_split - tiles_k) * Tiles::PART_STEPS + part;
  int tile_steps = Tiles::PART_STEPS * splits;  // from a tile to the next

  // The first elements that this thread copies, and their places in a stage.
  int row_A = tid / 8;
  int p_A = tid % 8;
  int width_B = INSIDE ? WIDTH_B : width_of_B(g);
  int p_B = tid * width_B / Block::COLS;
  int col_B = tid * width_B % Block::COLS;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_begin + p_A);
  const float* B = g.B + (p_begin + p_B) * g.ldb + tile.col + col_B;
  float* to_A = shared + p_A * Tiles::PITCH_A + row_A;
  float* to_B = shared + Tiles::TILE_A + p_B * Block::COLS + col_B;
  int rows_left = g.m - tile.row - row_A;
  int cols_left = g.n - tile.col - col_B;

  // Starts the copies of the next tile to a stage. A `whole` tile does not begin before the parts of k.
  auto copy = [&](int at, bool whole) {
    Tiles::template copy_A<INSIDE>(to_A + at, A, g.lda, part, rows_left, whole, -p_begin - p_A);
    if (width_B == 4) {
      Tiles::template copy_B<INSIDE, 4>(to_B + at, B, g.ldb, part, cols_left, whole, -p_begin - p_B);
    } else {
      Tiles::template copy_B<INSIDE, 1>(to_B + at, B, g.ldb, part, cols_left, whole, -p_begin - p_B);
    }
    A += tile_steps;
    B += tile_steps * g.ldb;
  };

#pragma unroll
  for (int stage = 0; stage < Block::DEPTH; ++stage) {
    if (stage < tiles) {
      copy(stage * Tiles::STAGE, stage > 0);
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][Block::THREAD_ROWS];
  alignas(16) float frag_B[2][Block::THREAD_COLS];
  float sum[Block::THREAD_ROWS][Block::THREAD_COLS] = {};
  float* all = &sum[0][0];
  SectionTotals<Block::THREAD_ROWS * Block::THREAD_COLS> totals;
  if (SECTION > 0) {
    totals.clear();
  }
  int tiles_left = SECTION / Block::STEPS;  // of a section
  __pipeline_wait_prior(Block::DEPTH - 1);
  __syncthreads();
  load_fragment(frag_A[0], shared + row, Block::STEP_M);
  load_fragment(frag_B[0], shared + Tiles::TILE_A + col, Block::STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    int at = stage * Tiles::STAGE;
    float* now = shared + at;
    stage = stage + 1 < Block::DEPTH ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < Block::STEPS; ++p) {
      if (p + 1 < Block::STEPS) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * Tiles::PITCH_A + row, Block::STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + Tiles::TILE_A + (p + 1) * Block::COLS + col, Block::STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile DEPTH further.
        __pipeline_wait_prior(Block::DEPTH - 2);
        __syncthreads();
        load_fragment(frag_A[0], shared + stage * Tiles::STAGE + row, Block::STEP_M);
        load_fragment(frag_B[0], shared + stage * Tiles::STAGE + Tiles::TILE_A + col, Block::STEP_N);
        if (tiles > Block::DEPTH) {
          copy(at, true);
        }
        __pipeline_commit();
      }
#pragma unroll
      for (int i = 0; i < Block::THREAD_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < Block::THREAD_COLS; ++j) {
          int c = i % 2 == 0 ? j
                             : Block::THREAD_COLS - 1 -
                                   j;  // there and back: at a row's end the element of B stays where it is
          sum[i][c] += frag_A[p % 2][i] * frag_B[p % 2][c];
        }
      }
    }
    if (SECTION > 0 && --tiles_left == 0) {
      tiles_left = SECTION / Block::STEPS;
      totals.end_section(all);
    }
  }
  if (SECTION > 0) {
    totals.finish(all);
  }

  Gemm out = g;
  if (splits > 1) {
    out.alpha = 1.0f;
    out.beta = 0.0f;
    out.C = sums + i_split * (static_cast<int64_t>(g.m) * g.n);
    out.ldc = g.n;
  }
  store_tile<Block::ROWS, Block::COLS, Block::STEP_M, Block::STEP_N>(out, tile, own, row, col, sum);
}

// The product, or those of its tiles that are asked for. k is a multiple of PARTS.
template <int PARTS, int SECTION = 0, class TilesOfC = AllTiles>
cudaError_t launch_multiply_adds(const Gemm& g, int splits, float* sums, cudaStream_t stream,
                                 TilesOfC tiles_of_C = {}) {
  using Block = Fp32Block;
  using Tiles = CopiedTiles<Block::ROWS, Block::COLS, Block::STEPS, Block::THREADS, PARTS>;
  bool inside = g.m >= Block::ROWS && g.n >= Block::COLS;
  auto inner = width_of_B(g) == 4 ? sgemm_multiply_adds<PARTS, SECTION, TilesOfC, true, 4>
                                  : sgemm_multiply_adds<PARTS, SECTION, TilesOfC, true, 1>;
  auto outer = sgemm_multiply_adds<PARTS, SECTION, TilesOfC, false>;
  dim3 grid = tile_grid(g, Block::ROWS, Block::COLS);
  grid.x *= splits;
  return launch(inside ? inner : outer, grid, dim3(Block::THREADS), sizeof(float) * Block::DEPTH * Tiles::STAGE, stream,
                g, splits, sums, tiles_of_C);
}

// Whether tiles of 128 x 128, one on an SM, fill at least nine tenths of the SMs in all rounds. Where they do not,
// cuBLAS may split k, and then its error is below that of long sums.
inline bool fills_sms(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = tile_grid(g, 128, 128).x;
  return 10 * tiles >= 9 * ((tiles + sms - 1) / sms) * sms;
}

// How many steps of k a multiply-add kernel may sum one by one, if it computes the whole product; 0 if tensor cores do.
// It computes products with less than about one tile for two SMs, where it is as fast or faster and errs less, and
// products whose sums are short (split_tf32.cuh says why).
inline int longest_fp32_sum(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = tile_grid(g, Fp32Block::ROWS, Fp32Block::COLS).x;
  if (20 * tiles < 9 * sms) {
    auto at_once = [&](int steps) { return tiles * ceil_div(g.k, steps) <= Fp32Block::PER_SM * sms; };
    return at_once(FEW_TILES_SECTION) ? FEW_TILES_SECTION : g.k <= 1024 || at_once(128) ? 128 : 256;
  }
  return g.k > SHORT_SUM ? 0 : fills_sms(g) ? SHORT_SUM : FP32_SECTION;
}

inline int fp32_splits(const Gemm& g) {
  return splits_for(g, Fp32Block::ROWS, Fp32Block::COLS, Fp32Block::STEPS, longest_fp32_sum(g));
}

// The workspace of run_multiply_adds.
inline size_t multiply_adds_bytes(const Gemm& g) { return split_bytes(g, fp32_splits(g)); }

// The whole product, for which longest_fp32_sum is not 0.
inline cudaError_t run_multiply_adds(const Gemm& g, void* workspace, cudaStream_t stream) {
  int splits = fp32_splits(g);
  float* sums = static_cast<float*>(workspace);
  bool halves = longest_fp32_sum(g) == FEW_TILES_SECTION && g.k % 2 == 0;
  cudaError_t error =
      halves ? launch_multiply_adds<2>(g, splits, sums, stream) : launch_multiply_adds<1>(g, splits, sums, stream);
  return error == cudaSuccess && splits > 1 ? launch_add_splits(g, splits, sums, stream) : error;
}
