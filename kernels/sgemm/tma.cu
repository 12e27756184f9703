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
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert((WM & (WM - 1)) == 0 && (TM & (TM - 1)) == 0, "row numbers are taken apart by bits");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK == 8 || BK == 16 || BK == 32, "a row of A's tile is as wide as one of the engine's swizzles");
static_assert(BM <= 256 && BN <= 256, "a box of the engine has at most 256 elements in either direction");
static_assert(STAGE * 4 % 1024 == 0 && TILE_A * 4 % 1024 == 0, "swizzled boxes start at multiples of 1024 bytes");
static_assert(THREADS % BK == 0 && BM % (THREADS / BK) == 0, "whole rows of A's tile in a pass of single floats");
static_assert(BN % THREADS == 0 || (THREADS % BN == 0 && BK % (THREADS / BN) == 0), "whole rows of B's tile in a pass");
static_assert(STAGES >= 3, "one stage to multiply, one that has arrived, one on its way");

// By how much the swizzle moves the chunks of a row of A's tile: chunk c lies at c ^ swizzle(row).
__device__ constexpr int swizzle(int row) { return row * BK / 32 % CHUNKS; }

// With the engine, by one thread: both tiles of step t of the block's tile.
__device__ inline void copy_boxes(float* to, const CUtensorMap* map_A, const CUtensorMap* map_B, Tile tile, int t,
                                  uint64_t* full) {
  mbarrier_arrive_expect(full, STAGE * static_cast<int>(sizeof(float)));
  bulk_copy_box(to, map_A, tile.row, t * BK, full);
  bulk_copy_box(to + TILE_A, map_B, t * BK, tile.col, full);
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
  Tile tile = tile_of_block(g, BM, BN);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;

  // Without the engine, by all threads: a column of every ROWS_A-th row of A's tile, to where the engine would put it, and
  // a column of every ROWS_B-th row of B's.
  constexpr int ROWS_A = THREADS / BK;
  constexpr int COLS_B = THREADS < BN ? THREADS : BN;
  constexpr int ROWS_B = THREADS / COLS_B;
  static_assert(swizzle(ROWS_A) == 0, "the rows of a thread must have the same swizzle");
  int row_A = tid / BK;
  int p_A = tid % BK;
  int p_B = tid / COLS_B;
  int col_B = tid % COLS_B;
  auto copy_singles = [&](float* to, int t) {
    int k_left = g.k - t * BK;
    int rows_A = p_A < k_left ? rows_left - row_A : 0;
    const float* A = g.A + (tile.row + row_A) * g.lda + t * BK + p_A;
    float* to_A = to + row_A * BK + ((p_A / 4) ^ swizzle(row_A)) * 4 + p_A % 4;
#pragma unroll 4
    for (int i = 0; i < BM; i += ROWS_A) {
      copy_vector_async<1>(to_A + i * BK, A, i < rows_A);
      A += ROWS_A * g.lda;
    }
    const float* B = g.B + (static_cast<int64_t>(t) * BK + p_B) * g.ldb + tile.col + col_B;
    float* to_B = to + TILE_A + p_B * BN + col_B;
#pragma unroll 4
    for (int p = 0; p < BK; p += ROWS_B) {
#pragma unroll
      for (int c = 0; c < BN; c += COLS_B) {
        copy_vector_async<1>(to_B + p * BN + c, B + c, p_B + p < k_left && col_B + c < cols_left);
      }
      B += ROWS_B * g.ldb;
    }
  };

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
#pragma unroll 1
    for (int t = 0; t < STAGES - 1; ++t) {
      if (t < tiles) {
        copy_singles(shared + t * STAGE, t);
      }
      __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
  }

  int row = warp / (BN / WN) * WM + lane / (WN / TN);
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;
  // Chunk c of the thread's row i lies in a stage at ((c * 4) ^ at_A[i's swizzle]) + i * STEP_M * BK.
  int at_A = row * BK + swizzle(row) * 4;

  alignas(16) float frag_A[2][TM][4];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    copy_vector<4>(frag_A[0][i], shared + (at_A ^ swizzle(i * STEP_M) * 4) + i * STEP_M * BK);
  }
  lds_fragment_B(frag_B[0], shared + TILE_A + col);

  int stage = 0;
  int parity = 0;
  for (int t = 0; t < tiles; ++t) {
    float* now = shared + stage * STAGE;
    int done = stage;
    int before = stage > 0 ? stage - 1 : STAGES - 1;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    float* next = shared + stage * STAGE;
    bool more = t + 1 < tiles;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (p + 4 == BK && more) {
        // The stage before this one is refilled only now: the other warps had most of this tile's time to give it back.
        // From here on fragments of the next tile are loaded, too.
        int refill = t - 1 + STAGES;
        if constexpr (COPY_ENGINE) {
          if (tid == 0 && t > 0 && refill < tiles) {
            mbarrier_wait(&empty[before], (refill / STAGES - 1) % 2);
            copy_boxes(shared + before * STAGE, &map_A, &map_B, tile, refill, &full[before]);
          }
          parity ^= stage == 0;
          mbarrier_wait(&full[stage], parity);
        } else {
          __pipeline_wait_prior(STAGES - 3);
          __syncthreads();
          if (refill < tiles) {
            copy_singles(shared + before * STAGE, refill);
          }
          __pipeline_commit();
        }
      }
      // A's next chunk, TM / 4 rows in each of the 4 steps before it is needed.
      if (p + 4 < BK || more) {
        const float* tile_A = p + 4 < BK ? now : next;
#pragma unroll
        for (int i = p % 4 * (TM / 4); i < (p % 4 + 1) * (TM / 4); ++i) {
          int chunk = (p / 4 + 1) % CHUNKS;
          copy_vector<4>(frag_A[(p / 4 + 1) % 2][i],
                         tile_A + (at_A ^ (chunk ^ swizzle(i * STEP_M)) * 4) + i * STEP_M * BK);
        }
      }
      if (p + 1 < BK) {
        lds_fragment_B(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col);
      } else if (more) {
        if constexpr (COPY_ENGINE) {
          // All of this stage is in registers: the warp gives it back.
          __syncwarp();
          if (lane == 0) {
            mbarrier_arrive(&empty[done]);
          }
        }
        lds_fragment_B(frag_B[0], next + TILE_A + col);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += frag_A[p / 4 % 2][i][p % 4] * frag_B[p % 2][j];
        }
      }
    }
  }

  constexpr int WIDTH = COPY_ENGINE ? 4 : 1;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    int r = row + i * STEP_M;
    if (r >= rows_left) {
      break;
    }
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      int c = col + j / 4 * STEP_N;
      store_vector<WIDTH>(g, tile.row + r, tile.col + c, &sum[i][j], cols_left - c);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map_A = {};
  CUtensorMap map_B = {};
  dim3 grid = tile_grid(g, BM, BN);
  if (vector_width(g) == 4 && make_tensor_map(&map_A, g.A, g.m, g.k, g.lda, BM, BK, SWIZZLE_A) &&
      make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE)) {
    return launch(sgemm_tma<true>, grid, dim3(THREADS), SHARED_BYTES, stream, g, map_A, map_B);
  }
  return launch(sgemm_tma<false>, grid, dim3(THREADS), SHARED_BYTES, stream, g, map_A, map_B);
}

EXPORT_SGEMM(run)
