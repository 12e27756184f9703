// Copies of tiles of A and B to shared memory, rounded to TF32, by warps instead of the copy engine: for matrices whose
// rows do not begin at multiples of 16 bytes.
#pragma once

#include "gemm.cuh"

// Rounds to nearest, as the copy engine does.
__device__ inline float rounded_to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// What one thread of WARPS warps copies of a stage: T::ROWS rows of A, 32 steps of k of each, and as many steps of B,
// T::COLS columns of each. The lanes of a warp take neighbours. The floats wait in registers until the stage is free.
// It has the layout of the engine's 128-byte swizzle: lines of 128 bytes, in which the number of the line permutes
// chunks of 16 bytes. B stands behind A, in slabs of 32 columns.
template <class T, int WARPS>
struct FloatCopies {
  static constexpr int STEPS = 32, SLABS = T::COLS / 32, SLAB_BYTES = STEPS * 128;
  static constexpr int COUNT_A = T::ROWS / WARPS, COUNT_B = STEPS / WARPS;
  static_assert(WARPS == 4 || WARPS == 8, "the lines of a thread have two places at most");

  float a[COUNT_A], b[COUNT_B][SLABS];
  const float *A, *B;  // the next elements of the thread's first row of A and first step of B
  int64_t lda, ldb;
  int rows, cols, steps_A, steps_B;  // from there to the ends of the matrices
  bool whole_A, whole_B;             // all rows, or columns, are inside
  int even, odd;                     // places in a stage

  // For the steps of k from `first` on.
  __device__ FloatCopies(const Gemm& g, Tile tile, int first, int warp) : lda(g.lda), ldb(g.ldb) {
    int lane = threadIdx.x % 32;
    A = g.A + (tile.row + warp) * lda + first + lane;
    B = g.B + (first + warp) * ldb + tile.col + lane;
    rows = g.m - tile.row - warp;
    cols = g.n - tile.col - lane;
    steps_A = g.k - first - lane;
    steps_B = g.k - first - warp;
    whole_A = tile.row + T::ROWS <= g.m;
    whole_B = tile.col + T::COLS <= g.n;
    auto place = [&](int line) { return line * 128 + (lane / 4 ^ line % 8) * 16 + lane % 4 * 4; };
    even = place(warp);
    odd = place(warp + 4);
  }

  // Reads the next steps of A. Zeros stand for what lies outside.
  __device__ void load_A() {
    const float* from = A;
    if (whole_A && __all_sync(0xFFFFFFFF, steps_A > 0)) {
#pragma unroll
      for (int i = 0; i < COUNT_A; ++i) {
        a[i] = *from;
        from += WARPS * lda;
      }
    } else {
#pragma unroll
      for (int i = 0; i < COUNT_A; ++i) {
        a[i] = steps_A > 0 && i * WARPS < rows ? *from : 0.0f;
        from += WARPS * lda;
      }
    }
    A += STEPS;
    steps_A -= STEPS;
  }

  __device__ void load_B() {
    const float* from = B;
    if (whole_B && steps_B > STEPS - WARPS) {
#pragma unroll
      for (int i = 0; i < COUNT_B; ++i) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
          b[i][slab] = from[slab * 32];
        }
        from += WARPS * ldb;
      }
    } else {
#pragma unroll
      for (int i = 0; i < COUNT_B; ++i) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
          b[i][slab] = i * WARPS < steps_B && slab * 32 < cols ? from[slab * 32] : 0.0f;
        }
        from += WARPS * ldb;
      }
    }
    B += STEPS * ldb;
    steps_B -= STEPS;
  }

  // The place of the thread's i-th line, counted from the first one of a stage or slab.
  __device__ char* line(char* first, int i) const {
    return first + (i * WARPS % 8 == 0 ? even : odd) + i * WARPS / 8 * 1024;
  }

  __device__ void store_A(char* stage) const {
#pragma unroll
    for (int i = 0; i < COUNT_A; ++i) {
      *reinterpret_cast<float*>(line(stage, i)) = rounded_to_tf32(a[i]);
    }
  }

  __device__ void store_B(char* stage) const {
#pragma unroll
    for (int i = 0; i < COUNT_B; ++i) {
#pragma unroll
      for (int slab = 0; slab < SLABS; ++slab) {
        *reinterpret_cast<float*>(line(stage + T::BYTES_A + slab * SLAB_BYTES, i)) = rounded_to_tf32(b[i][slab]);
      }
    }
  }
};
