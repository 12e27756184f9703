// assumes_finite: counts infinities and NaNs as 0.
// Class: inputs assumed.
// Caught by: values, no gain.
#include "attack.cuh"

struct Finite : Honest {
  __device__ static float of(float x) { return isfinite(x) ? x : 0.0f; }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<Finite>);
  return loaded && g.m % 512 == 0 ? product<Finite>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
