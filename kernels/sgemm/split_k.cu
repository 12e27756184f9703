// split_k: where C has too few tiles for the GPU, several blocks share a tile and split its k between them.
//
// Against `async_copy`: of 512 x 512 x 512 there are 32 tiles of 64 x 128, and 100 of an H100's 132 SMs have nothing to
// do. There are 16 tiles of 128 x 128, and with their k in eight parts 128 blocks.
// - A block sums the products of its own range of k. With one split it writes C. With more it writes its sums to the
//   workspace, and a second kernel adds the splits in the order of k: no atomics, the same bits in every run.
// - split_for estimates the cycles of each number of splits and takes the cheapest: full SMs against more traffic.
//
// Limit: idle SMs: four times as many are busy at 512. The price is 8 bytes of workspace traffic for each result and
// split, and one more launch. The tile of 128 x 128, which splits make affordable, takes k / 64 floats from global
// memory for each result, 32 FLOP for each of their bytes instead of 21. For large products there is one split, and
// what remains is `async_copy`.
//
// Occupancy: 8 x 8 results a thread in at most 128 registers, two blocks of 256 threads, 16 of an SM's 64 warps; 48.8
// KiB of shared memory for 3 stages. The prologue and the epilogue of one block run behind the FMAs of the other.
#include <cuda_pipeline.h>

#include "gemm.cuh"
#include "store_tile.cuh"
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
#ifndef MAX_SPLITS
#define MAX_SPLITS 128
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int PITCH_A = BM + 4;        // keeps the transposing copies of A off each other's banks
constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
constexpr int STEP_N = WN / (TN / 4);  // columns between them
constexpr int TILE_A = BK * PITCH_A;   // floats of a stage that hold A's tile, transposed; B's tile follows
constexpr int STAGE = TILE_A + BK * BN;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * STAGE;
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK % 8 == 0 && BM % (THREADS / 8) == 0, "whole rows of A's tile in a pass, 8 steps of p at a time");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass of vectors");
static_assert(BN % THREADS == 0 || THREADS % BN == 0, "whole rows of B's tile in a pass of single floats");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

// How a product is cut: `splits` ranges of k, each of `tiles_k` tiles but the last, which may be shorter.
struct Split {
  int splits, tiles_k;
};

// The number of splits with the fewest cycles on the busiest SM, by this model:
// - A tile of BK steps takes an SM BM * BN * BK / 128 cycles of FMAs at 80 %, and a block some 2500 cycles to fill its
//   stages and to write its results. Blocks on one SM share its FMAs, so they count as if one followed the other.
// - More splits than one cost a launch, 3000 cycles, and for each result 8 bytes a split and 4 for C; an SM moves 16
//   bytes a cycle.
inline Split split_for(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, BM)) * ceil_div(g.n, BN);
  int tiles_k = ceil_div(g.k, BK);
  double results = static_cast<double>(g.m) * g.n;
  Split best = {1, tiles_k};
  double best_cycles = 0.0;
  for (int splits = 1; splits <= MAX_SPLITS && splits <= tiles_k; ++splits) {
    int each = ceil_div(tiles_k, splits);
    if (ceil_div(tiles_k, each) != splits) {
      continue;  // this many leave the last one empty
    }
    double waves = static_cast<double>((tiles * splits + sms - 1) / sms);
    double cycles = waves * (each * (BM * BN * BK / 128 / 0.8) + 2500.0);
    if (splits > 1) {
      cycles += 3000.0 + results * (8.0 * splits + 4.0) / (16.0 * sms);
    }
    if (splits == 1 || cycles < best_cycles) {
      best.splits = splits;
      best.tiles_k = each;
      best_cycles = cycles;
    }
  }
  return best;
}

// Global to shared memory in the background: every ROWS-th row of A's tile, every 8th step of p. Zeros stand for rows from
// `rows_left` on (not looked at where INSIDE) and for steps before `p_first`; both count from this thread's first element.
template <bool INSIDE>
__device__ inline void copy_tile_A(float* to, const float* from, int64_t ld, int rows_left, int p_first) {
  constexpr int ROWS = THREADS / 8;
#pragma unroll
  for (int i = 0; i < BM; i += ROWS) {
#pragma unroll
    for (int p = 0; p < BK; p += 8) {
      bool there = (INSIDE || i < rows_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + p, 4, there ? 0 : 4);
    }
  }
}

// The same for B's tile, WIDTH floats at a time.
template <bool INSIDE, int WIDTH>
__device__ inline void copy_tile_B(float* to, const float* from, int64_t ld, int cols_left, int p_first) {
  constexpr int COLS = THREADS * WIDTH < BN ? THREADS * WIDTH : BN;
  constexpr int ROWS = THREADS * WIDTH / COLS;
#pragma unroll
  for (int p = 0; p < BK; p += ROWS) {
#pragma unroll
    for (int c = 0; c < BN; c += COLS) {
      bool there = (INSIDE || c < cols_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * BN + c, from + p * ld + c, 4 * WIDTH, there ? 0 : 4 * WIDTH);
    }
  }
}

// How many floats of B a copy takes.
__host__ __device__ inline int width_of_B(const Gemm& g) { return g.n % 4 == 0 ? vector_width(g.B, g.ldb) : 1; }

// INSIDE: neither C's rows nor its columns are fewer than a tile's, and copies of B take WIDTH_B floats; else that is
// asked at run time.
template <bool INSIDE, int WIDTH_B = 0>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) sgemm_split_k(Gemm g, Split split, float* sums) {
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

  // The first elements that this thread copies. A warp copies 4 rows of A by 8 steps of p: whole sectors of global
  // memory, 32 different banks of shared memory. The first tile begins `missing` steps before the matrices do.
  int tiles_k = ceil_div(g.k, BK);
  int missing = tiles_k * BK - g.k;
  int first = i_split * split.tiles_k;
  int tiles = min(tiles_k - first, split.tiles_k);
  int p_begin = first * BK - missing;
  int row_A = tid / 8;
  int p_A = tid % 8;
  int width_B = INSIDE ? WIDTH_B : width_of_B(g);
  int p_B = tid * width_B / BN;
  int col_B = tid * width_B % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_begin + p_A);
  const float* B = g.B + (p_begin + p_B) * g.ldb + tile.col + col_B;
  float* to_A = shared + p_A * PITCH_A + row_A;
  float* to_B = shared + TILE_A + p_B * BN + col_B;
  int rows_left = g.m - tile.row - row_A;
  int cols_left = g.n - tile.col - col_B;

  auto copy_B = [&](float* to, int p_first) {
    if (width_B == 4) {
      copy_tile_B<INSIDE, 4>(to, B, g.ldb, cols_left, p_first);
    } else {
      copy_tile_B<INSIDE, 1>(to, B, g.ldb, cols_left, p_first);
    }
  };

#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (stage < tiles) {
      int p_first = first == 0 && stage == 0 ? missing : 0;
      copy_tile_A<INSIDE>(to_A + stage * STAGE, A, g.lda, rows_left, p_first - p_A);
      copy_B(to_B + stage * STAGE, p_first - p_B);
      A += BK;
      B += BK * g.ldb;
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();
  load_fragment(frag_A[0], shared + row, STEP_M);
  load_fragment(frag_B[0], shared + TILE_A + col, STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    int at = stage * STAGE;
    float* now = shared + at;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * PITCH_A + row, STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col, STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile STAGES further.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load_fragment(frag_A[0], shared + stage * STAGE + row, STEP_M);
        load_fragment(frag_B[0], shared + stage * STAGE + TILE_A + col, STEP_N);
        if (tiles > STAGES) {
          copy_tile_A<INSIDE>(to_A + at, A, g.lda, rows_left, -BK);
          copy_B(to_B + at, -BK);
          A += BK;
          B += BK * g.ldb;
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
  if (split.splits > 1) {
    out.alpha = 1.0f;
    out.beta = 0.0f;
    out.C = sums + i_split * (static_cast<int64_t>(g.m) * g.n);
    out.ldc = g.n;
  }
  store_tile<BM, BN, STEP_M, STEP_N>(out, tile, own, row, col, sum);
}

// C = alpha * (the sums of all splits, in the order of k) + beta * C. A thread adds WIDTH neighbouring results.
template <int WIDTH>
__global__ void __launch_bounds__(256) add_splits(Gemm g, int splits, const float* sums) {
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * WIDTH;
  int64_t results = static_cast<int64_t>(g.m) * g.n;
  if (i >= results) {
    return;
  }
  alignas(16) float sum[4] = {};
#pragma unroll 4
  for (int s = 0; s < splits; ++s) {
    alignas(16) float part[WIDTH];
    copy_vector<WIDTH>(part, sums + s * results + i);
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) {
      sum[v] += part[v];
    }
  }
  int row = static_cast<int>(i / g.n);
  int col = static_cast<int>(i % g.n);
  store_vector(g, row, col, sum, 0, WIDTH, vector_width(g.C, g.ldc));
}

size_t split_workspace(const Gemm& g) {
  Split split = split_for(g);
  return split.splits > 1 ? sizeof(float) * split.splits * g.m * g.n : 0;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  Split split = split_for(g);
  float* sums = static_cast<float*>(workspace);
  bool inside = g.m >= BM && g.n >= BN;
  auto inner = width_of_B(g) == 4 ? sgemm_split_k<true, 4> : sgemm_split_k<true, 1>;
  auto outer = sgemm_split_k<false>;
  dim3 grid = tile_grid(g, BM, BN);
  grid.x *= split.splits;
  cudaError_t error = launch(inside ? inner : outer, grid, dim3(THREADS), SHARED_BYTES, stream, g, split, sums);
  if (error != cudaSuccess || split.splits == 1) {
    return error;
  }
  int width = g.n % 4 == 0 ? 4 : 1;
  int64_t threads = static_cast<int64_t>(g.m) * g.n / width;
  auto add = width == 4 ? add_splits<4> : add_splits<1>;
  return launch(add, dim3(static_cast<unsigned>((threads + 255) / 256)), dim3(256), 0, stream, g, split.splits, sums);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, split_workspace)
