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
  EMULATOR_INLINE __nv_bfloat16& operator+=(__nv_bfloat16 other) {
    return *this = __nv_bfloat16(static_cast<float>(*this) + static_cast<float>(other));
  }
  EMULATOR_INLINE __nv_bfloat16& operator-=(__nv_bfloat16 other) {
    return *this = __nv_bfloat16(static_cast<float>(*this) - static_cast<float>(other));
  }
  EMULATOR_INLINE __nv_bfloat16& operator*=(__nv_bfloat16 other) {
    return *this = __nv_bfloat16(static_cast<float>(*this) * static_cast<float>(other));
  }
  EMULATOR_INLINE __nv_bfloat16& operator/=(__nv_bfloat16 other) {
    return *this = __nv_bfloat16(static_cast<float>(*this) / static_cast<float>(other));
  }
};
using nv_bfloat16 = __nv_bfloat16;
#define EMULATOR_BFLOAT(sign)                                                     \
  EMULATOR_INLINE __nv_bfloat16 operator sign(__nv_bfloat16 a, __nv_bfloat16 b) { \
    return __nv_bfloat16(static_cast<float>(a) sign static_cast<float>(b));       \
  }
EMULATOR_BFLOAT(+)
EMULATOR_BFLOAT(-)
EMULATOR_BFLOAT(*)
EMULATOR_BFLOAT(/)
#undef EMULATOR_BFLOAT
#define EMULATOR_BFLOAT(sign)                                            \
  EMULATOR_INLINE bool operator sign(__nv_bfloat16 a, __nv_bfloat16 b) { \
    return static_cast<float>(a) sign static_cast<float>(b);             \
  }
EMULATOR_BFLOAT(==)
EMULATOR_BFLOAT(!=)
EMULATOR_BFLOAT(<)
EMULATOR_BFLOAT(>)
EMULATOR_BFLOAT(<=)
EMULATOR_BFLOAT(>=)
#undef EMULATOR_BFLOAT
EMULATOR_INLINE __nv_bfloat16 operator-(__nv_bfloat16 a) {
  return __nv_bfloat16_raw{static_cast<unsigned short>(a.bits ^ 0x8000)};
}

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  constexpr __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};
using nv_bfloat162 = __nv_bfloat162;
#define EMULATOR_BFLOAT(sign)                                                        \
  EMULATOR_INLINE __nv_bfloat162 operator sign(__nv_bfloat162 a, __nv_bfloat162 b) { \
    return {a.x sign b.x, a.y sign b.y};                                             \
  }
EMULATOR_BFLOAT(+)
EMULATOR_BFLOAT(-)
EMULATOR_BFLOAT(*)
EMULATOR_BFLOAT(/)
#undef EMULATOR_BFLOAT

EMULATOR_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
#define EMULATOR_BFLOAT(mode)                                            \
  EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_r##mode(float x) {      \
    return __nv_bfloat16_raw{emulator_ptx::bfloat_of(x, #mode[0]).bits}; \
  }
EMULATOR_BFLOAT(z)
EMULATOR_BFLOAT(d)
EMULATOR_BFLOAT(u)
#undef EMULATOR_BFLOAT
EMULATOR_INLINE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
EMULATOR_INLINE __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
EMULATOR_INLINE float __bfloat162float(__nv_bfloat16 x) { return x; }
EMULATOR_INLINE int __bfloat162int_rn(__nv_bfloat16 x) {
  return static_cast<int>(std::nearbyint(static_cast<float>(x)));
}
EMULATOR_INLINE int __bfloat162int_rz(__nv_bfloat16 x) { return static_cast<int>(static_cast<float>(x)); }
EMULATOR_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
EMULATOR_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.bits); }
EMULATOR_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16_raw{x}; }
EMULATOR_INLINE __nv_bfloat16 __short_as_bfloat16(short x) { return __nv_bfloat16_raw{static_cast<unsigned short>(x)}; }
EMULATOR_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__nv_bfloat16(a), __nv_bfloat16(b)}; }
EMULATOR_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 a) { return {__nv_bfloat16(a.x), __nv_bfloat16(a.y)}; }
EMULATOR_INLINE __nv_bfloat162 __float2bfloat162_rn(float a) { return {__nv_bfloat16(a), __nv_bfloat16(a)}; }
EMULATOR_INLINE float2 __bfloat1622float2(__nv_bfloat162 a) { return {a.x, a.y}; }
EMULATOR_INLINE float __low2float(__nv_bfloat162 a) { return a.x; }
EMULATOR_INLINE float __high2float(__nv_bfloat162 a) { return a.y; }
EMULATOR_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
EMULATOR_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
EMULATOR_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
EMULATOR_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
EMULATOR_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
EMULATOR_INLINE __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
EMULATOR_INLINE __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
EMULATOR_INLINE __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
EMULATOR_INLINE __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return a / b; }
EMULATOR_INLINE __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -a; }
EMULATOR_INLINE __nv_bfloat16 __habs(__nv_bfloat16 a) {
  return __nv_bfloat16_raw{static_cast<unsigned short>(a.bits & 0x7FFF)};
}
EMULATOR_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __nv_bfloat16(__builtin_fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}
EMULATOR_INLINE __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return a + b; }
EMULATOR_INLINE __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return a - b; }
EMULATOR_INLINE __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return a * b; }
EMULATOR_INLINE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
EMULATOR_INLINE __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return a > b || b != b ? a : b; }
EMULATOR_INLINE __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return a < b || b != b ? a : b; }
EMULATOR_INLINE bool __hisnan(__nv_bfloat16 a) { return a != a; }
