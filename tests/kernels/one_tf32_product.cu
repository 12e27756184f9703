// Right: one product of numbers rounded to TF32, by the small tiles of the rung tf32 for products of any size.
#include "gemm.cuh"
#pragma push_macro("EXPORT_SGEMM_WITH_WORKSPACE")
#undef EXPORT_SGEMM_WITH_WORKSPACE
#define EXPORT_SGEMM_WITH_WORKSPACE(run, needed)  // the rung itself exports nothing
#include "../../kernels/sgemm/tf32.cu"
#pragma pop_macro("EXPORT_SGEMM_WITH_WORKSPACE")

cudaError_t run_small_tiles(const Gemm& g, void*, cudaStream_t stream) {
  bool engine = vector_width(g.A, g.lda) == 4 && vector_width(g.B, g.ldb) == 4;
  return engine ? launch_parts<Small, false>(g, {1, 0}, 1, stream) : launch_parts<Small, true>(g, {1, 0}, 1, stream);
}

EXPORT_SGEMM(run_small_tiles)
