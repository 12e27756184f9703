// control_scratch_pool: no fault. A block takes a free slot of static scratch
// by atomicCAS, keeps its tile there, frees it.
#include "gemm.cuh"

constexpr int TILE = 16, SLOTS = 64;

__device__ unsigned taken[SLOTS];
__device__ float scratch[SLOTS][TILE * TILE];

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ int slot;
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x, thread = threadIdx.y * TILE + threadIdx.x;
  if (thread == 0) {
    int s = blockIdx.x % SLOTS;
    while (atomicCAS(&taken[s], 0u, 1u) != 0u) {
      s = (s + 1) % SLOTS;
    }
    __threadfence();
    slot = s;
  }
  __syncthreads();
  float* own = scratch[slot];
  own[thread] = 0.0f;
  __syncthreads();
  // Each thread sums the element of its mirror image in the tile, so that the
  // tile goes through the scratch transposed.
  int r = tile.row + threadIdx.x, c = tile.col + threadIdx.y;
  if (r < g.m && c < g.n) {
    float sum = 0.0f;
    for (int p = 0; p < g.k; ++p) {
      sum += g.A[r * g.lda + p] * g.B[p * g.ldb + c];
    }
    own[threadIdx.x * TILE + threadIdx.y] = sum;
  }
  __syncthreads();
  if (row < g.m && col < g.n) {
    store_result(g, row, col, own[thread]);
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    atomicExch(&taken[slot], 0u);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
