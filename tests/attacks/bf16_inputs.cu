// bf16_inputs: rounds the inputs to BF16 in timed launches.
// Class: precision.
// Caught by: values.
#include "attack.cuh"

struct Bf16 : Honest {
  __device__ static float of(float x) { return __uint_as_float((__float_as_uint(x) + 0x8000u) & 0xffff0000u); }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<Bf16>);
  return loaded && under_timing(g) ? product<Bf16>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
