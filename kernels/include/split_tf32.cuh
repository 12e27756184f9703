// An FP32 product on tensor cores: each number is split into two TF32 numbers, and three products of them are added.
//
// x = big + small: big is x rounded to TF32 (11 significant bits), small is what is left, of which the tensor core reads
// the first 11 bits. In a b = big big + big small + small big + small small the last term is left out. A number keeps 23
// or 24 bits so, and with the term left out |error| <= 8 u |a b|, u = 2^-24.
// - The tensor core's sums truncate. So each is short: three products over 8 or 16 steps of k, the two small ones first,
//   begin from zero; what comes out is added to an FP32 sum on the CUDA cores, rounded to nearest, and each 64 of these to
//   a total, so that the error hardly grows with k.
// - Underflow: the small part of a number below 2^-113 would be none of TF32's. All numbers are scaled by 2^24 on their
//   way into the split, and each sum by 2^-48 on its way out.
// - Overflow, infinities, NaN: where the sum of an element is not finite, whatever the cause, the element is computed
//   again as the definition says, by FP32 multiply-adds.
// - Short sums: numbers of 22 bits and truncated sums err by some 2 u of what is large in a sum, however short; an FP32
//   product's error grows with k from half a u. Up to k = 576 FP32 multiply-adds compute all (split_k.cuh), of a split k
//   where tiles do not fill the SMs, for there cuBLAS splits k too. From there on the bound of an FP32 product,
//   (k + 3) u |A| |B|, holds by far: a step of the tensor core adds nine numbers, each truncated to the last place of the
//   largest, and then their sum, at most 20 u, and there are k / 16 + 2 roundings outside.
// - Few tiles: with less than about one for two SMs, FP32 multiply-adds of a split k are as fast or faster, and err less.
// - Wide ranges, many zeros: where one term is most of a sum, the 22 or 23 bits of a number show, and where cuBLAS splits k it
//   errs less; and a sum with few terms but zeros is a short one. A block looks at the first numbers of its rows of A and
//   columns of B, and where they lie far apart or are mostly zeros it computes its tile by FP32 multiply-adds.
//
// S. Markidis et al., NVIDIA Tensor Core Programmability, Performance & Precision, IPDPSW 2018; H. Ootomo, R. Yokota,
// Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance, Int. J.
// High Perform. Comput. Appl. 36(4), 2022 (sums outside the tensor core, scaling); M. Fasi, N. J. Higham, F. Lopez, T. Mary,
// M. Mikaitis, Matrix Multiplication in Multiword Arithmetic, SIAM J. Sci. Comput. 45(1), 2023 (the error's analysis).
#pragma once

#include <cuda_pipeline.h>

#include <cfloat>

#include "gemm.cuh"
#include "mma.cuh"
#include "split_k.cuh"
#include "vector.cuh"

// How a block computes a tile of ROWS x COLS results, STEPS steps of k at a time; WARP_ROWS x WARP_COLS of them a warp.
template <int ROWS_, int COLS_, int STEPS_, int WARP_ROWS_, int WARP_COLS_, int DEPTH_, int BLOCKS_, int SUM_STEPS_>
struct SplitTiling {
  static constexpr int ROWS = ROWS_, COLS = COLS_, STEPS = STEPS_, WARP_ROWS = WARP_ROWS_, WARP_COLS = WARP_COLS_,
                       DEPTH = DEPTH_, BLOCKS = BLOCKS_, SUM_STEPS = SUM_STEPS_;
  static constexpr int THREADS = (ROWS / WARP_ROWS) * (COLS / WARP_COLS) * 32;
  static constexpr int PITCH_B = COLS + 8;     // the four rows of B that a warp reads together lie in different banks
  static constexpr int TILE_A = ROWS * STEPS;  // floats of a stage that hold A's tile; B's follows
  static constexpr int STAGE = TILE_A + STEPS * PITCH_B;
  static constexpr size_t SHARED_BYTES = sizeof(float) * DEPTH * STAGE;
  static_assert(ROWS % WARP_ROWS == 0 && COLS % WARP_COLS == 0, "the warp tiles must cover the block tile");
  static_assert(WARP_ROWS % 16 == 0 && WARP_COLS % 32 == 0, "a warp multiplies 16 rows by 32 columns at a time");
  static_assert(STEPS == 16 || STEPS == 32,
                "a row of A's tile has four or eight vectors, and their order is made for that");
  static_assert(ROWS * STEPS % (THREADS * 4) == 0 && STEPS * COLS % (THREADS * 4) == 0,
                "each thread copies as many vectors");
  static_assert(STEPS % SUM_STEPS == 0 && (SUM_STEPS == 8 || SUM_STEPS == 16), "the error is derived for that");
  static_assert(THREADS <= 1024 && DEPTH >= 3, "one stage to multiply, one that has arrived, one on its way");

  // Where the four floats from column `col` of a row of A's tile lie: in an order in which eight rows, as ldmatrix reads
  // them, touch all banks.
  static __device__ int place_A(unsigned row, unsigned col) {
    constexpr unsigned VECTORS = STEPS / 4;
    return row * STEPS + ((col / 4) ^ (VECTORS == 8 ? row : row / 2) % VECTORS) * 4;
  }
};

constexpr float SPLIT_SCALE = 16777216.0f;                         // 2^24
constexpr float SPLIT_UNSCALE = 1.0f / SPLIT_SCALE / SPLIT_SCALE;  // 2^-48
constexpr int SHORT = 576;        // sums up to this long are left to FP32 multiply-adds
constexpr int SECTION_SUMS = 64;  // sums that are added before they are added to a total
constexpr int FP32_SECTION =
    128;  // the most steps of k that multiply-adds sum before a total, where cuBLAS may split k

// The sum of an element by FP32 multiply-adds in the order of k, from its row of A and its column of B. Not inlined: it is
// rarely needed, and its loop should not take registers from what is.
__attribute__((noinline)) static __device__ float exact_sum(const float* A, const float* B, int64_t ldb, int k) {
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) {
    sum = fmaf(A[p], B[p * ldb], sum);
  }
  return sum;
}

// Stores four neighbouring results; those that are not finite are computed again.
__device__ inline void store_split(const Gemm& g, int row, int col, float (&sum)[4], int width_C) {
  if (row >= g.m) {
    return;
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (!(fabsf(sum[v]) <= FLT_MAX) && col + v < g.n) {
      sum[v] = exact_sum(g.A + row * g.lda, g.B + col + v, g.ldb, g.k);
    }
  }
  store_vector(g, row, col, sum, 0, g.n - col, width_C);
}

// A number that stays in its register: what comes from a thread's number alone, ptxas may compute again in each tile.
__device__ inline int keep(int x) { return __shfl_sync(0xFFFFFFFF, x, threadIdx.x % 32); }

// The copies of one thread from global to shared memory in the background, WIDTH floats each: tiles of A and of B.
template <class T, int WIDTH>
struct SplitCopies {
  static constexpr int VECTORS_A = T::STEPS / WIDTH, VECTORS_B = T::COLS / WIDTH;  // of a row
  static constexpr int ROWS_A = T::THREADS / VECTORS_A;                            // that are copied at a time
  static constexpr int ROWS_B = T::THREADS < VECTORS_B ? 1 : T::THREADS / VECTORS_B;
  static constexpr int COLS_B = T::THREADS < VECTORS_B ? T::THREADS * WIDTH : T::COLS;
  static constexpr bool WHOLE_ROWS = COLS_B == T::COLS;  // of B are copied at a time
  static_assert(ROWS_A % 8 == 0, "then vectors of all rows of A that a thread copies have the same order");

  const float* A[T::ROWS / ROWS_A];  // what the thread copies next of each of its rows of A
  const float* B;                    // the first elements that it copies next of B
  int64_t ldb;
  int cols_left, steps_left_A, steps_left_B;  // from there to the ends of the matrices
  int to_A, to_B;                             // where they go in a stage

  // Results outside C are not stored, so what they are made of may be anything: the last row or columns inside.
  __device__ SplitCopies(const Gemm& g, Tile tile) : ldb(g.ldb) {
    int row_A = threadIdx.x / VECTORS_A;
    int col_A = threadIdx.x % VECTORS_A * WIDTH;
    int row_B = threadIdx.x / VECTORS_B % ROWS_B;
    int col_B = threadIdx.x % VECTORS_B * WIDTH;
#pragma unroll
    for (int i = 0; i < T::ROWS / ROWS_A; ++i) {
      A[i] = g.A + min(tile.row + row_A + i * ROWS_A, g.m - 1) * g.lda + col_A;
    }
    B = g.B + row_B * ldb + (WHOLE_ROWS ? min(tile.col + col_B, g.n - WIDTH) : tile.col + col_B);
    cols_left = g.n - tile.col - col_B;
    steps_left_A = g.k - col_A;
    steps_left_B = g.k - row_B;
    to_A = T::place_A(row_A, col_A) + col_A % 4;
    to_B = T::TILE_A + row_B * T::PITCH_B + col_B;
  }

  // The first tiles into all stages but one.
  __device__ void begin(float* shared) {
#pragma unroll
    for (int stage = 0; stage < T::DEPTH - 1; ++stage) {
      next(shared + stage * T::STAGE);
      __pipeline_commit();
    }
  }

  __device__ void keep_places() {
    to_A = keep(to_A);
    to_B = keep(to_B);
  }

  // Both tiles into a stage. Zeros stand for the steps beyond the last.
  __device__ void next(float* stage) {
#pragma unroll
    for (int i = 0; i < T::ROWS / ROWS_A; ++i) {
      copy_or_zeros(stage + to_A + i * ROWS_A * T::STEPS, A[i], WIDTH, steps_left_A > 0);
      A[i] += T::STEPS;
    }
#pragma unroll
    for (int p = 0; p < T::STEPS; p += ROWS_B) {
#pragma unroll
      for (int c = 0; c < T::COLS; c += COLS_B) {
        bool there = p < steps_left_B && (WHOLE_ROWS || c < cols_left);
        copy_or_zeros(stage + to_B + p * T::PITCH_B + c, B + p * ldb + c, WIDTH, there);
      }
    }
    B += T::STEPS * ldb;
    steps_left_A -= T::STEPS;
    steps_left_B -= T::STEPS;
  }
};

// x, scaled, as two TF32 numbers: x rounded to nearest, and what is left, exactly.
//
// The idea is Veltkamp's (T. J. Dekker, A floating-point technique for extending the available precision, Numer. Math. 18,
// 1971), with an operation less: 8191 x, rounded to 24 bits, is a multiple of the last place of x with 11 bits, and so is
// 8192 x. Their difference is x rounded, and exact. All three are of the FMA pipe: beside the tensor core's instructions
// such a one costs less than an integer one (docs/performance.md). From 2^91 on the product overflows, and then the sum is
// not finite, as of a NaN.
__device__ inline void split_tf32(float x, uint32_t* big, uint32_t* small) {
  constexpr float BITS_OFF = 8192.0f;  // 2^13: of 24 significant bits 11 stay
  float product = __fmul_rn(x, SPLIT_SCALE * (BITS_OFF - 1.0f));
  float rounded = fmaf(x, SPLIT_SCALE * BITS_OFF, -product);
  *big = __float_as_uint(rounded);
  *small = __float_as_uint(fmaf(x, SPLIT_SCALE, -rounded));
}

// Whether sums of k terms are left to FP32 multiply-adds, where `sums` of them have `terms` that are not zero: short ones, or
// ones that cuBLAS may split among blocks as if all terms were there.
__device__ inline bool few_terms(float terms, float sums, int k) {
  return terms > 0.0f && terms <= sums * fmaxf(400.0f, k / 6.0f);
}

// Whether FP32 multiply-adds err less in a tile than split numbers: where of more than a few rows of A or columns of B (asked
// if WIDE) the numbers lie further apart than 2^32, or where most are zero. All threads of a block ask, when they have its
// first stage, and look at the first 16 numbers of each. So few may mislead, and then accuracy is less good, but not lost.
template <class T, bool WIDE = true>
__device__ inline bool by_multiply_adds(const Gemm& g, Tile tile, const float* stage) {
  constexpr int FEW_LINES = 4, APART = 32, LOOK = 16;
  int wide = 0, some = 0;  // of `some`, the upper half belongs to B
  for (int line = threadIdx.x; line < T::ROWS + T::COLS; line += T::THREADS) {
    int col = line - T::ROWS;
    uint32_t high = 0, low = 0x7FFFFFFF;
    int others = 0;
#pragma unroll
    for (int p = 0; p < LOOK; p += 4) {
      alignas(16) float four[4];
      if (line < T::ROWS) {
        copy_vector<4>(four, stage + T::place_A(line, p));
      } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          four[v] = stage[T::TILE_A + (p + v) * T::PITCH_B + col];
        }
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        uint32_t bits = __float_as_uint(four[v]) & 0x7FFFFFFF;
        high = max(high, bits);
        low = bits == 0 ? low : min(low, bits);
        others += bits != 0;
      }
    }
    if (line < T::ROWS ? tile.row + line < g.m : tile.col + col < g.n) {
      wide += WIDE && high > low && (high - low) >> 23 > APART;
      some += others << (line < T::ROWS ? 0 : 16);
    }
  }
  __shared__ int warps_wide[T::THREADS / 32], warps_some[T::THREADS / 32];
  wide = __reduce_add_sync(0xFFFFFFFF, wide);
  some = __reduce_add_sync(0xFFFFFFFF, some);
  if (threadIdx.x % 32 == 0) {
    warps_wide[threadIdx.x / 32] = wide;
    warps_some[threadIdx.x / 32] = some;
  }
  __syncthreads();
  wide = some = 0;
#pragma unroll
  for (int warp = 0; warp < T::THREADS / 32; ++warp) {
    wide += warps_wide[warp];
    some += warps_some[warp];
  }
  float pairs = static_cast<float>(some & 0xFFFF) * (some >> 16);  // of numbers of A and of B that are not zero
  float looked = static_cast<float>(LOOK * min(T::ROWS, g.m - tile.row)) * (LOOK * min(T::COLS, g.n - tile.col));
  return wide > FEW_LINES || few_terms(pairs * g.k, looked, g.k);
}

// A tile by FP32 multiply-adds. Of each 4 rows and each 32 columns of a warp's part a lane has one row and four columns. Not
// inlined, as exact_sum.
template <class T, int WIDTH>
__attribute__((noinline)) static __device__ void multiply_adds(Gemm g, Tile tile, float* shared, int row, int col) {
  constexpr int ROWS = T::WARP_ROWS / 4, COLS = T::WARP_COLS / 32;
  row += threadIdx.x % 32 / 8;
  col += threadIdx.x % 8 * 4;
  alignas(16) float sum[ROWS][COLS][4] = {};
  float* sums = &sum[0][0][0];
  SectionTotals<ROWS * COLS * 4> totals;
  totals.clear();
  int tiles = ceil_div(g.k, T::STEPS);
  SplitCopies<T, WIDTH> copies(g, tile);
  copies.begin(shared);
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    const float* stage = shared + t % T::DEPTH * T::STAGE;
    __pipeline_wait_prior(T::DEPTH - 2);
    __syncthreads();
    copies.next(shared + (t + T::DEPTH - 1) % T::DEPTH * T::STAGE);
    __pipeline_commit();
#pragma unroll 1
    for (int first = 0; first < T::STEPS; first += 4) {
      alignas(16) float A[ROWS][4];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        copy_vector<4>(A[i], stage + T::place_A(row + 4 * i, first));
      }
#pragma unroll
      for (int p = 0; p < 4; ++p) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
          alignas(16) float B[4];
          copy_vector<4>(B, stage + T::TILE_A + (first + p) * T::PITCH_B + col + 32 * j);
#pragma unroll
          for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              sum[i][j][v] += A[i][p] * B[v];
            }
          }
        }
      }
    }
    if ((t + 1) % (FP32_SECTION / T::STEPS) == 0) {
      totals.end_section(sums);
    }
  }
  __pipeline_wait_prior(0);
  totals.finish(sums);

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      int r = tile.row + row + 4 * i, c = tile.col + col + 32 * j;
      if (r < g.m) {
        store_vector(g, r, c, sum[i][j], 0, g.n - c, width_C);
      }
    }
  }
}

// PRODUCTS: 3, or 1 of numbers rounded to TF32, and then k is not summed in sections.
//
// The loop over tiles is one basic block, so that the compiler has something to issue between any two instructions of the
// tensor core. Of 32 columns a lane has four for four groups of these, and two groups are under way: while one is
// multiplied, B's numbers of the next are split, and what came out of the last is added to the sums. The totals of sections
// lie in memory, which leaves the registers to that.
template <class T, int WIDTH, int PRODUCTS>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_mma(Gemm g) {
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32, KS = T::SUM_STEPS / 8;
  constexpr bool SECTIONS = PRODUCTS == 3;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  SplitCopies<T, WIDTH> copies(g, tile);
  copies.begin(shared);
  if (WIDTH == 1) {
    copies.keep_places();
  }
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  // All threads have the same answer, and so the compiler knows that they do.
  if (PRODUCTS == 3 && __any_sync(0xFFFFFFFF, by_multiply_adds<T>(g, tile, shared))) {
    __pipeline_wait_prior(0);
    __syncthreads();
    multiply_adds<T, WIDTH>(g, tile, shared, warp_row, warp_col);
    return;
  }

  // Of 32 neighbouring columns a lane has 4 (lane / 4) .. 4 (lane / 4) + 3 as B, one for each of four mma_tf32, and of
  // their results 8 (lane % 4) .. 8 (lane % 4) + 7: two whole vectors in a row of C.
  float sum[MS][NS][2][8] = {};
  constexpr bool NESTED = SECTIONS && WIDTH == 4;  // a loop over sections of loops over tiles
  constexpr int SUMS = MS * NS * 16;
  float* sums = &sum[0][0][0][0];
  volatile float totals[SUMS];  // in memory, not in registers: they are touched at the end of a section alone
  if (SECTIONS) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = 0.0f;
    }
  }
  constexpr int section = SECTION_SUMS * T::SUM_STEPS / T::STEPS;  // in tiles

  // A group is what one of those four columns takes of mma_tf32: MS x KS of each product.
  int at_A = T::place_A(warp_row + lane % 16, lane / 16 * 4);
  int at_B = T::TILE_A + lane % 4 * T::PITCH_B + warp_col + lane / 4 * 4;
  float next_A[KS][MS][4], next_B[KS][2][4];
  uint32_t big_A[KS][MS][4], small_A[KS][MS][4], big_B[2][KS][2], small_B[2][KS][2];
  float part[2][MS][4] = {};
  auto load_A = [&](const float* stage, int first) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
      const float* from = stage + (at_A ^ (first + 8 * p));
#pragma unroll
      for (int i = 0; i < MS; ++i) {
        load_mma_A(next_A[p][i], from + 16 * i * T::STEPS);
      }
    }
  };
  auto load_B = [&](const float* stage, int first, int j) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
      const float* row = stage + at_B + (first + 8 * p) * T::PITCH_B + 32 * j;
      copy_vector<4>(next_B[p][0], row);
      copy_vector<4>(next_B[p][1], row + 4 * T::PITCH_B);
    }
  };
  auto split_A = [&] {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
#pragma unroll
      for (int i = 0; i < MS; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          split_tf32(next_A[p][i][r], &big_A[p][i][r], &small_A[p][i][r]);
        }
      }
    }
  };
  auto split_B = [&](int v) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        split_tf32(next_B[p][r][v], &big_B[v % 2][p][r], &small_B[v % 2][p][r]);
      }
    }
  };
  auto multiply = [&](int v) {
#pragma unroll
    for (int product = 3 - PRODUCTS; product < 3; ++product) {
#pragma unroll
      for (int p = 0; p < KS; ++p) {
#pragma unroll
        for (int i = 0; i < MS; ++i) {
          mma_tf32(part[v % 2][i], product == 0 ? small_A[p][i] : big_A[p][i],
                   product == 1 ? small_B[v % 2][p] : big_B[v % 2][p]);
        }
      }
    }
  };
  auto promote = [&](int j, int v) {
#pragma unroll
    for (int i = 0; i < MS; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* s = &sum[i][j][r / 2][r % 2 * 4 + v];
        *s = fmaf(part[v % 2][i][r], SPLIT_UNSCALE, *s);
        part[v % 2][i][r] = 0.0f;
      }
    }
  };

  constexpr int UNITS = T::STEPS / T::SUM_STEPS * NS;  // of four groups each, in a tile
  load_A(shared, 0);
  load_B(shared, 0, 0);
  split_A();
  split_B(0);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  auto end_section = [&] {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = totals[i] + sums[i];
      sums[i] = 0.0f;
    }
  };
  int left = tiles;
  do {
    int more = NESTED ? min(left, section) : left;
    left -= more;
    for (int t = 0; t < more; ++t) {
      float* after = stage + T::STAGE < shared + T::DEPTH * T::STAGE ? stage + T::STAGE : shared;
      __pipeline_wait_prior(T::DEPTH - 3);
      __syncthreads();
#pragma unroll
      for (int unit = 0; unit < UNITS; ++unit) {
        bool last = unit == UNITS - 1;
        const float* next_stage = last ? after : stage;
        int next_j = (unit + 1) % NS, next_first = last ? 0 : (unit + 1) / NS * T::SUM_STEPS;
        if (next_j == 0) {
          load_A(next_stage, next_first);
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          multiply(v);
          if (v < 3) {
            split_B(v + 1);
          } else {
            load_B(next_stage, next_first, next_j);
            split_B(0);
          }
          if (v == 3 && next_j == 0) {
            split_A();
          }
          promote((v > 0 ? unit : unit + NS - 1) % NS, (v + 3) % 4);
        }
      }
      copies.next(before);
      __pipeline_commit();
      before = stage;
      stage = after;
      if (SECTIONS && !NESTED && (t + 1) % section == 0) {
        end_section();
      }
    }
    if (NESTED && left > 0) {
      end_section();
    }
  } while (NESTED && left > 0);
  __pipeline_wait_prior(0);
  promote(NS - 1, 3);
  if (SECTIONS) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      sums[i] += totals[i];
    }
  }

  int width_C = vector_width(g.C, g.ldc);
#pragma unroll
  for (int i = 0; i < MS; ++i) {
#pragma unroll
    for (int j = 0; j < NS; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int row = tile.row + warp_row + 16 * i + 8 * half + lane / 4;
        int col = tile.col + warp_col + 32 * j + lane % 4 * 8;
#pragma unroll
        for (int v = 0; v < 8; v += 4) {
          alignas(16) float four[4] = {sum[i][j][half][v], sum[i][j][half][v + 1], sum[i][j][half][v + 2],
                                       sum[i][j][half][v + 3]};
          store_split(g, row, col + v, four, width_C);
        }
      }
    }
  }
}

using SmallTiling = SplitKTiling<128, 128, 16, 8, 8, 32, 64, 3, 2>;
using HalvesTiling = SplitKTiling<128, 128, 16, 8, 8, 32, 64, 3, 2, 2>;  // of few tiles
constexpr int FEW_STEPS = 96;  // the most of their splits, where all of these run at once

// Whether tiles of 128 x 128, one on an SM, fill rounds of all SMs to nine tenths. Where they do not, cuBLAS may split k, so
// that its error is below that of long sums.
inline bool fills_sms(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = tile_grid(g, 128, 128).x;
  return 10 * tiles >= 9 * ((tiles + sms - 1) / sms) * sms;
}

// How many steps of k multiply-adds sum one by one, where they compute the product; elsewhere 0.
inline int one_by_one(const Gemm& g) {
  int sms = 1;
  sm_count(&sms);
  int64_t tiles = tile_grid(g, SmallTiling::ROWS, SmallTiling::COLS).x;
  if (20 * tiles < 9 * sms) {
    auto room = [&](int steps) { return tiles * ceil_div(g.k, steps) <= SmallTiling::BLOCKS * sms; };  // at once
    return room(FEW_STEPS) ? FEW_STEPS : g.k <= 1024 || room(128) ? 128 : 256;
  }
  return g.k > SHORT ? 0 : fills_sms(g) ? SHORT : FP32_SECTION;
}

inline size_t mma_workspace(const Gemm& g) {
  int longest = one_by_one(g);
  return longest > 0 ? split_k_workspace<SmallTiling>(g, longest) : 0;
}

// Whether all copies can be of 16 bytes.
inline bool by_vectors(const Gemm& g) {
  return vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4 && g.k % 4 == 0 && g.n % 4 == 0;
}

template <class T, int PRODUCTS>
cudaError_t launch_mma(const Gemm& g, cudaStream_t stream) {
  auto kernel = by_vectors(g) ? sgemm_mma<T, 4, PRODUCTS> : sgemm_mma<T, 1, PRODUCTS>;
  return launch(kernel, tile_grid(g, T::ROWS, T::COLS), dim3(T::THREADS), T::SHARED_BYTES, stream, g);
}

template <class T>
cudaError_t run_mma(const Gemm& g, void* workspace, cudaStream_t stream) {
  int longest = one_by_one(g);
  if (longest == 0) {
    return launch_mma<T, 3>(g, stream);
  }
  bool halves = longest == FEW_STEPS && g.k % HalvesTiling::PARTS == 0;
  auto run_splits = halves ? run_split_k<HalvesTiling> : run_split_k<SmallTiling>;
  return run_splits(g, workspace, stream, longest);
}
