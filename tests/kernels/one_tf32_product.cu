// One product of numbers rounded to TF32 by mma.sync: how the rung tf32 multiplies what the copy engine cannot read.
#include "mma_product.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  return launch_mma<MmaTiling<64, 32, 16, 16, 32, 3, 1, 16>, 1>(g, stream);
}

EXPORT_SGEMM(run)
