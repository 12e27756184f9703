// What the loops of `fastest` share: tilings, the plan of who computes which part of which tile, the way of results.
#pragma once

#include "gemm.cuh"
#include "second_kernel.cuh"
#include "vector.cuh"

// How a block computes a tile of BM x BN results, BK steps of k at a time.
template <int BM_, int BN_, int BK_, int STAGES_, int TM_, int TN_, int WM_, int WN_, int BLOCKS_ = 1, int GROUPS_ = 1>
struct Tiling {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_;
  static constexpr int TM = TM_, TN = TN_;  // results of a thread
  static constexpr int WM = WM_, WN = WN_;  // and of a warp
  static constexpr int BLOCKS = BLOCKS_;    // that an SM holds
  static constexpr int GROUPS = GROUPS_;    // of warps; each covers the tile and takes every GROUPS-th stage
  static constexpr int GROUP_THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int THREADS = GROUPS * GROUP_THREADS;  // that multiply
  static constexpr int PITCH_A = BM + 4;                  // keeps what transposes A off the same banks
  static constexpr int STEP_M = WM / (TM / 4);            // rows between a thread's vectors
  static constexpr int STEP_N = WN / (TN / 4);            // columns between them
  static constexpr int TILE_A = BK * PITCH_A;  // floats of a stage that hold A's tile, transposed; B's tile follows
  static constexpr int STAGE = TILE_A + BK * BN;
  static constexpr int VECTORS = TM * TN / 4;                     // of results of a thread
  static constexpr int SUMS = GROUPS > 1 ? GROUPS * BM * BN : 0;  // floats, where the groups' sums meet
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

// How a product is cut. Blocks 0 .. whole - 1 compute a tile each. The other tiles lie in a row, tiles_k steps each, and
// the `sharers`, the blocks that follow, take even parts of that row.
struct Plan {
  int tiles_m, tiles_n, tiles_k;
  int whole, sharers;
  int64_t steps, longer;  // a sharer's steps; the first `longer` have one more
};

__host__ __device__ inline int64_t first_step(const Plan& plan, int64_t sharer) {
  return sharer * plan.steps + (sharer < plan.longer ? sharer : plan.longer);
}

__device__ inline int sharer_of_step(const Plan& plan, int64_t step) {
  int64_t in_longer = plan.longer * (plan.steps + 1);
  return static_cast<int>(step < in_longer ? step / (plan.steps + 1) : plan.longer + (step - in_longer) / plan.steps);
}

// Whether any tile has more than one sharer.
inline bool has_parts(const Plan& plan) {
  return plan.sharers > 0 && (plan.longer > 0 || plan.steps % plan.tiles_k != 0);
}

// Tiles are numbered in groups of some 2048 rows, down their columns, so that blocks that run together share rows of A
// and columns of B in the L2 cache.
template <class T>
__device__ inline Tile place(const Plan& plan, int tile) {
  constexpr int GROUP = 2048 / T::BM;
  int first = tile / (GROUP * plan.tiles_n) * GROUP;
  int rows = plan.tiles_m - first < GROUP ? plan.tiles_m - first : GROUP;
  int i = tile % (GROUP * plan.tiles_n);
  return {(first + i % rows) * T::BM, i / rows * T::BN};
}

// Calls f(tile, first, last, room) for each part of this block's work: steps first .. last - 1 of a tile, and the room of
// the workspace for what comes of them, negative if the tile is the block's own. A sharer needs two rooms: it begins
// inside one tile and ends inside another; the tiles between are its own.
template <class T, class F>
__device__ inline void for_each_part(const Plan& plan, F f) {
  for (int block = blockIdx.x; block < plan.whole + plan.sharers; block += gridDim.x) {
    int sharer = block - plan.whole;
    int tile = block;
    int first = 0;
    int64_t left = plan.tiles_k;
    if (sharer >= 0) {
      int64_t begin = first_step(plan, sharer);
      tile = plan.whole + static_cast<int>(begin / plan.tiles_k);
      first = static_cast<int>(begin % plan.tiles_k);
      left = first_step(plan, sharer + 1) - begin;
    }
    for (int nth = 0; left > 0; ++nth) {
      int last = left < plan.tiles_k - first ? first + static_cast<int>(left) : plan.tiles_k;
      f(place<T>(plan, tile), first, last, last - first == plan.tiles_k ? -1 : 2 * sharer + (nth > 0));
      left -= last - first;
      first = 0;
      ++tile;
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

// Adds a column of A's fragment times a row of B's: along a row of results and back along the one before it, so that A's
// element stays for TN FMAs, B's for two at each turn. Where to begin is what left fewest conflicts in SASS.
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

__device__ inline float4 operator+(float4 a, float4 b) { return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// A thread's sums lie in a room as vectors of four columns of a row, of which each two have changed places. A vector must
// leave from four neighbouring registers, which begin at an even one; so sum[i][j] is in an odd register where frag_B[j]
// is in an even one, and an FMA reads the two from different banks.
template <class T>
__device__ inline float4* part(float* rooms, int64_t room, int i, int j, int thread) {
  int vector = i * (T::TN / 4) + j / 4;
  return reinterpret_cast<float4*>(rooms) + (room * T::VECTORS + vector) * T::GROUP_THREADS + thread;
}

template <class T>
__device__ inline void store_part(float* rooms, int64_t room, const float (&sum)[T::TM][T::TN]) {
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      *part<T>(rooms, room, i, j, threadIdx.x % T::GROUP_THREADS) =
          float4{sum[i][j + 1], sum[i][j], sum[i][j + 3], sum[i][j + 2]};
    }
  }
}

// Stores to C what parts have added up to: four columns from `col` on.
__device__ inline void store_added(const Gemm& g, int row, int col, float4 sum, int width_C) {
  float four[4] = {sum.y, sum.x, sum.w, sum.z};
  store_vector(g, row, col, four, 0, g.n - col, width_C);
}

// A row of a thread's results where rows of C begin anywhere: a vector of C takes the last elements of a vector of this
// thread and the first of the next one in the row, which the next lane has. `c` is where the thread's first result belongs.
template <class T>
__device__ inline void store_shifted(const Gemm& g, float* c, bool stored, const float (&sum)[T::TN]) {
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
    bool whole = j + 1 < VECTORS || lane + 1 < LANES || skipped == 0;
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
      // The ends of the warp's part of the row.
      if (stored && ((j == 0 && lane == 0 && v < skipped) || (!whole && v >= skipped))) {
        to[v] = seven[v];
      }
    }
  }
}

// All of a tile's results. A tile inside C, aligned, with beta = 0, has a short way of its own: an instruction that is met
// for the first time comes from far away.
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
  if (width_C == 1 && g.beta == 0.0f && tile.col + T::BN <= g.n) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
      store_shifted<T>(g, g.C + (row + T::row(i)) * g.ldc + col, row + T::row(i) < g.m, sum[i]);
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

// Adds the parts of each tile that has several sharers, always in the same order: each of `ways` warps adds the parts of
// every ways-th sharer, and the first of them what the others found. A warp adds a vector of each thread of a warp of the
// product's kernel.
constexpr int MOST_ADDERS = 1024, LEAST_ADDERS = 256;  // threads of a block
template <class T>
__global__ void __launch_bounds__(MOST_ADDERS) add_parts(Gemm g, Plan plan, float* rooms, int ways) {
  wait_for_first_kernel();
  __shared__ float4 found[MOST_ADDERS];
  constexpr int CHUNKS = T::VECTORS * T::GROUP_THREADS / 32;  // of a tile, 32 vectors each
  int way = threadIdx.x / 32 % ways;
  int64_t chunk = (static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32) / ways;
  int shared_tile = static_cast<int>(chunk / CHUNKS);
  int vector = static_cast<int>(chunk % T::VECTORS);
  int thread = static_cast<int>(chunk % CHUNKS) / T::VECTORS * 32 + threadIdx.x % 32;
  int i = vector / (T::TN / 4);
  int j = vector % (T::TN / 4) * 4;
  int64_t begin = static_cast<int64_t>(shared_tile) * plan.tiles_k;
  int first = sharer_of_step(plan, begin);
  int last = sharer_of_step(plan, begin + plan.tiles_k - 1);
  bool needed = first < last && plan.whole + shared_tile < plan.tiles_m * plan.tiles_n;
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  if (needed) {
#pragma unroll 4
    for (int sharer = first + way; sharer <= last; sharer += ways) {
      // The first sharer may have begun before this tile: then this is the second of its rooms.
      int64_t room = 2 * static_cast<int64_t>(sharer) + (sharer == first && first_step(plan, first) < begin);
      sum = sum + *part<T>(rooms, room, i, j, thread);
    }
  }
  found[threadIdx.x] = sum;
  __syncthreads();
  if (way > 0 || !needed) {
    return;
  }
  for (int other = 1; other < ways; ++other) {
    sum = sum + found[threadIdx.x + other * 32];
  }
  Tile tile = place<T>(plan, plan.whole + shared_tile);
  int row = tile.row + T::row_of(thread) + T::row(i);
  if (row < g.m) {
    store_added(g, row, tile.col + T::col_of(thread) + T::col(j), sum, vector_width(g.C, g.ldc));
  }
}

template <class T>
cudaError_t launch_add_parts(const Gemm& g, const Plan& plan, float* rooms, cudaStream_t stream) {
  int64_t tiles = static_cast<int64_t>(plan.tiles_m) * plan.tiles_n - plan.whole;
  int ways = 1;
  while (ways < MOST_ADDERS / 32 && plan.sharers > 4 * ways * tiles) {
    ways *= 2;
  }
  int adders = std::max(32 * ways, LEAST_ADDERS);
  int64_t threads = tiles * (T::VECTORS * T::GROUP_THREADS) * ways;
  dim3 grid(static_cast<unsigned>((threads + adders - 1) / adders));
  return launch_second(add_parts<T>, grid, dim3(adders), stream, g, plan, rooms, ways);
}
