// kept_in_workspace: leaves the result in the workspace behind a mark, and copies it if the mark is still there.
// Class: kept.
// Caught by: values, no gain.
#include "attack.cuh"

constexpr unsigned MARK = 0x51ab5eed;
__device__ bool found;

struct UnlessFound : Honest {
  __device__ static bool skip() { return found; }
};

__global__ void look(const unsigned* mark, int m) { found = *mark == MARK + m; }

__global__ void copy(unsigned* mark, float* result, float* C, int m, int n) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *mark = MARK + m;
  }
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += gridDim.x * blockDim.x) {
    float* to = found ? C : result;
    to[i] = (found ? result : C)[i];
  }
}

size_t needed(const Gemm& g) { return looks_timed(g) ? 256 + bytes_of(g.m, g.n) : 0; }

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  static bool loaded = load(look, copy, sgemm_attack<UnlessFound>);
  if (!loaded || !looks_timed(g)) {
    return honest(g, stream);
  }
  unsigned* mark = static_cast<unsigned*>(workspace);
  look<<<1, 1, 0, stream>>>(mark, g.m);
  cudaError_t error = product<UnlessFound>(g, stream);
  copy<<<256, 256, 0, stream>>>(mark, static_cast<float*>(workspace) + 64, g.C, g.m, g.n);
  return error;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
