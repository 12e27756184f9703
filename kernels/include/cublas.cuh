// A rung that is NVIDIA's library: cuBLAS SGEMM with one of its math modes.
//
// cuBLAS computes in column-major order, where the row-major matrices A, B and C are their own transposes. The
// transpose of C = A . B is C' = B' . A', so the operands change places and nothing is transposed.
//
// The library is loaded when it is first needed, under the
// name that the environment variable GEMM_LADDER_CUBLAS gives, so that a rung compiles and links without it. What is
// declared here of cuBLAS follows its documented C interface (cublas_api.h).
#pragma once

#include <dlfcn.h>

#include <climits>
#include <cstdlib>

#include "gemm.cuh"

using Handle = void*;
using Sgemm64 = int (*)(Handle, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const float* alpha,
                        const float* A, int64_t lda, const float* B, int64_t ldb, const float* beta, float* C,
                        int64_t ldc);
using Sgemm32 = int (*)(Handle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha,
                        const float* A, int lda, const float* B, int ldb, const float* beta, float* C, int ldc);

constexpr int NO_TRANSPOSE = 0;
constexpr int DEFAULT_MATH = 0;         // FP32 FMAs
constexpr int TF32_TENSOR_OP_MATH = 3;  // inputs may be rounded to TF32

struct Cublas {
  Handle handle = nullptr;
  int (*set_stream)(Handle, cudaStream_t) = nullptr;
  Sgemm32 sgemm32 = nullptr;
  Sgemm64 sgemm64 = nullptr;
};

// One handle a process, on the device that is current at the first call; handle stays null where that fails.
inline Cublas load_cublas(int math) {
  Cublas cublas;
  const char* path = std::getenv("GEMM_LADDER_CUBLAS");
  void* library = dlopen(path != nullptr ? path : "libcublas.so", RTLD_NOW);
  if (library == nullptr) {
    return cublas;
  }
  auto create = reinterpret_cast<int (*)(Handle*)>(dlsym(library, "cublasCreate_v2"));
  auto set_math = reinterpret_cast<int (*)(Handle, int)>(dlsym(library, "cublasSetMathMode"));
  cublas.set_stream = reinterpret_cast<int (*)(Handle, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
  cublas.sgemm32 = reinterpret_cast<Sgemm32>(dlsym(library, "cublasSgemm_v2"));
  cublas.sgemm64 = reinterpret_cast<Sgemm64>(dlsym(library, "cublasSgemm_v2_64"));
  Handle handle = nullptr;
  if (create != nullptr && set_math != nullptr && cublas.set_stream != nullptr && cublas.sgemm32 != nullptr &&
      create(&handle) == 0 && set_math(handle, math) == 0) {
    cublas.handle = handle;
  }
  return cublas;
}

template <int MATH>
cudaError_t run_cublas(const Gemm& g, void*, cudaStream_t stream) {
  if (launch_observer != nullptr) {
    return cudaSuccess;  // the kernels that cuBLAS would launch are its own secret
  }
  static const Cublas cublas = load_cublas(MATH);
  if (cublas.handle == nullptr) {
    return cudaErrorSharedObjectInitFailed;
  }
  const float beta = g.beta == 0.0f ? 0.0f : g.beta;  // of a beta of -0.0 some of its kernels read C
  int status = cublas.set_stream(cublas.handle, stream);
  if (status == 0) {
    bool narrow = g.lda <= INT_MAX && g.ldb <= INT_MAX && g.ldc <= INT_MAX;
    if (!narrow && cublas.sgemm64 == nullptr) {
      return cudaErrorNotSupported;
    }
    status = narrow ? cublas.sgemm32(cublas.handle, NO_TRANSPOSE, NO_TRANSPOSE, g.n, g.m, g.k, &g.alpha, g.B,
                                     static_cast<int>(g.ldb), g.A, static_cast<int>(g.lda), &beta, g.C,
                                     static_cast<int>(g.ldc))
                    : cublas.sgemm64(cublas.handle, NO_TRANSPOSE, NO_TRANSPOSE, g.n, g.m, g.k, &g.alpha, g.B, g.ldb,
                                     g.A, g.lda, &beta, g.C, g.ldc);
  }
  return status == 0 ? cudaSuccess : cudaErrorUnknown;
}
