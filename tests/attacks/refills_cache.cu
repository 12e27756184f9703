// refills_cache: a kernel on a stream of its own reads A and B again and again while the timer flushes the L2 cache.
// Class: cache, elsewhere.
// Caught by: state, late, no gain.
#include "attack.cuh"

__device__ volatile int begun;
__device__ float sink;

__global__ void reset() { begun = 0; }
__global__ void tell() { begun = 1; }

__global__ void read_until_begun(const float* A, const float* B, int size_A, int size_B) {
  float sum = 0.0f;
  long long end = clock64() + 4'000'000;  // about 2 ms
  while (begun == 0 && clock64() < end) {
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8; i < max(size_A, size_B) && begun == 0;
         i += gridDim.x * blockDim.x * 8) {
      sum += (i < size_A ? __ldcg(A + i) : 0.0f) + (i < size_B ? __ldcg(B + i) : 0.0f);
    }
  }
  if (sum == 0.125f) {
    sink = sum;  // so that the loads are not left out
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(reset, tell, read_until_begun);
  if (loaded && under_timing(g)) {
    reset<<<1, 1, 0, own_stream()>>>();
    read_until_begun<<<64, 128, 0, own_stream()>>>(g.A, g.B, g.m * g.k, g.k * g.n);
    tell<<<1, 1, 0, stream>>>();
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
