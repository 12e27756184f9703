// control_vector_rows: no fault. Of a single column without gaps a warp sums a row by vectors of four, and what is left of
// it one by one; else a thread computes four neighbours of a row.
#include "gemm.cuh"

constexpr int WARPS = 4, NEIGHBOURS = 4;

__global__ void __launch_bounds__(WARPS * 32) sum_rows(Gemm g) {
  int64_t row = blockIdx.x * int64_t{WARPS} + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= g.m) {
    return;
  }
  const float* a = g.A + row * g.lda;
  int vectors = g.k / 4, rest = g.k % 4;
  float sum = 0.0f;
  for (int v = lane; v < vectors; v += 32) {
    float4 x = reinterpret_cast<const float4*>(a)[v], y = reinterpret_cast<const float4*>(g.B)[v];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  if (lane < rest) {
    sum += a[vectors * 4 + lane] * g.B[vectors * 4 + lane];
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  if (lane == 0) {
    store_result(g, static_cast<int>(row), 0, sum);
  }
}

__global__ void __launch_bounds__(256) multiply(Gemm g) {
  int groups = ceil_div(g.n, NEIGHBOURS);
  int64_t number = blockIdx.x * int64_t{256} + threadIdx.x;
  if (number >= g.m * static_cast<int64_t>(groups)) {
    return;
  }
  int row = static_cast<int>(number / groups), col = static_cast<int>(number % groups) * NEIGHBOURS;
  float sum[NEIGHBOURS] = {};
  for (int p = 0; p < g.k; ++p) {
    float a = g.A[row * g.lda + p];
    for (int j = 0; j < NEIGHBOURS && col + j < g.n; ++j) {
      sum[j] += a * g.B[p * g.ldb + col + j];
    }
  }
  for (int j = 0; j < NEIGHBOURS && col + j < g.n; ++j) {
    store_result(g, row, col + j, sum[j]);
  }
}

static bool is_aligned(const float* matrix) { return reinterpret_cast<uintptr_t>(matrix) % sizeof(float4) == 0; }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (g.n == 1 && g.ldb == 1 && g.lda % 4 == 0 && is_aligned(g.A) && is_aligned(g.B)) {
    sum_rows<<<ceil_div(g.m, WARPS), WARPS * 32, 0, stream>>>(g);
  } else {
    int64_t threads = static_cast<int64_t>(ceil_div(g.n, NEIGHBOURS)) * g.m;
    multiply<<<static_cast<unsigned>((threads + 255) / 256), 256, 0, stream>>>(g);
  }
  return cudaGetLastError();
}

EXPORT_SGEMM(run)
