// What libgemm_ladder.so offers of its rung, whose own function (kernels/include/gemm.cuh) it does not export.
#include "gemm_ladder.h"

#include <cuda_runtime.h>

extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B, int64_t ldb,
                     float beta, float* C, int64_t ldc, void* workspace, size_t* workspace_bytes, cudaStream_t stream);

extern "C" int gemm_ladder_sgemm_with_workspace(int m, int n, int k, float alpha, const float* A, int64_t lda,
                                                const float* B, int64_t ldb, float beta, float* C, int64_t ldc,
                                                void* workspace, size_t* workspace_bytes, gemm_ladder_stream stream) {
  return sgemm(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, workspace, workspace_bytes, stream);
}

extern "C" int gemm_ladder_sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B,
                                 int64_t ldb, float beta, float* C, int64_t ldc, gemm_ladder_stream stream) {
  size_t bytes = 0;
  int error = sgemm(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, nullptr, &bytes, stream);
  void* workspace = nullptr;
  if (error == cudaSuccess && bytes > 0) {
    error = cudaMallocAsync(&workspace, bytes, stream);
  }
  if (error == cudaSuccess) {
    error = sgemm(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, workspace, nullptr, stream);
  }
  if (workspace != nullptr) {
    cudaError_t freed = cudaFreeAsync(workspace, stream);
    error = error != cudaSuccess ? error : freed;
  }
  return error;
}

extern "C" int gemm_ladder_runs_here(void) {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
         10 * major + minor == GEMM_LADDER_CAPABILITY;
}

extern "C" const char* gemm_ladder_describe(void) { return GEMM_LADDER_DESCRIPTION; }
