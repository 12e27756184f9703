// Right: one thin kernel of `fastest`, KERNEL, with its work cut as CUT says, for the products that it takes.
#define sgemm sgemm_by_the_model  // what the rung itself exports
#include "../../kernels/sgemm/fastest.cu"
#undef sgemm

cudaError_t run_one_cut(const Gemm& g, void*, cudaStream_t stream) { return KERNEL(g, Cut{CUT}, stream); }

EXPORT_SGEMM(run_one_cut)
