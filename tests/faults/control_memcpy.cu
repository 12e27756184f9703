// control_memcpy: no fault. Rows come to shared memory by memcpy, what is beyond them by memset.
#include <cstring>

#include "gemm.cuh"

constexpr int ROWS = 8, COLS = 32, STEPS = 16;

__global__ void __launch_bounds__(ROWS* COLS) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[ROWS][STEPS];
  __shared__ float tile_B[STEPS][COLS];
  Tile tile = tile_of_block(g, ROWS, COLS);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  int thread = threadIdx.y * COLS + threadIdx.x;
  float sum = 0.0f;
  for (int p0 = 0; p0 < g.k; p0 += STEPS) {
    int steps = min(STEPS, g.k - p0), cols = min(COLS, g.n - tile.col);
    if (thread < ROWS) {
      memset(tile_A[thread], 0, sizeof tile_A[thread]);
      if (tile.row + thread < g.m) {
        memcpy(tile_A[thread], g.A + (tile.row + thread) * g.lda + p0, steps * sizeof(float));
      }
    } else if (thread >= 32 && thread < 32 + STEPS) {
      int p = thread - 32;
      memset(tile_B[p], 0, sizeof tile_B[p]);
      if (p < steps) {
        memcpy(tile_B[p], g.B + (p0 + p) * g.ldb + tile.col, cols * sizeof(float));
      }
    }
    __syncthreads();
    for (int p = 0; p < STEPS; ++p) {
      sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, ROWS, COLS), dim3(COLS, ROWS), 0, stream, g);
}

EXPORT_SGEMM(run)
