// NVIDIA's occupancy calculator (cuda_occupancy.h), as one C function for Python.
#include <cstddef>
#include <cstdint>

#include "cuda_occupancy.h"

// CUDA 12's calculator knows no barriers.
template <class Kernel>
auto one_barrier(Kernel& kernel, int) -> decltype(kernel.numBlockBarriers, void()) {
  kernel.numBlockBarriers = 1;
}
template <class Kernel>
void one_barrier(Kernel&, long) {}

// Blocks of a kernel that an SM holds at once, and the most that each resource alone would let it hold.
// `result`: active blocks, limits by warps, registers, shared memory, blocks; the limiting factors as bits (cudaOccLimitingFactor).
extern "C" int occupancy(int major, int minor, int sms, int max_threads_per_sm, int registers_per_sm,
                         size_t shared_per_sm, size_t shared_per_block, int registers, size_t static_shared,
                         int threads, size_t dynamic_shared, int* result) {
  cudaOccDeviceProp device;
  device.computeMajor = major;
  device.computeMinor = minor;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = max_threads_per_sm;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = registers_per_sm;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = shared_per_sm;
  device.numSms = sms;
  device.sharedMemPerBlockOptin = shared_per_block;
  device.reservedSharedMemPerBlock = major >= 8 ? 1024 : 0;  // CUDA's own share of each block's

  cudaOccFuncAttributes kernel{};
  kernel.maxThreadsPerBlock = 1024;
  kernel.numRegs = registers;
  kernel.sharedSizeBytes = static_shared;
  kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = shared_per_block - static_shared;
  one_barrier(kernel, 0);

  cudaOccDeviceState state;
  cudaOccResult found;
  int error = cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, threads, dynamic_shared);
  if (error == CUDA_OCC_SUCCESS) {
    result[0] = found.activeBlocksPerMultiprocessor;
    result[1] = found.blockLimitWarps;
    result[2] = found.blockLimitRegs;
    result[3] = found.blockLimitSharedMem;
    result[4] = found.blockLimitBlocks;
    result[5] = static_cast<int>(found.limitingFactors);
  }
  return error;
}
