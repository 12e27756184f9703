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
  static constexpr size_t SHARED_BYTES = sizeof(float) * (STAGES * STAGE > SUMS ? STAGES * STAGE : SUMS);
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

// Stores a row of a thread's results where rows of C are not aligned to vectors. A vector of C takes the last elements
// of one vector of results and the first of the next one in the row, which the next lane holds. `c` is the place of the
// thread's first result, from which on C has `left` columns.
template <class T>
__device__ inline void store_shifted(const Gemm& g, float* c, int left, bool stored, const float (&sum)[T::TN]) {
  constexpr int LANES = T::WN / T::TN;  // of a warp, beside each other in a row
  constexpr int VECTORS = T::TN / 4;
  int lane = threadIdx.x % LANES;
  int skipped = static_cast<int>(-reinterpret_cast<uintptr_t>(c) / 4 % 4);  // before the first vector of C
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    float seven[7];  // this vector, and of the next one what may be needed
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      seven[v] = g.alpha * sum[4 * j + v];
    }
#pragma unroll
    for (int v = 0; v < 3; ++v) {
      float first = j + 1 < VECTORS && lane == 0 ? g.alpha * sum[4 * (j + 1 < VECTORS ? j + 1 : j) + v] : seven[v];
      seven[4 + v] = __shfl_sync(0xFFFFFFFF, first, (lane + 1) % LANES, LANES);
    }
    float* to = c + T::col(4 * j);
    int of_C = left - T::col(4 * j);                       // columns from the vector's first on
    bool before = (j > 0 || lane > 0) && skipped <= of_C;  // stored with the vector before
    bool whole = (j + 1 < VECTORS || lane + 1 < LANES || skipped == 0) && skipped + 4 <= of_C;
    if (stored && whole) {
      float six[6];
#pragma unroll
      for (int v = 0; v < 6; ++v) {
        six[v] = skipped % 2 == 0 ? seven[v] : seven[v + 1];
      }
      *reinterpret_cast<float4*>(to + skipped) =
          skipped < 2 ? float4{six[0], six[1], six[2], six[3]} : float4{six[2], six[3], six[4], six[5]};
    }
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      // The two ends of the warp's part of the row, element by element.
      if (stored && v < of_C && (v < skipped ? !before : !whole)) {
        to[v] = seven[v];
      }
    }
  }
}

// Stores a thread's results of a tile. A tile that is inside C and aligned, with beta = 0, takes a short path of its
// own, because an instruction that runs for the first time has to be fetched from memory.
template <class T>
__device__ inline void store_tile(const Gemm& g, Tile tile, const float (&sum)[T::TM][T::TN]) {
  int row = tile.row + T::row_of(threadIdx.x);
  int col = tile.col + T::col_of(threadIdx.x);
  int width_C = vector_width(g.C, g.ldc);
  if (width_C == 4 && g.beta == 0.0f && tile.row + T::BM <= g.m && tile.col + T::BN <= g.n) {
    float* C = g.C + row * g.ldc + col;
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        *reinterpret_cast<float4*>(C + T::row(i) * g.ldc + T::col(j)) =
            float4{g.alpha * sum[i][j], g.alpha * sum[i][j + 1], g.alpha * sum[i][j + 2], g.alpha * sum[i][j + 3]};
      }
    }
    return;
  }
  if (width_C == 1 && g.beta == 0.0f) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
      store_shifted<T>(g, g.C + (row + T::row(i)) * g.ldc + col, g.n - col, row + T::row(i) < g.m, sum[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
    if (row + T::row(i) < g.m) {
#pragma unroll
      for (int j = 0; j < T::TN; j += 4) {
        store_vector(g, row + T::row(i), col + T::col(j), &sum[i][j], 0, g.n - col - T::col(j), width_C);
      }
    }
  }
}
