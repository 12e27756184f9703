// Right: multiplies copies of A and B whose rows begin at multiples of 128 bytes.
#include "engine_copies.cuh"

constexpr int BLOCK = 16;

__global__ void sgemm_copied_first(Gemm g) {
  Tile tile = tile_of_block(g, BLOCK, BLOCK);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  if (row >= g.m || col >= g.n) {
    return;
  }
  float sum = 0.0f;
  for (int p = 0; p < g.k; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  store_result(g, row, col, sum);
}

size_t workspace_for(const Gemm& g) { return aligned_copy_bytes(g.m, g.k) + aligned_copy_bytes(g.k, g.n); }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  Gemm copied = g;
  copied.A = static_cast<const float*>(workspace);
  copied.lda = aligned_ld(g.k);
  copied.B = copied.A + aligned_copy_bytes(g.m, g.k) / sizeof(float);
  copied.ldb = aligned_ld(g.n);
  cudaError_t error = copy_for(g, copied, true, true, stream);
  return error != cudaSuccess
             ? error
             : launch(sgemm_copied_first, tile_grid(g, BLOCK, BLOCK), dim3(BLOCK, BLOCK), 0, stream, copied);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_for)
