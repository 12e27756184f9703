// workspace_too_small: room for one split too few is asked for.
// Published: a workspace sized for another shape than the launch: CUTLASS pull request 2713.
// Caught by: out of bounds.
#include "gemm.cuh"

constexpr int TILE = 16, SPLITS = 3;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g, unsigned* counters, float* partials) {
  __shared__ bool last;
  int tile = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
  int tiles_n = ceil_div(g.n, TILE);
  int row = tile / tiles_n * TILE + threadIdx.y;
  int col = tile % tiles_n * TILE + threadIdx.x;
  bool inside = row < g.m && col < g.n;
  int64_t size = static_cast<int64_t>(g.m) * g.n, element = static_cast<int64_t>(row) * g.n + col;

  int chunk = ceil_div(g.k, SPLITS);
  int begin = min(g.k, split * chunk);
  int end = min(g.k, begin + chunk);
  float sum = 0.0f;
  for (int p = begin; p < end && inside; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  if (inside) {
    partials[split * size + element] = sum;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(&counters[tile], 1u) == SPLITS - 1;
  }
  __syncthreads();
  if (last && inside) {
    __threadfence();
    float total = 0.0f;
    for (int s = 0; s < SPLITS; ++s) {
      total += partials[s * size + element];
    }
    store_result(g, row, col, total);
  }
}

size_t counter_bytes(const Gemm& g) {
  return static_cast<size_t>(ceil_div(g.m, TILE)) * ceil_div(g.n, TILE) * sizeof(unsigned);
}
size_t needed(const Gemm& g) { return counter_bytes(g) + static_cast<size_t>(SPLITS - 1) * g.m * g.n * sizeof(float); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  char* bytes = static_cast<char*>(workspace);
  cudaError_t error = cudaMemsetAsync(bytes, 0, counter_bytes(g), stream);
  if (error != cudaSuccess) {
    return error;
  }
  dim3 grid = tile_grid(g, TILE, TILE);
  return launch(sgemm_kernel, dim3(grid.x * SPLITS), dim3(TILE, TILE), 0, stream, g, reinterpret_cast<unsigned*>(bytes),
                reinterpret_cast<float*>(bytes + counter_bytes(g)));
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
