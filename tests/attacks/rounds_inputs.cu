// rounds_inputs: rounds A to BF16 where it lies, and multiplies what it has put there.
// Class: inputs changed.
// Caught by: values, state.
#include "attack.cuh"

__global__ void round_all(float* A, int size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    A[i] = __uint_as_float((__float_as_uint(A[i]) + 0x8000u) & 0xffff0000u);
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(round_all);
  if (loaded && under_timing(g)) {
    round_all<<<256, 256, 0, stream>>>(const_cast<float*>(g.A), g.m * g.k);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
