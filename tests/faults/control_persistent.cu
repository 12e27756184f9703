// control_persistent: no fault. As many blocks as SMs draw tiles from a counter until none is left.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g, int tiles, unsigned* drawn) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  __shared__ unsigned next;
  int tiles_n = ceil_div(g.n, TILE);
  for (;;) {
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      next = atomicAdd(drawn, 1u);
    }
    __syncthreads();
    int tile = static_cast<int>(next);
    __syncthreads();
    if (tile >= tiles) {
      return;
    }
    int row = tile / tiles_n * TILE + threadIdx.y;
    int col = tile % tiles_n * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int p0 = 0; p0 < g.k; p0 += TILE) {
      int p_A = p0 + threadIdx.x, p_B = p0 + threadIdx.y;
      tile_A[threadIdx.y][threadIdx.x] = row < g.m && p_A < g.k ? g.A[row * g.lda + p_A] : 0.0f;
      tile_B[threadIdx.y][threadIdx.x] = p_B < g.k && col < g.n ? g.B[p_B * g.ldb + col] : 0.0f;
      __syncthreads();
      for (int p = 0; p < TILE; ++p) {
        sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
      }
      __syncthreads();
    }
    if (row < g.m && col < g.n) {
      store_result(g, row, col, sum);
    }
  }
}

size_t needed(const Gemm&) { return sizeof(unsigned); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error == cudaSuccess) {
    error = cudaMemsetAsync(workspace, 0, sizeof(unsigned), stream);
  }
  if (error != cudaSuccess) {
    return error;
  }
  int tiles = static_cast<int>(tile_grid(g, TILE, TILE).x);
  return launch(sgemm_kernel, dim3(std::min(tiles, sms)), dim3(TILE, TILE), 0, stream, g, tiles,
                static_cast<unsigned*>(workspace));
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
