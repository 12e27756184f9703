// wgmma_3xfp16: FP32's accuracy from the tensor cores of Hopper, by FP16.
//
// Against `wgmma_3xtf32`:
// - Numbers are split into FP16. It has the same 11 significant bits as TF32, and the tensor core multiplies twice as
//   many of them in a cycle, from half the bytes. It has 5 bits of exponent instead of 8, so low parts are scaled once
//   more. split_lines.cuh says what FP16 can hold, and why no accuracy is lost.
// - A product with few tiles is worth the pre-pass here too, because wgmma is twice as fast.
//
// Which kernel computes a product (`run`): as in `wgmma_3xtf32`.
//
// Limit: the tensor cores, three products of 2048 multiply-adds a cycle and SM; and the memory, for the scan and the
// pre-pass, whose share falls like 1 / n.
//
// Occupancy: as `wgmma_3xtf32`.
#include "gemm.cuh"
#include "mma_product.cuh"
#include "multiply_adds.cuh"
#include "split_lines.cuh"
#include "wgmma.cuh"

#ifndef INTERVAL
#define INTERVAL 32
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif

// What a number is split into: x rounded to FP16, and the rest, scaled so that FP16 can hold it.
struct Fp16 {
  using Type = __half;
  static constexpr float LOW = 4096.0f;  // what the low parts are multiplied with
  static __device__ void split(float x, Type* high, Type* low) {
    *high = __float2half_rn(x);
    *low = __float2half_rn((x - __half2float(*high)) * LOW);
  }
};
using Number = Fp16;

constexpr int WGMMA_K = 16;    // steps of k of a wgmma
constexpr int TRUNCATED = 36;  // u = 2^-24 that the sum of a wgmma may lose

constexpr int TILE = 128;     // rows and columns of C of a block; a warp group has half of the rows
constexpr int CONSUMERS = 2;  // warp groups that multiply; a third one copies
constexpr int STEPS = 128 / sizeof(Number::Type);  // of k in a stage: a line of a tile is 128 bytes
constexpr int PART_BYTES = TILE * 128;             // a tile of high or of low parts
constexpr int STAGE_BYTES = 4 * PART_BYTES;        // high A, low A, high B, low B
constexpr size_t SHARED_BYTES = static_cast<size_t>(STAGES) * STAGE_BYTES;
constexpr int CHAIN = INTERVAL / WGMMA_K;  // wgmma whose products of high parts stay in the tensor core
constexpr int CHAINS = STEPS / INTERVAL;   // in a stage
constexpr int SECTION_STAGES = SECTION_SUMS * INTERVAL / STEPS;
static_assert(CHAIN > 0 && STEPS % (CHAIN * WGMMA_K) == 0, "whole sums in a stage");
static_assert(3 * CHAIN * TRUNCATED / 2 + 16 <= SHORT_SUM, "from there on the bound of an FP32 product holds");
static_assert(STAGES >= 2, "one stage to multiply, one on its way");

// The first row and column of pair t of tiles, one below the other. Pairs are numbered down the columns of GROUP rows
// of pairs.
__device__ inline Tile pair_of_tiles(const Gemm& g, unsigned t) {
  unsigned pairs_m = ceil_div(g.m, 2 * TILE);
  unsigned tiles_n = ceil_div(g.n, TILE);
  unsigned first = t / (GROUP * tiles_n) * GROUP;
  unsigned rows = pairs_m - first < GROUP ? pairs_m - first : GROUP;
  unsigned i = t % (GROUP * tiles_n);
  return {static_cast<int>(first + i % rows) * 2 * TILE, static_cast<int>(i / rows) * TILE};
}

// A cluster of two blocks computes pairs of tiles. The blocks share the columns of B: each copies half of them to both.
__global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) __cluster_dims__(2, 1, 1)
    sgemm_split(Gemm g, Lines<Number> lines, unsigned pairs, const __grid_constant__ CUtensorMap map_A,
                const __grid_constant__ CUtensorMap map_B) {
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t full[STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[STAGES];  // every warp of both blocks has read it
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
  int steps = static_cast<int>(lines.ld / STEPS);  // stages of k
  TilesLeftToFp32 left_out(g, lines);

  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * 128) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles(g, t);
        if (left_out.has(tile)) {
          continue;
        }
        int row = tile.row + rank * TILE;
        int col = tile.col + rank * (TILE / 2);
        for (int s = 0; s < steps; ++s) {
          mbarrier_wait(&empty[stage], parity);
          mbarrier_arrive_expect(&full[stage], STAGE_BYTES);
          char* to = shared + stage * STAGE_BYTES;
          bulk_copy_box(to, &map_A, row, s * STEPS, &full[stage]);
          bulk_copy_box(to + PART_BYTES, &map_A, g.m + row, s * STEPS, &full[stage]);
          char* to_B = to + 2 * PART_BYTES + rank * (PART_BYTES / 2);
          bulk_copy_box_to(3, to_B, &map_B, col, s * STEPS, &full[stage]);
          bulk_copy_box_to(3, to_B + PART_BYTES, &map_B, g.n + col, s * STEPS, &full[stage]);
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
    bool several = steps > SECTION_STAGES;  // sections
    bool releases = lane < 2;               // lane r of each warp gives stages back to block r of the cluster
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles(g, t);
      if (left_out.has(tile)) {
        continue;
      }
      float sum[64] = {};
      float high[64] = {};
      float low[64] = {};
      volatile float totals[64];  // in memory, because they are needed only at the end of a section
      if (several) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
          totals[i] = 0.0f;
        }
      }
      int last = 0;
      for (int s = 0; s < steps; ++s) {
        mbarrier_wait(&full[stage], parity);
        const char* at = shared + stage * STAGE_BYTES;
        uint64_t high_A = tile_descriptor(at + group * (PART_BYTES / 2));
        uint64_t low_A = tile_descriptor(at + PART_BYTES + group * (PART_BYTES / 2));
        uint64_t high_B = tile_descriptor(at + 2 * PART_BYTES);
        uint64_t low_B = tile_descriptor(at + 3 * PART_BYTES);
#pragma unroll 1  // unrolled, ptxas would run one wgmma after the other for the sake of the two sums (its note C7511)
        for (int first = 0; first < CHAINS * CHAIN; first += CHAIN) {
          hold(high);
          hold(low);
          wgmma_fence();
#pragma unroll
          for (int i = first; i < first + CHAIN; ++i) {
            wgmma_f16(high, high_A + 2 * i, high_B + 2 * i, i > first);
          }
          wgmma_commit();
#pragma unroll
          for (int i = first; i < first + CHAIN; ++i) {
            wgmma_f16(low, low_A + 2 * i, high_B + 2 * i, 1);
          }
#pragma unroll
          for (int i = first; i < first + CHAIN; ++i) {
            wgmma_f16(low, high_A + 2 * i, low_B + 2 * i, 1);
          }
          wgmma_commit();
          // While the tensor core multiplies low parts, the CUDA cores add the sums of high parts.
          wgmma_wait<1>();
          hold(high);
          if (first == 0 && s > 0 && releases) {  // the products of the previous stage are complete too
            mbarrier_arrive_at(&empty[last], lane);
          }
#pragma unroll
          for (int i = 0; i < 64; ++i) {
            sum[i] += high[i];
          }
        }
        last = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= stage == 0;
        if ((s + 1) % SECTION_STAGES == 0 && s + 1 < steps) {
#pragma unroll
          for (int i = 0; i < 64; ++i) {
            totals[i] = totals[i] + sum[i];
            sum[i] = 0.0f;
          }
        }
      }
      wgmma_wait<0>();
      hold(low);
      if (several) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
          sum[i] += totals[i];
        }
      }
      if (releases) {
        mbarrier_arrive_at(&empty[last], lane);
      }

      auto unscale = [&](int line) { return line_unscale(lines, line, g.k); };
      int row = tile.row + rank * TILE + group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
      int col = tile.col + lane % 4 * 2;
      float of_rows[2] = {unscale(min(row, g.m - 1)), unscale(min(row + 8, g.m - 1))};
      bool pairs_C = reinterpret_cast<uintptr_t>(g.C) % 8 == 0 && g.ldc % 2 == 0;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        int c = col + 8 * j;
        float of_cols[2] = {unscale(g.m + min(c, g.n - 1)), unscale(g.m + min(c + 1, g.n - 1))};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float two[2];
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            int i = 4 * j + 2 * half + v;
            two[v] = fmaf(low[i], 1.0f / Number::LOW, sum[i]);
            two[v] *= of_rows[half];
            two[v] *= of_cols[v];
          }
          store_two(g, row + 8 * half, c, two, pairs_C);
        }
      }
    }
  }
  cluster_barrier();  // no block may leave while the other still reaches into its shared memory
}

// The main kernel, with a cluster for each two SMs; then FP32 multiply-adds for the tiles that it leaves out.
cudaError_t launch_split(const Gemm& g, const Lines<Number>& lines, int sms, cudaStream_t stream) {
  CUtensorMap map_A = {}, map_B = {};
  int ld = static_cast<int>(lines.ld);
  if (!make_tensor_map(&map_A, lines.high_A, 2 * g.m, ld, ld, TILE, STEPS, CU_TENSOR_MAP_SWIZZLE_128B) ||
      !make_tensor_map(&map_B, lines.high_B, 2 * g.n, ld, ld, TILE / 2, STEPS, CU_TENSOR_MAP_SWIZZLE_128B)) {
    return cudaErrorNotSupported;
  }
  unsigned pairs = static_cast<unsigned>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
  unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
  cudaError_t error = launch(sgemm_split, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), SHARED_BYTES, stream, g,
                             lines, pairs, map_A, map_B);
  return error != cudaSuccess ? error
                              : launch_multiply_adds<1, FP32_SECTION>(g, 1, nullptr, stream, TilesLeftToFp32(g, lines));
}

// Whether mma.sync takes the product: a small or thin one, for which the pre-pass does not pay.
bool left_to_mma_sync(const Gemm& g) {
  constexpr double SMALL = 1024.0 * 1024.0 * 1024.0;  // multiply-adds
  constexpr int THIN = 64;
  return std::min(g.m, g.n) <= THIN || static_cast<double>(g.m) * g.n * g.k <= SMALL;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  if (longest_fp32_sum(g) > 0) {
    return run_multiply_adds(g, workspace, stream);
  }
  if (left_to_mma_sync(g)) {
    return launch_mma<MmaTiling<64, 128, 16, 32, 64, 4, 2, 16>>(g, stream);
  }
  Lines<Number> lines = lines_in<Number>(g, workspace);
  error = launch_split_lines(g, lines, stream);
  return error != cudaSuccess ? error : launch_split(g, lines, sms, stream);
}

size_t needed(const Gemm& g) {
  return longest_fp32_sum(g) > 0 ? multiply_adds_bytes(g)
         : left_to_mma_sync(g)   ? 0
                                 : lines_in<Number>(g, nullptr).bytes;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
