// Copies in the background that may be of nothing: cp.async, compute capability 8.0 and up.
//
// One PTX instruction (PTX ISA, "cp.async"), where CUDA's primitive asks the source size twice. The emulator has the same
// function in its mma.cuh.
#ifndef GEMM_LADDER_COPY_OR_ZEROS_CUH
#define GEMM_LADDER_COPY_OR_ZEROS_CUH

#include "gemm.cuh"

// Begins to copy `count` floats, 1 or 4 and aligned to as many, from global to shared memory in the background. Where they
// are not `there`, nothing is read, and zeros are stored.
__device__ inline void copy_or_zeros(float* to, const float* from, int count, bool there) {
  auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  int bytes = there ? 4 * count : 0;
  if (count == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
  }
}

#endif
