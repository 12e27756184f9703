// A kernel that is there as a cubin: loaded and launched through the driver, which the CUDA runtime leads to.
//
// It is included inside namespace gemm_ladder, behind wrap.cuh and, outside that namespace, cuda.h.
#pragma once

// As a kernel takes them: whole numbers as 64 bits, of which a parameter of 32 bits is the lower half, as addresses
// begin with it.
inline int64_t as_parameter(int64_t value) { return value; }
inline float as_parameter(Scalar value) { return value.value; }
inline const void* as_parameter(Pointer value) { return value.address; }

// Whether accesses of 16 bytes may begin where rows of A, B and C and of their tiles do.
inline bool is_aligned(const Gemm& g) {
  uintptr_t addresses = reinterpret_cast<uintptr_t>(g.A) | reinterpret_cast<uintptr_t>(g.B);
  addresses |= reinterpret_cast<uintptr_t>(g.C);
  return addresses % 16 == 0 && (g.lda | g.ldb | g.ldc | g.n | g.k) % 4 == 0;
}

// The driver's function of this name, as CUDA 12.0 has it; null where the driver is older.
template <typename Function>
Function* of_driver(const char* name, Function*) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}
#define GEMM_LADDER_OF_DRIVER(name) of_driver(#name, &name)

// One kernel of an image, for all devices of the process: the first workspace query of a product loads it.
class ModuleKernel {
 public:
  ModuleKernel(const void* image, const char* name) {
    auto load = GEMM_LADDER_OF_DRIVER(cuLibraryLoadData);
    auto get_kernel = GEMM_LADDER_OF_DRIVER(cuLibraryGetKernel);
    set_ = GEMM_LADDER_OF_DRIVER(cuKernelSetAttribute);
    launch_ = GEMM_LADDER_OF_DRIVER(cuLaunchKernel);
    CUlibrary library = nullptr;
    if (load == nullptr || get_kernel == nullptr || set_ == nullptr || launch_ == nullptr) {
      error_ = cudaErrorInsufficientDriver;
    } else if (CUresult error = load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0)) {
      error_ = static_cast<cudaError_t>(error);  // of equal meaning by equal numbers (driver_types.h)
    } else {
      error_ = static_cast<cudaError_t>(get_kernel(&kernel_, library, name));
    }
  }

  template <typename... Arguments>
  cudaError_t launch(dim3 grid, dim3 block, int64_t dynamic_shared_bytes, cudaStream_t stream,
                     Arguments... arguments) const {
    if (error_ != cudaSuccess) {
      return error_;
    }
    if (dynamic_shared_bytes > 48 * 1024) {
      int device = 0;
      cudaError_t error = cudaGetDevice(&device);
      if (error == cudaSuccess) {
        error = static_cast<cudaError_t>(set_(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                              static_cast<int>(dynamic_shared_bytes), kernel_, device));
      }
      if (error != cudaSuccess) {
        return error;
      }
    }
    void* parameters[] = {&arguments...};
    return static_cast<cudaError_t>(launch_(reinterpret_cast<CUfunction>(kernel_), grid.x, grid.y, grid.z, block.x,
                                            block.y, block.z, static_cast<unsigned>(dynamic_shared_bytes), stream,
                                            parameters, nullptr));
  }

 private:
  CUkernel kernel_ = nullptr;
  decltype(&cuKernelSetAttribute) set_ = nullptr;
  decltype(&cuLaunchKernel) launch_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};
