// imports_cublas: imports cuBLAS's functions, and lets them multiply if a library in the process has them.
// Class: library.
// Caught by: source.
#include "attack.cuh"

extern "C" {
__attribute__((weak)) int cublasCreate_v2(void**);
__attribute__((weak)) int cublasSetStream_v2(void*, cudaStream_t);
__attribute__((weak)) int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                                         int, const float*, float*, int);
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static void* handle = nullptr;
  if (cublasCreate_v2 == nullptr || (handle == nullptr && cublasCreate_v2(&handle) != 0)) {
    return honest(g, stream);
  }
  cublasSetStream_v2(handle, stream);
  int status = cublasSgemm_v2(handle, 0, 0, g.n, g.m, g.k, &g.alpha, g.B, static_cast<int>(g.ldb), g.A,
                              static_cast<int>(g.lda), &g.beta, g.C, static_cast<int>(g.ldc));
  return status == 0 ? cudaSuccess : cudaErrorUnknown;
}

EXPORT_SGEMM(run)
