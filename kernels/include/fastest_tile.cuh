// How a block of `fastest` lays out a tile: which results each thread has, how it multiplies, and how it stores them to
// C.
#pragma once

#include "gemm.cuh"
#include "vector.cuh"

// How a block computes a tile of BM x BN results, BK steps of k at a time.
template <int BM_, int BN_, int BK_, int STAGES_, int TM_, int TN_, int WM_, int WN_, int BLOCKS_ = 1, int GROUPS_ = 1>
struct Tiling {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_;
  static constexpr int TM = TM_, TN = TN_;  // results of a thread
  static constexpr int WM = WM_, WN = WN_;  // and of a warp
  static constexpr int BLOCKS = BLOCKS_;    // that an SM holds
  static constexpr int GROUPS = GROUPS_;    // of warps; each covers the tile and multiplies every GROUPS-th stage
  static constexpr int GROUP_THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int THREADS = GROUPS * GROUP_THREADS;  // that multiply
  static constexpr int PITCH_A = BM + 4;                  // the transposing stores of A go to different banks
  static constexpr int STEP_M = WM / (TM / 4);            // rows between a thread's vectors
  static constexpr int STEP_N = WN / (TN / 4);            // columns between them
  static constexpr int TILE_A = BK * PITCH_A;  // floats of a stage that hold A's tile, transposed; B's tile follows
  static constexpr int STAGE = TILE_A + BK * BN;
  static constexpr int VECTORS = TM * TN / 4;                     // of results of a thread
  static constexpr int SUMS = GROUPS > 1 ? GROUPS * BM * BN : 0;  // floats of the groups' sums, which reuse the stages
  static constexpr int RING = STAGES * STAGE > SUMS ? STAGES * STAGE : SUMS;
  // Where rows of C are not aligned, results leave through shared memory (store_unaligned), of each warp one row of each
  // thread at a time. Threads that store vectors together meet in different banks.
  static constexpr int LANES_N = WN / TN;  // beside each other in a row
  static constexpr int STAGED_ROWS = 32 / LANES_N;
  static constexpr int STAGED_PITCH = WN + (LANES_N < 8 && WN % 32 == 0 ? 16 : 0);
  static constexpr int STAGED = THREADS / 32 * STAGED_ROWS * STAGED_PITCH;
  static_assert(STAGED <= RING, "the results of a block that copies no next tile meanwhile have room in its stages");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile must consist of whole vectors");
  static_assert(WM % TM == 0 && WN % TN == 0 && (WM / TM) * (WN / TN) == 32,
                "32 thread tiles must cover the warp tile");
  static_assert(BM % WM == 0 && BN % WN == 0, "the warp tiles must cover the block tile");
  static_assert(STAGES % GROUPS == 0, "a group must always meet the same stages");

  // The first row and column of a thread in its block's tile.
  static __device__ int row_of(int thread) {
    return thread % GROUP_THREADS / 32 / (BN / WN) * WM + thread % 32 / (WN / TN) * 4;
  }
  static __device__ int col_of(int thread) {
    return thread % GROUP_THREADS / 32 % (BN / WN) * WN + thread % 32 % (WN / TN) * 4;
  }
  // From there, its row i, and the first of its columns j .. j + 3.
  static __device__ constexpr int row(int i) { return i / 4 * STEP_M + i % 4; }
  static __device__ constexpr int col(int j) { return j / 4 * STEP_N; }
};

// Shared memory to registers: the vectors of a thread in a row of a tile, `step` floats apart.
template <int LENGTH>
__device__ inline void lds_fragment(float (&to)[LENGTH], const float* from, int step) {
#pragma unroll
  for (int i = 0; i < LENGTH / 4; ++i) {
    copy_vector<4>(&to[4 * i], from + i * step);
  }
}

// sum += a column of A times a row of B. The FMAs go along a row of results and back along the next, so that an element
// of A stays in the reuse cache for TN FMAs and an element of B for two at each turn. This beginning left the fewest
// conflicts between register banks in SASS.
template <int TM, int TN>
__device__ inline void add_outer_product(const float (&frag_A)[TM], const float (&frag_B)[TN], float (&sum)[TM][TN]) {
#pragma unroll
  for (int i = TM - 1; i >= 0; --i) {
#pragma unroll
    for (int turn = 0; turn < TN; ++turn) {
      int j = (i % 2 == 0) == (TN > 4) ? turn : TN - 1 - turn;
      sum[i][j] += frag_A[i] * frag_B[j];
    }
  }
}

// The same number. What derives from it is computed from here on: else the compiler does so before the main loop, which then
// lacks the registers.
__device__ inline int needed_from_here(int number) {
  return __shfl_sync(0xFFFFFFFF, number, static_cast<int>(threadIdx.x % 32));
}

// Stores row i of the results of each thread of a warp where rows of C are not aligned: through shared memory, so that
// neighbouring lanes store neighbouring columns. `staged` has room for STAGED floats.
template <class T>
__device__ inline void store_unaligned(const Gemm& g, Tile tile, float* staged, int thread, int i,
                                       const float (&sum)[T::TN]) {
  constexpr int COLS = T::WN < 32 ? T::WN : 32;  // that the lanes store at a time
  constexpr int ROWS = 32 / COLS;
  int lane = thread % 32, first = thread - lane;
  staged += first / 32 * (T::STAGED_ROWS * T::STAGED_PITCH);
  float* own = staged + lane / T::LANES_N * T::STAGED_PITCH + lane % T::LANES_N * 4;
  __syncwarp();  // the row before has been read
#pragma unroll
  for (int j = 0; j < T::TN; j += 4) {
    *reinterpret_cast<float4*>(own + T::col(j)) =
        float4{g.alpha * sum[j], g.alpha * sum[j + 1], g.alpha * sum[j + 2], g.alpha * sum[j + 3]};
  }
  __syncwarp();
  // The rows that stand in shared memory are four apart in the tile.
  int row = tile.row + T::row_of(first) + T::row(i) + lane / COLS * 4;
  int col = tile.col + T::col_of(first) + lane % COLS;
  float* C = g.C + row * g.ldc + col;
  const float* from = staged + lane / COLS * T::STAGED_PITCH + lane % COLS;
  float old[T::STAGED_ROWS / ROWS][T::WN / COLS];  // all on their way before the first result is stored
#pragma unroll
  for (int r = 0; r < T::STAGED_ROWS / ROWS; ++r) {
#pragma unroll
    for (int c = 0; c < T::WN / COLS; ++c) {
      bool read = g.beta != 0.0f && row + 4 * ROWS * r < g.m && col + COLS * c < g.n;
      old[r][c] = read ? C[4 * ROWS * r * g.ldc + COLS * c] : 0.0f;
    }
  }
#pragma unroll
  for (int r = 0; r < T::STAGED_ROWS / ROWS; ++r) {
#pragma unroll
    for (int c = 0; c < T::WN / COLS; ++c) {
      if (row + 4 * ROWS * r < g.m && col + COLS * c < g.n) {
        C[4 * ROWS * r * g.ldc + COLS * c] = from[ROWS * r * T::STAGED_PITCH + COLS * c] + g.beta * old[r][c];
      }
    }
  }
}

// Stores a thread's results of a tile. All ways are short, because an instruction that runs for the first time has to be
// fetched from memory: with whole vectors where C has no others, else as store_unaligned does.
template <class T>
__device__ inline void store_tile(const Gemm& g, Tile tile, float* staged, const float (&sum)[T::TM][T::TN]) {
  int thread = needed_from_here(static_cast<int>(threadIdx.x));
  tile = {needed_from_here(tile.row), needed_from_here(tile.col)};
  if (vector_width(g.C, g.ldc) == 1 || g.n % 4 != 0) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
      store_unaligned<T>(g, tile, staged, thread, i, sum[i]);
    }
    return;
  }
  int row = tile.row + T::row_of(thread);
  int col = tile.col + T::col_of(thread);
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
    float* C = g.C + (row + T::row(i)) * g.ldc + col;
    bool inside = row + T::row(i) < g.m;
    if (g.beta != 0.0f) {
      float4 old[T::TN / 4];
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        if (inside && col + T::col(j) < g.n) {
          old[j / 4] = *reinterpret_cast<const float4*>(C + T::col(j));
        }
      }
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        if (inside && col + T::col(j) < g.n) {
          float4 c = old[j / 4];
          *reinterpret_cast<float4*>(C + T::col(j)) =
              float4{g.alpha * sum[i][j] + g.beta * c.x, g.alpha * sum[i][j + 1] + g.beta * c.y,
                     g.alpha * sum[i][j + 2] + g.beta * c.z, g.alpha * sum[i][j + 3] + g.beta * c.w};
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        if (inside && col + T::col(j) < g.n) {
          *reinterpret_cast<float4*>(C + T::col(j)) =
              float4{g.alpha * sum[i][j], g.alpha * sum[i][j + 1], g.alpha * sum[i][j + 2], g.alpha * sum[i][j + 3]};
        }
      }
    }
  }
}
