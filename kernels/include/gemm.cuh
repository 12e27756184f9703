// The contract that every rung of the ladder keeps.
//
// A rung is one .cu file that is compiled into one shared library with one C function:
//
//   int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb, float beta,
//             float* C, int64_t ldc, void* workspace, size_t* workspace_bytes, cudaStream_t stream);
//
// It computes C = alpha * A . B + beta * C with the meaning of BLAS SGEMM, in row-major order:
//   A is m x k, lda >= max(1, k);  B is k x n, ldb >= max(1, n);  C is m x n, ldc >= max(1, n).
// - m, n, k may be anything from 0 up; pointers are aligned to a float and to nothing more.
// - beta = 0 never reads C: what stood there, NaN included, does not survive.
// - alpha = 0 or k = 0 never reads A or B.
// - Nothing outside the m x n elements of C is written, the columns between n and ldc included.
// - The work is queued on the stream; nothing is allocated, nothing waits.
// - workspace_bytes given: the size of the workspace that this call needs is stored there, and nothing else happens.
//   workspace_bytes null: the product is queued; workspace points to so many bytes, aligned to 256, or is null for 0.
// - Products on different streams may run at the same time, each with a C and a workspace of its own: what kernels keep
//   for each other stands in the workspace. A rung whose kernels write __device__ variables computes one product at a
//   time; the check then says that it is not for two streams at once, and its caller orders the products.
// It returns a cudaError_t: cudaErrorInvalidValue for arguments outside the above, else the launch's own.
//
// A rung writes a kernel and a host function `cudaError_t run(const Gemm&, void* workspace, cudaStream_t)`, and ends
// with EXPORT_SGEMM(run). The cases that need no product (m, n or k of 0, alpha = 0) never reach `run`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "launch.cuh"

// One product, as a rung's kernels take it. The leading dimensions are 64 bits wide so that row * ld cannot overflow.
struct Gemm {
  int m, n, k;
  float alpha;
  const float* A;
  int64_t lda;
  const float* B;
  int64_t ldb;
  float beta;
  float* C;
  int64_t ldc;
};

__host__ __device__ constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }

// The blocks that cover an m x n result with tile_m x tile_n tiles. The grid has one dimension, because the others end at
// 65535 blocks; tile_of_block tells a block where it stands.
inline dim3 tile_grid(const Gemm& g, int tile_m, int tile_n) {
  return dim3(static_cast<unsigned>(ceil_div(g.m, tile_m)) * static_cast<unsigned>(ceil_div(g.n, tile_n)));
}

// The first row and the first column of a tile. Tiles are numbered down the columns of a group of `group` rows of tiles,
// so that blocks that run at the same time share rows of A and columns of B in the L2 cache.
struct Tile {
  int row, col;
};
__device__ inline Tile tile_number(const Gemm& g, unsigned number, int tile_m, int tile_n, unsigned group) {
  unsigned tiles_m = ceil_div(g.m, tile_m);
  unsigned tiles_n = ceil_div(g.n, tile_n);
  unsigned first = number / (group * tiles_n) * group;
  unsigned rows = tiles_m - first < group ? tiles_m - first : group;
  unsigned index = number % (group * tiles_n);
  return {static_cast<int>(first + index % rows) * tile_m, static_cast<int>(index / rows) * tile_n};
}
__device__ inline Tile tile_of_block(const Gemm& g, int tile_m, int tile_n, unsigned group = 8) {
  return tile_number(g, blockIdx.x, tile_m, tile_n, group);
}

// C[row][col] = alpha * sum + beta * C[row][col], without reading C at beta = 0.
__device__ inline void store_result(const Gemm& g, int row, int col, float sum) {
  float* c = g.C + row * g.ldc + col;
  *c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * *c;
}

// C = beta * C: what is left of the product where nothing is to be multiplied.
static __global__ void scale_kernel(Gemm g) {
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < static_cast<int64_t>(g.m) * g.n) {
    float* c = g.C + i / g.n * g.ldc + i % g.n;
    *c = g.beta == 0.0f ? 0.0f : g.beta * *c;
  }
}

inline size_t no_workspace(const Gemm&) { return 0; }

using Run = cudaError_t (*)(const Gemm& g, void* workspace, cudaStream_t stream);
using WorkspaceBytes = size_t (*)(const Gemm& g);

// The arguments' check, the cases without a product, the workspace query; then the rung's own `run`.
inline cudaError_t sgemm_with(const Gemm& g, Run run, WorkspaceBytes needed, void* workspace, size_t* workspace_bytes,
                              cudaStream_t stream) {
  if (g.m < 0 || g.n < 0 || g.k < 0 || g.lda < std::max(1, g.k) || g.ldb < std::max(1, g.n) ||
      g.ldc < std::max(1, g.n)) {
    return cudaErrorInvalidValue;
  }
  bool empty = g.m == 0 || g.n == 0;
  bool no_product = g.k == 0 || g.alpha == 0.0f;
  if (workspace_bytes != nullptr) {
    *workspace_bytes = empty || no_product ? 0 : needed(g);
    return cudaSuccess;
  }
  if (empty || (no_product && g.beta == 1.0f)) {
    return cudaSuccess;
  }
  if (no_product) {
    int64_t blocks = (static_cast<int64_t>(g.m) * g.n + 255) / 256;
    return launch(scale_kernel, dim3(static_cast<unsigned>(blocks)), dim3(256), 0, stream, g);
  }
  return run(g, workspace, stream);
}

#define EXPORT_SGEMM_WITH_WORKSPACE(run, needed)                                                                   \
  extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb, \
                       float beta, float* C, int64_t ldc, void* workspace, size_t* workspace_bytes,                \
                       cudaStream_t stream) {                                                                      \
    return sgemm_with(Gemm{m, n, k, alpha, A, lda, B, ldb, beta, C, ldc}, run, needed, workspace, workspace_bytes, \
                      stream);                                                                                     \
  }
#define EXPORT_SGEMM(run) EXPORT_SGEMM_WITH_WORKSPACE(run, no_workspace)
