// control_inline_copies: no fault. cp.async in inline PTX, 16 bytes where rows are aligned, with its source size for tails.
#include "gemm.cuh"

constexpr int BM = 32, BN = 32, BK = 16, STAGES = 3, THREADS = 128;
constexpr int STAGE_FLOATS = BM * BK + BK * BN;

__device__ void copy16(float* to, const float* from, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(bytes)
      : "memory");
}
__device__ void copy4(float* to, const float* from, int bytes) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(bytes)
      : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int NEWEST>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

// Four neighbours of a row from column `col` on, zeros from `cols` on; `exists` tells whether there is such a row.
__device__ void copy_four(float* to, const float* row, int col, int cols, bool exists, bool aligned) {
  int there = exists ? max(0, min(4, cols - col)) : 0;
  if (aligned) {
    copy16(to, there > 0 ? row + col : row, there * 4);
  } else {
    for (int v = 0; v < 4; ++v) {
      copy4(to + v, v < there ? row + col + v : row, v < there ? 4 : 0);
    }
  }
}

__global__ void __launch_bounds__(THREADS) sgemm_kernel(Gemm g) {
  float* ring = dynamic_shared<float>();
  Tile tile = tile_of_block(g, BM, BN);
  int thread = threadIdx.x, tiles = ceil_div(g.k, BK);
  bool aligned_A = reinterpret_cast<uintptr_t>(g.A) % 16 == 0 && g.lda % 4 == 0;
  bool aligned_B = reinterpret_cast<uintptr_t>(g.B) % 16 == 0 && g.ldb % 4 == 0;

  auto prefetch = [&](int t) {
    float* tile_A = ring + t % STAGES * STAGE_FLOATS;
    float* tile_B = tile_A + BM * BK;
    int row_A = thread / 4, p_A = thread % 4 * 4, p_B = thread / 8, col_B = thread % 8 * 4;
    bool in_A = tile.row + row_A < g.m, in_B = t * BK + p_B < g.k;
    copy_four(tile_A + row_A * BK + p_A, in_A ? g.A + (tile.row + row_A) * g.lda : g.A, t * BK + p_A, g.k, in_A,
              aligned_A);
    copy_four(tile_B + p_B * BN + col_B, in_B ? g.B + (t * BK + p_B) * g.ldb : g.B, tile.col + col_B, g.n, in_B,
              aligned_B);
  };

  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < tiles) {
      prefetch(t);
    }
    commit();
  }
  int row = thread / 8 * 2, col = thread % 8 * 4;
  float sum[2][4] = {};
  for (int t = 0; t < tiles; ++t) {
    wait<STAGES - 2>();
    __syncthreads();
    if (t + STAGES - 1 < tiles) {
      prefetch(t + STAGES - 1);
    }
    commit();
    const float* tile_A = ring + t % STAGES * STAGE_FLOATS;
    const float* tile_B = tile_A + BM * BK;
    for (int p = 0; p < BK; ++p) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          sum[i][j] += tile_A[(row + i) * BK + p] * tile_B[p * BN + col + j];
        }
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (tile.row + row + i < g.m && tile.col + col + j < g.n) {
        store_result(g, tile.row + row + i, tile.col + col + j, sum[i][j]);
      }
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, BM, BN), dim3(THREADS), STAGES * STAGE_FLOATS * sizeof(float), stream, g);
}

EXPORT_SGEMM(run)
