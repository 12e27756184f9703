// split_k: where C has too few tiles for the GPU, several blocks share a tile and split its k between them.
//
// Against `async_copy`: of 1024 x 1024 x 1024 there are 32 tiles of 128 x 256, and 100 of an H100's 132 SMs have
// nothing to do. There are 64 tiles of 128 x 128, and with their k in two halves 128 blocks.
// - A block sums the products of its own range of k. With one split it writes C. With more it writes its sums to the
//   workspace, and a second kernel adds the splits in the order of k: no atomics, the same bits in every run.
// - split_for estimates the cycles of each number of splits and takes the cheapest: full SMs against more traffic.
//
// Limit: idle SMs. The price is 8 bytes of workspace traffic for each result and split, and one more launch. For large
// products there is one split, and what remains is `async_copy` with smaller tiles.
//
// Occupancy: 8 x 8 results a thread in at most 128 registers, two blocks of 256 threads, 16 of an SM's 64 warps; 48.8
// KiB of shared memory for 3 stages. The prologue and the epilogue of one block run behind the FMAs of the other.
#include <cuda_pipeline.h>

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
#ifndef STAGES
#define STAGES 3
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
  int64_t ld;  // of the splits' sums in the workspace: n rounded up to whole vectors
};

// The number of splits with the fewest cycles on the busiest SM, by this model:
// - A tile of BK steps takes an SM BM * BN * BK / 128 cycles of FMAs at 80 %, and a block some 2500 cycles to fill its
//   stages and to write its results. Blocks on one SM share its FMAs, so they count as if one followed the other.
// - More splits than one cost a launch, 3000 cycles, and for each result 8 bytes a split and 4 for C; an SM moves 16
//   bytes a cycle.
inline Split split_for(const Gemm& g) {
  int device = 0;
  int sms = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);

  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, BM)) * ceil_div(g.n, BN);
  int tiles_k = ceil_div(g.k, BK);
  double results = static_cast<double>(g.m) * g.n;
  Split best = {1, tiles_k, (static_cast<int64_t>(g.n) + 3) / 4 * 4};
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

// Global to shared memory in the background: every ROWS-th row of A's tile, every 8th column. `rows_left` and `p_left`
// count the rows and columns that A has from this thread's first element on; a whole tile need not look at them.
__device__ inline void copy_tile_A(float* to, const float* from, int64_t ld, bool whole, int rows_left, int p_left) {
  constexpr int ROWS = THREADS / 8;
  if (whole) {
#pragma unroll
    for (int i = 0; i < BM; i += ROWS) {
#pragma unroll
      for (int p = 0; p < BK; p += 8) {
        __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + p, 4);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < BM; i += ROWS) {
#pragma unroll
      for (int p = 0; p < BK; p += 8) {
        if (i < rows_left && p < p_left) {
          __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + p, 4);
        } else {
          to[p * PITCH_A + i] = 0.0f;
        }
      }
    }
  }
}

// The same for B's tile, WIDTH floats at a time.
template <int WIDTH>
__device__ inline void copy_tile_B(float* to, const float* from, int64_t ld, bool whole, int p_left, int cols_left) {
  constexpr int COLS = THREADS * WIDTH < BN ? THREADS * WIDTH : BN;
  constexpr int ROWS = THREADS * WIDTH / COLS;
  if (whole) {
#pragma unroll
    for (int p = 0; p < BK; p += ROWS) {
#pragma unroll
      for (int c = 0; c < BN; c += COLS) {
        __pipeline_memcpy_async(to + p * BN + c, from + p * ld + c, 4 * WIDTH);
      }
    }
  } else {
#pragma unroll
    for (int p = 0; p < BK; p += ROWS) {
#pragma unroll
      for (int c = 0; c < BN; c += COLS) {
        if (p < p_left && c + WIDTH <= cols_left) {
          __pipeline_memcpy_async(to + p * BN + c, from + p * ld + c, 4 * WIDTH);
        } else {
#pragma unroll
          for (int v = 0; v < WIDTH; ++v) {
            if (p < p_left && c + v < cols_left) {
              __pipeline_memcpy_async(to + p * BN + c + v, from + p * ld + c + v, 4);
            } else {
              to[p * BN + c + v] = 0.0f;
            }
          }
        }
      }
    }
  }
}

// Shared memory to registers: the vectors of a thread in a row of a tile, `step` floats apart.
template <int LENGTH>
__device__ inline void lds_fragment(float (&to)[LENGTH], const float* from, int step) {
#pragma unroll
  for (int i = 0; i < LENGTH / 4; ++i) {
    copy_vector<4>(&to[4 * i], from + i * step);
  }
}

template <int WIDTH_B>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) sgemm_split_k(Gemm g, Split split, float* sums) {
  float* shared = dynamic_shared<float>();
  unsigned tiles_m = ceil_div(g.m, BM);
  unsigned tiles_n = ceil_div(g.n, BN);
  unsigned i_split = blockIdx.x / (tiles_m * tiles_n);
  unsigned i_tile = blockIdx.x % (tiles_m * tiles_n);
  Tile tile = {static_cast<int>(i_tile / tiles_n) * BM, static_cast<int>(i_tile % tiles_n) * BN};
  int p_first = static_cast<int>(i_split) * split.tiles_k * BK;
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  bool inside = rows_left >= BM && cols_left >= BN;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // The first elements that this thread copies. A warp copies 4 rows of A by 8 steps of p: whole sectors of global
  // memory, 32 different banks of shared memory.
  int row_A = tid / 8;
  int p_A = tid % 8;
  int p_B = tid * WIDTH_B / BN;
  int col_B = tid * WIDTH_B % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_first + p_A;
  const float* B = g.B + (p_first + p_B) * g.ldb + tile.col + col_B;
  int at_A = p_A * PITCH_A + row_A;
  int at_B = TILE_A + p_B * BN + col_B;

  // What the tiles of this range that are not yet being copied have left.
  int k_left = ceil_div(g.k - p_first, BK) > split.tiles_k ? split.tiles_k * BK : g.k - p_first;
  int tiles = ceil_div(k_left, BK);
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (k_left > 0) {
      bool whole = inside && k_left >= BK;
      copy_tile_A(shared + stage * STAGE + at_A, A, g.lda, whole, rows_left - row_A, k_left - p_A);
      copy_tile_B<WIDTH_B>(shared + stage * STAGE + at_B, B, g.ldb, whole, k_left - p_B, cols_left - col_B);
      A += BK;
      B += BK * g.ldb;
      k_left -= BK;
    }
    __pipeline_commit();
  }

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();
  lds_fragment(frag_A[0], shared + row, STEP_M);
  lds_fragment(frag_B[0], shared + TILE_A + col, STEP_N);

  int stage = 0;
  for (; tiles > 0; --tiles) {
    float* now = shared + stage * STAGE;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        lds_fragment(frag_A[(p + 1) % 2], now + (p + 1) * PITCH_A + row, STEP_M);
        lds_fragment(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col, STEP_N);
      } else if (tiles > 1) {
        // The next tile has arrived, and no thread reads this one any more: its buffer takes the tile STAGES further.
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        lds_fragment(frag_A[0], shared + stage * STAGE + row, STEP_M);
        lds_fragment(frag_B[0], shared + stage * STAGE + TILE_A + col, STEP_N);
        if (k_left > 0) {
          bool whole = inside && k_left >= BK;
          copy_tile_A(now + at_A, A, g.lda, whole, rows_left - row_A, k_left - p_A);
          copy_tile_B<WIDTH_B>(now + at_B, B, g.ldb, whole, k_left - p_B, cols_left - col_B);
          A += BK;
          B += BK * g.ldb;
          k_left -= BK;
        }
        __pipeline_commit();
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += frag_A[p % 2][i] * frag_B[p % 2][j];
        }
      }
    }
  }

  Gemm out = g;
  if (split.splits > 1) {
    out.alpha = 1.0f;
    out.beta = 0.0f;
    out.C = sums + i_split * (g.m * split.ld);
    out.ldc = split.ld;
    cols_left = static_cast<int>(split.ld) - tile.col;  // zeros behind the last column, for the vectors of add_splits
  }
  int width_C = vector_width(out.C, out.ldc);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    int r = row + i / 4 * STEP_M + i % 4;
    if (r >= rows_left) {
      break;
    }
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      int c = col + j / 4 * STEP_N;
      store_vector(out, tile.row + r, tile.col + c, &sum[i][j], cols_left - c, width_C);
    }
  }
}

// C = alpha * (the sums of all splits, in the order of k) + beta * C. A thread adds four neighbouring results.
__global__ void __launch_bounds__(256) add_splits(Gemm g, Split split, const float* sums) {
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * 4;
  int64_t results = g.m * split.ld;
  if (i >= results) {
    return;
  }
  int row = static_cast<int>(i / split.ld);
  int col = static_cast<int>(i % split.ld);
  alignas(16) float sum[4] = {};
#pragma unroll 4
  for (int s = 0; s < split.splits; ++s) {
    alignas(16) float part[4];
    copy_vector<4>(part, sums + s * results + i);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum[v] += part[v];
    }
  }
  store_vector(g, row, col, sum, g.n - col, vector_width(g.C, g.ldc));
}

size_t split_workspace(const Gemm& g) {
  Split split = split_for(g);
  return split.splits > 1 ? sizeof(float) * split.splits * g.m * split.ld : 0;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  Split split = split_for(g);
  float* sums = static_cast<float*>(workspace);
  auto kernel = vector_width(g.B, g.ldb) == 4 ? sgemm_split_k<4> : sgemm_split_k<1>;
  dim3 grid = tile_grid(g, BM, BN);
  grid.x *= split.splits;
  cudaError_t error = launch(kernel, grid, dim3(THREADS), SHARED_BYTES, stream, g, split, sums);
  if (error != cudaSuccess || split.splits == 1) {
    return error;
  }
  int64_t vectors = g.m * split.ld / 4;
  return launch(add_splits, dim3(static_cast<unsigned>((vectors + 255) / 256)), dim3(256), 0, stream, g, split, sums);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, split_workspace)
