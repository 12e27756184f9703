// Tiles of C that wgmma computes transposed: B is the left operand, which warps bring from shared memory to registers, and A
// the right one, in K-major lines of 128 bytes. A tile is COLS columns, 64 for each warp group, by ROWS rows. Up to
// MOST_BLOCKS blocks of a cluster have parts of k; their sums meet in shared memory, always in the same order.
#pragma once

#include "divisor.cuh"
#include "raw_lines.cuh"
#include "vector.cuh"
#include "wgmma_tf32.cuh"

constexpr int LINE_STEPS = 32;                // of k, in a line of A
constexpr int SLAB_BYTES = LINE_STEPS * 128;  // 32 columns of B

// How a product is cut: `parts` blocks of a cluster, a power of two, share the steps of k of a tile, each with so many stages.
struct Cut {
  int parts, stages;
  TileOrder order;  // of the tiles of C
};

// A block's share: its tile's number, its rank in the cluster, and its lines of k.
struct Share {
  unsigned tile;
  int part, first, end;
};
__device__ inline Share share_of_block(const Gemm& g, const Cut& cut) {
  int shift = __ffs(cut.parts) - 1;
  int part = static_cast<int>(blockIdx.x) & (cut.parts - 1);
  int lines = ceil_div(g.k, LINE_STEPS);
  return {blockIdx.x >> shift, part, lines * part >> shift, lines * (part + 1) >> shift};
}

// A thread's two columns of C, counted from the tile's first: neighbours, which are two rows of B transposed, 8 apart.
struct OwnColumns {
  int cols;
  int places[2];  // of two steps of k, 4 apart, in the stage's part of B

  __device__ explicit OwnColumns(int group) {
    int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    int slab = 2 * group + warp / 2;
    int chunk = warp % 2 * 2 + lane / 8 % 2 * 4 + lane / 16;
    int pair = lane / 4 % 2;
    cols = slab * 32 + chunk * 4 + pair * 2;
#pragma unroll
    for (int later = 0; later < 2; ++later) {
      int p = lane % 4 + 4 * later;
      places[later] = slab * SLAB_BYTES + p * 128 + (chunk ^ p) * 16 + pair * 8;
    }
  }

  // Shared memory to registers: the numbers of the left operand for wgmma of a stage, from the one numbered `first` on, two
  // columns of B at two steps of k each.
  template <int WGMMAS>
  __device__ void load(uint32_t (&to)[WGMMAS][4], const char* B, int first = 0) const {
#pragma unroll
    for (int i = 0; i < WGMMAS; ++i) {
#pragma unroll
      for (int later = 0; later < 2; ++later) {
        uint2 two = *reinterpret_cast<const uint2*>(B + places[later] + (first + i) * 1024);
        to[i][2 * later] = two.x;
        to[i][2 * later + 1] = two.y;
      }
    }
  }
};

// The same for a stage that has B's raw lines. Lanes of the four classes read the lines of their class, 4 columns apart.
template <int COLS>
struct OwnRawColumns {
  using Lines = RawLinesOfB<COLS>;
  int cols;
  int place;  // of the first step of k

  __device__ OwnRawColumns(const Gemm& g, int group) {
    int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, step = lane % 4;
    cols = group * 64 + warp / 2 * 32 + lane / 4 * 4 + warp % 2 * 2;
    place = Lines::line(step) + (Lines::shift(head_of(g.B, g.ldb, step)) + cols) * 4;
  }

  template <int WGMMAS>
  __device__ void load(uint32_t (&to)[WGMMAS][4], const char* B, int first = 0) const {
#pragma unroll
    for (int i = 0; i < WGMMAS; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        to[i][v] = *reinterpret_cast<const uint32_t*>(B + place + Lines::line(8 * (first + i) + v / 2 * 4) + v % 2 * 4);
      }
    }
  }
};

// Asks the engine for B's part of a stage, one slab after the other.
template <int COLS>
__device__ inline void ask_for_B(char* to, const CUtensorMap* map, int step, int col, uint64_t* arrived) {
  for (int slab = 0; slab < COLS / 32; ++slab) {
    bulk_copy_box(to + slab * SLAB_BYTES, map, step, col + 32 * slab, arrived);
  }
}

// Whether threads store pairs of results: those are aligned to 8 bytes, none reaches beyond the last column, and C is
// not read.
__device__ inline bool stores_pairs(const Gemm& g) {
  return reinterpret_cast<uintptr_t>(g.C) % 8 == 0 && g.ldc % 2 == 0 && g.n % 2 == 0 && g.beta == 0.0f;
}

// Stores a thread's pairs. `row` and `col` are those of its first; the next are one row below it, then 8 and 9, and so on.
// Tiles that are `whole` take a path without checks, because an instruction that runs for the first time has to be fetched
// from memory.
template <int SUMS>
__device__ inline void store_pairs(const Gemm& g, int row, int col, bool whole, const float (&sum)[SUMS]) {
  float* C = g.C + row * g.ldc + col;
  auto pair = [&](int j, int v) { return float2{g.alpha * sum[4 * j + v], g.alpha * sum[4 * j + 2 + v]}; };
  if (whole) {
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        *reinterpret_cast<float2*>(C + (8 * j + v) * g.ldc) = pair(j, v);
      }
    }
  } else if (col < g.n) {
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        if (row + 8 * j + v < g.m) {
          *reinterpret_cast<float2*>(C + (8 * j + v) * g.ldc) = pair(j, v);
        }
      }
    }
  }
}

// A thread's sums to shared memory. `col` is its first column, counted from the tile's.
template <class T>
__device__ inline void share_sums(char* shared, int col, const float (&sum)[T::ROWS / 2]) {
  float* sums = reinterpret_cast<float*>(shared) + threadIdx.x % 4 * 2 * T::PITCH + col;
#pragma unroll
  for (int i = 0; i < T::ROWS / 8; ++i) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      *reinterpret_cast<float2*>(sums + (8 * i + v) * T::PITCH) = float2{sum[4 * i + v], sum[4 * i + 2 + v]};
    }
  }
}

// Where the sums of a row of the tile begin: raw lines of A are ordered by class, and so are the rows of sums.
template <class T>
__device__ inline int place_of_sums(int row, bool by_class) {
  return (by_class ? row % CLASSES * (T::ROWS / CLASSES) + row / CLASSES : row) * T::PITCH;
}

// Results of a row, WIDTH neighbours, to C.
template <int WIDTH>
__device__ inline void store_neighbours(const Gemm& g, int row, int col, const float (&total)[WIDTH]) {
  if constexpr (WIDTH == 4) {
    store_vector(g, row, col, total, 0, g.n - col, 4);
  } else if (col < g.n) {
    store_result(g, row, col, *total);
  }
}

// The sums of a tile to C, if one block has them all.
template <class T, int WIDTH>
__device__ inline void store_sums(const Gemm& g, Tile tile, const char* shared, bool by_class) {
  constexpr int VECTORS = T::COLS / WIDTH, ROWS = T::CONSUMERS / VECTORS;
  int col = threadIdx.x % VECTORS * WIDTH;
  int rows = min(T::ROWS, g.m - tile.row);
#pragma unroll 4
  for (int row = threadIdx.x / VECTORS; row < rows; row += ROWS) {
    alignas(16) float total[WIDTH];
    copy_vector<WIDTH>(total, reinterpret_cast<const float*>(shared) + place_of_sums<T>(row, by_class) + col);
    store_neighbours(g, tile.row + row, tile.col + col, total);
  }
}
template <class T>
__device__ inline void store_sums(const Gemm& g, Tile tile, const char* shared, bool by_class) {
  if (vector_width(g.C, g.ldc) == 4) {
    store_sums<T, 4>(g, tile, shared, by_class);
  } else {
    store_sums<T, 1>(g, tile, shared, by_class);
  }
}

// The same if the blocks of a cluster have parts of the sums. They store different rows of the tile.
template <class T, int WIDTH>
__device__ inline void store_sums_of_parts(const Gemm& g, Tile tile, const char* shared, bool by_class, int part,
                                           int parts) {
  constexpr int VECTORS = T::COLS / WIDTH, ROWS = T::CONSUMERS / VECTORS, BATCH = 2;  // rows that are read at a time
  int col = threadIdx.x % VECTORS * WIDTH;
  const float* own = reinterpret_cast<const float*>(shared) + col;
  int begin = T::ROWS * part / parts;
  int rows = min(T::ROWS * (part + 1) / parts, g.m - tile.row);
#pragma unroll 1
  for (int row = begin + threadIdx.x / VECTORS; row < rows; row += BATCH * ROWS) {
    alignas(16) float total[BATCH][WIDTH] = {};
#pragma unroll 4
    for (int other = 0; other < parts; ++other) {
      float more[BATCH][WIDTH];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        read_in_cluster(more[i], own + place_of_sums<T>(min(row + i * ROWS, T::ROWS - 1), by_class), other);
      }
#pragma unroll
      for (int i = 0; i < BATCH * WIDTH; ++i) {
        total[i / WIDTH][i % WIDTH] += more[i / WIDTH][i % WIDTH];
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      if (row + i * ROWS < rows) {
        store_neighbours(g, tile.row + row + i * ROWS, tile.col + col, total[i]);
      }
    }
  }
}

// The same for all threads of the blocks of a cluster, each of which has its sums in shared memory.
template <class T>
__device__ inline void store_sums_of_cluster(const Gemm& g, Tile tile, const char* shared, bool by_class, int part,
                                             int parts) {
  cluster_barrier();
  if (threadIdx.x < T::CONSUMERS) {
    if (vector_width(g.C, g.ldc) == 4) {
      store_sums_of_parts<T, 4>(g, tile, shared, by_class, part, parts);
    } else {
      store_sums_of_parts<T, 1>(g, tile, shared, by_class, part, parts);
    }
  }
  cluster_barrier();  // the other blocks have read this one's sums
}

// Starts a kernel that reads copies, as launch_after_copies does, in clusters of `parts` blocks.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_parts_after_copies(void (*kernel)(Parameters...), int parts, dim3 grid, dim3 block,
                                      size_t dynamic_shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (launch_observer != nullptr) {
    return launch(kernel, grid, block, dynamic_shared_bytes, stream, arguments...);
  }
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(dynamic_shared_bytes));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(parts);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {grid, block, dynamic_shared_bytes, stream, attributes, 2};
  return error != cudaSuccess ? error : cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// The model of a product by such tiles: cycles on the busiest SM. All blocks of a cluster run in one GPC, a group of at most
// 18 SMs. So clusters of more than two blocks leave some SMs empty: of 132 SMs, 15 clusters use 8 each at a time, not 16, and
// 30 use 4 each, not 33 (docs/performance.md, stories 21 and 26). With two blocks on an SM twice as many have room, but those
// beyond the first half share SMs.
// - The first wave of blocks takes `first` cycles more than its steps, to fill the stages and to store, and a later one
//   `later`. Each block takes unaligned_C more where rows of C are not aligned.
// - A line of steps takes `alone` cycles, but at least `full` for each block on the SM.
// - A wave of clusters takes `cluster` more, for their start, their barriers, and to add the sums.
struct TileCosts {
  double first, later, alone, full, cluster, unaligned_C;
};
template <class T>
double cycles_of_tiles(const Gemm& g, int sms, const TileCosts& costs, int parts) {
  int64_t blocks = static_cast<int64_t>(ceil_div(g.m, T::ROWS)) * ceil_div(g.n, T::COLS) * parts;
  double stores = vector_width(g.C, g.ldc) == 4 ? 0.0 : costs.unaligned_C;
  double steps = ceil_div(ceil_div(g.k, LINE_STEPS), parts);
  int64_t reached = parts > 2 ? sms * 15 / 16 : sms;
  int64_t slots = std::max<int64_t>(1, reached * T::BLOCKS / parts * parts);
  int64_t full_waves = blocks / slots, rest = blocks % slots;
  int64_t on_sm = (rest * T::BLOCKS + slots - 1) / slots;  // in the last wave
  auto wave = [&](int64_t on) { return steps * std::max(costs.alone, on * costs.full) + on * stores; };
  double begin = costs.later + (parts > 1 ? costs.cluster : 0.0);
  return costs.first - costs.later + full_waves * (begin + wave(T::BLOCKS)) + (on_sm > 0 ? begin + wave(on_sm) : 0.0);
}
