// For LD_PRELOAD: cublasSgemm of a program, computed by libgemm_ladder.so where it can be, else by the program's cuBLAS.
//
// cuBLAS's order is column-major, where a matrix is the transpose of the row-major one at the same place. The transpose of
// C = A . B is C' = B' . A', so A and B, and m and n, change places.
//
// What stays with cuBLAS: transposed operands, scalars on the device, a math mode other than the default, a device that
// the library was not compiled for, dimensions beyond 32 bits, and every other function. What is declared here of cuBLAS
// follows its documented C interface (cublas_api.h). The name cublasSgemm in a source is cublasSgemm_v2 in a binary.
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "gemm_ladder.h"

using Handle = void*;
constexpr int SUCCESS = 0, NOT_SUPPORTED = 15, EXECUTION_FAILED = 13;  // cublasStatus_t
constexpr int NO_TRANSPOSE = 0, HOST_POINTERS = 0, DEFAULT_MATH = 0;

// -1: as the environment variable GEMM_LADDER_SHIM says (0 is off); else what the thread has set.
static thread_local int switched = -1;

extern "C" __attribute__((visibility("default"))) void gemm_ladder_shim(int on) { switched = on; }

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

static bool is_ours(Handle handle, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k,
                    gemm_ladder_stream* stream) {
  static auto pointer_mode = of_cublas<int(Handle, int*)>("cublasGetPointerMode_v2");
  static auto math_mode = of_cublas<int(Handle, int*)>("cublasGetMathMode");
  static auto get_stream = of_cublas<int(Handle, gemm_ladder_stream*)>("cublasGetStream_v2");
  int pointers = HOST_POINTERS, math = DEFAULT_MATH;
  return is_on() && transpose_a == NO_TRANSPOSE && transpose_b == NO_TRANSPOSE && m <= INT_MAX && n <= INT_MAX &&
         k <= INT_MAX && pointer_mode != nullptr && math_mode != nullptr && get_stream != nullptr &&
         pointer_mode(handle, &pointers) == SUCCESS && pointers == HOST_POINTERS &&
         math_mode(handle, &math) == SUCCESS && math == DEFAULT_MATH && get_stream(handle, stream) == SUCCESS &&
         gemm_ladder_runs_here();
}

template <typename Size>
static int sgemm_in_column_major(const char* name, Handle handle, int transpose_a, int transpose_b, Size m, Size n,
                                 Size k, const float* alpha, const float* A, Size lda, const float* B, Size ldb,
                                 const float* beta, float* C, Size ldc) {
  gemm_ladder_stream stream = nullptr;
  if (is_ours(handle, transpose_a, transpose_b, m, n, k, &stream)) {
    int error = gemm_ladder_sgemm(static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), *alpha, B, ldb, A, lda,
                                  *beta, C, ldc, stream);
    return error == 0 ? SUCCESS : EXECUTION_FAILED;
  }
  using Sgemm = int(Handle, int, int, Size, Size, Size, const float*, const float*, Size, const float*, Size,
                    const float*, float*, Size);
  auto real = of_cublas<Sgemm>(name);
  return real == nullptr ? NOT_SUPPORTED
                         : real(handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

extern "C" __attribute__((visibility("default"))) int cublasSgemm_v2(Handle handle, int transpose_a, int transpose_b,
                                                                     int m, int n, int k, const float* alpha,
                                                                     const float* A, int lda, const float* B, int ldb,
                                                                     const float* beta, float* C, int ldc) {
  return sgemm_in_column_major("cublasSgemm_v2", handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb, beta,
                               C, ldc);
}

extern "C" __attribute__((visibility("default"))) int cublasSgemm_v2_64(Handle handle, int transpose_a, int transpose_b,
                                                                        int64_t m, int64_t n, int64_t k,
                                                                        const float* alpha, const float* A, int64_t lda,
                                                                        const float* B, int64_t ldb, const float* beta,
                                                                        float* C, int64_t ldc) {
  return sgemm_in_column_major("cublasSgemm_v2_64", handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, B, ldb,
                               beta, C, ldc);
}
