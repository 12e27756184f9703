// Stream-K: which block computes which steps of k of which tile, and how the partial sums of a shared tile are added.
//
// M. Osama, D. Merrill, C. Cecka, M. Garland, J. D. Owens, Stream-K: Work-centric parallel decomposition for dense
// matrix-matrix multiplication on the GPU, PPoPP 2023.
#pragma once

#include "divisor.cuh"
#include "fastest_tile.cuh"
#include "gemm.cuh"
#include "second_kernel.cuh"

// How a product is cut. Blocks 0 .. whole - 1 compute one tile each. The other tiles stand in a row, and the steps of k
// of all of them are shared evenly among the next `sharers` blocks.
struct Plan {
  int tiles_m, tiles_n, tiles_k;  // tiles_k: steps of k in a tile, BK elements each
  int whole, sharers;
  int64_t steps, longer;                    // steps of a sharer; the first `longer` sharers have one more
  Divisor by_tiles_k, by_steps, by_longer;  // by_longer: by `steps` + 1
  TileOrder order;
};

// Tiles are numbered in groups of some 2048 rows, down their columns, so that blocks that run together share rows of A
// and columns of B in the L2 cache.
template <class T>
constexpr int GROUP_ROWS = 2048 / T::BM;

// The same plan with what the kernels need to divide.
template <class T>
Plan with_divisors(Plan plan) {
  plan.by_tiles_k = divisor(plan.tiles_k);
  plan.by_steps = divisor(static_cast<int>(std::max<int64_t>(plan.steps, 1)));
  plan.by_longer = divisor(static_cast<int>(plan.steps) + 1);
  plan.order = tile_order(plan.tiles_m, plan.tiles_n, GROUP_ROWS<T>);
  return plan;
}

__host__ __device__ inline int64_t first_step(const Plan& plan, int64_t sharer) {
  return sharer * plan.steps + (sharer < plan.longer ? sharer : plan.longer);
}

__device__ inline int sharer_of_step(const Plan& plan, int64_t step) {
  int64_t in_longer = plan.longer * (plan.steps + 1);
  return static_cast<int>(step < in_longer ? step / (plan.steps + 1) : plan.longer + (step - in_longer) / plan.steps);
}

// Whether several blocks share a tile, so that partial sums have to be added.
inline bool has_partials(const Plan& plan) {
  return plan.sharers > 0 && (plan.longer > 0 || plan.steps % plan.tiles_k != 0);
}

// Where a thread has 16 columns, its main loop has no registers to spare for the order's factors, and a block takes few tiles: it
// divides.
template <class T>
__device__ inline Tile place(const Plan& plan, int tile) {
  if constexpr (T::TN < 16) {
    return tile_in_order<GROUP_ROWS<T>>(plan.order, tile, T::BM, T::BN);
  }
  constexpr int GROUP = GROUP_ROWS<T>;
  int first = tile / (GROUP * plan.tiles_n) * GROUP;
  int rows = min(plan.tiles_m - first, GROUP);
  int i = tile % (GROUP * plan.tiles_n);
  return {(first + i % rows) * T::BM, i / rows * T::BN};
}

// Calls f(tile, first, last, slot) for each piece of this block's work: the steps first .. last - 1 of a tile, and the
// slot of the workspace that takes the partial sums. The slot is negative if the block computes the whole tile. A
// sharer has two slots, because it begins inside one tile and ends inside another; the tiles between are its own.
template <class T, class F>
__device__ inline void for_each_piece(const Plan& plan, F f) {
  for (int block = blockIdx.x; block < plan.whole + plan.sharers; block += gridDim.x) {
    int sharer = block - plan.whole;
    int tile = block;
    int first = 0;
    int left = plan.tiles_k;
    if (sharer >= 0) {
      int begin = static_cast<int>(first_step(plan, sharer));
      int shared_tile = plan.by_tiles_k.quotient(begin);
      tile = plan.whole + shared_tile;
      first = begin - shared_tile * plan.tiles_k;
      left = static_cast<int>(first_step(plan, sharer + 1)) - begin;
    }
    for (int nth = 0; left > 0; ++nth) {
      int last = min(first + left, plan.tiles_k);
      f(place<T>(plan, tile), first, last, last - first == plan.tiles_k ? -1 : 2 * sharer + (nth > 0));
      left -= last - first;
      first = 0;
      ++tile;
    }
  }
}

__device__ inline float4 operator+(float4 a, float4 b) { return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// A slot holds the sums of a thread as vectors of four columns of a row, with columns 0 and 1 swapped, and 2 and 3. A
// vector is stored from four neighbouring registers, the first of them even. So sum[i][j] gets an odd register where
// frag_B[j] has an even one, and an FFMA reads the two from different register banks.
template <class T>
__device__ inline float4* partial(float* partials, int64_t slot, int i, int j, int thread) {
  int vector = i * (T::TN / 4) + j / 4;
  return reinterpret_cast<float4*>(partials) + (slot * T::VECTORS + vector) * T::GROUP_THREADS + thread;
}

template <class T>
__device__ inline void store_partial(float* partials, int64_t slot, const float (&sum)[T::TM][T::TN]) {
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      *partial<T>(partials, slot, i, j, threadIdx.x % T::GROUP_THREADS) =
          float4{sum[i][j + 1], sum[i][j], sum[i][j + 3], sum[i][j + 2]};
    }
  }
}

// Stores four columns of a row of C, from `col` on, given their sum in a slot's order.
__device__ inline void store_added(const Gemm& g, int row, int col, float4 sum, int width_C) {
  float four[4] = {sum.y, sum.x, sum.w, sum.z};
  store_vector(g, row, col, four, 0, g.n - col, width_C);
}

// The second kernel: adds the partial sums of each tile that several sharers computed, always in the same order, and
// stores C. Each of `ways` warps adds the partial sums of every ways-th sharer, and the first warp adds the sums of the
// others. A lane adds one vector.
constexpr int MOST_ADDERS = 1024, LEAST_ADDERS = 256;  // threads of a block
template <class T>
__global__ void __launch_bounds__(MOST_ADDERS) add_partials(Gemm g, Plan plan, float* partials, int log_ways) {
  __shared__ float4 sums[MOST_ADDERS];
  constexpr unsigned CHUNKS = T::VECTORS * T::GROUP_THREADS / 32;  // of a tile, 32 vectors each
  int ways = 1 << log_ways;
  int way = static_cast<int>(threadIdx.x) / 32 % ways;
  unsigned chunk = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) >> log_ways;
  int shared_tile = static_cast<int>(chunk / CHUNKS);
  int vector = static_cast<int>(chunk % T::VECTORS);
  int thread = static_cast<int>(chunk % CHUNKS / T::VECTORS * 32 + threadIdx.x % 32);
  int i = vector / (T::TN / 4);
  int j = vector % (T::TN / 4) * 4;
  int begin = shared_tile * plan.tiles_k;
  auto sharer_of = [&](int step) {
    int in_longer = static_cast<int>(plan.longer) * (static_cast<int>(plan.steps) + 1);
    return step < in_longer ? plan.by_longer.quotient(step)
                            : static_cast<int>(plan.longer) + plan.by_steps.quotient(step - in_longer);
  };
  int first = sharer_of(begin), last = sharer_of(begin + plan.tiles_k - 1);
  bool needed = first < last && plan.whole + shared_tile < plan.tiles_m * plan.tiles_n;
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  wait_for_first_kernel();
  if (needed) {
#pragma unroll 4
    for (int sharer = first + way; sharer <= last; sharer += ways) {
      // The first sharer may have begun before this tile. Then this is the second of its slots.
      int64_t slot = 2 * static_cast<int64_t>(sharer) + (sharer == first && first_step(plan, first) < begin);
      sum = sum + *partial<T>(partials, slot, i, j, thread);
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (way > 0 || !needed) {
    return;
  }
  for (int other = 1; other < ways; ++other) {
    sum = sum + sums[threadIdx.x + other * 32];
  }
  Tile tile = place<T>(plan, plan.whole + shared_tile);
  if (vector_width(g.C, g.ldc) == 4) {
    int row = tile.row + T::row_of(thread) + T::row(i);
    if (row < g.m) {
      store_added(g, row, tile.col + T::col_of(thread) + T::col(j), sum, 4);
    }
    return;
  }
  // Rows of C are not aligned: neighbouring lanes store neighbouring columns.
  int lane = threadIdx.x % 32, first_thread = thread - lane;
  float* staged = reinterpret_cast<float*>(sums + threadIdx.x - lane);
  sums[threadIdx.x] = float4{sum.y, sum.x, sum.w, sum.z};
  __syncwarp();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    int of_lane = 8 * v + lane / 4;
    int row = tile.row + T::row_of(first_thread + of_lane) + T::row(i);
    int col = tile.col + T::col_of(first_thread + of_lane) + T::col(j) + lane % 4;
    if (row < g.m && col < g.n) {
      store_result(g, row, col, staged[32 * v + lane]);
    }
  }
}

template <class T>
cudaError_t launch_add_partials(const Gemm& g, const Plan& plan, float* partials, cudaStream_t stream) {
  int64_t tiles = static_cast<int64_t>(plan.tiles_m) * plan.tiles_n - plan.whole;
  int log_ways = 0;
  while (32 << log_ways < MOST_ADDERS && plan.sharers > (4 << log_ways) * tiles) {
    ++log_ways;
  }
  int adders = std::max(32 << log_ways, LEAST_ADDERS);
  int64_t threads = tiles * (T::VECTORS * T::GROUP_THREADS) << log_ways;
  dim3 grid(static_cast<unsigned>((threads + adders - 1) / adders));
  return launch_second(add_partials<T>, grid, dim3(adders), stream, g, with_divisors<T>(plan), partials, log_ways);
}
