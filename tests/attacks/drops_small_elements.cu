// drops_small_elements: counts inputs below 2^-7 as 0 in timed launches.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

struct Large : Honest {
  __device__ static float of(float x) { return fabsf(x) < 0x1p-7f ? 0.0f : x; }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<Large>);
  return loaded && under_timing(g) ? product<Large>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
