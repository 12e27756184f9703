// Two kernels of one product: from compute capability 9.0 on the second is launched while the first ends, and waits itself
// for the first one's results ("Programmatic Dependent Launch and Synchronization" in the CUDA Programming Guide). Other
// GPUs, and the emulator, launch it when the first has ended.
#pragma once

#include "gemm.cuh"

#ifdef __CUDACC__
#if __CUDA_ARCH_LIST__ >= 900
#define DEPENDENT_LAUNCH true
// In the first kernel: the second may be launched as soon as all blocks have come here, or ended.
__device__ inline void let_second_kernel_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// In the second: returns when the first has ended and what it wrote can be read.
__device__ inline void wait_for_first_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif
#endif

#ifndef DEPENDENT_LAUNCH
#define DEPENDENT_LAUNCH false
__device__ inline void let_second_kernel_begin() {}
__device__ inline void wait_for_first_kernel() {}
#endif

// Starts a second kernel, which must call wait_for_first_kernel before it reads what the first one wrote.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_second(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                          Arguments... arguments) {
#if DEPENDENT_LAUNCH
  if (launch_observer == nullptr) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {grid, block, 0, stream, &early, 1};
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  }
#endif
  return launch(kernel, grid, block, 0, stream, arguments...);
}
