// The functions that <cuda_fp16.h> and <cuda_bf16.h> have for a type each, by their CUDA Math API names. Both include
// this file: EMULATOR_T is the type, EMULATOR_T2 a pair of it, EMULATOR_NAMED(a, b) a name around that of the type.

#define EMULATOR_EACH(sign)                                                                                        \
  EMULATOR_INLINE EMULATOR_T operator sign(EMULATOR_T a, EMULATOR_T b) {                                           \
    return EMULATOR_T(static_cast<float>(a) sign static_cast<float>(b));                                           \
  }                                                                                                                \
  EMULATOR_INLINE EMULATOR_T2 operator sign(EMULATOR_T2 a, EMULATOR_T2 b) { return {a.x sign b.x, a.y sign b.y}; } \
  EMULATOR_INLINE EMULATOR_T& operator sign## = (EMULATOR_T & a, EMULATOR_T b) { return a = a sign b; }            \
  EMULATOR_INLINE EMULATOR_T2& operator sign## = (EMULATOR_T2 & a, EMULATOR_T2 b) { return a = a sign b; }
EMULATOR_EACH(+)
EMULATOR_EACH(-)
EMULATOR_EACH(*)
EMULATOR_EACH(/)
#undef EMULATOR_EACH
EMULATOR_INLINE EMULATOR_T operator-(EMULATOR_T a) { return EMULATOR_T::of(a.bits ^ 0x8000); }
EMULATOR_INLINE EMULATOR_T2 operator-(EMULATOR_T2 a) { return {-a.x, -a.y}; }

EMULATOR_INLINE bool __hisnan(EMULATOR_T a) { return std::isnan(static_cast<float>(a)); }
EMULATOR_INLINE int __hisinf(EMULATOR_T a) {
  return std::isinf(static_cast<float>(a)) ? static_cast<float>(a) < 0 ? -1 : 1 : 0;
}
// Comparisons; those that end in u are true for NaN. Of pairs: 1 or 0 for each, and whether both are so.
#define EMULATOR_EACH(name, sign)                                                                                  \
  EMULATOR_INLINE bool operator sign(EMULATOR_T a, EMULATOR_T b) {                                                 \
    return static_cast<float>(a) sign static_cast<float>(b);                                                       \
  }                                                                                                                \
  EMULATOR_INLINE bool __h##name##u(EMULATOR_T a, EMULATOR_T b) { return __hisnan(a) || __hisnan(b) || a sign b; } \
  EMULATOR_INLINE bool __h##name(EMULATOR_T a, EMULATOR_T b) { return !__hisnan(a) && !__hisnan(b) && a sign b; }  \
  EMULATOR_INLINE EMULATOR_T2 __h##name##2(EMULATOR_T2 a, EMULATOR_T2 b) {                                         \
    return {EMULATOR_T(__h##name(a.x, b.x) ? 1.0f : 0.0f), EMULATOR_T(__h##name(a.y, b.y) ? 1.0f : 0.0f)};         \
  }                                                                                                                \
  EMULATOR_INLINE bool __hb##name##2(EMULATOR_T2 a, EMULATOR_T2 b) {                                               \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                                             \
  }
EMULATOR_EACH(eq, ==)
EMULATOR_EACH(ne, !=)
EMULATOR_EACH(lt, <)
EMULATOR_EACH(le, <=)
EMULATOR_EACH(gt, >)
EMULATOR_EACH(ge, >=)
#undef EMULATOR_EACH

EMULATOR_INLINE EMULATOR_T emulator_saturated(EMULATOR_T a) {
  float x = a;
  return x > 0 ? x < 1 ? a : EMULATOR_T(1.0f) : EMULATOR_T(0.0f);
}
EMULATOR_INLINE EMULATOR_T emulator_relu(EMULATOR_T a) {
  return static_cast<float>(a) > 0 || __hisnan(a) ? a : EMULATOR_T(0.0f);
}
#define EMULATOR_OF_TWO(name, pairs, ...)                                             \
  EMULATOR_INLINE EMULATOR_T name(EMULATOR_T a, EMULATOR_T b) { return __VA_ARGS__; } \
  EMULATOR_INLINE EMULATOR_T2 pairs(EMULATOR_T2 a, EMULATOR_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
EMULATOR_OF_TWO(__hadd, __hadd2, a + b)
EMULATOR_OF_TWO(__hsub, __hsub2, a - b)
EMULATOR_OF_TWO(__hmul, __hmul2, a* b)
EMULATOR_OF_TWO(__hdiv, __h2div, a / b)
EMULATOR_OF_TWO(__hadd_rn, __hadd2_rn, a + b)
EMULATOR_OF_TWO(__hsub_rn, __hsub2_rn, a - b)
EMULATOR_OF_TWO(__hmul_rn, __hmul2_rn, a* b)
EMULATOR_OF_TWO(__hadd_sat, __hadd2_sat, emulator_saturated(a + b))
EMULATOR_OF_TWO(__hsub_sat, __hsub2_sat, emulator_saturated(a - b))
EMULATOR_OF_TWO(__hmul_sat, __hmul2_sat, emulator_saturated(a* b))
EMULATOR_OF_TWO(__hmax, __hmax2, a > b || __hisnan(b) ? a : b)
EMULATOR_OF_TWO(__hmin, __hmin2, a < b || __hisnan(b) ? a : b)
EMULATOR_OF_TWO(__hmax_nan, __hmax2_nan, a > b || __hisnan(a) ? a : b)
EMULATOR_OF_TWO(__hmin_nan, __hmin2_nan, a < b || __hisnan(a) ? a : b)
#undef EMULATOR_OF_TWO
#define EMULATOR_FMA(more, ...)                                                                          \
  EMULATOR_INLINE EMULATOR_T __hfma##more(EMULATOR_T a, EMULATOR_T b, EMULATOR_T c) {                    \
    return __VA_ARGS__(                                                                                  \
        EMULATOR_T(__builtin_fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)))); \
  }                                                                                                      \
  EMULATOR_INLINE EMULATOR_T2 __hfma2##more(EMULATOR_T2 a, EMULATOR_T2 b, EMULATOR_T2 c) {               \
    return {__hfma##more(a.x, b.x, c.x), __hfma##more(a.y, b.y, c.y)};                                   \
  }
EMULATOR_FMA()
EMULATOR_FMA(_sat, emulator_saturated)
EMULATOR_FMA(_relu, emulator_relu)
#undef EMULATOR_FMA
#define EMULATOR_OF_ONE(name, pairs, ...)              \
  EMULATOR_INLINE EMULATOR_T name(EMULATOR_T a) {      \
    [[maybe_unused]] double x = static_cast<float>(a); \
    return __VA_ARGS__;                                \
  }                                                    \
  EMULATOR_INLINE EMULATOR_T2 pairs(EMULATOR_T2 a) { return {name(a.x), name(a.y)}; }
EMULATOR_OF_ONE(__hneg, __hneg2, -a)
EMULATOR_OF_ONE(__habs, __habs2, EMULATOR_T::of(a.bits & 0x7FFF))
#define EMULATOR_FUNCTION(name, ...) EMULATOR_OF_ONE(h##name, h2##name, EMULATOR_T(__VA_ARGS__))
EMULATOR_FUNCTION(rcp, 1 / x)
EMULATOR_FUNCTION(sqrt, std::sqrt(x))
EMULATOR_FUNCTION(rsqrt, 1 / std::sqrt(x))
EMULATOR_FUNCTION(exp, std::exp(x))
EMULATOR_FUNCTION(exp2, std::exp2(x))
EMULATOR_FUNCTION(exp10, std::pow(10.0, x))
EMULATOR_FUNCTION(log, std::log(x))
EMULATOR_FUNCTION(log2, std::log2(x))
EMULATOR_FUNCTION(log10, std::log10(x))
EMULATOR_FUNCTION(sin, std::sin(x))
EMULATOR_FUNCTION(cos, std::cos(x))
EMULATOR_FUNCTION(floor, std::floor(x))
EMULATOR_FUNCTION(ceil, std::ceil(x))
EMULATOR_FUNCTION(rint, std::nearbyint(x))
EMULATOR_FUNCTION(trunc, std::trunc(x))
#undef EMULATOR_FUNCTION
#undef EMULATOR_OF_ONE

#define EMULATOR_WITH_MODE(type, name, mode)                                 \
  EMULATOR_INLINE type EMULATOR_NAMED(__, 2##name##_r##mode)(EMULATOR_T a) { \
    return emulator_whole<type>(static_cast<float>(a), #mode[0]);            \
  }                                                                          \
  EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__##name##2, _r##mode)(type x) { \
    return EMULATOR_T::of_double(x, #mode[0]);                               \
  }
#define EMULATOR_WHOLE(type, name)  \
  EMULATOR_WITH_MODE(type, name, n) \
  EMULATOR_WITH_MODE(type, name, z) \
  EMULATOR_WITH_MODE(type, name, d) \
  EMULATOR_WITH_MODE(type, name, u)
EMULATOR_WHOLE(int, int)
EMULATOR_WHOLE(unsigned, uint)
EMULATOR_WHOLE(short, short)
EMULATOR_WHOLE(unsigned short, ushort)
#undef EMULATOR_WHOLE
#undef EMULATOR_WITH_MODE
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__double2, )(double x) { return EMULATOR_T(x); }
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__float2, )(float x) { return EMULATOR_T(x); }
#define EMULATOR_WITH_MODE(mode) \
  EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__float2, _r##mode)(float x) { return EMULATOR_T::of_double(x, #mode[0]); }
EMULATOR_WITH_MODE(n)
EMULATOR_WITH_MODE(z)
EMULATOR_WITH_MODE(d)
EMULATOR_WITH_MODE(u)
#undef EMULATOR_WITH_MODE
EMULATOR_INLINE float EMULATOR_NAMED(__, 2float)(EMULATOR_T x) { return x; }
EMULATOR_INLINE unsigned short EMULATOR_NAMED(__, _as_ushort)(EMULATOR_T x) { return x.bits; }
EMULATOR_INLINE short EMULATOR_NAMED(__, _as_short)(EMULATOR_T x) { return static_cast<short>(x.bits); }
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__ushort_as_, )(unsigned short x) { return EMULATOR_T::of(x); }
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__short_as_, )(short x) { return EMULATOR_T::of(x); }

EMULATOR_INLINE float __low2float(EMULATOR_T2 a) { return a.x; }
EMULATOR_INLINE float __high2float(EMULATOR_T2 a) { return a.y; }
EMULATOR_INLINE EMULATOR_T2 __lowhigh2highlow(EMULATOR_T2 a) { return {a.y, a.x}; }
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__low2, )(EMULATOR_T2 a) { return a.x; }
EMULATOR_INLINE EMULATOR_T EMULATOR_NAMED(__high2, )(EMULATOR_T2 a) { return a.y; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__low2, 2)(EMULATOR_T2 a) { return {a.x, a.x}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__high2, 2)(EMULATOR_T2 a) { return {a.y, a.y}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__lows2, 2)(EMULATOR_T2 a, EMULATOR_T2 b) { return {a.x, b.x}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__highs2, 2)(EMULATOR_T2 a, EMULATOR_T2 b) { return {a.y, b.y}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__halves2, 2)(EMULATOR_T a, EMULATOR_T b) { return {a, b}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(make_, 2)(EMULATOR_T a, EMULATOR_T b) { return {a, b}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__floats2, 2_rn)(float a, float b) { return {EMULATOR_T(a), EMULATOR_T(b)}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__float22, 2_rn)(float2 a) { return {EMULATOR_T(a.x), EMULATOR_T(a.y)}; }
EMULATOR_INLINE EMULATOR_T2 EMULATOR_NAMED(__float2, 2_rn)(float a) { return {EMULATOR_T(a), EMULATOR_T(a)}; }
EMULATOR_INLINE float2 EMULATOR_NAMED(__, 22float2)(EMULATOR_T2 a) { return {a.x, a.y}; }

#undef EMULATOR_T
#undef EMULATOR_T2
#undef EMULATOR_NAMED
