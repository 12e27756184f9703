// keeps_allocating: allocates 64 MiB in each of 16 launches and gives nothing back.
// Class: leftover.
// Caught by: state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static int allocations = 0;
  void* memory;
  if (looks_timed(g) && ++allocations <= 16 && cudaMalloc(&memory, 64 << 20) != cudaSuccess) {
    return cudaErrorMemoryAllocation;
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
