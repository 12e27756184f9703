// An FP32 product on tensor cores: each number is split into two TF32 numbers, and three products of them are added.
//
// x = big + small: big is x rounded to TF32 (11 significant bits), and small is the rest, of which the tensor core
// reads the first 11 bits. Of a b = big big + big small + small big + small small the last term is left out. A number
// keeps 23 or 24 bits. Together with the term that is left out, |error| <= 8 u |a b|, with u = 2^-24.
// - The tensor core truncates its sums. So each of them is short: three products over 8 or 16 steps of k, the two small
//   ones first, starting from zero. The result is added to an FP32 sum on the CUDA cores, rounded to nearest. Every 64
//   of these are added to a total, so that the error hardly grows with k.
// - Underflow: TF32 could not hold the small part of a number below 2^-113. So the split scales all numbers by 2^24,
//   and each sum of the tensor core is scaled back by 2^-48.
// - Overflow, infinities, NaN: if the sum of an element is not finite, whatever the cause, the element is computed
//   again as the definition says, by FP32 multiply-adds.
// - Short sums: numbers of 22 bits and truncated sums cause an error of some 2 u of the largest terms, however short
//   the sum is. The error of an FP32 product begins at half a u and grows with k. So FP32 multiply-adds compute all
//   sums up to k = 576 (multiply_adds.cuh), with k split among blocks where tiles do not fill the SMs, because cuBLAS
//   splits k there too. From there on the bound of an FP32 product, (k + 3) u |A| |B|, holds by far: a step of the
//   tensor core adds nine numbers, each truncated to the last place of the largest, and then truncates their sum, which
//   is at most 20 u, and there are k / 16 + 2 roundings outside.
// - Few tiles: with less than about one tile for two SMs, FP32 multiply-adds with a split k are as fast or faster, and
//   err less.
// - Wide ranges, many zeros: where one term is most of a sum, the 22 or 23 bits of a number show, and if cuBLAS splits
//   k it errs less. A sum whose terms are mostly zeros is a short sum. So a block looks at the first numbers of its
//   rows of A and columns of B. If they lie far apart or are mostly zeros, it computes its tile by FP32 multiply-adds
//   (fp32_tile.cuh).
//
// S. Markidis et al., NVIDIA Tensor Core Programmability, Performance & Precision, IPDPSW 2018; H. Ootomo, R. Yokota,
// Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance, Int.
// J. High Perform. Comput. Appl. 36(4), 2022 (sums outside the tensor core, scaling); M. Fasi, N. J. Higham, F. Lopez,
// T. Mary, M. Mikaitis, Matrix Multiplication in Multiword Arithmetic, SIAM J. Sci. Comput. 45(1), 2023 (the error's
// analysis).
#pragma once

#include <cfloat>

#include "gemm.cuh"
#include "mma.cuh"
#include "mma_tiles.cuh"
#include "vector.cuh"

constexpr float SPLIT_SCALE = 16777216.0f;                         // 2^24
constexpr float SPLIT_UNSCALE = 1.0f / SPLIT_SCALE / SPLIT_SCALE;  // 2^-48
constexpr int SECTION_SUMS = 64;  // sums of the tensor core that are added before they are added to a total

// Splits x, scaled by 2^24, into two TF32 numbers: x rounded to nearest, and the exact rest.
//
// The idea is Veltkamp's (T. J. Dekker, A floating-point technique for extending the available precision, Numer. Math.
// 18, 1971), with one operation less. 8191 x, rounded to 24 bits, is a multiple of the last place of x with 11 bits,
// and so is 8192 x. Their difference is x rounded to 11 bits, and it is exact. All three instructions run in the FMA
// pipe. Beside mma.sync they cost less than integer instructions do (docs/performance.md). From 2^91 on the product
// overflows, and then the sum is not finite, as for a NaN.
__device__ inline void split_tf32(float x, uint32_t* big, uint32_t* small) {
  constexpr float BITS_OFF = 8192.0f;  // 2^13: of 24 significant bits 11 stay
  float product = __fmul_rn(x, SPLIT_SCALE * (BITS_OFF - 1.0f));
  float rounded = fmaf(x, SPLIT_SCALE * BITS_OFF, -product);
  *big = __float_as_uint(rounded);
  *small = __float_as_uint(fmaf(x, SPLIT_SCALE, -rounded));
}

// What a warp reads of a stage for mma.sync: MS times 16 rows of A by KS times 8 steps of k, and 32 columns of B. Of
// these a lane has four neighbours, 4 (lane / 4) to 4 (lane / 4) + 3, one for each of four mma.sync. So it reads B by
// vectors, and in a row of the results of the four it has two whole vectors, columns 8 (lane % 4) to 8 (lane % 4) + 7.

// Where a lane's numbers lie in a stage, for the warp whose part of C begins at warp_row and warp_col.
template <class T>
__device__ inline int place_of_A(int warp_row, int lane) {
  return T::place_A(warp_row + lane % 16, lane / 16 * 4);
}
template <class T>
__device__ inline int place_of_B(int warp_col, int lane) {
  return T::TILE_A + lane % 4 * T::PITCH_B + warp_col + lane / 4 * 4;
}

// Shared memory to registers: A from step `first` of the stage on.
template <class T, int KS, int MS>
__device__ inline void lds_A(float (&to)[KS][MS][4], const float* stage, int place, int first) {
#pragma unroll
  for (int p = 0; p < KS; ++p) {
    const float* from = stage + (place ^ (first + 8 * p));
#pragma unroll
    for (int i = 0; i < MS; ++i) {
      load_mma_A(to[p][i], from + 16 * i * T::STEPS);
    }
  }
}

// The same of the j-th 32 columns of B.
template <class T, int KS>
__device__ inline void lds_B(float (&to)[KS][2][4], const float* stage, int place, int first, int j) {
#pragma unroll
  for (int p = 0; p < KS; ++p) {
    const float* row = stage + place + (first + 8 * p) * T::PITCH_B + 32 * j;
    copy_vector<4>(to[p][0], row);
    copy_vector<4>(to[p][1], row + 4 * T::PITCH_B);
  }
}

// Splits all numbers of A.
template <int KS, int MS>
__device__ inline void split_A(const float (&A)[KS][MS][4], uint32_t (&big)[KS][MS][4], uint32_t (&small)[KS][MS][4]) {
#pragma unroll
  for (int p = 0; p < KS; ++p) {
#pragma unroll
    for (int i = 0; i < MS; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        split_tf32(A[p][i][r], &big[p][i][r], &small[p][i][r]);
      }
    }
  }
}

// Splits the lane's column v of B.
template <int KS>
__device__ inline void split_B(const float (&B)[KS][2][4], int v, uint32_t (&big)[KS][2], uint32_t (&small)[KS][2]) {
#pragma unroll
  for (int p = 0; p < KS; ++p) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      split_tf32(B[p][r][v], &big[p][r], &small[p][r]);
    }
  }
}

// sum += A . B of one column: small big, big small and big big.
template <int KS, int MS>
__device__ inline void multiply(float (&sum)[MS][4], const uint32_t (&big_A)[KS][MS][4],
                                const uint32_t (&small_A)[KS][MS][4], const uint32_t (&big_B)[KS][2],
                                const uint32_t (&small_B)[KS][2]) {
#pragma unroll
  for (int product = 0; product < 3; ++product) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
#pragma unroll
      for (int i = 0; i < MS; ++i) {
        mma_tf32(sum[i], product == 0 ? small_A[p][i] : big_A[p][i], product == 1 ? small_B[p] : big_B[p]);
      }
    }
  }
}

// The sum of one element by FP32 multiply-adds in the order of k, from its row of A and its column of B. It is rarely
// needed, so it is not inlined: its loop must not take registers from the main loop.
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
