// Of the driver's interface what kernels with bulk copies need: tensor maps.
#pragma once

#include "cuda_runtime.h"
#include "emulator_tensor_map.h"

#define CUDA_VERSION CUDART_VERSION

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_NOT_SUPPORTED = 801 };
using CUdevice = int;
using CUdeviceptr = unsigned long long;

struct alignas(64) CUtensorMap {
  cuuint64_t opaque[16];
};
// What a kernel without __grid_constant__ has of it, as cuda_syntax.py rewrites it: a copy in the memory of each thread.
struct EmulatorCopiedTensorMap : CUtensorMap {
  EmulatorCopiedTensorMap(const CUtensorMap& map) : CUtensorMap(map) {
    opaque[0] += emulator::COPIED_MAP_MARK - emulator::TENSOR_MAP_MARK;
  }
};
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_UINT8,
  CU_TENSOR_MAP_DATA_TYPE_UINT16,
  CU_TENSOR_MAP_DATA_TYPE_UINT32,
  CU_TENSOR_MAP_DATA_TYPE_INT32,
  CU_TENSOR_MAP_DATA_TYPE_UINT64,
  CU_TENSOR_MAP_DATA_TYPE_INT64,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
enum CUtensorMapInterleave {
  CU_TENSOR_MAP_INTERLEAVE_NONE,
  CU_TENSOR_MAP_INTERLEAVE_16B,
  CU_TENSOR_MAP_INTERLEAVE_32B
};
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
  CU_TENSOR_MAP_L2_PROMOTION_NONE,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA };

// With the limits of the CUDA Driver API's page of this function.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dimensions, void* base,
                                       const cuuint64_t* size, const cuuint64_t* stride, const cuuint32_t* box,
                                       const cuuint32_t* step, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                       CUtensorMapFloatOOBfill fill) {
  if (emulator::call_fails(__func__)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  constexpr uint8_t BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
    emulator::report_host("tensor map", "asks for an interleaved layout, which the emulator does not know");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (type < 0 || type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ || dimensions < 1 || dimensions > 5 ||
      reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(base) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  emulator::TensorMap made = {};
  made.mark = emulator::TENSOR_MAP_MARK;
  made.base = base;
  made.dimensions = static_cast<uint8_t>(dimensions);
  made.element_bytes = BYTES[type];
  made.swizzle = static_cast<uint8_t>(swizzle);
  made.tf32 = type >= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  made.floats = type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  made.fills_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  for (cuuint32_t d = 0; d < dimensions; ++d) {
    cuuint64_t apart = d == 0 ? BYTES[type] : stride[d - 1];
    if (size[d] == 0 || size[d] > 1ull << 32 || box[d] == 0 || box[d] > 256 || step[d] == 0 || step[d] > 8 ||
        (d > 0 && (apart % 16 != 0 || apart >= 1ull << 40))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    made.size[d] = size[d];
    made.stride[d] = apart;
    made.box[d] = static_cast<uint16_t>(box[d]);
    made.step[d] = static_cast<uint8_t>(step[d]);
  }
  unsigned row_bytes = box[0] * BYTES[type];
  if (row_bytes % 16 != 0 || (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && row_bytes > 16u << swizzle) ||
      (made.fills_nan && !made.floats)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  static_assert(sizeof made == sizeof *map, "kept in the map itself");
  memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}

// The runtime's way to a function of the driver.
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
  cudaDriverEntryPointVersionNotSufficent
};
enum { cudaEnableDefault = 0, cudaEnableLegacyStream = 1, cudaEnablePerThreadDefaultStream = 2 };
inline cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                           cudaDriverEntryPointQueryResult* found = nullptr) {
  EMULATOR_CALL
  bool known = strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(cuTensorMapEncodeTiled) : nullptr;
  if (found != nullptr) {
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
// The driver has each function from a version of CUDA on, the tensor map's from 12.0.
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                    unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* found = nullptr) {
  cudaError_t error = cudaGetDriverEntryPoint(symbol, function, flags, found);
  if (error == cudaSuccess && *function != nullptr && version < 12000) {
    *function = nullptr;
    if (found != nullptr) {
      *found = cudaDriverEntryPointVersionNotSufficent;
    }
  }
  return error;
}
