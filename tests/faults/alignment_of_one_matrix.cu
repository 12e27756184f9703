// alignment_of_one_matrix: the alignment of A decides on vector loads from B too.
// Caught by: misaligned.
// Case: offsets.
#include "gemm.cuh"

constexpr int BM = 32, BN = 32, BK = 8, TM = 4, TN = 4, PAD = 4;
constexpr int THREADS = BM / TM * (BN / TN);

// Four neighbours of a row, zero from column `cols` on; in one load where the address allows it.
__device__ float4 load4(const float* row, int col, int cols, bool aligned) {
  const float* p = row + col;
  if (aligned && col + 3 < cols) {
    return *reinterpret_cast<const float4*>(p);
  }
  float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (col + 0 < cols) v.x = p[0];
  if (col + 1 < cols) v.y = p[1];
  if (col + 2 < cols) v.z = p[2];
  if (col + 3 < cols) v.w = p[3];
  return v;
}

__global__ void __launch_bounds__(THREADS) sgemm_kernel(Gemm g) {
  __shared__ __align__(16) float tile_A[2][BK][BM + PAD];
  __shared__ __align__(16) float tile_B[2][BK][BN];
  Tile tile = tile_of_block(g, BM, BN);
  int row_A = threadIdx.x / (BK / 4), p_A = threadIdx.x % (BK / 4) * 4;
  int p_B = threadIdx.x / (BN / 4), col_B = threadIdx.x % (BN / 4) * 4;
  int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;
  float acc[TM][TN] = {};
  float4 a, b;
  bool aligned = reinterpret_cast<uintptr_t>(g.A) % 16 == 0;

  auto load = [&](int p0) {
    a = b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (tile.row + row_A < g.m) a = load4(g.A + (tile.row + row_A) * g.lda, p0 + p_A, g.k, aligned && g.lda % 4 == 0);
    if (p0 + p_B < g.k) b = load4(g.B + (p0 + p_B) * g.ldb, tile.col + col_B, g.n, aligned && g.ldb % 4 == 0);
  };
  auto store = [&](int buffer) {
    tile_A[buffer][p_A + 0][row_A] = a.x;
    tile_A[buffer][p_A + 1][row_A] = a.y;
    tile_A[buffer][p_A + 2][row_A] = a.z;
    tile_A[buffer][p_A + 3][row_A] = a.w;
    *reinterpret_cast<float4*>(&tile_B[buffer][p_B][col_B]) = b;
  };
  auto multiply = [&](int buffer) {
    for (int p = 0; p < BK; ++p) {
      float4 x = *reinterpret_cast<const float4*>(&tile_A[buffer][p][row]);
      float4 y = *reinterpret_cast<const float4*>(&tile_B[buffer][p][col]);
      float frag_A[TM] = {x.x, x.y, x.z, x.w}, frag_B[TN] = {y.x, y.y, y.z, y.w};
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
          acc[i][j] += frag_A[i] * frag_B[j];
        }
      }
    }
  };

  int tiles = ceil_div(g.k, BK);
  load(0);
  store(0);
  __syncthreads();
  for (int t = 0; t + 1 < tiles; ++t) {
    load((t + 1) * BK);
    multiply(t % 2);
    store((t + 1) % 2);
    __syncthreads();
  }
  multiply((tiles - 1) % 2);

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; ++j) {
      if (tile.row + row + i < g.m && tile.col + col + j < g.n) {
        store_result(g, tile.row + row + i, tile.col + col + j, acc[i][j]);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, BM, BN), dim3(THREADS), 0, stream, g);
}

EXPORT_SGEMM(run)
