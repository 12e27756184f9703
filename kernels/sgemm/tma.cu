// tma: the bulk copy engine of compute capability 9.0 brings B's tiles, and warps of their own do the copying.
//
// Against `async_copy`, whose warps copy, multiply and meet at a barrier after every tile:
// - Four more warps, the copiers, do nothing but copy. One thread asks the engine for a box of B: the engine computes
//   the addresses, fills what lies outside the matrix with zeros and counts the bytes that arrive on an mbarrier. The
//   engine cannot transpose, so A's elements are still copied one by one, by cp.async, and arrive on the same barrier.
// - The 8 warps that multiply only wait for a full stage and give it back; none waits for another. Whether the next stage
//   is full they ask three steps before they need it. Every thread gives back by an arrival of its own: one of a lane for
//   its warp is a percent faster, but racecheck cannot follow it (docs/checking.md), and nothing else can look for races
//   here.
// - setmaxnreg moves registers from the copiers to those that multiply: 24 and 240, where 12 equal warps have 168. That
//   is room for 8 x 16 results a thread: 6 shared loads of 16 bytes for 128 FMAs instead of 4 for 64.
//
// Limit: issue slots. Copies leave the loop, no warp stands still at a barrier, and the shared loads of a step take 4.5
// % of the slots instead of 6: 94 % are FMAs instead of 89 %. The tile of 128 x 256 has an intensity of 43 FLOP for
// each byte from global memory instead of 21. It also is what small products lack: of 1024 x 1024 there are 32, for 132
// SMs. There the tile of 128 x 64 that tuning finds is three times as fast, and below, where it too leaves SMs idle,
// `split_k` helps.
//
// Bringing A by the engine too, row by row with its 64-byte swizzle, was slower than `async_copy`
// (docs/performance.md): a thread then reads 4 steps of p of a row at once, and the FMAs met more conflicts between
// register banks.
//
// Where B is not aligned to 16 bytes, or its leading dimension or n is no multiple of 4, the engine cannot read it, and
// the kernel does without (COPY_ENGINE = false): what remains is `async_copy` with copies of 4 bytes.
//
// Occupancy: one block of 384 threads, 12 of an SM's 64 warps; 97 KiB of shared memory for 4 stages.
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

constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int COPIERS = 128;           // threads that only copy
constexpr int PITCH_A = BM + 4;        // keeps the transposing copies of A off each other's banks
constexpr int STEP_M = WM / (TM / 4);  // rows between a thread's vectors
constexpr int STEP_N = WN / (TN / 4);  // columns between them
constexpr int TILE_A = BK * PITCH_A;   // floats of a stage that hold A's tile, transposed; B's tile follows
constexpr int STAGE = TILE_A + BK * BN;
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * STAGE;
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(THREADS == 256, "setmaxnreg shares an SM's registers out among 256 + 128 threads");
static_assert(BK <= 256 && BN <= 256, "a box of the engine has at most 256 elements in either direction");
static_assert(STAGE * 4 % 128 == 0 && TILE_A * 4 % 128 == 0, "the engine's boxes start at multiples of 128 bytes");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert(BK % 8 == 0 && BM % (COPIERS / 8) == 0 && BM % (THREADS / 8) == 0,
              "whole rows of A's tile in a pass, 8 steps of p at a time");
static_assert(BN % THREADS == 0 || THREADS % BN == 0, "whole rows of B's tile in a pass of single floats");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

// Global to shared memory in the background: every ROWS-th row of A's tile, every 8th step of p, by
// COPYING threads. Zeros stand for rows from
// `rows_left` on (not looked at where INSIDE) and for steps before `p_first`; both count from this thread's first element.
template <bool INSIDE, int COPYING>
__device__ inline void copy_tile_A(float* to, const float* from, int64_t ld, int rows_left, int p_first) {
  constexpr int ROWS = COPYING / 8;
#pragma unroll
  for (int i = 0; i < BM; i += ROWS) {
#pragma unroll
    for (int p = 0; p < BK; p += 8) {
      bool there = (INSIDE || i < rows_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * PITCH_A + i, from + i * ld + p, 4, there ? 0 : 4);
    }
  }
}

// The same for B's tile, by all threads that multiply.
template <bool INSIDE>
__device__ inline void copy_tile_B(float* to, const float* from, int64_t ld, int cols_left, int p_first) {
  constexpr int COLS = THREADS < BN ? THREADS : BN;
  constexpr int ROWS = THREADS / COLS;
#pragma unroll
  for (int p = 0; p < BK; p += ROWS) {
#pragma unroll
    for (int c = 0; c < BN; c += COLS) {
      bool there = (INSIDE || c < cols_left) && p >= p_first;
      __pipeline_memcpy_async(to + p * BN + c, from + p * ld + c, 4, there ? 0 : 4);
    }
  }
}

// Whether neither C's rows nor its columns are fewer than a tile's.
__host__ __device__ inline bool is_inside(const Gemm& g) { return g.m >= BM && g.n >= BN; }

// INSIDE is `is_inside`; without the engine that is asked at run time.
template <bool COPY_ENGINE, bool INSIDE = false>
__global__ void __launch_bounds__(COPY_ENGINE ? THREADS + COPIERS : THREADS, 1)
    sgemm_tma(Gemm g, const __grid_constant__ CUtensorMap map_B) {
  float* shared = dynamic_shared<float>();
  __shared__ uint64_t full[STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[STAGES];  // every thread that multiplies has read it
  // The engine's boxes begin at multiples of 16 bytes, as vectors do.
  Tile tile = whole_tile(g, tile_of_block(g, BM, BN, GROUP), BM, BN, COPY_ENGINE ? 4 : 1);
  bool inside = is_inside(g);
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int tiles = ceil_div(g.k, BK);
  int missing = tiles * BK - g.k;

  // The first elements that this thread copies. A warp copies 4 rows of A by 8 steps of p: whole sectors of global
  // memory, 32 different banks of shared memory. The first tile begins `missing` steps before the matrices do.
  int copier = COPY_ENGINE ? tid - THREADS : tid;
  int row_A = copier / 8;
  int p_A = copier % 8;
  const float* A = g.A + (tile.row + row_A) * g.lda + (p_A - missing);
  float* to_A = shared + p_A * PITCH_A + row_A;
  int rows_left = g.m - tile.row - row_A;
  int p_B = tid / BN;
  int col_B = tid % BN;
  const float* B = g.B + (p_B - missing) * g.ldb + tile.col + col_B;
  float* to_B = shared + TILE_A + p_B * BN + col_B;
  int cols_left = g.n - tile.col - col_B;
  auto copy_tiles = [&](int stage, int p_first_A, int p_first_B) {
    if (inside) {
      copy_tile_A<true, THREADS>(to_A + stage, A, g.lda, rows_left, p_first_A);
      copy_tile_B<true>(to_B + stage, B, g.ldb, cols_left, p_first_B);
    } else {
      copy_tile_A<false, THREADS>(to_A + stage, A, g.lda, rows_left, p_first_A);
      copy_tile_B<false>(to_B + stage, B, g.ldb, cols_left, p_first_B);
    }
  };

  if constexpr (COPY_ENGINE) {
    if (tid == 0) {
      for (int stage = 0; stage < STAGES; ++stage) {
        mbarrier_init(&full[stage], COPIERS + 1);
        mbarrier_init(&empty[stage], THREADS);
      }
      mbarrier_init_fence();
    }
    __syncthreads();
    if (tid >= THREADS) {
      give_registers<24>();
      int stage = 0;
      int parity = 1;
      for (int t = 0; t < tiles; ++t) {
        mbarrier_wait(&empty[stage], parity);
        if (copier == 0) {
          mbarrier_arrive_expect(&full[stage], BK * BN * 4);
          bulk_copy_box(shared + stage * STAGE + TILE_A, &map_B, t * BK - missing, tile.col, &full[stage]);
        }
        copy_tile_A<INSIDE, COPIERS>(to_A + stage * STAGE, A, g.lda, rows_left, t == 0 ? missing - p_A : -BK);
        mbarrier_arrive_copies(&full[stage]);
        A += BK;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
      }
      __pipeline_commit();
      __pipeline_wait_prior(0);
      return;
    }
    take_registers<240>();
    mbarrier_wait(&full[0], 0);
  } else {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      if (stage < tiles) {
        int p_first = stage == 0 ? missing : 0;
        copy_tiles(stage * STAGE, p_first - p_A, p_first - p_B);
        A += BK;
        B += BK * g.ldb;
      }
      __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 1);
    __syncthreads();
  }

  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;
  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  float sum[TM][TN] = {};
  load_fragment(frag_A[0], shared + row, STEP_M);
  load_fragment(frag_B[0], shared + TILE_A + col, STEP_N);

  int stage = 0;
  int parity = 0;
  bool ready = false;  // is the next stage full?
  for (; tiles > 0; --tiles) {
    int at = stage * STAGE;
    float* now = shared + at;
    uint64_t* done = &empty[stage];
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    parity ^= stage == 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (COPY_ENGINE && p == BK - 3) {
        ready = mbarrier_test(&full[stage], parity);
      }
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], now + (p + 1) * PITCH_A + row, STEP_M);
        load_fragment(frag_B[(p + 1) % 2], now + TILE_A + (p + 1) * BN + col, STEP_N);
      } else if (tiles > 1) {
        if constexpr (COPY_ENGINE) {
          if (!ready) {
            mbarrier_wait(&full[stage], parity);
          }
        } else {
          __pipeline_wait_prior(STAGES - 2);
          __syncthreads();
        }
        load_fragment(frag_A[0], shared + stage * STAGE + row, STEP_M);
        load_fragment(frag_B[0], shared + stage * STAGE + TILE_A + col, STEP_N);
        if constexpr (!COPY_ENGINE) {
          if (tiles > STAGES) {
            copy_tiles(at, -BK, -BK);
            A += BK;
            B += BK * g.ldb;
          }
          __pipeline_commit();
        }
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
    // The stage is given back only now: what was read from it has been multiplied, so it has surely arrived.
    if constexpr (COPY_ENGINE) {
      if (tiles > 1) {
        mbarrier_arrive(done);
      }
    }
  }

  // A tile that began earlier stores only what is this block's own.
  int own_row = ceil_div(tile.row, BM) * BM;
  int own_col = ceil_div(tile.col, BN) * BN;
  int width_C = vector_width(g.C + tile.col, g.ldc);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    int r = tile.row + row + i / 4 * STEP_M + i % 4;
    if (own_row <= r && r < g.m) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        int c = tile.col + col + j / 4 * STEP_N;
        store_vector(g, r, c, &sum[i][j], own_col - c, g.n - c, width_C);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  CUtensorMap map_B = {};
  bool inside = is_inside(g);
  // The last tile of a row begins at n - BN, and a box has to begin at a multiple of 16 bytes.
  bool engine =
      (!inside || g.n % 4 == 0) && make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE);
  auto with_engine = inside ? sgemm_tma<true, true> : sgemm_tma<true, false>;
  auto without = sgemm_tma<false>;
  return launch(engine ? with_engine : without, tile_grid(g, BM, BN), dim3(engine ? THREADS + COPIERS : THREADS),
                SHARED_BYTES, stream, g, map_B);
}

EXPORT_SGEMM(run)
