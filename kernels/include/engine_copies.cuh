// Copies of what the copy engine cannot read, both matrices in one launch, and what they cost.
#pragma once

#include "divisor.cuh"
#include "gemm.cuh"
#include "second_kernel.cuh"

inline int64_t aligned_ld(int cols) { return (static_cast<int64_t>(cols) + 31) / 32 * 32; }

// What the copy takes of a workspace: whole 256 bytes, so that the next thing there is aligned too.
inline size_t aligned_copy_bytes(int rows, int cols) {
  return (sizeof(float) * rows * aligned_ld(cols) + 255) / 256 * 256;
}

constexpr int COPY_THREADS = 256, COPY_ROWS = 8, COPY_STRIPS = 2;

// One matrix to copy: rows x cols, to rows that begin at multiples of 128 bytes. A block copies 8 rows of 512 columns.
struct Copied {
  const float* from;
  float* to;
  int64_t ld, ld_to;
  int rows, cols;
  int blocks_n, blocks;  // side by side, and all: none if the engine can read the matrix
  Divisor by_blocks_n;
};

inline Copied copied(bool wanted, const float* from, int64_t ld, int rows, int cols, const float* to) {
  int blocks_n = ceil_div(cols, COPY_STRIPS * COPY_THREADS);
  int blocks = wanted ? blocks_n * ceil_div(rows, COPY_ROWS) : 0;
  return {from, const_cast<float*>(to), ld, aligned_ld(cols), rows, cols, blocks_n, blocks, divisor(blocks_n)};
}

// The first blocks copy A, the others B. All of a thread's loads are on their way before the first is stored.
static __global__ void __launch_bounds__(COPY_THREADS) copy_for_engine(Copied A, Copied B) {
  let_second_kernel_begin();
  int block = static_cast<int>(blockIdx.x);
  bool of_A = block < A.blocks;
  Copied c = of_A ? A : B;
  block -= of_A ? 0 : A.blocks;
  int row_of_blocks = c.by_blocks_n.quotient(block);
  int64_t row = static_cast<int64_t>(row_of_blocks) * COPY_ROWS;
  int64_t col = static_cast<int64_t>(block - row_of_blocks * c.blocks_n) * (COPY_STRIPS * COPY_THREADS) + threadIdx.x;
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
  int blocks = A.blocks + B.blocks;
  return blocks > 0 ? launch(copy_for_engine, dim3(static_cast<unsigned>(blocks)), dim3(COPY_THREADS), 0, stream, A, B)
                    : cudaSuccess;
}

// Cycles: a launch, and each element that is copied is read and written at BYTES a cycle and SM.
inline double copy_cycles(const Gemm& g, bool copied_A, bool copied_B, int sms) {
  constexpr double LAUNCH = 3400, BYTES = 17;
  double elements = (copied_A ? 1.0 * g.m * g.k : 0.0) + (copied_B ? 1.0 * g.k * g.n : 0.0);
  return elements > 0.0 ? LAUNCH + 8.0 * elements / (BYTES * sms) : 0.0;
}

// Starts the kernel that reads the copies, which must call wait_for_first_kernel before that: its launch and the copies' end
// fall together.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_after_copies(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                cudaStream_t stream, Arguments... arguments) {
#if DEPENDENT_LAUNCH
  if (launch_observer == nullptr) {
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(dynamic_shared_bytes));
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {grid, block, dynamic_shared_bytes, stream, &early, 1};
    return error == cudaSuccess ? cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...) : error;
  }
#endif
  return launch(kernel, grid, block, dynamic_shared_bytes, stream, arguments...);
}
