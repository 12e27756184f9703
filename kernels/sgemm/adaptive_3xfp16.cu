// adaptive_3xfp16: the way of each product is chosen by its shape, and the way of each tile by its data.
//
// Against `wgmma_3xfp16`:
// - Fewer tiles are left to FP32. There a tile was left as soon as one of its rows or columns had numbers too small for
//   FP16. Here the products are computed first, and each is proof itself: where it is large enough, what FP16 lost of
//   small numbers is below its error (scaled_parts.cuh). Steps of k are scaled too, and exponents may be any. A tile with
//   more than MOST_ELEMENTS products that prove nothing is left to FP32; fewer are computed one by one.
// - What is left is computed by the loop of `fastest` (tiles_left.cuh), in one launch behind the tensor cores' kernel, which
//   begins while that one ends.
// - Few terms: a sum in which few terms matter errs less in FP32. That is where most terms are zeros; but where tiles fill
//   the SMs, so that cuBLAS does not split k, only if at most FEW_TERMS are not. It is where rows and columns are wide
//   and the largest numbers of both seldom meet, and where those that count in a tile have few strong numbers.
// - Shape: `run` asks the model of `fastest` how many cycles FP32 takes, and a model of the pre-pass and of tensor cores how
//   many these take. Small, thin and flat products and those with a short k take `fastest` itself.
//
// Limit: for products that tensor cores win, as in `wgmma_3xfp16`; for all others, what limits `fastest`.
//
// Occupancy: as `wgmma_3xtf32`, and as `fastest`.
#include "aligned_copy.cuh"
#include "copying_warps.cuh"
#include "fastest_copies.cuh"
#include "gemm.cuh"
#include "scaled_parts.cuh"
#include "thin_sums.cuh"
#include "tiles_left.cuh"
#include "wgmma.cuh"

// The whole of `fastest`, whose function gets another name.
namespace fp32 {
#define sgemm sgemm_fp32
#include "fastest.cu"
#undef sgemm
}  // namespace fp32

#ifndef ALWAYS_SPLIT
#define ALWAYS_SPLIT 0  // 1: every product takes tensor cores, so that a small one shows whether they are right
#endif

constexpr int INTERVAL = 32, STAGES = 3, GROUP = 8;  // as in `wgmma_3xfp16`
constexpr int WGMMA_K = 16;                          // steps of k of a wgmma
constexpr int TILE = 128;                    // rows and columns of C of a block; a warp group has half of the rows
constexpr int CONSUMERS = 2;                 // warp groups that multiply; a third one copies
constexpr int STEPS = 128 / sizeof(__half);  // of k in a stage: a line of a tile is 128 bytes
constexpr int PART_BYTES = TILE * 128;       // a tile of high or of low parts
constexpr int STAGE_BYTES = 4 * PART_BYTES;  // high A, low A, high B, low B
constexpr size_t SHARED_BYTES = static_cast<size_t>(STAGES) * STAGE_BYTES;
constexpr int CHAIN = INTERVAL / WGMMA_K;  // wgmma whose products of high parts stay in the tensor core
constexpr int CHAINS = STEPS / INTERVAL;   // in a stage
constexpr int SECTION_SUMS = 64;           // sums of the tensor core that are added before they are added to a total
constexpr int SECTION_STAGES = SECTION_SUMS * INTERVAL / STEPS;
constexpr unsigned MOST_ELEMENTS = 64;  // of a tile, computed one by one
constexpr int SHORT_SUM = 576;          // up to here FP32 errs less (multiply_adds.cuh)
constexpr float FEW_TERMS = 128.0f, FEW_EFFECTIVE = 0.5f;
constexpr unsigned LEAST_STRONG = 48;  // numbers of the lines of a tile, on average
static_assert(CHAIN > 0 && STEPS % (CHAIN * WGMMA_K) == 0, "whole sums in a stage");
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

// What the data of a pair of tiles ask for.
struct Ask {
  bool fp32;  // for both tiles, before anything is computed: a line cannot be split, or few terms matter
  bool look;  // at each product: there are wide lines
};
__device__ inline Ask ask(const Gemm& g, const Parts& parts, float few_terms, Tile pair) {
  int i = pair.row / (2 * TILE), j = pair.col / TILE;
  int marks = parts.marks_A[i] | parts.marks_B[j];
  float terms = static_cast<float>(parts.nonzeros_A[i]) * static_cast<float>(parts.nonzeros_B[j]) / g.k;
  float sums = static_cast<float>(min(2 * TILE, g.m - pair.row)) * min(TILE, g.n - pair.col);
  bool few = terms > 0.0f && terms <= sums * few_terms;
  bool both_wide = (parts.marks_A[i] & parts.marks_B[j] & WIDE) != 0;
  few = few || (both_wide && effective_terms(parts, i, j, g.k) <= sums * FEW_EFFECTIVE);
  return {(marks & UNSPLIT) != 0 || few, (marks & WIDE) != 0};
}

// What a block finds out about its tile if there are wide lines. All warps that multiply take part. Of rows, then of columns:
struct Look {
  int top[2];  // the exponent of the largest number
  unsigned weight[2], strong[2];
  unsigned wide[2], least_kept[2];  // whether one is wide, and the largest least_kept, as bits
  unsigned unproved;                // products

  // Adds a line for each thread: half of the warps have the rows, the others the columns. Lines weigh by the squares of
  // their largest numbers, as they do in the norm of the tile.
  __device__ void add_lines(const Gemm& g, const Parts& parts, Tile tile, const LineEnd& end) {
    int side = threadIdx.x / TILE;
    int i = (side == 0 ? tile.row : tile.col) + threadIdx.x % TILE;
    bool inside = i < (side == 0 ? g.m : g.n);
    int64_t line = inside ? (side == 0 ? 0 : static_cast<int64_t>(g.m)) + i : 0;
    unsigned long long sums = inside ? parts.sums[line] : 0;
    int exponent = sums != 0 ? -(parts.exponents[line] >> 1) : -(1 << 20);
    int highest = __reduce_max_sync(0xFFFFFFFF, exponent);
    unsigned most_kept = __reduce_max_sync(0xFFFFFFFF, __float_as_uint(end.least_kept));
    bool any_wide = __any_sync(0xFFFFFFFF, end.wide != 0.0f);
    if (threadIdx.x % 32 == 0) {
      atomicMax(&top[side], highest);
      atomicMax(&least_kept[side], most_kept);
      atomicOr(&wide[side], any_wide ? 1u : 0u);
    }
    barrier_of<CONSUMERS * 128>();
    int below = top[side] - exponent;
    unsigned own_weight = sums != 0 && below <= 8 ? 1u << (16 - 2 * below) : 0;
    unsigned numbers = static_cast<unsigned>(min(sums >> SUM_BITS, 255ull));
    unsigned weights = __reduce_add_sync(0xFFFFFFFF, own_weight);
    numbers = __reduce_add_sync(0xFFFFFFFF, own_weight * numbers);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&weight[side], weights);
      atomicAdd(&strong[side], numbers);
    }
  }

  // No product needs more to be kept.
  __device__ float limit() const {
    return (wide[0] != 0 ? __uint_as_float(least_kept[1]) : 0.0f) +
           (wide[1] != 0 ? __uint_as_float(least_kept[0]) : 0.0f);
  }

  // Whether the tile is left, given how many products of this thread prove nothing.
  __device__ bool leaves(unsigned count) {
    count = __reduce_add_sync(0xFFFFFFFF, count);
    if (threadIdx.x % 32 == 0 && count > 0) {
      atomicAdd(&unproved, count);
    }
    barrier_of<CONSUMERS * 128>();
    bool weak = strong[0] < LEAST_STRONG * weight[0] || strong[1] < LEAST_STRONG * weight[1];
    return unproved > MOST_ELEMENTS || weak;
  }
};

constexpr Look NOTHING_SEEN = {{-(1 << 20), -(1 << 20)}};

// A cluster of two blocks computes pairs of tiles. The blocks share the columns of B: each copies half of them to both.
__global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) __cluster_dims__(2, 1, 1)
    sgemm_parts(Gemm g, Parts parts, Left left, unsigned pairs, float few_terms,
                const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B) {
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t full[STAGES];   // the copies to a stage have arrived
  __shared__ uint64_t empty[STAGES];  // every warp of both blocks has read it
  __shared__ Look looks[2];           // at this tile, and cleared for the next one
  __shared__ LineEnd ends[2 * TILE];  // of a tile's rows and then of its columns
  int rank = cluster_rank();
  int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    looks[0] = NOTHING_SEEN;
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2 * CONSUMERS * 4);
    }
    mbarrier_init_fence();
  }
  cluster_barrier();
  wait_for_first_kernel();
  let_second_kernel_begin();
  int steps = static_cast<int>(parts.ld / STEPS);  // stages of k

  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * 128) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles(g, t);
        if (ask(g, parts, few_terms, tile).fp32) {
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
    int next_look = 0;
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles(g, t);
      Tile own = {tile.row + rank * TILE, tile.col};
      Ask asked = ask(g, parts, few_terms, tile);
      if (asked.fp32) {
        if (threadIdx.x == 0 && own.row < g.m) {
          leave_tile(left, own);
        }
        continue;
      }
      // While the first copies are under way, a thread reads what takes the scale of one line back. At the end of the tile a
      // thread would need those of 34 lines, and each load would wait for the one before.
      barrier_of<CONSUMERS * 128>();  // all have read those of the tile before
      int i_line = threadIdx.x % TILE;
      ends[threadIdx.x] = line_end(parts,
                                   threadIdx.x < TILE ? min(own.row + i_line, g.m - 1)
                                                      : static_cast<int64_t>(g.m) + min(own.col + i_line, g.n - 1),
                                   g.k, asked.look);
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
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        sum[i] = fmaf(low[i], 1.0f / LOW_SCALE, sum[i]);
      }

      // The thread's products are those of two rows, of_rows[0] and of_rows[8], and of pairs of neighbouring columns.
      int below = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4, right = lane % 4 * 2;
      int row = own.row + below, col = own.col + right;
      const LineEnd *of_rows = ends + below, *of_cols = ends + TILE + right;
      bool pairs_C = reinterpret_cast<uintptr_t>(g.C) % 8 == 0 && g.ldc % 2 == 0;
      barrier_of<CONSUMERS * 128>();  // all lines have been read
      uint64_t unproved = 0;          // a bit for each product of this thread
      if (asked.look) {
        Look& look = looks[next_look];
        next_look ^= 1;
        look.add_lines(g, parts, own, ends[threadIdx.x]);
        if (threadIdx.x == 0) {
          looks[next_look] = NOTHING_SEEN;  // all have read what was seen there
        }
        float smallest = fabsf(sum[0]);
#pragma unroll
        for (int i = 1; i < 64; ++i) {
          smallest = fminf(smallest, fabsf(sum[i]));
        }
        if (smallest < look.limit()) {
#pragma unroll
          for (int i = 0; i < 64; ++i) {
            int r = 8 * (i / 2 % 2), c = i / 4 * 8 + i % 2;
            bool proved = row + r >= g.m || col + c >= g.n || proves(sum[i], of_rows[r], of_cols[c]);
            unproved |= static_cast<uint64_t>(!proved) << i;
          }
        }
        if (look.leaves(__popcll(unproved))) {
          if (threadIdx.x == 0) {
            leave_tile(left, own);
          }
          continue;
        }
        for (uint64_t rest = unproved; rest != 0; rest &= rest - 1) {
          int i = __ffsll(static_cast<long long>(rest)) - 1;
          leave_element(left, row + 8 * (i / 2 % 2), col + i / 4 * 8 + i % 2);
        }
      }
      // Without branches, because instructions that run once a tile are not in the instruction cache.
      auto store_all = [&](auto store) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          LineEnd of_row = of_rows[8 * half];
          float* to = g.C + (row + 8 * half) * g.ldc + col;
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            const float* two = sum + 4 * j + 2 * half;
            store(to + 8 * j, g.alpha * unscaled(two[0], of_row, of_cols[8 * j]),
                  g.alpha * unscaled(two[1], of_row, of_cols[8 * j + 1]));
          }
        }
      };
      // Elements that are left get a value here too, and another one later.
      if (own.row + TILE <= g.m && own.col + TILE <= g.n && g.beta == 0.0f) {
        if (pairs_C) {
          store_all([](float* to, float one, float next) { *reinterpret_cast<float2*>(to) = float2{one, next}; });
        } else {
          store_all([](float* to, float one, float next) {
            to[0] = one;
            to[1] = next;
          });
        }
        continue;
      }
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        int c = col + 8 * j;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int r = row + 8 * half;
          float two[2];
          bool kept[2];
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            int i = 4 * j + 2 * half + v;
            kept[v] = (unproved >> i & 1) == 0;
            two[v] = unscaled(sum[i], of_rows[8 * half], of_cols[8 * j + v]);
          }
          if (kept[0] && kept[1]) {
            store_two(g, r, c, two, pairs_C);
            continue;
          }
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            if (r < g.m && c + v < g.n && kept[v]) {
              store_result(g, r, c + v, two[v]);
            }
          }
        }
      }
    }
  }
  cluster_barrier();  // no block may leave while the other still reaches into its shared memory
}

// The workspace of a product that takes tensor cores.
struct Places {
  Parts parts;
  Left left;
  char* cleared;  // zeros from here
  size_t cleared_bytes, bytes;
};
Places places_in(const Gemm& g, int sms, void* workspace) {
  Places places = {};
  for (bool clear_first : {true, false}) {  // how many bytes have to be zeros, and then where everything stands
    auto begin = reinterpret_cast<uintptr_t>(workspace);
    uintptr_t cleared = begin, at = begin + places.cleared_bytes;
    auto place = [](uintptr_t* next, size_t bytes) {
      uintptr_t here = *next;
      *next += (bytes + 255) / 256 * 256;
      return here;
    };
    auto clear = [&](size_t bytes) { return place(&cleared, bytes); };
    auto take = [&](size_t bytes) { return clear_first ? at : place(&at, bytes); };
    places.parts = parts_in(g, clear, take);
    unsigned tiles = static_cast<unsigned>(ceil_div(g.m, TILE)) * static_cast<unsigned>(ceil_div(g.n, TILE));
    places.left = left_in(g, sms, static_cast<size_t>(tiles) * MOST_ELEMENTS, clear, take);
    places.cleared = static_cast<char*>(workspace);
    places.cleared_bytes = cleared - begin;
    places.bytes = at - begin;
  }
  return places;
}

// Whether tiles of 128 x 128, one on an SM, fill at least nine tenths of the SMs in all rounds. Else cuBLAS may split k.
bool fills_sms(const Gemm& g, int sms) {
  int64_t tiles = static_cast<int64_t>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE);
  return 10 * tiles >= 9 * ((tiles + sms - 1) / sms) * sms;
}

// The main kernel, with a cluster for each two SMs; then FP32 for what it leaves.
cudaError_t launch_parts(const Gemm& g, const Places& places, int sms, cudaStream_t stream) {
  CUtensorMap map_A = {}, map_B = {};
  int ld = static_cast<int>(places.parts.ld);
  if (!make_tensor_map(&map_A, places.parts.high_A, 2 * g.m, ld, ld, TILE, STEPS, CU_TENSOR_MAP_SWIZZLE_128B) ||
      !make_tensor_map(&map_B, places.parts.high_B, 2 * g.n, ld, ld, TILE / 2, STEPS, CU_TENSOR_MAP_SWIZZLE_128B)) {
    return cudaErrorNotSupported;
  }
  float few_terms = fills_sms(g, sms) ? FEW_TERMS : std::max(400.0f, static_cast<float>(g.k) / 6);
  unsigned pairs = static_cast<unsigned>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
  unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
  cudaError_t error = launch_after_copies(sgemm_parts, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), SHARED_BYTES,
                                          stream, g, places.parts, places.left, pairs, few_terms, map_A, map_B);
  return error != cudaSuccess ? error : launch_left(g, places.left, sms, stream);
}

// Whether tensor cores take a product. They do not where FP32 errs less: where C has less than about one tile for two SMs,
// or sums are short. Else fewer cycles decide: those of the model of `fastest`, and
// - PREPARE for five launches and the first copies, and 12 bytes for each element of A and B, at BYTES a cycle and SM;
// - for each pair of tiles of the busiest cluster STEP for each step of k, and END to fill the stages and store C.
// These are fitted to a profile at 2048 and 4096 and to the survey on an H100. A tenth is left for what the models do not
// know.
bool tensor_cores_win(const Gemm& g, int sms) {
  constexpr double PREPARE = 30000, BYTES = 11.6, STEP = 31, END = 9000, MARGIN = 1.1;
  if (ALWAYS_SPLIT) {
    return true;
  }
  double tiles = static_cast<double>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE);
  if (20 * tiles < 9 * sms || g.k <= SHORT_SUM) {
    return false;
  }
  fp32::Choice choice;
  fp32::choose(g, nullptr, &sms, &choice);
  double elements = (static_cast<double>(g.m) + g.n) * g.k;
  double pairs = static_cast<double>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
  double rounds = std::ceil(pairs / std::max(1, sms / 2));
  return MARGIN * (PREPARE + 12 * elements / (BYTES * sms) + rounds * (STEP * g.k + END)) < choice.cycles;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  if (!tensor_cores_win(g, sms)) {
    return fp32::run(g, workspace, stream);
  }
  Places places = places_in(g, sms, workspace);
  if (launch_observer == nullptr) {
    error = cudaMemsetAsync(places.cleared, 0, places.cleared_bytes, stream);
  }
  if (error == cudaSuccess) {
    error = launch_split_parts(g, places.parts, sms, stream);
  }
  return error != cudaSuccess ? error : launch_parts(g, places, sms, stream);
}

size_t needed(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  return tensor_cores_win(g, sms) ? places_in(g, sms, nullptr).bytes : fp32::workspace_for(g);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
