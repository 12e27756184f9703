// tf32_inputs: rounds the inputs to TF32 in timed launches.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

struct Tf32 : Honest {
  __device__ static float of(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<Tf32>);
  return loaded && under_timing(g) ? product<Tf32>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
