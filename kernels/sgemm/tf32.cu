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
// - sgemm_tiny, for little work: warps load what they multiply to their registers, without a copy in shared memory, and
//   use mma.sync. Up to 16 warps split the steps of k. All loads are under way at once if k is at most 256, in the tile
//   for long k up to 512.
// - sgemm_short, for few steps of k: two or four blocks share an SM, so that one multiplies while others wait for their
//   first tiles or store. No warp only copies, because its registers are needed.
// - A thread has pairs of neighbouring results. It stores them to C as they are, where they are aligned and beta is 0.
//   Otherwise results pass through shared memory, so that lanes store neighbours.
// - The copy engine cannot read a matrix that is not aligned to 16 bytes, or whose leading dimension is no multiple of
//   4. Such a matrix is first copied to the workspace (engine_copies.cuh). Or, where it is read only a few times, the
//   engine brings its lines four rows apart, and four warps mend what they lack (raw_lines.cuh).
//
// Which kernel computes a product (`choose`): the one that takes the fewest cycles by a model. `fastest`, with FP32
// multiply-adds, is one of them. It is chosen mostly where k is at most 32, or where it is long and C has few rows or
// columns.
//
// Limit: the tensor cores, 1024 multiply-adds a cycle and SM; in long runs the power limit. In sgemm_parts, tiles that
// come from the L2 cache.
//
// Occupancy: in sgemm_tf32 one block of 384 threads, 12 of an SM's 64 warps. A thread has 232 registers if it
// multiplies and 40 if it copies. Four stages take 192 KiB of shared memory.
#include "copying_warps.cuh"
#include "engine_copies.cuh"
#include "fastest_copies.cuh"
#include "mma.cuh"
#include "raw_lines.cuh"
#include "thin_sums.cuh"
#include "transposed_tiles.cuh"

// The whole of `fastest`, whose function gets another name.
namespace fp32 {
#define sgemm sgemm_fp32
#include "fastest.cu"
#undef sgemm
}  // namespace fp32

constexpr int STAGES = 4, GROUP = 8;
constexpr int TILE_ROWS = 256;  // of C
constexpr int TILE_COLS = 128;
constexpr int STEPS = LINE_STEPS;
constexpr int BYTES_A = TILE_ROWS * STEPS * 4;
constexpr int BYTES_B = TILE_COLS * STEPS * 4;
constexpr int STAGE_BYTES = BYTES_A + BYTES_B;
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

// Starts to multiply a stage's tiles, of which A's lies at `at` and a thread has its numbers of B. The products are added to
// `sum` if there is one yet.
template <int SUMS>
__device__ inline void start_products(float (&sum)[SUMS], const uint32_t (&B)[STEPS / 8][4], const char* at, bool add) {
  uint64_t A = tile_descriptor(at);
  hold(sum);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < STEPS / 8; ++i) {
    wgmma_tf32_wide(sum, B[i], A + 2 * i, add || i > 0);
  }
  wgmma_commit();
}

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
          ask_for_B<TILE_COLS>(to + BYTES_A, &map_B, s * STEPS, col, &full[stage]);
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
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles(g, t);
      float sum[128];
      uint32_t B[2][STEPS / 8][4];
      int last = 0;
      auto multiply = [&](int s, uint32_t (&b)[STEPS / 8][4]) {
        mbarrier_wait(&full[stage], parity);
        const char* at = shared + stage * STAGE_BYTES;
        own.load(b, at + BYTES_A);
        start_products(sum, b, at, s > 0);
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
      if (stores_pairs(g)) {
        bool whole = g.m - tile.row >= TILE_ROWS && g.n - (c - own.cols) >= TILE_COLS;
        store_pairs(g, r, c, whole, sum);
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

// Tiles of products that do not fill the GPU, or have few steps of k: ROWS x COLS results, 64 columns a warp group, with
// so many stages at most; BLOCKS of them on an SM.
template <int ROWS_, int GROUPS_, int STAGES_, int BLOCKS_>
struct WgmmaTiling {
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
  // of a thread that copies and of one that multiplies, if they move
  template <bool RAW>
  static constexpr int COPIER_REGISTERS = !RAW          ? 40
                                          : GROUPS == 2 ? 104
                                                        : 72;
  template <bool RAW>
  static constexpr int CONSUMER_REGISTERS = !RAW          ? 232
                                            : GROUPS == 2 ? 152
                                                          : 120;
  static constexpr int RAW_STAGE_BYTES = (BYTES_A + RawLinesOfB<COLS>::COPIED_BYTES + 1023) / 1024 * 1024;
  template <bool RAW>
  static constexpr int BYTES = RAW ? RAW_STAGE_BYTES : STAGE_BYTES;
  static_assert(SUM_BYTES <= STAGES * STAGE_BYTES, "the sums take the place of the stages");
};
using Big = WgmmaTiling<256, 2, 4, 1>;
using Square = WgmmaTiling<128, 2, 6, 1>;
using Flat = WgmmaTiling<64, 2, 8, 1>;
using Small = WgmmaTiling<64, 1, 6, 2>;
// For sgemm_short:
using ShortSquare = WgmmaTiling<128, 2, 3, 2>;
using ShortTall = WgmmaTiling<128, 1, 2, 4>;
using ShortSmall = WgmmaTiling<64, 1, 3, 4>;

// One thread asks the engine for the tiles of a stage, whose first step of k is `step`.
template <class T>
__device__ inline void ask_for_tiles(char* to, const CUtensorMap* map_A, const CUtensorMap* map_B, Tile tile, int step,
                                     uint64_t* arrived) {
  mbarrier_arrive_expect(arrived, T::STAGE_BYTES);
  bulk_copy_box(to, map_A, tile.row, step, arrived);
  ask_for_B<T::COLS>(to + T::BYTES_A, map_B, step, tile.col, arrived);
}

// The sums of a tile to C, from the registers of the block's threads.
template <class T>
__device__ inline void store_tile(const Gemm& g, Tile tile, char* shared, int col, const float (&sum)[T::ROWS / 2]) {
  if (stores_pairs(g)) {
    bool whole = g.m - tile.row >= T::ROWS && g.n - tile.col >= T::COLS;
    store_pairs(g, tile.row + threadIdx.x % 4 * 2, tile.col + col, whole, sum);
    return;
  }
  __syncthreads();  // all stages have been read
  share_sums<T>(shared, col, sum);
  __syncthreads();
  store_sums<T>(g, tile, shared, false);
}

// The product of a stage's tiles, added to `sum` if there is one yet.
template <class T>
__device__ inline void multiply_stage(float (&sum)[T::ROWS / 2], const OwnColumns& own, const char* at, bool add) {
  uint32_t B[STEPS / 8][4];
  own.load(B, at + T::BYTES_A);
  start_products(sum, B, at, add);
  wgmma_wait<0>();
  hold(sum);
}

// One block computes one tile. All warps multiply, and the first thread asks for copies.
template <class T>
__global__ void __launch_bounds__(T::CONSUMERS, T::BLOCKS)
    sgemm_short(Gemm g, TileOrder order, const __grid_constant__ CUtensorMap map_A,
                const __grid_constant__ CUtensorMap map_B) {
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t arrived[T::STAGES];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < T::STAGES; ++stage) {
      mbarrier_init(&arrived[stage], 1);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  Tile tile = tile_in_order<GROUP>(order, static_cast<int>(blockIdx.x), T::ROWS, T::COLS);
  int steps = ceil_div(g.k, STEPS);
  wait_for_first_kernel();
  if (threadIdx.x == 0) {
    for (int s = 0; s < steps && s < T::STAGES; ++s) {
      ask_for_tiles<T>(shared + s * T::STAGE_BYTES, &map_A, &map_B, tile, s * STEPS, &arrived[s]);
    }
  }
  OwnColumns own(threadIdx.x / 128);
  float sum[T::ROWS / 2];
  int stage = 0;
  int parity = 0;
  for (int s = 0; s < steps; ++s) {
    char* at = shared + stage * T::STAGE_BYTES;
    mbarrier_wait(&arrived[stage], parity);
    multiply_stage<T>(sum, own, at, s > 0);
    if (int next = s + T::STAGES; next < steps) {
      __syncthreads();  // all warps have read the stage
      if (threadIdx.x == 0) {
        ask_for_tiles<T>(at, &map_A, &map_B, tile, next * STEPS, &arrived[stage]);
      }
    }
    stage = stage + 1 < T::STAGES ? stage + 1 : 0;
    parity ^= stage == 0;
  }
  store_tile<T>(g, tile, shared, own.cols, sum);
}

// Tiles of products with little work: ROWS x COLS results. Each of up to WARPS warps takes CHUNK steps of k at a time.
template <int ROWS_, int COLS_, int CHUNK_, int WARPS_>
struct TinyTiling {
  static constexpr int ROWS = ROWS_, COLS = COLS_, CHUNK = CHUNK_, WARPS = WARPS_;
  static constexpr int BLOCKS_M = ROWS / 16, BLOCKS_N = COLS / 8;  // that mma.sync computes
  static constexpr int VECTORS = ROWS * COLS / 4;                  // of sums
};
using Tiny = TinyTiling<16, 32, 16, 16>;
using TinyLong = TinyTiling<16, 32, 32, 16>;
using TinyTall = TinyTiling<32, 32, 32, 8>;

// One block computes one tile, and each warp has a sum of its own over its share of k. A thread loads the operands of
// mma.sync from global memory to its registers, all of a chunk at once: nothing stands between the loads and the products.
// The sums of the warps meet in shared memory.
template <class T>
__global__ void __launch_bounds__(32 * T::WARPS, 1) sgemm_tiny(Gemm g, TileOrder order) {
  float4* shared = dynamic_shared<float4>();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Tile tile = tile_in_order<GROUP>(order, static_cast<int>(blockIdx.x), T::ROWS, T::COLS);
  int rows = g.m - tile.row, cols = g.n - tile.col;  // from here to the edges
  int own = lane / 4, step = warp * T::CHUNK + lane % 4;
  const float* A[2 * T::BLOCKS_M];
#pragma unroll
  for (int i = 0; i < 2 * T::BLOCKS_M; ++i) {
    A[i] = g.A + (tile.row + min(own + 8 * i, rows - 1)) * g.lda + step;  // the last row stands for those beyond it
  }
  const float* B = g.B + step * g.ldb + tile.col + own;
  float sum[T::BLOCKS_M][T::BLOCKS_N][4] = {};
#pragma unroll 1
  for (int left = g.k - step; left + lane % 4 > 0; left -= warps * T::CHUNK) {
    float a[T::CHUNK / 4][2 * T::BLOCKS_M], b[T::CHUNK / 4][T::BLOCKS_N];
#pragma unroll
    for (int p = 0; p < T::CHUNK / 4; ++p) {
#pragma unroll
      for (int i = 0; i < 2 * T::BLOCKS_M; ++i) {
        a[p][i] = 4 * p < left ? A[i][4 * p] : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < T::BLOCKS_N; ++j) {
        b[p][j] = 4 * p < left && own + 8 * j < cols ? B[4 * p * g.ldb + 8 * j] : 0.0f;
      }
    }
#pragma unroll
    for (int p = 0; p < T::CHUNK / 4; p += 2) {
      uint32_t of_A[T::BLOCKS_M][4];
#pragma unroll
      for (int i = 0; i < T::BLOCKS_M; ++i) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          of_A[i][v] = __float_as_uint(rounded_to_tf32(a[p + v / 2][2 * i + v % 2]));
        }
      }
#pragma unroll
      for (int j = 0; j < T::BLOCKS_N; ++j) {
        uint32_t of_B[2] = {__float_as_uint(rounded_to_tf32(b[p][j])), __float_as_uint(rounded_to_tf32(b[p + 1][j]))};
#pragma unroll
        for (int i = 0; i < T::BLOCKS_M; ++i) {
          mma_tf32(sum[i][j], of_A[i], of_B);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * T::BLOCKS_M; ++i) {
      A[i] += warps * T::CHUNK;
    }
    B += warps * T::CHUNK * g.ldb;
  }
#pragma unroll
  for (int i = 0; i < T::VECTORS / 32; ++i) {
    const float (&four)[4] = sum[i / T::BLOCKS_N][i % T::BLOCKS_N];
    shared[warp * T::VECTORS + i * 32 + lane] = float4{four[0], four[1], four[2], four[3]};
  }
  __syncthreads();
#pragma unroll 1
  for (int i = warp; i < T::VECTORS / 32; i += warps) {
    float4 total = shared[i * 32 + lane];
#pragma unroll 4
    for (int other = 1; other < warps; ++other) {
      total = total + shared[other * T::VECTORS + i * 32 + lane];
    }
    float results[4] = {total.x, total.y, total.z, total.w};
    int row = i / T::BLOCKS_N * 16 + own, col = i % T::BLOCKS_N * 8 + lane % 4 * 2;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      if (row + v / 2 * 8 < rows && col + v % 2 < cols) {
        store_result(g, tile.row + row + v / 2 * 8, tile.col + col + v % 2, results[v]);
      }
    }
  }
}

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
  Share share = share_of_block(g, cut);
  int first = share.first, end = share.end;
  Tile tile = tile_in_order<GROUP>(cut.order, static_cast<int>(share.tile), T::ROWS, T::COLS);
  bool heads_of_B = raw_B && tile.col == 0;
  uint64_t* full = raw_A || heads_of_B ? mended : arrived;
  wait_for_first_kernel();

  if (threadIdx.x >= T::CONSUMERS) {
    int warp = threadIdx.x / 32 - T::CONSUMERS / 32, asker = RAW ? CLASSES : 0;
    bool in_group = T::template COPIERS<RAW> % 128 == 0 || warp < asker;
    if (T::template MOVES_REGISTERS<RAW> && in_group) {
      give_registers<T::template COPIER_REGISTERS<RAW>>();
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
          ask_for_B<T::COLS>(to_B, &maps_B.of[0], s * STEPS, tile.col, &arrived[stage]);
        }
        stage = stage + 1 < cut.stages ? stage + 1 : 0;
        parity ^= stage == 0;
      }
    } else if (warp < asker && full == mended) {
      parity = 0;
      MovedLines<T::ROWS> lines_A(g, tile.row, first * STEPS, warp);
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
      take_registers<T::template CONSUMER_REGISTERS<RAW>>();
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
      start_products(sum, b, at, s > first);
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
    if (!RAW && cut.parts == 1 && stores_pairs(g)) {
      bool whole = g.m - tile.row >= T::ROWS && g.n - tile.col >= T::COLS;
      store_pairs(g, tile.row + lane % 4 * 2, tile.col + own.cols, whole, sum);
      return;
    }
    barrier_of<T::CONSUMERS>();  // all stages have been read
    share_sums<T>(shared, raw_B ? own_raw.cols : own.cols, sum);
    barrier_of<T::CONSUMERS>();
    if (cut.parts == 1) {
      store_sums<T>(g, tile, shared, raw_A);
    }
  }
  if (cut.parts > 1) {
    store_sums_of_cluster<T>(g, tile, shared, raw_A, share.part, cut.parts);
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

template <class T>
cudaError_t launch_short(const Gemm& g, Cut, int, cudaStream_t stream) {
  CUtensorMap map_A = {}, map_B = {};
  if (!make_map_A(g, T::ROWS, &map_A) || !make_map_B(g, &map_B)) {
    return cudaErrorNotSupported;
  }
  return launch_after_copies(sgemm_short<T>, tile_grid(g, T::ROWS, T::COLS), dim3(T::CONSUMERS),
                             static_cast<size_t>(T::STAGES) * T::STAGE_BYTES, stream, g,
                             tile_order(g, T::ROWS, T::COLS, GROUP), map_A, map_B);
}

template <class T>
cudaError_t launch_tiny(const Gemm& g, Cut, int, cudaStream_t stream) {
  int warps = std::min(T::WARPS, ceil_div(g.k, T::CHUNK));
  return launch(sgemm_tiny<T>, tile_grid(g, T::ROWS, T::COLS), dim3(32 * warps),
                static_cast<size_t>(warps) * T::VECTORS * sizeof(float4), stream, g,
                tile_order(g, T::ROWS, T::COLS, GROUP));
}

template <class T, bool RAW>
cudaError_t launch_parts(const Gemm& g, Cut cut, int, cudaStream_t stream) {
  ClassMaps maps_A = {}, maps_B = {};
  bool raw_A = !make_map_A(g, T::ROWS, &maps_A.of[0]), raw_B = !make_map_B(g, &maps_B.of[0]);
  bool made = RAW || !(raw_A || raw_B);
  if (made && raw_A) {
    made = make_class_maps(&maps_A, g.A, g.m, g.k, g.lda, T::ROWS / CLASSES, STEPS, CU_TENSOR_MAP_SWIZZLE_128B, true);
  }
  if (made && raw_B) {
    made =
        make_class_maps(&maps_B, g.B, g.k, g.n, g.ldb, STEPS / CLASSES, T::COLS + 4, CU_TENSOR_MAP_SWIZZLE_NONE, true);
  }
  if (!made) {
    return cudaErrorNotSupported;
  }
  dim3 grid = tile_grid(g, T::ROWS, T::COLS);
  grid.x *= cut.parts;
  dim3 block(T::CONSUMERS + T::template COPIERS<RAW>);
  int least = ceil_div(T::SUM_BYTES, T::template BYTES<RAW>);
  cut.stages = std::min(T::STAGES, std::max(least, ceil_div(ceil_div(g.k, STEPS), cut.parts)));
  cut.order = tile_order(g, T::ROWS, T::COLS, GROUP);
  size_t shared_bytes = static_cast<size_t>(cut.stages) * T::template BYTES<RAW>;
  auto kernel = sgemm_parts<T, RAW>;
  return launch_parts_after_copies(kernel, cut.parts, grid, block, shared_bytes, stream, g, cut, raw_A, raw_B, maps_A,
                                   maps_B);
}

using Launch = cudaError_t (*)(const Gemm& g, Cut cut, int sms, cudaStream_t stream);

// A way to compute a product, and its cycles by the model.
struct Choice {
  double cycles;
  fp32::Source source;  // reads copies of what the engine cannot read, or the matrices themselves
  Cut cut;
  Launch launch;  // null for `fastest`
};

// The model: cycles on the busiest SM, comparable with those of `fastest`. Its constants are fitted to the times of the
// ways to compute drawn products on an H200. Those times are not recorded. The survey draws other products.

// Replaces `best` by the best number of parts for one tiling if this has fewer cycles.
template <class T>
void consider(const fp32::Source& source, int sms, const TileCosts& costs, Launch launch, int most_parts,
              Choice* best) {
  double copies = copy_cycles(source.g, source.copied_A, source.copied_B, sms);
  for (int parts = 1; parts <= std::min(most_parts, ceil_div(source.g.k, STEPS)); parts *= 2) {
    double cycles = copies + cycles_of_tiles<T>(source.g, sms, costs, parts);
    if (cycles < best->cycles) {
      *best = {cycles, source, {parts, 0}, launch};
    }
  }
}

// The same for sgemm_tf32.
void consider_pairs(const fp32::Source& source, int sms, Choice* best) {
  constexpr double FIRST = 10800, LATER = 6520, STEP = 989, UNALIGNED_C = 20200;
  const Gemm& g = source.g;
  double pairs = static_cast<double>(ceil_div(g.m, TILE_ROWS)) * ceil_div(g.n, 2 * TILE_COLS);
  double rounds = std::ceil(pairs / std::max(1, sms / 2));
  bool stores_pairs = vector_width(g.C, g.ldc) == 4 && g.n % 2 == 0;
  double tile = ceil_div(g.k, STEPS) * STEP + (stores_pairs ? 0.0 : UNALIGNED_C);
  double cycles =
      copy_cycles(source.g, source.copied_A, source.copied_B, sms) + FIRST - LATER + rounds * (LATER + tile);
  if (cycles < best->cycles) {
    *best = {cycles, source, {}, launch_tf32};
  }
}

// The same for sgemm_tiny. The first loads and the last stores take `first`. For the rest, the L1 cache looks up the lines of
// the loads one by one: each block of an SM takes `chunk` for each chunk of steps, and `tile` for its sums.
struct TinyCosts {
  double first, chunk, tile;
};

template <class T>
void consider_tiny(const Gemm& g, int sms, const TinyCosts& costs, Choice* best) {
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, T::ROWS)) * ceil_div(g.n, T::COLS);
  double on_sm = static_cast<double>((tiles + sms - 1) / sms);
  double cycles = costs.first + on_sm * (ceil_div(g.k, T::CHUNK) * costs.chunk + costs.tile);
  if (cycles < best->cycles) {
    *best = {cycles, {g}, {}, launch_tiny<T>};
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
  consider<Big>(source, *sms, {11200, 9980, 1160, 1160, 7500, 5530}, launch_parts<Big, false>, MOST_BLOCKS, best);
  consider<Square>(source, *sms, {7610, 5240, 796, 796, 4160, 2060}, launch_parts<Square, false>, MOST_BLOCKS, best);
  consider<Flat>(source, *sms, {6970, 4240, 583, 583, 3980, 0.0}, launch_parts<Flat, false>, MOST_BLOCKS, best);
  consider<Small>(source, *sms, {5360, 2190, 196, 446, 4490, 585}, launch_parts<Small, false>, MOST_BLOCKS, best);
  consider<ShortSquare>(source, *sms, {5680, 8210, 929, 814, 0.0, 2410}, launch_short<ShortSquare>, 1, best);
  consider<ShortTall>(source, *sms, {5190, 7080, 838, 697, 0.0, 1470}, launch_short<ShortTall>, 1, best);
  consider<ShortSmall>(source, *sms, {4710, 3410, 558, 354, 0.0, 566}, launch_short<ShortSmall>, 1, best);
  consider_tiny<Tiny>(g, *sms, {3130, 186, 234}, best);
  consider_tiny<TinyLong>(g, *sms, {3410, 305, 162}, best);
  consider_tiny<TinyTall>(g, *sms, {3790, 396, 499}, best);
  bool lines_A = !copies_A || has_class_maps(g.m, g.k, g.lda), lines_B = !copies_B || has_class_maps(g.k, g.n, g.ldb);
  if ((copies_A || copies_B) && lines_A && lines_B) {
    consider<Square>({g}, *sms, {11000, 9320, 1190, 1190, 3360, 1020}, launch_parts<Square, true>, MOST_BLOCKS, best);
    consider<Small>({g}, *sms, {9240, 3450, 326, 797, 1080, 866}, launch_parts<Small, true>, MOST_BLOCKS, best);
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
  const fp32::Source& source = choice.source;
  error = copy_for(given, source.g, source.copied_A, source.copied_B, stream);
  return error == cudaSuccess ? choice.launch(source.g, choice.cut, sms, stream) : error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
