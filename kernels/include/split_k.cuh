// C = A . B by FP32 multiply-adds, where C has too few tiles for the GPU: several blocks share a tile and split its k.
//
// Of the tiles of k a block has every n-th, for n splits. With one split it writes C. With more it writes its sums to the
// workspace, and a second kernel adds them in the order of the splits: no atomics, the same bits in every run.
#pragma once

#include <cuda_pipeline.h>

#include <cfloat>
#include <climits>

#include "gemm.cuh"
#include "store_tile.cuh"
#include "vector.cuh"

// How a block computes a tile of ROWS x COLS results, STEPS steps of k at a time; THREAD_ROWS x THREAD_COLS of them a
// thread, WARP_ROWS x WARP_COLS a warp. DEPTH stages, BLOCKS on an SM. A tile has GROUP steps of each of PARTS equal
// parts of k: with two, sums stay small where the second half of the terms takes the first half away, but the loop is longer.
template <int ROWS_, int COLS_, int STEPS_, int THREAD_ROWS_, int THREAD_COLS_, int WARP_ROWS_, int WARP_COLS_,
          int DEPTH_, int BLOCKS_, int PARTS_ = 1>
struct SplitKTiling {
  static constexpr int ROWS = ROWS_, COLS = COLS_, STEPS = STEPS_, THREAD_ROWS = THREAD_ROWS_,
                       THREAD_COLS = THREAD_COLS_, WARP_ROWS = WARP_ROWS_, WARP_COLS = WARP_COLS_, DEPTH = DEPTH_,
                       BLOCKS = BLOCKS_, PARTS = PARTS_, GROUP = STEPS / PARTS;
  static constexpr int THREADS = (ROWS / WARP_ROWS) * (COLS / WARP_COLS) * 32;
  static constexpr int PITCH_A = ROWS + 4;  // keeps the transposing copies of A off each other's banks
  static constexpr int STEP_M = WARP_ROWS / (THREAD_ROWS / 4);  // rows between a thread's vectors
  static constexpr int STEP_N = WARP_COLS / (THREAD_COLS / 4);  // columns between them
  static constexpr int TILE_A = STEPS * PITCH_A;  // floats of a stage that hold A's tile, transposed; B's tile follows
  static constexpr int STAGE = TILE_A + STEPS * COLS;
  static constexpr size_t SHARED_BYTES = sizeof(float) * DEPTH * STAGE;
  static constexpr unsigned BAND = 16;  // rows of tiles in a group
  static constexpr int MOST_SPLITS = 128;
  static_assert(THREAD_ROWS % 4 == 0 && THREAD_COLS % 4 == 0, "a thread tile must consist of whole vectors");
  static_assert(WARP_ROWS % THREAD_ROWS == 0 && WARP_COLS % THREAD_COLS == 0 &&
                    (WARP_ROWS / THREAD_ROWS) * (WARP_COLS / THREAD_COLS) == 32,
                "32 thread tiles must cover the warp tile");
  static_assert(ROWS % WARP_ROWS == 0 && COLS % WARP_COLS == 0, "the warp tiles must cover the block tile");
  static_assert(THREADS <= 1024, "a block has at most 1024 threads");
  static_assert(STEPS % 8 == 0 && ROWS % (THREADS / 8) == 0,
                "whole rows of A's tile in a pass, 8 steps of p at a time");
  static_assert(THREADS * 4 % COLS == 0 && STEPS % (THREADS * 4 / COLS) == 0,
                "whole rows of B's tile in a pass of vectors");
  static_assert(COLS % THREADS == 0 || THREADS % COLS == 0, "whole rows of B's tile in a pass of single floats");
  static_assert(GROUP % 8 == 0 && GROUP % (THREADS * 4 / COLS) == 0, "whole passes of A and of B in a group");
  static_assert(DEPTH >= 2, "one stage to multiply, one on its way");
};

// The number of splits with the fewest cycles on the busiest SM, by this model:
// - A tile of STEPS steps takes an SM ROWS * COLS * STEPS / 128 cycles of FMAs at 80 %, and a block some 2500 cycles to
//   fill its stages and to write its results. Blocks on one SM share its FMAs, so they count as if one followed the other.
// - More splits than one cost a launch, 3000 cycles, and for each result 8 bytes a split and 4 for C; an SM moves 16
//   bytes a cycle.
// At most `longest` steps of k are summed in a split, if MOST_SPLITS are enough for that.
template <class T>
int splits_for(const Gemm& g, int longest = INT_MAX) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, T::ROWS)) * ceil_div(g.n, T::COLS);
  int tiles_k = ceil_div(g.k, T::STEPS);
  double results = static_cast<double>(g.m) * g.n;
  int best = 1, best_each = tiles_k;
  double best_cycles = 0.0;
  for (int splits = 1; splits <= T::MOST_SPLITS && splits <= tiles_k; ++splits) {
    int each = ceil_div(tiles_k, splits);
    if (ceil_div(tiles_k, each) != splits) {
      continue;  // this many leave the last one empty
    }
    double waves = static_cast<double>((tiles * splits + sms - 1) / sms);
    double cycles = waves * (each * (T::ROWS * T::COLS * T::STEPS / 128 / 0.8) + 2500.0);
    if (splits > 1) {
      cycles += 3000.0 + results * (8.0 * splits + 4.0) / (16.0 * sms);
    }
    bool shorter = best_each > longest / T::STEPS;
    if (splits == 1 || shorter || cycles < best_cycles) {
      best = splits;
      best_each = each;
      best_cycles = cycles;
    }
  }
  return best;
}

// Steps of k from a tile's first to its p-th. A part of k has `part` steps.
template <class T>
__device__ inline int steps_to(int p, int part) {
  return p / T::GROUP * part + p % T::GROUP;
}

// Global to shared memory in the background: every PASS-th row of A's tile, every 8th step of p. Zeros stand for rows from
// `rows_left` on (not looked at where INSIDE) and, unless `whole`, for steps of each part before `first`; both count from
// this thread's first element.
template <class T, bool INSIDE>
__device__ inline void copy_tile_A(float* to, const float* from, int64_t ld, int part, int rows_left, bool whole,
                                   int first) {
  constexpr int PASS = T::THREADS / 8;
#pragma unroll
  for (int i = 0; i < T::ROWS; i += PASS) {
#pragma unroll
    for (int p = 0; p < T::STEPS; p += 8) {
      bool there = (INSIDE || i < rows_left) && (whole || p % T::GROUP >= first);
      __pipeline_memcpy_async(to + p * T::PITCH_A + i, from + i * ld + steps_to<T>(p, part), 4, there ? 0 : 4);
    }
  }
}

// The same for B's tile, WIDTH floats at a time.
template <class T, bool INSIDE, int WIDTH>
__device__ inline void copy_tile_B(float* to, const float* from, int64_t ld, int part, int cols_left, bool whole,
                                   int first) {
  constexpr int PASS_COLS = T::THREADS * WIDTH < T::COLS ? T::THREADS * WIDTH : T::COLS;
  constexpr int PASS_ROWS = T::THREADS * WIDTH / PASS_COLS;
#pragma unroll
  for (int p = 0; p < T::STEPS; p += PASS_ROWS) {
#pragma unroll
    for (int c = 0; c < T::COLS; c += PASS_COLS) {
      bool there = (INSIDE || c < cols_left) && (whole || p % T::GROUP >= first);
      __pipeline_memcpy_async(to + p * T::COLS + c, from + steps_to<T>(p, part) * ld + c, 4 * WIDTH,
                              there ? 0 : 4 * WIDTH);
    }
  }
}

// How many floats of B a copy takes.
__host__ __device__ inline int width_of_B(const Gemm& g) { return g.n % 4 == 0 ? vector_width(g.B, g.ldb) : 1; }

// Which tiles of C to compute: all. Or those of a class with such a function.
struct AllTiles {
  __device__ bool has(Tile) const { return true; }
};

// The totals of a thread's sums over sections of k, in FP64, so that their errors do not grow with k. They lie in memory, not
// in registers, for they are touched at the end of a section alone.
template <int SUMS>
struct SectionTotals {
  volatile double totals[SUMS];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = 0.0;
    }
  }

  // Leaves zeros.
  __device__ void end_section(float* sums) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = totals[i] + sums[i];
      sums[i] = 0.0f;
    }
  }

  // Adds what all sections came to.
  __device__ void finish(float* sums) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      sums[i] = static_cast<float>(totals[i] + sums[i]);
    }
  }
};

// SECTION: how many steps of k are summed before they are added to totals, 0 for all.
// INSIDE: neither C's rows nor its columns are fewer than a tile's, and copies of B take WIDTH_B floats; else that is
// asked at run time.
template <class T, int SECTION, class Which, bool INSIDE, int WIDTH_B = 0>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_split_k(Gemm g, int splits, float* sums, Which which) {
  static_assert(SECTION % T::STEPS == 0, "whole tiles in a section");
  float* shared = dynamic_shared<float>();
  unsigned tiles_mn = static_cast<unsigned>(ceil_div(g.m, T::ROWS)) * static_cast<unsigned>(ceil_div(g.n, T::COLS));
  int i_split = static_cast<int>(blockIdx.x / tiles_mn);
  Tile own = tile_number(g, blockIdx.x % tiles_mn, T::ROWS, T::COLS, T::BAND);  // what this block stores
  Tile tile = own;                                                              // what it computes
  if (!which.has(own)) {
    return;
  }
  if (INSIDE) {
    tile.row = min(tile.row, g.m - T::ROWS);
    tile.col = min(tile.col, g.n - T::COLS);
  }
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS +
            lane / (T::WARP_COLS / T::THREAD_COLS) * 4;  // of the thread's first vector
  int col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS + lane % (T::WARP_COLS / T::THREAD_COLS) * 4;

  // The first elements that this thread copies. A warp copies 4 rows of A by 8 steps of p: whole sectors of global
  // memory, 32 different banks of shared memory. The first tile may begin before the parts do.
  int part = g.k / T::PARTS;
  int tiles_k = ceil_div(part, T::GROUP);
  int tiles = ceil_div(tiles_k - i_split, splits);
  int p_begin = (i_split - tiles_k) * T::GROUP + part;
  int tile_steps = T::GROUP * splits;  // from a tile to the next
  int row_A = tid / 8;
  int p_A = tid % 8;
  int width_B = INSIDE ? WIDTH_B : width_of_B(g);
  int p_B = tid * width_B / T::COLS;
  int col_B = tid * width_B % T::COLS;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_begin + p_A);
  const float* B = g.B + (p_begin + p_B) * g.ldb + tile.col + col_B;
  float* to_A = shared + p_A * T::PITCH_A + row_A;
  float* to_B = shared + T::TILE_A + p_B * T::COLS + col_B;
  int rows_left = g.m - tile.row - row_A;
  int cols_left = g.n - tile.col - col_B;

  // The next tile into shared memory.
  auto copy = [&](int at, bool whole) {
    copy_tile_A<T, INSIDE>(to_A + at, A, g.lda, part, rows_left, whole, -p_begin - p_A);
    if (width_B == 4) {
      copy_tile_B<T, INSIDE, 4>(to_B + at, B, g.ldb, part, cols_left, whole, -p_begin - p_B);
    } else {
      copy_tile_B<T, INSIDE, 1>(to_B + at, B, g.ldb, part, cols_left, whole, -p_begin - p_B);
    }
    A += tile_steps;
    B += tile_steps * g.ldb;
  };

#pragma unroll
  for (int stage = 0; stage < T::DEPTH; ++stage) {
    if (stage < tiles) {
      copy(stage * T::STAGE, stage > 0);
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][T::THREAD_ROWS];
  alignas(16) float frag_B[2][T::THREAD_COLS];
  float sum[T::THREAD_ROWS][T::THREAD_COLS] = {};
  float* all = &sum[0][0];
  SectionTotals<T::THREAD_ROWS * T::THREAD_COLS> totals;
  if (SECTION > 0) {
    totals.clear();
  }
  int tiles_left = SECTION / T::STEPS;  // of a section
  __pipeline_wait_prior(T::DEPTH - 1);
  __syncthreads();
  load_fragment(frag_A[0], shared + row, T::STEP_M);
  load_fragment(frag_B[0], shared + T::TILE_A + col, T::STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    int at = stage * T::STAGE;
    float* now = shared + at;
    stage = stage + 1 < T::DEPTH ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < T::STEPS; ++p) {
      if (p + 1 < T::STEPS) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * T::PITCH_A + row, T::STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + T::TILE_A + (p + 1) * T::COLS + col, T::STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile DEPTH further.
        __pipeline_wait_prior(T::DEPTH - 2);
        __syncthreads();
        load_fragment(frag_A[0], shared + stage * T::STAGE + row, T::STEP_M);
        load_fragment(frag_B[0], shared + stage * T::STAGE + T::TILE_A + col, T::STEP_N);
        if (tiles > T::DEPTH) {
          copy(at, true);
        }
        __pipeline_commit();
      }
#pragma unroll
      for (int i = 0; i < T::THREAD_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < T::THREAD_COLS; ++j) {
          int c = i % 2 == 0
                      ? j
                      : T::THREAD_COLS - 1 - j;  // there and back: at a row's end the element of B stays where it is
          sum[i][c] += frag_A[p % 2][i] * frag_B[p % 2][c];
        }
      }
    }
    if (SECTION > 0 && --tiles_left == 0) {
      tiles_left = SECTION / T::STEPS;
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
  store_tile<T::ROWS, T::COLS, T::STEP_M, T::STEP_N>(out, tile, own, row, col, sum);
}

// C = alpha * (the sums of all splits, in their order) + beta * C. A thread adds WIDTH neighbouring results. What an addition
// loses is added with the next (W. Kahan, Further Remarks on Reducing Truncation Errors, Commun. ACM 8(1), 1965).
template <int WIDTH>
__global__ void __launch_bounds__(256) add_splits(Gemm g, int splits, const float* sums) {
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * WIDTH;
  int64_t results = static_cast<int64_t>(g.m) * g.n;
  if (i >= results) {
    return;
  }
  alignas(16) float sum[4] = {};
  float lost[WIDTH] = {};
#pragma unroll 4
  for (int s = 0; s < splits; ++s) {
    alignas(16) float part[WIDTH];
    copy_vector<WIDTH>(part, sums + s * results + i);
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
      float more = part[v] - lost[v];
      float total = sum[v] + more;
      lost[v] = fabsf(total) <= FLT_MAX ? (total - sum[v]) - more : 0.0f;
      sum[v] = total;
    }
  }
  int row = static_cast<int>(i / g.n);
  int col = static_cast<int>(i % g.n);
  store_vector(g, row, col, sum, 0, WIDTH, vector_width(g.C, g.ldc));
}

template <class T>
size_t split_k_workspace(const Gemm& g, int longest = INT_MAX) {
  int splits = splits_for<T>(g, longest);
  return splits > 1 ? sizeof(float) * splits * g.m * g.n : 0;
}

// k is a multiple of PARTS.
template <class T, int SECTION = 0, class Which = AllTiles>
cudaError_t launch_split_k(const Gemm& g, int splits, float* sums, cudaStream_t stream, Which which = {}) {
  bool inside = g.m >= T::ROWS && g.n >= T::COLS;
  auto inner =
      width_of_B(g) == 4 ? sgemm_split_k<T, SECTION, Which, true, 4> : sgemm_split_k<T, SECTION, Which, true, 1>;
  auto outer = sgemm_split_k<T, SECTION, Which, false>;
  dim3 grid = tile_grid(g, T::ROWS, T::COLS);
  grid.x *= splits;
  return launch(inside ? inner : outer, grid, dim3(T::THREADS), T::SHARED_BYTES, stream, g, splits, sums, which);
}

template <class T>
cudaError_t run_split_k(const Gemm& g, void* workspace, cudaStream_t stream, int longest = INT_MAX) {
  int splits = splits_for<T>(g, longest);
  float* sums = static_cast<float*>(workspace);
  cudaError_t error = launch_split_k<T>(g, splits, sums, stream);
  if (error != cudaSuccess || splits == 1) {
    return error;
  }
  int width = g.n % 4 == 0 ? 4 : 1;
  int64_t threads = static_cast<int64_t>(g.m) * g.n / width;
  auto add = width == 4 ? add_splits<4> : add_splits<1>;
  return launch(add, dim3(static_cast<unsigned>((threads + 255) / 256)), dim3(256), 0, stream, g, splits, sums);
}
