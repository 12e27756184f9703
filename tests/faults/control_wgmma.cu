// control_wgmma: no fault. A warp group multiplies by wgmma, in TF32, what it stored to shared memory itself.
// Precision: tf32.
#include "gemm.cuh"
#include "wgmma.cuh"

constexpr int BM = 64, BN = 128, BK = 32, THREADS = 128, STAGES = 2;  // a row of a tile is 128 bytes
constexpr int STAGE_FLOATS = (BM + BN) * BK;

// Where an element lies in a tile with the 128-byte swizzle: 16-byte chunks of a row are permuted by the row's number.
__device__ int place(int row, int p) { return row * BK + ((p / 4) ^ (row % 8)) * 4 + p % 4; }

__global__ void __launch_bounds__(THREADS) sgemm_kernel(Gemm g) {
  float* ring = dynamic_shared<float>();
  Tile tile = tile_of_block(g, BM, BN);
  int thread = threadIdx.x, tiles = ceil_div(g.k, BK);

  auto fill = [&](int t) {
    float* tile_A = ring + t % STAGES * STAGE_FLOATS;
    float* tile_B = tile_A + BM * BK;  // transposed
    for (int i = thread; i < BM * BK; i += THREADS) {
      int row = tile.row + i / BK, p = t * BK + i % BK;
      tile_A[place(i / BK, i % BK)] = row < g.m && p < g.k ? g.A[row * g.lda + p] : 0.0f;
    }
    for (int i = thread; i < BN * BK; i += THREADS) {
      int col = tile.col + i % BN, p = t * BK + i / BN;
      tile_B[place(i % BN, i / BN)] = p < g.k && col < g.n ? g.B[p * g.ldb + col] : 0.0f;
    }
    bulk_copy_fence();  // wgmma reads by the asynchronous proxy
  };

  float sum[64] = {};
  fill(0);
  __syncthreads();
  for (int t = 0; t < tiles; ++t) {
    const float* tile_A = ring + t % STAGES * STAGE_FLOATS;
    uint64_t A = tile_descriptor(tile_A), B = tile_descriptor(tile_A + BM * BK);
    hold(sum);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < BK / 8; ++step) {
      wgmma_tf32(sum, A + 2 * step, B + 2 * step, 1);
    }
    wgmma_commit();
    if (t + 1 < tiles) {
      fill(t + 1);
    }
    wgmma_wait<0>();
    hold(sum);
    __syncthreads();
  }
  int row = tile.row + thread / 32 * 16 + thread % 32 / 4, col = tile.col + thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    int r = row + 8 * (i / 2 % 2), c = col + i / 4 * 8 + i % 2;
    if (r < g.m && c < g.n) {
      store_result(g, r, c, sum[i]);
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, BM, BN), dim3(THREADS), STAGES * STAGE_FLOATS * sizeof(float), stream, g);
}

EXPORT_SGEMM(run)
