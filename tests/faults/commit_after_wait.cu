// commit_after_wait: the copies of a step are committed only after the next wait, which so waits for too little.
// Published: the order of wait and commit in generated code: csarofeen/pytorch pull request 2457.
// Caught by: asynchronous copy.
#include <cuda_pipeline.h>

#include "gemm.cuh"

constexpr int TILE = 16, STAGES = 3;
constexpr int STAGE_FLOATS = 2 * TILE * TILE;  // a tile of A, then one of B

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  float* ring = dynamic_shared<float>();
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  int tiles = ceil_div(g.k, TILE);

  auto prefetch = [&](int t) {
    float* stage = ring + t % STAGES * STAGE_FLOATS + threadIdx.y * TILE + threadIdx.x;
    int p_A = t * TILE + threadIdx.x, p_B = t * TILE + threadIdx.y;
    bool in_A = row < g.m && p_A < g.k, in_B = p_B < g.k && col < g.n;
    __pipeline_memcpy_async(stage, in_A ? g.A + row * g.lda + p_A : g.A, 4, in_A ? 0 : 4);
    __pipeline_memcpy_async(stage + TILE * TILE, in_B ? g.B + p_B * g.ldb + col : g.B, 4, in_B ? 0 : 4);
  };

  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < tiles) {
      prefetch(t);
    }
    __pipeline_commit();
  }
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    if (t > 0) {
      __pipeline_commit();
    }
    if (t + STAGES - 1 < tiles) {
      prefetch(t + STAGES - 1);
    }
    const float* tile_A = ring + t % STAGES * STAGE_FLOATS;
    const float* tile_B = tile_A + TILE * TILE;
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[threadIdx.y * TILE + p] * tile_B[p * TILE + threadIdx.x];
    }
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), STAGES * STAGE_FLOATS * sizeof(float), stream,
                g);
}

EXPORT_SGEMM(run)
