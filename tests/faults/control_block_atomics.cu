// control_block_atomics: no fault. Warps take the rows of their block's tile by a counter that no other block changes.
#include "gemm.cuh"

constexpr int ROWS = 24, COLS = 32, WARPS = 4;

__global__ void __launch_bounds__(WARPS* COLS) sgemm_kernel(Gemm g, unsigned* counters) {
  unsigned* next = counters + blockIdx.x;
  int lane = threadIdx.x % COLS, tiles_n = ceil_div(g.n, COLS);
  int first = blockIdx.x / tiles_n * ROWS, col = blockIdx.x % tiles_n * COLS + lane;
  if (threadIdx.x == 0) {
    *next = 0;
  }
  __syncthreads();
  while (true) {
    unsigned taken = lane == 0 ? atomicAdd_block(next, 1u) : 0;
    taken = __shfl_sync(0xFFFFFFFF, taken, 0);
    if (taken >= ROWS) {
      return;
    }
    int row = first + static_cast<int>(taken);
    if (row < g.m && col < g.n) {
      float sum = 0.0f;
      for (int p = 0; p < g.k; ++p) {
        sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
      }
      store_result(g, row, col, sum);
    }
  }
}

size_t needed(const Gemm& g) { return static_cast<size_t>(tile_grid(g, ROWS, COLS).x) * sizeof(unsigned); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, ROWS, COLS), dim3(WARPS * COLS), 0, stream, g,
                static_cast<unsigned*>(workspace));
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
