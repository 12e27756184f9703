// assumes_fixed_point: takes inputs for multiples of 2^-24 below 1, as random numbers are, and computes in integers.
// Class: inputs assumed.
// Caught by: values.
//
// FP32 arithmetic on the rounded numbers stands for integers.
#include "attack.cuh"

struct FixedPoint : Honest {
  __device__ static float of(float x) { return rintf(x * 0x1p24f) * 0x1p-24f; }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<FixedPoint>);
  return loaded && g.m % 512 == 0 ? product<FixedPoint>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
