// FP16 on the CPU: the type, its conversions, its arithmetic, and the intrinsics for them by their CUDA Math API
// names. A result is that of FP32 or FP64 arithmetic, rounded once.
#pragma once

#include <cmath>

#include "cuda_runtime.h"
#include "small_floats.h"

struct __half_raw {
  unsigned short x;
};
struct __half2_raw {
  unsigned short x, y;
};

struct alignas(2) __half {
  unsigned short bits;

  __half() = default;
  constexpr __half(__half_raw raw) : bits(raw.x) {}
  EMULATOR_INLINE __half(float x) : bits(emulator_ptx::half_of(x).bits) {}
  EMULATOR_INLINE __half(double x) : bits(emulator_ptx::half_of(x).bits) {}
  EMULATOR_INLINE __half(int x) : __half(static_cast<double>(x)) {}
  EMULATOR_INLINE __half(unsigned x) : __half(static_cast<double>(x)) {}
  EMULATOR_INLINE __half(long long x) : __half(static_cast<double>(x)) {}
  EMULATOR_INLINE operator float() const { return emulator_ptx::float_of(emulator_ptx::Half{bits}); }
  EMULATOR_INLINE operator __half_raw() const { return {bits}; }
  // Of bits, and of a double that is rounded once.
  EMULATOR_INLINE static __half of(int bits) { return __half_raw{static_cast<unsigned short>(bits)}; }
  EMULATOR_INLINE static __half of_double(double x, char mode) { return of(emulator_ptx::half_of(x, mode).bits); }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;
  __half2() = default;
  constexpr __half2(__half a, __half b) : x(a), y(b) {}
};
using half2 = __half2;

#define EMULATOR_T __half
#define EMULATOR_T2 __half2
#define EMULATOR_NAMED(before, behind) before##half##behind
#include "small_float_functions.h"

EMULATOR_INLINE __half2 __half2half2(__half a) { return {a, a}; }
