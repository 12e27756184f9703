// control_cooperative: no fault. A cooperative launch; its blocks meet at the
// grid's own barrier between split and sum.
#include <cooperative_groups.h>

#include "gemm.cuh"

constexpr int TILE = 16, SPLITS = 3;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g, float* partials) {
  int tiles_n = ceil_div(g.n, TILE), tiles = ceil_div(g.m, TILE) * tiles_n, each = ceil_div(g.k, SPLITS);
  int64_t size = static_cast<int64_t>(g.m) * g.n;
  for (int work = blockIdx.x; work < tiles * SPLITS; work += gridDim.x) {
    int row = work / SPLITS / tiles_n * TILE + threadIdx.y, col = work / SPLITS % tiles_n * TILE + threadIdx.x;
    int split = work % SPLITS, end = min(g.k, (split + 1) * each);
    if (row < g.m && col < g.n) {
      float sum = 0.0f;
      for (int p = split * each; p < end; ++p) {
        sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
      }
      partials[split * size + static_cast<int64_t>(row) * g.n + col] = sum;
    }
  }
  cooperative_groups::this_grid().sync();
  int64_t first = blockIdx.x * static_cast<int64_t>(TILE * TILE) + threadIdx.y * TILE + threadIdx.x;
  for (int64_t i = first; i < size; i += static_cast<int64_t>(gridDim.x) * TILE * TILE) {
    store_result(g, static_cast<int>(i / g.n), static_cast<int>(i % g.n),
                 partials[i] + partials[size + i] + partials[2 * size + i]);
  }
}

size_t needed(const Gemm& g) { return SPLITS * sizeof(float) * static_cast<size_t>(g.m) * g.n; }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0, each = 0;
  cudaError_t error = sm_count(&sms);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, sgemm_kernel, TILE * TILE, 0);
  }
  if (error != cudaSuccess) {
    return error;
  }
  int blocks = std::min(sms * each, static_cast<int>(tile_grid(g, TILE, TILE).x) * SPLITS);
  Gemm product = g;
  float* partials = static_cast<float*>(workspace);
  void* arguments[] = {&product, &partials};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(sgemm_kernel), dim3(blocks), dim3(TILE, TILE),
                                     arguments, 0, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
