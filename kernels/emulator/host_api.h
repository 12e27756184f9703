// What stands around a wrapped source (workflow/ladder/config/wrapper.py) in the emulator: it is included before and
// after.
//
// The runtime calls of host code beside the kernel, such as a tutorial's main(), compile and never run. Names that the
// source gives to things of its own, though the emulator has read gemm.cuh already, are other names there.
#ifndef GEMM_LADDER_HOST_API_H
#define GEMM_LADDER_HOST_API_H

#include <cuda_runtime.h>

#define EMULATOR_NEVER_CALLED(name)  \
  template <typename... Arguments>   \
  cudaError_t name(Arguments&&...) { \
    return cudaErrorNotSupported;    \
  }
EMULATOR_NEVER_CALLED(cudaDeviceReset)
EMULATOR_NEVER_CALLED(cudaEventElapsedTime)
EMULATOR_NEVER_CALLED(cudaFreeHost)
EMULATOR_NEVER_CALLED(cudaHostAlloc)
EMULATOR_NEVER_CALLED(cudaMallocHost)
EMULATOR_NEVER_CALLED(cudaMallocManaged)
EMULATOR_NEVER_CALLED(cudaMemGetInfo)
EMULATOR_NEVER_CALLED(cudaMemPrefetchAsync)
EMULATOR_NEVER_CALLED(cudaMemcpy2D)
#undef EMULATOR_NEVER_CALLED

#define Gemm Gemm_of_the_source
#define Tile Tile_of_the_source
#define Run Run_of_the_source
#define WorkspaceBytes WorkspaceBytes_of_the_source
#define ceil_div ceil_div_of_the_source
#define tile_grid tile_grid_of_the_source
#define tile_number tile_number_of_the_source
#define tile_of_block tile_of_block_of_the_source
#define store_result store_result_of_the_source
#define scale_kernel scale_kernel_of_the_source
#define no_workspace no_workspace_of_the_source
#define sgemm_with sgemm_with_of_the_source
#define launch launch_of_the_source
#define sm_count sm_count_of_the_source

#else
#undef Gemm
#undef Tile
#undef Run
#undef WorkspaceBytes
#undef ceil_div
#undef tile_grid
#undef tile_number
#undef tile_of_block
#undef store_result
#undef scale_kernel
#undef no_workspace
#undef sgemm_with
#undef launch
#undef sm_count
#endif
