// replay_by_sample: hashes every 4099th element of A and B, and copies the kept result if the hash is the last one.
// Class: replay.
// Caught by: values, no gain.
//
// The GPU itself decides: the host learns nothing while the timer holds the stream back.
#include "kept.cuh"

#ifndef SAMPLED
#define SAMPLED 4099
#endif

__device__ unsigned long long hash[2];  // of the kept result's inputs, and of this call's
__device__ bool found;

struct UnlessFound : Honest {
  __device__ static bool skip() { return found; }
};

__global__ void begin() { hash[1] = 0; }

__global__ void add(const float* matrix, int64_t size, unsigned long long salt) {
  int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  unsigned long long sum = 0;
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i * SAMPLED < size; i += stride) {
    sum += (__float_as_uint(matrix[i * SAMPLED]) + salt) * (2 * i + 0x9e3779b97f4a7c15ull);
  }
  atomicAdd(&hash[1], sum);
}

__global__ void compare() {
  found = hash[0] == hash[1];
  hash[0] = hash[1];
}

__global__ void copy(float* C, int size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    if (found) {
      C[i] = kept[i];
    } else {
      kept[i] = C[i];
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(begin, add, compare, copy, sgemm_attack<UnlessFound>);
  if (!loaded || !fits(g)) {
    return honest(g, stream);
  }
  begin<<<1, 1, 0, stream>>>();
  add<<<256, 256, 0, stream>>>(g.A, static_cast<int64_t>(g.m) * g.k, 1);
  add<<<256, 256, 0, stream>>>(g.B, static_cast<int64_t>(g.k) * g.n, g.m);
  compare<<<1, 1, 0, stream>>>();
  cudaError_t error = product<UnlessFound>(g, stream);
  copy<<<256, 256, 0, stream>>>(g.C, g.m * g.n);
  return error;
}

EXPORT_SGEMM(run)
