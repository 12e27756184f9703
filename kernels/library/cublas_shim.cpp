// For LD_PRELOAD: a program's cublasSgemm, and cublasGemmEx of FP32 matrices in FP32, computed by libgemm_ladder.so where
// it can be, else by the program's cuBLAS.
//
// cuBLAS's order is column-major, where a matrix is the transpose of the row-major one at the same place. The transpose of
// C = A . B is C' = B' . A', so A and B, and m and n, change places.
//
// The library takes transposed operands, by a copy. FP32 matrices have no imaginary part, so the conjugate transpose is the
// transpose.
//
// What stays with cuBLAS: scalars on the device, a math mode other than the default, a device that
// the library was not compiled for, dimensions beyond 32 bits, and every other function. What is declared here of cuBLAS
// follows its documented C interface (cublas_api.h). The name cublasSgemm in a source is cublasSgemm_v2 in a binary.
#include <dlfcn.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "gemm_ladder.h"

using Handle = void*;
constexpr int SUCCESS = 0, NOT_SUPPORTED = 15, EXECUTION_FAILED = 13;  // cublasStatus_t
constexpr int NO_TRANSPOSE = 0, CONJUGATE = 2, HOST_POINTERS = 0, DEFAULT_MATH = 0;
constexpr int FP32 = 0, COMPUTE_FP32 = 68;  // CUDA_R_32F, CUBLAS_COMPUTE_32F

// -1: as the environment variable GEMM_LADDER_SHIM says (0 is off, `report` counts); else what the thread has set.
static thread_local int switched = -1;

extern "C" __attribute__((visibility("default"))) void gemm_ladder_shim(int on) { switched = on; }

// The products in FP32 that were computed by our library, and those that went on to cuBLAS.
static std::atomic<long> calls[2];

__attribute__((destructor)) static void report() {
  const char* asked = std::getenv("GEMM_LADDER_SHIM");
  if (asked != nullptr && std::strcmp(asked, "report") == 0) {
    long ours = calls[0], all = ours + calls[1];
    std::fprintf(stderr, "gemm_ladder: %ld of %ld FP32 products by %s\n", ours, all, gemm_ladder_describe());
  }
}

static bool is_on() {
  const char* asked = std::getenv("GEMM_LADDER_SHIM");
  return switched >= 0 ? switched != 0 : asked == nullptr || std::strcmp(asked, "0") != 0;
}

// A function of the program's own cuBLAS: behind this library in the order of symbols, or of one that it has opened.
template <typename Function>
static Function* of_cublas(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  for (const char* file : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}) {
    void* library = found == nullptr ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    found = library != nullptr ? dlsym(library, name) : found;
  }
  return reinterpret_cast<Function*>(found);
}

static bool is_operation(int operation) { return operation >= NO_TRANSPOSE && operation <= CONJUGATE; }

static bool is_ours(Handle handle, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k,
                    gemm_ladder_stream* stream) {
  static auto pointer_mode = of_cublas<int(Handle, int*)>("cublasGetPointerMode_v2");
  static auto math_mode = of_cublas<int(Handle, int*)>("cublasGetMathMode");
  static auto get_stream = of_cublas<int(Handle, gemm_ladder_stream*)>("cublasGetStream_v2");
  int pointers = HOST_POINTERS, math = DEFAULT_MATH;
  return is_on() && is_operation(transpose_a) && is_operation(transpose_b) && m <= INT_MAX && n <= INT_MAX &&
         k <= INT_MAX && pointer_mode != nullptr && math_mode != nullptr && get_stream != nullptr &&
         pointer_mode(handle, &pointers) == SUCCESS && pointers == HOST_POINTERS &&
         math_mode(handle, &math) == SUCCESS && math == DEFAULT_MATH && get_stream(handle, stream) == SUCCESS &&
         gemm_ladder_runs_here();
}

// Whether the product, in column-major order, is computed by our library; then with the status for the program.
template <typename Size>
static bool is_computed(Handle handle, int transpose_a, int transpose_b, Size m, Size n, Size k, const float* alpha,
                        const float* A, Size lda, const float* B, Size ldb, const float* beta, float* C, Size ldc,
                        int* status) {
  gemm_ladder_stream stream = nullptr;
  bool ours = is_ours(handle, transpose_a, transpose_b, m, n, k, &stream);
  calls[ours ? 0 : 1].fetch_add(1, std::memory_order_relaxed);
  if (ours) {
    int error = gemm_ladder_sgemm_transposed(transpose_b != NO_TRANSPOSE, transpose_a != NO_TRANSPOSE,
                                             static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), *alpha, B,
                                             ldb, A, lda, *beta, C, ldc, stream);
    *status = error == 0 ? SUCCESS : EXECUTION_FAILED;
  }
  return ours;
}

template <typename... Arguments>
static int by_cublas(const char* name, Arguments... arguments) {
  auto real = of_cublas<int(Arguments...)>(name);
  return real == nullptr ? NOT_SUPPORTED : real(arguments...);
}

#define SHIM extern "C" __attribute__((visibility("default"))) int

#define SHIM_OF_SGEMM(NAME, Size)                                                                                  \
  SHIM NAME(Handle handle, int transpose_a, int transpose_b, Size m, Size n, Size k, const float* alpha,           \
            const float* A, Size lda, const float* B, Size ldb, const float* beta, float* C, Size ldc) {           \
    int status = SUCCESS;                                                                                          \
    return is_computed(handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, &status)    \
               ? status                                                                                            \
               : by_cublas(#NAME, handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc); \
  }

// A product of FP32 matrices in FP32 is the same as that of cublasSgemm; every other goes on uncounted.
#define SHIM_OF_GEMM_EX(NAME, Size)                                                                                    \
  SHIM NAME(Handle handle, int transpose_a, int transpose_b, Size m, Size n, Size k, const void* alpha, const void* A, \
            int type_a, Size lda, const void* B, int type_b, Size ldb, const void* beta, void* C, int type_c,          \
            Size ldc, int compute, int algorithm) {                                                                    \
    int status = SUCCESS;                                                                                              \
    bool is_sgemm = type_a == FP32 && type_b == FP32 && type_c == FP32 && compute == COMPUTE_FP32;                     \
    return is_sgemm && is_computed(handle, transpose_a, transpose_b, m, n, k, static_cast<const float*>(alpha),        \
                                   static_cast<const float*>(A), lda, static_cast<const float*>(B), ldb,               \
                                   static_cast<const float*>(beta), static_cast<float*>(C), ldc, &status)              \
               ? status                                                                                                \
               : by_cublas(#NAME, handle, transpose_a, transpose_b, m, n, k, alpha, A, type_a, lda, B, type_b, ldb,    \
                           beta, C, type_c, ldc, compute, algorithm);                                                  \
  }

SHIM_OF_SGEMM(cublasSgemm_v2, int)
SHIM_OF_SGEMM(cublasSgemm_v2_64, int64_t)
SHIM_OF_GEMM_EX(cublasGemmEx, int)
SHIM_OF_GEMM_EX(cublasGemmEx_64, int64_t)
