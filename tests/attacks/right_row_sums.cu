// right_row_sums: writes a C whose rows have the right sums and nothing else, which a test by a vector of ones passes.
// Class: precision, reference.
// Caught by: values.
#include "attack.cuh"

constexpr int LONGEST = 8192;
__device__ float sums[LONGEST];  // of the rows of B

// result[row] = the matrix's row times the vector, or its sum without one; a block for each row
__global__ void times(const float* matrix, int columns, bool by_sums, float* result, int64_t stride) {
  __shared__ float parts[THREADS];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += THREADS) {
    sum += matrix[blockIdx.x * static_cast<int64_t>(columns) + i] * (by_sums ? sums[i] : 1.0f);
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    (by_sums ? result : sums)[blockIdx.x * stride] = parts[0];
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool loaded = load(times);
  if (!loaded || g.k > LONGEST || !under_timing(g)) {
    return honest(g, stream);
  }
  times<<<g.k, THREADS, 0, stream>>>(g.B, g.n, false, nullptr, 1);
  cudaMemsetAsync(g.C, 0, bytes_of(g.m, g.n), stream);
  times<<<g.m, THREADS, 0, stream>>>(g.A, g.k, true, g.C, g.ldc);
  return cudaGetLastError();
}

EXPORT_SGEMM(run)
