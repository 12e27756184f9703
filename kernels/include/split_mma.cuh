// mma_3xtf32's product: split_tf32.cuh's, with all that stands beside the tensor core's instructions put between them.
//
// Against `sgemm_mma` there, which the rungs of wgmma take where their own way does not apply:
// - The loop over tiles is one basic block. Of 32 columns a lane has four for four groups of instructions, and two groups
//   are under way: while one is multiplied, B's numbers of the next are split, and what came out of the last is added to
//   the sums.
// - The totals of sections of k lie in memory, which leaves the registers to that.
// - Copies outside the matrices are not asked for row by row: results there are not stored, whatever they are made of.
#pragma once

#include "copy_or_zeros.cuh"
#include "split_tf32.cuh"

// As T::place_A, with fewer instructions. The next eight rows lie in the same order.
template <class T>
__device__ inline int place_A(unsigned row, unsigned col) {
  constexpr unsigned VECTORS = T::STEPS / 4;
  return row * T::STEPS + ((col / 4) ^ (VECTORS == 8 ? row : row / 2) % VECTORS) * 4;
}

// The copies of one thread from global to shared memory in the background, WIDTH floats each: tiles of A and of B.
template <class T, int WIDTH>
struct MmaCopies {
  static constexpr int VECTORS_A = T::STEPS / WIDTH, VECTORS_B = T::COLS / WIDTH;  // of a row
  static constexpr int ROWS_A = T::THREADS / VECTORS_A;                            // that are copied at a time
  static constexpr int ROWS_B = T::THREADS < VECTORS_B ? 1 : T::THREADS / VECTORS_B;
  static constexpr int COLS_B = T::THREADS < VECTORS_B ? T::THREADS * WIDTH : T::COLS;
  static constexpr bool WHOLE_ROWS = COLS_B == T::COLS;  // of B are copied at a time

  const float* A[T::ROWS / ROWS_A];  // what the thread copies next of each of its rows of A
  const float* B;                    // the first elements that it copies next of B
  int64_t ldb;
  int cols_left, steps_left_A, steps_left_B;  // from there to the ends of the matrices
  int row_A, col_A, to_B;

  // Results outside C are not stored, so what they are made of may be anything: the last row or columns inside.
  __device__ MmaCopies(const Gemm& g, Tile tile) : ldb(g.ldb) {
    row_A = threadIdx.x / VECTORS_A;
    col_A = threadIdx.x % VECTORS_A * WIDTH;
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
    to_B = T::TILE_A + row_B * T::PITCH_B + col_B;
  }

  // Both tiles into a stage. Zeros stand for the steps beyond the last.
  __device__ void next(float* stage) {
#pragma unroll
    for (int i = 0; i < T::ROWS / ROWS_A; ++i) {
      float* to = stage + place_A<T>(row_A + i * ROWS_A, col_A) + col_A % 4;
      copy_or_zeros(to, A[i], WIDTH, steps_left_A > 0);
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

// x, scaled, as two TF32 numbers: the first rounded to nearest, of the second the tensor core reads no more bits than these.
// The split is Veltkamp's (T. J. Dekker, A floating-point technique for extending the available precision, Numer. Math. 18,
// 1971): beside the tensor core's instructions one of the FMA pipe costs less than an integer one. Its product and its sum
// must not become one multiply-add. From 2^91 on it overflows, and then the sum is not finite.
__device__ inline void split_by_fma(float x, uint32_t* big, uint32_t* small) {
  constexpr float BITS_OFF = 8193.0f;  // 2^13 + 1: the last 13 of 24 significant bits
  float wide = __fmul_rn(x, SPLIT_SCALE * BITS_OFF);
  float rounded = __fadd_rn(wide, fmaf(x, SPLIT_SCALE, -wide));
  *big = __float_as_uint(rounded);
  *small = __float_as_uint(fmaf(x, SPLIT_SCALE, -rounded));
}

// SECTIONS: whether k is summed in sections.
template <class T, int WIDTH, bool SECTIONS>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS) sgemm_3xtf32(Gemm g) {
  constexpr int MS = T::WARP_ROWS / 16, NS = T::WARP_COLS / 32, KS = T::SUM_STEPS / 8;
  float* shared = dynamic_shared<float>();
  Tile tile = tile_of_block(g, T::ROWS, T::COLS);
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int warp_row = warp / (T::COLS / T::WARP_COLS) * T::WARP_ROWS;
  int warp_col = warp % (T::COLS / T::WARP_COLS) * T::WARP_COLS;
  int tiles = ceil_div(g.k, T::STEPS);
  MmaCopies<T, WIDTH> copies(g, tile);
#pragma unroll
  for (int stage = 0; stage < T::DEPTH - 1; ++stage) {
    copies.next(shared + stage * T::STAGE);
    __pipeline_commit();
  }

  // Of 32 neighbouring columns a lane has 4 (lane / 4) .. 4 (lane / 4) + 3 as B, one for each of four mma_tf32, and of
  // their results 8 (lane % 4) .. 8 (lane % 4) + 7: two whole vectors in a row of C.
  float sum[MS][NS][2][8] = {};
  constexpr int SUMS = MS * NS * 16;
  float* sums = &sum[0][0][0][0];
  volatile float totals[SUMS];  // in memory, not in registers: they are touched at the end of a section alone
  if (SECTIONS) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      totals[i] = 0.0f;
    }
  }

  // A group is what one of those four columns takes of mma_tf32: MS x KS of each product. Two are under way: while one is
  // multiplied, B's numbers of the next are split, and the partial sums of the last one are added to the sums.
  int row_A = warp_row + lane % 16;
  int col_A = lane / 16 * 4;
  int at_B = T::TILE_A + lane % 4 * T::PITCH_B + warp_col + lane / 4 * 4;
  float next_A[KS][MS][4], next_B[KS][2][4];
  uint32_t big_A[KS][MS][4], small_A[KS][MS][4], big_B[2][KS][2], small_B[2][KS][2];
  float part[2][MS][4] = {};
  auto load_A = [&](const float* stage, int first) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
      const float* from = stage + place_A<T>(row_A, first + 8 * p + col_A);
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
          split_by_fma(next_A[p][i][r], &big_A[p][i][r], &small_A[p][i][r]);
        }
      }
    }
  };
  auto split_B = [&](int v) {
#pragma unroll
    for (int p = 0; p < KS; ++p) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        split_by_fma(next_B[p][r][v], &big_B[v % 2][p][r], &small_B[v % 2][p][r]);
      }
    }
  };
  auto multiply = [&](int v) {
#pragma unroll
    for (int product = 0; product < 3; ++product) {
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
  __pipeline_wait_prior(T::DEPTH - 2);
  __syncthreads();
  load_A(shared, 0);
  load_B(shared, 0, 0);
  split_A();
  split_B(0);
  float *stage = shared, *before = shared + (T::DEPTH - 1) * T::STAGE;
  for (int t = 0; t < tiles; ++t) {
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
    if (SECTIONS && (t + 1) % (SECTION / T::STEPS) == 0) {
#pragma unroll
      for (int i = 0; i < SUMS; ++i) {
        totals[i] = totals[i] + sums[i];
        sums[i] = 0.0f;
      }
    }
  }
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

template <class T>
cudaError_t run_3xtf32(const Gemm& g, cudaStream_t stream) {
  if (g.k < SPLIT_MIN_K) {
    return launch(sgemm_short, tile_grid(g, 8, 32), dim3(256), 0, stream, g);
  }
  bool vectors = vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4 && g.k % 4 == 0 && g.n % 4 == 0;
  auto kernel = !vectors      ? sgemm_3xtf32<T, 1, true>
                : g.k > WHOLE ? sgemm_3xtf32<T, 4, true>
                              : sgemm_3xtf32<T, 4, false>;
  return launch(kernel, tile_grid(g, T::ROWS, T::COLS), dim3(T::THREADS), T::SHARED_BYTES, stream, g);
}
