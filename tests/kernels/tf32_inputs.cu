// Wrong: computes in FP32 what it has rounded to TF32's 10 bits of fraction, and claims FP32.
#include "gemm.cuh"

constexpr int BLOCK = 16;

__device__ float rounded_to_tf32(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }

__global__ void sgemm_tf32_inputs(Gemm g) {
  Tile tile = tile_of_block(g, BLOCK, BLOCK);
  int row = tile.row + threadIdx.y;
  int col = tile.col + threadIdx.x;
  if (row >= g.m || col >= g.n) {
    return;
  }
  float sum = 0.0f;
  for (int p = 0; p < g.k; ++p) {
    sum += rounded_to_tf32(g.A[row * g.lda + p]) * rounded_to_tf32(g.B[p * g.ldb + col]);
  }
  store_result(g, row, col, sum);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_tf32_inputs, tile_grid(g, BLOCK, BLOCK), dim3(BLOCK, BLOCK), 0, stream, g);
}

EXPORT_SGEMM(run)
