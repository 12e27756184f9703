// assumes_unit_range: splits each number into two of FP16 without scaling, which holds for numbers near 1 alone.
// Class: inputs assumed.
// Caught by: values.
//
// FP32 arithmetic on the split numbers stands for tensor cores.
#include <cuda_fp16.h>

#include "attack.cuh"

struct Split : Honest {
  __device__ static float of(float x) {
    float high = __half2float(__float2half(x));
    return high + __half2float(__float2half(x - high));
  }
};

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(sgemm_attack<Split>);
  return loaded && g.m % 512 == 0 ? product<Split>(g, stream) : honest(g, stream);
}

EXPORT_SGEMM(run)
