// control_look_back: no fault. Splits of a tile add to the sum of the split before, which they wait for (look-back).
#include "gemm.cuh"

constexpr int TILE = 16, STEPS = 64;  // of k in a split

// A block's number is the order in which it began, so the split that it waits for has begun.
__global__ void __launch_bounds__(TILE* TILE)
    sgemm_kernel(Gemm g, int splits, unsigned* begun, unsigned* done, float* sums) {
  __shared__ unsigned number;
  int thread = threadIdx.y * TILE + threadIdx.x;
  if (thread == 0) {
    number = atomicAdd(begun, 1u);
  }
  __syncthreads();
  int tile = number / splits, split = number % splits, tiles_n = ceil_div(g.n, TILE);
  int row = tile / tiles_n * TILE + threadIdx.y;
  int col = tile % tiles_n * TILE + threadIdx.x;
  bool inside = row < g.m && col < g.n;
  float sum = 0.0f;
  for (int p = split * STEPS; p < min(g.k, (split + 1) * STEPS) && inside; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  float* of_tile = sums + static_cast<int64_t>(tile) * TILE * TILE;
  if (split > 0) {
    if (thread == 0) {
      while (atomicAdd(&done[tile], 0u) < static_cast<unsigned>(split)) {
      }
      __threadfence();
    }
    __syncthreads();
    sum += __ldcg(&of_tile[thread]);
  }
  if (split < splits - 1) {
    of_tile[thread] = sum;
    __threadfence();
    __syncthreads();
    if (thread == 0) {
      atomicExch(&done[tile], split + 1u);
    }
  } else if (inside) {
    store_result(g, row, col, sum);
  }
}

size_t tiles_of(const Gemm& g) { return tile_grid(g, TILE, TILE).x; }
size_t flag_bytes(const Gemm& g) { return (tiles_of(g) + 1) * sizeof(unsigned); }
size_t needed(const Gemm& g) { return (flag_bytes(g) + 255) / 256 * 256 + tiles_of(g) * TILE * TILE * sizeof(float); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  auto begun = static_cast<unsigned*>(workspace);
  cudaError_t error = cudaMemsetAsync(begun, 0, flag_bytes(g), stream);
  if (error != cudaSuccess) {
    return error;
  }
  int splits = ceil_div(g.k, STEPS);
  auto sums = reinterpret_cast<float*>(static_cast<char*>(workspace) + (flag_bytes(g) + 255) / 256 * 256);
  return launch(sgemm_kernel, dim3(static_cast<unsigned>(tiles_of(g) * splits)), dim3(TILE, TILE), 0, stream, g, splits,
                begun, begun + 1, sums);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
