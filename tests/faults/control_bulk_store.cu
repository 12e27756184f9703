// control_bulk_store: no fault. The rows of a tile leave shared memory by bulk stores where C is aligned; before its next
// tile, and before it ends, a block waits until the engine has read them.
#include "gemm.cuh"

constexpr int TILE = 16;

__device__ void store_row(float* to, const float* from) {
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(from));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared), "n"(TILE * 4)
               : "memory");
}
__device__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_for_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g, unsigned tiles, bool aligned) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  __shared__ __align__(16) float results[TILE][TILE];
  int y = threadIdx.y, x = threadIdx.x;
  bool stores = y == 0;  // one thread for each row of the tile
  for (unsigned number = blockIdx.x; number < tiles; number += gridDim.x) {
    Tile tile = tile_number(g, number, TILE, TILE, 8);
    int row = tile.row + y, col = tile.col + x;
    float sum = 0.0f;
    for (int p0 = 0; p0 < g.k; p0 += TILE) {
      tile_A[y][x] = row < g.m && p0 + x < g.k ? g.A[row * g.lda + p0 + x] : 0.0f;
      tile_B[y][x] = p0 + y < g.k && col < g.n ? g.B[(p0 + y) * g.ldb + col] : 0.0f;
      __syncthreads();
      for (int p = 0; p < TILE; ++p) {
        sum += tile_A[y][p] * tile_B[p][x];
      }
      __syncthreads();
    }
    if (!aligned || g.n - tile.col < TILE) {
      if (row < g.m && col < g.n) {
        store_result(g, row, col, sum);
      }
      continue;
    }
    if (stores) {
      wait_for_stores();
    }
    __syncthreads();
    float value = g.alpha * sum;
    if (g.beta != 0.0f && row < g.m) {
      value += g.beta * g.C[row * g.ldc + col];
    }
    results[y][x] = value;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (stores && tile.row + x < g.m) {
      store_row(g.C + (tile.row + x) * g.ldc + tile.col, results[x]);
      commit_stores();
    }
  }
  if (stores) {
    wait_for_stores();
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  int sms = 0;
  cudaError_t error = sm_count(&sms);
  if (error != cudaSuccess) {
    return error;
  }
  bool aligned = reinterpret_cast<uintptr_t>(g.C) % 16 == 0 && g.ldc % 4 == 0;
  unsigned tiles = tile_grid(g, TILE, TILE).x;
  return launch(sgemm_kernel, dim3(std::min(tiles, 4u * sms)), dim3(TILE, TILE), 0, stream, g, tiles, aligned);
}

EXPORT_SGEMM(run)
