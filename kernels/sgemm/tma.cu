// tma: the bulk copy engine of compute capability 9.0 brings the tiles; one thread asks for them.
//
// Against `async_copy`: there every thread issues 12 copies a tile, with their addresses, and meets all others at a
// barrier. Here one thread asks for two boxes; the engine computes the addresses, fills what lies outside the matrices
// with zeros and counts the bytes that arrive on an mbarrier.
// - The warps only wait for a full stage and give it back with one arrival each. No warp waits for another: only the
//   thread that refills a stage waits until all have read it, and by then they have had one more tile's time to do so.
// - The engine cannot transpose. A's tile stays row by row, and a thread reads 4 steps of p of a row with one load: TM
//   loads for 4 steps, as many as before. A row of BK = 16 floats fills half of the banks, so the rows of a warp would
//   collide; the engine's 64-byte swizzle permutes the 16-byte chunks of a row by its number, which spreads them.
//   The fragments of A need no second buffer: a row's next 4 steps are loaded as soon as its last FMAs are issued.
//
// Limit: issue slots. Beside the 2048 FMAs of a tile stand its 96 shared loads and some 30 others.
//
// Where a matrix is not aligned to 16 bytes, or its leading dimension is no multiple of 4, the same kernel without the
// engine copies element by element with cp.async (COPY_ENGINE = false), as `async_copy` does.
//
// Occupancy: up to 255 registers a thread (128 sums, 64 of fragments), one block of 256 threads, 8 of an SM's 64 warps;
// 96 KiB of shared memory for 4 stages. (A producer warp of its own, the ninth, would leave 168 registers to each.)
#include <cuda_pipeline.h>

#include "bulk_copy.cuh"
#include "gemm.cuh"
#include "vector.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 16
#endif
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 16
#endif

constexpr int WARPS = (BM / WM) * (BN / WN);
constexpr int THREADS = WARPS * 32;
constexpr int STEP_M = WM / TM;        // rows between a thread's rows
constexpr int STEP_N = WN / (TN / 4);  // columns between a thread's vectors
constexpr int TILE_A = BM * BK;        // floats of a stage that hold A's tile, row by row; B's tile follows
constexpr int STAGE = TILE_A + BK * BN;
constexpr int CHUNKS = BK / 4;  // 16-byte chunks in a row of A's tile
constexpr CUtensorMapSwizzle SWIZZLE_A = BK == 8    ? CU_TENSOR_MAP_SWIZZLE_32B
                                         : BK == 16 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                    : CU_TENSOR_MAP_SWIZZLE_128B;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * STAGE;
static_assert(TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert((WM & (WM - 1)) == 0 && (TM & (TM - 1)) == 0, "row numbers are taken apart by bits");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK == 8 || BK == 16 || BK == 32, "a row of A's tile is as wide as one of the engine's swizzles");
static_assert(BM <= 256 && BN <= 256, "a box of the engine has at most 256 elements in either direction");
static_assert(STAGE * 4 % 1024 == 0 && TILE_A * 4 % 1024 == 0, "swizzled boxes start at multiples of 1024 bytes");
static_assert(THREADS % BK == 0 && BM % (THREADS / BK) == 0, "whole rows of A's tile in a pass of single floats");
static_assert(BN % THREADS == 0 || (THREADS % BN == 0 && BK % (THREADS / BN) == 0), "whole rows of B's tile in a pass");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

// The tile of this block: GROUP rows of tiles at a time, down their columns.
__device__ inline Tile grouped_tile(const Gemm& g) {
  unsigned tiles_m = ceil_div(g.m, BM);
  unsigned tiles_n = ceil_div(g.n, BN);
  unsigned first = blockIdx.x / (GROUP * tiles_n) * GROUP;
  unsigned rows = tiles_m - first < GROUP ? tiles_m - first : GROUP;
  unsigned i = blockIdx.x % (GROUP * tiles_n);
  return {static_cast<int>(first + i % rows) * BM, static_cast<int>(i / rows) * BN};
}

// By how much the swizzle moves the chunks of a row of A's tile: chunk c lies at c ^ swizzle(row).
__device__ constexpr int swizzle(int row) { return row * BK / 32 % CHUNKS; }

// With the engine, by one thread: both tiles of step t of the block's tile.
__device__ inline void copy_boxes(float* to, const CUtensorMap* map_A, const CUtensorMap* map_B, Tile tile, int t,
                                  uint64_t* full) {
  mbarrier_arrive_expect(full, STAGE * static_cast<int>(sizeof(float)));
  bulk_copy_box(to, map_A, tile.row, t * BK, full);
  bulk_copy_box(to + TILE_A, map_B, t * BK, tile.col, full);
}

// Without it, by all threads: every ROWS-th row of A's tile, to where the engine would put it. `rows_left` and `p_left`
// count the rows and columns that A has from this thread's first element on; a whole tile need not look at them.
__device__ inline void copy_tile_A(float* tile_A, const float* from, int64_t ld, int row, int p, bool whole,
                                   int rows_left, int p_left) {
  constexpr int ROWS = THREADS / BK;
  float* to = tile_A + row * BK + ((p / 4) ^ swizzle(row)) * 4 + p % 4;
  static_assert(swizzle(ROWS) == 0, "the rows of a thread must have the same swizzle");
  if (whole) {
#pragma unroll
    for (int i = 0; i < BM; i += ROWS) {
      __pipeline_memcpy_async(to + i * BK, from + i * ld, 4);
    }
  } else {
#pragma unroll
    for (int i = 0; i < BM; i += ROWS) {
      if (i < rows_left && 0 < p_left) {
        __pipeline_memcpy_async(to + i * BK, from + i * ld, 4);
      } else {
        to[i * BK] = 0.0f;
      }
    }
  }
}

// The same for B's tile.
__device__ inline void copy_tile_B(float* tile_B, const float* from, int64_t ld, int p, int col, bool whole, int p_left,
                                   int cols_left) {
  constexpr int COLS = THREADS < BN ? THREADS : BN;
  constexpr int ROWS = THREADS / COLS;
  float* to = tile_B + p * BN + col;
  if (whole) {
#pragma unroll
    for (int i = 0; i < BK; i += ROWS) {
#pragma unroll
      for (int c = 0; c < BN; c += COLS) {
        __pipeline_memcpy_async(to + i * BN + c, from + i * ld + c, 4);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < BK; i += ROWS) {
#pragma unroll
      for (int c = 0; c < BN; c += COLS) {
        if (i < p_left && c < cols_left) {
          __pipeline_memcpy_async(to + i * BN + c, from + i * ld + c, 4);
        } else {
          to[i * BN + c] = 0.0f;
        }
      }
    }
  }
}

// Shared memory to registers: the vectors of a thread in a row of B's tile.
__device__ inline void lds_fragment_B(float (&to)[TN], const float* from) {
#pragma unroll
  for (int j = 0; j < TN / 4; ++j) {
    copy_vector<4>(&to[4 * j], from + j * STEP_N);
  }
}

template <bool COPY_ENGINE>
__global__ void __launch_bounds__(THREADS)
    sgemm_tma(Gemm g, const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B) {
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[STAGES];   // the bytes of a stage have arrived
  __shared__ uint64_t empty[STAGES];  // every warp has read them
  Tile tile = grouped_tile(g);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;

  // The first elements that this thread copies without the engine.
  bool inside = rows_left >= BM && cols_left >= BN;
  int row_A = tid / BK;
  int p_A = tid % BK;
  int p_B = tid / BN;
  int col_B = tid % BN;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  int tiles = ceil_div(g.k, BK);
  if constexpr (COPY_ENGINE) {
    if (tid == 0) {
      for (int stage = 0; stage < STAGES; ++stage) {
        mbarrier_init(&full[stage], 1);
        mbarrier_init(&empty[stage], WARPS);
      }
      mbarrier_init_fence();
      for (int t = 0; t < STAGES && t < tiles; ++t) {
        copy_boxes(shared + t * STAGE, &map_A, &map_B, tile, t, &full[t]);
      }
    }
    __syncthreads();
    mbarrier_wait(&full[0], 0);
  } else {
    for (int t = 0; t < STAGES; ++t) {
      if (t < tiles) {
        int k_left = g.k - t * BK;
        bool whole = inside && k_left >= BK;
        float* to = shared + t * STAGE;
        copy_tile_A(to, A, g.lda, row_A, p_A, whole, rows_left - row_A, k_left - p_A);
        copy_tile_B(to + TILE_A, B, g.ldb, p_B, col_B, whole, k_left - p_B, cols_left - col_B);
        A += BK;
        B += BK * g.ldb;
      }
      __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 1);
    __syncthreads();
  }

  int row = warp / (BN / WN) * WM + lane / (WN / TN);
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;
  // Where a stage holds chunk c of the thread's row i: at_A[c ^ swizzle(i * STEP_M)] + i * STEP_M * BK.
  int at_A[CHUNKS];
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    at_A[c] = row * BK + (c ^ swizzle(row)) * 4;
  }

  alignas(16) float frag_A[TM][4];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    copy_vector<4>(frag_A[i], shared + at_A[swizzle(i * STEP_M)] + i * STEP_M * BK);
  }
  lds_fragment_B(frag_B[0], shared + TILE_A + col);

  int stage = 0;
  int parity = 0;
  for (int t = 0; t < tiles; ++t) {
    float* now = shared + stage * STAGE;
    float* next = now;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 1 < BK) {
        lds_fragment_B(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col);
      } else if (t + 1 < tiles) {
        // All of this stage is in registers: give it back, and go on with the next one.
        int done = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = shared + stage * STAGE;
        if constexpr (COPY_ENGINE) {
          __syncwarp();
          if (lane == 0) {
            mbarrier_arrive(&empty[done]);
          }
          // The stage before this one is refilled only now: the other warps had this tile's time to finish with it.
          int refill = t - 1 + STAGES;
          if (tid == 0 && t > 0 && refill < tiles) {
            int before = refill % STAGES;
            mbarrier_wait(&empty[before], (refill / STAGES - 1) % 2);
            copy_boxes(shared + before * STAGE, &map_A, &map_B, tile, refill, &full[before]);
          }
          parity ^= stage == 0;
          mbarrier_wait(&full[stage], parity);
        } else {
          __pipeline_wait_prior(STAGES - 2);
          __syncthreads();
          if (t + STAGES < tiles) {
            int k_left = g.k - (t + STAGES) * BK;
            bool whole = inside && k_left >= BK;
            copy_tile_A(now, A, g.lda, row_A, p_A, whole, rows_left - row_A, k_left - p_A);
            copy_tile_B(now + TILE_A, B, g.ldb, p_B, col_B, whole, k_left - p_B, cols_left - col_B);
            A += BK;
            B += BK * g.ldb;
          }
          __pipeline_commit();
        }
        lds_fragment_B(frag_B[0], next + TILE_A + col);
      }
      const float* tile_A = p + 1 < BK ? now : next;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += frag_A[i][p % 4] * frag_B[p % 2][j];
        }
        if (p % 4 == 3) {
          copy_vector<4>(frag_A[i], tile_A + at_A[(p / 4 + 1) % CHUNKS ^ swizzle(i * STEP_M)] + i * STEP_M * BK);
        }
      }
    }
  }

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    int r = row + i * STEP_M;
    if (r >= rows_left) {
      break;
    }
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      int c = col + j / 4 * STEP_N;
      store_vector(g, tile.row + r, tile.col + c, &sum[i][j], 0, cols_left - c, width_C);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map_A = {};
  CUtensorMap map_B = {};
  dim3 grid = tile_grid(g, BM, BN);
  if (make_tensor_map(&map_A, g.A, g.m, g.k, g.lda, BM, BK, SWIZZLE_A) &&
      make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE)) {
    return launch(sgemm_tma<true>, grid, dim3(THREADS), SHARED_BYTES, stream, g, map_A, map_B);
  }
  return launch(sgemm_tma<false>, grid, dim3(THREADS), SHARED_BYTES, stream, g, map_A, map_B);
}

EXPORT_SGEMM(run)
