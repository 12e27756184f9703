// FP16 and bfloat16 on the CPU: their bits, and conversions with each rounding mode of PTX.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "emulator.h"

namespace emulator_ptx {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
struct Half2 {
  Half x, y;
};
struct Bfloat2 {
  Bfloat x, y;
};
template <typename To, typename From>
EMULATOR_INLINE To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
// Halves (IEEE 754 binary16) and bfloat16, as floats.
inline float float_of(Half x) {
  uint32_t sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, mantissa = x.bits & 0x3FFu;
  if (exponent == 31) {
    return as<float>(sign | 0x7F800000u | mantissa << 13);
  }
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return as<float>(sign | as<uint32_t>(magnitude));
  }
  return as<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
EMULATOR_INLINE float float_of(Bfloat x) { return as<float>(static_cast<uint32_t>(x.bits) << 16); }
// Whether a magnitude of which `rest` of `unit` is cut off goes up.
EMULATOR_INLINE bool goes_up(uint64_t kept, uint64_t rest, uint64_t unit, bool negative, char mode) {
  switch (mode) {
    case 'n':
      return rest > unit / 2 || (rest == unit / 2 && (kept & 1));
    case 'a':
      return rest >= unit / 2;
    case 'd':
    case 'm':
      return negative && rest != 0;
    case 'u':
    case 'p':
      return !negative && rest != 0;
    default:
      return false;
  }
}
inline Half half_of(double x, char mode = 'n') {
  uint64_t bits = as<uint64_t>(x), magnitude = bits & ~(1ull << 63);
  auto sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  bool negative = sign != 0;
  if (magnitude >= 0x7FF0000000000000ull) {
    return {static_cast<uint16_t>(magnitude > 0x7FF0000000000000ull ? 0x7FFF : sign | 0x7C00)};
  }
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  uint64_t mantissa = (magnitude & ((1ull << 52) - 1)) | (magnitude >> 52 ? 1ull << 52 : 0);
  int cut = exponent < -14 ? 42 - 14 - exponent : 42;  // bits below the last place
  if (cut > 54) {
    cut = 54;
    mantissa = mantissa != 0;
  }
  uint64_t kept = mantissa >> cut, rest = mantissa & ((1ull << cut) - 1);
  kept += goes_up(kept, rest, 1ull << cut, negative, mode);
  uint64_t result = exponent < -14 ? kept : kept + (static_cast<uint64_t>(exponent + 14) << 10);
  if (result >= 0x7C00) {
    result = mode == 'z' || ((mode == 'm' || mode == 'd') && !negative) || ((mode == 'p' || mode == 'u') && negative)
                 ? 0x7BFF
                 : 0x7C00;
  }
  return {static_cast<uint16_t>(sign | result)};
}
// Rounds a float to fewer bits: the lowest `cut` become zero.
inline uint32_t float_cut(uint32_t bits, int cut, char mode) {
  uint32_t magnitude = bits & 0x7FFFFFFFu, unit = 1u << cut, rest = magnitude & (unit - 1);
  if (magnitude > 0x7F800000u) {
    return 0x7FFFFFFFu;
  }
  if (magnitude == 0x7F800000u) {
    return bits;
  }
  uint32_t kept = magnitude >> cut;
  kept += goes_up(kept, rest, unit, bits >> 31, mode);
  return (bits & 0x80000000u) | kept << cut;
}
EMULATOR_INLINE Bfloat bfloat_of(float x, char mode = 'n') {
  return {static_cast<uint16_t>(float_cut(as<uint32_t>(x), 16, mode) >> 16)};
}
// By way of a double that has what is lost in its last bit, so that nothing is rounded twice.
inline Bfloat bfloat_of_double(double x, char mode) {
  float nearest = static_cast<float>(x);
  if (__builtin_isfinite(nearest) && static_cast<double>(nearest) != x) {
    bool beyond = __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
    nearest = as<float>((as<uint32_t>(nearest) - beyond) | 1);
  }
  return bfloat_of(nearest, mode);
}

}  // namespace emulator_ptx
