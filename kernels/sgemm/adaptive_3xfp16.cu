// adaptive_3xfp16: the way of each product is chosen by its shape, and the way of each tile by its data.
//
// Against `wgmma_3xfp16`:
// - Products that are too small for the pre-pass take tensor cores too, in one launch (`sgemm_split`). FP16 would need the
//   scales of rows and columns, so their numbers are split to TF32, whose exponents are those of FP32: A in shared memory, by
//   four warps, and B in registers. Blocks of a cluster share the steps of k of a tile. Where rows do not begin at multiples of
//   16 bytes, the engine brings raw lines (raw_lines.cuh), and these warps move A's to where they belong.
// - Fewer tiles are left to FP32. There a tile was left as soon as one of its rows or columns had numbers too small for
//   FP16. Here the products are computed first, and each is proof itself: where it is large enough, what FP16 lost of
//   small numbers is below its error (scaled_parts.cuh). Steps of k are scaled too, and exponents may be any. A tile with
//   more than MOST_ELEMENTS products that prove nothing is left to FP32; fewer are computed one by one.
// - What is left is computed by the loop of `fastest` (tiles_left.cuh), in one launch behind the tensor cores' kernel, which
//   begins while that one ends. `sgemm_split` needs no second launch: a block that finds that FP32 errs less computes its
//   tile by multiply-adds itself.
// - Few terms: a sum in which few terms matter errs less in FP32. That is where most terms are zeros; the fewer there may be,
//   the longer the sum, but more are needed where tiles do not fill the SMs, so that cuBLAS may split k. It is where rows
//   and columns are wide and the largest numbers of both seldom meet, and where those that count in a tile have few strong
//   numbers. `sgemm_split` asks how far the numbers of a line are below its largest one, in binades: FP32 errs as much as
//   elsewhere as long as it still rounds most terms when it adds them to the largest ones.
// - Shape (`choose`): models say how many cycles the pre-pass and tensor cores take, how many `sgemm_split`, and how many
//   `fastest`. Thin products and those with a short k take `fastest` itself.
//
// Limit: for products that tensor cores win, as in `wgmma_3xfp16`, and in `sgemm_split` what stands beside the tensor
// cores: splitting, looking at the numbers, and adding sums. For all others, what limits `fastest`.
//
// Occupancy: as `wgmma_3xtf32`, and as `fastest`. `sgemm_split` has one block of 384 threads on an SM, or two of 256.
#include <cfloat>
#include <type_traits>

#include "copying_warps.cuh"
#include "engine_copies.cuh"
#include "fastest_copies.cuh"
#include "gemm.cuh"
#include "raw_lines.cuh"
#include "scaled_parts.cuh"
#include "thin_sums.cuh"
#include "tiles_left.cuh"
#include "transposed_tiles.cuh"
#include "wgmma.cuh"

// The whole of `fastest`, whose function gets another name.
namespace fp32 {
#define sgemm sgemm_fp32
#include "fastest.cu"
#undef sgemm
}  // namespace fp32

#ifndef ALWAYS_SPLIT
// 1: every product takes the pre-pass, 2: or sgemm_split if sums are not short, so that a small one shows whether it is right
#define ALWAYS_SPLIT 0
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
constexpr int LEFT_SECTION = 1024;      // steps of k in a sum of what is left; half as many where cuBLAS may split k
constexpr unsigned MOST_ELEMENTS = 64;  // of a tile, computed one by one
constexpr int SHORT_SUM = 576;          // up to here FP32 errs less (multiply_adds.cuh)
constexpr float LEAST_FEW = 32, MOST_FEW = 128, FEW_BY_STEPS = 131072, FEW_EFFECTIVE = 0.5f;  // terms of a sum
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

// What the data of a pair of tiles ask for. All lanes of a warp find out.
struct Ask {
  bool fp32;  // for both tiles, before anything is computed: a line cannot be split, or few terms matter
  bool look;  // at each product: there are wide lines
  bool weak_upper, weak_lower;  // few terms matter in one tile, or it has no rows
};
__device__ inline Ask ask(const Gemm& g, const Parts& parts, float few_terms, Tile pair) {
  int i = pair.row / (2 * TILE), j = pair.col / TILE;
  int marks_A = parts.marks_A[i], marks_B = parts.marks_B[j];
  int rows = min(2 * TILE, g.m - pair.row), cols = min(TILE, g.n - pair.col);
  float terms = static_cast<float>(parts.nonzeros_A[i]) * static_cast<float>(parts.nonzeros_B[j]) / g.k;
  float sums = static_cast<float>(rows) * cols;
  bool few = terms > 0.0f && terms <= sums * few_terms;
  bool both_wide = (marks_A & marks_B & WIDE) != 0;
  few = few || (both_wide && effective_terms(parts, i, j, g.k) <= sums * FEW_EFFECTIVE);
  bool fp32 = ((marks_A | marks_B) & UNSPLIT) != 0 || few;
  bool look = ((marks_A | marks_B) & WIDE) != 0;
  if (fp32 || !look) {
    return {fp32, look, false, false};
  }
  bool weak_B = weak_lines(parts, static_cast<int64_t>(g.m) + pair.col, cols);
  bool upper = weak_B || weak_lines(parts, pair.row, min(TILE, rows));
  bool lower = weak_B || rows <= TILE || weak_lines(parts, pair.row + TILE, rows - TILE);
  return {upper && lower, look, upper, lower};
}

// What a block finds out about its tile if there are wide lines. All warps that multiply take part. Of rows, then of columns:
struct Look {
  unsigned wide[2], least_kept[2];  // whether one is wide, and the largest least_kept, as bits
  unsigned unproved;                // products

  // Adds a line for each thread: half of the warps have the rows, the others the columns.
  __device__ void add_lines(const LineEnd& end) {
    int side = threadIdx.x / TILE;
    unsigned most_kept = __reduce_max_sync(0xFFFFFFFF, __float_as_uint(end.least_kept));
    bool any_wide = __any_sync(0xFFFFFFFF, end.wide != 0.0f);
    if (threadIdx.x % 32 == 0) {
      atomicMax(&least_kept[side], most_kept);
      atomicOr(&wide[side], any_wide ? 1u : 0u);
    }
    barrier_of<CONSUMERS * 128>();
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
    return unproved > MOST_ELEMENTS;
  }
};

constexpr Look NOTHING_SEEN = {};

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
    if (threadIdx.x < CONSUMERS * 128 + 32) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles(g, t);
        bool fp32 = ask(g, parts, few_terms, tile).fp32;
        if (fp32 || threadIdx.x % 32 != 0) {
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
        look.add_lines(ends[threadIdx.x]);
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
        if (look.leaves(__popcll(unproved)) || (rank == 0 ? asked.weak_upper : asked.weak_lower)) {
          if (threadIdx.x == 0 && own.row < g.m) {
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

// Of `sgemm_split`:
constexpr int SPLIT_INTERVAL = 16;  // steps of k whose products stay in the tensor core (split_tf32.cuh)
constexpr int SPLIT_SECTION = 16;   // stages whose sums are added before they are added to a total
constexpr int LEAST_SUM = 96;       // steps of k: the bound holds from 76 on, as in `wgmma_3xtf32`
constexpr float FEWEST_STEPS = 75, LEAST_TERMS = 16, SLACK = 0.8f;  // that are not zeros, in a sum of cuBLAS
constexpr int COARSE_LINES = 4096;  // in a block: with more, all that it sees would be too much for 32 bits
// These limits, LEAST_TERMS and the FEW of the pre-pass are chosen by errors for drawn data on an H200, which are not recorded.
constexpr float FIRST_ROOM = 64;                    // for numbers that the first stage does not have
constexpr float FIRST_BELOW = 13, MOST_BELOW = 23;  // binades of numbers of A and of B below the largest of their lines
constexpr float FIRST_OF_BOTH = 6.2f, MOST_OF_BOTH = 10.5f;  // binades that those of A and those of B are

// Tiles of products that do not pay for the pre-pass: ROWS x COLS results, 64 columns a warp group, with so many stages at
// most; BLOCKS of them on an SM. Four warps split A, and the first of their threads asks for copies.
template <int ROWS_, int GROUPS_, int STAGES_, int BLOCKS_, int CONSUMER_REGISTERS_, int SPLITTER_REGISTERS_>
struct SplitTiling {
  static constexpr int ROWS = ROWS_, GROUPS = GROUPS_, STAGES = STAGES_, BLOCKS = BLOCKS_;
  static constexpr int CONSUMER_REGISTERS = CONSUMER_REGISTERS_, SPLITTER_REGISTERS = SPLITTER_REGISTERS_;
  static constexpr int COLS = 64 * GROUPS, CONSUMERS = 128 * GROUPS, SPLITTERS = 128;
  static constexpr int THREADS = CONSUMERS + SPLITTERS;
  static constexpr int BYTES_A = ROWS * 128, BYTES_B = COLS * 128;  // of a stage: A or its high parts, A's low parts, B
  using RawB = RawLinesOfB<COLS>;
  template <bool RAW>  // a multiple of 1024, where A's tile has to begin
  static constexpr int STAGE_BYTES = 2 * BYTES_A + (RAW ? (RawB::COPIED_BYTES + 1023) / 1024 * 1024 : BYTES_B);
  static constexpr int PITCH = COLS + 4;  // of a row of sums, so that lanes store to different banks
  static constexpr int SUM_BYTES = ROWS * PITCH * 4;
  static constexpr int SHARERS = SPLITTERS / ROWS;  // of a line of A
  static_assert(SUM_BYTES <= STAGES * STAGE_BYTES<false>, "the sums take the place of the stages");

  // How many numbers the sharers of a line of A look at, half of what each has, if so many steps are in the matrix.
  static __device__ int looked_of_A(int steps) {
    constexpr int SHARE = LINE_STEPS / SHARERS;
    int looked = 0;
    for (int i = 0; i < SHARERS; ++i) {
      looked += min(max(steps - i * SHARE, 0), SHARE / 2);
    }
    return looked;
  }
};
using SplitSquare = SplitTiling<128, 2, 4, 1, 200, 104>;
using SplitFlat = SplitTiling<64, 2, 5, 1, 208, 88>;
using SplitSmall = SplitTiling<64, 1, 4, 2, 152, 104>;

// What a thread has seen of a line of A or B along k, or of its share of one. All numbers are noted, and half
// of them looked at.
struct Seen {
  static constexpr unsigned MOST = 2 * 0x7F7FFFFFu - 2;
  unsigned least = MOST;                // the bits of the smallest magnitude that is not zero, doubled, less 2
  unsigned largest = 0, exponents = 0;  // the bits of the largest magnitude, doubled; of all, the sum
  unsigned others = 0;                  // than zero

  __device__ void note(float x) { least = min(least, 2u * __float_as_uint(x) - 2u); }
  __device__ void look(float x) {
    unsigned doubled = 2u * __float_as_uint(x);
    largest = max(largest, doubled);
    exponents += __umulhi(doubled, 256);  // in one instruction
    others += doubled != 0;
  }
  // The sum of how many binades each of the numbers is below the largest one of the line, which LANES neighbouring lanes
  // have in common. No division: a block runs this code twice, so each instruction has to be fetched.
  template <int LANES>
  __device__ unsigned below() const {
    unsigned top = largest;
#pragma unroll
    for (int lanes = 1; lanes < LANES; lanes *= 2) {
      top = max(top, __shfl_xor_sync(0xFFFFFFFF, top, lanes));
    }
    return (top >> 24) * others - exponents;
  }
};

// What the threads of a block have seen of its part of a product: of A and of B.
struct Verdict {
  unsigned least[2], others[2], below[2];

  __device__ void begin() {
    for (int side = 0; side < 2; ++side) {
      least[side] = Seen::MOST;
      others[side] = below[side] = 0;
    }
  }
  // All lanes of a warp add what they have seen, each of N lines. Numbers are counted by 2^coarse.
  template <int LANES, int N>
  __device__ void add(int side, const Seen (&seen)[N], int coarse) {
    unsigned smallest = Seen::MOST, count = 0, binades = 0;
#pragma unroll
    for (const Seen& one : seen) {
      smallest = min(smallest, one.least);
      count += one.others >> coarse;
      binades += one.below<LANES>() >> coarse;
    }
    smallest = __reduce_min_sync(0xFFFFFFFF, smallest);
    count = __reduce_add_sync(0xFFFFFFFF, count);
    binades = __reduce_add_sync(0xFFFFFFFF, binades);
    if (threadIdx.x % 32 == 0) {
      atomicMin(&least[side], smallest);
      atomicAdd(&others[side], count);
      atomicAdd(&below[side], binades);
    }
  }
  // FP32 is needed if low parts, or their products, could underflow; `room` is by how much smaller numbers may be that have not
  // been seen. It errs less if too many of the terms looked at are zeros (not all), or if most numbers are so far below the
  // largest ones that it hardly rounds when it adds their products: `most` binades for A and B together, `of_both` for each.
  // `terms` is how many there are.
  __device__ bool needs_fp32(float terms, float least_terms, float room, float most, float of_both) const {
    float of_A = __uint_as_float(least[0] / 2 + 1), of_B = __uint_as_float(least[1] / 2 + 1);
    bool underflow = fminf(of_A, of_B) < room * 0x1p-102f || of_A * of_B < room * 0x1p-100f;
    float some_A = static_cast<float>(others[0]), some_B = static_cast<float>(others[1]), some = some_A * some_B;
    float below_A = static_cast<float>(below[0]) * some_B, below_B = static_cast<float>(below[1]) * some_A;
    bool far_below = below_A + below_B > most * some || fminf(below_A, below_B) > of_both * some;
    return underflow || (some > 0.0f && some < least_terms * terms) || far_below;
  }
};

// Splits a number: x rounded to TF32, and the exact rest, of which the tensor core reads the first 11 bits.
__device__ inline void split_tf32(float x, uint32_t* high, uint32_t* low) {
  *high = (__float_as_uint(x) + 0x1000) & 0xFFFFE000;
  *low = __float_as_uint(x - __uint_as_float(*high));
}

// A thread's share of a line of A's tile. Where it is split, the high parts take its place.
template <class T>
struct LinesOfA {
  static constexpr int VECTORS = 8 / T::SHARERS;  // of four numbers
  int places[VECTORS];

  __device__ explicit LinesOfA(int thread) {
    int row = thread / T::SHARERS;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      places[i] = row * 128 + ((thread % T::SHARERS * VECTORS + i) ^ row % 8) * 16;
    }
  }
  __device__ void load(float4 (&line)[VECTORS], const char* at) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      line[i] = *reinterpret_cast<const float4*>(at + places[i]);
    }
  }
  __device__ void store(char* at, const float4 (&line)[VECTORS]) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      *reinterpret_cast<float4*>(at + places[i]) = line[i];
    }
  }
  __device__ void split(char* at, const float4 (&line)[VECTORS]) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      uint4 high, low;
      split_tf32(line[i].x, &high.x, &low.x);
      split_tf32(line[i].y, &high.y, &low.y);
      split_tf32(line[i].z, &high.z, &low.z);
      split_tf32(line[i].w, &high.w, &low.w);
      *reinterpret_cast<uint4*>(at + places[i]) = high;
      *reinterpret_cast<uint4*>(at + T::BYTES_A + places[i]) = low;
    }
  }
};

// The same of raw lines of A (raw_lines.cuh): moves a share to where it belongs. The floats that it lacks at its beginning are
// the last ones of the share before: the other sharer's, or the stage's before. The lines of a warp are those of a class.
template <class T>
struct MovedShare {
  static constexpr int FLOATS = LINE_STEPS / T::SHARERS;
  static_assert(T::SHARERS <= 2, "the share before is a neighbour's or an earlier one");
  int head;
  float before[3];

  // For the steps of k from `step` on. Zeros stand for what lies outside of A.
  __device__ MovedShare(const Gemm& g, int tile_row, int step, int thread) {
    int row_class = thread / 32;
    int row = tile_row + thread % 32 / T::SHARERS * CLASSES + row_class;
    head = head_of(g.A, g.lda, row_class);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      int p = step + head - 3 + i;
      before[i] = p >= step && p < g.k && row < g.m ? g.A[row * g.lda + p] : 0.0f;
    }
  }

  template <int HEAD>
  static __device__ void move_by(float (&x)[3 + FLOATS]) {
#pragma unroll
    for (int i = FLOATS + 2; i > 2; --i) {
      x[i] = x[i - HEAD];
    }
  }

  __device__ void move(float4 (&line)[FLOATS / 4]) {
    float x[3 + FLOATS];
#pragma unroll
    for (int i = 0; i < FLOATS / 4; ++i) {
      x[3 + 4 * i] = line[i].x, x[4 + 4 * i] = line[i].y, x[5 + 4 * i] = line[i].z, x[6 + 4 * i] = line[i].w;
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      float last = x[FLOATS + i];
      if constexpr (T::SHARERS == 2) {
        last = __shfl_xor_sync(0xFFFFFFFF, last, 1);
      }
      x[i] = T::SHARERS == 2 && threadIdx.x % 2 == 1 ? last : before[i];
      before[i] = last;
    }
    if (head == 1) {
      move_by<1>(x);
    } else if (head == 2) {
      move_by<2>(x);
    } else if (head == 3) {
      move_by<3>(x);
    }
#pragma unroll
    for (int i = 0; i < FLOATS / 4; ++i) {
      line[i] = float4{x[3 + 4 * i], x[4 + 4 * i], x[5 + 4 * i], x[6 + 4 * i]};
    }
  }
};

// The results of a thread by FP32 multiply-adds: rows 8 apart, and of 32 columns twice four.
template <class T, bool RAW>
struct ByFp32 {
  static constexpr int ROWS = T::ROWS / 16;
  int row, col, chunk;
  int raw_places[CLASSES];  // of the thread's first column in the lines of each class

  __device__ explicit ByFp32(const Gemm& g) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    row = warp % 2 * (T::ROWS / 2) + lane % 8;
    col = warp / 2 * 32;
    chunk = lane / 8;
#pragma unroll
    for (int i = 0; i < CLASSES; ++i) {
      raw_places[i] = T::RawB::line(i) + (T::RawB::shift(head_of(g.B, g.ldb, i)) + col + 4 * chunk) * 4;
    }
  }
  __device__ void multiply(float (&sum)[T::ROWS / 2], const char* at) const {
    const char* A = at + row * 128;
    const char* B = at + 2 * T::BYTES_A + (RAW ? 0 : col / 32 * SLAB_BYTES);
    float a[2][ROWS][4], b[2][4][8];
    auto load = [&](int c, int to) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        copy_vector<4>(a[to][i], reinterpret_cast<const float*>(A + i * 1024 + (c ^ row % 8) * 16));
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        int p = 4 * c + v;
#pragma unroll
        for (int j = 0; j < 8; j += RAW ? 1 : 4) {
          if constexpr (RAW) {
            b[to][v][j] = *reinterpret_cast<const float*>(B + raw_places[v] + c * (T::RawB::PITCH * 4) +
                                                          (j / 4 * 16 + j % 4) * 4);
          } else {
            copy_vector<4>(b[to][v] + j, reinterpret_cast<const float*>(B + p * 128 + ((chunk + j) ^ p % 8) * 16));
          }
        }
      }
    };
    auto multiply = [&](int from) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            sum[8 * i + j] += a[from][i][v] * b[from][v][j];
          }
        }
      }
    };
    load(0, 0);
#pragma unroll 1
    for (int c = 0; c < 8; c += 2) {
      load(c + 1, 1);
      multiply(0);
      load((c + 2) % 8, 0);
      multiply(1);
    }
  }
  __device__ void share(char* shared, const float (&sum)[T::ROWS / 2]) const {
    float* sums = reinterpret_cast<float*>(shared) + row * T::PITCH + col + chunk * 4;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        copy_vector<4>(sums + 8 * i * T::PITCH + 16 * j, sum + 8 * i + 4 * j);
      }
    }
  }
};

// The maps of A or of B. Not more than are needed, because each launch has to bring all of them.
struct OneMap {
  CUtensorMap of[1];
};
template <bool RAW>
using Maps = std::conditional_t<RAW, ClassMaps, OneMap>;

// One block, or `parts` of a cluster, computes a tile. Where the first stage shows that too few terms count or that low parts
// would underflow, the block computes its part by FP32 multiply-adds. It begins again with them where all stages show that,
// or a sum is not finite. RAW: the engine brings raw lines of A and B (raw_lines.cuh).
template <class T, bool RAW>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS)
    sgemm_split(Gemm g, Cut cut, float least_terms, const __grid_constant__ Maps<RAW> maps_A,
                const __grid_constant__ Maps<RAW> maps_B) {
  constexpr int STAGE_BYTES = T::template STAGE_BYTES<RAW>;
  constexpr int CHAIN_WGMMAS = SPLIT_INTERVAL / 8;  // of high parts, whose products stay in the tensor core
  constexpr int CHAINS_OF_LINE = LINE_STEPS / SPLIT_INTERVAL;
  static_assert(CHAINS_OF_LINE % 2 == 0, "the first chain of each line has the same registers");
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t arrived[T::STAGES];  // from the engine
  __shared__ uint64_t split[T::STAGES];
  __shared__ uint64_t empty[T::STAGES];
  __shared__ Verdict first_verdict, verdict;
  if (threadIdx.x == 0) {
    first_verdict.begin();
    verdict.begin();
    for (int stage = 0; stage < cut.stages; ++stage) {
      mbarrier_init(&arrived[stage], T::SPLITTERS / 32);
      mbarrier_init(&split[stage], T::SPLITTERS / 32);
      mbarrier_init(&empty[stage], T::CONSUMERS / 32);
    }
    mbarrier_init_fence();
  }
  if constexpr (RAW) {
    if (int i = static_cast<int>(threadIdx.x); i < 2 * CLASSES) {
      fetch_tensor_map(i < CLASSES ? &maps_A.of[i] : &maps_B.of[i - CLASSES]);
    }
  }
  __syncthreads();
  Share share = share_of_block(g, cut);
  int first = share.first, end = share.end;
  Tile tile = tile_in_order<GROUP>(cut.order, static_cast<int>(share.tile), T::ROWS, T::COLS);
  // How many numbers of a line of A and of B the block looks at, in the first stage and in all.
  int in_last = g.k - (end - 1) * LINE_STEPS;  // steps of the last stage, if it is the product's last
  int2 looked_last = {T::looked_of_A(in_last), min(in_last, SPLIT_INTERVAL)};
  int2 looked_first = end - first > 1 ? int2{SPLIT_INTERVAL, SPLIT_INTERVAL} : looked_last;
  int before = (end - 1 - first) * SPLIT_INTERVAL;
  int coarse = end - first > COARSE_LINES ? 12 : 0;
  int2 looked = {(before + looked_last.x) >> coarse, (before + looked_last.y) >> coarse};
  unsigned rows = min(T::ROWS, g.m - tile.row), cols = min(T::COLS, g.n - tile.col);
  auto terms = [&](int2 of_k) { return static_cast<float>(rows) * of_k.x * static_cast<float>(cols) * of_k.y; };
  int lane = threadIdx.x % 32;
  int stage = 0;
  int parity = 0;
  auto advance = [&] {
    stage = stage + 1 < cut.stages ? stage + 1 : 0;
    parity ^= stage == 0;
  };
  wait_for_first_kernel();

  bool by_fp32 = false;
  // Whether the block has to begin again, by FP32. All threads ask when they have come to the end.
  auto ends_in_fp32 = [&] {
    barrier_of<T::THREADS>();
    bool again = !by_fp32 && verdict.needs_fp32(terms(looked), SLACK * least_terms, 1.0f, MOST_BELOW, MOST_OF_BOTH);
    by_fp32 = by_fp32 || again;
    return again;
  };
  if (threadIdx.x >= T::CONSUMERS) {
    give_registers<T::SPLITTER_REGISTERS>();
    int thread = threadIdx.x - T::CONSUMERS, warp = thread / 32;
    LinesOfA<T> lines_A(thread);
    do {
      int next = stage;  // to be asked for
      // Each warp asks for a quarter of A, and for one of B's slabs or classes.
      auto ask = [&](int line) {
        char *to_A = shared + next * STAGE_BYTES + warp * (T::BYTES_A / 4),
             *to_B = shared + next * STAGE_BYTES + 2 * T::BYTES_A;
        if constexpr (RAW) {
          mbarrier_arrive_expect(&arrived[next], T::BYTES_A / 4 + T::RawB::CLASS_BYTES);
          bulk_copy_box(to_A, &maps_A.of[warp], tile.row / CLASSES, line * LINE_STEPS, &arrived[next]);
          bulk_copy_box(to_B + warp * T::RawB::CLASS_BYTES, &maps_B.of[warp],
                        line * (LINE_STEPS / CLASSES) - (warp == 0), tile.col, &arrived[next]);
        } else {
          bool asks_B = warp < T::COLS / 32;
          mbarrier_arrive_expect(&arrived[next], T::BYTES_A / 4 + (asks_B ? SLAB_BYTES : 0));
          bulk_copy_box(to_A, &maps_A.of[0], tile.row + warp * (T::ROWS / 4), line * LINE_STEPS, &arrived[next]);
          if (asks_B) {
            bulk_copy_box(to_B + warp * SLAB_BYTES, &maps_B.of[0], line * LINE_STEPS, tile.col + 32 * warp,
                          &arrived[next]);
          }
        }
        next = next + 1 < cut.stages ? next + 1 : 0;
      };
      for (int s = first; s < end && s < first + cut.stages && lane == 0; ++s) {
        ask(s);
      }
      MovedShare<T> moved(g, tile.row, first * LINE_STEPS, thread);
      bool has_first_row = RAW && first == 0 && thread < T::COLS;
      float of_first_row = has_first_row && tile.col + thread < g.n ? g.B[tile.col + thread] : 0.0f;
      Seen seen[1];
      for (int s = first; s < end; ++s) {
        if (int line = s - 2 + cut.stages; lane == 0 && s >= first + 2 && line < end) {
          // Consumers are one line behind, so they have read the line before that.
          mbarrier_wait(&empty[next], next < stage ? parity : parity ^ 1);
          ask(line);
        }
        __syncwarp();
        mbarrier_wait(&arrived[stage], parity);
        char* at = shared + stage * STAGE_BYTES;
        if (RAW && s == first) {
          if (has_first_row) {
            reinterpret_cast<float*>(at + 2 * T::BYTES_A)[T::RawB::shift(head_of(g.B, g.ldb, 0)) + thread] =
                of_first_row;
          }
          if (!by_fp32) {
            barrier_of<T::THREADS>();  // others read it
          }
        }
        float4 line[LinesOfA<T>::VECTORS];
        if (RAW || !by_fp32) {
          lines_A.load(line, at);
        }
        if (RAW) {
          moved.move(line);
        }
        if (!by_fp32) {
#pragma unroll
          for (int i = 0; i < LinesOfA<T>::VECTORS; ++i) {
            for (float x : {line[i].x, line[i].y, line[i].z, line[i].w}) {
              seen->note(x);
              if (i < LinesOfA<T>::VECTORS / 2) {
                seen->look(x);
              }
            }
          }
          if (s == first) {
            first_verdict.add<T::SHARERS>(0, seen, 0);
            barrier_of<T::THREADS>();
            by_fp32 =
                first_verdict.needs_fp32(terms(looked_first), least_terms, FIRST_ROOM, FIRST_BELOW, FIRST_OF_BOTH);
          }
          if (!by_fp32) {
            lines_A.split(at, line);
          }
        }
        if (RAW && by_fp32) {
          lines_A.store(at, line);
        }
        if (RAW || !by_fp32) {
          bulk_copy_fence();  // wgmma, and the engine when it fills the stage again, come after what was written
        }
        __syncwarp();
        if (lane == 0) {
          mbarrier_arrive(&split[stage]);
        }
        advance();
      }
      if (!by_fp32) {
        verdict.add<T::SHARERS>(0, seen, coarse);
      }
    } while (ends_in_fp32());
  } else {
    take_registers<T::CONSUMER_REGISTERS>();
    auto own = [&] {
      if constexpr (RAW) {
        return OwnRawColumns<T::COLS>(g, threadIdx.x / 128);
      } else {
        return OwnColumns(threadIdx.x / 128);
      }
    }();
    ByFp32<T, RAW> fp32(g);
    float sum[T::ROWS / 2];
    do {
      Seen seen[2];                                // of the thread's two columns of B
      volatile float totals[T::ROWS / 2];          // in memory, because they are needed only at the end of a section
      bool several = end - first > SPLIT_SECTION;  // sections
#pragma unroll
      for (int i = 0; i < T::ROWS / 2; ++i) {
        sum[i] = 0.0f;
        if (several) {
          totals[i] = 0.0f;
        }
      }
      auto end_line = [&](int s) {
        __syncwarp();
        if (lane == 0) {
          mbarrier_arrive(&empty[stage]);
        }
        advance();
        if ((s + 1 - first) % SPLIT_SECTION == 0 && s + 1 < end) {
#pragma unroll
          for (int i = 0; i < T::ROWS / 2; ++i) {
            totals[i] = totals[i] + sum[i];
            sum[i] = 0.0f;
          }
        }
      };
      auto stage_B = [&] { return shared + stage * STAGE_BYTES + 2 * T::BYTES_A; };
      if (!by_fp32) {
        mbarrier_wait(&arrived[stage], parity);
        if (RAW) {
          barrier_of<T::THREADS>();  // row 0 of B is stored
        }
        Seen firsts[2];
#pragma unroll
        for (int chain = 0; chain < CHAINS_OF_LINE; ++chain) {
          uint32_t some[CHAIN_WGMMAS][4];
          own.load(some, stage_B(), chain * CHAIN_WGMMAS);
#pragma unroll
          for (int i = 0; i < 4 * CHAIN_WGMMAS; ++i) {
            firsts[i % 2].note(__uint_as_float(some[i / 4][i % 4]));
            if (chain == 0) {
              firsts[i % 2].look(__uint_as_float(some[i / 4][i % 4]));
            }
          }
        }
        first_verdict.add<4>(1, firsts, 0);
        barrier_of<T::THREADS>();
        by_fp32 = first_verdict.needs_fp32(terms(looked_first), least_terms, FIRST_ROOM, FIRST_BELOW, FIRST_OF_BOTH);
      }
      if (by_fp32) {
        for (int s = first; s < end; ++s) {
          mbarrier_wait(&split[stage], parity);
          fp32.multiply(sum, shared + stage * STAGE_BYTES);
          end_line(s);
        }
      } else {
        // The numbers of the next chain are loaded and split while the tensor core multiplies those of this one.
        uint32_t high_B[2][CHAIN_WGMMAS][4], low_B[2][CHAIN_WGMMAS][4];
        auto load = [&](int chain, int to) {
          own.load(high_B[to], stage_B(), chain * CHAIN_WGMMAS);
#pragma unroll
          for (int i = 0; i < 4 * CHAIN_WGMMAS; ++i) {
            float x = __uint_as_float(high_B[to][i / 4][i % 4]);
            seen[i % 2].note(x);
            if (chain == 0) {
              seen[i % 2].look(x);
            }
            split_tf32(x, &high_B[to][i / 4][i % 4], &low_B[to][i / 4][i % 4]);
          }
        };
        load(0, 0);
        for (int s = first; s < end; ++s) {
          mbarrier_wait(&split[stage], parity);
          uint64_t high_A = tile_descriptor(shared + stage * STAGE_BYTES);
          uint64_t low_A = tile_descriptor(shared + stage * STAGE_BYTES + T::BYTES_A);
#pragma unroll
          for (int chain = 0; chain < CHAINS_OF_LINE; ++chain) {
            int now = chain % 2;
            float more[T::ROWS / 2];
            hold(more);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < CHAIN_WGMMAS; ++i) {
              wgmma_tf32_wide(more, low_B[now][i], high_A + 2 * (chain * CHAIN_WGMMAS + i), i > 0);
            }
#pragma unroll
            for (int i = 0; i < CHAIN_WGMMAS; ++i) {
              wgmma_tf32_wide(more, high_B[now][i], low_A + 2 * (chain * CHAIN_WGMMAS + i), 1);
            }
#pragma unroll
            for (int i = 0; i < CHAIN_WGMMAS; ++i) {
              wgmma_tf32_wide(more, high_B[now][i], high_A + 2 * (chain * CHAIN_WGMMAS + i), 1);
            }
            wgmma_commit();
            if (chain + 1 < CHAINS_OF_LINE) {
              load(chain + 1, 1 - now);
            } else if (s + 1 < end) {
              int read = stage, read_parity = parity;
              advance();
              mbarrier_wait(&arrived[stage], parity);
              load(0, 1 - now);
              stage = read;
              parity = read_parity;
            }
            wgmma_wait<0>();
            hold(more);
#pragma unroll
            for (int i = 0; i < T::ROWS / 2; ++i) {
              sum[i] += more[i];
            }
          }
          end_line(s);
        }
      }
      if (several) {
#pragma unroll
        for (int i = 0; i < T::ROWS / 2; ++i) {
          sum[i] += totals[i];
        }
      }
      if (!by_fp32) {
        bool finite = true;
#pragma unroll
        for (int i = 0; i < T::ROWS / 2; ++i) {
          finite = finite && fabsf(sum[i]) <= FLT_MAX;
        }
        seen[0].least = finite ? seen[0].least : 0;  // as if low parts could underflow
        verdict.add<4>(1, seen, coarse);
      }
    } while (ends_in_fp32());
    if (!RAW && cut.parts == 1 && !by_fp32 && stores_pairs(g)) {
      bool whole = g.m - tile.row >= T::ROWS && g.n - tile.col >= T::COLS;
      store_pairs(g, tile.row + lane % 4 * 2, tile.col + own.cols, whole, sum);
      return;
    }
    if (by_fp32) {
      fp32.share(shared, sum);
    } else {
      share_sums<T>(shared, own.cols, sum);
    }
    barrier_of<T::CONSUMERS>();
    if (cut.parts == 1) {
      store_sums<T>(g, tile, shared, RAW);
    }
  }
  if (cut.parts > 1) {
    store_sums_of_cluster<T>(g, tile, shared, RAW, share.part, cut.parts);
  }
}

template <class T, bool RAW>
cudaError_t launch_in_place(const Gemm& g, int parts, int sms, cudaStream_t stream) {
  constexpr CUtensorMapSwizzle SWIZZLED = CU_TENSOR_MAP_SWIZZLE_128B;
  Maps<RAW> maps_A = {}, maps_B = {};
  bool made;
  if constexpr (RAW) {
    made =
        make_class_maps(&maps_A, g.A, g.m, g.k, g.lda, T::ROWS / CLASSES, LINE_STEPS, SWIZZLED, false) &&
        make_early_maps(&maps_B, g.B, g.k, g.n, g.ldb, LINE_STEPS / CLASSES, T::COLS + 4, CU_TENSOR_MAP_SWIZZLE_NONE);
  } else {
    made = make_tensor_map(maps_A.of, g.A, g.m, g.k, g.lda, T::ROWS / 4, LINE_STEPS, SWIZZLED) &&
           make_tensor_map(maps_B.of, g.B, g.k, g.n, g.ldb, LINE_STEPS, 32, SWIZZLED);
  }
  if (!made) {
    return cudaErrorNotSupported;
  }
  // cuBLAS may split k among blocks where C has fewer than two tiles for an SM. It is assumed that a block sums FEWEST_STEPS or
  // more; its errors on an H200 suggest that, and no record holds how it splits.
  float tiles = static_cast<float>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE);
  float steps =
      std::min(std::max(FEWEST_STEPS, g.k * tiles / (2 * sms)), std::max(FEWEST_STEPS, static_cast<float>(g.k)));
  dim3 grid = tile_grid(g, T::ROWS, T::COLS);
  grid.x *= parts;
  constexpr int STAGE_BYTES = T::template STAGE_BYTES<RAW>;
  int least = ceil_div(T::SUM_BYTES, STAGE_BYTES);
  int stages = std::min(T::STAGES, std::max(least, ceil_div(ceil_div(g.k, LINE_STEPS), parts)));
  size_t shared_bytes = static_cast<size_t>(stages) * STAGE_BYTES;
  auto kernel = sgemm_split<T, RAW>;
  return launch_parts_after_copies(kernel, parts, grid, dim3(T::THREADS), shared_bytes, stream, g,
                                   Cut{parts, stages, tile_order(g, T::ROWS, T::COLS, GROUP)}, LEAST_TERMS / steps,
                                   maps_A, maps_B);
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
  float few_terms = fills_sms(g, sms) ? std::min(std::max(LEAST_FEW, FEW_BY_STEPS / g.k), MOST_FEW)
                                      : std::max(400.0f, static_cast<float>(g.k) / 6);
  unsigned pairs = static_cast<unsigned>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
  unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
  cudaError_t error = launch_after_copies(sgemm_parts, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), SHARED_BYTES,
                                          stream, g, places.parts, places.left, pairs, few_terms, map_A, map_B);
  int section = fills_sms(g, sms) ? LEFT_SECTION : LEFT_SECTION / 2;
  return error != cudaSuccess ? error : launch_left(g, places.left, section, sms, stream);
}

using LaunchInPlace = cudaError_t (*)(const Gemm& g, int parts, int sms, cudaStream_t stream);

// A way to compute a product, and its cycles by the model. Null: `fastest`, or with `prepares` the pre-pass and tensor cores.
struct Choice {
  double cycles;
  bool prepares;
  fp32::Source source;
  int parts;
  LaunchInPlace launch;
};

// Replaces `best` by the best number of parts for one tiling if this has fewer cycles. The constants are fitted to the times of
// the tilings for drawn products on an H200, which are not recorded, but the prices of clusters of SplitSquare and SplitFlat:
// these were raised after the survey that was recorded with story 25. Those with RAW were fitted later and raised by hand, because
// the tilings without it were faster in that draw than their constants say.
template <class T, bool RAW>
void consider_in_place(const fp32::Source& source, int sms, const TileCosts& costs, Choice* best) {
  const Gemm& g = source.g;
  double copies = copy_cycles(g, source.copied_A, source.copied_B, sms);
  for (int parts = 1; parts <= std::min(MOST_BLOCKS, ceil_div(g.k, LINE_STEPS)); parts *= 2) {
    double cycles = copies + cycles_of_tiles<T>(g, sms, costs, parts);
    if (cycles < best->cycles) {
      *best = {cycles, false, source, parts, launch_in_place<T, RAW>};
    }
  }
}

// The same for the pre-pass, which needs
// - PREPARE for five launches and the first copies, and 12 bytes for each element of A and B, at BYTES a cycle and SM;
// - for each pair of tiles of the busiest cluster STEP for each step of k, and END to fill the stages and store C.
// These are fitted to a profile at 2048 and 4096 and to the survey on an H100. A tenth is left for what the model does not
// know. FP32 errs less where C has less than about one tile for two SMs, or sums are short.
void consider_parts(const Gemm& g, int sms, Choice* best) {
  constexpr double PREPARE = 30000, BYTES = 11.6, STEP = 31, END = 9000, MARGIN = 1.1;
  double tiles = static_cast<double>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE);
  double elements = (static_cast<double>(g.m) + g.n) * g.k;
  double pairs = static_cast<double>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
  double rounds = std::ceil(pairs / std::max(1, sms / 2));
  double cycles = MARGIN * (PREPARE + 12 * elements / (BYTES * sms) + rounds * (STEP * g.k + END));
  bool counted = std::max(g.m, g.n) <= 1 << 30;  // lines, high and low, by an int
  if ((ALWAYS_SPLIT == 1 && counted) || (20 * tiles >= 9 * sms && g.k > SHORT_SUM && cycles < best->cycles)) {
    *best = {cycles, true, {g}, 1, nullptr};
  }
}

// Whether `fastest` computes a product in fewer cycles. Its own model knows, but it tries many plans on the host where C has
// few tiles. So it is asked only if the answer is not plain: `fastest` needs at least and at most so many cycles, and one more
// for so many multiply-adds of an SM. These limits are chosen, not fitted.
bool fp32_wins(const Gemm& g, int sms, double cycles) {
  constexpr double LEAST = 5500, LEAST_RATE = 128, MOST = 18000, MOST_RATE = 80;
  double work = static_cast<double>(g.m) * g.n * g.k / sms;
  if (cycles <= LEAST + work / LEAST_RATE) {
    return false;
  }
  if (cycles >= MOST + work / MOST_RATE) {
    return true;
  }
  fp32::Choice choice;
  fp32::choose(g, nullptr, &sms, &choice);
  return choice.cycles < cycles;
}

// The way with the fewest cycles.
cudaError_t choose(const Gemm& g, void* workspace, int* sms, Choice* best) {
  cudaError_t error = sm_count(sms);
  *best = {HUGE_VAL, false, {g}, 1, nullptr};
  if (ALWAYS_SPLIT != 1 && g.k >= LEAST_SUM) {
    fp32::Source source = fp32::with_copies(g, vector_width(g.A, g.lda) != 4, vector_width(g.B, g.ldb) != 4, workspace);
    consider_in_place<SplitSquare, false>(source, *sms, {9990, 8760, 2490, 1560, 7000, 1710}, best);
    consider_in_place<SplitFlat, false>(source, *sms, {8910, 7330, 1600, 350, 5000, 290}, best);
    consider_in_place<SplitSmall, false>(source, *sms, {8310, 5360, 1160, 980, 3350, 490}, best);
    bool raw = source.copied_A || source.copied_B;
    if (raw && has_class_maps(g.m, g.k, g.lda) && has_class_maps(g.k, g.n, g.ldb)) {
      consider_in_place<SplitSquare, true>({g}, *sms, {13200, 13100, 2830, 1560, 4000, 2030}, best);
      consider_in_place<SplitFlat, true>({g}, *sms, {11500, 10700, 1860, 1540, 2600, 760}, best);
      consider_in_place<SplitSmall, true>({g}, *sms, {10100, 7500, 1350, 1070, 2000, 1240}, best);
    }
  }
  if (ALWAYS_SPLIT != 2) {
    consider_parts(g, *sms, best);
  }
  if (ALWAYS_SPLIT == 0 && (best->cycles == HUGE_VAL || fp32_wins(g, *sms, best->cycles))) {
    *best = {0.0, false, {g}, 1, nullptr};
  }
  return error;
}

cudaError_t run(const Gemm& given, void* workspace, cudaStream_t stream) {
  int sms = 1;
  Choice choice;
  cudaError_t error = choose(given, workspace, &sms, &choice);
  if (error != cudaSuccess) {
    return error;
  }
  if (choice.prepares) {
    Places places = places_in(given, sms, workspace);
    if (launch_observer == nullptr) {
      error = cudaMemsetAsync(places.cleared, 0, places.cleared_bytes, stream);
    }
    if (error == cudaSuccess) {
      error = launch_split_parts(given, places.parts, sms, stream);
    }
    return error != cudaSuccess ? error : launch_parts(given, places, sms, stream);
  }
  if (choice.launch == nullptr) {
    return fp32::run(given, workspace, stream);
  }
  const fp32::Source& source = choice.source;
  error = copy_for(given, source.g, source.copied_A, source.copied_B, stream);
  return error == cudaSuccess ? choice.launch(source.g, choice.parts, sms, stream) : error;
}

size_t needed(const Gemm& g) {
  int sms = 1;
  Choice choice;
  choose(g, nullptr, &sms, &choice);
  return choice.prepares            ? places_in(g, sms, nullptr).bytes
         : choice.launch == nullptr ? fp32::workspace_for(g)
                                    : choice.source.bytes;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
