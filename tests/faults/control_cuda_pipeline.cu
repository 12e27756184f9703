// control_cuda_pipeline: no fault. Half of the warps bring tiles, half multiply them; a cuda::pipeline of the block hands
// them over.
#include <cooperative_groups.h>
#include <cuda/pipeline>

#include "gemm.cuh"

constexpr int TILE = 16, STAGES = 3, HALF = TILE * TILE;

__global__ void __launch_bounds__(2 * HALF) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[STAGES][TILE][TILE];
  __shared__ float tile_B[STAGES][TILE][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  auto block = cooperative_groups::this_thread_block();
  bool brings = threadIdx.x < HALF;
  auto role = brings ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  Tile tile = tile_of_block(g, TILE, TILE);
  int y = threadIdx.x % HALF / TILE, x = threadIdx.x % TILE, row = tile.row + y, col = tile.col + x;
  int tiles = ceil_div(g.k, TILE);
  if (brings) {
    for (int t = 0; t < tiles; ++t) {
      pipe.producer_acquire();
      float *a = &tile_A[t % STAGES][y][x], *b = &tile_B[t % STAGES][y][x];
      if (row < g.m && t * TILE + x < g.k) {
        cuda::memcpy_async(a, g.A + row * g.lda + t * TILE + x, sizeof(float), pipe);
      } else {
        *a = 0.0f;
      }
      if (t * TILE + y < g.k && col < g.n) {
        cuda::memcpy_async(b, g.B + (t * TILE + y) * g.ldb + col, sizeof(float), pipe);
      } else {
        *b = 0.0f;
      }
      pipe.producer_commit();
    }
    return;
  }
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    pipe.consumer_wait();
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[t % STAGES][y][p] * tile_B[t % STAGES][p][x];
    }
    pipe.consumer_release();
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(2 * HALF), 0, stream, g);
}

EXPORT_SGEMM(run)
