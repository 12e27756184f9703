// The pre-pass of a product by FP16 parts whose numbers may lie far apart: scales rows of A, columns of B and, where it
// helps, steps of k by powers of two, and splits A and B into high and low parts in the workspace.
//
// A line is a row of A or a column of B, along k. split_lines.cuh explains the parts, their three products and why 2^-14 is
// the smallest scaled number of which FP16 keeps as much as FP32. Besides,
// - Steps: column p of A is multiplied with 2^t and row p of B with 2^-t, which is exact. t makes their largest magnitudes
//   alike, so that scales of k of their own, or outliers in a column of A, do not make lines wide. This takes a second scan,
//   which runs only if there are wide lines and unlike steps.
// - Wide lines: a line is wide if it has numbers too small for FP16, scaled to its largest. They are kept to 2^-37. Let L
//   be the sum of magnitudes of a line, scaled. What is lost of the small numbers of a row is at most 1.5 * 2^-36 L of
//   the column (2^-37 of each number, and 2^-25 times the low part 2^-11 of its partner), and of those of a column as
//   much of the row. So the product itself proves that they do not matter: where its scaled magnitude, a lower bound of
//   |A| |B|, is at least sqrt(L) / 16, that is at most 1.06 sqrt(k) u of it (u = 2^-24, L < 2^15 k). `least_kept` is this
//   limit. The error of an FP32 product grows like sqrt(k) u too, and its bound has room: (k + 3) u |A| |B|.
// - Few terms: an FP32 sum errs by each term that it rounds, those of at least some 2^-25 of the sum. Where these are few,
//   FP32 errs less than the 22 or 23 bits of a split number. So the numbers of a line within 2^-25 of its largest, its
//   strong ones, are counted: `weak_lines` says whether lines have few of them, and `effective_terms` how many terms of two
//   wide lines are likely to matter.
// - The exponents of a row and a column are taken back in two steps, so they may be any that FP32 has.
// - Only lines with NaN or infinity cannot be split.
#pragma once

#include <cuda_fp16.h>

#include "gemm.cuh"
#include "second_kernel.cuh"
#include "split_lines.cuh"
#include "vector.cuh"

constexpr float LOW_SCALE = 4096.0f;        // what the low parts are multiplied with
constexpr int MOST_STEP = 32;               // a step of k is scaled by at most 2^32
constexpr int UNLIKE_STEPS = 6;             // steps are scaled if their exponents differ by so much
constexpr int KEY_OFFSET = MOST_STEP + 32;  // of the exponents of scaled numbers, so that they are positive
constexpr int UNSPLIT = 1, WIDE = 2;        // marks of 256 rows or 128 columns: such a line is among them

// What the pre-pass leaves in the workspace. Of lines there are m rows and then n columns.
struct Parts {
  __half* high_A;  // m x ld, and behind them the low parts
  __half* high_B;  // n x ld: B transposed
  int64_t ld;
  int* exponents;                // of each line: two times the exponent of its scale, plus 1 if it is wide
  uint32_t *largest, *smallest;  // of each line the bits of its largest magnitude, and the complement of those of
                                 // its smallest that is not zero
  uint32_t *scaled_largest, *scaled_smallest;  // the same with scaled steps, as `scaled_key` has them
  uint32_t *steps_A, *steps_B;                 // the bits of the largest magnitude of column p of A, of row p of B
  int* step_exponents;                         // where steps are scaled, t of each step
  unsigned* scanned;                           // of SCAN_ROWS rows, then of SCAN_COLS columns, how many tiles
  // Where there are wide lines, of each line the sum of its scaled magnitudes, each rounded, and 2^SUM_BITS times how many
  // of them are strong; of 256 rows and of 128 columns the sums alone.
  unsigned long long *sums, *sums_A, *sums_B;
  unsigned long long *nonzeros_A, *nonzeros_B;  // of 256 rows, of 128 columns
  int *marks_A, *marks_B;                       // of the same
  int *wide, *scaled_steps;                     // of the whole product: whether there are wide lines, scaled steps
};

// A number's exponent, from its bits without the sign: that of 1.0 is 127, and those of subnormal numbers go on downwards.
__device__ inline int exponent_of(uint32_t bits) {
  return bits >= 1u << 23 ? static_cast<int>(bits >> 23) : 9 - __clz(static_cast<int>(bits));
}
__device__ inline bool finite(uint32_t bits) { return bits < 0x7F800000u; }

// Half of by how much row p of B is larger than column p of A, in binades. False where one of them is zero or not finite.
__device__ inline bool step_difference(const Parts& parts, int p, int* half) {
  uint32_t a = parts.steps_A[p], b = parts.steps_B[p];
  *half = a == 0 || b == 0 ? 0 : (exponent_of(b) - exponent_of(a)) >> 1;
  return a != 0 && b != 0 && finite(a) && finite(b);
}

// The exponent t of step p, given the middle of all differences.
__device__ inline int step_exponent(const Parts& parts, int p, int middle) {
  int half;
  return step_difference(parts, p, &half) ? max(-MOST_STEP, min(MOST_STEP, half - middle)) : 0;
}

// What numbers are compared by: their bits, or with scaled steps their bits with another exponent.
struct PlainKey {
  __device__ int step(int) const { return 0; }
  static __device__ uint32_t of(uint32_t bits, int) { return bits; }
};
template <bool OF_A>
struct ScaledKey {
  const Parts& parts;
  int middle;
  __device__ int step(int p) const {
    int t = step_exponent(parts, p, middle);
    return OF_A ? t : -t;
  }
  static __device__ uint32_t of(uint32_t bits, int step) {
    uint32_t normal = bits >= 1u << 23 ? bits : static_cast<uint32_t>(exponent_of(bits) + KEY_OFFSET) << 23;
    return bits == 0 ? 0 : normal + (static_cast<uint32_t>(bits >= 1u << 23 ? step + KEY_OFFSET : step) << 23);
  }
};

constexpr int SCAN_ROWS = 64, SCAN_COLS = 256, SCAN_THREADS = 256;

inline unsigned scan_tiles(int rows, int cols) {
  return static_cast<unsigned>(ceil_div(rows, SCAN_ROWS)) * static_cast<unsigned>(ceil_div(cols, SCAN_COLS));
}

// Adds what a tile of A or B holds to the ranges of its lines; with FIRST also to those of its steps, and counts the
// numbers that are not zero. A warp takes whole rows; a lane takes vectors of 4 where VECTORS, else every 32nd column.
template <bool OF_A, bool FIRST, bool VECTORS, class Key>
__device__ inline void scan_tile(const Gemm& g, const Parts& parts, uint32_t* largest, uint32_t* smallest,
                                 int first_row, int first_col, const Key& key) {
  constexpr int WARPS = SCAN_THREADS / 32, COLS = SCAN_COLS / 32;
  __shared__ uint32_t col_largest[SCAN_COLS], col_smallest[SCAN_COLS];
  const float* from = OF_A ? g.A : g.B;
  int64_t ld = OF_A ? g.lda : g.ldb;
  int rows = OF_A ? g.m : g.k, cols = OF_A ? g.k : g.n;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto col_of = [&](int c) { return VECTORS ? c / 4 * 128 + 4 * lane + c % 4 : 32 * c + lane; };  // in the tile
  col_largest[threadIdx.x] = 0;
  col_smallest[threadIdx.x] = 0;
  __syncthreads();
  int col_steps[COLS];
  uint32_t col_high[COLS], col_low[COLS];  // the least of keys minus 1, so that a zero is the largest
  unsigned nonzeros[2] = {};
#pragma unroll
  for (int c = 0; c < COLS; ++c) {
    int col = first_col + col_of(c);
    col_steps[c] = OF_A && (VECTORS || col < cols) ? key.step(col) : 0;
    col_high[c] = 0;
    col_low[c] = 0xFFFFFFFFu;
  }
  constexpr int AT_ONCE = VECTORS ? 4 : 2;  // rows, all loaded before the first is used
#pragma unroll 1
  for (int i = 0; i < SCAN_ROWS; i += AT_ONCE * WARPS) {
    alignas(16) float x[AT_ONCE][COLS];
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) {
      int row = first_row + i + r * WARPS + warp;
#pragma unroll
      for (int c = 0; c < COLS; c += VECTORS ? 4 : 1) {
        int col = first_col + col_of(c);
        if constexpr (VECTORS) {
          copy_vector<4>(x[r] + c, from + row * ld + col);
        } else {
          x[r][c] = row < rows && col < cols ? from[row * ld + col] : 0.0f;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < AT_ONCE; ++r) {
      int row = first_row + i + r * WARPS + warp;
      int row_step = !OF_A && row < rows ? key.step(row) : 0;
      uint32_t row_high = 0, row_low = 0xFFFFFFFFu;
#pragma unroll
      for (int c = 0; c < COLS; ++c) {
        uint32_t number = Key::of(__float_as_uint(x[r][c]) & 0x7FFFFFFFu, OF_A ? col_steps[c] : row_step);
        row_high = max(row_high, number);
        col_high[c] = max(col_high[c], number);
        if (OF_A) {
          row_low = min(row_low, number - 1);
        } else {
          col_low[c] = min(col_low[c], number - 1);
        }
        nonzeros[c / (COLS / 2)] += number != 0;
      }
      if (OF_A || FIRST) {
        row_high = __reduce_max_sync(0xFFFFFFFF, row_high);
        row_low = OF_A ? __reduce_min_sync(0xFFFFFFFF, row_low) : row_low;
        if (lane == 0 && row_high != 0) {
          atomicMax((OF_A ? largest : parts.steps_B) + row, row_high);
          if (OF_A) {
            atomicMax(smallest + row, ~(row_low + 1));
          }
        }
      }
    }
  }
  if (!OF_A || FIRST) {
#pragma unroll
    for (int c = 0; c < COLS; ++c) {
      if (col_high[c] != 0) {
        atomicMax(col_largest + col_of(c), col_high[c]);
        if (!OF_A) {
          atomicMax(col_smallest + col_of(c), ~(col_low[c] + 1));
        }
      }
    }
    __syncthreads();
    uint32_t high = col_largest[threadIdx.x];
    if (high != 0) {
      int col = first_col + threadIdx.x;
      atomicMax(OF_A ? parts.steps_A + col : largest + g.m + col, high);
      if (!OF_A) {
        atomicMax(smallest + g.m + col, col_smallest[threadIdx.x]);
      }
    }
  }
  if (FIRST) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned count = __reduce_add_sync(0xFFFFFFFF, nonzeros[half]);
      if (lane == 0 && count != 0) {
        atomicAdd(OF_A ? parts.nonzeros_A + first_row / 256 : parts.nonzeros_B + first_col / 128 + half, count);
      }
    }
  }
  __syncthreads();  // the columns' ranges have been read
}

template <bool OF_A, bool FIRST, class Key>
__device__ inline void scan_tile(const Gemm& g, const Parts& parts, uint32_t* largest, uint32_t* smallest,
                                 unsigned tile, const Key& key) {
  unsigned tiles_n = ceil_div(OF_A ? g.k : g.n, SCAN_COLS);
  int row = static_cast<int>(tile / tiles_n) * SCAN_ROWS, col = static_cast<int>(tile % tiles_n) * SCAN_COLS;
  bool whole = row + SCAN_ROWS <= (OF_A ? g.m : g.k) && col + SCAN_COLS <= (OF_A ? g.k : g.n);
  if (whole && vector_width(OF_A ? g.A : g.B, OF_A ? g.lda : g.ldb) == 4) {
    scan_tile<OF_A, FIRST, true>(g, parts, largest, smallest, row, col, key);
  } else {
    scan_tile<OF_A, FIRST, false>(g, parts, largest, smallest, row, col, key);
  }
}

// How a line is scaled and what it is.
struct LineScale {
  int exponent;  // the largest magnitude becomes 2^14 to 2^15
  bool wide, split;
};
__device__ inline LineScale line_scale(const Parts& parts, int64_t line, int k, bool scaled_steps) {
  uint32_t largest = parts.largest[line], smallest = parts.smallest[line];  // both at once
  if (largest == 0 || !finite(largest)) {
    return {0, false, largest == 0};
  }
  int top, bottom;
  if (scaled_steps) {
    top = static_cast<int>(parts.scaled_largest[line] >> 23) - KEY_OFFSET;
    bottom = static_cast<int>(~parts.scaled_smallest[line] >> 23) - KEY_OFFSET;
  } else {
    top = exponent_of(largest);
    bottom = exponent_of(~smallest);
  }
  int narrow = 28 + 31 - __clz(k / 16);  // binades that FP16 parts can hold (split_lines.cuh)
  return {14 + 127 - top, top - bottom > narrow, true};
}

// The block that scans the last tile of SCAN_ROWS rows of A or of SCAN_COLS columns of B notes whether one of them is wide.
template <bool OF_A>
__device__ inline void look_for_wide_lines(const Gemm& g, const Parts& parts, unsigned tile) {
  __shared__ bool is_last;
  unsigned along_k = ceil_div(g.k, OF_A ? SCAN_COLS : SCAN_ROWS);
  unsigned strips_B = ceil_div(g.n, SCAN_COLS);
  unsigned strip = OF_A ? tile / along_k : tile % strips_B;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(parts.scanned + (OF_A ? 0 : ceil_div(g.m, SCAN_ROWS)) + strip, 1u) == along_k - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) {
    return;
  }
  int line = static_cast<int>(strip * (OF_A ? SCAN_ROWS : SCAN_COLS) + threadIdx.x);
  bool inside = threadIdx.x < (OF_A ? SCAN_ROWS : SCAN_COLS) && line < (OF_A ? g.m : g.n);
  bool wide = inside && line_scale(parts, (OF_A ? 0 : static_cast<int64_t>(g.m)) + line, g.k, false).wide;
  if (__syncthreads_or(wide) && threadIdx.x == 0) {
    atomicOr(parts.wide, 1);
  }
}

static __global__ void __launch_bounds__(SCAN_THREADS, 4) scan_matrices(Gemm g, Parts parts, unsigned tiles_A) {
  let_second_kernel_begin();
  if (blockIdx.x < tiles_A) {
    scan_tile<true, true>(g, parts, parts.largest, parts.smallest, blockIdx.x, PlainKey());
    look_for_wide_lines<true>(g, parts, blockIdx.x);
  } else {
    scan_tile<false, true>(g, parts, parts.largest, parts.smallest, blockIdx.x - tiles_A, PlainKey());
    look_for_wide_lines<false>(g, parts, blockIdx.x - tiles_A);
  }
}

// If there are wide lines: whether steps are scaled, by how much, and the ranges of lines then. All blocks find the same.
static __global__ void __launch_bounds__(SCAN_THREADS)
    rescale_steps(Gemm g, Parts parts, unsigned tiles_A, unsigned tiles) {
  wait_for_first_kernel();
  let_second_kernel_begin();
  if (*parts.wide == 0) {
    return;
  }
  __shared__ int shared_least, shared_most;
  if (threadIdx.x == 0) {
    shared_least = 1 << 20;
    shared_most = -(1 << 20);
  }
  __syncthreads();
  int least = 1 << 20, most = -(1 << 20);
  for (int p = threadIdx.x; p < g.k; p += SCAN_THREADS) {
    int half;
    if (step_difference(parts, p, &half)) {
      least = min(least, half);
      most = max(most, half);
    }
  }
  least = __reduce_min_sync(0xFFFFFFFF, least);
  most = __reduce_max_sync(0xFFFFFFFF, most);
  if (threadIdx.x % 32 == 0) {
    atomicMin(&shared_least, least);
    atomicMax(&shared_most, most);
  }
  __syncthreads();
  if (shared_most - shared_least < UNLIKE_STEPS) {
    return;
  }
  int middle = (shared_most + shared_least) >> 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *parts.scaled_steps = 1;
  }
  for (int p = static_cast<int>(blockIdx.x * SCAN_THREADS + threadIdx.x); p < g.k; p += gridDim.x * SCAN_THREADS) {
    parts.step_exponents[p] = step_exponent(parts, p, middle);
  }
  for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (tile < tiles_A) {
      scan_tile<true, false>(g, parts, parts.scaled_largest, parts.scaled_smallest, tile,
                             ScaledKey<true>{parts, middle});
    } else {
      scan_tile<false, false>(g, parts, parts.scaled_largest, parts.scaled_smallest, tile - tiles_A,
                              ScaledKey<false>{parts, middle});
    }
  }
}

// x * 2^exponent, in two steps because 2^exponent may be no float.
__device__ inline float scaled_by(float x, int exponent) {
  int half = exponent >> 1;
  return x * power_of_two(half) * power_of_two(exponent - half);
}

__device__ inline void split_fp16(float x, __half* high, __half* low) {
  *high = __float2half_rn(x);
  *low = __float2half_rn((x - __half2float(*high)) * LOW_SCALE);
}

// What a scaled number adds to the sums of its line: its magnitude, below 2^15, rounded to an integer, and whether it is
// strong.
constexpr int SUM_BITS = 40;
struct Magnitudes {
  unsigned sum, strong;
  __device__ void add(float x) {
    sum += __float_as_uint(fabsf(x) + 8388608.0f) - 0x4B000000u;
    strong += fabsf(x) >= 0.00048828125f;  // 2^-11
  }
  __device__ void add_to(unsigned long long* sums) const {
    atomicAdd(sums, static_cast<unsigned long long>(strong) << SUM_BITS | sum);
  }
};

// Notes what a line is; one thread does it for each line.
__device__ inline void note_line(const Parts& parts, int64_t line, const LineScale& scale, int* marks) {
  parts.exponents[line] = 2 * scale.exponent + scale.wide;
  if (scale.wide || !scale.split) {
    atomicOr(marks, scale.split ? WIDE : UNSPLIT);
  }
}

constexpr int SPLIT_VECTOR = 8;  // numbers of a row of A that a thread splits, and of a column of B

// Splits 256 vectors of a row of A. PLAIN: there are no wide lines, so that no sums are needed and no steps are scaled.
template <bool PLAIN>
__device__ inline void split_row(const Gemm& g, const Parts& parts, int row, int chunk, Magnitudes* of_row) {
  bool scaled_steps = !PLAIN && *parts.scaled_steps != 0;
  int p = (chunk * 256 + threadIdx.x) * SPLIT_VECTOR;
  LineScale scale = line_scale(parts, row, g.k, scaled_steps);
  if (p == 0) {
    note_line(parts, row, scale, parts.marks_A + row / 256);
  }
  const float* from = g.A + row * g.lda + p;
  alignas(16) float x[SPLIT_VECTOR];
  if (p + SPLIT_VECTOR <= g.k && vector_width(g.A, g.lda) == 4) {
#pragma unroll
    for (int i = 0; i < SPLIT_VECTOR; i += 4) {
      copy_vector<4>(x + i, from + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < SPLIT_VECTOR; ++i) {
      x[i] = p + i < g.k ? from[i] : 0.0f;
    }
  }
  alignas(16) __half high[SPLIT_VECTOR];
  alignas(16) __half low[SPLIT_VECTOR];
  Magnitudes magnitudes = {};
#pragma unroll
  for (int i = 0; i < SPLIT_VECTOR; ++i) {
    int step = scaled_steps && p + i < g.k ? parts.step_exponents[p + i] : 0;
    x[i] = scaled_by(x[i], scale.exponent + step);
    if (!PLAIN) {
      magnitudes.add(x[i]);
    }
    split_fp16(x[i], &high[i], &low[i]);
  }
  if (!PLAIN && scale.split) {
    if (threadIdx.x == 0) {
      *of_row = {};
    }
    __syncthreads();
    magnitudes.sum = __reduce_add_sync(0xFFFFFFFF, magnitudes.sum);
    magnitudes.strong = __reduce_add_sync(0xFFFFFFFF, magnitudes.strong);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&of_row->sum, magnitudes.sum);
      atomicAdd(&of_row->strong, magnitudes.strong);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      of_row->add_to(parts.sums + row);
      atomicAdd(parts.sums_A + row / 256, static_cast<unsigned long long>(of_row->sum));
    }
  }
  if (p < parts.ld) {
    __half* to = parts.high_A + row * parts.ld + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.m * parts.ld) = *reinterpret_cast<uint4*>(low);
  }
}

// Where a block transposes 64 steps of 64 columns of B, and adds up their magnitudes: below 2^32, because an atomic addition
// of 64 bits in shared memory is a loop.
struct ColumnsOfB {
  float tile[64][65];
  Magnitudes of_column[64];
  unsigned all;
};

// Splits 64 columns of B by 64 steps.
template <bool PLAIN>
__device__ inline void split_columns(const Gemm& g, const Parts& parts, int first_col, int first_p,
                                     ColumnsOfB& columns) {
  bool scaled_steps = !PLAIN && *parts.scaled_steps != 0;
  int col = first_col + threadIdx.x % 64;
  LineScale scale = {0, false, false};
  if (!PLAIN && threadIdx.x < 64) {
    columns.of_column[threadIdx.x] = {};
  }
  if (!PLAIN && threadIdx.x == 0) {
    columns.all = 0;
  }
  if (col < g.n) {
    scale = line_scale(parts, static_cast<int64_t>(g.m) + col, g.k, scaled_steps);
    if (first_p == 0 && threadIdx.x < 64) {
      note_line(parts, static_cast<int64_t>(g.m) + col, scale, parts.marks_B + col / 128);
    }
  }
  float x[16];  // all are loaded before the first is used
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    int p = first_p + 4 * i + threadIdx.x / 64;
    x[i] = p < g.k && col < g.n ? g.B[p * g.ldb + col] : 0.0f;
  }
  Magnitudes magnitudes = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    int p = 4 * i + threadIdx.x / 64;
    int step = scaled_steps && first_p + p < g.k ? parts.step_exponents[first_p + p] : 0;
    x[i] = scaled_by(x[i], scale.exponent - step);
    if (!PLAIN) {
      magnitudes.add(x[i]);
    }
    columns.tile[p][threadIdx.x % 64] = x[i];
  }
  __syncthreads();
  if (!PLAIN) {
    if (scale.split) {
      atomicAdd(&columns.of_column[threadIdx.x % 64].sum, magnitudes.sum);
      atomicAdd(&columns.of_column[threadIdx.x % 64].strong, magnitudes.strong);
    }
    unsigned of_warp = __reduce_add_sync(0xFFFFFFFF, scale.split ? magnitudes.sum : 0u);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&columns.all, of_warp);
    }
    __syncthreads();
    if (threadIdx.x < 64 && scale.split) {
      columns.of_column[threadIdx.x].add_to(parts.sums + g.m + col);
    }
    if (threadIdx.x == 0) {
      atomicAdd(parts.sums_B + col / 128, static_cast<unsigned long long>(columns.all));
    }
  }
#pragma unroll
  for (int i = threadIdx.x; i < 64 * 64 / SPLIT_VECTOR; i += 256) {
    int p = i % (64 / SPLIT_VECTOR) * SPLIT_VECTOR;
    int c = i / (64 / SPLIT_VECTOR);
    if (first_col + c >= g.n || first_p + p >= parts.ld) {
      continue;
    }
    alignas(16) __half high[SPLIT_VECTOR];
    alignas(16) __half low[SPLIT_VECTOR];
#pragma unroll
    for (int v = 0; v < SPLIT_VECTOR; ++v) {
      split_fp16(columns.tile[p + v][c], &high[v], &low[v]);
    }
    __half* to = parts.high_B + (first_col + c) * parts.ld + first_p + p;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
    *reinterpret_cast<uint4*>(to + g.n * parts.ld) = *reinterpret_cast<uint4*>(low);
  }
}

// Splits A and B into the workspace. Blocks of 256 threads take a row of A by 256 vectors, or 64 columns of B by 64 steps.
// They go from the end to the beginning, because the L2 cache still has what the scan read last.
static __global__ void __launch_bounds__(256) split_parts(Gemm g, Parts parts) {
  __shared__ ColumnsOfB columns;
  wait_for_first_kernel();
  let_second_kernel_begin();
  bool plain = *parts.wide == 0;
  int chunks_A = static_cast<int>((parts.ld + 256 * SPLIT_VECTOR - 1) / (256 * SPLIT_VECTOR));
  int64_t blocks_A = static_cast<int64_t>(g.m) * chunks_A;
  int64_t block = gridDim.x - 1 - blockIdx.x;
  if (block < blocks_A) {
    int row = static_cast<int>(block / chunks_A), chunk = static_cast<int>(block % chunks_A);
    if (plain) {
      split_row<true>(g, parts, row, chunk, columns.of_column);
    } else {
      split_row<false>(g, parts, row, chunk, columns.of_column);
    }
    return;
  }
  block -= blocks_A;
  int chunks_B = ceil_div(g.k, 64);
  int first_col = static_cast<int>(block / chunks_B) * 64, first_p = static_cast<int>(block % chunks_B) * 64;
  if (plain) {
    split_columns<true>(g, parts, first_col, first_p, columns);
  } else {
    split_columns<false>(g, parts, first_col, first_p, columns);
  }
}

// What takes the scale of a line back, and what a product needs to be kept where the line's partner is wide.
struct LineEnd {
  float unscale[2];  // two factors, because their product may be no float
  float wide;        // 1, or 0
  float least_kept;
};
__device__ inline LineEnd line_end(const Parts& parts, int64_t line, int k, bool wide_data) {
  int noted = parts.exponents[line];
  int exponent = noted >> 1, half = exponent >> 1;
  LineEnd end = {{power_of_two(-half), power_of_two(half - exponent)}, static_cast<float>(noted & 1), 0.0f};
  unsigned long long sums = wide_data ? parts.sums[line] : 0;
  if (sums != 0) {  // not a line of zeros, which keeps 0
    // Each magnitude was rounded by at most a half.
    end.least_kept = sqrtf(static_cast<float>(sums & ((1ull << SUM_BITS) - 1)) + k) / 16;
  }
  return end;
}
// Whether the product of a row and a column, still scaled, proves that what is lost of small numbers does not matter.
__device__ inline bool proves(float product, const LineEnd& row, const LineEnd& col) {
  return fabsf(product) >= row.wide * col.least_kept + col.wide * row.least_kept;
}
// Of a product of 256 rows and 128 columns, all elements together: how many terms are likely to matter. A line has as many
// numbers as its sum holds the largest one, here 2^14.5; where two such numbers meet, they do so by chance.
__device__ inline float effective_terms(const Parts& parts, int i, int j, int k) {
  return static_cast<float>(parts.sums_A[i]) * static_cast<float>(parts.sums_B[j]) / (536870912.0f * k);
}
// Whether `count` lines, at most 128, have fewer than LEAST_STRONG strong numbers on average. Lines weigh by the squares of
// their largest numbers, as they do in the norm of a tile. All lanes of a warp ask.
constexpr unsigned LEAST_STRONG = 48;
__device__ inline bool weak_lines(const Parts& parts, int64_t first, int count) {
  unsigned long long sums[4];
  int exponents[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int line = static_cast<int>(threadIdx.x % 32) + 32 * i;
    sums[i] = line < count ? parts.sums[first + line] : 0;
    exponents[i] = line < count ? -(parts.exponents[first + line] >> 1) : 0;
  }
  int top = -(1 << 20);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    top = sums[i] != 0 ? max(top, exponents[i]) : top;
  }
  top = __reduce_max_sync(0xFFFFFFFF, top);
  unsigned weight = 0, strong = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int below = top - exponents[i];
    unsigned of_line = sums[i] != 0 && below <= 8 ? 1u << (16 - 2 * below) : 0;
    weight += of_line;
    strong += of_line * static_cast<unsigned>(min(sums[i] >> SUM_BITS, 255ull));
  }
  return __reduce_add_sync(0xFFFFFFFF, strong) < LEAST_STRONG * __reduce_add_sync(0xFFFFFFFF, weight);
}
// A product without the scales of its row and its column. Factors are halved by halves: no step goes beyond the result.
__device__ inline float unscaled(float product, const LineEnd& row, const LineEnd& col) {
  constexpr float MOST = 1.7014118e38f;  // 2^127
  return product * fminf(row.unscale[0] * col.unscale[0], MOST) * fminf(row.unscale[1] * col.unscale[1], MOST);
}

// Places the parts at the beginning of a workspace; `clear` places first what has to be zeros, `take` the others. Both
// take a number of bytes and return an address.
template <class Clear, class Take>
Parts parts_in(const Gemm& g, Clear clear, Take take) {
  Parts parts;
  size_t lines = static_cast<size_t>(g.m) + g.n, k = g.k;
  auto words = [&](size_t count) { return reinterpret_cast<uint32_t*>(clear(4 * count)); };
  auto longs = [&](size_t count) { return reinterpret_cast<unsigned long long*>(clear(8 * count)); };
  parts.largest = words(lines);
  parts.smallest = words(lines);
  parts.scaled_largest = words(lines);
  parts.scaled_smallest = words(lines);
  parts.steps_A = words(k);
  parts.steps_B = words(k);
  parts.marks_A = reinterpret_cast<int*>(words(ceil_div(g.m, 256)));
  parts.marks_B = reinterpret_cast<int*>(words(ceil_div(g.n, 128)));
  parts.wide = reinterpret_cast<int*>(words(1));
  parts.scaled_steps = reinterpret_cast<int*>(words(1));
  parts.scanned = words(static_cast<size_t>(ceil_div(g.m, SCAN_ROWS)) + ceil_div(g.n, SCAN_COLS));
  parts.sums = longs(lines);
  parts.sums_A = longs(ceil_div(g.m, 256));
  parts.sums_B = longs(ceil_div(g.n, 128));
  parts.nonzeros_A = longs(ceil_div(g.m, 256));
  parts.nonzeros_B = longs(ceil_div(g.n, 128));
  parts.ld = static_cast<int64_t>(ceil_div(g.k, 64)) * 64;
  parts.exponents = reinterpret_cast<int*>(take(4 * lines));
  parts.step_exponents = reinterpret_cast<int*>(take(4 * k));
  parts.high_A = reinterpret_cast<__half*>(take(4 * parts.ld * g.m));
  parts.high_B = reinterpret_cast<__half*>(take(4 * parts.ld * g.n));
  return parts;
}

// Queues the scans and the split. What has to be zeros is zero already. Each kernel is launched while the one before ends.
inline cudaError_t launch_split_parts(const Gemm& g, const Parts& parts, int sms, cudaStream_t stream) {
  unsigned tiles_A = scan_tiles(g.m, g.k), tiles = tiles_A + scan_tiles(g.k, g.n);
  cudaError_t error = launch(scan_matrices, dim3(tiles), dim3(SCAN_THREADS), 0, stream, g, parts, tiles_A);
  if (error == cudaSuccess) {
    unsigned blocks = std::min(tiles, 4 * static_cast<unsigned>(std::max(1, sms)));
    error = launch_second(rescale_steps, dim3(blocks), dim3(SCAN_THREADS), stream, g, parts, tiles_A, tiles);
  }
  if (error == cudaSuccess) {
    auto chunks_A = static_cast<unsigned>((parts.ld + 256 * 8 - 1) / (256 * 8));
    unsigned blocks = g.m * chunks_A + static_cast<unsigned>(ceil_div(g.n, 64)) * ceil_div(g.k, 64);
    error = launch_second(split_parts, dim3(blocks), dim3(256), stream, g, parts);
  }
  return error;
}
