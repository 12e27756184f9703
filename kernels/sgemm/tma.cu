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
#include "store_tile.cuh"
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
constexpr size_t SHARED_BYTES = sizeof(float) * STAGES * BK * (PITCH_A + BN);
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32, "32 thread tiles must cover the warp tile");
static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
static_assert(THREADS == 256, "setmaxnreg shares an SM's registers out among 256 + 128 threads");
static_assert(BK <= 256 && BN <= 256, "a box of the engine has at most 256 elements in either direction");
static_assert(BK * PITCH_A * 4 % 128 == 0 && BK * BN * 4 % 128 == 0,
              "the engine's boxes start at multiples of 128 bytes");
static_assert(BK % 8 == 0 && BM % (COPIERS / 8) == 0 && BM % (THREADS / 8) == 0,
              "whole rows of A's tile in a pass, 8 steps of p at a time");
static_assert(THREADS * 4 % BN == 0 && BK % (THREADS * 4 / BN) == 0, "whole rows of B's tile in a pass");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

template <bool INSIDE, int WIDTH>
__global__ void __launch_bounds__(WIDTH == 4 ? THREADS + COPIERS : THREADS, 1)
    sgemm_tma(Gemm g, const __grid_constant__ CUtensorMap map_B) {
  constexpr bool ENGINE = WIDTH == 4;
  auto tile_A = dynamic_shared<float[BK][PITCH_A]>();  // transposed
  auto tile_B = reinterpret_cast<float (*)[BK][BN]>(tile_A + STAGES);
  __shared__ uint64_t full[STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[STAGES];  // every thread that multiplies has read it
  Tile tile = whole_tile(g, tile_of_block(g, BM, BN, GROUP), BM, BN, WIDTH);
  int rows_left = g.m - tile.row;
  int cols_left = g.n - tile.col;
  int tid = threadIdx.x;
  int warp = tid / 32;
  int lane = tid % 32;
  int row = warp / (BN / WN) * WM + lane / (WN / TN) * 4;  // of the thread's first vector
  int col = warp % (BN / WN) * WN + lane % (WN / TN) * 4;

  // What this thread copies of either tile: of A every 8th element of a row, of B 4 elements, neighbours if by vector, else
  // STEP apart; and the rows that all threads copy in one pass. A warp copies 4 rows of A by 8 steps of p: whole sectors of
  // global memory, 32 different banks of shared memory.
  constexpr int STEP_A = 8;
  constexpr int STEP_B = WIDTH == 4 ? 1 : BN / 4;
  constexpr int ROWS_A = (ENGINE ? COPIERS : THREADS) / 8;
  constexpr int ROWS_B = THREADS * 4 / BN;
  int copier = ENGINE ? tid - THREADS : tid;
  int row_A = copier / 8;
  int p_A = copier % 8;
  int p_B = tid / (BN / 4);
  int col_B = tid % (BN / 4) * WIDTH;
  const float* A = g.A + (tile.row + row_A) * g.lda + p_A;
  const float* B = g.B + p_B * g.ldb + tile.col + col_B;

  float sum[TM][TN] = {};
  auto copy_A = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < BK / 8; ++v) {
        bool there = whole || (row_A + i * ROWS_A < rows_left && p_A + v * STEP_A < k_left);
        __pipeline_memcpy_async(&tile_A[stage][p_A + v * STEP_A][row_A + i * ROWS_A],
                                A + i * ROWS_A * g.lda + v * STEP_A, 4, there ? 0 : 4);
      }
    }
    A += k_left;
  };
  auto copy_B = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        bool there = whole || (p_B + i * ROWS_B < k_left && col_B + v * STEP_B < cols_left);
        __pipeline_memcpy_async(&tile_B[stage][p_B + i * ROWS_B][col_B + v * STEP_B],
                                B + i * ROWS_B * g.ldb + v * STEP_B, 4 * WIDTH, there ? 0 : 4 * WIDTH);
      }
    }
    B += k_left * g.ldb;
  };

  // The first tile is the short one.
  int tiles = ceil_div(g.k, BK);
  int first = g.k - (tiles - 1) * BK;
  if (ENGINE && tid == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], COPIERS + 1);
      mbarrier_init(&empty[stage], THREADS);
    }
    mbarrier_init_fence();
  }
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    if (!ENGINE && stage < tiles) {
      copy_A(stage, INSIDE && stage > 0, stage > 0 ? BK : first);
      copy_B(stage, INSIDE && stage > 0, stage > 0 ? BK : first);
    }
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 1);
  __syncthreads();

  if constexpr (ENGINE) {
    if (tid >= THREADS) {
      give_registers<24>();
      int stage = 0;
      int parity = 1;
      for (int k_left = g.k; k_left > 0; k_left -= BK) {
        mbarrier_wait(&empty[stage], parity);
        if (copier == 0) {
          mbarrier_arrive_expect(&full[stage], BK * BN * 4);
          bulk_copy_box(tile_B[stage], &map_B, g.k - k_left, tile.col, &full[stage]);
        }
        if (k_left >= BK) {
          copy_A(stage, INSIDE, BK);
        } else {
          copy_A(stage, false, k_left);
        }
        mbarrier_arrive_copies(&full[stage]);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
      }
      __pipeline_commit();
      __pipeline_wait_prior(0);
      return;
    }
    take_registers<240>();
    mbarrier_wait(&full[0], 0);
  }

  alignas(16) float frag_A[2][TM];
  alignas(16) float frag_B[2][TN];
  load_fragment(frag_A[0], &tile_A[0][0][row], STEP_M);
  load_fragment(frag_B[0], &tile_B[0][0][col], STEP_N);

  int next = 0;
  int parity = 0;
  bool ready = false;  // is the next stage full?
  for (; tiles > 0; --tiles) {
    int now = next;
    next = next + 1 < STAGES ? next + 1 : 0;
    parity ^= next == 0;
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      if (ENGINE && p == BK - 3) {
        ready = mbarrier_test(&full[next], parity);
      }
      if (p + 1 < BK) {
        load_fragment(frag_A[(p + 1) % 2], &tile_A[now][p + 1][row], STEP_M);
        load_fragment(frag_B[(p + 1) % 2], &tile_B[now][p + 1][col], STEP_N);
      } else if (tiles > 1) {
        if constexpr (ENGINE) {
          if (!ready) {
            mbarrier_wait(&full[next], parity);
          }
        } else {
          __pipeline_wait_prior(STAGES - 2);
          __syncthreads();
        }
        load_fragment(frag_A[0], &tile_A[next][0][row], STEP_M);
        load_fragment(frag_B[0], &tile_B[next][0][col], STEP_N);
        if (!ENGINE && tiles > STAGES) {
          copy_A(now, INSIDE, BK);
          copy_B(now, INSIDE, BK);
        }
        if (!ENGINE) {
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
    if (ENGINE && tiles > 1) {
      mbarrier_arrive(&empty[now]);
    }
  }

  // A tile that began earlier stores only what is this block's own.
  Tile own = {ceil_div(tile.row, BM) * BM, ceil_div(tile.col, BN) * BN};
  store_tile<BM, BN, STEP_M, STEP_N>(g, tile, own, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  bool inside = g.m >= BM && g.n >= BN;
  CUtensorMap map_B = {};
  // The last tile of a row begins at n - BN, and a box has to begin at a multiple of 16 bytes.
  bool engine =
      (!inside || g.n % 4 == 0) && make_tensor_map(&map_B, g.B, g.k, g.n, g.ldb, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE);
  auto inner = engine ? sgemm_tma<true, 4> : sgemm_tma<true, 1>;
  auto outer = engine ? sgemm_tma<false, 4> : sgemm_tma<false, 1>;
  return launch(inside ? inner : outer, tile_grid(g, BM, BN), dim3(engine ? THREADS + COPIERS : THREADS), SHARED_BYTES,
                stream, g, map_B);
}

EXPORT_SGEMM(run)
