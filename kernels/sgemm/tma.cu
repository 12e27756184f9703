// tma: the bulk copy engine of compute capability 9.0 (TMA) brings B's tiles, and warps of their own do the copying.
//
// Against `async_copy`, whose warps copy, multiply and meet at a barrier after every tile:
// - Four more warps, the copiers, do nothing but copy. One of their threads asks the engine for a box of B. The engine
//   computes the addresses, fills what lies outside B with zeros, and counts the bytes that arrive on an mbarrier.
// - The engine cannot transpose. So the copiers copy A's elements one by one, by cp.async, and these copies arrive on
//   the same mbarrier.
// - The warps that multiply wait until a stage is full and give it back when they have read it. No warp waits for
//   another. They ask whether the next stage is full three steps of p before they need it. Every thread gives back by
//   an arrival of its own, because racecheck cannot follow one arrival for a warp (docs/checking.md), and no other tool
//   looks for races here.
// - setmaxnreg moves registers from the copiers, which keep 24 each, to the 8 warps that multiply, which get 240.
//   Without it each thread of 12 warps would have 168. So a thread can have 8 x 16 results.
//
// Limit: issue slots. The copies leave the loop of the warps that multiply, no barrier holds them up, and 8 x 16
// results take fewer shared loads for each FMA.
//
// Cost: one block fills an SM. Small products have too few tiles of 128 x 256 for all SMs, so smaller tiles are tuned
// for them. `split_k` is the rung for products that have too few tiles of any size.
//
// The engine reads B only where B is aligned to 16 bytes and its leading dimension is a multiple of 4. And n has to be
// a multiple of 4 too, because the last tile of a row begins at n - BN. Elsewhere the kernel has no engine and no
// copiers (WIDTH = 1): what remains is `async_copy` with copies of 4 bytes. Its first tile of k is the short one. With
// the engine it is the last, because the engine fills with zeros only what lies outside B.
//
// Builds on sm_90a, written by tools/header_figures.py. Of a block: tile, threads, KiB of shared memory. Of a thread:
// its tile and registers. Of an SM: the blocks and warps that it holds. FLOP/B: for a byte of global memory. Of the
// inner loop's code: shared loads (LDS) for each multiply-add (FFMA), and the share of multiply-adds.
//
// | build  | tile           | thread | threads | registers | KiB  | blocks | warps    | FLOP/B | LDS/FFMA | FFMA   |
// | ------ | -------------- | ------ | ------- | --------- | ---- | ------ | -------- | ------ | -------- | ------ |
// | before | 64 x 256 x 16  | 8 x 8  | 256     | 126       | 81.0 | 2      | 16 of 64 | 25.6   | 0.0654   | 89.2 % |
// | 1024   | 128 x 64 x 16  | 8 x 4  | 384     | 168       | 50.0 | 1      | 12 of 64 | 21.33  | 0.0938   | 86.2 % |
// | 4096   | 128 x 256 x 16 | 8 x 16 | 384     | 168       | 98.0 | 1      | 12 of 64 | 42.67  | 0.0469   | 93.8 % |
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
  constexpr bool ENGINE = WIDTH == 4;                  // the engine copies B
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

  // What this thread copies of either tile: of A every 8th element of a row, of B 4 elements of a row, neighbours if by
  // vector, else STEP apart; and the rows that all threads copy in one pass. A warp copies 4 rows of A by 8 steps of p:
  // whole sectors of global memory, 32 different banks of shared memory.
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

  // The next tile of A or B from global to shared memory in the background. It has `k_left` steps of k. Zeros stand for
  // the other steps and for what lies outside C. A `whole` tile has all steps and lies inside C.
  auto copy_A = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BM / ROWS_A; ++i) {
#pragma unroll
      for (int v = 0; v < BK / 8; ++v) {
        bool exists = whole || (row_A + i * ROWS_A < rows_left && p_A + v * STEP_A < k_left);
        __pipeline_memcpy_async(&tile_A[stage][p_A + v * STEP_A][row_A + i * ROWS_A],
                                A + i * ROWS_A * g.lda + v * STEP_A, 4, exists ? 0 : 4);
      }
    }
    A += k_left;
  };
  auto copy_B = [&](int stage, bool whole, int k_left) {
#pragma unroll
    for (int i = 0; i < BK / ROWS_B; ++i) {
#pragma unroll
      for (int v = 0; v < 4; v += WIDTH) {
        bool exists = whole || (p_B + i * ROWS_B < k_left && col_B + v * STEP_B < cols_left);
        __pipeline_memcpy_async(&tile_B[stage][p_B + i * ROWS_B][col_B + v * STEP_B],
                                B + i * ROWS_B * g.ldb + v * STEP_B, 4 * WIDTH, exists ? 0 : 4 * WIDTH);
      }
    }
    B += k_left * g.ldb;
  };

  // Without the engine the first tile is the short one.
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

  // With the engine the last tile is the short one.
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

  // The FMAs go along a row of results and back along the next, so that at a row's end the element of B stays where it is.
  // This beginning, and loading B before A, left the fewest conflicts between register banks in SASS.
  constexpr bool FORTH_FIRST = ENGINE || TN < 16;
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
        load_fragment(frag_B[(p + 1) % 2], &tile_B[now][p + 1][col], STEP_N);
        load_fragment(frag_A[(p + 1) % 2], &tile_A[now][p + 1][row], STEP_M);
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
          int c = (i % 2 == 0) == FORTH_FIRST ? j : TN - 1 - j;
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
