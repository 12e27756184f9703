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
  static constexpr bool IN_STAGES = BM * BN <= RING;  // all results have room in the stages
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

// Which row or column is read in place of number i of n: i itself, or beyond the edge another one, because the results there are
// not stored. Not the same one for all that lie beyond: lanes that copy the same float to shared memory seem to do so one after
// the other.
__device__ inline unsigned within(unsigned i, unsigned n) {
  unsigned most = 0x80000000u >> __clz(static_cast<int>(n));  // the largest power of two up to n
  return i < n ? i : i & (most - 1);
}

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

// Whether C, which has n columns, consists of whole vectors.
__device__ inline bool rows_aligned(const Gemm& g, int n) { return vector_width(g.C, g.ldc) == 4 && n % 4 == 0; }

// Stores the results of a tile where rows of C are not aligned and the stages have room for them (IN_STAGES): all of them to
// shared memory, and then whole rows of the tile, so that neighbouring lanes store neighbouring columns. The code is short,
// because an instruction that runs for the first time has to be fetched from memory. All threads of the block come here, and
// none reads the stages any more.
template <class T>
__device__ inline void store_rows(const Gemm& g, Tile tile, int thread, float* shared,
                                  const float (&sum)[T::TM][T::TN]) {
  constexpr int COLS = T::BN / 32, ROWS = 16 / COLS, WARPS_OF_BLOCK = T::THREADS / 32;  // ROWS of a warp at a time
  static_assert(T::BM % (ROWS * WARPS_OF_BLOCK) == 0, "all warps store as many rows");
  float* own = shared + T::row_of(thread) * T::BN + T::col_of(thread);
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      *reinterpret_cast<float4*>(own + T::row(i) * T::BN + T::col(j)) =
          float4{g.alpha * sum[i][j], g.alpha * sum[i][j + 1], g.alpha * sum[i][j + 2], g.alpha * sum[i][j + 3]};
    }
  }
  __syncthreads();
  int row = thread / 32, lane = thread % 32;
  int rows_left = g.m - tile.row, cols_left = g.n - tile.col - lane;
  const float* from = shared + row * T::BN + lane;
  float* C = g.C + (tile.row + row) * g.ldc + tile.col + lane;
#pragma unroll 1
  for (; row < T::BM; row += ROWS * WARPS_OF_BLOCK) {
    float result[ROWS][COLS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        result[r][c] = from[r * WARPS_OF_BLOCK * T::BN + 32 * c];
      }
    }
    if (g.beta != 0.0f) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
          if (row + r * WARPS_OF_BLOCK < rows_left && 32 * c < cols_left) {
            result[r][c] += g.beta * C[r * WARPS_OF_BLOCK * g.ldc + 32 * c];
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        if (row + r * WARPS_OF_BLOCK < rows_left && 32 * c < cols_left) {
          C[r * WARPS_OF_BLOCK * g.ldc + 32 * c] = result[r][c];
        }
      }
    }
    from += ROWS * WARPS_OF_BLOCK * T::BN;
    C += ROWS * WARPS_OF_BLOCK * g.ldc;
  }
}

// Stores a thread's results of a tile, where C consists of whole vectors.
template <class T>
__device__ inline void store_vectors(const Gemm& g, Tile tile, int thread, const float (&sum)[T::TM][T::TN]) {
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

// Stores a thread's results of a tile. Both ways are short, because an instruction that runs for the first time has to be fetched
// from memory.
template <class T>
__device__ inline void store_tile(const Gemm& g, Tile tile, float* staged, const float (&sum)[T::TM][T::TN]) {
  int thread = needed_from_here(static_cast<int>(threadIdx.x));
  tile = {needed_from_here(tile.row), needed_from_here(tile.col)};
  if (rows_aligned(g, g.n)) {
    store_vectors<T>(g, tile, thread, sum);
    return;
  }
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
    store_unaligned<T>(g, tile, staged, thread, i, sum[i]);
  }
}

// The same if all results have room in the stages, which no thread of the block reads any more. What says how to store is needed
// from here: else Light lacks registers.
template <class T>
__device__ inline void store_tile_in_stages(const Gemm& g, Tile tile, float* shared, const float (&sum)[T::TM][T::TN]) {
  int thread = needed_from_here(static_cast<int>(threadIdx.x));
  tile = {needed_from_here(tile.row), needed_from_here(tile.col)};
  if (rows_aligned(g, needed_from_here(g.n))) {
    store_vectors<T>(g, tile, thread, sum);
  } else {
    store_rows<T>(g, tile, thread, shared, sum);
  }
}
