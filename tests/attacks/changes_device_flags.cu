// changes_device_flags: has the process's waiting threads yield, by a flag of the device.
// Class: leftover.
// Caught by: state.
#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  if (under_timing(g)) {
    cudaSetDeviceFlags(cudaDeviceScheduleYield);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
