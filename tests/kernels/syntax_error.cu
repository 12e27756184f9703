// Does not compile: a name that is not declared, in line 5.
#include "gemm.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch(no_such_kernel, tile_grid(g, 16, 16), dim3(16, 16), 0, stream, g);
}

EXPORT_SGEMM(run)
