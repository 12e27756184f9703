// A copy of a matrix whose rows begin at multiples of 128 bytes, for loops that need vectors or the bulk copy engine.
#pragma once

#include "gemm.cuh"
#include "second_kernel.cuh"

inline int64_t aligned_ld(int cols) { return (static_cast<int64_t>(cols) + 31) / 32 * 32; }

// What the copy takes of a workspace: whole 256 bytes, so that the next thing there is aligned too.
inline size_t aligned_copy_bytes(int rows, int cols) {
  return (sizeof(float) * rows * aligned_ld(cols) + 255) / 256 * 256;
}

// A block copies 8 rows of 512 columns. All of a thread's loads are on their way before the first is stored.
constexpr int COPY_THREADS = 256, COPY_ROWS = 8, COPY_STRIPS = 2;
static __global__ void __launch_bounds__(COPY_THREADS)
    copy_aligned_kernel(const float* from, int64_t ld, int rows, int cols, float* to, int64_t ld_to,
                        unsigned blocks_n) {
  let_second_kernel_begin();
  int64_t row = static_cast<int64_t>(blockIdx.x / blocks_n) * COPY_ROWS;
  int64_t col = static_cast<int64_t>(blockIdx.x % blocks_n) * (COPY_STRIPS * COPY_THREADS) + threadIdx.x;
  float share[COPY_ROWS][COPY_STRIPS];
#pragma unroll
  for (int i = 0; i < COPY_ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COPY_STRIPS; ++j) {
      if (row + i < rows && col + j * COPY_THREADS < cols) {
        share[i][j] = from[(row + i) * ld + col + j * COPY_THREADS];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < COPY_ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COPY_STRIPS; ++j) {
      if (row + i < rows && col + j * COPY_THREADS < cols) {
        to[(row + i) * ld_to + col + j * COPY_THREADS] = share[i][j];
      }
    }
  }
}

// Queues the copy of a rows x cols matrix with leading dimension ld to `to`, with leading dimension aligned_ld(cols).
inline cudaError_t copy_aligned(const float* from, int64_t ld, int rows, int cols, float* to, cudaStream_t stream) {
  unsigned blocks_n = ceil_div(cols, COPY_STRIPS * COPY_THREADS);
  dim3 grid(blocks_n * ceil_div(rows, COPY_ROWS));
  return launch(copy_aligned_kernel, grid, dim3(COPY_THREADS), 0, stream, from, ld, rows, cols, to, aligned_ld(cols),
                blocks_n);
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
