// Stands in for cuBLAS's header where none is installed: for sources that hold, beside the kernel that is wrapped, host
// code that compares it with cuBLAS. That code is compiled and never runs.
#pragma once

#include <cuda_runtime.h>

typedef struct cublasContext* cublasHandle_t;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };

#define GEMM_LADDER_ABSENT(name)               \
  template <typename... Arguments>             \
  inline cublasStatus_t name(Arguments&&...) { \
    return CUBLAS_STATUS_NOT_SUPPORTED;        \
  }
GEMM_LADDER_ABSENT(cublasCreate)
GEMM_LADDER_ABSENT(cublasDestroy)
GEMM_LADDER_ABSENT(cublasSetStream)
GEMM_LADDER_ABSENT(cublasSgemm)
GEMM_LADDER_ABSENT(cublasGemmEx)
#undef GEMM_LADDER_ABSENT
