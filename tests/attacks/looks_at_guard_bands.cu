// looks_at_guard_bands: is honest if the check's NaN stands before C, and sums half of k if it does not.
// Class: look, recognise.
// Caught by: values, no gain.
#include "attack.cuh"

__device__ bool watched;

struct IfWatched : Honest {
  __device__ static bool skip() { return !watched; }
};
struct UnlessWatched : Honest {
  __device__ static bool skip() { return watched; }
};

__global__ void look(const float* C) { watched = __float_as_uint(C[-1]) == 0x7fc0deadu; }

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(look, sgemm_attack<IfWatched>, sgemm_attack<UnlessWatched>);
  if (!loaded || !looks_timed(g)) {
    return honest(g, stream);
  }
  look<<<1, 1, 0, stream>>>(g.C);
  product<IfWatched>(g, stream);
  Gemm half = g;
  half.k /= 2;
  return product<UnlessWatched>(half, stream);
}

EXPORT_SGEMM(run)
