// control_wmma: no fault. A warp multiplies tiles by nvcuda::wmma in TF32; what is beyond the matrices is zero.
// Precision: tf32.
#include <mma.h>

#include "gemm.cuh"

using namespace nvcuda;

constexpr int TILE = 16, STEPS = 8, WARPS = 2;

__global__ void __launch_bounds__(WARPS * 32) sgemm_kernel(Gemm g) {
  __shared__ alignas(128) float tile_A[TILE][STEPS];
  __shared__ alignas(128) float tile_B[WARPS][STEPS][TILE];
  __shared__ alignas(128) float tile_C[WARPS][TILE][TILE];
  Tile tile = tile_of_block(g, TILE, WARPS * TILE);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = tile.col + warp * TILE;
  wmma::fragment<wmma::accumulator, TILE, TILE, STEPS, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  for (int p0 = 0; p0 < g.k; p0 += STEPS) {
    for (int i = threadIdx.x; i < TILE * STEPS; i += WARPS * 32) {
      int row = tile.row + i / STEPS, p = p0 + i % STEPS;
      tile_A[i / STEPS][i % STEPS] = row < g.m && p < g.k ? g.A[row * g.lda + p] : 0.0f;
    }
    for (int i = lane; i < STEPS * TILE; i += 32) {
      int p = p0 + i / TILE, col = first + i % TILE;
      tile_B[warp][i / TILE][i % TILE] = p < g.k && col < g.n ? g.B[p * g.ldb + col] : 0.0f;
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, TILE, TILE, STEPS, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, TILE, TILE, STEPS, wmma::precision::tf32, wmma::row_major> b;
    wmma::load_matrix_sync(a, &tile_A[0][0], STEPS);
    wmma::load_matrix_sync(b, &tile_B[warp][0][0], TILE);
    for (int i = 0; i < a.num_elements; ++i) {
      a.x[i] = wmma::__float_to_tf32(a.x[i]);
    }
    for (int i = 0; i < b.num_elements; ++i) {
      b.x[i] = wmma::__float_to_tf32(b.x[i]);
    }
    wmma::mma_sync(sums, a, b, sums);
    __syncthreads();
  }
  wmma::store_matrix_sync(&tile_C[warp][0][0], sums, TILE, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < TILE * TILE; i += 32) {
    int row = tile.row + i / TILE, col = first + i % TILE;
    if (row < g.m && col < g.n) {
      store_result(g, row, col, tile_C[warp][i / TILE][i % TILE]);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, TILE, WARPS * TILE), dim3(WARPS * 32), 0, stream, g);
}

EXPORT_SGEMM(run)
