// control_cache_hints: no fault. Loads and stores with cache hints, __ldg, __restrict__, and a volatile exchange in a warp.
#include "gemm.cuh"

constexpr int ROWS = 4, COLS = 32;

__device__ float load_once(const float* from) {
  float value;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}
__device__ float4 load_four(const float* from) {
  float4 v;
  asm volatile("ld.global.nc.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from));
  return v;
}
__device__ void store_once(float* to, float value) {
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

// A warp computes 32 neighbours of a row. Its lanes load A by vectors, if they can, and share it in shared memory.
__device__ float dot(const float* __restrict__ A, const float* __restrict__ B, int64_t ldb, int k, bool inside,
                     volatile float* piece) {
  int lane = threadIdx.x;
  bool vectors = reinterpret_cast<uintptr_t>(A) % 16 == 0;
  float sum = 0.0f;
  for (int p0 = 0; p0 < k; p0 += 32) {
    int steps = min(32, k - p0);
    if (vectors && steps == 32) {
      if (lane < 8) {
        float4 v = load_four(A + p0 + 4 * lane);
        piece[4 * lane] = v.x;
        piece[4 * lane + 1] = v.y;
        piece[4 * lane + 2] = v.z;
        piece[4 * lane + 3] = v.w;
      }
    } else if (lane < steps) {
      piece[lane] = load_once(A + p0 + lane);
    }
    __syncwarp();
    if (inside) {
      for (int p = 0; p < steps; ++p) {
        sum += piece[p] * __ldg(B + (p0 + p) * ldb);
      }
    }
    __syncwarp();
  }
  return sum;
}

__global__ void __launch_bounds__(ROWS* COLS) sgemm_kernel(Gemm g) {
  __shared__ float pieces[ROWS][COLS];
  Tile tile = tile_of_block(g, ROWS, COLS);
  int row = tile.row + threadIdx.y, col = tile.col + threadIdx.x;
  if (row >= g.m) {
    return;
  }
  float sum = dot(g.A + row * g.lda, g.B + min(col, g.n - 1), g.ldb, g.k, col < g.n, pieces[threadIdx.y]);
  if (col < g.n) {
    float* c = g.C + row * g.ldc + col;
    store_once(c, g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * __ldcs(c));
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(sgemm_kernel, tile_grid(g, ROWS, COLS), dim3(COLS, ROWS), 0, stream, g);
}

EXPORT_SGEMM(run)
