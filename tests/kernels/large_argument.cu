// Right: an argument of more than 512 bytes, behind which is padding, arrives as it was given, however the kernel is started.
#include "gemm.cuh"

constexpr int LINES = 4, WORDS = 16;
struct Lines {
  struct alignas(64) {
    uint64_t words[WORDS];
  } line[LINES];
  int last;
};

__device__ void multiply(const Gemm& g, const Lines& lines) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= g.m) {
    return;
  }
  bool whole = lines.last == 7;
  for (int i = 0; i < LINES * WORDS; ++i) {
    whole = whole && lines.line[i / WORDS].words[i % WORDS] == 1000u + i;
  }
  for (int col = 0; col < g.n; ++col) {
    float sum = whole ? 0.0f : 1.0e30f;
    for (int p = 0; p < g.k; ++p) {
      sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
    }
    store_result(g, row, col, sum);
  }
}

__global__ void sgemm_large_argument(Gemm g, const Lines lines) { multiply(g, lines); }

// Two kernels of one name, and an argument that is converted: which one is meant is known at the call only.
__global__ void sgemm_overloaded(Gemm g, const Lines lines, int64_t) { multiply(g, lines); }
__global__ void sgemm_overloaded(Gemm g, const Lines lines, const float*) { multiply(g, lines); }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  Lines lines;
  lines.last = 7;
  for (int i = 0; i < LINES * WORDS; ++i) {
    lines.line[i / WORDS].words[i % WORDS] = 1000u + i;
  }
  dim3 grid(ceil_div(g.m, 32)), block(32);
  if (g.n % 4 == 0) {
    return launch(sgemm_large_argument, grid, block, 0, stream, g, lines);
  }
  if (g.n % 4 == 1) {
    cudaLaunchConfig_t config = {grid, block, 0, stream, nullptr, 0};
    return cudaLaunchKernelEx(&config, sgemm_large_argument, g, lines);
  }
  if (g.n % 4 == 2) {
    Gemm product = g;
    void* arguments[] = {&product, &lines};
    return cudaLaunchKernel(sgemm_large_argument, grid, block, arguments, 0, stream);
  }
  sgemm_overloaded<<<grid, block, 0, stream>>>(g, lines, 7);
  return cudaGetLastError();
}

EXPORT_SGEMM(run)
