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
  EMULATOR_INLINE __half& operator+=(__half other) {
    return *this = __half(static_cast<float>(*this) + static_cast<float>(other));
  }
  EMULATOR_INLINE __half& operator-=(__half other) {
    return *this = __half(static_cast<float>(*this) - static_cast<float>(other));
  }
  EMULATOR_INLINE __half& operator*=(__half other) {
    return *this = __half(static_cast<float>(*this) * static_cast<float>(other));
  }
  EMULATOR_INLINE __half& operator/=(__half other) {
    return *this = __half(static_cast<float>(*this) / static_cast<float>(other));
  }
};
using half = __half;
#define EMULATOR_HALF(sign)                                          \
  EMULATOR_INLINE __half operator sign(__half a, __half b) {         \
    return __half(static_cast<float>(a) sign static_cast<float>(b)); \
  }
EMULATOR_HALF(+)
EMULATOR_HALF(-)
EMULATOR_HALF(*)
EMULATOR_HALF(/)
#undef EMULATOR_HALF
#define EMULATOR_HALF(sign) \
  EMULATOR_INLINE bool operator sign(__half a, __half b) { return static_cast<float>(a) sign static_cast<float>(b); }
EMULATOR_HALF(==)
EMULATOR_HALF(!=)
EMULATOR_HALF(<)
EMULATOR_HALF(>)
EMULATOR_HALF(<=)
EMULATOR_HALF(>=)
#undef EMULATOR_HALF
EMULATOR_INLINE __half operator-(__half a) { return __half_raw{static_cast<unsigned short>(a.bits ^ 0x8000)}; }

struct alignas(4) __half2 {
  __half x, y;
  __half2() = default;
  constexpr __half2(__half a, __half b) : x(a), y(b) {}
};
using half2 = __half2;
#define EMULATOR_HALF(sign) \
  EMULATOR_INLINE __half2 operator sign(__half2 a, __half2 b) { return {a.x sign b.x, a.y sign b.y}; }
EMULATOR_HALF(+)
EMULATOR_HALF(-)
EMULATOR_HALF(*)
EMULATOR_HALF(/)
#undef EMULATOR_HALF

EMULATOR_INLINE __half __float2half(float x) { return __half(x); }
EMULATOR_INLINE __half __float2half_rn(float x) { return __half(x); }
#define EMULATOR_HALF(mode) \
  EMULATOR_INLINE __half __float2half_r##mode(float x) { return __half_raw{emulator_ptx::half_of(x, #mode[0]).bits}; }
EMULATOR_HALF(z)
EMULATOR_HALF(d)
EMULATOR_HALF(u)
#undef EMULATOR_HALF
EMULATOR_INLINE __half __double2half(double x) { return __half(x); }
EMULATOR_INLINE __half __int2half_rn(int x) { return __half(x); }
EMULATOR_INLINE float __half2float(__half x) { return x; }
EMULATOR_INLINE int __half2int_rn(__half x) { return static_cast<int>(std::nearbyint(static_cast<float>(x))); }
EMULATOR_INLINE int __half2int_rz(__half x) { return static_cast<int>(static_cast<float>(x)); }
EMULATOR_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
EMULATOR_INLINE short __half_as_short(__half x) { return static_cast<short>(x.bits); }
EMULATOR_INLINE __half __ushort_as_half(unsigned short x) { return __half_raw{x}; }
EMULATOR_INLINE __half __short_as_half(short x) { return __half_raw{static_cast<unsigned short>(x)}; }
EMULATOR_INLINE __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
EMULATOR_INLINE __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
EMULATOR_INLINE __half2 __float2half2_rn(float a) { return {__half(a), __half(a)}; }
EMULATOR_INLINE float2 __half22float2(__half2 a) { return {a.x, a.y}; }
EMULATOR_INLINE float __low2float(__half2 a) { return a.x; }
EMULATOR_INLINE float __high2float(__half2 a) { return a.y; }
EMULATOR_INLINE __half __low2half(__half2 a) { return a.x; }
EMULATOR_INLINE __half __high2half(__half2 a) { return a.y; }
EMULATOR_INLINE __half2 __half2half2(__half a) { return {a, a}; }
EMULATOR_INLINE __half2 __halves2half2(__half a, __half b) { return {a, b}; }
EMULATOR_INLINE __half2 make_half2(__half a, __half b) { return {a, b}; }
EMULATOR_INLINE __half __hadd(__half a, __half b) { return a + b; }
EMULATOR_INLINE __half __hsub(__half a, __half b) { return a - b; }
EMULATOR_INLINE __half __hmul(__half a, __half b) { return a * b; }
EMULATOR_INLINE __half __hdiv(__half a, __half b) { return a / b; }
EMULATOR_INLINE __half __hneg(__half a) { return -a; }
EMULATOR_INLINE __half __habs(__half a) { return __half_raw{static_cast<unsigned short>(a.bits & 0x7FFF)}; }
EMULATOR_INLINE __half __hfma(__half a, __half b, __half c) {
  return __half(__builtin_fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}
EMULATOR_INLINE __half2 __hadd2(__half2 a, __half2 b) { return a + b; }
EMULATOR_INLINE __half2 __hsub2(__half2 a, __half2 b) { return a - b; }
EMULATOR_INLINE __half2 __hmul2(__half2 a, __half2 b) { return a * b; }
EMULATOR_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
EMULATOR_INLINE __half __hmax(__half a, __half b) { return a > b || b != b ? a : b; }
EMULATOR_INLINE __half __hmin(__half a, __half b) { return a < b || b != b ? a : b; }
EMULATOR_INLINE bool __hisnan(__half a) { return a != a; }
