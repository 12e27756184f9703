// An FP32 product on the tensor cores of compute capability 9.0 (sm_90a): wgmma, of numbers that a pre-pass has split.
//
// A pre-pass writes the high and the low parts of A and of B, each row of A and each column of B as a line along k,
// into the workspace; padded with zeros, so that the copy engine can read any matrix. split_tf32.cuh explains the three
// products.
// - FP16: a line is scaled by a power of two so that its largest magnitude is at least 2^14 and below 2^15, which a
//   scan before the pre-pass finds; the low parts are scaled by 2^12 more. A number of at least 2^-14 (scaled) is so
//   kept to 2^-23 of itself, and a smaller one to 2^-37. Where j doublings of the former are as good, numbers may lie
//   as deep as 2^(-14 - j): with 2^j = k / 16 the error of the inputs is at most (k / 4 + 4) u |a b| (u = 2^-24), and
//   the bound of an FP32 product, (k + 3) u |A| |B|, has room for it.
// - A line that holds NaN or infinity, numbers further apart than that, or a largest one beyond 2^-46 to 2^74 does not
//   fit. It is marked, the tiles with such a line are left out, and FP32 multiply-adds compute them (split_k.cuh). So are
//   tiles of numbers that are mostly zeros (split_tf32.cuh).
// - TF32: the same, though it could hold more: where numbers lie so far apart, an FP32 product errs less (split_tf32.cuh).
// - Sums: the products of high parts stay in the tensor core for two wgmma, 32 steps of k in FP16, 16 in TF32. What comes
//   out is added to an FP32 sum on the CUDA cores, and each 64 of these to a total, so that the error hardly grows with k.
//   The products with low parts, 2^-11 of the others, have a sum of their own, for all k.
// - Short sums: a step of wgmma adds 17 numbers in FP16, 9 in TF32, each truncated to the last place of the largest,
//   and then their sum: at most 36 u or 20 u. These steps, the inputs and the roundings outside are within the bound
//   from k = 124 on. Sums up to 576, and small products, are computed as split_tf32.cuh says.
//
// H. Ootomo, R. Yokota, as in split_tf32.cuh (FP16 parts, scaled low parts).
#pragma once

#include "split_tf32.cuh"
#include "wgmma.cuh"

// What a number is split into.
struct Fp16 {
  using Type = __half;
  static constexpr int STEP = 16;        // steps of k of a wgmma
  static constexpr int TRUNCATED = 36;   // u that a wgmma may lose
  static constexpr float LOW = 4096.0f;  // what the low parts are multiplied with
  static __device__ void multiply(float (&D)[64], uint64_t A, uint64_t B, int add) { wgmma_f16(D, A, B, add); }
  static __device__ void split(float x, Type* high, Type* low) {
    *high = __float2half_rn(x);
    *low = __float2half_rn((x - __half2float(*high)) * LOW);
  }
};
struct Tf32 {
  using Type = float;
  static constexpr int STEP = 8;
  static constexpr int TRUNCATED = 20;
  static constexpr float LOW = 1.0f;
  static __device__ void multiply(float (&D)[64], uint64_t A, uint64_t B, int add) { wgmma_tf32(D, A, B, add); }
  static __device__ void split(float x, Type* high, Type* low) {
    *high = __uint_as_float((__float_as_uint(x) + 0x1000) & 0xFFFFE000);
    *low = x - *high;
  }
};

constexpr int SCAN_A = 4096;  // steps of k that a block of the scan takes of its rows of A
constexpr int SCAN_B = 128;   // and of its columns of B

// What a pre-pass leaves in the workspace. Rows of A and columns of B are both `lines`: m of one, n of the other.
template <class E>
struct Parts {
  typename E::Type* high_A;  // m x ld, and behind them the low parts
  typename E::Type* high_B;  // n x ld: B transposed
  int64_t ld;
  uint32_t* largest;           // for each line the bits of the largest magnitude, m lines
                               // and then n
  uint32_t* smallest;          // and 2^31 - 1 less those of the smallest that is not zero
  int* bad_A;                  // for each 256 rows, whether one does not fit
  int* bad_B;                  // for each 128 columns
  unsigned long long* some_A;  // and how many numbers are not zero
  unsigned long long* some_B;
  size_t marks_bytes;  // of the last six, which begin as zeros
  size_t bytes;
};

template <class E>
Parts<E> parts_in(const Gemm& g, void* workspace) {
  Parts<E> parts;
  constexpr int LINE = 128 / sizeof(typename E::Type);
  parts.ld = static_cast<int64_t>(ceil_div(g.k, LINE)) * LINE;
  auto at = reinterpret_cast<uintptr_t>(workspace);
  uintptr_t begin = at;
  auto take = [&](size_t bytes) {
    uintptr_t here = at;
    at += (bytes + 255) / 256 * 256;
    return here;
  };
  size_t lines = static_cast<size_t>(g.m) + g.n;
  parts.largest = reinterpret_cast<uint32_t*>(take(lines * 4));
  parts.smallest = reinterpret_cast<uint32_t*>(take(lines * 4));
  parts.bad_A = reinterpret_cast<int*>(take(ceil_div(g.m, 256) * sizeof(int)));
  parts.bad_B = reinterpret_cast<int*>(take(ceil_div(g.n, 128) * sizeof(int)));
  parts.some_A = reinterpret_cast<unsigned long long*>(take(ceil_div(g.m, 256) * sizeof(unsigned long long)));
  parts.some_B = reinterpret_cast<unsigned long long*>(take(ceil_div(g.n, 128) * sizeof(unsigned long long)));
  parts.marks_bytes = at - begin;
  parts.high_A = reinterpret_cast<typename E::Type*>(take(2 * sizeof(typename E::Type) * g.m * parts.ld));
  parts.high_B = reinterpret_cast<typename E::Type*>(take(2 * sizeof(typename E::Type) * g.n * parts.ld));
  parts.bytes = at - begin;
  return parts;
}

// The tiles with a line that does not fit, or with sums of few terms that are not zero.
struct Unfit {
  int m, n, k;
  const int* bad_A;
  const int* bad_B;
  const unsigned long long* some_A;
  const unsigned long long* some_B;

  template <class E>
  __host__ __device__ Unfit(const Gemm& g, const Parts<E>& parts)
      : m(g.m), n(g.n), k(g.k), bad_A(parts.bad_A), bad_B(parts.bad_B), some_A(parts.some_A), some_B(parts.some_B) {}

  __device__ bool has(Tile tile) const {
    int i = tile.row / 256, j = tile.col / 128;
    float pairs = static_cast<float>(some_A[i]) * static_cast<float>(some_B[j]);
    float sums = static_cast<float>(min(256, m - i * 256)) * min(128, n - j * 128);
    return bad_A[i] != 0 || bad_B[j] != 0 || few_terms(pairs / k, sums, k);
  }
};

template <class E>
__device__ inline void mark(const Parts<E>& parts, int line, uint32_t high, uint32_t low) {
  if (high != 0) {
    atomicMax(parts.largest + line, high);
    atomicMax(parts.smallest + line, 0x7FFFFFFFu - low);
  }
}

// The largest and the smallest magnitude of each row of A and of each column of B, and how many numbers are not zero. Blocks
// of 256 threads: first those of A, 8 rows by SCAN_A steps each, then those of B, 256 columns by SCAN_B steps.
template <class E>
static __global__ void __launch_bounds__(256) scan_lines(Gemm g, Parts<E> parts) {
  int chunks_A = ceil_div(g.k, SCAN_A);
  int blocks_A = ceil_div(g.m, 8) * chunks_A;
  int block = blockIdx.x;
  uint32_t high = 0, low = 0x7FFFFFFFu;
  unsigned some = 0;
  auto see = [&](float x) {
    uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFu;
    high = max(high, bits);
    low = min(low, bits == 0 ? 0x7FFFFFFFu : bits);
    some += bits != 0;
  };
  auto add_some = [&](unsigned long long* all) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      some += __shfl_xor_sync(0xFFFFFFFF, some, lanes);
    }
    if (threadIdx.x % 32 == 0) {
      atomicAdd(all, some);
    }
  };
  if (block < blocks_A) {
    int row = block / chunks_A * 8 + threadIdx.x / 32;
    int begin = block % chunks_A * SCAN_A;
    int end = min(g.k, begin + SCAN_A);
    if (row < g.m) {
      const float* A = g.A + row * g.lda;
      int p = begin + threadIdx.x % 32;
      for (; p + 7 * 32 < end; p += 8 * 32) {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          x[i] = A[p + 32 * i];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          see(x[i]);
        }
      }
      for (; p < end; p += 32) {
        see(A[p]);
      }
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        high = max(high, __shfl_xor_sync(0xFFFFFFFF, high, lanes));
        low = min(low, __shfl_xor_sync(0xFFFFFFFF, low, lanes));
      }
      if (threadIdx.x % 32 == 0) {
        mark(parts, row, high, low);
      }
      add_some(parts.some_A + row / 256);
    }
    return;
  }
  block -= blocks_A;
  int chunks_B = ceil_div(g.k, SCAN_B);
  int col = block / chunks_B * 256 + threadIdx.x;
  int begin = block % chunks_B * SCAN_B;
  int end = min(g.k, begin + SCAN_B);
  if (col < g.n) {
    const float* B = g.B + col;
#pragma unroll 8
    for (int p = begin; p < end; ++p) {
      see(B[p * g.ldb]);
    }
    mark(parts, g.m + col, high, low);
  }
  if (col / 32 * 32 < g.n) {
    add_some(parts.some_B + col / 128);
  }
}

// The power of two that a line is scaled with, from its largest magnitude: that becomes 2^14 to 2^15. `fits` says
// whether FP16 keeps enough of every number of the line; the derivation stands above.
__device__ inline int line_exponent(uint32_t largest, uint32_t smallest, int k, bool* fits) {
  if (largest == 0) {
    *fits = true;
    return 0;
  }
  int top = static_cast<int>(largest >> 23) - 127;
  int bottom = static_cast<int>((0x7FFFFFFFu - smallest) >> 23) - 127;
  int range = 28 + 31 - __clz(k / 16);
  *fits = top >= -46 && top <= 74 && top - bottom <= range;
  return 14 - top;
}
__device__ inline float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// The factor of a line; and notes where it does not fit.
template <class E>
__device__ inline float line_scale(const Parts<E>& parts, int line, int k, int* bad) {
  bool fits;
  int exponent = line_exponent(parts.largest[line], parts.smallest[line], k, &fits);
  if (!fits) {
    *bad = 1;
    return 0.0f;
  }
  return power_of_two(exponent);
}

// Splits A and B into the workspace. Blocks of 256 threads: first those of A, a row by 2048 steps each, then those of
// B, 64 columns by 64 steps.
template <class E>
static __global__ void __launch_bounds__(256) split_lines(Gemm g, Parts<E> parts) {
  using Type = typename E::Type;
  constexpr int VECTOR = 16 / sizeof(Type);
  int chunks_A = static_cast<int>((parts.ld + 256 * VECTOR - 1) / (256 * VECTOR));
  int64_t blocks_A = static_cast<int64_t>(g.m) * chunks_A;
  int64_t block = blockIdx.x;
  if (block < blocks_A) {
    int row = static_cast<int>(block / chunks_A);
    int p = (static_cast<int>(block % chunks_A) * 256 + threadIdx.x) * VECTOR;
    if (p >= parts.ld) {
      return;
    }
    float scale = line_scale(parts, row, g.k, parts.bad_A + row / 256);
    const float* from = g.A + row * g.lda + p;
    alignas(16) float x[VECTOR];
    if (p + VECTOR <= g.k && vector_width(g.A, g.lda) == 4) {
#pragma unroll
      for (int i = 0; i < VECTOR; i += 4) {
        copy_vector<4>(x + i, from + i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) {
        x[i] = p + i < g.k ? from[i] : 0.0f;
      }
    }
    alignas(16) Type high[VECTOR];
    alignas(16) Type low[VECTOR];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
      E::split(x[i] * scale, &high[i], &low[i]);
    }
    Type* to = parts.high_A + row * parts.ld + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.m * parts.ld) = *reinterpret_cast<uint4*>(low);
    return;
  }
  block -= blocks_A;
  __shared__ float tile[64][65];
  int chunks_B = ceil_div(g.k, 64);
  int first_col = static_cast<int>(block / chunks_B) * 64;
  int first_p = static_cast<int>(block % chunks_B) * 64;
  int col = first_col + threadIdx.x % 64;
  float scale = col < g.n ? line_scale(parts, g.m + col, g.k, parts.bad_B + col / 128) : 0.0f;
#pragma unroll
  for (int i = 0; i < 64; i += 4) {
    int p = first_p + i + threadIdx.x / 64;
    tile[i + threadIdx.x / 64][threadIdx.x % 64] = p < g.k && col < g.n ? g.B[p * g.ldb + col] * scale : 0.0f;
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.x; i < 64 * 64 / VECTOR; i += 256) {
    int p = i % (64 / VECTOR) * VECTOR;
    int c = i / (64 / VECTOR);
    if (first_col + c >= g.n || first_p + p >= parts.ld) {
      continue;
    }
    alignas(16) Type high[VECTOR];
    alignas(16) Type low[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      E::split(tile[p + v][c], &high[v], &low[v]);
    }
    Type* to = parts.high_B + (first_col + c) * parts.ld + first_p + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.n * parts.ld) = *reinterpret_cast<uint4*>(low);
  }
}

// How a block, of 128 x 128 results, computes: SUM_STEPS of k in a sum of high parts, DEPTH stages, and pairs of
// tiles in bands of BAND rows of them.
template <class E_, int SUM_STEPS_, int DEPTH_, int BAND_>
struct PairTiling {
  using E = E_;
  static constexpr int CHAIN = SUM_STEPS_ / E::STEP, DEPTH = DEPTH_;
  static constexpr unsigned BAND = BAND_;
  static constexpr int STAGE_K = 128 / sizeof(typename E::Type);  // a line of a tile is 128 bytes
  static constexpr int CHAINS = STAGE_K / E::STEP / CHAIN;        // in a stage
  static constexpr size_t SHARED_BYTES = static_cast<size_t>(DEPTH) * 4 * 128 * 128;
  static_assert(CHAIN > 0 && STAGE_K % (CHAIN * E::STEP) == 0, "whole sums in a stage");
  static_assert(3 * CHAIN * E::TRUNCATED / 2 + 16 <= SHORT, "from there on the bound of an FP32 product holds");
  static_assert(DEPTH >= 2, "one stage to multiply, one on its way");
  static constexpr int SECTION_STAGES = SECTION_SUMS * SUM_STEPS_ / STAGE_K;
};

constexpr int TILE = 128;              // rows and columns of C of a block; a warp group has half of the rows
constexpr int PART_BYTES = 128 * 128;  // of a tile of high or low parts: 128 lines of 128 bytes
constexpr int STAGE_BYTES = 4 * PART_BYTES;
constexpr int CONSUMERS = 2;  // warp groups that multiply; a third one copies

// The first row and column of pair t of tiles, one below the other.
template <class T>
__device__ inline Tile pair_of_tiles(const Gemm& g, unsigned t) {
  unsigned pairs_m = ceil_div(g.m, 2 * TILE);
  unsigned tiles_n = ceil_div(g.n, TILE);
  unsigned first = t / (T::BAND * tiles_n) * T::BAND;
  unsigned rows = pairs_m - first < T::BAND ? pairs_m - first : T::BAND;
  unsigned i = t % (T::BAND * tiles_n);
  return {static_cast<int>(first + i % rows) * 2 * TILE, static_cast<int>(i / rows) * TILE};
}

// A cluster of two blocks computes pairs of tiles; the blocks share the columns of B, of which each copies half to
// both.
template <class T, class E = typename T::E>
__global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) __cluster_dims__(2, 1, 1)
    sgemm_split(Gemm g, Parts<E> parts, unsigned pairs, const __grid_constant__ CUtensorMap map_A,
                const __grid_constant__ CUtensorMap map_B) {
  using Type = typename E::Type;
  char* shared = dynamic_shared<char>();
  __shared__ uint64_t full[T::DEPTH];
  __shared__ uint64_t empty[T::DEPTH];
  int rank = cluster_rank();
  int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < T::DEPTH; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2 * CONSUMERS * 4);
    }
    mbarrier_init_fence();
  }
  cluster_barrier();
  int steps = static_cast<int>(parts.ld / T::STAGE_K);
  Unfit unfit(g, parts);

  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * 128) {
      int stage = 0;
      int parity = 1;
      for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
        Tile tile = pair_of_tiles<T>(g, t);
        if (unfit.has(tile)) {
          continue;
        }
        int row = tile.row + rank * TILE;
        int col = tile.col + rank * (TILE / 2);
        for (int s = 0; s < steps; ++s) {
          mbarrier_wait(&empty[stage], parity);
          mbarrier_arrive_expect(&full[stage], STAGE_BYTES);
          char* to = shared + stage * STAGE_BYTES;
          bulk_copy_box(to, &map_A, row, s * T::STAGE_K, &full[stage]);
          bulk_copy_box(to + PART_BYTES, &map_A, g.m + row, s * T::STAGE_K, &full[stage]);
          char* to_B = to + 2 * PART_BYTES + rank * (PART_BYTES / 2);
          bulk_copy_box_to(3, to_B, &map_B, col, s * T::STAGE_K, &full[stage]);
          bulk_copy_box_to(3, to_B + PART_BYTES, &map_B, g.n + col, s * T::STAGE_K, &full[stage]);
          stage = stage + 1 < T::DEPTH ? stage + 1 : 0;
          parity ^= stage == 0;
        }
      }
    }
  } else {
    take_registers<232>();
    int stage = 0;
    int parity = 0;
    int lane = threadIdx.x % 32;
    bool several = steps > T::SECTION_STAGES;  // sections
    bool releases = lane < 2;                  // lane r of each warp gives stages back to block r of the cluster
    for (unsigned t = blockIdx.x / 2; t < pairs; t += gridDim.x / 2) {
      Tile tile = pair_of_tiles<T>(g, t);
      if (unfit.has(tile)) {
        continue;
      }
      float sum[64] = {};
      float high[64] = {};
      float low[64] = {};
      volatile float totals[64];  // in memory: they are touched at the end of a section alone
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
#pragma unroll 1  // unrolled, two sums have ptxas run one wgmma after the other (its note C7511)
        for (int first = 0; first < T::CHAINS * T::CHAIN; first += T::CHAIN) {
          hold(high);
          hold(low);
          wgmma_fence();
#pragma unroll
          for (int i = first; i < first + T::CHAIN; ++i) {
            E::multiply(high, high_A + 2 * i, high_B + 2 * i, i > first);
          }
          wgmma_commit();
#pragma unroll
          for (int i = first; i < first + T::CHAIN; ++i) {
            E::multiply(low, low_A + 2 * i, high_B + 2 * i, 1);
          }
#pragma unroll
          for (int i = first; i < first + T::CHAIN; ++i) {
            E::multiply(low, high_A + 2 * i, low_B + 2 * i, 1);
          }
          wgmma_commit();
          wgmma_wait<1>();
          hold(high);
          if (first == 0 && s > 0 && releases) {  // the products of the stage before are complete too
            mbarrier_arrive_at(&empty[last], lane);
          }
#pragma unroll
          for (int i = 0; i < 64; ++i) {
            sum[i] += high[i];
          }
        }
        last = stage;
        stage = stage + 1 < T::DEPTH ? stage + 1 : 0;
        parity ^= stage == 0;
        if ((s + 1) % T::SECTION_STAGES == 0 && s + 1 < steps) {
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

      auto unscale = [&](int line) {
        bool fits;
        return power_of_two(-line_exponent(parts.largest[line], parts.smallest[line], g.k, &fits));
      };
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
          int r = row + 8 * half;
          float two[2];
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            int i = 4 * j + 2 * half + v;
            two[v] = fmaf(low[i], 1.0f / E::LOW, sum[i]);
            two[v] *= of_rows[half];
            two[v] *= of_cols[v];
          }
          if (r < g.m && c + 1 < g.n && pairs_C) {
            float2* to = reinterpret_cast<float2*>(g.C + r * g.ldc + c);
            float2 old = g.beta == 0.0f ? float2{0.0f, 0.0f} : *to;
            *to = float2{g.alpha * two[0] + g.beta * old.x, g.alpha * two[1] + g.beta * old.y};
          } else if (r < g.m) {
#pragma unroll
            for (int v = 0; v < 2; ++v) {
              if (c + v < g.n) {
                store_result(g, r, c + v, two[v]);
              }
            }
          }
        }
      }
    }
  }
  cluster_barrier();  // no block may leave while another still reaches into its
                      // shared memory
}

using NoPrePass = SplitTiling<64, 128, 16, 32, 64, 4, 2, 16>;

// Whether the product is left to run_mma: one with a short sum or few tiles, or so small or thin that the pre-pass does not
// pay. TF32, half as fast as FP16, is slower too where tiles of half the size have an SM each.
template <class T>
bool too_small(const Gemm& g) {
  constexpr double MOST = 1024.0 * 1024.0 * 1024.0;
  constexpr int THIN = 64;
  int sms = 1;
  sm_count(&sms);
  bool halves =
      std::is_same<typename T::E, Tf32>::value && 2 * tile_grid(g, TILE, TILE).x <= static_cast<unsigned>(sms);
  return one_by_one(g) > 0 || halves || std::min(g.m, g.n) <= THIN || static_cast<double>(g.m) * g.n * g.k <= MOST;
}

template <class T>
size_t split_workspace(const Gemm& g) {
  return too_small<T>(g) ? mma_workspace(g) : parts_in<typename T::E>(g, nullptr).bytes;
}

template <class T>
cudaError_t run_split(const Gemm& g, void* workspace, cudaStream_t stream) {
  using E = typename T::E;
  constexpr int VECTOR = 16 / sizeof(typename E::Type);
  if (too_small<T>(g)) {
    return run_mma<NoPrePass>(g, workspace, stream);
  }
  Parts<E> parts = parts_in<E>(g, workspace);
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error == cudaSuccess && launch_observer == nullptr) {
    error = cudaMemsetAsync(parts.largest, 0, parts.marks_bytes, stream);
  }
  if (error == cudaSuccess) {
    unsigned blocks = ceil_div(g.m, 8) * ceil_div(g.k, SCAN_A) + ceil_div(g.n, 256) * ceil_div(g.k, SCAN_B);
    error = launch(scan_lines<E>, dim3(blocks), dim3(256), 0, stream, g, parts);
  }
  if (error == cudaSuccess) {
    auto chunks_A = static_cast<unsigned>((parts.ld + 256 * VECTOR - 1) / (256 * VECTOR));
    unsigned blocks = g.m * chunks_A + static_cast<unsigned>(ceil_div(g.n, 64)) * ceil_div(g.k, 64);
    error = launch(split_lines<E>, dim3(blocks), dim3(256), 0, stream, g, parts);
  }
  CUtensorMap map_A = {}, map_B = {};
  int ld = static_cast<int>(parts.ld);
  if (!make_tensor_map(&map_A, parts.high_A, 2 * g.m, ld, ld, TILE, T::STAGE_K, CU_TENSOR_MAP_SWIZZLE_128B) ||
      !make_tensor_map(&map_B, parts.high_B, 2 * g.n, ld, ld, TILE / 2, T::STAGE_K, CU_TENSOR_MAP_SWIZZLE_128B)) {
    return cudaErrorNotSupported;
  }
  if (error == cudaSuccess) {
    unsigned pairs = static_cast<unsigned>(ceil_div(g.m, 2 * TILE)) * ceil_div(g.n, TILE);
    unsigned clusters = std::min(pairs, static_cast<unsigned>(std::max(1, sms / 2)));
    error = launch(sgemm_split<T>, dim3(2 * clusters), dim3((CONSUMERS + 1) * 128), T::SHARED_BYTES, stream, g, parts,
                   pairs, map_A, map_B);
  }
  if (error == cudaSuccess) {
    error = launch_split_k<SmallTiling, FP32_SECTION>(g, 1, nullptr, stream, Unfit(g, parts));
  }
  return error;
}
