// control_cuda_barrier: no fault. Tiles come by cuda::memcpy_async, whose arrival a cuda::barrier of the block awaits.
#include <cuda/barrier>

#include "gemm.cuh"

constexpr int TILE = 16;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// One element of a tile; zero where the matrix has none.
__device__ void bring(float* to, const float* from, bool inside, Barrier& barrier) {
  if (inside) {
    cuda::memcpy_async(to, from, cuda::aligned_size_t<4>(4), barrier);
  } else {
    *to = 0.0f;
  }
}

__global__ void __launch_bounds__(TILE* TILE) sgemm_kernel(Gemm g) {
  __shared__ float tile_A[2][TILE][TILE];
  __shared__ float tile_B[2][TILE][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier full[2];
  Tile tile = tile_of_block(g, TILE, TILE);
  int y = threadIdx.y, x = threadIdx.x, row = tile.row + y, col = tile.col + x;
  if (x == 0 && y == 0) {
    init(&full[0], TILE * TILE);
    init(&full[1], TILE * TILE);
  }
  __syncthreads();
  auto fill = [&](int stage, int p0) {
    bring(&tile_A[stage][y][x], g.A + row * g.lda + p0 + x, row < g.m && p0 + x < g.k, full[stage]);
    bring(&tile_B[stage][y][x], g.B + (p0 + y) * g.ldb + col, p0 + y < g.k && col < g.n, full[stage]);
  };
  float sum = 0.0f;
  fill(0, 0);
  for (int p0 = 0, stage = 0; p0 < g.k; p0 += TILE, stage ^= 1) {
    Barrier::arrival_token token = full[stage].arrive();
    if (p0 + TILE < g.k) {
      fill(stage ^ 1, p0 + TILE);
    }
    full[stage].wait(std::move(token));
    for (int p = 0; p < TILE; ++p) {
      sum += tile_A[stage][y][p] * tile_B[stage][p][x];
    }
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
