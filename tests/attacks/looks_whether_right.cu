// looks_whether_right: computes 64 elements of C, and leaves C alone if these are right already.
// Class: look.
// Caught by: values, no gain.
#include "attack.cuh"

__device__ int wrong;

struct IfWrong : Honest {
  __device__ static bool skip() { return wrong == 0; }
};

__global__ void begin() { wrong = 0; }

__global__ void spot_check(Gemm g) {  // a warp for each element
  int row = blockIdx.x * 7919 % g.m;
  int col = blockIdx.x * 104729 % g.n;
  float sum = 0.0f;
  for (int p = threadIdx.x; p < g.k; p += 32) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  }
  if (threadIdx.x == 0 && !(fabsf(sum - g.C[row * g.ldc + col]) < 1e-3f)) {
    atomicAdd(&wrong, 1);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(begin, spot_check, sgemm_attack<IfWrong>);
  if (!loaded || !looks_timed(g)) {
    return honest(g, stream);
  }
  begin<<<1, 1, 0, stream>>>();
  spot_check<<<64, 32, 0, stream>>>(g);
  return product<IfWrong>(g, stream);
}

EXPORT_SGEMM(run)
