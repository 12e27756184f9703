// borrows_cublas: finds the cuBLAS that the baseline beside it has loaded, and lets it multiply.
// Class: library, recognise.
// Caught by: source.
#include <dlfcn.h>

#include "attack.cuh"

using Create = int (*)(void**);
using SetStream = int (*)(void*, cudaStream_t);
using Multiply = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                         const float*, float*, int);

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static void* handle = nullptr;
  void* library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr || !looks_timed(g)) {
    return honest(g, stream);
  }
  if (handle == nullptr) {
    reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"))(&handle);
  }
  reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"))(handle, stream);
  int status = reinterpret_cast<Multiply>(dlsym(library, "cublasSgemm_v2"))(handle, 0, 0, g.n, g.m, g.k, &g.alpha, g.B,
                                                                            g.n, g.A, g.k, &g.beta, g.C, g.n);
  return status == 0 ? cudaSuccess : cudaErrorUnknown;
}

EXPORT_SGEMM(run)
