// control_flag_of_many: no fault. Threads that find a number in a tile of A set one flag, all to the same value.
//
// Where none does and B has finite numbers alone, the tile adds nothing and is not multiplied.
#include "gemm.cuh"

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[TILE][TILE];
  __shared__ float tile_B[TILE][TILE];
  __shared__ bool counts[2];  // of this tile, and of the next one
  Tile tile = tile_of_block(g, TILE, TILE);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  bool is_first = threadIdx.x + threadIdx.y == 0;

  float sum = 0.0f;
  int now = 0;
  if (is_first) {
    counts[now] = false;
  }
  __syncthreads();
  for (int p0 = 0; p0 < g.k; p0 += TILE) {
    int p_A = p0 + threadIdx.x;
    int p_B = p0 + threadIdx.y;
    float a = row < g.m && p_A < g.k ? g.A[row * g.lda + p_A] : 0.0f;
    float b = p_B < g.k && col < g.n ? g.B[p_B * g.ldb + col] : 0.0f;
    tile_A[threadIdx.y][threadIdx.x] = a;
    tile_B[threadIdx.y][threadIdx.x] = b;
    if (a != 0.0f || !isfinite(b)) {
      counts[now] = true;
    }
    if (is_first) {
      counts[1 - now] = false;
    }
    __syncthreads();  // filled
    if (counts[now]) {
      for (int p = 0; p < TILE; ++p) {
        sum += tile_A[threadIdx.y][p] * tile_B[p][threadIdx.x];
      }
    }
    now = 1 - now;
    __syncthreads();  // read
  }
  if (row < g.m && col < g.n) {
    store_result(g, row, col, sum);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, TILE), dim3(TILE, TILE), 0, stream, g);
}

EXPORT_SGEMM(run)
