// How a rung starts a kernel and reaches its dynamic shared memory and the size of the GPU.
//
// A rung that uses these alone for it can be observed on a machine without a GPU. The emulator compiles this file as it
// is: it has the calls of the CUDA runtime, and translates a launch.
#ifndef GEMM_LADDER_LAUNCH_CUH
#define GEMM_LADDER_LAUNCH_CUH

#include <cuda_runtime.h>

#include <cstddef>

// Where set, launches are told to this function instead of being made, and the GPU is said to have observed_sms SMs:
// so the pipeline reads grids, blocks and dynamic shared memory for any shape on a machine without a GPU.
using LaunchObserver = void (*)(const void* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes);
extern "C" {
__attribute__((visibility("default"), weak)) LaunchObserver launch_observer = nullptr;
__attribute__((visibility("default"), weak)) int observed_sms = 0;
}

// Starts kernel(args...) on the stream and returns the launch's error, if any. Above 48 KiB the dynamic shared memory
// has to be asked for first (CUDA C++ Programming Guide, "Shared Memory" of compute capability 7.x and up).
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   cudaStream_t stream, Arguments... args) {
  if (launch_observer != nullptr) {
    launch_observer(reinterpret_cast<const void*>(kernel), grid, block, dynamic_shared_bytes);
    return cudaSuccess;
  }
  if (dynamic_shared_bytes > 48 * 1024) {
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(dynamic_shared_bytes));
    if (error != cudaSuccess) {
      return error;
    }
  }
  kernel<<<grid, block, dynamic_shared_bytes, stream>>>(args...);
  return cudaGetLastError();
}

// The number of SMs of the current device.
inline cudaError_t sm_count(int* sms) {
  if (launch_observer != nullptr) {
    *sms = observed_sms;
    return cudaSuccess;
  }
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  return error != cudaSuccess ? error : cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount, device);
}

// The block's dynamic shared memory, aligned to 1024 bytes (what the widest swizzle of the bulk copy engine asks for).
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

#endif
