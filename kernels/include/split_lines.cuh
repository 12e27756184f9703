// The pre-pass of the rungs of wgmma: splits A and B into high and low parts in the workspace.
//
// Each row of A and each column of B becomes a line along k, padded with zeros, so that the copy engine can read any
// matrix. split_tf32.cuh explains the three products of high and low parts.
// - FP16: a line is scaled by a power of two so that its largest magnitude is at least 2^14 and below 2^15. A scan
//   before the pre-pass finds the largest magnitude. The low parts are scaled by 2^12 more. So a number of at least
//   2^-14 (scaled) is kept to 2^-23 of itself, and a smaller one to 2^-37. Numbers as small as 2^(-14 - j) are kept as
//   well as FP32 needs if j doublings are left in the bound: with 2^j = k / 16 the error of the inputs is at most (k /
//   4 + 4) u |a b| (u = 2^-24), and the bound of an FP32 product, (k + 3) u |A| |B|, has room for it.
// - A line cannot be split if it holds NaN or infinity, if its numbers lie further apart than that, or if its largest
//   magnitude is outside 2^-46 to 2^74. The rungs leave out the tiles of such a line and the tiles whose terms are
//   mostly zeros (split_tf32.cuh), and FP32 multiply-adds compute them (multiply_adds.cuh).
// - TF32: the same rules, though TF32 could hold more. Where numbers lie so far apart, an FP32 product errs less.
// - Sums: the products of high parts stay in the tensor core for two wgmma, 32 steps of k in FP16 and 16 in TF32. Then
//   they are added to an FP32 sum on the CUDA cores, and every 64 of these to a total, so that the error hardly grows
//   with k. The products with low parts, 2^-11 of the others, have a sum of their own for all k.
// - Short sums: a step of wgmma adds 17 numbers in FP16 and 9 in TF32, each truncated to the last place of the largest,
//   and then truncates their sum: at most 36 u or 20 u. These steps, the inputs and the roundings outside are within
//   the bound from k = 124 on. FP32 multiply-adds compute sums up to 576, as split_tf32.cuh says.
//
// H. Ootomo, R. Yokota, as in split_tf32.cuh (FP16 parts, scaled low parts).
#pragma once

#include "fp32_sections.cuh"
#include "gemm.cuh"
#include "vector.cuh"

constexpr int SCAN_A = 4096;  // steps of k that a block of the scan takes of its rows of A
constexpr int SCAN_B = 128;   // and of its columns of B

// What the pre-pass leaves in the workspace. A line is a row of A or a column of B: m of one and n of the other.
template <class E>
struct Lines {
  typename E::Type* high_A;  // m x ld, and behind them the low parts
  typename E::Type* high_B;  // n x ld: B transposed
  int64_t ld;
  uint32_t* largest;               // of each line the bits of the largest magnitude: m rows and then n columns
  uint32_t* smallest;              // and 2^31 - 1 minus the bits of the smallest magnitude that is not zero
  int* unsplit_A;                  // of each 256 rows, whether a row cannot be split
  int* unsplit_B;                  // of each 128 columns
  unsigned long long* nonzeros_A;  // of each 256 rows, how many numbers are not zero
  unsigned long long* nonzeros_B;
  size_t cleared_bytes;  // of these six, which the scan needs to be zeros
  size_t bytes;          // of all
};

template <class E>
Lines<E> lines_in(const Gemm& g, void* workspace) {
  Lines<E> lines;
  constexpr int LINE = 128 / sizeof(typename E::Type);
  lines.ld = static_cast<int64_t>(ceil_div(g.k, LINE)) * LINE;
  auto at = reinterpret_cast<uintptr_t>(workspace);
  uintptr_t begin = at;
  auto take = [&](size_t bytes) {
    uintptr_t here = at;
    at += (bytes + 255) / 256 * 256;
    return here;
  };
  size_t count = static_cast<size_t>(g.m) + g.n;
  lines.largest = reinterpret_cast<uint32_t*>(take(count * 4));
  lines.smallest = reinterpret_cast<uint32_t*>(take(count * 4));
  lines.unsplit_A = reinterpret_cast<int*>(take(ceil_div(g.m, 256) * sizeof(int)));
  lines.unsplit_B = reinterpret_cast<int*>(take(ceil_div(g.n, 128) * sizeof(int)));
  lines.nonzeros_A = reinterpret_cast<unsigned long long*>(take(ceil_div(g.m, 256) * sizeof(unsigned long long)));
  lines.nonzeros_B = reinterpret_cast<unsigned long long*>(take(ceil_div(g.n, 128) * sizeof(unsigned long long)));
  lines.cleared_bytes = at - begin;
  lines.high_A = reinterpret_cast<typename E::Type*>(take(2 * sizeof(typename E::Type) * g.m * lines.ld));
  lines.high_B = reinterpret_cast<typename E::Type*>(take(2 * sizeof(typename E::Type) * g.n * lines.ld));
  lines.bytes = at - begin;
  return lines;
}

// The tiles of C that are left to FP32 multiply-adds: those of a line that cannot be split, and those whose terms are
// mostly zeros.
struct TilesLeftToFp32 {
  int m, n, k;
  const int* unsplit_A;
  const int* unsplit_B;
  const unsigned long long* nonzeros_A;
  const unsigned long long* nonzeros_B;

  template <class E>
  __host__ __device__ TilesLeftToFp32(const Gemm& g, const Lines<E>& lines)
      : m(g.m),
        n(g.n),
        k(g.k),
        unsplit_A(lines.unsplit_A),
        unsplit_B(lines.unsplit_B),
        nonzeros_A(lines.nonzeros_A),
        nonzeros_B(lines.nonzeros_B) {}

  __device__ bool has(Tile tile) const {
    int i = tile.row / 256, j = tile.col / 128;
    float pairs = static_cast<float>(nonzeros_A[i]) * static_cast<float>(nonzeros_B[j]);
    float sums = static_cast<float>(min(256, m - i * 256)) * min(128, n - j * 128);
    return unsplit_A[i] != 0 || unsplit_B[j] != 0 || mostly_zeros(pairs / k, sums, k);
  }
};

// Adds the largest and the smallest magnitude of a piece of a line to those of the line.
template <class E>
__device__ inline void add_range(const Lines<E>& lines, int line, uint32_t high, uint32_t low) {
  if (high != 0) {
    atomicMax(lines.largest + line, high);
    atomicMax(lines.smallest + line, 0x7FFFFFFFu - low);
  }
}

// Finds the largest and the smallest magnitude of each line, and how many numbers are not zero. Blocks of 256 threads:
// the first take 8 rows of A by SCAN_A steps each, the others 256 columns of B by SCAN_B steps.
template <class E>
static __global__ void __launch_bounds__(256) scan_lines(Gemm g, Lines<E> lines) {
  int chunks_A = ceil_div(g.k, SCAN_A);
  int blocks_A = ceil_div(g.m, 8) * chunks_A;
  int block = blockIdx.x;
  uint32_t high = 0, low = 0x7FFFFFFFu;
  unsigned nonzeros = 0;
  auto scan = [&](float x) {
    uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFu;
    high = max(high, bits);
    low = min(low, bits == 0 ? 0x7FFFFFFFu : bits);
    nonzeros += bits != 0;
  };
  auto add_nonzeros = [&](unsigned long long* total) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      nonzeros += __shfl_xor_sync(0xFFFFFFFF, nonzeros, lanes);
    }
    if (threadIdx.x % 32 == 0) {
      atomicAdd(total, nonzeros);
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
          scan(x[i]);
        }
      }
      for (; p < end; p += 32) {
        scan(A[p]);
      }
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        high = max(high, __shfl_xor_sync(0xFFFFFFFF, high, lanes));
        low = min(low, __shfl_xor_sync(0xFFFFFFFF, low, lanes));
      }
      if (threadIdx.x % 32 == 0) {
        add_range(lines, row, high, low);
      }
      add_nonzeros(lines.nonzeros_A + row / 256);
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
      scan(B[p * g.ldb]);
    }
    add_range(lines, g.m + col, high, low);
  }
  if (col / 32 * 32 < g.n) {
    add_nonzeros(lines.nonzeros_B + col / 128);
  }
}

// The exponent of the power of two that scales a line, so that its largest magnitude is 2^14 to 2^15. `fits` says
// whether FP16 keeps enough of every number of the line; the derivation is at the top.
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

// The factor of a line. If the line cannot be split, the thread that `notes` says so: one a line, because atomics of all
// the threads that split it would take long.
template <class E>
__device__ inline float line_scale(const Lines<E>& lines, int line, int k, int* bad, bool notes) {
  bool fits;
  int exponent = line_exponent(lines.largest[line], lines.smallest[line], k, &fits);
  if (!fits && notes) {
    atomicOr(bad, 1);
  }
  return fits ? power_of_two(exponent) : 0.0f;
}

// Splits A and B into the workspace. Blocks of 256 threads: the first take a row of A by 256 vectors of 16 bytes each,
// the others 64 columns of B by 64 steps.
template <class E>
static __global__ void __launch_bounds__(256) split_lines(Gemm g, Lines<E> lines) {
  using Type = typename E::Type;
  constexpr int VECTOR = 16 / sizeof(Type);
  int chunks_A = static_cast<int>((lines.ld + 256 * VECTOR - 1) / (256 * VECTOR));
  int64_t blocks_A = static_cast<int64_t>(g.m) * chunks_A;
  int64_t block = blockIdx.x;
  if (block < blocks_A) {
    int row = static_cast<int>(block / chunks_A);
    int p = (static_cast<int>(block % chunks_A) * 256 + threadIdx.x) * VECTOR;
    if (p >= lines.ld) {
      return;
    }
    float scale = line_scale(lines, row, g.k, lines.unsplit_A + row / 256, p == 0);
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
    Type* to = lines.high_A + row * lines.ld + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.m * lines.ld) = *reinterpret_cast<uint4*>(low);
    return;
  }
  block -= blocks_A;
  __shared__ float tile[64][65];
  int chunks_B = ceil_div(g.k, 64);
  int first_col = static_cast<int>(block / chunks_B) * 64;
  int first_p = static_cast<int>(block % chunks_B) * 64;
  int col = first_col + threadIdx.x % 64;
  bool notes = first_p == 0 && threadIdx.x < 64;
  float scale = col < g.n ? line_scale(lines, g.m + col, g.k, lines.unsplit_B + col / 128, notes) : 0.0f;
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
    if (first_col + c >= g.n || first_p + p >= lines.ld) {
      continue;
    }
    alignas(16) Type high[VECTOR];
    alignas(16) Type low[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      E::split(tile[p + v][c], &high[v], &low[v]);
    }
    Type* to = lines.high_B + (first_col + c) * lines.ld + first_p + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.n * lines.ld) = *reinterpret_cast<uint4*>(low);
  }
}

// The factor that takes the scale of a line back.
template <class E>
__device__ inline float line_unscale(const Lines<E>& lines, int line, int k) {
  bool fits;
  return power_of_two(-line_exponent(lines.largest[line], lines.smallest[line], k, &fits));
}

// Stores two neighbouring results, by one instruction if `pairs` of C are aligned.
__device__ inline void store_two(const Gemm& g, int row, int col, const float (&two)[2], bool pairs) {
  if (row < g.m && col + 1 < g.n && pairs) {
    float2* to = reinterpret_cast<float2*>(g.C + row * g.ldc + col);
    float2 old = g.beta == 0.0f ? float2{0.0f, 0.0f} : *to;
    *to = float2{g.alpha * two[0] + g.beta * old.x, g.alpha * two[1] + g.beta * old.y};
  } else if (row < g.m) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      if (col + v < g.n) {
        store_result(g, row, col + v, two[v]);
      }
    }
  }
}

// Queues the scan and the pre-pass.
template <class E>
cudaError_t launch_split_lines(const Gemm& g, const Lines<E>& lines, cudaStream_t stream) {
  constexpr int VECTOR = 16 / sizeof(typename E::Type);
  cudaError_t error = cudaSuccess;
  if (launch_observer == nullptr) {
    error = cudaMemsetAsync(lines.largest, 0, lines.cleared_bytes, stream);
  }
  if (error == cudaSuccess) {
    unsigned blocks = ceil_div(g.m, 8) * ceil_div(g.k, SCAN_A) + ceil_div(g.n, 256) * ceil_div(g.k, SCAN_B);
    error = launch(scan_lines<E>, dim3(blocks), dim3(256), 0, stream, g, lines);
  }
  if (error == cudaSuccess) {
    auto chunks_A = static_cast<unsigned>((lines.ld + 256 * VECTOR - 1) / (256 * VECTOR));
    unsigned blocks = g.m * chunks_A + static_cast<unsigned>(ceil_div(g.n, 64)) * ceil_div(g.k, 64);
    error = launch(split_lines<E>, dim3(blocks), dim3(256), 0, stream, g, lines);
  }
  return error;
}
