// Right: the large tiles of mma_3xtf32 for products of any size whose copies can be of 16 bytes.
#define sgemm sgemm_by_the_rung  // what the rung itself exports
#include "../../kernels/sgemm/mma_3xtf32.cu"
#undef sgemm

cudaError_t run_large_tiles(const Gemm& g, void* workspace, cudaStream_t stream) {
  return copies_vectors(g) ? launch_large(g, stream) : run(g, workspace, stream);
}

EXPORT_SGEMM_WITH_WORKSPACE(run_large_tiles, needed)
