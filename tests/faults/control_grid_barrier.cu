// control_grid_barrier: no fault. Blocks that all run at once sum splits of k, meet at a barrier of the grid, and add them.
#include "gemm.cuh"

constexpr int TILE = 16, SPLITS = 2, LEAST_K = 32;

struct Barrier {
  unsigned arrived, generation;
};

// Returns when every block of the grid has come, and what they wrote before can be read.
__device__ void wait_for_grid(Barrier* barrier) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    volatile unsigned* generation = &barrier->generation;
    unsigned before = *generation;
    __threadfence();
    if (atomicAdd(&barrier->arrived, 1u) == gridDim.x - 1) {
      barrier->arrived = 0;
      __threadfence();
      atomicAdd(&barrier->generation, 1u);
    } else {
      while (*generation == before) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g, int splits, Barrier* barrier, float* partials) {
  int tiles_n = ceil_div(g.n, TILE), tiles = ceil_div(g.m, TILE) * tiles_n;
  int64_t size = static_cast<int64_t>(g.m) * g.n;
  for (int work = blockIdx.x; work < tiles * splits; work += gridDim.x) {
    int tile = work / splits, split = work % splits;
    int row = tile / tiles_n * TILE + threadIdx.y, col = tile % tiles_n * TILE + threadIdx.x;
    if (row < g.m && col < g.n) {
      int each = ceil_div(g.k, splits);
      float sum = 0.0f;
      for (int p = split * each; p < min(g.k, (split + 1) * each); ++p) {
        sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
      }
      if (splits == 1) {
        store_result(g, row, col, sum);
      } else {
        partials[split * size + static_cast<int64_t>(row) * g.n + col] = sum;
      }
    }
  }
  if (splits == 1) {
    return;
  }
  wait_for_grid(barrier);
  // Another block than before, as a rule, adds the splits of a tile, from the last tile on.
  for (int turn = blockIdx.x; turn < tiles; turn += gridDim.x) {
    int tile = tiles - 1 - turn;
    int row = tile / tiles_n * TILE + threadIdx.y, col = tile % tiles_n * TILE + threadIdx.x;
    if (row < g.m && col < g.n) {
      float sum = 0.0f;
      for (int split = 0; split < splits; ++split) {
        sum += __ldcg(&partials[split * size + static_cast<int64_t>(row) * g.n + col]);
      }
      store_result(g, row, col, sum);
    }
  }
}

int splits_of(const Gemm& g) { return g.k >= LEAST_K ? SPLITS : 1; }

// No more blocks than the GPU runs at a time.
cudaError_t resident_blocks(int* blocks) {
  int sms = 0, each = 0;
  cudaError_t error = sm_count(&sms);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, sgemm_kernel, TILE * TILE, 0);
  }
  *blocks = sms * each;
  return error;
}

size_t needed(const Gemm& g) {
  return splits_of(g) == 1 ? 0 : 256 + sizeof(float) * SPLITS * static_cast<size_t>(g.m) * g.n;
}

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  int most = 0, splits = splits_of(g);
  cudaError_t error = resident_blocks(&most);
  if (error == cudaSuccess && splits > 1) {
    error = cudaMemsetAsync(workspace, 0, sizeof(Barrier), stream);
  }
  if (error != cudaSuccess) {
    return error;
  }
  int blocks = std::min(most, static_cast<int>(tile_grid(g, TILE, TILE).x));
  auto partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256);
  return launch(sgemm_kernel, dim3(blocks), dim3(TILE, TILE), 0, stream, g, splits, static_cast<Barrier*>(workspace),
                partials);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
