// tf32: one product of numbers rounded to TF32. It shows what FP32's accuracy costs, and is held to the bound of TF32.
//
// - wgmma accepts TF32 operands in shared memory only in K-major layout. A has it, B does not. So the product is
//   computed transposed: B is the left operand, which may come from registers, and warps can read it from shared memory
//   in any order.
// - The copy engine rounds to TF32 while it copies. Its swizzle and the columns of B that a thread takes are chosen so
//   that half a warp reads its pairs of numbers from different banks. What rounds to 2^128 becomes infinite.
// - sgemm_tf32, for products that fill the GPU: two warp groups compute a tile of 256 x 128 results, 64 columns of B
//   each. A third one copies, four stages ahead. Blocks work in pairs, side by side, and share the rows of A. They stay
//   and take one tile after the other.
// - sgemm_parts, for others: a block computes one tile, of four kinds, and up to eight blocks of a cluster split its
//   steps of k. Their sums meet in shared memory, always in the same order, so that no second kernel has to add them.
//   Results pass through shared memory on their way to C, so that lanes store neighbours.
// - The copy engine cannot read a matrix that is not aligned to 16 bytes, or whose leading dimension is no multiple of
//   4. Such a matrix is first copied to the workspace (aligned_copy.cuh). Or, where it is read only a few times, the
//   engine brings its lines four rows apart, and four warps mend what they lack (raw_lines.cuh).
//
// Which kernel computes a product (`choose`): the one that takes the fewest cycles by a model. `fastest`, with FP32
// multiply-adds, is one of them. It is chosen where rows, columns or steps of k are few, and for some small products.
//
// Limit: the tensor cores, 1024 multiply-adds a cycle and SM; in long runs the power limit. In sgemm_parts, tiles that
// come from the L2 cache.
//
// Occupancy: in sgemm_tf32 one block of 384 threads, 12 of an SM's 64 warps. A thread has 232 registers if it
// multiplies and 40 if it copies. Four stages take 192 KiB of shared memory.
#include "aligned_copy.cuh"
#include "copying_warps.cuh"
#include "fastest_copies.cuh"
#include "raw_lines.cuh"
#include "thin_sums.cuh"
#include "wgmma_tf32.cuh"

// The whole of `fastest`, whose function gets another name.
namespace fp32 {
#define sgemm sgemm_fp32
#include "fastest.cu"
#undef sgemm
}  // namespace fp32

constexpr int STAGES = 4, GROUP = 8;
constexpr int TILE_ROWS = 256;  // of C
constexpr int TILE_COLS = 128;
constexpr int STEPS = 32;  // of k: a row of A's tile is 128 bytes
constexpr int BYTES_A = TILE_ROWS * STEPS * 4;
constexpr int BYTES_B = TILE_COLS * STEPS * 4;
constexpr int STAGE_BYTES = BYTES_A + BYTES_B;
constexpr int SLAB_BYTES = STEPS * 128;  // 32 columns of B
constexpr int CONSUMERS = 2;
constexpr size_t SHARED_BYTES = static_cast<size_t>(STAGES) * STAGE_BYTES;

// The first row and column of pair t of tiles, side by side. Pairs are numbered down the columns of GROUP rows of
// tiles.
__device__ inline Tile pair_of_tiles(const Gemm& g, unsigned t) {
  unsigned tiles_m = ceil_div(g.m, TILE_ROWS);
  unsigned pairs_n = ceil_div(g.n, 2 * TILE_COLS);
  unsigned first = t / (GROUP * pairs_n) * GROUP;
  unsigned rows = tiles_m - first < GROUP ? tiles_m - first : GROUP;
  unsigned i = t % (GROUP * pairs_n);
  return {static_cast<int>(first + i % rows) * TILE_ROWS, static_cast<int>(i / rows) * 2 * TILE_COLS};
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

  // Shared memory to registers: the numbers of the left operand for all wgmma of a stage, two columns of B at two steps
  // of k each.
  __device__ void load(uint32_t (&to)[STEPS / 8][4], const char* B) const {
#pragma unroll
    for (int i = 0; i < STEPS / 8; ++i) {
#pragma unroll
      for (int later = 0; later < 2; ++later) {
        uint2 two = *reinterpret_cast<const uint2*>(B + places[later] + i * 1024);
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

  __device__ void load(uint32_t (&to)[STEPS / 8][4], const char* B) const {
#pragma unroll
    for (int i = 0; i < STEPS / 8; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        to[i][v] = *reinterpret_cast<const uint32_t*>(B + place + Lines::line(8 * i + v / 2 * 4) + v % 2 * 4);
      }
    }
  }
};

__global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) __cluster_dims__(2, 1, 1)
    sgemm_tf32(Gemm g, unsigned pairs, const __grid_constant__ CUtensorMap map_A,
               const __grid_constant__ CUtensorMap map_B) {
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t full[STAGES];
  __shared__ uint64_t empty[STAGES];
  int rank = cluster_rank();
  int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2 * CONSUMERS * 4);
    }
    mbarrier_init_fence();
  }
  cluster_barrier();
  wait_for_first_kernel();
  int steps = ceil_div(g.k, STEPS);

  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * 128) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles(g, t);
        int row = tile.row + rank * (TILE_ROWS / 2);
        int col = tile.col + rank * TILE_COLS;
        for (int s = 0; s < steps; ++s) {
          mbarrier_wait(&empty[stage], parity);
          mbarrier_arrive_expect(&full[stage], STAGE_BYTES);
          char* to = shared + stage * STAGE_BYTES;
          bulk_copy_box_to(3, to + rank * (BYTES_A / 2), &map_A, row, s * STEPS, &full[stage]);
          for (int slab = 0; slab < TILE_COLS / 32; ++slab) {
            bulk_copy_box(to + BYTES_A + slab * SLAB_BYTES, &map_B, s * STEPS, col + 32 * slab, &full[stage]);
          }
          stage = stage + 1 < STAGES ? stage + 1 : 0;
          parity ^= stage == 0;
        }
      }
    }
  } else {
    take_registers<232>();
    int stage = 0;
    int parity = 0;
    int lane = threadIdx.x % 32;
    bool releases = lane < 2;
    OwnColumns own(group);
    bool pairs_C = reinterpret_cast<uintptr_t>(g.C) % 8 == 0 && g.ldc % 2 == 0;
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles(g, t);
      float sum[128];
      uint32_t B[2][STEPS / 8][4];
      int last = 0;
      auto multiply = [&](int s, uint32_t (&b)[STEPS / 8][4]) {
        mbarrier_wait(&full[stage], parity);
        const char* at = shared + stage * STAGE_BYTES;
        own.load(b, at + BYTES_A);
        uint64_t A = tile_descriptor(at);
        hold(sum);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS / 8; ++i) {
          wgmma_tf32_wide(sum, b[i], A + 2 * i, s > 0 || i > 0);
        }
        wgmma_commit();
        if (s > 0) {
          wgmma_wait<1>();
          if (releases) {
            mbarrier_arrive_at(&empty[last], lane);
          }
        }
        last = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
      };
      int s = 0;
      for (; s + 1 < steps; s += 2) {
        multiply(s, B[0]);
        multiply(s + 1, B[1]);
      }
      if (s < steps) {
        multiply(s, B[0]);
      }
      wgmma_wait<0>();
      hold(sum);
      if (releases) {
        mbarrier_arrive_at(&empty[last], lane);
      }
      int r = tile.row + lane % 4 * 2;
      int c = tile.col + rank * TILE_COLS + own.cols;
      if (pairs_C && g.beta == 0.0f && tile.row + TILE_ROWS <= g.m && c - own.cols + TILE_COLS <= g.n) {
        // Most tiles take a short path, because an instruction that runs for the first time has to be fetched from
        // memory.
        float* C = g.C + r * g.ldc + c;
#pragma unroll
        for (int j = 0; j < 32; ++j) {
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            *reinterpret_cast<float2*>(C + (8 * j + v) * g.ldc) =
                float2{g.alpha * sum[4 * j + v], g.alpha * sum[4 * j + 2 + v]};
          }
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < 128; ++i) {
        int row = r + i / 4 * 8 + i % 2, col = c + i / 2 % 2;
        if (row < g.m && col < g.n) {
          store_result(g, row, col, sum[i]);
        }
      }
    }
  }
  cluster_barrier();
}

// Tiles of products that do not fill the GPU: ROWS x COLS results, 64 columns a warp group; BLOCKS of them on an SM.
template <int ROWS_, int GROUPS_, int STAGES_, int BLOCKS_>
struct ClusterTiling {
  static constexpr int ROWS = ROWS_, GROUPS = GROUPS_, STAGES = STAGES_, BLOCKS = BLOCKS_;
  static constexpr int COLS = 64 * GROUPS, CONSUMERS = 128 * GROUPS;
  static constexpr int BYTES_A = ROWS * STEPS * 4, BYTES_B = COLS * STEPS * 4, STAGE_BYTES = BYTES_A + BYTES_B;
  static constexpr int PITCH = COLS + 4;  // of a row of sums, so that lanes store to different banks
  static constexpr int SUM_BYTES = ROWS * PITCH * 4;
  static constexpr bool MANY_SUMS = ROWS > 128;  // for the registers of a thread
  // One thread asks the engine for copies, and four warps mend raw lines. Registers move between whole warp groups alone:
  // with 128 columns three warps more stand idle, with 64 the warp that asks keeps what it has.
  template <bool RAW>
  static constexpr bool MOVES_REGISTERS = RAW || MANY_SUMS;
  template <bool RAW>
  static constexpr int COPIERS = RAW         ? (GROUPS == 2 ? 256 : 160)
                                 : MANY_SUMS ? 128
                                             : 32;
  static constexpr int RAW_STAGE_BYTES = (BYTES_A + RawLinesOfB<COLS>::COPIED_BYTES + 1023) / 1024 * 1024;
  template <bool RAW>
  static constexpr int BYTES = RAW ? RAW_STAGE_BYTES : STAGE_BYTES;
  static_assert(SUM_BYTES <= STAGES * STAGE_BYTES, "the sums take the place of the stages");
};
using Big = ClusterTiling<256, 2, 4, 1>;
using Square = ClusterTiling<128, 2, 6, 1>;
using Flat = ClusterTiling<64, 2, 8, 1>;
using Small = ClusterTiling<64, 1, 6, 2>;

// How a product is cut: `parts` blocks of a cluster share the steps of k of a tile, each with so many stages.
struct Cut {
  int parts, stages;
};

// RAW: of the matrices that the engine cannot read as they are, it brings raw lines, by four maps (raw_lines.cuh).
template <class T, bool RAW>
__global__ void __launch_bounds__(T::CONSUMERS + T::template COPIERS<RAW>, RAW ? T::BLOCKS : 1)
    sgemm_parts(Gemm g, Cut cut, bool raw_A, bool raw_B, const __grid_constant__ ClassMaps maps_A,
                const __grid_constant__ ClassMaps maps_B) {
  raw_A = raw_A && RAW;  // which the compiler then knows
  raw_B = raw_B && RAW;
  using LinesOfB = RawLinesOfB<T::COLS>;
  constexpr int BYTES = T::template BYTES<RAW>, CLASS_ROWS = T::ROWS / CLASSES;
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t arrived[T::STAGES];  // from the engine
  __shared__ uint64_t mended[T::STAGES];
  __shared__ uint64_t empty[T::STAGES];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < cut.stages; ++stage) {
      mbarrier_init(&arrived[stage], 1);
      mbarrier_init(&mended[stage], CLASSES);
      mbarrier_init(&empty[stage], T::CONSUMERS / 32);
    }
    mbarrier_init_fence();
  }
  if (int i = static_cast<int>(threadIdx.x); RAW && i < 2 * CLASSES) {
    if (i % CLASSES == 0 || (i < CLASSES ? raw_A : raw_B)) {
      fetch_tensor_map(i < CLASSES ? &maps_A.of[i] : &maps_B.of[i - CLASSES]);
    }
  }
  __syncthreads();
  int part = static_cast<int>(blockIdx.x % cut.parts);  // and the block's rank in the cluster
  Tile tile = tile_number(g, blockIdx.x / cut.parts, T::ROWS, T::COLS, GROUP);
  int steps = ceil_div(g.k, STEPS);
  int first = steps * part / cut.parts, end = steps * (part + 1) / cut.parts;
  bool heads_of_B = raw_B && tile.col == 0;
  uint64_t* full = raw_A || heads_of_B ? mended : arrived;
  wait_for_first_kernel();

  if (threadIdx.x >= T::CONSUMERS) {
    int warp = threadIdx.x / 32 - T::CONSUMERS / 32, asker = RAW ? CLASSES : 0;
    if constexpr (RAW && T::GROUPS == 2) {
      give_registers<104>();
    } else if constexpr (RAW) {
      if (warp < CLASSES) {
        give_registers<72>();
      }
    } else if constexpr (T::MANY_SUMS) {
      give_registers<40>();
    }
    int stage = 0;
    int parity = 1;
    int lane = threadIdx.x % 32;
    if (warp == asker) {
      for (int s = first; s < end && lane == 0; ++s) {
        mbarrier_wait(&empty[stage], parity);
        mbarrier_arrive_expect(&arrived[stage], T::STAGE_BYTES + (raw_B ? LinesOfB::COPIED_BYTES - T::BYTES_B : 0));
        char *to_A = shared + stage * BYTES, *to_B = to_A + T::BYTES_A;
        if (raw_A) {
          for (int i = 0; i < CLASSES; ++i) {
            bulk_copy_box(to_A + i * CLASS_ROWS * 128, &maps_A.of[i], tile.row / CLASSES, s * STEPS, &arrived[stage]);
          }
        } else {
          bulk_copy_box(to_A, &maps_A.of[0], tile.row, s * STEPS, &arrived[stage]);
        }
        if (raw_B) {
          for (int i = 0; i < CLASSES; ++i) {
            bulk_copy_box(to_B + i * LinesOfB::CLASS_BYTES, &maps_B.of[i], s * STEPS / CLASSES, tile.col - 4,
                          &arrived[stage]);
          }
        } else {
          for (int slab = 0; slab < T::COLS / 32; ++slab) {
            bulk_copy_box(to_B + slab * SLAB_BYTES, &maps_B.of[0], s * STEPS, tile.col + 32 * slab, &arrived[stage]);
          }
        }
        stage = stage + 1 < cut.stages ? stage + 1 : 0;
        parity ^= stage == 0;
      }
    } else if (warp < asker && full == mended) {
      parity = 0;
      MovedLines<T::ROWS, CLASSES> lines_A(g, tile.row, first * STEPS, warp);
      LinesOfB lines_B(g, first * STEPS);
      bool mends_A = raw_A && lines_A.head > 0, mends_B = heads_of_B && warp == 0;
      for (int s = first; s < end; ++s) {
        if (mends_B) {
          lines_B.load(g.ldb);
        }
        mbarrier_wait(&arrived[stage], parity);
        char* at = shared + stage * BYTES;
        if (mends_A) {
          lines_A.move(at);
        }
        if (mends_B) {
          lines_B.store(at + T::BYTES_A);
        }
        if (mends_A || mends_B) {
          bulk_copy_fence();  // wgmma, and the engine when it fills the stage again, come after what was written
        }
        __syncwarp();
        if (lane == 0) {
          mbarrier_arrive(&mended[stage]);
        }
        stage = stage + 1 < cut.stages ? stage + 1 : 0;
        parity ^= stage == 0;
      }
    }
    __syncwarp();
  } else {
    if constexpr (T::template MOVES_REGISTERS<RAW>) {
      take_registers<!RAW ? 232 : T::GROUPS == 2 ? 152 : 120>();
    }
    int stage = 0;
    int parity = 0;
    int last = 0;
    int lane = threadIdx.x % 32;
    OwnColumns own(threadIdx.x / 128);
    OwnRawColumns<T::COLS> own_raw(g, threadIdx.x / 128);
    float sum[T::ROWS / 2];
    uint32_t B[2][STEPS / 8][4];
    auto multiply = [&](int s, uint32_t (&b)[STEPS / 8][4]) {
      mbarrier_wait(&full[stage], parity);
      const char* at = shared + stage * BYTES;
      if (raw_B) {
        own_raw.load(b, at + T::BYTES_A);
      } else {
        own.load(b, at + T::BYTES_A);
      }
      uint64_t A = tile_descriptor(at);
      hold(sum);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < STEPS / 8; ++i) {
        wgmma_tf32_wide(sum, b[i], A + 2 * i, s > first || i > 0);
      }
      wgmma_commit();
      if (s > first) {
        wgmma_wait<1>();
        if (lane == 0) {
          mbarrier_arrive(&empty[last]);
        }
      }
      last = stage;
      stage = stage + 1 < cut.stages ? stage + 1 : 0;
      parity ^= stage == 0;
    };
    int s = first;
    for (; s + 1 < end; s += 2) {
      multiply(s, B[0]);
      multiply(s + 1, B[1]);
    }
    if (s < end) {
      multiply(s, B[0]);
    }
    wgmma_wait<0>();
    hold(sum);
    barrier_of<T::CONSUMERS>();  // all stages have been read
    int cols = raw_B ? own_raw.cols : own.cols;
    float* sums = reinterpret_cast<float*>(shared) + lane % 4 * 2 * T::PITCH + cols;
#pragma unroll
    for (int i = 0; i < T::ROWS / 8; ++i) {
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        *reinterpret_cast<float2*>(sums + (8 * i + v) * T::PITCH) = float2{sum[4 * i + v], sum[4 * i + 2 + v]};
      }
    }
    barrier_of<T::CONSUMERS>();
  }
  if (cut.parts > 1) {
    cluster_barrier();
  }
  if (threadIdx.x < T::CONSUMERS) {
    // The blocks of a tile store different rows of it.
    auto store_rows = [&](auto width) {
      constexpr int WIDTH = decltype(width)::value, VECTORS = T::COLS / WIDTH, ROWS = T::CONSUMERS / VECTORS;
      int first_row = threadIdx.x / VECTORS, col = threadIdx.x % VECTORS * WIDTH;
      const float* own = reinterpret_cast<const float*>(shared) + col;
      int begin = T::ROWS * part / cut.parts;
      int rows = min(T::ROWS * (part + 1) / cut.parts, g.m - tile.row);
      // Raw lines of A are ordered by class, and so are the rows of sums.
      auto place = [&](int row) { return (raw_A ? row % CLASSES * CLASS_ROWS + row / CLASSES : row) * T::PITCH; };
      auto store = [&](int row, const float* total) {
        if constexpr (WIDTH == 4) {
          store_vector(g, tile.row + row, tile.col + col, total, 0, g.n - tile.col - col, 4);
        } else if (tile.col + col < g.n) {
          store_result(g, tile.row + row, tile.col + col, *total);
        }
      };
      if (cut.parts == 1) {
#pragma unroll 4
        for (int row = first_row; row < rows; row += ROWS) {
          alignas(16) float total[WIDTH];
          copy_vector<WIDTH>(total, own + place(row));
          store(row, total);
        }
        return;
      }
      constexpr int BATCH = 2;  // rows that are read at a time
#pragma unroll 1
      for (int row = begin + first_row; row < rows; row += BATCH * ROWS) {
        alignas(16) float total[BATCH][WIDTH] = {};
#pragma unroll 4
        for (int other = 0; other < cut.parts; ++other) {
          float more[BATCH][WIDTH];
#pragma unroll
          for (int i = 0; i < BATCH; ++i) {
            read_in_cluster(more[i], own + place(min(row + i * ROWS, T::ROWS - 1)), other);
          }
#pragma unroll
          for (int i = 0; i < BATCH * WIDTH; ++i) {
            total[i / WIDTH][i % WIDTH] += more[i / WIDTH][i % WIDTH];
          }
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
          if (row + i * ROWS < rows) {
            store(row + i * ROWS, total[i]);
          }
        }
      }
    };
    if (vector_width(g.C, g.ldc) == 4) {
      store_rows(std::integral_constant<int, 4>());
    } else {
      store_rows(std::integral_constant<int, 1>());
    }
  }
  if (cut.parts > 1) {
    cluster_barrier();  // the other blocks have read this one's sums
  }
}

// False where the engine cannot read the matrix.
bool make_map_A(const Gemm& g, int rows, CUtensorMap* map) {
  return make_tensor_map(map, g.A, g.m, g.k, g.lda, rows, STEPS, CU_TENSOR_MAP_SWIZZLE_128B, true);
}
bool make_map_B(const Gemm& g, CUtensorMap* map) {
  return make_tensor_map(map, g.B, g.k, g.n, g.ldb, STEPS, 32, CU_TENSOR_MAP_SWIZZLE_128B, true);
}

cudaError_t launch_tf32(const Gemm& g, Cut, int sms, cudaStream_t stream) {
  CUtensorMap map_A = {}, map_B = {};
  if (!make_map_A(g, TILE_ROWS / 2, &map_A) || !make_map_B(g, &map_B)) {
    return cudaErrorNotSupported;
  }
  unsigned pairs = static_cast<unsigned>(ceil_div(g.m, TILE_ROWS)) * ceil_div(g.n, 2 * TILE_COLS);
  unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
  return launch_after_copies(sgemm_tf32, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), SHARED_BYTES, stream, g,
                             pairs, map_A, map_B);
}

template <class T, bool RAW>
cudaError_t launch_parts(const Gemm& g, Cut cut, int, cudaStream_t stream) {
  ClassMaps maps_A = {}, maps_B = {};
  bool raw_A = !make_map_A(g, T::ROWS, &maps_A.of[0]), raw_B = !make_map_B(g, &maps_B.of[0]);
  bool made = RAW || !(raw_A || raw_B);
  if (made && raw_A) {
    made = make_class_maps(&maps_A, g.A, g.m, g.k, g.lda, T::ROWS / CLASSES, STEPS, CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (made && raw_B) {
    made = make_class_maps(&maps_B, g.B, g.k, g.n, g.ldb, STEPS / CLASSES, T::COLS + 4, CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  if (!made) {
    return cudaErrorNotSupported;
  }
  dim3 grid = tile_grid(g, T::ROWS, T::COLS);
  grid.x *= cut.parts;
  dim3 block(T::CONSUMERS + T::template COPIERS<RAW>);
  int least = ceil_div(T::SUM_BYTES, T::template BYTES<RAW>);
  cut.stages = std::min(T::STAGES, std::max(least, ceil_div(ceil_div(g.k, STEPS), cut.parts)));
  size_t shared_bytes = static_cast<size_t>(cut.stages) * T::template BYTES<RAW>;
  auto kernel = sgemm_parts<T, RAW>;
  if (launch_observer != nullptr) {
    return launch(kernel, grid, block, shared_bytes, stream, g, cut, raw_A, raw_B, maps_A, maps_B);
  }
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(cut.parts);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {grid, block, shared_bytes, stream, attributes, 2};
  return error != cudaSuccess ? error : cudaLaunchKernelEx(&config, kernel, g, cut, raw_A, raw_B, maps_A, maps_B);
}

// A way to compute a product, and its cycles by the model.
struct Choice {
  double cycles;
  fp32::Source source;  // reads copies of what the engine cannot read, or the matrices themselves
  Cut cut;
  cudaError_t (*launch)(const Gemm& g, Cut cut, int sms, cudaStream_t stream);  // null for `fastest`
};

// The model: cycles on the busiest SM, comparable with those of `fastest`. Its constants are fitted to the times of all
// ways to compute 900 drawn products on an H100, those of raw lines to 128 on an H200; those times are not recorded. The
// survey draws other products.
//
// - The first wave of blocks takes `first` cycles more than its steps, to fill the stages and to store, and a later one
//   `later`. Each block takes unaligned_C more where rows of C are not aligned.
// - A step of 32 takes `alone` cycles, but at least `full` for each block on the SM.
// - A cluster takes `cluster` more, for its barriers and to add the sums. All of its blocks run in one GPC, a group of at
//   most 18 SMs. So clusters of more than two SMs leave some SMs empty: of 132 SMs, 15 clusters use 8 each at a time, not
//   16 (docs/performance.md, story 21).
// - A copied matrix costs a launch, and its elements are read and written at BYTES a cycle and SM.
struct Costs {
  double first, later, alone, full, cluster, unaligned_C;
};

double copy_cycles(const fp32::Source& source, int sms) {
  constexpr double COPY_KERNEL = 5390, BYTES = 9.5;
  const Gemm& g = source.g;
  double elements = (source.copied_A ? 1.0 * g.m * g.k : 0.0) + (source.copied_B ? 1.0 * g.k * g.n : 0.0);
  return COPY_KERNEL * (source.copied_A + source.copied_B) + 8.0 * elements / (BYTES * sms);
}

// Replaces `best` by the best number of parts for one tiling if this has fewer cycles.
template <class T, bool RAW>
void consider(const fp32::Source& source, int sms, const Costs& costs, Choice* best) {
  const Gemm& g = source.g;
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, T::ROWS)) * ceil_div(g.n, T::COLS);
  double stores = vector_width(g.C, g.ldc) == 4 ? 0.0 : costs.unaligned_C;
  int all_steps = ceil_div(g.k, STEPS);
  for (int parts = 1; parts <= std::min(MOST_BLOCKS, all_steps); parts *= 2) {
    double steps = ceil_div(all_steps, parts);
    int reached = parts > 2 * T::BLOCKS ? sms * 15 / 16 : sms;
    int64_t slots = std::max(1, reached * T::BLOCKS / parts * parts), full_waves = tiles * parts / slots;
    int64_t on_sm = (tiles * parts % slots + sms - 1) / sms;  // in the last wave, if it is not full
    auto wave = [&](int64_t blocks) { return steps * std::max(costs.alone, blocks * costs.full) + blocks * stores; };
    double cycles = copy_cycles(source, sms) + (parts > 1 ? costs.cluster : 0.0) + costs.first - costs.later;
    cycles += full_waves * (costs.later + wave(T::BLOCKS)) + (on_sm > 0 ? costs.later + wave(on_sm) : 0.0);
    if (cycles < best->cycles) {
      *best = {cycles, source, {parts, 0}, launch_parts<T, RAW>};
    }
  }
}

// The same for sgemm_tf32.
void consider_pairs(const fp32::Source& source, int sms, Choice* best) {
  constexpr double FIRST = 15900, LATER = 9240, STEP = 1050, UNALIGNED_C = 5650;
  const Gemm& g = source.g;
  double pairs = static_cast<double>(ceil_div(g.m, TILE_ROWS)) * ceil_div(g.n, 2 * TILE_COLS);
  double rounds = std::ceil(pairs / std::max(1, sms / 2));
  bool stores_pairs = vector_width(g.C, g.ldc) == 4 && g.n % 2 == 0;
  double tile = ceil_div(g.k, STEPS) * STEP + (stores_pairs ? 0.0 : UNALIGNED_C);
  double cycles = copy_cycles(source, sms) + FIRST - LATER + rounds * (LATER + tile);
  if (cycles < best->cycles) {
    *best = {cycles, source, {}, launch_tf32};
  }
}

// The way with the fewest cycles. Where the engine cannot read a matrix as it is, all tiles can read a copy of it, and
// two kinds of them its raw lines.
cudaError_t choose(const Gemm& g, void* workspace, int* sms, Choice* best) {
  fp32::Choice by_fma;
  cudaError_t error = fp32::choose(g, workspace, sms, &by_fma);
  *best = {by_fma.cycles, {g}, {}, nullptr};
  bool copies_A = vector_width(g.A, g.lda) != 4, copies_B = vector_width(g.B, g.ldb) != 4;
  fp32::Source source = fp32::with_copies(g, copies_A, copies_B, workspace);
  consider_pairs(source, *sms, best);
  consider<Big, false>(source, *sms, {12100, 13500, 1190, 1190, 5390, 1140}, best);
  consider<Square, false>(source, *sms, {9020, 7270, 693, 693, 2770, 1490}, best);
  consider<Flat, false>(source, *sms, {5740, 5460, 546, 546, 5130, 0.0}, best);
  consider<Small, false>(source, *sms, {5330, 2770, 358, 370, 3590, 872}, best);
  bool lines_A = !copies_A || has_class_maps(g.m, g.k, g.lda), lines_B = !copies_B || has_class_maps(g.k, g.n, g.ldb);
  if ((copies_A || copies_B) && lines_A && lines_B) {
    consider<Square, true>({g}, *sms, {12300, 10300, 1000, 1000, 3720, 2460}, best);
    consider<Small, true>({g}, *sms, {10400, 5160, 693, 636, 1930, 1340}, best);
  }
  return error;
}

size_t workspace_for(const Gemm& g) {
  int sms = 1;
  Choice choice;
  choose(g, nullptr, &sms, &choice);
  return choice.launch == nullptr ? fp32::workspace_for(g) : choice.source.bytes;
}

cudaError_t run(const Gemm& given, void* workspace, cudaStream_t stream) {
  int sms = 1;
  Choice choice;
  cudaError_t error = choose(given, workspace, &sms, &choice);
  if (error != cudaSuccess) {
    return error;
  }
  if (choice.launch == nullptr) {
    return fp32::run(given, workspace, stream);
  }
  const Gemm& g = choice.source.g;
  if (choice.source.copied_A) {
    error = copy_aligned(given.A, given.lda, g.m, g.k, const_cast<float*>(g.A), stream);
  }
  if (error == cudaSuccess && choice.source.copied_B) {
    error = copy_aligned(given.B, given.ldb, g.k, g.n, const_cast<float*>(g.B), stream);
  }
  return error == cudaSuccess ? choice.launch(g, choice.cut, sms, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
