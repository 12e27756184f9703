// Right: the large tiles of mma_3xtf32 for products of any size whose copies can be of 16 bytes.
#include "split_large.cuh"

cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  using Other = SplitTiling<64, 128, 16, 32, 64, 4, 2, 16>;
  return by_vectors(g) ? run_large(g, stream) : run_mma<Other>(g, workspace, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run, mma_workspace)
