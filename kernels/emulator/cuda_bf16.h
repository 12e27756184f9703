// bfloat16 on the CPU: the type, its conversions, its arithmetic, and the intrinsics for them by their CUDA Math API
// names. A result is that of FP32 or FP64 arithmetic, rounded once.
#pragma once

#include <cmath>

#include "cuda_runtime.h"
#include "small_floats.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};
struct __nv_bfloat162_raw {
  unsigned short x, y;
};

struct alignas(2) __nv_bfloat16 {
  unsigned short bits;

  __nv_bfloat16() = default;
  constexpr __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
  EMULATOR_INLINE __nv_bfloat16(float x) : bits(emulator_ptx::bfloat_of(x).bits) {}
  EMULATOR_INLINE __nv_bfloat16(double x) : bits(emulator_ptx::bfloat_of_double(x, 'n').bits) {}
  EMULATOR_INLINE __nv_bfloat16(int x) : __nv_bfloat16(static_cast<double>(x)) {}
  EMULATOR_INLINE __nv_bfloat16(unsigned x) : __nv_bfloat16(static_cast<double>(x)) {}
  EMULATOR_INLINE __nv_bfloat16(long long x) : __nv_bfloat16(static_cast<double>(x)) {}
  EMULATOR_INLINE operator float() const { return emulator_ptx::float_of(emulator_ptx::Bfloat{bits}); }
  EMULATOR_INLINE operator __nv_bfloat16_raw() const { return {bits}; }
  // Of bits, and of a double that is rounded once.
  EMULATOR_INLINE static __nv_bfloat16 of(int bits) { return __nv_bfloat16_raw{static_cast<unsigned short>(bits)}; }
  EMULATOR_INLINE static __nv_bfloat16 of_double(double x, char mode) {
    return of(emulator_ptx::bfloat_of_double(x, mode).bits);
  }
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  constexpr __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};
using nv_bfloat162 = __nv_bfloat162;

#define EMULATOR_T __nv_bfloat16
#define EMULATOR_T2 __nv_bfloat162
#define EMULATOR_NAMED(before, behind) before##bfloat16##behind
#include "small_float_functions.h"

EMULATOR_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
