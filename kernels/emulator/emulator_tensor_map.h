// What cuTensorMapEncodeTiled makes (cuda.h) and the bulk copies read (emulator_ptx.h): 128 bytes.
#pragma once

#include <stdint.h>

namespace emulator {

constexpr uint64_t TENSOR_MAP_MARK = 0x70616D726F736E65ull, COPIED_MAP_MARK = TENSOR_MAP_MARK + 1;

struct alignas(64) TensorMap {
  uint64_t mark;
  void* base;
  uint64_t size[5], stride[5];  // elements, bytes
  uint16_t box[5];
  uint8_t step[5];
  uint8_t dimensions, element_bytes, swizzle;  // 0 to 3: none, 32, 64, 128 bytes
  bool tf32, floats, fills_nan;
};
static_assert(sizeof(TensorMap) == 128, "as CUtensorMap");

}  // namespace emulator
