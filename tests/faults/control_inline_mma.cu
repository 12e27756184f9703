// control_inline_mma: no fault. Tensor cores multiply in FP64 what ldmatrix reads in FP32; each product is exact.
#include "gemm.cuh"

constexpr int WARPS = 4, BM = 8 * WARPS, BN = 8, BK = 16, PITCH = BK + 4;

// Four 8 x 4 matrices of floats, of which this lane gets row lane / 4, column lane % 4; lane l names row l % 8 of the
// (l / 8)-th.
__device__ void load_fragments(float (&to)[4], const float* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// D (8 x 8) += A (8 x 4) . B (4 x 8).
__device__ void multiply(double (&D)[2], double A, double B) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(D[0]), "+d"(D[1])
               : "d"(A), "d"(B));
}

__global__ void __launch_bounds__(WARPS * 32) sgemm_kernel(Gemm g) {
  __shared__ alignas(16) float tile_A[BM][PITCH];
  __shared__ alignas(16) float tile_B[BN][PITCH];  // transposed
  Tile tile = tile_of_block(g, BM, BN);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  double sum[2] = {};
  for (int p0 = 0; p0 < g.k; p0 += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += WARPS * 32) {
      int row = tile.row + i / BK, p = p0 + i % BK;
      tile_A[i / BK][i % BK] = row < g.m && p < g.k ? g.A[row * g.lda + p] : 0.0f;
    }
    for (int i = threadIdx.x; i < BN * BK; i += WARPS * 32) {
      int col = tile.col + i % BN, p = p0 + i / BN;
      tile_B[i % BN][i / BN] = p < g.k && col < g.n ? g.B[p * g.ldb + col] : 0.0f;
    }
    __syncthreads();
    float frag_A[4], frag_B[4];
    load_fragments(frag_A, &tile_A[warp * 8 + lane % 8][lane / 8 * 4]);
    load_fragments(frag_B, &tile_B[lane % 8][lane / 8 * 4]);
    for (int step = 0; step < BK / 4; ++step) {
      multiply(sum, frag_A[step], frag_B[step]);
    }
    __syncthreads();
  }
  int row = tile.row + warp * 8 + lane / 4, col = tile.col + lane % 4 * 2;
  for (int v = 0; v < 2; ++v) {
    if (row < g.m && col + v < g.n) {
      float* c = g.C + row * g.ldc + col + v;
      double product = g.alpha * sum[v];
      *c = static_cast<float>(g.beta == 0.0f ? product : product + static_cast<double>(g.beta) * *c);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, BM, BN), dim3(WARPS * 32), 0, stream, g);
}

EXPORT_SGEMM(run)
