// What libgemm_ladder.so offers of its rung, whose own function (kernels/include/gemm.cuh) it does not export.
//
// A rung takes row-major operands. An operand that is given as its transpose is copied into the workspace first, so the
// product reads it once more and writes it once: 8 bytes of traffic for each of its elements.
#include "gemm_ladder.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>

extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                     float beta, float* C, int64_t ldc, void* workspace, size_t* workspace_bytes, cudaStream_t stream);

// A block moves one tile through shared memory, so that both its reads and its writes are of whole lines. The column
// more keeps the threads of a warp, which read a column of the tile, in banks of their own.
constexpr int TILE = 32, BLOCK_ROWS = 8;

// `to`, columns x rows, becomes the transpose of `from`, rows x columns.
static __global__ void __launch_bounds__(TILE* BLOCK_ROWS)
    transpose(int rows, int columns, const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  __shared__ float tile[TILE][TILE + 1];
  int64_t tiles_across = (columns + int64_t{TILE - 1}) / TILE;
  int64_t first_row = blockIdx.x / tiles_across * TILE, first_column = blockIdx.x % tiles_across * TILE;
  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    int64_t row = first_row + i, column = first_column + threadIdx.x;
    if (row < rows && column < columns) {
      tile[i][threadIdx.x] = from[row * ld_from + column];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += BLOCK_ROWS) {
    int64_t row = first_column + i, column = first_row + threadIdx.x;
    if (row < columns && column < rows) {
      to[row * ld_to + column] = tile[threadIdx.x][i];
    }
  }
}

// An operand, rows x columns, as a rung takes it: as it is given, or the copy of a transpose.
struct Operand {
  const float* elements;
  int64_t ld;
  size_t bytes;  // of the copy, a multiple of 256; 0 where there is none
};

// `given` is the operand or, with `transposed`, its transpose; the copy begins at `place`. Its rows begin on 16 bytes, as
// vector loads and bulk copies ask for. Of a product that never reads the operand there is no copy.
static Operand as_taken(bool transposed, bool is_read, int rows, int columns, const float* given, int64_t ld,
                        uintptr_t place) {
  if (!transposed) {
    return {given, ld, 0};
  }
  int64_t ld_of_copy = (std::max<int64_t>(1, columns) + 3) / 4 * 4;
  if (!is_read) {
    return {given, ld_of_copy, 0};
  }
  size_t bytes = (sizeof(float) * rows * ld_of_copy + 255) / 256 * 256;
  return {reinterpret_cast<const float*>(place), ld_of_copy, bytes};
}

// Queues the copy of an operand, if it is one.
static cudaError_t copy(const Operand& made, int rows, int columns, const float* given, int64_t ld,
                        cudaStream_t stream) {
  if (made.bytes == 0) {
    return cudaSuccess;
  }
  int64_t tiles = ((rows + int64_t{TILE - 1}) / TILE) * ((columns + int64_t{TILE - 1}) / TILE);
  if (tiles > INT_MAX) {
    return cudaErrorInvalidValue;
  }
  // of its transpose, columns x rows, which is what is given
  transpose<<<dim3(static_cast<unsigned>(tiles)), dim3(TILE, BLOCK_ROWS), 0, stream>>>(
      columns, rows, given, ld, const_cast<float*>(made.elements), made.ld);
  return cudaGetLastError();
}

extern "C" int gemm_ladder_sgemm_transposed_with_workspace(int transpose_a, int transpose_b, int m, int n, int k,
                                                           float alpha, const float* A, int64_t lda, const float* B,
                                                           int64_t ldb, float beta, float* C, int64_t ldc,
                                                           void* workspace, size_t* workspace_bytes,
                                                           gemm_ladder_stream stream) {
  if ((transpose_a != 0 && lda < std::max(1, m)) || (transpose_b != 0 && ldb < std::max(1, k))) {
    return cudaErrorInvalidValue;
  }
  bool is_read = m > 0 && n > 0 && k > 0 && alpha != 0;
  uintptr_t place = reinterpret_cast<uintptr_t>(workspace);
  Operand a = as_taken(transpose_a != 0, is_read, m, k, A, lda, place);
  Operand b = as_taken(transpose_b != 0, is_read, k, n, B, ldb, place + a.bytes);
  void* rest = reinterpret_cast<void*>(place + a.bytes + b.bytes);
  if (workspace_bytes == nullptr) {
    cudaError_t error = copy(a, m, k, A, lda, stream);
    error = error != cudaSuccess ? error : copy(b, k, n, B, ldb, stream);
    if (error != cudaSuccess) {
      return error;
    }
  }
  int error = sgemm(m, n, k, alpha, a.elements, a.ld, b.elements, b.ld, beta, C, ldc, rest, workspace_bytes, stream);
  if (workspace_bytes != nullptr && error == cudaSuccess) {
    *workspace_bytes += a.bytes + b.bytes;
  }
  return error;
}

extern "C" int gemm_ladder_sgemm_transposed(int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                                            const float* A, int64_t lda, const float* B, int64_t ldb, float beta,
                                            float* C, int64_t ldc, gemm_ladder_stream stream) {
  auto product = [&](void* workspace, size_t* bytes) {
    return gemm_ladder_sgemm_transposed_with_workspace(transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta,
                                                       C, ldc, workspace, bytes, stream);
  };
  size_t bytes = 0;
  int error = product(nullptr, &bytes);
  void* workspace = nullptr;
  if (error == cudaSuccess && bytes > 0) {
    error = cudaMallocAsync(&workspace, bytes, stream);
  }
  if (error == cudaSuccess) {
    error = product(workspace, nullptr);
  }
  if (workspace != nullptr) {
    cudaError_t freed = cudaFreeAsync(workspace, stream);
    error = error != cudaSuccess ? error : freed;
  }
  return error;
}

extern "C" int gemm_ladder_sgemm_with_workspace(int m, int n, int k, float alpha, const float* A, int64_t lda,
                                                const float* B, int64_t ldb, float beta, float* C, int64_t ldc,
                                                void* workspace, size_t* workspace_bytes, gemm_ladder_stream stream) {
  return sgemm(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, workspace, workspace_bytes, stream);
}

extern "C" int gemm_ladder_sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B,
                                 int64_t ldb, float beta, float* C, int64_t ldc, gemm_ladder_stream stream) {
  return gemm_ladder_sgemm_transposed(0, 0, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, stream);
}

extern "C" int gemm_ladder_runs_here(void) {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
         10 * major + minor == GEMM_LADDER_CAPABILITY;
}

extern "C" const char* gemm_ladder_describe(void) { return GEMM_LADDER_DESCRIPTION; }
