// Copies of what the copy engine cannot read, both matrices in one launch, and what they cost.
#pragma once

#include "aligned_copy.cuh"

// One matrix to copy: rows x cols, to rows that begin at multiples of 128 bytes. A block copies 8 rows of 512 columns.
struct Copied {
  const float* from;
  float* to;
  int64_t ld, ld_to;
  int rows, cols;
  unsigned blocks_n, blocks;  // side by side, and all: none if the engine can read the matrix
};

inline Copied copied(bool wanted, const float* from, int64_t ld, int rows, int cols, const float* to) {
  unsigned blocks_n = ceil_div(cols, COPY_STRIPS * COPY_THREADS);
  unsigned blocks = wanted ? blocks_n * ceil_div(rows, COPY_ROWS) : 0;
  return {from, const_cast<float*>(to), ld, aligned_ld(cols), rows, cols, blocks_n, blocks};
}

// The first blocks copy A, the others B. All of a thread's loads are on their way before the first is stored.
static __global__ void __launch_bounds__(COPY_THREADS) copy_for_engine(Copied A, Copied B) {
  let_second_kernel_begin();
  bool of_A = blockIdx.x < A.blocks;
  Copied c = of_A ? A : B;
  unsigned block = of_A ? blockIdx.x : blockIdx.x - A.blocks;
  int64_t row = static_cast<int64_t>(block / c.blocks_n) * COPY_ROWS;
  int64_t col = static_cast<int64_t>(block % c.blocks_n) * (COPY_STRIPS * COPY_THREADS) + threadIdx.x;
  float share[COPY_ROWS * COPY_STRIPS];
#pragma unroll
  for (int i = 0; i < COPY_ROWS * COPY_STRIPS; ++i) {
    int64_t r = row + i / COPY_STRIPS, at = col + i % COPY_STRIPS * COPY_THREADS;
    share[i] = r < c.rows && at < c.cols ? c.from[r * c.ld + at] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < COPY_ROWS * COPY_STRIPS; ++i) {
    int64_t r = row + i / COPY_STRIPS, at = col + i % COPY_STRIPS * COPY_THREADS;
    if (r < c.rows && at < c.cols) {
      c.to[r * c.ld_to + at] = share[i];
    }
  }
}

// Queues the copies that `g` reads in place of the matrices of `given`.
inline cudaError_t copy_for(const Gemm& given, const Gemm& g, bool copied_A, bool copied_B, cudaStream_t stream) {
  Copied A = copied(copied_A, given.A, given.lda, g.m, g.k, g.A);
  Copied B = copied(copied_B, given.B, given.ldb, g.k, g.n, g.B);
  unsigned blocks = A.blocks + B.blocks;
  return blocks > 0 ? launch(copy_for_engine, dim3(blocks), dim3(COPY_THREADS), 0, stream, A, B) : cudaSuccess;
}

// Cycles: a launch, and each element that is copied is read and written at BYTES a cycle and SM.
inline double copy_cycles(const Gemm& g, bool copied_A, bool copied_B, int sms) {
  constexpr double LAUNCH = 3400, BYTES = 17;
  double elements = (copied_A ? 1.0 * g.m * g.k : 0.0) + (copied_B ? 1.0 * g.k * g.n : 0.0);
  return elements > 0.0 ? LAUNCH + 8.0 * elements / (BYTES * sms) : 0.0;
}
