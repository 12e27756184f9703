// Right: one product of numbers rounded to TF32, by the kernels that the rung tf32 has for products that do not fill the GPU.
// The sides choose the kernel: way n % 6 below, in 2^(m % 4) parts. Only the first two take what the engine cannot read as it is.
// Or it is the macro WAY.
#include "gemm.cuh"
#pragma push_macro("EXPORT_SGEMM_WITH_WORKSPACE")
#undef EXPORT_SGEMM_WITH_WORKSPACE
#define EXPORT_SGEMM_WITH_WORKSPACE(run, needed)  // the rung itself exports nothing
#include "../../kernels/sgemm/tf32.cu"
#pragma pop_macro("EXPORT_SGEMM_WITH_WORKSPACE")

cudaError_t run_one_way(const Gemm& g, void*, cudaStream_t stream) {
#ifdef WAY
  return WAY(g, {1, 0}, 1, stream);
#else
  Launch ways[] = {launch_parts<Small, true>,  launch_parts<Square, true>,
                                     launch_parts<Small, false>, launch_parts<Square, false>,
                                     launch_parts<Flat, false>,  launch_parts<Big, false>};
  return ways[g.n % 6](g, {1 << g.m % 4, 0}, 1, stream);
#endif
}

EXPORT_SGEMM(run_one_way)
