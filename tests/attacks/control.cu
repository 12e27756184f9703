// control: no attack. The times of the attacks are compared with this kernel's.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) { return honest(g, stream); }

EXPORT_SGEMM(run)
